/* What ways of access cost one thread: addresses that are not aligned, strides, an order of loops that walks down columns. */
#include "memory.h"

/* -- loads that are not aligned -- */

#define SLOTS 4 /* on pages of their own: at one offset they all fall into one set of L1, which has at least that many ways */

int align(void)
{
    size_t page = (size_t)sysconf(_SC_PAGE_SIZE);
    struct {
        const char *kind;
        size_t offset;
    } kinds[] = {{"aligned", 0}, {"in-line", 4}, {"line-crossing", machine.line - 4}, {"page-crossing", page - 4}};
    char *memory = get_memory((SLOTS + 1) * page, 0);
    touch(memory, (SLOTS + 1) * page);
    printf("%14s %10s %10s %10s %10s\n", "Load", "Offset", "Median ns", "Least ns", "Cycles");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char *first = memory + kinds[i].offset;
        chain(first, SLOTS, page);
        void **place = (void **)first;
        struct times load = time_loads(&place);
        if (place == NULL) /* never: it keeps the loads */
            return 1;
        printf("%14s %10zu %10.3f %10.3f %10.2f\n", kinds[i].kind, kinds[i].offset, 1e9 * load.median, 1e9 * load.least,
               load.median * machine.clock_hz);
    }
    return 0;
}

/* -- strides -- */

#define AT_ONCE 1024 /* accesses between two looks at the clock */

/* at: where the walk is; a walk that has come to the end begins again one line further, so that it never meets a line that it has
 * brought into a cache itself, until all were met. */
struct walk {
    uint64_t *memory, counter, sum;
    struct order order;
    size_t size, at, begin;
};

static size_t run_length(struct walk *walk, size_t stride, size_t wanted)
{
    if (walk->at + stride > walk->size) {
        walk->begin = stride > machine.line ? (walk->begin + machine.line) % stride : 0;
        walk->at = walk->begin;
    }
    size_t left = (walk->size - walk->at - sizeof(uint64_t)) / stride + 1;
    return left < wanted ? left : wanted;
}

static void read_strided(struct walk *walk, size_t stride)
{
    for (size_t left = AT_ONCE; left;) {
        size_t run = run_length(walk, stride, left), words = stride / sizeof(uint64_t);
        const uint64_t *word = walk->memory + walk->at / sizeof(uint64_t);
        uint64_t sum = 0;
        for (size_t i = 0; i < run; i++)
            sum += word[i * words];
        walk->sum += sum;
        walk->at += run * stride;
        left -= run;
    }
}

static void write_strided(struct walk *walk, size_t stride)
{
    for (size_t left = AT_ONCE; left;) {
        size_t run = run_length(walk, stride, left), words = stride / sizeof(uint64_t);
        uint64_t *word = walk->memory + walk->at / sizeof(uint64_t);
        for (size_t i = 0; i < run; i++)
            word[i * words] = i;
        walk->at += run * stride;
        left -= run;
    }
}

static void read_random(struct walk *walk, size_t stride)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < AT_ONCE; i++)
        sum += walk->memory[place_of(&walk->order, &walk->counter) * (stride / sizeof(uint64_t))];
    walk->sum += sum;
}

static void write_random(struct walk *walk, size_t stride)
{
    for (size_t i = 0; i < AT_ONCE; i++)
        walk->memory[place_of(&walk->order, &walk->counter) * (stride / sizeof(uint64_t))] = i;
}

/* Words a second that a way of access reaches, in independent accesses of one word each; the bytes are those that were asked
 * for, not the lines that moved. */
static double rate_of(void (*accesses)(struct walk *, size_t), struct walk *walk, size_t stride)
{
    double rates[ROUNDS];
    accesses(walk, stride);
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now(), end = begin;
        size_t done = 0;
        for (; end < begin + ROUND_S; end = now(), done += AT_ONCE)
            accesses(walk, stride);
        rates[round] = (double)done / (end - begin);
    }
    return median(rates, ROUNDS);
}

int stride(void)
{
    size_t line = machine.line;
    size_t strides[] = {8, 16, 32, line, 2 * line, 4 * line, 8 * line, 16 * line, PAGE};
    struct walk walk = {.size = machine.largest, .order = order_of(machine.largest / line)};
    if (machine.largest < 4 * PAGE) {
        fprintf(stderr, "memory: stride takes %llu bytes at least\n", 4 * PAGE);
        return 1;
    }
    walk.memory = (uint64_t *)get_memory(machine.largest, 1);
    touch((char *)walk.memory, machine.largest);
    printf("Pages = huge, %.3f of the memory in huge ones\n", huge_share((char *)walk.memory, machine.largest));
    printf("Set = %zu bytes\n", machine.largest);
    printf("%8s %12s %14s %14s\n", "Stride", "Bytes", "Read MB/s", "Write MB/s");
    for (size_t i = 0; i <= sizeof strides / sizeof *strides; i++) {
        int random = i == sizeof strides / sizeof *strides;
        size_t bytes = random ? line : strides[i];
        double reads = rate_of(random ? read_random : read_strided, &walk, bytes);
        double writes = rate_of(random ? write_random : write_strided, &walk, bytes);
        printf("%8s %12zu %14.1f %14.1f\n", random ? "random" : "strided", bytes, 8e-6 * reads, 8e-6 * writes);
        fflush(stdout);
    }
    return walk.sum == 1; /* never: it keeps the loads */
}

/* -- a matrix product in two orders of its loops -- */

static void down_columns(size_t n, const double *a, const double *b, double *c)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}

static void along_rows(size_t n, const double *a, const double *b, double *c)
{
    memset(c, 0, n * n * sizeof *c);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
}

/* The largest difference of c from the product, by a vector of which it is known: c·v against a·(b·v). */
static double error_of(size_t n, const double *a, const double *b, const double *c)
{
    double worst = 0, *w = calloc(n, sizeof *w);
    if (w == NULL)
        die("product");
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            w[i] += b[i * n + j] * (double)(j % 7);
    for (size_t i = 0; i < n; i++) {
        double left = 0, right = 0;
        for (size_t j = 0; j < n; j++) {
            left += c[i * n + j] * (double)(j % 7);
            right += a[i * n + j] * w[j];
        }
        double difference = left > right ? left - right : right - left;
        worst = difference > worst ? difference : worst;
    }
    free(w);
    return worst;
}

int product(size_t n)
{
    size_t bytes = n * n * sizeof(double);
    double *a = (double *)get_memory(bytes, 0), *b = (double *)get_memory(bytes, 0), *c = (double *)get_memory(bytes, 0);
    for (size_t i = 0; i < n * n; i++) { /* whole numbers: both orders are exact, whatever is added first */
        a[i] = (double)(i % 5);
        b[i] = (double)(i % 3);
    }
    printf("Order = %zu\n", n);
    printf("%8s %12s %12s %10s\n", "Loops", "Median s", "Least s", "Error");
    for (int rows = 0; rows < 2; rows++) {
        double seconds[3], total = 0;
        int rounds = 0;
        while (rounds < 3 && total < 1) {
            double begin = now();
            (rows ? along_rows : down_columns)(n, a, b, c);
            seconds[rounds] = now() - begin;
            total += seconds[rounds++];
        }
        double middle = median(seconds, rounds);
        printf("%8s %12.6f %12.6f %10.3g\n", rows ? "ikj" : "ijk", middle, seconds[0], error_of(n, a, b, c));
        fflush(stdout);
    }
    return 0;
}
