/* The memory latency ladder: the time of one dependent load, over working sets from a cache to main memory.
 *
 * A working set is a chain of cache lines, each holding the address of the next, in random order and closed to
 * one cycle (Sattolo 1986), so that neither a prefetcher nor reordering can begin a load before the one before
 * it has ended. This is the idle latency that one thread sees, as lat_mem_rd measures it (McVoy, Staelin,
 * lmbench, USENIX 1996); the load is of one word, what moves is a line.
 *
 *     chase [PAGES [LARGEST]]
 *
 * PAGES: huge (default) asks the kernel for huge pages, small for ordinary ones, with which a walk of the page
 * tables is in the time of large sets. LARGEST: bytes; default four times the last-level cache. Sets are powers
 * of two from 16 KiB to a quarter of the largest, and the largest. A set lies in a level where it is the largest
 * that fills at most half of it, and in main memory where it is at least twice the last-level cache. The thread
 * runs on the first CPU that it may use, its memory lies there too (first touch), and the caches are that CPU's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SMALLEST 16384ull
#define CACHE_MULTIPLE 4
#define HUGE (2ull << 20)
#define LEVELS 5 /* L1 to L4, by their numbers */
#define ROUNDS 11 /* timed one by one, shorter than a time slice; their median is the result */
#define ROUND_S 0.001
#define WARM 65536 /* loads before the first round: fill the levels below the set's own */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A line of /sys/devices/system/cpu/cpuN/cache/indexI/FILE; "" if there is none. */
static const char *cache_file(int cpu, int index, const char *file, char *text, int size)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, file);
    FILE *f = fopen(path, "r");
    if (f == NULL || fgets(text, size, f) == NULL)
        text[0] = 0;
    if (f != NULL)
        fclose(f);
    text[strcspn(text, "\n")] = 0;
    return text;
}

/* Bytes of each cache of a CPU that holds data, by level (0: none); returns the line's bytes, 0 if unknown. */
static size_t caches(int cpu, size_t levels[LEVELS])
{
    char text[64];
    size_t line = 0;
    memset(levels, 0, LEVELS * sizeof *levels);
    for (int index = 0; index < 8; index++) {
        if (strcmp(cache_file(cpu, index, "type", text, sizeof text), "Instruction") == 0 || !text[0])
            continue;
        int level = atoi(cache_file(cpu, index, "level", text, sizeof text));
        char *unit;
        size_t size = strtoull(cache_file(cpu, index, "size", text, sizeof text), &unit, 10);
        if (level < 1 || level >= LEVELS)
            continue;
        levels[level] = size << (*unit == 'M' ? 20 : *unit == 'K' ? 10 : 0);
        size_t own = strtoull(cache_file(cpu, index, "coherency_line_size", text, sizeof text), NULL, 10);
        line = own > line ? own : line;
    }
    return line;
}

/* Bytes of [start, start + size) that lie in huge pages, by /proc/self/smaps; -1 if it does not say. */
static long long in_huge_pages(const char *start, size_t size)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char text[512];
    long long total = -1, kib;
    unsigned long first, end;
    int inside = 0;
    while (f != NULL && fgets(text, sizeof text, f) != NULL) {
        if (sscanf(text, "%lx-%lx ", &first, &end) == 2)
            inside = first < (uintptr_t)start + size && end > (uintptr_t)start;
        else if (inside && sscanf(text, "AnonHugePages: %lld kB", &kib) == 1)
            total = (total < 0 ? 0 : total) + 1024 * kib;
    }
    if (f != NULL)
        fclose(f);
    return total;
}

/* xorshift64* (Vigna 2016), and a number below n by its upper bits (Lemire 2019). */
static uint64_t state = 88172645463325252ull;
static uint64_t below(uint64_t n)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint64_t)(((unsigned __int128)(state * 2685821657736338717ull) * n) >> 64);
}

/* One random cycle through the lines of [memory, memory + lines * line). */
static void chain(char *memory, size_t lines, size_t line)
{
    for (size_t i = 0; i < lines; i++)
        *(void **)(memory + i * line) = memory + i * line;
    for (size_t i = lines - 1; i > 0; i--) {
        void **one = (void **)(memory + i * line), **other = (void **)(memory + below(i) * line);
        void *kept = *one;
        *one = *other;
        *other = kept;
    }
}

