/* Known accesses: memory_counts THREADS READS WRITES PAGES END
 *
 * Thread t owns every page p of `pages` with p % THREADS == t. It writes word t of its own pages WRITES times;
 * then, once all have done so, it reads word t of every page READS times. END: exit, _exit or kill.
 * Compiled with -DWITH_MPI it is an MPI program. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

enum { WORDS = 512, MOST = 64 };
static volatile double pages[MOST][WORDS] __attribute__((aligned(4096)));
static int threads, reads, writes, number;
static pthread_barrier_t written;
static pid_t tids[MOST];

static void *work(void *given)
{
    int self = (int)(long)given;
    tids[self] = gettid();
    for (int page = self; page < number; page += threads)
        for (int time = 0; time < writes; time++)
            pages[page][self] = time;
    pthread_barrier_wait(&written);
    for (int page = 0; page < number; page++)
        for (int time = 0; time < reads; time++)
            (void)pages[page][self];
    return NULL;
}

int main(int count, char **words)
{
    pthread_t started[MOST];
    if (count < 6)
        return 2;
#ifdef WITH_MPI
    MPI_Init(&count, &words);
#endif
    threads = atoi(words[1]), reads = atoi(words[2]), writes = atoi(words[3]), number = atoi(words[4]);
    pthread_barrier_init(&written, NULL, (unsigned)threads);
    for (long thread = 0; thread < threads; thread++)
        pthread_create(started + thread, NULL, work, (void *)thread);
    for (int thread = 0; thread < threads; thread++)
        pthread_join(started[thread], NULL);
    printf("%p", (void *)pages);
    for (int thread = 0; thread < threads; thread++)
        printf(" %d", tids[thread]);
    printf("\n");
    fflush(stdout);
    if (strcmp(words[5], "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(words[5], "_exit") == 0)
        _exit(3);
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    return 0;
}
