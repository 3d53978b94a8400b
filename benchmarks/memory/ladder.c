/* The time of one dependent load: over working sets from a cache to main memory, from every NUMA node to every other, and
 * while other cores stream.
 *
 * A working set is a chain of cache lines, each holding the address of the next, in random order and closed to one cycle, so that
 * neither a prefetcher nor reordering can begin a load before the one before it has ended. This is the idle latency that one
 * thread sees, as lat_mem_rd measures it (McVoy, Staelin, lmbench, USENIX 1996); the load is of one word, what moves is a line.
 */
#include "memory.h"

#define BLOCK 4096 /* bytes that are streamed between two looks at the clock */
#define SETTLE_S 0.003
#define PATIENCE_S 0.5

#define SETS 64
#define LONGER 1.25 /* than a larger set, as the parser judges it: what else ran took the time */
#define TRIES 5

/* The level that a set stands for: a cache where it is the largest set that fills at most half of it, main memory where it is at
 * least twice the last-level cache, "-" for none. */
static const char *level_of(size_t size, size_t next, size_t largest)
{
    static const char *names[] = {"-", "L1", "L2", "L3", "L4"};
    const char *level = machine.last && size >= 2 * machine.last ? "MEM" : "-";
    size_t smaller = 0;
    for (int l = 1; l < LEVELS; l++) {
        int fullest = size >= largest || next > machine.levels[l] / 2;
        if (machine.levels[l] && size > smaller && size <= machine.levels[l] / 2 && fullest)
            level = names[l];
        smaller = machine.levels[l] > smaller ? machine.levels[l] : smaller;
    }
    return level;
}

/* Sets are powers of two from 4 KiB to a quarter of the largest, and the largest. A round lasts milliseconds, so another program
 * or guest can fill all of it. A larger set cannot be quicker: a set that took much longer than one is measured again. */
int ladder(int huge)
{
    size_t largest = machine.largest, sizes[SETS];
    struct times loads[SETS];
    int sets = 0;
    void **place;
    char *memory = get_memory(largest, huge);
    touch(memory, largest);
    printf("Pages = %s, %.3f of the memory in huge ones\n", huge ? "huge" : "small", huge_share(memory, largest));
    printf("%16s %12s %10s %10s %10s  Level\n", "Bytes", "Loads", "Median ns", "Least ns", "Cycles");
    for (size_t size = SMALLEST; sets < SETS; size = 2 * size <= largest / 4 ? 2 * size : largest) {
        sizes[sets] = size;
        chain(memory, size / machine.line, machine.line);
        place = (void **)memory;
        loads[sets++] = time_loads(&place);
        if (place == NULL) /* never: it keeps the loads */
            return 1;
        if (size >= largest)
            break;
    }
    double quickest = loads[sets - 1].median;
    for (int i = sets - 2; i >= 0; i--) {
        for (int try = 0; try < TRIES && loads[i].median > LONGER * quickest; try++) {
            chain(memory, sizes[i] / machine.line, machine.line);
            place = (void **)memory;
            struct times again = time_loads(&place);
            if (place != NULL && again.median < loads[i].median)
                loads[i] = again;
        }
        if (loads[i].median < quickest)
            quickest = loads[i].median;
    }
    for (int i = 0; i < sets; i++) {
        size_t next = i + 1 < sets ? sizes[i + 1] : largest;
        printf("%16zu %12zu %10.3f %10.3f %10.2f  %s\n", sizes[i] / machine.line * machine.line, loads[i].loads, 1e9 * loads[i].median,
               1e9 * loads[i].least, loads[i].median * machine.clock_hz, level_of(sizes[i], next, largest));
    }
    fflush(stdout);
    give_back(memory, largest);
    return 0;
}

/* -- NUMA nodes -- */

#define MPOL_BIND 2 /* linux/mempolicy.h */
#define NODES 1024
#define ASKED 256 /* pages that are asked where they lie */

