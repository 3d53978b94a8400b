/* The Himeno benchmark, after its published kernel (R. Himeno, RIKEN, https://i.riken.jp/en/supercom/documents/himenobmt/):
 * Jacobi's method for Poisson's equation in general coordinates, a 19-point stencil in single precision,
 * 34 floating-point operations a cell, 14 arrays of the grid's size that stream through memory.
 *
 *   himeno SIZE [-g NDXxNDYxNDZ] [-n LOOPS | -t SECONDS] [-r RANKS]
 *
 * SIZE is XS, S, M, L or XL, or a grid such as 33x33x65. The process grid is MPI's choice where none is
 * given. A rehearsal of 3 loops tells how many loops the time (5 s) needs, unless their number is given.
 * RANKS is what the starter was told: a starter of another MPI starts single processes instead.
 *
 * Every cell is computed by the same operations whatever the process grid is; the residual (gosa) is summed
 * in double precision, so that it does not depend on the grid but for the order of a double sum.
 * This is no official Himeno benchmark: call its numbers a variant of it when you publish them.
 */
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOP_PER_CELL 34.0
#define REHEARSAL_LOOPS 3
#define OMEGA 0.8f
#define PENTIUM_III_600_MFLOPS 82.84

enum { X, Y, Z, DIMS };
enum { A0, A1, A2, A3, B0, B1, B2, C0, C1, C2, P, BND, WRK1, WRK2, ARRAYS };

/* This process' part of the grid: `n` cells a dimension without the halo of one cell on each side, the
 * first of which is cell `first` of the whole grid. */
struct part {
    MPI_Comm comm;
    int grid[DIMS];  /* cells of the whole problem */
    int procs[DIMS]; /* processes a dimension */
    int n[DIMS], first[DIMS];
    int below[DIMS], above[DIMS];   /* neighbours, MPI_PROC_NULL at the border */
    MPI_Datatype face[DIMS];        /* a face of the part with its halo */
    size_t stride[DIMS];
    float *array[ARRAYS];
};

static int rank;

static void fail(int code, const char *what, const char *value)
{
    if (rank == 0)
        fprintf(stderr, "himeno: %s%s\n", what, value);
    MPI_Finalize();
    exit(code);
}

static size_t at(const struct part *part, int i, int j, int k)
{
    return (size_t)i * part->stride[X] + (size_t)j * part->stride[Y] + (size_t)k;
}

/* "AxBxC" as three whole numbers of at least `least`; 0 if the text is anything else. */
static int read_triple(const char *text, int least, int triple[DIMS])
{
    for (int d = 0; d < DIMS; d++) {
        char *end;
        errno = 0;
        long value = strtol(text, &end, 10);
        if (errno || end == text || value < least || value > 1 << 20 || *end != (d < Z ? 'x' : '\0'))
            return 0;
        triple[d] = (int)value;
        text = end + 1;
    }
    return 1;
}

static int read_size(const char *text, int grid[DIMS])
{
    static const struct {
        const char *name;
        int grid[DIMS];
    } sizes[] = {{"XS", {32, 32, 64}}, {"S", {64, 64, 128}}, {"M", {128, 128, 256}}, {"L", {256, 256, 512}}, {"XL", {512, 512, 1024}}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(text, sizes[i].name) == 0) {
            memcpy(grid, sizes[i].grid, sizeof sizes[i].grid);
            return 1;
        }
    return read_triple(text, 3, grid);
}

/* Divide the grid among the processes: parts of a dimension differ by one cell at most. */
static void divide(struct part *part)
{
    const int wrap[DIMS] = {0, 0, 0};
    int coords[DIMS];
    MPI_Cart_create(MPI_COMM_WORLD, DIMS, part->procs, wrap, 0, &part->comm);
    MPI_Cart_coords(part->comm, rank, DIMS, coords);
    for (int d = 0; d < DIMS; d++) {
        int each = part->grid[d] / part->procs[d], more = part->grid[d] % part->procs[d];
        part->n[d] = each + (coords[d] < more);
        part->first[d] = coords[d] * each + (coords[d] < more ? coords[d] : more);
        MPI_Cart_shift(part->comm, d, 1, &part->below[d], &part->above[d]);
    }
    part->stride[Z] = 1;
    part->stride[Y] = (size_t)part->n[Z] + 2;
    part->stride[X] = ((size_t)part->n[Y] + 2) * part->stride[Y];
    /* One dimension after the other, each face with the halo that has just arrived: so the edges, which
     * the 19 points need too, come along. */
    int lines = part->n[Y] + 2, length = part->n[Z] + 2;
    MPI_Type_contiguous(lines * length, MPI_FLOAT, &part->face[X]);
    MPI_Type_vector(part->n[X] + 2, length, lines * length, MPI_FLOAT, &part->face[Y]);
    MPI_Type_vector((part->n[X] + 2) * lines, 1, length, MPI_FLOAT, &part->face[Z]);
    for (int d = 0; d < DIMS; d++)
        MPI_Type_commit(&part->face[d]);
}

