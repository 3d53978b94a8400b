/* Two ranks send each other 64 bytes to 1 MiB, for half a second, and check what came. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 };

int main(int count, char **words)
{
    int rank, going = 1;
    long wrong = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *sent = malloc(MOST), *received = malloc(MOST);
    double begin = MPI_Wtime();
    for (int round = 0; going; round++) {
        for (int bytes = 64; bytes <= MOST; bytes *= 16) {
            memset(sent, round + rank, bytes);
            memset(received, 0, bytes);
            MPI_Sendrecv(sent, bytes, MPI_CHAR, 1 - rank, 1, received, bytes, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            for (int at = 0; at < bytes; at++)
                wrong += received[at] != (char)(round + 1 - rank);
        }
        going = MPI_Wtime() - begin < 0.5;
        MPI_Bcast(&going, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    printf("%ld bytes are wrong\n", wrong);
    MPI_Finalize();
    return wrong != 0;
}
