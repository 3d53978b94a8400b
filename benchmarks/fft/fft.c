/* Complex transforms in double precision by FFTW's interface (Frigo, Johnson, Proceedings of the IEEE 93(2), 2005), in FFTW
 * itself or in MKL, by the library's own threads.
 *
 *     fft LIBRARY THREADS PLANNER KIND:N[:in]…
 *
 * LIBRARY: a path. PLANNER: estimate, measure or patient. KIND: 1d of N points, 3d of N × N × N; out of place, or in it. What the
 * planner needs is printed and not timed, and so is the call before the first that is timed. The rate counts 5 P log2 P FLOP for P points
 * in all, whatever the algorithm needs: the convention of benchFFT (fftw.org/speed).
 *
 * Three checks, with errors as parts of 16 u log2 P, u = 2^-53, relative in the Euclidean norm: the threshold of HPC Challenge for its
 * FFT, and more than the bound of radix 2 (Higham, Accuracy and Stability of Numerical Algorithms, 2002, theorem 24.2),
 * which is 7 u log2 P, twice for there and back. The sum of squares of the transform is P times that of the numbers (Parseval); some
 * of its numbers are what the definition says, summed in long double; and the transform back gives P times the numbers.
 */
#include "kernels.h"

#define LARGEST (1 << 30)
#define BINS 3 /* numbers that are computed by the definition */

enum { FORWARD = -1, BACKWARD = 1 }; /* fftw3.h */
static const struct planner {
    const char *name;
    unsigned flags;
} planners[] = {{"measure", 0}, {"patient", 1u << 5}, {"estimate", 1u << 6}};

typedef double number[2];
typedef void *plan;

static struct {
    plan (*plan)(int, const int *, number *, number *, int, unsigned);
    void (*execute)(plan);
    void (*destroy)(plan);
    int (*init_threads)(void);
    void (*set_threads)(int);
    int (*threads)(void);
} fftw;

struct transform {
    plan forward;
    number *in, *out, *kept; /* kept: the numbers, where the transform writes over them */
    size_t points;
};

static int failed(const char *what)
{
    fprintf(stderr, "fft: %s\n", what);
    return 1;
}

static void refill(void *of)
{
    const struct transform *t = of;
    memcpy(t->in, t->kept, t->points * sizeof *t->in);
}

static void execute(void *of)
{
    fftw.execute(((const struct transform *)of)->forward);
}

static double squares(const number *of, size_t points)
{
    long double sum = 0;
    for (size_t i = 0; i < points; i++)
        sum += (long double)of[i][0] * of[i][0] + (long double)of[i][1] * of[i][1];
    return (double)sum;
}

/* How far the transform's number `bin` is from Σ x_j exp(-2πi (j·bin)/n), j and bin with `rank` indices. */
static double off_definition(const struct transform *t, int rank, size_t n, size_t bin)
{
    long double re = 0, im = 0, turn = -2 * acosl(-1.0L);
    size_t of_bin[3] = {bin % n, bin / n % n, bin / n / n};
    long double(*roots)[2] = rank > 1 ? malloc(n * sizeof *roots) : NULL; /* of unity: each is used n² times */
    for (size_t k = 0; roots != NULL && k < n; k++) {
        roots[k][0] = cosl(turn * (long double)k / (long double)n);
        roots[k][1] = sinl(turn * (long double)k / (long double)n);
    }
    for (size_t j = 0; j < t->points; j++) {
        size_t rest = j, phase = 0; /* in n-ths of a turn, without its whole turns */
        for (int axis = 0; axis < rank; axis++, rest /= n)
            phase = (phase + (size_t)((uint64_t)(rest % n) * of_bin[axis] % n)) % n;
        long double angle = turn * (long double)phase / (long double)n;
        long double c = roots ? roots[phase][0] : cosl(angle), s = roots ? roots[phase][1] : sinl(angle);
        re += t->kept[j][0] * c - t->kept[j][1] * s;
        im += t->kept[j][0] * s + t->kept[j][1] * c;
    }
    free(roots);
    return (double)hypotl(t->out[bin][0] - re, t->out[bin][1] - im);
}

