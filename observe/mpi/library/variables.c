#define _GNU_SOURCE
#include "internal.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "variables.h"

/* Not linked with an MPI: see runtime.h. */
#pragma weak PMPI_T_init_thread
#pragma weak PMPI_T_pvar_get_num
#pragma weak PMPI_T_pvar_get_info
#pragma weak PMPI_T_pvar_session_create
#pragma weak PMPI_T_pvar_handle_alloc
#pragma weak PMPI_T_pvar_start
#pragma weak PMPI_T_pvar_read
#pragma weak PMPI_Type_get_name

int64_t npc_next_snapshot = INT64_MAX;

/* A variable that is read: of an array (by peer) the sum, of watermarks the extreme. */
typedef enum { SIGNED, UNSIGNED, SIGNED_LONG, UNSIGNED_LONG, REAL } number;
typedef struct {
    MPI_T_pvar_handle handle;
    number type;
    int klass, count, column;
    double extreme; /* so far: Open MPI sets watermarks back when they are read */
    double zero;    /* MPICH 4's timers begin at minus the time of day (MPL_wtime_todouble of a sum) */
} variable;

enum { TOTALS = 6, MOST_VALUES = 1 << 20 };

/* Seconds between snapshots. */
#define SHORTEST 1e-5
#define LONGEST 1e6

static npc_table *table;
static variable variables[NPC_COLUMNS];
static int read_variables, known_variables;
static MPI_T_pvar_session session;
static void *values; /* of the longest array */
static int totals_column;

/* ---- MPI_T ---- */

/* NULL: a class that is not read. */
static const char *kind_of(int klass)
{
    switch (klass) {
    case MPI_T_PVAR_CLASS_COUNTER: return "counter";
    case MPI_T_PVAR_CLASS_AGGREGATE: return "aggregate";
    case MPI_T_PVAR_CLASS_TIMER: return "timer";
    case MPI_T_PVAR_CLASS_SIZE: return "size";
    case MPI_T_PVAR_CLASS_LEVEL: return "level";
    case MPI_T_PVAR_CLASS_PERCENTAGE: return "percentage";
    case MPI_T_PVAR_CLASS_HIGHWATERMARK: return "highwatermark";
    case MPI_T_PVAR_CLASS_LOWWATERMARK: return "lowwatermark";
    default: return NULL;
    }
}

/* By name and size: predefined datatypes are data of the MPI library, which may be loaded after this one. */
static bool type_of(MPI_Datatype datatype, number *type)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length, bytes;
    if (PMPI_Type_get_name(datatype, name, &length) != MPI_SUCCESS ||
        PMPI_Type_size(datatype, &bytes) != MPI_SUCCESS || (bytes != 4 && bytes != 8))
        return false;
    if (strcmp(name, "MPI_DOUBLE") == 0)
        *type = REAL;
    else if (strncmp(name, "MPI_UNSIGNED", 12) == 0 || strncmp(name, "MPI_UINT", 8) == 0)
        *type = bytes == 4 ? UNSIGNED : UNSIGNED_LONG;
    else if (strncmp(name, "MPI_INT", 7) == 0 || strncmp(name, "MPI_LONG", 8) == 0 || strcmp(name, "MPI_COUNT") == 0)
        *type = bytes == 4 ? SIGNED : SIGNED_LONG;
    else
        return false;
    return true;
}

/* Open MPI keeps the variables of transports (MTL) that it did not choose, and reads them through a null pointer
 * (4.1.4 with PSM2's library there, but no such network). It says in `ompi_mtl` whether it chose one. */
static bool transport_in_use(const char *name)
{
    void **chosen;
    return strncmp(name, "mtl_", 4) != 0 || ((chosen = dlsym(RTLD_DEFAULT, "ompi_mtl")) != NULL && *chosen != NULL);
}

