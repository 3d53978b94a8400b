/* A program made of timed parts, of which one computes, one streams through memory, one exchanges messages and one
 * writes to FOLDER/written: what each resource takes of its time is known by its own clock.
 *
 *   mpirun -n 2 timed_parts FOLDER ADDITIONS BYTES_STREAMED BYTES_SENT BYTES_WRITTEN
 *
 * Rank 0, on CPU 0, computes, sends and writes; rank 1, on CPU 1, streams and receives. Whoever waits for the other
 * sleeps meanwhile, so that nothing but its part needs a CPU. Then half of each part is done once more for the rates of
 * that moment. It prints the seconds of each part and the rates: additions, and bytes, a second. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COMPUTE, MEMORY, MPI, IO, PARTS };
enum { MESSAGE = 256 << 10, BLOCK = 16 << 10, NUMBERS = 8 << 20 };

static int rank, file;
static sem_t *waits; /* of each rank */
static double *from, *to;
static char *message, *block;
static volatile double sink;

/* Wait for the other rank asleep: MPI's own waiting would take a CPU. */
static void meet(void) {
    sem_post(&waits[!rank]);
    while (sem_wait(&waits[rank]))
        ;
}

static void share(const char *path) {
    int descriptor = open(path, O_RDWR | O_CREAT, 0600);
    if (descriptor < 0 || ftruncate(descriptor, 2 * sizeof *waits)) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    waits = mmap(NULL, 2 * sizeof *waits, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    sem_init(&waits[rank], 1, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void compute(double additions) {
    double value = sink;
    for (long left = (long)additions; left > 0; left--)
        value = value * 0.999999 + 1; /* each waits for the one before */
    sink = value;
}

static void stream(double bytes) {
    for (double done = 0; done < bytes; done += 3.0 * NUMBERS * sizeof(double))
        for (long i = 0; i < NUMBERS && done + 24.0 * i < bytes; i++)
            to[i] = to[i] * 0.5 + from[i];
}

static void exchange(double bytes) {
    for (double done = 0; done < bytes; done += MESSAGE)
        if (rank == 0)
            MPI_Send(message, MESSAGE, MPI_CHAR, 1, 2, MPI_COMM_WORLD);
        else
            MPI_Recv(message, MESSAGE, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    char last = 0; /* the time ends when all has arrived */
    if (rank == 0)
        MPI_Recv(&last, 1, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(&last, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
}

static void save(double bytes) {
    for (double done = 0; done < bytes;) {
        ssize_t written = write(file, block, BLOCK);
        if (written <= 0) {
            perror("timed_parts: write");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        done += (double)written;
    }
}

/* The seconds of each part, the same on both ranks. */
static void run(const double *work, double *seconds) {
    double own[PARTS] = {0}, start;
    meet();
    start = MPI_Wtime();
    if (rank == 0)
        compute(work[COMPUTE]);
    own[COMPUTE] = MPI_Wtime() - start;
    meet();
    start = MPI_Wtime();
    if (rank == 1)
        stream(work[MEMORY]);
    own[MEMORY] = MPI_Wtime() - start;
    meet();
    start = MPI_Wtime();
    exchange(work[MPI]);
    own[MPI] = MPI_Wtime() - start;
    meet();
    start = MPI_Wtime();
    if (rank == 0)
        save(work[IO]);
    own[IO] = MPI_Wtime() - start;
    meet();
    MPI_Allreduce(own, seconds, PARTS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    double work[PARTS], less[PARTS], seconds[PARTS], again[PARTS];
    cpu_set_t one;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 6) {
        fprintf(stderr, "usage: timed_parts FOLDER ADDITIONS BYTES_STREAMED BYTES_SENT BYTES_WRITTEN\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int part = 0; part < PARTS; part++) {
        work[part] = atof(argv[2 + part]);
        less[part] = work[part] / 2;
    }
    CPU_ZERO(&one);
    CPU_SET(rank, &one);
    sched_setaffinity(0, sizeof one, &one);
    from = malloc(NUMBERS * sizeof *from);
    to = malloc(NUMBERS * sizeof *to);
    message = malloc(MESSAGE);
    memset(message, 1, MESSAGE);
    block = malloc(BLOCK);
    memset(block, 1, BLOCK);
    for (long i = 0; rank == 1 && i < NUMBERS; i++)
        from[i] = to[i] = 1;
    if (chdir(argv[1])) {
        perror(argv[1]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank == 0)
        file = open("written", O_WRONLY);
    if (rank == 0 && file < 0) {
        perror("written");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    share("meet");
    double begun = MPI_Wtime();
    run(work, seconds);
    double whole = MPI_Wtime() - begun;
    run(less, again);
    if (rank == 0) {
        printf("seconds %.9g parts", whole);
        for (int part = 0; part < PARTS; part++)
            printf(" %.9g", seconds[part]);
        printf(" rates");
        for (int part = 0; part < PARTS; part++)
            printf(" %.9g", less[part] / again[part]);
        printf("\n");
        close(file);
    }
    MPI_Finalize();
    return 0;
}
