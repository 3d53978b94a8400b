/* Four threads record numbers and call MPI, so that each of them takes snapshots while the others record. */
#include <mpi.h>
#include <pthread.h>
#include <sde_lib.h>
#include <stdio.h>

enum { THREADS = 4, RECORDS = 15000 };

static void *recorder, *counter;

static void *work(void *number)
{
    int flag;
    for (int i = 0; i < RECORDS; i++) {
        double value = *(int *)number * RECORDS + i;
        papi_sde_record(recorder, sizeof value, &value);
        papi_sde_inc_counter(counter, 1);
        MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, numbers[THREADS] = {0, 1, 2, 3};
    pthread_t threads[THREADS];
    void *library = papi_sde_init("Threads");
    papi_sde_create_recorder(library, "numbers", sizeof(double), papi_sde_compare_double, &recorder);
    papi_sde_create_counter(library, "records", PAPI_SDE_DELTA, &counter);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &numbers[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    MPI_Finalize();
    return provided != MPI_THREAD_MULTIPLE;
}
