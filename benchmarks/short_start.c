/* Shortens the sleeps of a tool before it measures: `env LD_PRELOAD=short_start.so sockperf …`.
 *
 * sockperf sleeps two seconds between its warm-up messages and the test (client.cpp, initBeforeLoop), whose first 0.4 s it does not
 * count. likwid-bench sleeps twice half a second to learn the rate of the time stamp counter (timer.c, getCpuSpeed). Of these two
 * it takes the fewer cycles and the time of the second, which is wrong by as much as the first overslept less; so the second
 * sleep is the shorter one here, and cycles and time are of the same. Neither sleeps while it measures. */
#define _POSIX_C_SOURCE 200112L
#include <errno.h>
#include <time.h>
#include <unistd.h>

#define SHORT_NS 50000000L

int nanosleep(const struct timespec *asked, struct timespec *left)
{
    static int before;
    struct timespec shorter = {0, before++ ? SHORT_NS : 2 * SHORT_NS};
    int longer = asked->tv_sec > 0 || asked->tv_nsec > shorter.tv_nsec;
    errno = clock_nanosleep(CLOCK_REALTIME, 0, longer ? &shorter : asked, left);
    return errno ? -1 : 0;
}

unsigned int sleep(unsigned int seconds)
{
    struct timespec shorter = {0, seconds ? SHORT_NS : 0};
    clock_nanosleep(CLOCK_REALTIME, 0, &shorter, NULL);
    return 0;
}
