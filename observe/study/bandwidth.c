/* bandwidth: what two ranks on different nodes send each other in a second, by messages of 1 MiB there and back.
 *
 * Between the first rank and the first one of another node; where there is none, its next one. Prints bytes/s of one
 * direction: the median of the round trips of a fifth of a second.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (1 << 20)
#define SECONDS 0.2
#define MOST 10000

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rank, ranks, length, partner = 1;
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(name, &length);
    char *names = malloc((size_t)ranks * sizeof name), *buffer = calloc(1, BYTES);
    static double took[MOST];
    MPI_Allgather(name, sizeof name, MPI_CHAR, names, sizeof name, MPI_CHAR, MPI_COMM_WORLD);
    for (int other = ranks - 1; other > 0; other--)
        if (strcmp(names, names + (size_t)other * sizeof name) != 0)
            partner = other;
    int trips = 0, more = ranks > 1;
    double begun = MPI_Wtime();
    while (more && (rank == 0 || rank == partner)) {
        double start = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(buffer, BYTES, MPI_CHAR, partner, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, BYTES, MPI_CHAR, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            took[trips++] = MPI_Wtime() - start;
            more = trips < 5 || (trips < MOST && MPI_Wtime() - begun < SECONDS);
            MPI_Send(&more, 1, MPI_INT, partner, 1, MPI_COMM_WORLD);
        } else {
            MPI_Recv(buffer, BYTES, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, BYTES, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
            MPI_Recv(&more, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    if (trips > 0) {
        qsort(took, (size_t)trips, sizeof *took, by_size);
        printf("{\"network\": %.0f}\n", 2.0 * BYTES / took[trips / 2]);
    }
    MPI_Finalize();
    return 0;
}
