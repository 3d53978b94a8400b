/* The cost of a call of MPI: as it is, with two readings of the clock around it, and by the name that the profiling
 * library stands for. In turn, so that whatever else the machine does meets all three alike.
 *
 *     cost LIBMPI CALLS BLOCKS      prints for each kind of call and block the ns of a call in each of the three ways
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *library;

static void *behind(const char *name, void *before)
{
    void *function = library ? dlsym(library, name) : NULL;
    if (function == NULL || function == before) {
        fprintf(stderr, "cost: %s: %s\n", name, function ? "no library stands before it" : "not in libmpi");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return function;
}

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1000000000L * time.tv_sec + time.tv_nsec;
}

/* `bare` and `profiled` are the same call. */
#define MEASURE(name, bare, profiled)                                                             \
    for (int block = 0; block < blocks; block++) {                                                \
        long begin = now();                                                                       \
        for (int i = 0; i < calls; i++)                                                           \
            bare;                                                                                 \
        long plain = now() - begin;                                                               \
        begin = now();                                                                            \
        for (int i = 0; i < calls; i++) {                                                         \
            long before = now();                                                                  \
            bare;                                                                                 \
            spent += now() - before;                                                              \
        }                                                                                         \
        long clocks = now() - begin;                                                              \
        begin = now();                                                                            \
        for (int i = 0; i < calls; i++)                                                           \
            profiled;                                                                             \
        long counted = now() - begin;                                                             \
        printf("%s %.2f %.2f %.2f\n", name, (double)plain / calls, (double)clocks / calls,        \
               (double)counted / calls);                                                          \
    }

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    library = dlopen(argv[1], RTLD_LAZY | RTLD_NOLOAD);
    int (*iprobe)(int, int, MPI_Comm, int *, MPI_Status *) = behind("MPI_Iprobe", (void *)MPI_Iprobe);
    int (*sendrecv)(const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int, int, MPI_Comm,
                    MPI_Status *) = behind("MPI_Sendrecv", (void *)MPI_Sendrecv);
    int (*barrier)(MPI_Comm) = behind("MPI_Barrier", (void *)MPI_Barrier);
    int calls = atoi(argv[2]), blocks = atoi(argv[3]), flag, one = 1, other;
    long volatile spent = 0;
    MEASURE("MPI_Iprobe", iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE),
            MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE))
    MEASURE("MPI_Barrier", barrier(MPI_COMM_SELF), MPI_Barrier(MPI_COMM_SELF))
    MEASURE("MPI_Sendrecv",
            sendrecv(&one, 1, MPI_INT, 0, 0, &other, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE),
            MPI_Sendrecv(&one, 1, MPI_INT, 0, 0, &other, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE))
    MPI_Finalize();
    return 0;
}
