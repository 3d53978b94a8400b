/* clock: the clock of the core that it runs on, in Hz, by a chain of additions of which each takes one cycle.
 *
 * Of a register to itself: additions of a constant take no time on recent cores (Golden Cove folds them at rename).
 * The best of some rounds: an interrupt makes one slower, nothing makes one faster. Nothing is printed for processors
 * whose addition is not known here.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

#define TEN(x) x x x x x x x x x x

int main(void)
{
#if defined __x86_64__ || defined __aarch64__
    double best = 0.0;
    for (int round = 0; round < 8; round++) {
        struct timespec a, b;
        unsigned long sum = 1;
        const long loops = 20000;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (long i = 0; i < loops; i++) {
#ifdef __x86_64__
            __asm__ volatile(TEN(TEN("add %0, %0\n")) : "+r"(sum));
#else
            __asm__ volatile(TEN(TEN("add %0, %0, %0\n")) : "+r"(sum));
#endif
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
        double seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        if (100 * loops / seconds > best)
            best = 100 * loops / seconds;
    }
    printf("%.0f\n", best);
#endif
    return 0;
}
