/* Conjugate gradients for the matrix with 2.5 on the diagonal and -1 beside it, 50 iterations, as HPCG makes them;
 * each rank solves its own problem and tells the residuals: in words, and to solver_events. */
#include "solver_events.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { ROWS = 400, ITERATIONS = 50 };

static double dot(const double *x, const double *y)
{
    double sum = 0;
    for (int i = 0; i < ROWS; i++)
        sum += x[i] * y[i];
    return sum;
}

int main(int argc, char **argv)
{
    static double x[ROWS], r[ROWS], p[ROWS], q[ROWS];
    int rank;
    begin_events();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < ROWS; i++)
        r[i] = p[i] = 1 + (i + rank) % 3;
    double first = dot(r, r), rr = first;
    for (int k = 0; k < ITERATIONS; k++) {
        for (int i = 0; i < ROWS; i++)
            q[i] = 2.5 * p[i] - (i > 0 ? p[i - 1] : 0) - (i < ROWS - 1 ? p[i + 1] : 0);
        double alpha = rr / dot(p, q), before = rr;
        for (int i = 0; i < ROWS; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        rr = dot(r, r);
        for (int i = 0; i < ROWS; i++)
            p[i] = r[i] + rr / before * p[i];
        printf("rank %d residual %.17g\n", rank, sqrt(rr / first));
        tell(sqrt(rr / first));
        usleep(10000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
