/* Calls a function as often as its argument says, and nothing else.
 *
 *     called CALLS WORK [RATE]     WORK: steps of arithmetic between two calls; RATE: calls a second at most
 *                                 prints the seconds that it took
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

__attribute__((noinline)) void called(volatile long *total)
{
    *total += 1;
}

int main(int argc, char **argv)
{
    long calls = atol(argv[1]), work = atol(argv[2]);
    double rate = argc > 3 ? atof(argv[3]) : 0, begin = now();
    volatile long total = 0;
    unsigned long value = 1;
    for (long i = 0; i < calls; i++) {
        for (long step = 0; step < work; step++)
            value = value * 6364136223846793005UL + 1442695040888963407UL;
        double since = rate > 0 ? now() : 0;
        while (rate > 0 && now() < since + 1 / rate)
            ;
        called(&total);
    }
    printf("%.6f %ld %lu\n", now() - begin, total, value);
    return 0;
}
