/* Software-defined events (PAPI's libsde): what libraries of the program tell of themselves.
 *
 * Values come from libsde's interface for tools (sde_ti_…), the one that PAPI itself reads, so that the program
 * needs no PAPI and its own event sets are left alone. That interface does not tell the type of a value: the
 * functions that register events are therefore defined here as well, note it, and go on to libsde's.
 * Danalis et al., Software-defined Events through PAPI, HIPS 2019; sde_lib.h of PAPI 7.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "variables.h"

#define OURS __attribute__((visibility("default")))

/* sde_lib.h */
enum { SDE_OK = 0, SDE_ECMP = -4 };
enum { SDE_INSTANT = 0x10 };
enum { SDE_LONG_LONG, SDE_INT, SDE_DOUBLE, SDE_FLOAT };
enum { SDE_SUM };
typedef struct element {
    uint32_t count, type_id;
    size_t type_size;
    void *ptr;
    struct element *next;
} element;
typedef long long (*callback_function)(void *);
typedef int (*compare_function)(const void *, const void *);

typedef enum { VALUE, RECORDER, COUNTING_SET } event_class;
typedef enum { LONG_LONG, INT, DOUBLE, FLOAT, UNKNOWN } value_type;

/* An event as its library registered it. */
typedef struct {
    char name[128]; /* LIBRARY::EVENT */
    const char *what;
    event_class class;
    value_type type;
    bool level; /* else it counts */
} event;

/* As libsde numbers them; first column, -1: none wanted or none left. */
typedef struct {
    const event *event; /* NULL: not seen yet, or not registered by a function that is known here */
    int column;
    bool passed_over; /* not asked for, or read with its recorder */
} numbered;

enum { EVENTS = 2048, LIBRARIES = 64, SHORT = 16384, MARKS = 7 };
static const char *const marks[MARKS] = {":CNT", ":MIN", ":Q1", ":MED", ":Q3", ":MAX", ":LAST"};

static struct {
    void *handle;
    char name[64];
} libraries[LIBRARIES];
static event events[EVENTS];
static numbered numbers[EVENTS];
static int known_libraries, known_events;
/* libsde copies a recorder without its lock: no record may come meanwhile, but of a function that is an event. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* libsde's own; NULL where it is not loaded. A library that was loaded for itself brings it out of the others'
 * sight. */
static void *of_libsde(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name), *libsde;
    if (found == NULL && (libsde = dlopen("libsde.so.1", RTLD_LAZY | RTLD_NOLOAD)) != NULL)
        found = dlsym(libsde, name); /* which stays loaded from now on */
    return found;
}

#define NEXT(function) ((__typeof__(&function))of_libsde(#function))

/* ---- what libraries register ---- */

static event *find(const char *name)
{
    for (int i = 0; i < known_events; i++)
        if (strcmp(events[i].name, name) == 0)
            return &events[i];
    return NULL;
}

static void name_of(void *library, const char *name, char full[128])
{
    const char *prefix = "?";
    for (int i = 0; i < known_libraries; i++)
        if (libraries[i].handle == library)
            prefix = libraries[i].name;
    snprintf(full, 128, "%s::%s", prefix, name);
}

static void note(void *library, const char *name, const char *what, event_class class, value_type type, bool level)
{
    char full[128];
    pthread_mutex_lock(&lock);
    name_of(library, name, full);
    event *each = find(full);
    if (each == NULL && known_events < EVENTS)
        each = &events[known_events++];
    if (each != NULL) {
        memcpy(each->name, full, sizeof full);
        each->what = what;
        each->class = class;
        each->type = type;
        each->level = level;
    }
    pthread_mutex_unlock(&lock);
}

static value_type type_of(int type)
{
    return type >= SDE_LONG_LONG && type <= SDE_FLOAT ? (value_type)type : UNKNOWN;
}

OURS void *papi_sde_init(const char *library)
{
    __typeof__(&papi_sde_init) next = NEXT(papi_sde_init);
    void *handle = next == NULL ? NULL : next(library);
    if (handle != NULL) {
        pthread_mutex_lock(&lock);
        if (known_libraries < LIBRARIES) {
            libraries[known_libraries].handle = handle;
            snprintf(libraries[known_libraries++].name, sizeof libraries[0].name, "%s", library);
        }
        pthread_mutex_unlock(&lock);
    }
    return handle;
}

