/* Put before a program (LD_PRELOAD) on a machine without hardware counters: opens the kernel's clock of the thread for
 * each of these, by perf_event_open(2) as before. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <sys/syscall.h>

long syscall(long number, ...)
{
    long words[6];
    va_list given;
    va_start(given, number);
    for (int place = 0; place < 6; place++)
        words[place] = va_arg(given, long);
    va_end(given);
    struct perf_event_attr *attributes = (struct perf_event_attr *)words[0];
    if (number == SYS_perf_event_open && attributes->type == PERF_TYPE_HARDWARE) {
        attributes->type = PERF_TYPE_SOFTWARE;
        attributes->config = PERF_COUNT_SW_TASK_CLOCK;
        attributes->exclude_kernel = attributes->exclude_hv = 0;
    }
    long (*next)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