/* Open MPI 4 calls all of these sizes. */
static int class_of(const char *name, int klass)
{
    if (klass != MPI_T_PVAR_CLASS_SIZE)
        return klass;
    if (strncmp(name, "runtime_spc_", 12) == 0)
        return strstr(name, "_MAX_") ? MPI_T_PVAR_CLASS_HIGHWATERMARK
               : strstr(name, "_IN_QUEUE") ? MPI_T_PVAR_CLASS_LEVEL
                                           : MPI_T_PVAR_CLASS_COUNTER;
    if (strstr(name, "_monitoring_messages_"))
        return MPI_T_PVAR_CLASS_COUNTER;
    return strstr(name, "msgq_length") || strstr(name, "recvq_length") ? MPI_T_PVAR_CLASS_LEVEL : klass;
}

static const char *unit_of(const char *name, const char *about, int klass, number type)
{
    if (klass == MPI_T_PVAR_CLASS_TIMER && type == REAL)
        return "s"; /* as MPI_Wtime (MPI 4.0, 15.3.7); others say it in their description */
    bool bytes = strstr(name, "bytes") || strstr(name, "BYTES") || strstr(name, "_size") ||
                 strstr(about, "umber of bytes");
    return bytes ? "B" : "";
}

static void add_variable(int index)
{
    char name[256] = "", about[512] = "";
    int name_length = sizeof name, about_length = sizeof about;
    int verbosity, klass, binding, read_only, continuous, atomic, count = -1;
    MPI_Datatype datatype;
    MPI_T_enum enumeration;
    MPI_T_pvar_handle handle;
    number type;
    if (PMPI_T_pvar_get_info(index, name, &name_length, &verbosity, &klass, &datatype, &enumeration, about,
                             &about_length, &binding, &read_only, &continuous, &atomic) != MPI_SUCCESS ||
        !npc_chosen(&table->mpit, name))
        return; /* Open MPI has errors for variables of components that it has closed */
    klass = class_of(name, klass);
    const char *kind = kind_of(klass);
    if (kind == NULL || !type_of(datatype, &type)) {
        table->others++;
        return;
    }
    if (!transport_in_use(name)) {
        table->unused++;
        return;
    }
    if (binding != MPI_T_BIND_NO_OBJECT && binding != MPI_T_BIND_MPI_COMM) {
        table->objects++;
        return;
    }
    MPI_Comm world = npc_predefined.world;
    void *object = binding == MPI_T_BIND_MPI_COMM ? &world : NULL;
    if (PMPI_T_pvar_handle_alloc(session, index, object, &handle, &count) != MPI_SUCCESS || count < 1 ||
        count > MOST_VALUES || (!continuous && PMPI_T_pvar_start(session, handle) != MPI_SUCCESS)) {
        table->off++;
        return;
    }
    static int longest;
    if (count > longest) {
        void *more = realloc(values, (size_t)count * sizeof(uint64_t));
        if (more == NULL)
            return;
        values = more;
        longest = count;
    }
    int column = npc_column_add(name, kind, unit_of(name, about, klass, type), about);
    if (column >= 0)
        variables[read_variables++] = (variable){handle, type, klass, count, column, NAN, NAN};
}

/* Open MPI registers some when a component is opened, long after MPI_Init. */
static void add_variables(void)
{
    int number_of = 0;
    if (table->mpit.names[0] == 0 || table->no_mpi_t || PMPI_T_pvar_get_num(&number_of) != MPI_SUCCESS)
        return;
    for (; known_variables < number_of; known_variables++)
        add_variable(known_variables);
    table->offered = (uint32_t)number_of;
}

static double number_at(number type, int i)
{
    switch (type) {
    case SIGNED: return ((int32_t *)values)[i];
    case UNSIGNED: return ((uint32_t *)values)[i];
    case SIGNED_LONG: return (double)((int64_t *)values)[i];
    case UNSIGNED_LONG: return (double)((uint64_t *)values)[i];
    default: return ((double *)values)[i];
    }
}

