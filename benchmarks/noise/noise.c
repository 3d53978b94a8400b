/* What the operating system takes from every core of a node at once, seen from the program: fixed work quanta and
 * selfish detours.
 *
 *     noise [-s SECONDS] [-q QUANTUM] [-t THRESHOLD]      seconds of each part, us of a quantum, us of a detour
 *
 * Selfish detour (Beckman et al., Cluster 2006): a loop that only reads the clock; where two readings are further apart
 * than the threshold, somebody else had the core. Fixed work quanta (FWQ, Sottile and Minnich, Cluster 2004): the same
 * work again and again, which would take the same time if nobody came between; a quantum's delay is what it took more
 * than the quickest. The clock is the time-stamp counter where the kernel itself relies on it, else clock_gettime(2).
 * One thread a CPU that this process may use, pinned there, all at once; the main thread sleeps meanwhile.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define DETOURS 65536 /* kept of a core, to look for their period; all are counted */
#define QUANTA 65536
#define STRONGEST 1024 /* of the detours kept, the longest tell the period */
#define CLASSES 40     /* of delays: the class of 2^k ns to 2^(k+1) */

struct detour {
    double at, length; /* s */
};

struct core {
    int cpu;
    pthread_t thread;
    double detour_s, fwq_s;             /* how long each part took */
    double lost_s, longest_s;           /* of the detours */
    uint64_t detours;
    double quantum_s, delayed_s, delay_s; /* the quickest quantum; all delays, the longest */
    int quanta;
    uint64_t number[CLASSES];
    double sum[CLASSES]; /* s */
    long involuntary;
    double period_s, regularity;
    struct detour kept[DETOURS];
    int count;
    float times[QUANTA];
};

static double seconds = 0.5, quantum = 1e-3, threshold = 1e-6;
static double tick; /* s of one unit of the clock that threads read */
static pthread_barrier_t barrier;
static uint64_t work; /* steps of a quantum */

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "noise: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#if defined(__x86_64__)
static int counts; /* whether the counter may be read in place of the clock */
static inline uint64_t stamp(void)
{
    if (!counts) {
        struct timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    }
    return __builtin_ia32_rdtsc();
}
#else
enum { counts = 0 };
static inline uint64_t stamp(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
#endif

/* The kernel takes the counter as its clock only if it runs at one rate on all cores and never stops. A virtual
 * machine's kernel may prefer its hypervisor's clock although the counter is as good: both flags say so. */
static const char *choose_clock(void)
{
#if defined(__x86_64__)
    char line[8192];
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info && fgets(line, sizeof line, info))
        if (!strncmp(line, "flags", 5)) {
            counts = strstr(line, " constant_tsc") && strstr(line, " nonstop_tsc");
            break;
        }
    if (info)
        fclose(info);
#endif
    if (!counts) {
        tick = 1e-9;
        return "clock_gettime";
    }
    double begin = now(), end;
    uint64_t first = stamp();
    do
        end = now();
    while (end < begin + 0.05);
    tick = (end - begin) / (double)(stamp() - first);
    return "tsc";
}