OURS int papi_sde_register_counter(void *library, const char *name, int mode, int type, void *counter)
{
    __typeof__(&papi_sde_register_counter) next = NEXT(papi_sde_register_counter);
    int code = next == NULL ? SDE_ECMP : next(library, name, mode, type, counter);
    if (code == SDE_OK)
        note(library, name, "registered counter", VALUE, type_of(type), mode & SDE_INSTANT);
    return code;
}

OURS int papi_sde_register_counter_cb(void *library, const char *name, int mode, int type, callback_function callback,
                                      void *parameter)
{
    __typeof__(&papi_sde_register_counter_cb) next = NEXT(papi_sde_register_counter_cb);
    int code = next == NULL ? SDE_ECMP : next(library, name, mode, type, callback, parameter);
    if (code == SDE_OK)
        note(library, name, "function", VALUE, type_of(type), mode & SDE_INSTANT);
    return code;
}

OURS int papi_sde_create_counter(void *library, const char *name, int mode, void **counter)
{
    __typeof__(&papi_sde_create_counter) next = NEXT(papi_sde_create_counter);
    int code = next == NULL ? SDE_ECMP : next(library, name, mode, counter);
    if (code == SDE_OK)
        note(library, name, "created counter", VALUE, LONG_LONG, mode & SDE_INSTANT);
    return code;
}

/* By the address that the program knows, or libsde's. */
static bool is(compare_function compare, const char *name)
{
    return compare != NULL && ((void *)compare == dlsym(RTLD_DEFAULT, name) || (void *)compare == of_libsde(name));
}

OURS int papi_sde_create_recorder(void *library, const char *name, size_t size, compare_function compare,
                                  void **recorder)
{
    __typeof__(&papi_sde_create_recorder) next = NEXT(papi_sde_create_recorder);
    int code = next == NULL ? SDE_ECMP : next(library, name, size, compare, recorder);
    value_type type = UNKNOWN;
    /* libsde's own functions tell the type; of others nothing is known but the size */
    if (is(compare, "papi_sde_compare_double") && size == sizeof(double))
        type = DOUBLE;
    else if (is(compare, "papi_sde_compare_float") && size == sizeof(float))
        type = FLOAT;
    else if (is(compare, "papi_sde_compare_int") && size == sizeof(int))
        type = INT;
    else if (is(compare, "papi_sde_compare_long_long") && size == sizeof(long long))
        type = LONG_LONG;
    if (code == SDE_OK)
        note(library, name, "recorder", RECORDER, type, true);
    return code;
}

OURS int papi_sde_create_counting_set(void *library, const char *name, void **set)
{
    __typeof__(&papi_sde_create_counting_set) next = NEXT(papi_sde_create_counting_set);
    int code = next == NULL ? SDE_ECMP : next(library, name, set);
    if (code == SDE_OK)
        note(library, name, "counting set", COUNTING_SET, LONG_LONG, true);
    return code;
}

OURS int papi_sde_add_counter_to_group(void *library, const char *name, const char *group, uint32_t flags)
{
    __typeof__(&papi_sde_add_counter_to_group) next = NEXT(papi_sde_add_counter_to_group);
    int code = next == NULL ? SDE_ECMP : next(library, name, group, flags);
    if (code == SDE_OK) {
        char full[128];
        name_of(library, name, full);
        const event *member = find(full);
        note(library, group, "group", VALUE, member == NULL ? UNKNOWN : member->type,
             flags != SDE_SUM || member == NULL || member->level);
    }
    return code;
}

/* Functions that change what is read go through the lock. */
#define LOCKED(function, ...)                              \
    static __typeof__(&function) next;                     \
    if (next == NULL && (next = NEXT(function)) == NULL)   \
        return SDE_ECMP;                                   \
    pthread_mutex_lock(&lock);                             \
    int code = next(__VA_ARGS__);                          \
    pthread_mutex_unlock(&lock);                           \
    return code