/* Fill the arrays as published: pressure (i / (imax-1))^2, all of `a` 1 but the last 1/6, `b` 0, `c` and the
 * mask 1. The same loop order as the kernel's puts each page where it is used. */
static int fill(struct part *part)
{
    size_t cells = ((size_t)part->n[X] + 2) * part->stride[X];
    /* Arrays of a power of two would all fall on the same sets of a cache: each begins a little later. */
    size_t pad = 16 * 17;
    float *memory = malloc(ARRAYS * (cells + pad) * sizeof(float));
    if (memory == NULL)
        return 0;
    static const float values[ARRAYS] = {[A0] = 1, [A1] = 1, [A2] = 1, [A3] = 1.0f / 6.0f, [C0] = 1, [C1] = 1, [C2] = 1, [BND] = 1};
    for (int a = 0; a < ARRAYS; a++) {
        part->array[a] = memory + (size_t)a * (cells + pad);
        for (size_t c = 0; c < cells; c++)
            part->array[a][c] = values[a];
    }
    float last = (float)(part->grid[X] - 1);
    for (int i = 0; i < part->n[X] + 2; i++) {
        float whole = (float)(part->first[X] + i - 1);
        for (size_t c = 0; c < part->stride[X]; c++)
            part->array[P][(size_t)i * part->stride[X] + c] = whole * whole / (last * last);
    }
    return 1;
}

static void exchange(struct part *part, float *p)
{
    for (int d = DIMS - 1; d >= 0; d--) {
        if (part->procs[d] == 1)
            continue;
        size_t stride = part->stride[d], n = (size_t)part->n[d];
        MPI_Sendrecv(p + stride, 1, part->face[d], part->below[d], 0, p + (n + 1) * stride, 1, part->face[d],
                     part->above[d], 0, part->comm, MPI_STATUS_IGNORE);
        MPI_Sendrecv(p + n * stride, 1, part->face[d], part->above[d], 1, p, 1, part->face[d], part->below[d], 1,
                     part->comm, MPI_STATUS_IGNORE);
    }
}

/* `loops` steps of Jacobi's method; returns the residual of the last one over the whole grid. */
static double jacobi(struct part *part, long loops)
{
    const float *const a0 = part->array[A0], *const a1 = part->array[A1], *const a2 = part->array[A2];
    const float *const a3 = part->array[A3], *const b0 = part->array[B0], *const b1 = part->array[B1];
    const float *const b2 = part->array[B2], *const c0 = part->array[C0], *const c1 = part->array[C1];
    const float *const c2 = part->array[C2], *const bnd = part->array[BND], *const wrk1 = part->array[WRK1];
    float *restrict const p = part->array[P], *restrict const wrk2 = part->array[WRK2];
    const size_t x = part->stride[X], y = part->stride[Y];
    int low[DIMS], high[DIMS]; /* the cells inside of the whole grid's border, in this part's numbers */
    for (int d = 0; d < DIMS; d++) {
        low[d] = part->first[d] == 0 ? 2 : 1;
        high[d] = part->first[d] + part->n[d] == part->grid[d] ? part->n[d] - 1 : part->n[d];
    }
    double gosa = 0.0;
    for (long loop = 0; loop < loops; loop++) {
        gosa = 0.0;
        for (int i = low[X]; i <= high[X]; i++)
            for (int j = low[Y]; j <= high[Y]; j++) {
                double row = 0.0;
                size_t first = at(part, i, j, 0);
#pragma omp simd reduction(+ : row)
                for (int k = low[Z]; k <= high[Z]; k++) {
                    size_t c = first + (size_t)k;
                    float s0 = a0[c] * p[c + x] + a1[c] * p[c + y] + a2[c] * p[c + 1] +
                               b0[c] * (p[c + x + y] - p[c + x - y] - p[c - x + y] + p[c - x - y]) +
                               b1[c] * (p[c + y + 1] - p[c - y + 1] - p[c + y - 1] + p[c - y - 1]) +
                               b2[c] * (p[c + x + 1] - p[c - x + 1] - p[c + x - 1] + p[c - x - 1]) +
                               c0[c] * p[c - x] + c1[c] * p[c - y] + c2[c] * p[c - 1] + wrk1[c];
                    float ss = (s0 * a3[c] - p[c]) * bnd[c];
                    row += (double)(ss * ss);
                    wrk2[c] = p[c] + OMEGA * ss;
                }
                gosa += row;
            }
        for (int i = low[X]; i <= high[X]; i++)
            for (int j = low[Y]; j <= high[Y]; j++)
                if (high[Z] >= low[Z])
                    memcpy(p + at(part, i, j, low[Z]), wrk2 + at(part, i, j, low[Z]), (size_t)(high[Z] - low[Z] + 1) * sizeof(float));
        exchange(part, p);
        MPI_Allreduce(MPI_IN_PLACE, &gosa, 1, MPI_DOUBLE, MPI_SUM, part->comm);
    }
    return gosa;
}