/* Work that neither memory nor a compiler can make shorter or longer. */
__attribute__((noinline)) static uint64_t compute(uint64_t steps)
{
    uint64_t value = 1;
    for (uint64_t step = 0; step < steps; step++) {
        value = value * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

/* Steps that take a quantum at best: by the quickest of several tries. */
static void calibrate(void)
{
    uint64_t steps = 20000;
    double best = 1;
    for (int turn = 0; turn < 200; turn++) {
        uint64_t begin = stamp();
        compute(steps);
        double took = (double)(stamp() - begin) * tick;
        best = took < best ? took : best;
    }
    work = (uint64_t)((double)steps * quantum / best);
}

static void detours(struct core *core)
{
    uint64_t limit = (uint64_t)(threshold / tick), longest = 0, lost = 0;
    uint64_t begin = stamp(), last = begin, end = begin + (uint64_t)(seconds / tick);
    while (last < end) {
        uint64_t present = stamp(), gap = present - last;
        if (gap > limit) {
            lost += gap;
            longest = gap > longest ? gap : longest;
            core->detours++;
            if (core->count < DETOURS)
                core->kept[core->count++] = (struct detour){(double)(last - begin) * tick, (double)gap * tick};
            present = stamp(); /* what keeping it took is no detour */
        }
        last = present;
    }
    core->detour_s = (double)(last - begin) * tick;
    core->lost_s = (double)lost * tick;
    core->longest_s = (double)longest * tick;
}

static void quanta(struct core *core)
{
    uint64_t begin = stamp(), end = begin + (uint64_t)(seconds / tick), last = begin;
    while (last < end && core->quanta < QUANTA) {
        compute(work);
        uint64_t present = stamp();
        core->times[core->quanta++] = (float)((double)(present - last) * tick);
        last = present;
    }
    core->fwq_s = (double)(last - begin) * tick;
    core->quantum_s = core->times[0];
    for (int each = 0; each < core->quanta; each++)
        if (core->times[each] < core->quantum_s)
            core->quantum_s = core->times[each];
    for (int each = 0; each < core->quanta; each++) {
        double delay = core->times[each] - core->quantum_s;
        int class = delay < 1e-9 ? 0 : (int)log2(delay * 1e9);
        class = class < CLASSES ? class : CLASSES - 1;
        core->number[class]++;
        core->sum[class] += delay;
        core->delayed_s += delay;
        core->delay_s = delay > core->delay_s ? delay : core->delay_s;
    }
}

static int longer_first(const void *one, const void *two)
{
    double a = ((const struct detour *)one)->length, b = ((const struct detour *)two)->length;
    return (a < b) - (a > b);
}

/* The period of the longest detours: the highest peak of |sum of length * exp(-2 pi i f t)|^2, over the square of the
 * sum, which is 1 where they come like a clock; of a peak and its multiples the first: trains of pulses are as strong at
 * every multiple of their rate, and at that of the kernel's tick stronger, where it is the tick that lets them in. */
static void find_period(struct core *core)
{
    int number = core->count < STRONGEST ? core->count : STRONGEST;
    qsort(core->kept, (size_t)core->count, sizeof *core->kept, longer_first);
    double total = 0, step = 1 / core->detour_s / 4, best = 0;
    for (int each = 0; each < number; each++)
        total += core->kept[each].length;
    if (number < 20)
        return;
    int first = 12, steps = (int)(2000 / step); /* three periods at least, 2 kHz at most */
    double *power = calloc((size_t)steps, sizeof *power);
    double *turn = malloc(4 * (size_t)number * sizeof *turn);
    if (!power || !turn)
        die("memory");
    for (int each = 0; each < number; each++) {
        double angle = -2 * M_PI * step * core->kept[each].at;
        turn[4 * each] = cos(angle), turn[4 * each + 1] = sin(angle);
        turn[4 * each + 2] = core->kept[each].length, turn[4 * each + 3] = 0;
    }
    for (int f = 1; f < steps; f++) {
        double real = 0, imaginary = 0;
        for (int each = 0; each < number; each++) {
            double *of = turn + 4 * each, x = of[2] * of[0] - of[3] * of[1], y = of[2] * of[1] + of[3] * of[0];
            of[2] = x, of[3] = y;
            real += x, imaginary += y;
        }
        power[f] = (real * real + imaginary * imaginary) / (total * total);
        if (f >= first && power[f] > best)
            best = power[f];
    }
    for (int f = first; f + 1 < steps; f++)
        if (power[f] >= 0.3 * best && power[f] >= power[f - 1] && power[f] >= power[f + 1]) {
            core->period_s = 1 / (f * step);
            core->regularity = power[f];
            break;
        }
    free(power);
    free(turn);
}

static void *measure(void *of)
{
    struct core *core = of;
    memset(core->kept, 0, sizeof core->kept); /* pages are there before */
    memset(core->times, 0, sizeof core->times);
    struct rusage before, after;
    pthread_barrier_wait(&barrier);
    getrusage(RUSAGE_THREAD, &before);
    detours(core);
    pthread_barrier_wait(&barrier);
    quanta(core);
    getrusage(RUSAGE_THREAD, &after);
    core->involuntary = after.ru_nivcsw - before.ru_nivcsw;
    pthread_barrier_wait(&barrier); /* what follows is nobody's noise */
    find_period(core);
    return NULL;
}

/* Ticks that each CPU waited for the hypervisor (proc_stat(5), steal). */
static void steal(long *ticks)
{
    char line[1024];
    FILE *stat = fopen("/proc/stat", "r");
    while (stat && fgets(line, sizeof line, stat)) {
        int cpu;
        long taken;
        if (sscanf(line, "cpu%d %*s %*s %*s %*s %*s %*s %*s %ld", &cpu, &taken) == 2 && cpu < CPU_SETSIZE)
            ticks[cpu] = taken;
    }
    if (stat)
        fclose(stat);
}

/* Interrupts by name and CPU (/proc/interrupts): one line each, its numbers in the order of the CPUs in its head. */
struct interrupt {
    char name[48];
    uint64_t *number;
};
struct interrupts {
    int *cpus, columns, rows;
    struct interrupt *row;
};

static struct interrupts interrupts(void)
{
    struct interrupts found = {0};
    size_t size = 0;
    char *line = NULL;
    FILE *file = fopen("/proc/interrupts", "r");
    if (!file)
        return found;
    found.cpus = calloc(CPU_SETSIZE, sizeof *found.cpus);
    if (getline(&line, &size, file) > 0)
        for (char *word = strtok(line, " \n"); word && found.columns < CPU_SETSIZE; word = strtok(NULL, " \n"))
            found.cpus[found.columns++] = atoi(word + 3);
    while (getline(&line, &size, file) > 0) {
        char *colon = strchr(line, ':'), *rest;
        if (!colon)
            continue;
        struct interrupt row = {.number = calloc((size_t)found.columns + 1, sizeof *row.number)};
        int column = 0;
        rest = colon + 1;
        for (; column < found.columns; column++) {
            char *end;
            row.number[column] = strtoull(rest, &end, 10);
            if (end == rest)
                break;
            rest = end;
        }
        if (column < found.columns) { /* ERR, MIS: of no CPU */
            free(row.number);
            continue;
        }
        rest[strcspn(rest, "\n")] = 0;
        char *words = rest + strspn(rest, " "), *device = strrchr(words, ' ');
        *colon = 0;
        char *number = line + strspn(line, " ");
        /* device's interrupts have numbers, and their device last; the others have a name and words of their own */
        snprintf(row.name, sizeof row.name, "%s", *number >= '0' && *number <= '9' && device ? device + 1 : words);
        found.row = realloc(found.row, (size_t)(found.rows + 1) * sizeof *found.row);
        if (!found.row)
            die("memory");
        found.row[found.rows++] = row;
    }
    free(line);
    fclose(file);
    return found;
}

/* CPU time of processes and threads of the kernel (proc_pid_stat(5)) with the CPU where each ran last. */
struct task {
    int pid, cpu;
    long ticks;
    char name[64];
};

static int tasks(struct task **found)
{
    int number = 0;
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    *found = NULL;
    while (folder && (entry = readdir(folder))) {
        char path[300], line[1024];
        if (*entry->d_name < '0' || *entry->d_name > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = fopen(path, "r");
        size_t length = file ? fread(line, 1, sizeof line - 1, file) : 0;
        if (file)
            fclose(file);
        line[length] = 0;
        char *open = strchr(line, '('), *close = strrchr(line, ')');
        struct task task = {.pid = atoi(entry->d_name)};
        long user, system;
        if (!open || !close || sscanf(close + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld %*d %*d %*d %*d %*d %*d "
                                                 "%*u %*u %*d %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %d",
                                      &user, &system, &task.cpu) != 3)
            continue;
        task.ticks = user + system;
        snprintf(task.name, sizeof task.name, "%.*s", (int)(close - open - 1), open + 1);
        *found = realloc(*found, (size_t)(number + 1) * sizeof **found);
        if (!*found)
            die("memory");
        (*found)[number++] = task;
    }
    if (folder)
        closedir(folder);
    return number;
}

static double number(const char *option, const char *text, double least, double most)
{
    char *end;
    double value = strtod(text, &end);
    if (*text == 0 || *end || !(value >= least && value <= most)) {
        fprintf(stderr, "noise: %s %s: expected a number from %g to %g\n", option, text, least, most);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    for (int option; (option = getopt(argc, argv, "s:q:t:")) != -1;)
        if (option == 's')
            seconds = number("-s", optarg, 0.05, 600);
        else if (option == 'q')
            quantum = 1e-6 * number("-q", optarg, 10, 1e6);
        else if (option == 't')
            threshold = 1e-6 * number("-t", optarg, 0.1, 1e6);
        else
            return 2;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        die("sched_getaffinity");
    int cores = CPU_COUNT(&allowed);
    struct core *core = calloc((size_t)cores, sizeof *core);
    if (!core)
        die("memory");
    for (int cpu = 0, each = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            core[each++].cpu = cpu;
    const char *clock = choose_clock();
    calibrate();
    if (pthread_barrier_init(&barrier, NULL, (unsigned)cores))
        die("pthread_barrier_init");
    long before[CPU_SETSIZE] = {0}, after[CPU_SETSIZE] = {0};
    struct task *earlier, *later;
    int were = tasks(&earlier);
    struct interrupts first = interrupts();
    steal(before);
    for (int each = 0; each < cores; each++) {
        pthread_attr_t attributes;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core[each].cpu, &one);
        pthread_attr_init(&attributes);
        if ((errno = pthread_attr_setaffinity_np(&attributes, sizeof one, &one)) ||
            (errno = pthread_create(&core[each].thread, &attributes, measure, core + each)))
            die("a thread for each CPU");
    }
    for (int each = 0; each < cores; each++)
        pthread_join(core[each].thread, NULL);
    steal(after);
    struct interrupts second = interrupts();
    int are = tasks(&later);

    printf("NPC noise: %d cores at once, %g s of each part, a quantum of %g us, detours above %g us, clock %s\n", cores,
           seconds, 1e6 * quantum, 1e6 * threshold, clock);
    double second_s = (double)sysconf(_SC_CLK_TCK);
    printf("%-8s %9s %11s %8s %12s %12s %11s %9s %9s\n", "detours", "s", "lost [us]", "number", "longest [us]", "period [us]",
           "regularity", "steal [s]", "switches");
    for (int each = 0; each < cores; each++) {
        struct core *of = core + each;
        printf("core %-3d %9.6f %11.3f %8llu %12.3f %12.1f %11.3f %9.2f %9ld\n", of->cpu, of->detour_s, 1e6 * of->lost_s,
               (unsigned long long)of->detours, 1e6 * of->longest_s, 1e6 * of->period_s, of->regularity,
               (double)(after[of->cpu] - before[of->cpu]) / second_s, of->involuntary);
    }
    printf("%-8s %9s %11s %8s %12s %12s\n", "quanta", "s", "lost [us]", "number", "longest [us]", "least [us]");
    for (int each = 0; each < cores; each++) {
        struct core *of = core + each;
        printf("core %-3d %9.6f %11.3f %8d %12.3f %12.3f\n", of->cpu, of->fwq_s, 1e6 * of->delayed_s, of->quanta,
               1e6 * of->delay_s, 1e6 * of->quantum_s);
    }
    for (int each = 0; each < cores; each++) {
        printf("delays of core %d [us x number]:", core[each].cpu);
        for (int class = 0; class < CLASSES; class++)
            if (core[each].number[class])
                printf(" %.3fx%llu", 1e6 * core[each].sum[class] / (double)core[each].number[class],
                       (unsigned long long)core[each].number[class]);
        printf("\n");
    }
    for (int row = 0; row < second.rows && row < first.rows; row++)
        for (int column = 0; column < second.columns && column < first.columns; column++) {
            uint64_t rose = second.row[row].number[column] - first.row[row].number[column];
            if (!strcmp(first.row[row].name, second.row[row].name) && CPU_ISSET(second.cpus[column], &allowed) && rose >= 10 &&
                rose < 1ull << 40)
                printf("interrupts on core %d: %llu %s\n", second.cpus[column], (unsigned long long)rose, second.row[row].name);
        }
    for (int one = 0; one < are; one++) {
        long ticks = later[one].ticks;
        for (int other = 0; other < were; other++)
            if (earlier[other].pid == later[one].pid)
                ticks -= earlier[other].ticks;
        if (ticks > 0 && later[one].pid != getpid() && later[one].cpu < CPU_SETSIZE && CPU_ISSET(later[one].cpu, &allowed))
            printf("ran on core %d: %.2f s %s (process %d)\n", later[one].cpu, (double)ticks / second_s, later[one].name,
                   later[one].pid);
    }
    printf("Complete\n");
    return fflush(stdout) != 0;
}
