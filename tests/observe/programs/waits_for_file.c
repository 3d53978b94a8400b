/* A program of MPI that says that it runs by making the file READY, and goes on once the file PLANTED is there. */
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    double *own = malloc(sizeof *own * 100000), sum = 0;
    MPI_Init(&argc, &argv);
    close(open(getenv("READY"), O_WRONLY | O_CREAT, 0666));
    for (int look = 0; look < 3000 && access(getenv("PLANTED"), F_OK) != 0; ++look)
        usleep(10000);
    for (int i = 0; i < 100000; ++i)
        own[i] = i;
    MPI_Allreduce(own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
