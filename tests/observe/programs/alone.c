/* Each rank talks to itself only: handles of every kind go through MPI. Prints what it has computed. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int out[4] = {1, 2, 3, 4}, in[4] = {0}, sum = 0, total = 0;
    MPI_Request requests[2];
    MPI_Datatype pair;
    MPI_Comm copy;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_SELF, &copy);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Irecv(in, 2, pair, 0, 1, copy, &requests[0]);
    MPI_Isend(out, 2, pair, 0, 1, copy, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 4; i++)
        sum += in[i];
    MPI_Allreduce(&sum, &total, 1, MPI_INT, MPI_SUM, copy);
    MPI_Type_free(&pair);
    MPI_Comm_free(&copy);
    printf("sum %d\n", total);
    MPI_Finalize();
    return 5;
}
