/* What counting costs most: loops that do little else than reading and writing. Prints the CPU seconds of a matrix
 * product, whose columns lie a page apart, and of a triad. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(void)
{
    enum { N = 512, ROWS = 64, LONG = 1 << 20, TIMES = 8 };
    double *a = calloc(LONG, sizeof *a), *b = calloc(LONG, sizeof *b), *c = calloc(LONG, sizeof *c);
    for (int each = 0; each < LONG; each++)
        a[each] = 0, b[each] = each % 7, c[each] = each % 5;
    double begin = now();
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                a[i * N + j] += b[i * N + k] * c[k * N + j];
    double product = now() - begin;
    begin = now();
    for (int time = 0; time < TIMES; time++)
        for (int each = 0; each < LONG; each++)
            a[each] = b[each] + time * c[each];
    double triad = now() - begin;
    fprintf(stderr, "%g\n", a[12345]);
    printf("%.6f %.6f\n", product, triad);
    return 0;
}