OURS int papi_sde_record(void *recorder, size_t size, const void *value)
{
    LOCKED(papi_sde_record, recorder, size, value);
}

OURS int papi_sde_reset_recorder(void *recorder)
{
    LOCKED(papi_sde_reset_recorder, recorder);
}

OURS int papi_sde_counting_set_insert(void *set, size_t size, size_t hashable, const void *value, uint32_t type)
{
    LOCKED(papi_sde_counting_set_insert, set, size, hashable, value, type);
}

OURS int papi_sde_counting_set_remove(void *set, size_t hashable, const void *value, uint32_t type)
{
    LOCKED(papi_sde_counting_set_remove, set, hashable, value, type);
}

OURS int papi_sde_unregister_counter(void *library, const char *name)
{
    LOCKED(papi_sde_unregister_counter, library, name);
}

OURS int papi_sde_shutdown(void *library)
{
    LOCKED(papi_sde_shutdown, library);
}

/* The rest of the interface, since libraries refer to it weakly: they take all of it to be there where one function
 * is. */
#define PASSED_ON(missing, function, ...)                  \
    static __typeof__(&function) next;                     \
    if (next == NULL && (next = NEXT(function)) == NULL)   \
        return missing;                                    \
    return next(__VA_ARGS__)

OURS int papi_sde_describe_counter(void *library, const char *name, const char *description)
{
    PASSED_ON(SDE_ECMP, papi_sde_describe_counter, library, name, description);
}

OURS int papi_sde_inc_counter(void *counter, long long increment)
{
    PASSED_ON(SDE_ECMP, papi_sde_inc_counter, counter, increment);
}

OURS int papi_sde_reset_counter(void *counter)
{
    PASSED_ON(SDE_ECMP, papi_sde_reset_counter, counter);
}

OURS void *papi_sde_get_counter_handle(void *library, const char *name)
{
    PASSED_ON(NULL, papi_sde_get_counter_handle, library, name);
}

/* ---- reading them ---- */

static struct {
    int (*count)(void);
    char *(*name)(int);
    char *(*description)(int);
    int (*read)(uint32_t, long long *);
} tool;

static bool find_libsde(void)
{
    if (tool.read != NULL)
        return true;
    tool.count = of_libsde("sde_ti_get_num_reg_events");
    tool.name = of_libsde("sde_ti_get_event_name");
    tool.description = of_libsde("sde_ti_get_event_description");
    tool.read = of_libsde("sde_ti_read_counter");
    if (tool.count == NULL || tool.name == NULL || tool.description == NULL)
        tool.read = NULL;
    return tool.read != NULL;
}

/* A column for LIBRARY::EVENT and one behind it for each further mark; -1. */
static int add_columns(const event *each, const char *description, const char *const *endings, int n)
{
    char name[160], about[224];
    bool described = description != NULL && strcmp(description, each->name) != 0;
    snprintf(about, sizeof about, "%s%s%s", each->what, described ? ": " : "", described ? description : "");
    int first = -1;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "sde:::%.100s%s", each->name, endings[i]);
        int column = npc_column_find(name); /* registered anew */
        if (column < 0) {
            bool count = strcmp(endings[i], ":CNT") == 0 || !each->level;
            column = npc_column_add(name, count ? "counter" : "level", "", about);
        }
        if (column < 0)
            return -1;
        if (first < 0)
            first = column;
    }
    return first;
}

/* Of a recorder, those that libsde makes beside it. */
static bool is_beside(const char *name)
{
    char recorder[128];
    const char *mark = strrchr(name, ':');
    if (mark == NULL || mark == name || mark[-1] == ':')
        return false;
    snprintf(recorder, sizeof recorder, "%.*s", (int)(mark - name), name);
    const event *each = find(recorder);
    return each != NULL && each->class == RECORDER;
}