static void read_variable(variable *each, bool last)
{
    if (PMPI_T_pvar_read(session, each->handle, values) != MPI_SUCCESS) {
        npc_column_set(each->column, NAN);
        return;
    }
    double result = number_at(each->type, 0);
    for (int i = 1; i < each->count; i++) {
        double value = number_at(each->type, i);
        if (each->klass == MPI_T_PVAR_CLASS_HIGHWATERMARK || each->klass == MPI_T_PVAR_CLASS_PERCENTAGE)
            result = fmax(result, value);
        else if (each->klass == MPI_T_PVAR_CLASS_LOWWATERMARK)
            result = fmin(result, value);
        else
            result += value;
    }
    if (each->klass == MPI_T_PVAR_CLASS_TIMER) {
        if (isnan(each->zero))
            each->zero = fmin(result, 0);
        result -= each->zero;
    }
    if (each->klass == MPI_T_PVAR_CLASS_HIGHWATERMARK)
        each->extreme = fmax(each->extreme, result);
    else if (each->klass == MPI_T_PVAR_CLASS_LOWWATERMARK)
        each->extreme = fmin(each->extreme, result);
    npc_column_set(each->column, last && !isnan(each->extreme) ? each->extreme : result);
}

/* ---- snapshots ---- */

static void add_totals(void)
{
    totals_column = npc_column_add("npc::calls", "counter", "", "calls of MPI");
    npc_column_add("npc::mpi_seconds", "timer", "s", "time inside MPI");
    npc_column_add("npc::messages_sent", "counter", "", "point-to-point messages sent");
    npc_column_add("npc::bytes_sent", "counter", "B", "bytes sent point to point");
    npc_column_add("npc::messages_received", "counter", "", "point-to-point messages received");
    npc_column_add("npc::bytes_received", "counter", "B", "bytes received point to point");
}

/* The last row has watermarks of the whole run, those before it such as they were read. */
static void take(int64_t now, bool last)
{
    bool first = table->rows == 0;
    double totals[TOTALS];
    npc_row_begin();
    add_variables();
    npc_totals(totals);
    for (int i = 0; i < TOTALS; i++)
        npc_column_set(totals_column + i, totals[i]);
    for (int i = 0; i < read_variables; i++)
        read_variable(&variables[i], last);
    npc_events_read(table, first || last);
    npc_row_end(now);
}

/* One thread at a time: who takes the moment that it is due has the turn. */
void npc_snapshot(int64_t now)
{
    int64_t due = __atomic_exchange_n(&npc_next_snapshot, INT64_MAX, __ATOMIC_ACQUIRE);
    if (due == INT64_MAX)
        return;
    if (now >= due) {
        take(now, false);
        int64_t period = (int64_t)(table->period * 1e9);
        due += (1 + (now - due) / period) * period;
    }
    __atomic_store_n(&npc_next_snapshot, due, __ATOMIC_RELEASE);
}

void npc_variables_begin(void)
{
    const char *period = getenv("NPC_SNAPSHOTS");
    if (table != NULL || (period == NULL && getenv("NPC_MPIT") == NULL && getenv("NPC_SDE") == NULL))
        return;
    table = npc_table_open();
    if (table == NULL)
        return;
    double seconds = period == NULL ? 0 : strtod(period, NULL);
    table->period = seconds > 0 ? fmin(fmax(seconds, SHORTEST), LONGEST) : 0;
    if (table->mpit.names[0] != 0) {
        int provided;
        table->no_mpi_t = (uint32_t)PMPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
        if (!table->no_mpi_t)
            table->no_mpi_t = (uint32_t)PMPI_T_pvar_session_create(&session);
    }
    add_totals();
    int64_t now = npc_now();
    take(now, false);
    if (table->period > 0)
        npc_next_snapshot = now + (int64_t)(table->period * 1e9);
}

void npc_variables_end(void)
{
    if (table == NULL)
        return;
    int64_t due = __atomic_exchange_n(&npc_next_snapshot, INT64_MAX, __ATOMIC_ACQUIRE);
    if (table->period > 0 && due == INT64_MAX)
        return; /* MPI_Abort while another thread takes a snapshot */
    take(npc_now(), true);
    table = NULL;
}
