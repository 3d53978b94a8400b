/* Computes in two functions for known parts of its CPU time, and says how long it was in each:
 *
 *     shares SECONDS PART[,PART…] [TOUCHED]
 *
 * SECONDS of CPU time, PART of it in heavy(), the rest in light(); a part for each rank, 0 sleeps instead.
 * TOUCHED: pages that touch() uses for the first time.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile double sink = 1.0;

static double now(void)
{
    struct timespec moment;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &moment);
    return moment.tv_sec + 1e-9 * moment.tv_nsec;
}

#define COMPUTE(name, step)                              \
    __attribute__((noinline)) double name(double seconds) \
    {                                                    \
        double begin = now(), end = begin;               \
        while ((end = now()) < begin + seconds)          \
            for (int i = 0; i < 200000; i++)             \
                sink = sink * step + 1e-9;               \
        return end - begin;                              \
    }

COMPUTE(heavy, 0.999)
COMPUTE(light, 0.998)

__attribute__((noinline)) void touch(long pages)
{
    char *memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, pages * 4096, MADV_NOHUGEPAGE);
    for (long page = 0; page < pages; page++)
        memory[page * 4096] = 1;
}

int main(int count, char **words)
{
    double seconds = atof(words[1]), in_heavy = 0, in_light = 0;
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *part = words[2];
    for (int i = rank ? atoi(rank) : 0; i > 0 && strchr(part, ','); i--)
        part = strchr(part, ',') + 1;
    if (count > 3)
        touch(atol(words[3]));
    double share = atof(part);
    if (share == 0)
        usleep(seconds * 1e6);
    else
        /* in turns of 50 ms, so that no part of the run is of one function */
        for (int turn = 0; turn < seconds / 0.05; turn++) {
            in_heavy += heavy(0.05 * share);
            in_light += light(0.05 * (1 - share));
        }
    printf("rank %s heavy %.6f light %.6f\n", rank ? rank : "0", in_heavy, in_light);
    return 0;
}