static int columns_for(const event *each, const char *description)
{
    static const char *const plain[] = {""}, *const set[] = {":DISTINCT", ":CNT"};
    if (each->class == RECORDER)
        return add_columns(each, description, marks, each->type == UNKNOWN ? 1 : MARKS);
    if (each->class == COUNTING_SET)
        return add_columns(each, description, set, 2);
    return each->type == UNKNOWN ? -1 : add_columns(each, description, plain, 1);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void copy_records(double *to, const void *from, value_type type, long long n)
{
    for (long long i = 0; i < n; i++)
        to[i] = type == DOUBLE  ? ((const double *)from)[i]
                : type == FLOAT ? ((const float *)from)[i]
                : type == INT   ? ((const int *)from)[i]
                                : (double)((const long long *)from)[i];
}

/* libsde numbers the count of a recorder's entries right behind the recorder (papi_sde_create_recorder). */
static void read_recorder(int id, const numbered *number, bool whole)
{
    char count_name[160];
    const char *beside = tool.name(id + 1);
    long long n, pointer = 0;
    snprintf(count_name, sizeof count_name, "%s:CNT", number->event->name);
    if (beside == NULL || strcmp(beside, count_name) != 0 || tool.read((uint32_t)id + 1, &n) != SDE_OK)
        return;
    npc_column_set(number->column, (double)n);
    if (number->event->type == UNKNOWN)
        return;
    for (int i = 1; i < MARKS; i++)
        npc_column_set(number->column + i, NAN);
    if (n <= 0 || (!whole && n > SHORT) || tool.read((uint32_t)id, &pointer) != SDE_OK || pointer == 0)
        return;
    double *values = malloc((size_t)n * sizeof *values);
    if (values != NULL) {
        copy_records(values, (const void *)pointer, number->event->type, n);
        npc_column_set(number->column + MARKS - 1, values[n - 1]);
        qsort(values, (size_t)n, sizeof *values, ascending);
        /* as libsde takes them: the element at n·p/100 */
        for (int i = 1; i < MARKS - 1; i++)
            npc_column_set(number->column + i, values[i == 5 ? n - 1 : n * (i - 1) * 25 / 100]);
        free(values);
    }
    free((void *)pointer);
}

static void read_set(int id, const numbered *number)
{
    long long pointer = 0, distinct = 0, elements = 0;
    if (tool.read((uint32_t)id, &pointer) != SDE_OK)
        return;
    for (element *each = (element *)pointer, *next; each != NULL; each = next) {
        distinct++;
        elements += each->count;
        next = each->next;
        free(each->ptr);
        free(each);
    }
    npc_column_set(number->column, (double)distinct);
    npc_column_set(number->column + 1, (double)elements);
}

static void read_value(int id, const numbered *number)
{
    union {
        long long integer;
        double real;
    } value;
    double result = NAN;
    if (tool.read((uint32_t)id, &value.integer) == SDE_OK)
        result = number->event->type == DOUBLE || number->event->type == FLOAT ? value.real : (double)value.integer;
    npc_column_set(number->column, result);
}

static void read_event(int id, const numbered *number, bool whole)
{
    if (number->event->class == RECORDER)
        read_recorder(id, number, whole);
    else if (number->event->class == COUNTING_SET)
        read_set(id, number);
    else
        read_value(id, number);
}

void npc_events_read(npc_table *table, bool whole)
{
    if (table->sde.names[0] == 0)
        return;
    table->no_sde = !find_libsde();
    if (table->no_sde)
        return;
    pthread_mutex_lock(&lock);
    table->untyped = 0;
    int n = tool.count();
    for (int id = 0; id < n && id < EVENTS; id++) {
        numbered *number = &numbers[id];
        const char *name = tool.name(id);
        if (name == NULL || number->passed_over)
            continue; /* one that was taken away leaves what is no number */
        if (number->event == NULL) {
            number->passed_over = is_beside(name) || !npc_chosen(&table->sde, name);
            if (number->passed_over)
                continue;
            if ((number->event = find(name)) != NULL)
                number->column = columns_for(number->event, tool.description(id));
        }
        table->untyped += number->event == NULL || number->event->type == UNKNOWN;
        if (number->event != NULL && number->column >= 0)
            read_event(id, number, whole);
    }
    pthread_mutex_unlock(&lock);
}
