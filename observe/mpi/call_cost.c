/* Times calls of MPI through the profiling library and past it, in turns.
 *
 *     mpi_calls LIBMPI CALLS BLOCKS      prints for each block the ns that a call costs more through the library:
 *                                        MPI_Iprobe of nothing, MPI_Sendrecv of 4 bytes with itself
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e9 * time.tv_sec + time.tv_nsec;
}

int main(int argc, char **argv)
{
    int flag, one = 1, other, calls = argc > 3 ? atoi(argv[2]) : 0, blocks = argc > 3 ? atoi(argv[3]) : 0;
    MPI_Init(&argc, &argv);
    void *library = dlopen(argv[1], RTLD_LAZY | RTLD_NOLOAD);
    int (*iprobe)(int, int, MPI_Comm, int *, MPI_Status *) = library ? dlsym(library, "MPI_Iprobe") : NULL;
    int (*sendrecv)(const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int, int, MPI_Comm,
                    MPI_Status *) = library ? dlsym(library, "MPI_Sendrecv") : NULL;
    if (iprobe == NULL || sendrecv == NULL || (void *)iprobe == (void *)MPI_Iprobe) {
        fprintf(stderr, "no library stands before %s\n", argv[1]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int block = 0; block < blocks; block++) {
        double spent[4], begin;
#define TIMED(place, call)                                                                                    \
    begin = now();                                                                                            \
    for (int i = 0; i < calls; i++)                                                                           \
        call;                                                                                                 \
    spent[place] = (now() - begin) / calls;
        TIMED(0, iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE))
        TIMED(1, MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE))
        TIMED(2, sendrecv(&one, 1, MPI_INT, 0, 0, &other, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE))
        TIMED(3, MPI_Sendrecv(&one, 1, MPI_INT, 0, 0, &other, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE))
        printf("%.2f %.2f\n", spent[1] - spent[0], spent[3] - spent[2]);
    }
    MPI_Finalize();
    return 0;
}
