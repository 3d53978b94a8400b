/* Makes known numbers of events of known durations, and says them.
 *
 *     events N FILE [SECONDS]     the rank's factor, 1 + its number, times N of each; then computes for SECONDS
 *                                 in short calls of the same function
 *
 * A line an event: its name, how many, the seconds that they took as measured around them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

/* Returns how long it was inside. */
__attribute__((noinline)) double called(double seconds)
{
    double begin = now(), end = begin;
    while (end - begin < seconds)
        end = now();
    return end - begin;
}

__attribute__((noinline)) long nested(long depth)
{
    return depth ? nested(depth - 1) + depth : 0;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    long n = atol(argv[1]) * (1 + (rank ? atol(rank) : 0)), page = sysconf(_SC_PAGESIZE);
    double seconds = 0, begin;
    struct rusage start;
    getrusage(RUSAGE_SELF, &start); // before its exec the process was another program

    for (long i = 0; i < n; i++)
        seconds += called(2e-4);
    printf("called %ld %.6f\n", n, seconds);

    long sum = 0;
    for (long i = 0; i < n; i++)
        sum += nested(99);
    printf("nested %ld 0 %ld\n", 100 * n, sum);

    begin = now();
    for (long i = 0; i < n; i++) {
        struct timespec time = {0, 2000000};
        nanosleep(&time, NULL);
    }
    printf("slept %ld %.6f\n", n, now() - begin);

    for (long i = 0; i < n; i++)
        syscall(SYS_getppid);
    printf("asked %ld 0\n", n);

    char *memory = mmap(NULL, n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, n * page, MADV_NOHUGEPAGE);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (long i = 0; i < n; i++)
        memory[i * page] = 1;
    getrusage(RUSAGE_SELF, &after);
    printf("faulted %ld 0 %ld\n", n, after.ru_minflt - before.ru_minflt);

    char path[4096];
    snprintf(path, sizeof path, "%s.%s", argv[2], rank ? rank : "0");
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    begin = now();
    for (long i = 0; i < n; i++)
        if (pwrite(file, memory, 4096, 4096 * i) != 4096)
            return 1;
    printf("written %ld %.6f\n", n, now() - begin);
    fsync(file);
    unlink(path);

    struct rusage end;
    getrusage(RUSAGE_SELF, &end);
    printf("switched %ld 0 %ld\n", end.ru_nivcsw - start.ru_nivcsw, end.ru_nvcsw - start.ru_nvcsw);
    fflush(stdout);
    for (double stop = now() + (argc > 3 ? atof(argv[3]) : 0); now() < stop;)
        called(1e-2);
    return 0;
}
