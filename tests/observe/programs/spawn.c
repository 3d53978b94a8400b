/* Two ranks that start two others, send them a number and merge with them. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm others, all;
    int rank, size, number = 7, errors[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&others);
    int child = others != MPI_COMM_NULL;
    if (!child)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, errors);
    if (!child && rank == 0)
        MPI_Send(&number, 1, MPI_INT, 1, 0, others);
    if (child && rank == 1)
        MPI_Recv(&number, 1, MPI_INT, 0, 0, others, MPI_STATUS_IGNORE);
    MPI_Bcast(&number, 1, MPI_INT, child ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, others);
    MPI_Intercomm_merge(others, child, &all);
    MPI_Comm_size(all, &size);
    if (!child && rank == 0)
        printf("%d together\n", size);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&others);
    MPI_Finalize();
    return 0;
}
