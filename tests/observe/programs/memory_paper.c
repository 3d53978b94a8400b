/* Three programs whose use of memory Beniamine (2016) shows, with four threads: the naive product of matrices in
 * four quarters (6.2), IS of the NAS benchmarks by its listing 4.3, and a stencil as Himeno's. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, N = 128, KEYS = 1 << 16, LARGEST = 1 << 14, PLANES = 16, ROWS = 16, COLUMNS = 64, STEPS = 4 };

static double *A, *B, *C;
static int *key_buff1, *key_buff2;
static float (*p)[ROWS][COLUMNS], (*wrk2)[ROWS][COLUMNS], (*a)[ROWS][COLUMNS];

/* the first thread sets all up; each of four computes a quarter of C, so that two share rows of A and all share B */
static void product(void)
{
    A = malloc(N * N * sizeof *A);
    B = malloc(N * N * sizeof *B);
    C = malloc(N * N * sizeof *C);
    for (long at = 0; at < N * N; at++) {
        A[at] = (double)(at % 7);
        B[at] = (double)(at % 5);
        C[at] = 0;
    }
#pragma omp parallel num_threads(THREADS)
    {
        int me = omp_get_thread_num(), row = me / 2 * N / 2, column = me % 2 * N / 2;
        for (int i = row; i < row + N / 2; i++) {
            for (int j = column; j < column + N / 2; j++) {
                double sum = 0;
                for (int k = 0; k < N; k++)
                    sum += A[i * N + k] * B[k * N + j];
                C[i * N + j] = sum;
            }
#pragma omp barrier
        }
    }
}

/* keys are sums of four random numbers, so most lie in the middle */
static void sort(void)
{
    key_buff1 = calloc(LARGEST, sizeof *key_buff1);
    key_buff2 = malloc(KEYS * sizeof *key_buff2);
    unsigned seed = 314159265;
    for (int k = 0; k < KEYS; k++) {
        unsigned key = 0;
        for (int part = 0; part < 4; part++) {
            seed = seed * 1664525u + 1013904223u;
            key += seed >> 20;
        }
        key_buff2[k] = (int)key; /* 0 … 4 · 4095 */
    }
#pragma omp parallel for schedule(dynamic, 256) num_threads(THREADS)
    for (int k = 0; k < KEYS; k++) {
        int *count = &key_buff1[key_buff2[k]];
        *count = *count + 1;
    }
}

static void stencil(void)
{
    p = malloc(PLANES * sizeof *p);
    wrk2 = malloc(PLANES * sizeof *wrk2);
    a = malloc(PLANES * sizeof *a);
#pragma omp parallel num_threads(THREADS)
    for (int step = -1; step < STEPS; step++) {
#pragma omp for schedule(static)
        for (int i = 0; i < PLANES; i++)
            for (int j = 0; j < ROWS; j++)
                for (int k = 0; k < COLUMNS; k++)
                    if (step < 0)
                        p[i][j][k] = a[i][j][k] = wrk2[i][j][k] = (float)i;
                    else if (i && i < PLANES - 1 && j && j < ROWS - 1 && k && k < COLUMNS - 1)
                        wrk2[i][j][k] = a[i][j][k] * (p[i - 1][j][k] + p[i + 1][j][k] + p[i][j - 1][k] +
                                                      p[i][j + 1][k] + p[i][j][k - 1] + p[i][j][k + 1]);
    }
}

int main(void)
{
    product();
    sort();
    stencil();
    printf("%g %d %g\n", C[N + 1], key_buff1[LARGEST / 2], (double)wrk2[1][1][1]);
    return 0;
}
