/* Two threads that touch known pages, over and over: argument 1 is for how many ms. Says what lies where. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 24 };
static volatile char *read_only, *written, *both, *idle;
static char in_data[8 * PAGE] = {1};
static volatile int over;

static void *reader(void *unused)
{
    (void)unused;
    long sum = 0;
    while (!over)
        for (int page = 0; page < PAGES; page++)
            sum += read_only[page * PAGE + 8 * page] + both[page * PAGE];
    return (void *)sum;
}

static void *writer(void *unused)
{
    (void)unused;
    while (!over)
        for (int page = 0; page < PAGES; page++) {
            written[page * PAGE + 16 * page] = 1;
            both[page * PAGE + 8] = 2;
            ((volatile char *)in_data)[(page % 8) * PAGE + 64] = 3;
        }
    return NULL;
}

static char *pages(void)
{
    char *begin = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int page = 0; page < PAGES; page++)
        begin[page * PAGE] = 1;
    return begin;
}

int main(int count, char **words)
{
    pthread_t threads[2];
    struct timespec time = {0, 1000000L * (count > 1 ? atoi(words[1]) : 300)};
    read_only = pages();
    written = pages();
    both = pages();
    idle = pages();
    pthread_create(&threads[0], NULL, reader, NULL);
    pthread_create(&threads[1], NULL, writer, NULL);
    printf("%p %p %p %p %p %p %p\n", (void *)read_only, (void *)written, (void *)both, (void *)idle, (void *)in_data,
           (void *)reader, (void *)writer);
    fflush(stdout);
    nanosleep(&time, NULL);
    over = 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
