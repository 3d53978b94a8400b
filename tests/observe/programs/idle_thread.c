/* Two threads of which one has nothing to do for half of the work. Prints CPU time and time between MPI_Init
 * and MPI_Finalize. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double clock_of(clockid_t which) {
    struct timespec at;
    clock_gettime(which, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void compute(double cpu_seconds) {
    for (double end = clock_of(CLOCK_THREAD_CPUTIME_ID) + cpu_seconds; clock_of(CLOCK_THREAD_CPUTIME_ID) < end;)
        ;
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    double cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID), begin = clock_of(CLOCK_MONOTONIC);
    compute(0.2);
#pragma omp parallel
    compute(0.2);
    printf("%.9f %.9f\n", clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu, clock_of(CLOCK_MONOTONIC) - begin);
    MPI_Finalize();
    return 0;
}
