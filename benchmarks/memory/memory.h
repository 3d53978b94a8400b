/* What the parts of `memory` share: the machine, pinned threads, memory, chains of loads, medians of rounds. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KIB 1024ull
#define PAGE 4096ull /* the least that a page has */
#define HUGE (2ull << 20)
#define LEVELS 5 /* L1 to L4, by their numbers */
#define SMALLEST (4 * KIB)
#define ROUNDS 21 /* timed one by one, shorter than a time slice; their median is the result */
#define ROUND_S 0.0005

/* cpus: those that this process may use, the first is where single threads run; levels: bytes of its caches, 0 where there is
 * none, `last` the largest; largest: bytes of the largest working set; clock_hz: 0 where it cannot be measured. */
struct machine {
    int cpus[CPU_SETSIZE], number;
    size_t levels[LEVELS], last, line, largest;
    double clock_hz;
};
extern struct machine machine;

struct times {
    double median, least;
    size_t loads;
};

_Noreturn void die(const char *what);
double now(void);
double median(double *values, int number);
void pin(int cpu);
pthread_t start(int cpu, void *(*work)(void *), void *of);
/* A file of /sys/devices/system/cpu/cpuN, without its line end; "" if there is none. */
const char *cpu_file(int cpu, const char *file, char *text, int size);
int node_of(int cpu);
int relation(int one, int other); /* 0: two threads of one core; see threads.c */

char *get_memory(size_t bytes, int huge); /* mapped, not touched */
void touch(char *memory, size_t bytes);
void give_back(char *memory, size_t bytes);
double huge_share(const char *memory, size_t bytes);

/* A random permutation of the numbers below n: the place of number i. */
struct order {
    uint64_t n, mask;
    int half;
};
struct order order_of(uint64_t n);
uint64_t place_of(const struct order *order, uint64_t *counter);
void chain(char *memory, size_t slots, size_t distance);
void **follow(void **place, size_t loads);
struct times time_loads(void ***place); /* seconds a load */

int ladder(int pages), numa(void), loaded(void);
int cores(void), sharing(void), touched(void);
int align(void), stride(void), product(size_t n);
