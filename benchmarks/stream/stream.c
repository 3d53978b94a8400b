/* STREAM, after its published rules (McCalpin, https://www.cs.virginia.edu/stream/ref.html):
 * four kernels over arrays of doubles, each array at least four times the last-level caches, NTIMES
 * rounds of which the first does not count, the best time of the others, 10^6 bytes in a MB, 16 bytes
 * an element for Copy and Scale and 24 for Add and Triad, and a check that the arithmetic was done.
 *
 * The size of the arrays is found on the machine that measures, so that the same program serves every
 * node:   stream [ELEMENTS [NTIMES]]
 * Compiled with -DNONTEMPORAL it stores past the caches: a stored line is then not read first (write
 * allocate), so that the counted bytes are all that move.
 * This is no official STREAM: call its numbers a variant of it when you publish them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef NONTEMPORAL
#if defined __AVX__
#include <immintrin.h>
#define WIDTH 4
typedef __m256d vector;
#define load(p) _mm256_load_pd(p)
#define store(p, v) _mm256_stream_pd(p, v)
#elif defined __SSE2__
#include <emmintrin.h>
#define WIDTH 2
typedef __m128d vector;
#define load(p) _mm_load_pd(p)
#define store(p, v) _mm_stream_pd(p, v)
#else
#error "no non-temporal stores are known for this architecture"
#endif
#define STORES "non-temporal"
#else
#define WIDTH 1
typedef double vector;
#define load(p) (*(p))
#define store(p, v) (*(p) = (v))
#define STORES "ordinary"
#endif

#ifndef NTIMES /* as in the official stream.c: -DNTIMES=20 */
#define NTIMES 10
#endif
#define RULE "-------------------------------------------------------------\n"
#define CACHE_MULTIPLE 4

enum { COPY, SCALE, ADD, TRIAD, KERNELS };
static const char *const names[KERNELS] = {"Copy:", "Scale:", "Add:", "Triad:"};
static const double words[KERNELS] = {2, 2, 3, 3};
static const double scalar = 3.0;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The smallest difference the clock shows: what "clock ticks" are counted in. */
static double clock_tick(void)
{
    double best = 1.0;
    for (int i = 0; i < 20; i++) {
        double a = now(), b;
        do
            b = now();
        while (b <= a);
        if (b - a < best)
            best = b - a;
    }
    return best;
}

/* Bytes of the last-level caches of all online CPUs together, each cache once; 0 if the kernel does not say.
 * A cache is counted at the first CPU of its list of sharers. */
static size_t last_level_caches(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    size_t total = 0;
    for (long cpu = 0; cpu < cpus; cpu++) {
        size_t size = 0;
        int level = 0, first = -1;
        for (int index = 0; index < 8; index++) {
            char path[128], type[32] = "", unit = 0;
            int this_level = 0, this_first = -1;
            unsigned long this_size = 0;
            FILE *f;
            const char *const files[] = {"level", "size", "shared_cpu_list", "type"};
            for (int i = 0; i < 4; i++) {
                snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/cache/index%d/%s", cpu, index, files[i]);
                if ((f = fopen(path, "r")) == NULL)
                    continue;
                int got = i == 0   ? fscanf(f, "%d", &this_level)
                          : i == 1 ? fscanf(f, "%lu%c", &this_size, &unit)
                          : i == 2 ? fscanf(f, "%d", &this_first)
                                   : fscanf(f, "%31s", type);
                (void)got;
                fclose(f);
            }
            if (strcmp(type, "Instruction") == 0 || this_level <= level)
                continue;
            level = this_level;
            first = this_first;
            size = (size_t)this_size << (unit == 'M' ? 20 : unit == 'K' ? 10 : 0);
        }
        if (first == cpu)
            total += size;
    }
    return total;
}

static size_t positive(const char *text, const char *what)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || value == 0 || text[0] == '-') {
        fprintf(stderr, "stream: %s: not a positive whole number: %s\n", what, text);
        exit(2);
    }
    return (size_t)value;
}

/* The average relative error of an array against the value that every element must have. */
static double average_error(const double *x, size_t n, double expected)
{
    double sum = 0.0;
#pragma omp parallel for reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += fabs(x[i] - expected);
    return sum / (double)n / fabs(expected);
}

