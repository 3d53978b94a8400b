/* Two ranks that exchange ten messages and end in a way that MPI does not like: ends exit|abort|TERM|KILL */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, word = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 10; i++)
        MPI_Sendrecv_replace(&word, 1, MPI_INT, !rank, 1, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0 && argc > 1) {
        if (strcmp(argv[1], "exit") == 0)
            exit(3);
        if (strcmp(argv[1], "abort") == 0)
            MPI_Abort(MPI_COMM_WORLD, 7);
        kill(getpid(), strcmp(argv[1], "TERM") == 0 ? SIGTERM : SIGKILL);
    }
    if (argc > 1 && strcmp(argv[1], "exit") == 0)
        exit(3);
    MPI_Recv(&word, 1, MPI_INT, !rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* that never comes */
    MPI_Finalize();
    return 0;
}
