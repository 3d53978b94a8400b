/* Latencies of a node's memory, of its caches and between its cores, and what ways of access cost.
 *
 *     memory [-p huge|small|huge,small] [-n ORDER] PART [LARGEST]
 *
 * PART: ladder, numa, loaded (ladder.c); cores, sharing, touch (threads.c); align, stride, product (access.c). LARGEST: bytes of
 * the largest working set; default four times the last-level cache, but at most 1 GiB, or twice the cache where that is more; at most a
 * quarter of the node's memory. ORDER: of the matrices. Each thread runs on one of the CPUs that this process may use, the only
 * or first one on the first; the caches are that CPU's.
 */
#include "memory.h"

#define CACHE_MULTIPLE 4
#define LEAST_MULTIPLE 2
#define USUAL (1ull << 30) /* beyond it the lesser multiple is enough */
#define WARM 65536 /* loads before the first round: fill the levels below the set's own */
#define IN_A_CACHE_S 20e-9
#define LEAST_LOADS 2048
#define ADDITIONS 1000

struct machine machine;

_Noreturn void die(const char *what)
{
    fprintf(stderr, "memory: %s: %s\n", what, strerror(errno));
    exit(1);
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, int number)
{
    qsort(values, (size_t)number, sizeof *values, by_value);
    return (values[(number - 1) / 2] + values[number / 2]) / 2;
}

/* -- threads on CPUs -- */

void pin(int cpu)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    if (sched_setaffinity(0, sizeof own, &own))
        die("sched_setaffinity");
}

/* A thread that is on its CPU from its first instruction on. */
pthread_t start(int cpu, void *(*work)(void *), void *of)
{
    pthread_t thread;
    pthread_attr_t attributes;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof own, &own);
    if ((errno = pthread_create(&thread, &attributes, work, of)))
        die("pthread_create");
    pthread_attr_destroy(&attributes);
    return thread;
}

const char *cpu_file(int cpu, const char *file, char *text, int size)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, file);
    FILE *f = fopen(path, "r");
    if (f == NULL || fgets(text, size, f) == NULL)
        text[0] = 0;
    if (f != NULL)
        fclose(f);
    text[strcspn(text, "\n")] = 0;
    return text;
}

/* The NUMA node of a CPU; 0 where the kernel knows none. */
int node_of(int cpu)
{
    char path[128];
    for (int node = 0; node < 1024; node++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/node%d", cpu, node);
        if (access(path, F_OK) == 0)
            return node;
    }
    return 0;
}

/* -- the machine -- */

/* Fills in the caches of a CPU that hold data, and the bytes of a line. */
static void find_caches(int cpu)
{
    char text[64], file[64];
    for (int index = 0; index < 8; index++) {
        snprintf(file, sizeof file, "cache/index%d/type", index);
        if (strcmp(cpu_file(cpu, file, text, sizeof text), "Instruction") == 0 || !text[0])
            continue;
        snprintf(file, sizeof file, "cache/index%d/level", index);
        int level = atoi(cpu_file(cpu, file, text, sizeof text));
        char *unit;
        snprintf(file, sizeof file, "cache/index%d/size", index);
        size_t size = strtoull(cpu_file(cpu, file, text, sizeof text), &unit, 10);
        if (level < 1 || level >= LEVELS)
            continue;
        machine.levels[level] = size << (*unit == 'M' ? 20 : *unit == 'K' ? 10 : 0);
        machine.last = machine.levels[level] > machine.last ? machine.levels[level] : machine.last;
        snprintf(file, sizeof file, "cache/index%d/coherency_line_size", index);
        size_t own = strtoull(cpu_file(cpu, file, text, sizeof text), NULL, 10);
        machine.line = own > machine.line ? own : machine.line;
    }
    if (machine.line < sizeof(void *))
        machine.line = 64;
}

/* Cycles a second: an addition that waits for the one before takes one (Fog, Instruction tables; Arm Neoverse optimisation
 * guides). The fastest burst counts, for what disturbs only adds time. */
