/* What the drivers of mathematical libraries share: the library, opened by its path; the clock; timed calls.
 *
 * A library is opened by dlopen, so that a launch has one and no linker could have chosen another: its symbols are local, its own
 * references bind to itself first, and the file that a function really came from is asked for and printed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef ROUNDS_MIN
#define ROUNDS_MIN 3
#endif
#define ROUNDS_MAX 1000
#ifndef ROUNDS_S
#define ROUNDS_S 0.05 /* of all calls that are timed, or ROUNDS_MIN of them */
#endif
#define UNIT_ROUNDOFF 0x1p-53
#define MPOL_DEFAULT 0 /* linux/mempolicy.h */
#define MPOL_INTERLEAVE 3

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* xorshift64* (Vigna 2016): between -0.5 and 0.5. */
static uint64_t random_state = 88172645463325252ull;
static double random_number(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (double)(random_state * 2685821657736338717ull >> 11) * 0x1p-53 - 0.5;
}

/* The library at `path`, or NULL with a message. */
static void *open_library(const char *program, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library == NULL)
        fprintf(stderr, "%s: %s\n", program, dlerror());
    return library;
}

/* A function of a library as the type of `to`; whether there is one. (ISO C has no cast from an object to a function.) */
static int find_function(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* The file that a symbol of a library lies in, without symbolic links; "" if it has none. */
static const char *file_of(void *library, const char *name, char path[PATH_MAX])
{
    Dl_info info;
    void *symbol = dlsym(library, name);
    path[0] = 0;
    if (symbol != NULL && dladdr(symbol, &info) && realpath(info.dli_fname, path) == NULL)
        path[0] = 0;
    return path;
}

/* Memory whose pages go around the NUMA nodes where several threads will use them; NULL if there is none. */
static void *get_memory(size_t bytes, int threads)
{
    unsigned long nodes = ~0ul;
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (memory == NULL)
        return NULL;
    if (threads > 1) /* where it cannot be had, a page lies where it is touched first */
        syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &nodes, 8 * sizeof nodes + 1);
    memset(memory, 0, bytes);
    syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
    return memory;
}

/* A number of the command line from 1 to `most`, 0 if it is none. */
static int whole(const char *text, int most)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    return errno || end == text || *end || number < 1 || number > most ? 0 : (int)number;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* busy: CPU seconds of all threads a second. */
struct rounds {
    int number;
    double median, least, busy;
};

/* Times `call` again and again, each time after `prepare` (if any), which is not in the time. */
static struct rounds time_rounds(void (*prepare)(void *), void (*call)(void *), void *of)
{
    static double each[ROUNDS_MAX];
    struct rounds result = {0};
    double total = 0, cpu = 0;
    while (result.number < ROUNDS_MAX && (result.number < ROUNDS_MIN || total < ROUNDS_S)) {
        if (prepare != NULL)
            prepare(of);
        double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID), start = seconds_of(CLOCK_MONOTONIC);
        call(of);
        each[result.number] = seconds_of(CLOCK_MONOTONIC) - start;
        cpu += seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used;
        total += each[result.number++];
    }
    qsort(each, (size_t)result.number, sizeof *each, by_value);
    result.median = (each[(result.number - 1) / 2] + each[result.number / 2]) / 2;
    result.least = each[0];
    result.busy = cpu / total;
    return result;
}

/* The line of the CPUs that this process may use. */
static void print_cpus(void)
{
    cpu_set_t allowed;
    const char *separator = "";
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    printf("CPUs = ");
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int first = cpu;
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        while (cpu + 1 < CPU_SETSIZE && CPU_ISSET(cpu + 1, &allowed))
            cpu++;
        printf(cpu > first ? "%s%d-%d" : "%s%d", separator, first, cpu);
        separator = ",";
    }
    printf("\n");
}