/* NUMA nodes that have memory, as the kernel lists them (0-1,4); returns how many. */
static int memory_nodes(int nodes[NODES])
{
    FILE *f = fopen("/sys/devices/system/node/has_memory", "r");
    int number = 0, first, last;
    char after;
    while (f != NULL && fscanf(f, "%d", &first) == 1) {
        last = first;
        if (fscanf(f, "%c", &after) == 1 && after == '-' && fscanf(f, "%d%c", &last, &after) < 1)
            last = first;
        for (; first <= last && number < NODES; first++)
            nodes[number++] = first;
    }
    if (f != NULL)
        fclose(f);
    if (number == 0)
        nodes[number++] = 0;
    return number;
}

/* The part of the pages that lie on a node, by samples; -1 where the kernel does not tell. */
static double share_on(char *memory, size_t bytes, int node)
{
    void *pages[ASKED];
    int where[ASKED], known = 0, there = 0;
    for (int i = 0; i < ASKED; i++)
        pages[i] = memory + bytes / ASKED * (size_t)i / PAGE * PAGE;
    if (syscall(SYS_move_pages, 0, (unsigned long)ASKED, pages, NULL, where, 0))
        return -1;
    for (int i = 0; i < ASKED; i++) {
        known += where[i] >= 0;
        there += where[i] == node;
    }
    return known ? (double)there / known : -1;
}

/* One working set, the largest, on every node with memory, followed from the first CPU of every node with CPUs. */
int numa(void)
{
    int nodes[NODES], from[NODES], number = memory_nodes(nodes);
    unsigned long mask[NODES / 64];
    for (int node = 0; node < NODES; node++)
        from[node] = -1;
    for (int i = machine.number - 1; i >= 0; i--)
        from[node_of(machine.cpus[i]) % NODES] = machine.cpus[i];
    printf("NUMA nodes = %d%s\n", number, number == 1 ? ": all memory is local" : "");
    printf("Set = %zu bytes\n", machine.largest);
    printf("%10s %12s %10s %10s %10s %10s\n", "CPU node", "Memory node", "There", "Median ns", "Least ns", "Cycles");
    for (int i = 0; i < number; i++) {
        char *memory = get_memory(machine.largest, 1);
        memset(mask, 0, sizeof mask);
        mask[nodes[i] / 64] = 1ul << nodes[i] % 64;
        /* where it is refused (containers), a page lies where it is touched first */
        syscall(SYS_mbind, memory, machine.largest, MPOL_BIND, mask, (unsigned long)NODES, 0);
        if (from[nodes[i]] >= 0)
            pin(from[nodes[i]]);
        touch(memory, machine.largest);
        chain(memory, machine.largest / machine.line, machine.line);
        double there = share_on(memory, machine.largest, nodes[i]);
        for (int node = 0; node < NODES; node++) {
            if (from[node] < 0)
                continue;
            pin(from[node]);
            void **place = (void **)memory;
            struct times load = time_loads(&place);
            if (place == NULL)
                return 1;
            printf("%10d %12d %10.3f %10.3f %10.3f %10.2f\n", node, nodes[i], there, 1e9 * load.median, 1e9 * load.least,
                   load.median * machine.clock_hz);
            fflush(stdout);
        }
        give_back(memory, machine.largest);
    }
    return 0;
}

/* -- beside streams -- */

/* begin: where it streams first, each in another part. On lines of its own, for each thread counts its blocks there. delay_ns:
 * pause after each block; below 0 nothing is read. */
struct stream {
    _Alignas(256) char *memory;
    size_t size, begin;
    _Atomic uint64_t blocks;
    uint64_t sum;
};
static _Atomic long delay_ns;
static _Atomic int ended;