static double clock_rate(void)
{
    double best = 0;
#if defined __x86_64__ || defined __aarch64__
    uint64_t x = 1;
    for (double begin = now(), end = begin; end < begin + 0.015;) { /* a core that was idle has to raise its clock */
        double before = now();
        for (int i = 0; i < 100; i++) {
#ifdef __x86_64__
            __asm__ volatile(".rept 1000\n\tadd %0, %0\n\t.endr" : "+r"(x));
#else
            __asm__ volatile(".rept 1000\n\tadd %0, %0, %0\n\t.endr" : "+r"(x));
#endif
        }
        end = now();
        double rate = 100 * ADDITIONS / (end - before);
        best = rate > best ? rate : best;
    }
#endif
    return best;
}

static void find_machine(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        die("sched_getaffinity");
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            machine.cpus[machine.number++] = cpu;
    pin(machine.cpus[0]);
    find_caches(machine.cpus[0]);
    machine.clock_hz = clock_rate();
    size_t last = machine.last ? machine.last : 32u << 20;
    machine.largest = CACHE_MULTIPLE * last < USUAL ? CACHE_MULTIPLE * last
                      : LEAST_MULTIPLE * last > USUAL ? LEAST_MULTIPLE * last
                                                      : USUAL;
    size_t most = (size_t)sysconf(_SC_PHYS_PAGES) / 4 * (size_t)sysconf(_SC_PAGE_SIZE);
    if (machine.largest > most)
        machine.largest = most;
}

/* -- memory -- */

char *get_memory(size_t bytes, int huge)
{
    bytes = (bytes + HUGE - 1) / HUGE * HUGE; /* small sets have huge pages too */
    char *memory = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "memory: no memory for %zu bytes: %s\n", bytes, strerror(errno));
        exit(1);
    }
    size_t before = (HUGE - (uintptr_t)memory % HUGE) % HUGE;
    if (before)
        munmap(memory, before);
    if (before < HUGE)
        munmap(memory + before + bytes, HUGE - before);
    madvise(memory + before, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return memory + before;
}

/* Every page, from the thread that calls. */
void touch(char *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PAGE)
        *(volatile char *)(memory + at) = 0;
}

void give_back(char *memory, size_t bytes)
{
    munmap(memory, (bytes + HUGE - 1) / HUGE * HUGE);
}

/* The part of [memory, memory + bytes) that lies in huge pages, by /proc/self/smaps; 0 if it does not say. */
double huge_share(const char *memory, size_t bytes)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char text[512];
    long long total = 0, kib;
    unsigned long first, end;
    int inside = 0;
    while (f != NULL && fgets(text, sizeof text, f) != NULL) {
        if (sscanf(text, "%lx-%lx ", &first, &end) == 2)
            inside = first < (uintptr_t)memory + bytes && end > (uintptr_t)memory;
        else if (inside && sscanf(text, "AnonHugePages: %lld kB", &kib) == 1)
            total += 1024 * kib;
    }
    if (f != NULL)
        fclose(f);
    return total < (long long)bytes ? (double)total / (double)bytes : 1.0;
}

/* -- chains of loads -- */

struct order order_of(uint64_t n)
{
    int bits = 1;
    while (bits < 63 && (1ull << bits) < n)
        bits++;
    return (struct order){n, (1ull << bits) - 1, (bits + 1) / 2};
}

/* The next place of the order; `counter` is 0 before the first. Each step (exclusive or with the upper half, product with an
 * odd number) can be undone within `bits`, so that no place comes twice before all have come (Stafford's mix13 with other
 * shifts); places beyond n are left out. Neighbours in the order depend on nothing: a processor writes many at once. */
uint64_t place_of(const struct order *order, uint64_t *counter)
{
    uint64_t x;
    do {
        x = (*counter)++ & order->mask;
        x = (x + 0x9e3779b97f4a7c15ull) & order->mask;
        x = ((x ^ x >> order->half) * 0xbf58476d1ce4e5b9ull) & order->mask;
        x = ((x ^ x >> order->half) * 0x94d049bb133111ebull) & order->mask;
        x ^= x >> order->half;
    } while (x >= order->n);
    return x;
}

