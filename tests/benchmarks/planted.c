/* Takes 1 ms of CPU every 10 ms from one core until it is told to end (SIGTERM), then prints the share that it had.
 *
 *     planted CPU
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile sig_atomic_t ended;
static void end(int number)
{
    (void)number;
    ended = 1;
}

static double seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(argc > 1 ? atoi(argv[1]) : 0, &one);
    if (sched_setaffinity(0, sizeof one, &one)) {
        perror("planted");
        return 1;
    }
    signal(SIGTERM, end);
    puts("there");
    fflush(stdout);
    double begin = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    while (!ended) {
        next.tv_nsec += 10000000;
        if (next.tv_nsec >= 1000000000)
            next.tv_sec++, next.tv_nsec -= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        double busy = seconds(CLOCK_PROCESS_CPUTIME_ID) + 1e-3;
        while (!ended && seconds(CLOCK_PROCESS_CPUTIME_ID) < busy)
            ;
    }
    printf("%.6f\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - used) / (seconds(CLOCK_MONOTONIC) - begin));
    return 0;
}