/* The largest of the three errors as a part of the tolerance; NaN if the transform has one. */
static double check(struct transform *t, plan backward, int rank, size_t n)
{
    double points = (double)t->points, tolerance = 16 * UNIT_ROUNDOFF * log2(points), worst = 0;
    double norm = sqrt(squares((const number *)t->kept, t->points)), errors[BINS + 2];
    int count = 0;
    /* an error of the norm by e changes the sum of squares by 2 e */
    errors[count++] = fabs(squares((const number *)t->out, t->points) / (points * norm * norm) - 1) / 2;
    for (int i = 0; i < BINS; i++) {
        size_t bin = (size_t)((random_number() + 0.5) * points);
        errors[count++] = off_definition(t, rank, n, bin) / (sqrt(points) * norm);
    }
    fftw.execute(backward);
    long double off = 0;
    for (size_t i = 0; i < t->points; i++)
        for (int part = 0; part < 2; part++) {
            long double difference = t->in[i][part] / points - t->kept[i][part];
            off += difference * difference;
        }
    errors[count++] = (double)sqrtl(off) / norm;
    for (int i = 0; i < count; i++)
        if (!(errors[i] / tolerance <= worst)) {
            worst = errors[i] / tolerance;
            if (isnan(worst))
                break;
        }
    return worst;
}

static int measure(const char *word, int rank, int n, int in_place, unsigned flags, int threads)
{
    struct transform t = {.points = 1};
    int sizes[3] = {n, n, n};
    for (int axis = 0; axis < rank; axis++)
        t.points *= (size_t)n;
    size_t bytes = t.points * sizeof(number);
    t.in = get_memory(bytes, threads);
    t.out = in_place ? t.in : get_memory(bytes, threads);
    t.kept = malloc(bytes);
    if (t.in == NULL || t.out == NULL || t.kept == NULL)
        return failed("no memory for the numbers");
    double start = seconds_of(CLOCK_MONOTONIC);
    t.forward = fftw.plan(rank, sizes, t.in, t.out, FORWARD, flags);
    double planning = seconds_of(CLOCK_MONOTONIC) - start;
    plan backward = fftw.plan(rank, sizes, t.out, t.in, BACKWARD, 1u << 6);
    if (t.forward == NULL || backward == NULL)
        return failed("the library has no plan for this transform");
    for (size_t i = 0; i < t.points; i++)
        for (int part = 0; part < 2; part++)
            t.kept[i][part] = random_number();
    refill(&t);
    execute(&t);
    struct rounds r = time_rounds(in_place ? refill : NULL, execute, &t);
    double error = check(&t, backward, rank, (size_t)n), points = (double)t.points;
    printf("%-16s %12zu %14zu %10.3f %6d %14.9f %14.9f %12.3f %7.2f %9.2e\n", word, t.points, bytes, planning, r.number,
           r.median, r.least, 5e-9 * points * log2(points) / r.median, r.busy, error);
    fflush(stdout);
    fftw.destroy(t.forward);
    fftw.destroy(backward);
    free(t.in);
    if (!in_place)
        free(t.out);
    free(t.kept);
    return error <= 1 ? 0 : failed("Failed validation: a transform is not that of its numbers");
}

/* The library with FFTW's threads: `path` itself, or libfftw3_threads or libfftw3_omp of its folder, which need it. */
static void *with_threads(const char *path, void *library)
{
    static const char *const names[] = {"libfftw3_threads.so.3", "libfftw3_omp.so.3", "libfftw3_threads.so", "libfftw3_omp.so"};
    const char *slash = strrchr(path, '/');
    void *own = NULL, *threads;
    if (find_function(library, "fftw_init_threads", &own))
        return library;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char beside[PATH_MAX];
        snprintf(beside, sizeof beside, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, names[i]);
        threads = dlopen(beside, RTLD_NOW | RTLD_LOCAL);
        if (threads != NULL && dlsym(threads, "fftw_execute") == dlsym(library, "fftw_execute"))
            return threads;
    }
    return NULL;
}

