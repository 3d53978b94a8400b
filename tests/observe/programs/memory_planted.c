/* Two threads with what is to be found: counters side by side in a line, and an array that one thread sets up. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 16, THREADS = 2, ROUNDS = 12 };

static long counts[THREADS];
static double *field;
static pthread_barrier_t together; /* else a busy machine runs one after the other */

static void *work(void *number)
{
    long me = (long)number;
    double *own = malloc(N / THREADS * sizeof *own);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&together);
        for (long i = 0; i < N / THREADS; i++) {
            own[i] = field[me * N / THREADS + i] * 0.5;
            field[me * N / THREADS + i] = own[i];
            ((volatile long *)counts)[me]++;
        }
    }
    free(own);
    return NULL;
}

static void *xmalloc(size_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL)
        abort();
    return block;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    field = /* kept by the caller */
        xmalloc(N * sizeof(double));
    for (long i = 0; i < N; i++)
        field[i] = (double)i;
    for (long i = 0; i < THREADS; i++)
        counts[i] = 0;
    for (long i = 0; i < THREADS; i++)
        pthread_create(threads + i, NULL, work, (void *)i);
    for (long i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    long sum = 0;
    for (long i = 0; i < THREADS; i++)
        sum += counts[i];
    printf("%ld\n", sum);
    return 0;
}