/* The place after `loads` loads, each of the address that the one before gave. */
static void **follow(void **place, size_t loads)
{
    for (; loads >= 8; loads -= 8) {
        place = *place; place = *place; place = *place; place = *place;
        place = *place; place = *place; place = *place; place = *place;
    }
    while (loads--)
        place = *place;
    return place;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int usage(void)
{
    fprintf(stderr, "usage: chase [huge|small [LARGEST_BYTES]]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *pages = argc > 1 ? argv[1] : "huge";
    if (argc > 3 || (strcmp(pages, "huge") && strcmp(pages, "small")))
        return usage();
    cpu_set_t allowed, own;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) {
        perror("chase: sched_getaffinity");
        return 1;
    }
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed))
        cpu++;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    if (sched_setaffinity(0, sizeof own, &own)) {
        perror("chase: sched_setaffinity");
        return 1;
    }
    size_t levels[LEVELS], last = 0, line = caches(cpu, levels);
    for (int level = 1; level < LEVELS; level++)
        last = levels[level] > last ? levels[level] : last;
    if (line < sizeof(void *))
        line = 64;
    size_t largest = CACHE_MULTIPLE * (last ? last : 32u << 20);
    size_t most = (size_t)sysconf(_SC_PHYS_PAGES) / 4 * (size_t)sysconf(_SC_PAGE_SIZE);
    if (largest > most)
        largest = most;
    if (argc > 2) {
        char *end;
        errno = 0;
        largest = strtoull(argv[2], &end, 10);
        if (errno || *end || argv[2][0] == '-' || largest < SMALLEST || largest > SIZE_MAX / 2)
            return usage();
    }
    char *memory = mmap(NULL, largest + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "chase: no memory for %zu bytes: %s\n", largest, strerror(errno));
        return 1;
    }
    memory += HUGE - (uintptr_t)memory % HUGE;
    madvise(memory, largest, strcmp(pages, "huge") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);

    printf("Pointer chase of NPC: one dependent load after another, random cycle\n");
    printf("CPU = %d, of %d that may be used\n", cpu, CPU_COUNT(&allowed));
    printf("Line = %zu bytes\n", line);
    for (int level = 1; level < LEVELS; level++)
        if (levels[level])
            printf("L%d = %zu bytes\n", level, levels[level]);
    memset(memory, 0, largest); /* all pages, before any is asked for */
    long long huge = in_huge_pages(memory, largest);
    printf("Pages = %s, %.3f of the memory in huge ones\n", pages, huge < 0 ? 0.0 : (double)huge / (double)largest);
    printf("%16s %12s %10s %10s  Level\n", "Bytes", "Loads", "Median ns", "Least ns");
    for (size_t size = SMALLEST;;) {
        size_t lines = size / line;
        chain(memory, lines, line);
        void **place = follow((void **)memory, lines < WARM ? lines : WARM);
        double start = now();
        place = follow(place, 4096);
        size_t loads = (size_t)(ROUND_S / ((now() - start) / 4096 + 1e-12));
        loads = loads < 4096 ? 4096 : loads;
        double ns[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            start = now();
            place = follow(place, loads);
            ns[round] = 1e9 * (now() - start) / (double)loads;
        }
        qsort(ns, ROUNDS, sizeof *ns, by_value);
        if (place == NULL) /* never: it keeps the loads */
            return 1;
        size_t next = 2 * size <= largest / 4 ? 2 * size : largest;
        char level[8] = "-";
        if (last && size >= 2 * last)
            snprintf(level, sizeof level, "MEM");
        size_t smaller = 0; /* the levels below */
        for (int l = 1; l < LEVELS; l++) {
            int fullest = size >= largest || next > levels[l] / 2;
            if (levels[l] && size > smaller && size <= levels[l] / 2 && fullest)
                snprintf(level, sizeof level, "L%d", l);
            smaller = levels[l] > smaller ? levels[l] : smaller;
        }
        printf("%16zu %12zu %10.3f %10.3f  %s\n", lines * line, ROUNDS * loads, ns[ROUNDS / 2], ns[0], level);
        fflush(stdout);
        if (size >= largest)
            break;
        size = next;
    }
    printf("Complete\n");
    return 0;
}
