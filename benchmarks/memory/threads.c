/* What threads pay for each other: a line between two cores, a line that two write, memory that another touched first. */
#include "memory.h"

#define TRIPS 200
#define TRIP_ROUNDS 31
#define TRIP_WARM 5
#define LOOK 20 /* trips between two looks at the clock */
#define PAIR_S 0.05 /* a pair ends after it, with what it has */
#define ALL_S 10 /* and all pairs after it: CPUs that are not free take milliseconds a trip */
#define PAIRS 256 /* all pairs up to 23 CPUs; of more a sample, the same every time */
#define INCREMENTS 300000
#define READS 7 /* of the memory by all threads */
#define SPIN 4096 /* looks at a line before the CPU is offered to others */

/* How two CPUs are related, nearest first. */
static const char *const relations[] = {"same-core", "shared-cache", "same-socket", "other-socket"};

int relation(int one, int other)
{
    char first[256], second[256], file[64];
    int last = -1;
    cpu_file(one, "topology/thread_siblings_list", first, sizeof first);
    cpu_file(other, "topology/thread_siblings_list", second, sizeof second);
    if (first[0] && strcmp(first, second) == 0)
        return 0;
    for (int index = 0; index < 8; index++) {
        snprintf(file, sizeof file, "cache/index%d/shared_cpu_list", index);
        if (cpu_file(one, file, first, sizeof first)[0])
            last = index;
    }
    snprintf(file, sizeof file, "cache/index%d/shared_cpu_list", last);
    cpu_file(one, file, first, sizeof first);
    cpu_file(other, file, second, sizeof second);
    if (first[0] && strcmp(first, second) == 0)
        return 1;
    cpu_file(one, "topology/physical_package_id", first, sizeof first);
    cpu_file(other, "topology/physical_package_id", second, sizeof second);
    return strcmp(first, second) ? 3 : 2;
}

/* -- a line between two cores -- */

/* Even: the first's turn, odd: the second's; below 0: the end. Two lines around it are its own, which adjacent-line
 * prefetchers would fetch. */
static struct {
    _Alignas(256) _Atomic long turn;
    char own[256];
} ball;

/* Until it is this turn, or the end. */
static int wait_for(long turn)
{
    for (int i = 0;; i++) {
        long seen = atomic_load_explicit(&ball.turn, memory_order_acquire);
        if (seen == turn || seen < 0)
            return seen == turn;
        if (i == SPIN) { /* the other is not running: another process may need this CPU */
            sched_yield();
            i = 0;
        }
    }
}

static void *answer(void *of)
{
    for (long turn = 1; wait_for(turn); turn += 2)
        atomic_store_explicit(&ball.turn, turn + 1, memory_order_release);
    return of;
}

/* Seconds one way: median and least of the rounds. */
static struct times bounce(int one, int other)
{
    double seconds[TRIP_WARM + TRIP_ROUNDS], began, end;
    int rounds = 0;
    long turn = 0;
    atomic_store(&ball.turn, 0);
    pin(one);
    pthread_t thread = start(other, answer, NULL);
    end = began = now();
    while (rounds < TRIP_WARM + TRIP_ROUNDS && end < began + PAIR_S) {
        double begin = end;
        int trips = 0;
        while (trips < TRIPS && end < began + PAIR_S) {
            for (int i = 0; i < LOOK; i++, trips++, turn += 2) {
                atomic_store_explicit(&ball.turn, turn + 1, memory_order_release);
                wait_for(turn + 2);
            }
            end = now();
        }
        seconds[rounds++] = (end - begin) / (2 * trips);
    }
    atomic_store(&ball.turn, -1);
    pthread_join(thread, NULL);
    int warm = rounds > TRIP_WARM ? TRIP_WARM : rounds - 1;
    double middle = median(seconds + warm, rounds - warm);
    return (struct times){middle, seconds[warm], (size_t)(rounds - warm) * TRIPS};
}

int cores(void)
{
    uint64_t all = (uint64_t)machine.number * (uint64_t)(machine.number - 1) / 2, counter = 0;
    struct order order = order_of(all);
    uint64_t wanted = all < PAIRS ? all : PAIRS, done = 0;
    double began = now();
    printf("%8s %8s %14s %12s %12s\n", "CPU", "CPU", "Relation", "Median ns", "Least ns");
    for (uint64_t i = 0; i < wanted && now() < began + ALL_S; i++, done++) {
        uint64_t left = wanted < all ? place_of(&order, &counter) : i;
        int one = 0;
        while (left >= (uint64_t)(machine.number - 1 - one))
            left -= (uint64_t)(machine.number - 1 - one++);
        int first = machine.cpus[one], second = machine.cpus[(uint64_t)one + 1 + left];
        struct times way = bounce(first, second);
        printf("%8d %8d %14s %12.2f %12.2f\n", first, second, relations[relation(first, second)], 1e9 * way.median,
               1e9 * way.least);
        fflush(stdout);
    }
    printf("Pairs = %llu of %llu\n", (unsigned long long)done, (unsigned long long)all);
    return 0;
}

/* -- threads that begin together -- */

/* Threads wait here without sleeping: to be woken takes longer than some of the rounds. */
static struct {
    _Alignas(256) _Atomic int arrived;
    _Alignas(256) _Atomic int opened;
    char own[252];
} gate;

