/* queues ROUNDS KILL: in each round rank 0 sends ten messages, of which all are in rank 1's queue before it asks for
 * them. The last of a round are asked for after 20 ms. KILL 1: rank 1 is killed after the last round. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, rounds = atoi(argv[1]), killed = atoi(argv[2]);
    double values[4] = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; rank == 0 && i < 10; i++)
            MPI_Send(values, 4, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD);
        /* messages of one rank come in their order: these before what the barrier sends */
        MPI_Barrier(MPI_COMM_WORLD);
        usleep(20000);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; rank == 1 && i < 10; i++)
            MPI_Recv(values, 4, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (killed && rank == 1)
        kill(getpid(), SIGKILL);
    MPI_Finalize();
    return 0;
}