/* Reads lines one after the other; a prefetcher may help, as in STREAM. */
static void *read_on(void *of)
{
    struct stream *stream = of;
    size_t at = stream->begin, step = machine.line / sizeof(uint64_t);
    uint64_t sum = 0;
    while (!atomic_load_explicit(&ended, memory_order_relaxed)) {
        long pause = atomic_load_explicit(&delay_ns, memory_order_relaxed);
        if (pause < 0) {
            sched_yield();
            continue;
        }
        const uint64_t *block = (const uint64_t *)(stream->memory + at);
        for (size_t i = 0; i < BLOCK / sizeof(uint64_t); i += step)
            sum += block[i];
        at = at + 2 * BLOCK <= stream->size ? at + BLOCK : 0;
        atomic_fetch_add_explicit(&stream->blocks, 1, memory_order_relaxed);
        for (double end = pause ? now() + 1e-9 * (double)pause : 0; pause && now() < end;)
            ;
    }
    stream->sum = sum;
    return NULL;
}

static uint64_t blocks_of(struct stream *streams, int number)
{
    uint64_t total = 0;
    for (int i = 0; i < number; i++)
        total += atomic_load(&streams[i].blocks);
    return total;
}

/* The largest set, followed on the first CPU, while all others of its NUMA node read it in a row with pauses that grow shorter
 * (as Intel's Memory Latency Checker does). They read the same memory, which holds no more in the caches than the chase alone:
 * a set of four times the cache. */
int loaded(void)
{
    const long delays[] = {-1, 20000, 5000, 2000, 1000, 500, 200, 0};
    struct stream *streams = aligned_alloc(256, sizeof *streams * CPU_SETSIZE);
    pthread_t threads[CPU_SETSIZE];
    int number = 0, home = node_of(machine.cpus[0]);
    size_t largest = machine.largest;
    if (largest < 2 * BLOCK || streams == NULL) {
        fprintf(stderr, "memory: loaded takes %d bytes at least\n", 2 * BLOCK);
        return 1;
    }
    char *memory = get_memory(largest, 1);
    touch(memory, largest);
    chain(memory, largest / machine.line, machine.line);
    atomic_store(&delay_ns, -1);
    int sibling = machine.number > 1; /* of the first CPU alone: it would share a core and not only the memory with the chase */
    for (int i = 1; i < machine.number; i++)
        sibling &= relation(machine.cpus[0], machine.cpus[i]) == 0 || node_of(machine.cpus[i]) != home;
    for (int i = 1; i < machine.number; i++) {
        if (node_of(machine.cpus[i]) != home || (!sibling && relation(machine.cpus[0], machine.cpus[i]) == 0))
            continue;
        struct stream *stream = streams + number;
        *stream = (struct stream){.memory = memory, .size = largest};
        stream->begin = largest / (size_t)machine.number * (size_t)i / BLOCK * BLOCK;
        threads[number++] = start(machine.cpus[i], read_on, stream);
    }
    printf("Pages = huge, %.3f of the memory in huge ones\n", huge_share(memory, largest));
    printf("Set = %zu bytes\n", largest);
    printf("Streams = %d, on the CPUs of NUMA node %d\n", number, home);
    printf("%10s %10s %10s %12s\n", "Delay ns", "Median ns", "Least ns", "MB/s");
    void **place = (void **)memory;
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
        atomic_store(&delay_ns, delays[i]);
        for (double begin = now(); now() < begin + SETTLE_S;)
            place = follow(place, 64);
        uint64_t before = blocks_of(streams, number);
        double begin = now();
        struct times load = time_loads(&place);
        /* where others compute, the streams may have had no CPU meanwhile */
        while (delays[i] >= 0 && number > 0 && blocks_of(streams, number) == before && now() < begin + PATIENCE_S)
            load = time_loads(&place);
        double bytes = (double)BLOCK * (double)(blocks_of(streams, number) - before), seconds = now() - begin;
        char delay[24] = "idle";
        if (delays[i] >= 0)
            snprintf(delay, sizeof delay, "%ld", delays[i]);
        printf("%10s %10.3f %10.3f %12.1f\n", delay, 1e9 * load.median, 1e9 * load.least, 1e-6 * bytes / seconds);
        fflush(stdout);
    }
    atomic_store(&ended, 1);
    for (int i = 0; i < number; i++)
        pthread_join(threads[i], NULL);
    free(streams);
    return place == NULL;
}