static void pass(int threads)
{
    int before = atomic_load(&gate.opened);
    if (atomic_fetch_add(&gate.arrived, 1) + 1 == threads) {
        atomic_store(&gate.arrived, 0);
        atomic_fetch_add(&gate.opened, 1);
        return;
    }
    for (int i = 0; atomic_load_explicit(&gate.opened, memory_order_acquire) == before; i++)
        if (i % SPIN == SPIN - 1)
            sched_yield();
}

/* -- false sharing -- */

static _Alignas(256) _Atomic uint64_t counters[64];

/* plain: load, add, store, of which a store buffer hides much; atomic: the line has to be there. */
static const char *const increments[] = {"plain", "atomic"};

struct counting {
    _Atomic uint64_t *counter;
    int atomic;
    double seconds[ROUNDS];
};

/* Seconds an increment while two threads have begun together, each at its own counter; each has its own time, without the wait
 * for the other, who may have been held up. */
static void *count_up(void *of)
{
    struct counting *own = of;
    volatile uint64_t *counter = (volatile uint64_t *)own->counter;
    int times = own->atomic ? INCREMENTS / 10 : INCREMENTS;
    for (int round = 0; round < ROUNDS; round++) {
        pass(2);
        double begin = now();
        if (own->atomic)
            for (int i = 0; i < times; i++)
                atomic_fetch_add_explicit(own->counter, 1, memory_order_relaxed);
        else
            for (int i = 0; i < times; i++)
                ++*counter;
        own->seconds[round] = (now() - begin) / times;
    }
    return NULL;
}

/* The second's counter is counters[second]. */
static double both_count(int one, int other, int atomic, int second)
{
    struct counting own = {.counter = counters, .atomic = atomic}, its = {.counter = counters + second, .atomic = atomic};
    pin(one);
    pthread_t thread = start(other, count_up, &its);
    count_up(&own);
    pthread_join(thread, NULL);
    return median(own.seconds, ROUNDS);
}

/* One pair of CPUs of each relation to the first. */
int sharing(void)
{
    int done[4] = {0}, first = machine.cpus[0];
    printf("%8s %8s %14s %10s %14s %14s %8s\n", "CPU", "CPU", "Relation", "Increment", "One line ns", "Two lines ns", "Ratio");
    for (int i = 1; i < machine.number; i++) {
        int other = machine.cpus[i], of = relation(first, other);
        if (done[of]++)
            continue;
        for (int atomic = 0; atomic < 2; atomic++) {
            double together = both_count(first, other, atomic, 1);
            /* apart by 256 bytes: a prefetcher of adjacent lines would make two that are neighbours one */
            double apart = both_count(first, other, atomic, 32);
            printf("%8d %8d %14s %10s %14.3f %14.3f %8.2f\n", first, other, relations[of], increments[atomic], 1e9 * together,
                   1e9 * apart, together / apart);
        }
        fflush(stdout);
    }
    return 0;
}

/* -- first touch -- */

struct part {
    char *memory;
    size_t size;
    int touches;
    uint64_t sum;
    double seconds[READS];
};

/* Reads a thread's part, again and again, all threads at once. */
static void *sum_up(void *of)
{
    struct part *part = of;
    if (part->touches)
        touch(part->memory, part->size);
    pass(machine.number);
    for (int round = 0; round < READS; round++) {
        uint64_t sum = 0;
        double begin = now();
        for (size_t i = 0; i < part->size / sizeof(uint64_t); i++)
            sum += ((const uint64_t *)part->memory)[i];
        part->sum += sum;
        pass(machine.number);
        part->seconds[round] = now() - begin;
    }
    return NULL;
}

/* Bytes a second of all threads at once, each reading its own part of memory that one of them or each has touched first. */
static double all_read(int each)
{
    size_t size = machine.largest / (size_t)machine.number / PAGE * PAGE;
    char *memory = get_memory(machine.largest, 1);
    struct part *parts = calloc((size_t)machine.number, sizeof *parts);
    pthread_t *threads = calloc((size_t)machine.number, sizeof *threads);
    if (parts == NULL || threads == NULL)
        die("touch");
    pin(machine.cpus[0]);
    if (!each)
        touch(memory, machine.largest);
    for (int i = 0; i < machine.number; i++) {
        parts[i] = (struct part){.memory = memory + (size_t)i * size, .size = size, .touches = each};
        if (i)
            threads[i] = start(machine.cpus[i], sum_up, parts + i);
    }
    sum_up(parts);
    for (int i = 1; i < machine.number; i++)
        pthread_join(threads[i], NULL);
    double seconds = median(parts[0].seconds, READS);
    give_back(memory, machine.largest);
    free(parts);
    free(threads);
    return (double)size * machine.number / seconds;
}

int touched(void)
{
    int nodes = 0;
    for (int i = 0; i < machine.number; i++) {
        int again = 0;
        for (int before = 0; before < i; before++)
            again |= node_of(machine.cpus[before]) == node_of(machine.cpus[i]);
        nodes += !again;
    }
    if (machine.largest / (size_t)machine.number < PAGE) {
        fprintf(stderr, "memory: touch takes a page for each thread at least\n");
        return 1;
    }
    printf("Set = %zu bytes, %d threads\n", machine.largest, machine.number);
    printf("NUMA nodes of the threads = %d%s\n", nodes, nodes == 1 ? ": who touches first makes no difference" : "");
    printf("%12s %12s\n", "Touched by", "MB/s");
    for (int each = 0; each < 2; each++) {
        printf("%12s %12.1f\n", each ? "each" : "one", 1e-6 * all_read(each));
        fflush(stdout);
    }
    return 0;
}
