/* Eighty threads, and then eighty others: each asks 1000 times whether there is a message. */
#include <mpi.h>
#include <pthread.h>
#include <stddef.h>

static void *ask(void *nothing)
{
    int flag;
    for (int i = 0; i < 1000; i++)
        MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    return nothing;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[80];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 80; i++)
            pthread_create(&threads[i], NULL, ask, NULL);
        for (int i = 0; i < 80; i++)
            pthread_join(threads[i], NULL);
    }
    MPI_Finalize();
    return 0;
}