int main(int argc, char **argv)
{
    if (argc > 3) {
        fprintf(stderr, "usage: stream [ELEMENTS [NTIMES]]\n");
        return 2;
    }
    size_t caches = last_level_caches();
    size_t n = CACHE_MULTIPLE * caches / sizeof(double);
    if (n < 10000000)
        n = 10000000;
    if (argc > 1)
        n = positive(argv[1], "ELEMENTS");
    size_t ntimes = argc > 2 ? positive(argv[2], "NTIMES") : NTIMES;
    if (ntimes < 2 || ntimes > 200) {
        fprintf(stderr, "stream: NTIMES must be 2 to 200: the first round does not count, and values grow 15-fold a round\n");
        return 2;
    }
    if (n > SIZE_MAX / sizeof(double) / 4) {
        fprintf(stderr, "stream: ELEMENTS: %zu is more than this machine can address\n", n);
        return 2;
    }
    n = (n + WIDTH - 1) / WIDTH * WIDTH;
    size_t bytes = n * sizeof(double);
    double *a = NULL, *b = NULL, *c = NULL;
    if (posix_memalign((void **)&a, 4096, bytes) || posix_memalign((void **)&b, 4096, bytes) ||
        posix_memalign((void **)&c, 4096, bytes)) {
        fprintf(stderr, "stream: no memory for three arrays of %zu bytes\n", bytes);
        return 1;
    }

    printf(RULE "STREAM variant of NPC (array size found at run time)\n" RULE);
    printf("This system uses %zu bytes per array element.\n" RULE, sizeof(double));
    printf("Array size = %zu (elements), Offset = 0 (elements)\n", n);
    printf("Memory per array = %.1f MiB (= %.1f GiB).\n", bytes / 1048576.0, bytes / 1073741824.0);
    printf("Total memory required = %.1f MiB (= %.1f GiB).\n", 3 * bytes / 1048576.0, 3 * bytes / 1073741824.0);
    printf("Last-level caches = %.1f MiB.\n", caches / 1048576.0);
    printf("Stores = %s.\n", STORES);
    printf("Each kernel will be executed %zu times.\n", ntimes);
    printf(" The *best* time for each kernel (excluding the first iteration)\n");
    printf(" will be used to compute the reported bandwidth.\n" RULE);

    int threads = 0;
#pragma omp parallel
#pragma omp atomic
    threads++;

    /* first touch by the thread that will work on it, so that pages lie on its NUMA node */
#pragma omp parallel for
    for (size_t i = 0; i < n; i++) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.0;
    }
    double tick = clock_tick();
    double t = now();
#pragma omp parallel for
    for (size_t i = 0; i < n; i++)
        a[i] = 2.0 * a[i];
    t = now() - t;

    printf("Number of Threads requested = %d\n", omp_get_max_threads());
    printf("Number of Threads counted = %d\n" RULE, threads);
    printf("Your clock granularity/precision appears to be %.3g microseconds.\n", tick * 1e6);
    printf("Each test below will take on the order of %.0f microseconds.\n", t * 1e6);
    printf("   (= %.0f clock ticks)\n" RULE, t / tick);

    double best[KERNELS], worst[KERNELS], sum[KERNELS];
    for (int k = 0; k < KERNELS; k++) {
        best[k] = INFINITY;
        worst[k] = sum[k] = 0.0;
    }
    for (size_t round = 0; round < ntimes; round++) {
        double times[KERNELS + 1];
        times[COPY] = now();
#pragma omp parallel for
        for (size_t i = 0; i < n; i += WIDTH)
            store(&c[i], load(&a[i]));
        times[SCALE] = now();
#pragma omp parallel for
        for (size_t i = 0; i < n; i += WIDTH)
            store(&b[i], scalar * load(&c[i]));
        times[ADD] = now();
#pragma omp parallel for
        for (size_t i = 0; i < n; i += WIDTH)
            store(&c[i], load(&a[i]) + load(&b[i]));
        times[TRIAD] = now();
#pragma omp parallel for
        for (size_t i = 0; i < n; i += WIDTH)
            store(&a[i], load(&b[i]) + scalar * load(&c[i]));
        times[KERNELS] = now();
        for (int k = 0; round > 0 && k < KERNELS; k++) {
            double took = times[k + 1] - times[k];
            sum[k] += took;
            best[k] = fmin(best[k], took);
            worst[k] = fmax(worst[k], took);
        }
    }

    printf("Function    Best Rate MB/s  Avg time     Min time     Max time\n");
    for (int k = 0; k < KERNELS; k++)
        printf("%s%*.1f  %11.6f  %11.6f  %11.6f\n", names[k], (int)(24 - strlen(names[k])),
               1e-6 * words[k] * (double)bytes / best[k], sum[k] / (double)(ntimes - 1), best[k], worst[k]);
    printf(RULE);

    /* the same arithmetic on one element; 5 steps of rounding a round are far below the bound */
    double x = 2.0, y = 2.0, z = 0.0;
    for (size_t round = 0; round < ntimes; round++) {
        z = x;
        y = scalar * z;
        z = x + y;
        x = y + scalar * z;
    }
    double error = fmax(average_error(a, n, x), fmax(average_error(b, n, y), average_error(c, n, z)));
    if (!(error < 1e-13)) {
        printf("Failed Validation: avg error %e on the worst of three arrays\n" RULE, error);
        return 1;
    }
    printf("Solution Validates: avg error less than 1.000000e-13 on all three arrays\n" RULE);
    return 0;
}