/* Seconds that the slowest process takes; the residual goes to `gosa`. */
static double timed(struct part *part, long loops, double *gosa)
{
    MPI_Barrier(part->comm);
    double t = MPI_Wtime();
    *gosa = jacobi(part, loops);
    t = MPI_Wtime() - t;
    MPI_Allreduce(MPI_IN_PLACE, &t, 1, MPI_DOUBLE, MPI_MAX, part->comm);
    return t;
}

int main(int argc, char **argv)
{
    struct part part = {.procs = {0, 0, 0}};
    long loops = 0, ranks = 0;
    double target_s = 5.0, gosa;
    int size, fits = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    if (argc < 2 || argc % 2 != 0)
        fail(2, "usage: himeno SIZE [-g NDXxNDYxNDZ] [-n LOOPS | -t SECONDS] [-r RANKS]", "");
    if (!read_size(argv[1], part.grid))
        fail(2, "SIZE is XS, S, M, L, XL or a grid of at least 3x3x3, not ", argv[1]);
    for (int a = 2; a < argc; a += 2) {
        const char *value = argv[a + 1];
        char *end;
        int good = 0;
        errno = 0;
        if (strcmp(argv[a], "-g") == 0)
            good = read_triple(value, 1, part.procs);
        else if (strcmp(argv[a], "-n") == 0)
            good = (loops = strtol(value, &end, 10)) > 0 && !*end && !errno;
        else if (strcmp(argv[a], "-t") == 0)
            good = (target_s = strtod(value, &end)) > 0 && target_s < 1e6 && !*end && !errno;
        else if (strcmp(argv[a], "-r") == 0)
            good = (ranks = strtol(value, &end, 10)) > 0 && !*end && !errno;
        else
            fail(2, "unknown option ", argv[a]);
        if (!good)
            fail(2, "not a value for its option: ", value);
    }
    if (ranks && ranks != size)
        fail(1, "another number of processes runs than the starter was told: is mpirun of the MPI that mpicc compiled for?", "");
    if (part.procs[X] == 0)
        MPI_Dims_create(size, DIMS, part.procs);
    if ((long)part.procs[X] * part.procs[Y] * part.procs[Z] != size)
        fail(2, "the process grid has another number of processes than there are", "");
    for (int d = 0; d < DIMS; d++)
        if (part.procs[d] > part.grid[d])
            fail(2, "more processes in a dimension than cells", "");
    divide(&part);
    for (int d = 0; d < DIMS; d++) /* a face's elements are counted in an int */
        fits &= part.stride[X] * ((size_t)part.n[X] + 2) / ((size_t)part.n[d] + 2) < INT_MAX;
    fits = fits && fill(&part);
    MPI_Allreduce(MPI_IN_PLACE, &fits, 1, MPI_INT, MPI_MIN, part.comm);
    if (!fits)
        fail(1, "no memory for the arrays of this size", "");

    double cells = (double)(part.grid[X] - 2) * (part.grid[Y] - 2) * (part.grid[Z] - 2);
    if (rank == 0) {
        printf("Himeno benchmark, variant of NPC\n");
        printf(" imax = %d jmax = %d kmax = %d\n", part.grid[X], part.grid[Y], part.grid[Z]);
        printf(" I-decomp = %d J-decomp = %d K-decomp = %d\n", part.procs[X], part.procs[Y], part.procs[Z]);
        printf(" Number of processes = %d\n", size);
        printf(" Memory of the arrays = %.0f bytes\n", 4.0 * ARRAYS * part.grid[X] * part.grid[Y] * part.grid[Z]);
    }
    if (loops == 0) {
        double t = timed(&part, REHEARSAL_LOOPS, &gosa);
        if (rank == 0) {
            printf(" Start rehearsal measurement process.\n Measure the performance in %d times.\n", REHEARSAL_LOOPS);
            printf(" MFLOPS: %f time(s): %f %e\n", 1e-6 * FLOP_PER_CELL * cells * REHEARSAL_LOOPS / t, t, gosa);
        }
        double wanted = target_s / t * REHEARSAL_LOOPS;
        loops = wanted < 1 ? 1 : wanted > 1e9 ? 1000000000L : (long)wanted;
        MPI_Bcast(&loops, 1, MPI_LONG, 0, part.comm);
    }
    if (rank == 0) {
        printf(" Now, start the actual measurement process.\n The loop will be executed in %ld times\n", loops);
        fflush(stdout);
    }
    double t = timed(&part, loops, &gosa);
    if (rank == 0) {
        double mflops = 1e-6 * FLOP_PER_CELL * cells * (double)loops / t;
        printf(" cpu : %f sec.\n Loop executed for %ld times\n Gosa : %.9e\n", t, loops, gosa);
        printf(" MFLOPS measured : %f\n Score based on Pentium III 600MHz : %f\n", mflops, mflops / PENTIUM_III_600_MFLOPS);
    }
    free(part.array[0]);
    MPI_Finalize();
    return 0;
}