/* One random cycle through the slots of memory, one every `distance` bytes: each holds the address of the next. */
void chain(char *memory, size_t slots, size_t distance)
{
    struct order order = order_of(slots);
    uint64_t counter = 0;
    char *first = memory + place_of(&order, &counter) * distance, *at = first;
    for (size_t i = 1; i < slots; i++) {
        char *next = memory + place_of(&order, &counter) * distance;
        *(void **)at = next;
        at = next;
    }
    *(void **)at = first;
}

/* The place after `loads` loads, each of the address that the one before gave. */
void **follow(void **place, size_t loads)
{
    for (; loads >= 8; loads -= 8) {
        place = *place; place = *place; place = *place; place = *place;
        place = *place; place = *place; place = *place; place = *place;
    }
    while (loads--)
        place = *place;
    return place;
}

struct times time_loads(void ***place)
{
    double seconds[ROUNDS], begin;
    void **at = follow(*place, WARM / 8);
    size_t loads = LEAST_LOADS, total = 0;
    begin = now();
    at = follow(at, loads);
    double each = (now() - begin) / (double)loads;
    if (each < IN_A_CACHE_S) /* all of it, before any is timed */
        at = follow(at, WARM);
    for (int round = 0; round < ROUNDS; round++) {
        loads = (size_t)(ROUND_S / (each + 1e-12)); /* of the one before: first loads may be quicker than those to come */
        loads = loads < LEAST_LOADS ? LEAST_LOADS : loads;
        begin = now();
        at = follow(at, loads);
        seconds[round] = each = (now() - begin) / (double)loads;
        total += loads;
    }
    *place = at; /* kept, or the loads are not made */
    double middle = median(seconds, ROUNDS);
    return (struct times){middle, seconds[0], total};
}

/* -- the command -- */

static int usage(void)
{
    fprintf(stderr, "usage: memory [-p huge|small|huge,small] [-n ORDER]"
                    " ladder|numa|loaded|cores|sharing|touch|align|stride|product [LARGEST_BYTES]\n");
    return 2;
}

static size_t whole(const char *text, size_t least, size_t most)
{
    char *end;
    errno = 0;
    size_t number = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || number < least || number > most)
        exit(usage());
    return number;
}

int main(int argc, char **argv)
{
    const char *pages = "huge";
    size_t n = 512;
    for (int option; (option = getopt(argc, argv, "p:n:")) != -1;) {
        if (option == 'p')
            pages = optarg;
        else if (option == 'n')
            n = whole(optarg, 8, 16384);
        else
            return usage();
    }
    int huge = strcmp(pages, "huge") == 0, small = strcmp(pages, "small") == 0, both = strcmp(pages, "huge,small") == 0;
    if (optind == argc || argc - optind > 2 || !(huge || small || both))
        return usage();
    const char *part = argv[optind];
    const char *parts[] = {"ladder", "numa", "loaded", "cores", "sharing", "touch", "align", "stride", "product"};
    int number = 0;
    while (number < 9 && strcmp(part, parts[number]))
        number++;
    if (number == 9)
        return usage();
    size_t largest = argc - optind == 2 ? whole(argv[optind + 1], SMALLEST, SIZE_MAX / 4) : 0;
    find_machine();
    if (largest)
        machine.largest = largest;
    printf("Memory of NPC: %s\n", part);
    printf("CPU = %d, of %d that may be used\n", machine.cpus[0], machine.number);
    if (machine.clock_hz > 0)
        printf("Clock = %.4f GHz\n", 1e-9 * machine.clock_hz);
    printf("Line = %zu bytes\n", machine.line);
    for (int level = 1; level < LEVELS; level++)
        if (machine.levels[level])
            printf("L%d = %zu bytes\n", level, machine.levels[level]);
    if ((number >= 2 && number <= 5) && machine.number < 2) {
        fprintf(stderr, "unavailable: %s takes two CPUs, this process may use one\n", part);
        return 1;
    }
    int code = 0;
    switch (number) {
    case 0:
        code = (small ? 0 : ladder(1)) || (huge ? 0 : ladder(0));
        break;
    case 1: code = numa(); break;
    case 2: code = loaded(); break;
    case 3: code = cores(); break;
    case 4: code = sharing(); break;
    case 5: code = touched(); break;
    case 6: code = align(); break;
    case 7: code = stride(); break;
    default: code = product(n);
    }
    if (code == 0)
        printf("Complete\n");
    return code;
}
