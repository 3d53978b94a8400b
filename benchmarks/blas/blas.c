/* C = A B by a BLAS library: dgemm and zgemm (Dongarra et al., A set of level 3 Basic Linear Algebra Subprograms,
 * ACM TOMS 16(1), 1990), of square matrices, by the library's own threads.
 *
 *     blas LIBRARY THREADS ROUTINE:N…
 *
 * LIBRARY: a path, of OpenBLAS, BLIS or MKL; another is refused, because its threads could not be set and because it may be the
 * reference BLAS by accident. A call counts 2 N³ FLOP for dgemm and 8 N³ for zgemm. The first call is not timed.
 *
 * The last product is checked as Freivalds does (MFCS 1979), with a vector x of random numbers: C x against A (B x). By Higham
 * (Accuracy and Stability of Numerical Algorithms, 2002, section 3.5), an inner product of n terms is wrong by less than γ_n times
 * that of the absolute values, γ_n = n u / (1 - n u), u = 2^-53, in whatever order it is summed; of the product and of the three of
 * the check together that is 4 γ_n |A| |B| |x|, where a complex product is two real ones of 2 N terms. C is full of NaN before
 * the first call.
 */
#include "kernels.h"

#define LARGEST 46340

enum { ROW_MAJOR = 101, COLUMN_MAJOR, NO_TRANSPOSE = 111 }; /* cblas.h */

typedef void (*dgemm_call)(int, int, int, int, int, int, double, const double *, int, const double *, int, double,
                           double *, int);
typedef void (*zgemm_call)(int, int, int, int, int, int, const void *, const void *, int, const void *, int,
                           const void *, void *, int);

static struct {
    dgemm_call dgemm;
    zgemm_call zgemm;
} blas;

struct product {
    int complex, n;
    double *a, *b, *c;
};

static int failed(const char *what)
{
    fprintf(stderr, "blas: %s\n", what);
    return 1;
}

static void multiply(void *of)
{
    const struct product *p = of;
    static const double one[2] = {1, 0}, zero[2] = {0, 0};
    if (p->complex)
        blas.zgemm(COLUMN_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, p->n, p->n, p->n, one, p->a, p->n, p->b, p->n, zero, p->c, p->n);
    else
        blas.dgemm(COLUMN_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, p->n, p->n, p->n, 1, p->a, p->n, p->b, p->n, 0, p->c, p->n);
}

/* y = M x of column-major matrices with `words` numbers an element; magnitude: |M| |x|, a bound of both parts. */
static void apply(int words, size_t n, const double *m, const double *x, double *y, const double *of, double *magnitude)
{
    memset(y, 0, (size_t)words * n * sizeof *y);
    memset(magnitude, 0, n * sizeof *magnitude);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++) {
            const double *e = m + (size_t)words * (j * n + i);
            if (words == 1) {
                y[i] += e[0] * x[j];
                magnitude[i] += fabs(e[0]) * of[j];
            } else {
                y[2 * i] += e[0] * x[2 * j] - e[1] * x[2 * j + 1];
                y[2 * i + 1] += e[0] * x[2 * j + 1] + e[1] * x[2 * j];
                magnitude[i] += (fabs(e[0]) + fabs(e[1])) * of[j];
            }
        }
}

/* The largest error of C x against A (B x), in parts of its bound; NaN if C has one; -1 if there is no memory. */
static double check(const struct product *p)
{
    int words = p->complex ? 2 : 1;
    size_t n = (size_t)p->n;
    double terms = words * (double)n * UNIT_ROUNDOFF, gamma = terms / (1 - terms), worst = 0;
    double *space = malloc((4 * (size_t)words + 4) * n * sizeof *space);
    if (space == NULL)
        return -1;
    double *x = space, *bx = x + words * n, *abx = bx + words * n, *cx = abx + words * n;
    double *of_x = cx + words * n, *of_bx = of_x + n, *of_abx = of_bx + n, *of_cx = of_abx + n;
    for (size_t i = 0; i < words * n; i++) { /* away from zero, so that no wrong element is lost in it */
        double number = random_number();
        x[i] = number < 0 ? number - 0.5 : number + 0.5;
    }
    for (size_t i = 0; i < n; i++)
        of_x[i] = p->complex ? fabs(x[2 * i]) + fabs(x[2 * i + 1]) : fabs(x[i]);
    apply(words, n, p->b, x, bx, of_x, of_bx);
    apply(words, n, p->a, bx, abx, of_bx, of_abx);
    apply(words, n, p->c, x, cx, of_x, of_cx);
    for (size_t i = 0; i < words * n; i++) {
        double error = fabs(cx[i] - abx[i]) / (4 * gamma * of_abx[i / words]);
        if (!(error <= worst)) /* NaN too */
            worst = error;
        if (isnan(error))
            break;
    }
    free(space);
    return worst;
}

