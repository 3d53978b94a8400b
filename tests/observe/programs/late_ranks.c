/* Three ranks of which some are late on purpose. Each writes what it saw itself to truth.RANK: a line for each
 * call with region, call, peer, and when it came and went, on the node's clock.
 *
 *   twenty, fifty   the last rank has 20 or 50 percent more to do than the mean, then an MPI_Allreduce
 *   late            rank 1 comes 15 ms late to an MPI_Barrier
 *   sender          rank 2 sends 10 ms after rank 0 has asked
 *   receiver        rank 1 asks 10 ms after rank 2 has begun a synchronous send
 *   several         rank 0 waits for rank 1, which sends after 5 ms, and rank 2, which sends after 10 ms
 */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { TIMES = 20 };

static FILE *truth;
static const char *region;
static int rank;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Outside MPI, which is all that counts; a loop would take as long as others leave it a CPU. */
static void nap(double seconds) {
    struct timespec time = {0, (long)(1e9 * seconds)};
    nanosleep(&time, NULL);
}

/* What is written down takes time as well: it counts as computing, of all ranks alike. */
static void note(const char *call, int peer, double entered, double left) {
    fprintf(truth, "%s %s %d %.9f %.9f\n", region, call, peer, entered, left);
}

static void barrier(void) {
    double entered = now();
    MPI_Barrier(MPI_COMM_WORLD);
    note("MPI_Barrier", -1, entered, now());
}

static void begin(const char *name) {
    region = name;
    barrier();
    MPI_Pcontrol(1, name);
    note("begin", -1, now(), now());
}

static void end(void) {
    note("end", -1, now(), now());
    MPI_Pcontrol(-1, region);
}

static void imbalanced(const char *name, double above) {
    int one = 1, sum;
    begin(name);
    for (int time = 0; time < TIMES; time++) {
        nap(0.01 * (rank == 2 ? 1 + above : 1 - above / 2));
        double entered = now();
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        note("MPI_Allreduce", -1, entered, now());
    }
    end();
}

static void late(void) {
    begin("late");
    for (int time = 0; time < TIMES; time++) {
        if (rank == 1)
            nap(0.015);
        barrier();
    }
    end();
}

static void sender(void) {
    char byte = 0;
    begin("sender");
    for (int time = 0; time < TIMES; time++) {
        if (rank == 2) {
            nap(0.01);
            double entered = now();
            MPI_Send(&byte, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
            note("MPI_Send", 0, entered, now());
        } else if (rank == 0) {
            double entered = now();
            MPI_Recv(&byte, 1, MPI_CHAR, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            note("MPI_Recv", 2, entered, now());
        }
    }
    end();
}

static void receiver(void) {
    char byte = 0;
    begin("receiver");
    for (int time = 0; time < TIMES; time++) {
        if (rank == 2) {
            double entered = now();
            MPI_Ssend(&byte, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD);
            note("MPI_Ssend", 1, entered, now());
        } else if (rank == 1) {
            nap(0.01);
            double entered = now();
            MPI_Recv(&byte, 1, MPI_CHAR, 2, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            note("MPI_Recv", 2, entered, now());
        }
    }
    end();
}

static void several(void) {
    char bytes[2] = {0, 0};
    begin("several");
    for (int time = 0; time < TIMES; time++) {
        if (rank == 0) {
            MPI_Request requests[2];
            for (int peer = 1; peer <= 2; peer++)
                MPI_Irecv(&bytes[peer - 1], 1, MPI_CHAR, peer, 3, MPI_COMM_WORLD, &requests[peer - 1]);
            double entered = now();
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            note("MPI_Waitall", -1, entered, now());
        } else {
            nap(0.005 * rank);
            double entered = now();
            MPI_Send(bytes, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
            note("MPI_Send", 0, entered, now());
        }
        barrier();
    }
    end();
}

int main(int argc, char **argv) {
    char name[32];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "truth.%d", rank);
    truth = fopen(name, "w");
    if (!truth)
        MPI_Abort(MPI_COMM_WORLD, 1);
    imbalanced("twenty", 0.2);
    imbalanced("fifty", 0.5);
    late();
    sender();
    receiver();
    several();
    MPI_Finalize();
    return fclose(truth);
}