/* Prints what the library is and sets its threads; returns whether it can be used, else with a message. */
static int begin(void *library, const char *path, int threads)
{
    char version[512] = "", file[PATH_MAX];
    const char *name = "FFTW", *own;
    void (*version_of)(char *, int), (*set)(int);
    int (*number)(void);
    int found = 1, mkl = find_function(library, "MKL_Get_Version_String", &version_of);

    if (mkl) {
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
    } else if (find_function(library, "fftw_version", &own)) {
        snprintf(version, sizeof version, "%s", own);
    } else {
        fprintf(stderr, "fft: %s is neither FFTW in double precision nor MKL\n", path);
        return 0;
    }
    void *threaded = mkl ? library : with_threads(path, library);
    if (!find_function(library, "fftw_plan_dft", &fftw.plan) || !find_function(library, "fftw_execute", &fftw.execute) ||
        !find_function(library, "fftw_destroy_plan", &fftw.destroy)) {
        fprintf(stderr, "fft: %s has no fftw_plan_dft\n", path);
        return 0;
    }
    if (threads > 1 && threaded == NULL) {
        fprintf(stderr, "fft: no threads: libfftw3_threads.so.3 is not beside %s\n", path);
        return 0;
    }
    if (threaded != NULL && find_function(threaded, "fftw_init_threads", &fftw.init_threads) &&
        find_function(threaded, "fftw_plan_with_nthreads", &fftw.set_threads)) {
        fftw.init_threads();
        fftw.set_threads(threads);
        if (!mkl) /* before FFTW 3.3.9 nobody tells */
            found = find_function(threaded, "fftw_planner_nthreads", &fftw.threads) ? fftw.threads() : threads;
    }
    printf("FFT driver of NPC: complex transforms, the library's own threads\n");
    printf("Library = %s, %s\nVersion = %s\n", name, file_of(library, "fftw_execute", file), version);
    print_cpus();
    printf("Threads requested = %d\nThreads of the library = %d\n", threads, found);
    return 1;
}

static int usage(void)
{
    fprintf(stderr, "usage: fft LIBRARY THREADS {estimate|measure|patient} {1d|3d}:N[:in]...\n");
    return 2;
}

/* The kind, size and place of a word such as 3d:128:in; returns whether it is one. */
static int read_word(const char *word, int *rank, int *n, int *in_place)
{
    char digits[16] = "";
    if (strncmp(word, "1d:", 3) && strncmp(word, "3d:", 3))
        return 0;
    size_t length = strcspn(word + 3, ":");
    if (length >= sizeof digits)
        return 0;
    memcpy(digits, word + 3, length);
    *rank = word[0] - '0';
    *in_place = strcmp(word + 3 + length, ":in") == 0;
    *n = whole(digits, *rank == 3 ? 1024 : LARGEST);
    return *n > 1 && (*in_place || word[3 + length] == 0);
}

int main(int argc, char **argv)
{
    int threads = argc > 4 ? whole(argv[2], 65536) : 0, rank, n, in_place;
    const struct planner *planner = planners, *end = planners + sizeof planners / sizeof *planners;
    while (argc > 3 && planner < end && strcmp(argv[3], planner->name))
        planner++;
    if (!threads || planner == end)
        return usage();
    for (int i = 4; i < argc; i++)
        if (!read_word(argv[i], &rank, &n, &in_place))
            return usage();
    void *library = open_library("fft", argv[1]);
    if (library == NULL || !begin(library, argv[1], threads))
        return 1;
    printf("Planner = %s\n", planner->name);
    printf("%-16s %12s %14s %10s %6s %14s %14s %12s %7s %9s\n", "Transform", "Points", "Bytes", "Planning s", "Calls",
           "Median s", "Least s", "GFLOP/s", "Busy", "Error");
    for (int i = 4; i < argc; i++) {
        read_word(argv[i], &rank, &n, &in_place);
        if (measure(argv[i], rank, n, in_place, planner->flags, threads))
            return 1;
    }
    printf("Complete\n");
    return 0;
}