static int measure(const char *routine, int n, int threads)
{
    struct product p = {.complex = routine[0] == 'z', .n = n};
    int words = p.complex ? 2 : 1;
    size_t numbers = (size_t)words * (size_t)n * (size_t)n, bytes = numbers * sizeof(double);
    p.a = get_memory(bytes, threads);
    p.b = get_memory(bytes, threads);
    p.c = get_memory(bytes, threads);
    if (p.a == NULL || p.b == NULL || p.c == NULL)
        return failed("no memory for three matrices");
    for (size_t i = 0; i < numbers; i++) {
        p.a[i] = random_number();
        p.b[i] = random_number();
        p.c[i] = NAN;
    }
    multiply(&p);
    struct rounds r = time_rounds(NULL, multiply, &p);
    double error = check(&p), flop = (p.complex ? 8.0 : 2.0) * n * n * n;
    if (error < 0)
        return failed("no memory for the check");
    printf("%-8s %8d %14zu %6d %14.9f %14.9f %12.3f %7.2f %9.2e\n", routine, n, 3 * bytes, r.number, r.median, r.least,
           1e-9 * flop / r.median, r.busy, error);
    fflush(stdout);
    free(p.a);
    free(p.b);
    free(p.c);
    return error <= 1 ? 0 : failed("Failed validation: a product is not that of its matrices");
}

/* Sets the threads by the library's own means; prints what it is; returns the threads that it says it has, 0 with a message. */
static int begin(void *library, const char *path, int threads)
{
    char version[512] = "", kernels[64] = "unknown", file[PATH_MAX], own[PATH_MAX];
    const char *name, *function;
    char *(*text)(void);
    char *(*text_of)(int);
    int (*number)(void);
    long (*long_number)(void);
    void (*set)(int), (*set_long)(long), (*version_of)(char *, int);
    int found = 0;

    if (find_function(library, function = "openblas_get_config", &text)) {
        name = "OpenBLAS";
        snprintf(version, sizeof version, "%s", text());
        if (strstr(version, "USE64BITINT"))
            return failed("this OpenBLAS has integers of 64 bits: name one of 32"), 0;
        if (find_function(library, "openblas_get_corename", &text))
            snprintf(kernels, sizeof kernels, "%s", text());
        if (find_function(library, "openblas_set_num_threads", &set) &&
            find_function(library, "openblas_get_num_threads", &number)) {
            set(threads);
            found = number();
        }
    } else if (find_function(library, function = "bli_info_get_version_str", &text)) {
        name = "BLIS";
        snprintf(version, sizeof version, "%s", text());
        if (find_function(library, "bli_info_get_blas_int_type_size", &long_number) && long_number() == 64)
            return failed("this BLIS has integers of 64 bits: name one of 32"), 0;
        if (find_function(library, "bli_arch_query_id", &number) && find_function(library, "bli_arch_string", &text_of))
            snprintf(kernels, sizeof kernels, "%s", text_of(number()));
        if (find_function(library, "bli_thread_set_num_threads", &set_long) &&
            find_function(library, "bli_thread_get_num_threads", &long_number)) {
            set_long(threads);
            found = (int)long_number();
        }
    } else if (find_function(library, function = "MKL_Get_Version_String", &version_of)) {
        name = "MKL";
        version_of(version, sizeof version - 1);
        if (find_function(library, "MKL_Set_Interface_Layer", &set))
            set(0); /* MKL_INTERFACE_LP64 */
        if (find_function(library, "MKL_Set_Dynamic", &set))
            set(0);
        if (find_function(library, "MKL_Set_Num_Threads", &set) && find_function(library, "MKL_Get_Max_Threads", &number)) {
            set(threads);
            found = number();
        }
    } else {
        fprintf(stderr, "blas: %s is none of OpenBLAS, BLIS and MKL: it may be the reference BLAS\n", path);
        return 0;
    }
    if (!find_function(library, "cblas_dgemm", &blas.dgemm) || !find_function(library, "cblas_zgemm", &blas.zgemm))
        return fprintf(stderr, "blas: %s has no cblas_dgemm\n", path), 0;
    if (strcmp(file_of(library, "cblas_dgemm", file), file_of(library, function, own)))
        return fprintf(stderr, "blas: cblas_dgemm comes from %s, %s from %s\n", file, function, own), 0;
    printf("BLAS driver of NPC: C = A B, the library's own threads\n");
    printf("Library = %s, %s\nVersion = %s\nKernels = %s\n", name, file, version, kernels);
    print_cpus();
    printf("Threads requested = %d\nThreads of the library = %d\n", threads, found);
    if (found < 1)
        return failed("the library does not tell its threads"), 0;
    return found;
}

static int usage(void)
{
    fprintf(stderr, "usage: blas LIBRARY THREADS {dgemm|zgemm}:N...\n");
    return 2;
}

int main(int argc, char **argv)
{
    int threads = argc > 3 ? whole(argv[2], 65536) : 0;
    if (!threads)
        return usage();
    for (int i = 3; i < argc; i++)
        if ((strncmp(argv[i], "dgemm:", 6) && strncmp(argv[i], "zgemm:", 6)) || !whole(argv[i] + 6, LARGEST))
            return usage();
    /* OpenBLAS starts its threads when it is opened, and those that are too many spin for a while */
    setenv("OPENBLAS_NUM_THREADS", argv[2], 1);
    setenv("OMP_NUM_THREADS", argv[2], 1);
    void *library = open_library("blas", argv[1]);
    if (library == NULL || !begin(library, argv[1], threads))
        return 1;
    printf("%-8s %8s %14s %6s %14s %14s %12s %7s %9s\n", "Routine", "N", "Bytes", "Calls", "Median s", "Least s",
           "GFLOP/s", "Busy", "Error");
    for (int i = 3; i < argc; i++) {
        char routine[6] = "";
        memcpy(routine, argv[i], 5);
        if (measure(routine, whole(argv[i] + 6, LARGEST), threads))
            return 1;
    }
    printf("Complete\n");
    return 0;
}
