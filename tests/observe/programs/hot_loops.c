// Loops whose bounds are known: `hot_loops NAME SECONDS` runs one over arrays that fit into the first cache and
// prints the seconds of one call, the fastest of many, and the elements of a call.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N 1024
#define LOOP __attribute__((noinline, noclone))

static double x[N + 8] __attribute__((aligned(64))), y[N + 8] __attribute__((aligned(64)));
static void *next[N];
static volatile double result;

// one chain of additions
LOOP double sum(const double *a, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += a[i];
    return s;
}

// eight chains of fused multiply-adds
LOOP double dot8(const double *a, const double *b, size_t n) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
    for (size_t i = 0; i < n; i += 8) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
        s4 += a[i + 4] * b[i + 4];
        s5 += a[i + 5] * b[i + 5];
        s6 += a[i + 6] * b[i + 6];
        s7 += a[i + 7] * b[i + 7];
    }
    return s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7;
}

// one chain of fused multiply-adds, or of a multiplication and an addition
LOOP double horner(const double *a, double at, size_t n) {
    double r = 0;
    for (size_t i = 0; i < n; i++) r = r * at + a[i];
    return r;
}

// one chain of divisions
LOOP double quotient(const double *a, size_t n) {
    double q = 1.5;
    for (size_t i = 0; i < n; i++) q = a[i] / q;
    return q;
}

// a chain of loads
LOOP void *chase(void **p, size_t n) {
    while (n--) p = (void **)*p;
    return p;
}

// no chain
LOOP void daxpy(double *restrict b, const double *restrict a, double f, size_t n) {
    for (size_t i = 0; i < n; i++) b[i] += f * a[i];
}

// a chain through memory, where the compiler keeps no copy
LOOP void prefix(double *b, const double *a, double f, size_t n) {
    for (size_t i = 1; i < n; i++) b[i] = b[i - 1] * f + a[i];
}

// two ways, both taken
LOOP double above(const double *a, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++)
        if (a[i] > 3) s += sqrt(a[i]) / 3;
    return s;
}

// calls another function
LOOP double sines(const double *a, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += sin(a[i]);
    return s;
}

// a loop in a loop
LOOP double squares(const double *a, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i += 32)
        for (size_t j = 0; j < n; j++) s += a[i] * a[j];
    return s;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void call(const char *name) {
    if (!strcmp(name, "sum")) result = sum(x, N);
    if (!strcmp(name, "dot8")) result = dot8(x, y, N);
    if (!strcmp(name, "horner")) result = horner(x, .5, N);
    if (!strcmp(name, "quotient")) result = quotient(x, N);
    if (!strcmp(name, "chase")) result = (double)(size_t)chase(next, N);
    if (!strcmp(name, "daxpy")) daxpy(y, x, 1e-9, N);
    if (!strcmp(name, "prefix")) prefix(y, x, .5, N);
    if (!strcmp(name, "above")) result = above(x, N);
    if (!strcmp(name, "sines")) result = sines(x, N);
    if (!strcmp(name, "squares")) result = squares(x, N);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    for (size_t i = 0; i < N + 8; i++) x[i] = y[i] = 1 + i % 7;
    for (size_t i = 0; i < N; i++) next[i] = &next[(i + 7) % N];
    double best = 1e9, end = now() + atof(words[2]);
    while (now() < end) {
        double begin = now();
        for (int i = 0; i < 100; i++) {
            call(words[1]);
#ifdef __x86_64__
            __asm__ volatile("lfence" ::: "memory"); // calls must not overlap
#endif
        }
        double lasted = (now() - begin) / 100;
        if (lasted < best) best = lasted;
    }
    printf("%.6e s a call of %d\n", best, N);
    return 0;
}
