/* MPI_Send to a receiver that comes 200 ms late, in the table of osu_latency. Over TCP a message below the eager limit
 * leaves at once, one above it waits for the receiver: an effect of the limit that no load of the machine hides.
 * (Through shared memory Open MPI 4.1 waits for either, except for the smallest.) */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static char buffer[2048];

int main(int argc, char **argv)
{
    const int sizes[] = {64, 2048};
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("# OSU MPI Latency Test v7.4\n# Size          Latency (us)\n");
    for (int i = 0; i < 2; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            double begun = MPI_Wtime();
            MPI_Send(buffer, sizes[i], MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            printf("%-10d %15.2f\n", sizes[i], (MPI_Wtime() - begun) * 1e6);
        } else {
            usleep(200000);
            MPI_Recv(buffer, sizes[i], MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    MPI_Finalize();
    return 0;
}
