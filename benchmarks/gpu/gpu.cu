/* What a GPU of this node can do: its memory and L2, the way to the host, the start of a kernel, matrix products, other GPUs.
 *
 *     gpu [-g GPU] PART
 *
 * PART: memory, host, launch, gemm, peers. GPU: the number of one of them; without it all, one after another. Every number is the
 * median of rounds, and every result is compared with what it has to be: "wrong" counts the elements that are not. While a
 * part's work goes on for a while, NVML tells the clocks and what holds them down.
 */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <algorithm>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define MIB (1ull << 20)
#define THREADS 1024
#define ROUNDS 21
#define LONG_ROUNDS 11  /* of rounds that take milliseconds */
#define ROUND_S 0.005   /* least time of a round of matrix products */
#define WARM_S 0.1      /* of products before the first round: until power and clocks have settled */
#define WATCHED_S 0.15  /* of the work beside which NVML is asked, which takes some milliseconds */
#define FACTOR 0.4      /* with it STREAM's arrays stay of one size: a becomes 0.96 a */

[[noreturn]] static void die(const char *what, const char *why)
{
    fprintf(stderr, "gpu: %s: %s\n", what, why);
    exit(1);
}

#define CUDA(call)                                              \
    do {                                                        \
        cudaError_t error_ = (call);                            \
        if (error_ != cudaSuccess)                              \
            die(#call, cudaGetErrorString(error_));             \
    } while (0)

#define BLAS(call)                                              \
    do {                                                        \
        cublasStatus_t status_ = (call);                        \
        if (status_ != CUBLAS_STATUS_SUCCESS)                   \
            die(#call, cublasGetStatusString(status_));         \
    } while (0)

static double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct Times {
    double median, least;
};

static Times of(std::vector<double> rounds)
{
    std::sort(rounds.begin(), rounds.end());
    size_t n = rounds.size();
    return {(rounds[(n - 1) / 2] + rounds[n / 2]) / 2, rounds[0]};
}

static int attribute(cudaDeviceAttr which, int gpu)
{
    int value = 0;
    CUDA(cudaDeviceGetAttribute(&value, which, gpu));
    return value;
}

/* -- what NVML sees meanwhile -- */

/* The library comes with the driver, its header with the toolkit: loaded by name, a GPU without it is measured all the same. The
 * numbers are those of nvml.h, which keeps them. */
struct Nvml {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    void *device = nullptr;

    template <typename... Arguments> bool call(const char *name, Arguments... arguments)
    {
        auto *function = library ? (int (*)(Arguments...))dlsym(library, name) : nullptr;
        return function && function(arguments...) == 0;
    }
    explicit Nvml(const char *pci)
    {
        if (!call("nvmlInit_v2") || !call("nvmlDeviceGetHandleByPciBusId_v2", pci, &device))
            library = nullptr;
    }
};

static const struct {
    unsigned long long bit;
    const char *name;
} REASONS[] = { /* nvmlClocksEventReason…; 1, idle, says nothing of work */
    {0x2, "application clocks"}, {0x4, "power cap"}, {0x8, "hardware slowdown"}, {0x10, "sync boost"},
    {0x20, "thermal slowdown"}, {0x40, "hardware thermal slowdown"}, {0x80, "power brake"}, {0x100, "display clocks"},
};

/* Before anything is measured: whose numbers they will be. */
static void print_others(const char *pci)
{
    enum { MOST = 256 };
    static struct {
        unsigned pid;
        unsigned long long bytes;
        unsigned instance, compute;
    } processes[MOST];
    Nvml nvml(pci);
    unsigned number = MOST;
    CUDA(cudaFree(nullptr)); /* from here on this process is one of them */
    if (nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", nvml.device, &number, &processes[0]))
        printf("Others = %u\n", number > 1 ? number - 1 : 0);
}

/* Clocks, if the work in the default stream has not ended before they were told. */
static void print_clocks(const char *pci)
{
    enum { SM = 1, MEMORY = 2 };
    Nvml nvml(pci);
    unsigned sm = 0, memory = 0;
    unsigned long long why = 0;
    bool clocks = nvml.call("nvmlDeviceGetClockInfo", nvml.device, (int)SM, &sm) &&
                  nvml.call("nvmlDeviceGetClockInfo", nvml.device, (int)MEMORY, &memory);
    bool reasons = nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", nvml.device, &why);
    bool running = cudaStreamQuery(0) == cudaErrorNotReady;
    if (clocks && running)
        printf("Clock = %u MHz, of the memory %u MHz\n", sm, memory);
    if (reasons && running) {
        std::string names;
        for (auto &reason : REASONS)
            if (why & reason.bit)
                names += (names.empty() ? "" : ", ") + std::string(reason.name);
        printf("Held down by = %s\n", names.empty() ? "nothing" : names.c_str());
    }
}

/* -- rounds -- */

static cudaEvent_t before, after;

/* Seconds on the GPU of `work`, which is put into the default stream. */
static double on_gpu(const std::function<void()> &work)
{
    float milliseconds = 0;
    CUDA(cudaEventRecord(before));
    work();
    CUDA(cudaEventRecord(after));
    CUDA(cudaEventSynchronize(after));
    CUDA(cudaGetLastError());
    CUDA(cudaEventElapsedTime(&milliseconds, before, after));
    return 1e-3 * milliseconds;
}

/* Keeps the GPU at `work`, which takes `seconds`, while NVML is asked. */
static void watch(const char *pci, double seconds, const std::function<void()> &work)
{
    Nvml first(pci); /* the first call of a process takes the longest */
    for (double due = 0; due < WATCHED_S; due += seconds)
        work();
    print_clocks(pci);
    CUDA(cudaDeviceSynchronize());
}

/* -- the GPU's own memory -- */

__global__ void fill(double *a, size_t n, double value)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = value;
}

__global__ void count_wrong(const double *a, size_t n, double wanted, unsigned long long *wrong)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n && !(fabs(a[i] - wanted) <= 1e-12 * fabs(wanted)))
        atomicAdd(wrong, 1ull);
}

__device__ static double2 operator*(double s, double2 v) { return {s * v.x, s * v.y}; }
__device__ static double2 operator+(double2 v, double2 w) { return {v.x + w.x, v.y + w.y}; }

/* STREAM's four (McCalpin), 16 bytes a thread and access. */
__global__ void copy(const double2 *a, double2 *c)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    c[i] = a[i];
}
__global__ void scale(double2 *b, const double2 *c)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    b[i] = FACTOR * c[i];
}
__global__ void add(const double2 *a, const double2 *b, double2 *c)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
}
__global__ void triad(double2 *a, const double2 *b, const double2 *c)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    a[i] = b[i] + FACTOR * c[i];
}

/* Reads n elements `times` over, past L1. The sum is exact: of ones. Each thread has elements of its own: what several
 * multiprocessors ask for at the same time is merged on the way to L2 (on an H100 a quarter was, and L2 seemed that much faster). */
__global__ void load(const double2 *a, size_t n, int times, double *sum)
{
    size_t own = blockIdx.x * (size_t)blockDim.x + threadIdx.x, all = gridDim.x * (size_t)blockDim.x;
    double2 s = {0, 0};
    for (int t = 0; t < times; t++) {
#pragma unroll 4
        for (size_t i = own; i < n; i += all)
            s = s + __ldcg(a + i);
    }
    double total = s.x + s.y;
    for (int lane = 16; lane; lane /= 2)
        total += __shfl_down_sync(~0u, total, lane);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, total);
}

static unsigned long long wrong_in(const double *a, size_t n, double wanted)
{
    unsigned long long *count, wrong;
    CUDA(cudaMalloc(&count, sizeof *count));
    CUDA(cudaMemset(count, 0, sizeof *count));
    count_wrong<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS>>>(a, n, wanted, count);
    CUDA(cudaMemcpy(&wrong, count, sizeof wrong, cudaMemcpyDeviceToHost));
    CUDA(cudaFree(count));
    return wrong;
}

static void print_rate(const char *level, const char *kernel, size_t set, double bytes, const std::vector<double> &rounds,
                       unsigned long long wrong)
{
    Times t = of(rounds);
    printf("%5s %6s %12zu %13.6g %13.6g %14.2f %8llu\n", level, kernel, set, t.median, t.least, bytes / t.median * 1e-6, wrong);
}

static void loads(const char *level, const double2 *a, size_t bytes, int gpu)
{
    size_t n = bytes / sizeof *a;
    unsigned blocks = 2 * (unsigned)attribute(cudaDevAttrMultiProcessorCount, gpu);
    int times = (int)std::max<size_t>(1, 4096 * MIB / bytes);
    double *sum, total = 0;
    std::vector<double> rounds;
    CUDA(cudaMalloc(&sum, sizeof *sum));
    CUDA(cudaMemset(sum, 0, sizeof *sum));
    load<<<blocks, THREADS>>>(a, n, times, sum);
    for (int round = 0; round < ROUNDS; round++)
        rounds.push_back(on_gpu([&] { load<<<blocks, THREADS>>>(a, n, times, sum); }));
    CUDA(cudaMemcpy(&total, sum, sizeof total, cudaMemcpyDeviceToHost));
    CUDA(cudaFree(sum));
    double wanted = 2.0 * (double)n * times * (ROUNDS + 1);
    print_rate(level, "load", bytes, (double)bytes * times, rounds, total != wanted);
}

static void memory(int gpu, const char *pci)
{
    size_t available, total, l2 = (size_t)attribute(cudaDevAttrL2CacheSize, gpu);
    CUDA(cudaMemGetInfo(&available, &total));
    size_t bytes = std::min<size_t>(1024 * MIB, available / 4) / (2 * MIB) * (2 * MIB), n = bytes / sizeof(double);
    if (bytes < 4 * l2)
        die("memory", "too little of it is free for arrays of four times the L2");
    double *a, *b, *c;
    CUDA(cudaMalloc(&a, bytes));
    CUDA(cudaMalloc(&b, bytes));
    CUDA(cudaMalloc(&c, bytes));
    fill<<<(unsigned)(n / THREADS), THREADS>>>(a, n, 1.0);
    printf("level kernel   set, bytes     median, s      least, s           MB/s    wrong\n");
    loads("MEM", (double2 *)a, bytes, gpu);
    /* a quarter of L2: on some GPUs each half of the multiprocessors has a part of it nearer than the other */
    loads("L2", (double2 *)a, l2 / 4, gpu);

    auto *va = (double2 *)a, *vb = (double2 *)b, *vc = (double2 *)c;
    unsigned blocks = (unsigned)(n / 2 / THREADS);
    const struct {
        const char *name;
        int arrays;
        std::function<void()> work;
    } kernels[] = {
        {"copy", 2, [&] { copy<<<blocks, THREADS>>>(va, vc); }},
        {"scale", 2, [&] { scale<<<blocks, THREADS>>>(vb, vc); }},
        {"add", 3, [&] { add<<<blocks, THREADS>>>(va, vb, vc); }},
        {"triad", 3, [&] { triad<<<blocks, THREADS>>>(va, vb, vc); }},
    };
    std::vector<double> rounds[4];
    double wa = 1, wb = 0, wc = 0, triad_s = 0;
    for (int round = -1; round < ROUNDS; round++) { /* the first is not counted */
        for (int k = 0; k < 4; k++) {
            double seconds = on_gpu(kernels[k].work);
            if (round >= 0)
                rounds[k].push_back(seconds);
            triad_s = seconds;
        }
        wc = wa, wb = FACTOR * wc, wc = wa + wb, wa = wb + FACTOR * wc;
    }
    unsigned long long wrong = wrong_in(a, n, wa) + wrong_in(b, n, wb) + wrong_in(c, n, wc);
    for (int k = 0; k < 4; k++)
        print_rate("MEM", kernels[k].name, bytes, (double)bytes * kernels[k].arrays, rounds[k], wrong);
    watch(pci, triad_s, kernels[3].work);
    CUDA(cudaFree(a));
    CUDA(cudaFree(b));
    CUDA(cudaFree(c));
}

/* -- between host and GPU -- */

struct Copy {
    void *to, *from;
    cudaMemcpyKind kind;
    cudaStream_t stream;
};

/* Seconds of `times` copies of each, one after another in its stream, until the last has ended. */
static double copies(const std::vector<Copy> &each, size_t bytes, int times)
{
    double start = now();
    for (int t = 0; t < times; t++)
        for (auto &one : each)
            CUDA(cudaMemcpyAsync(one.to, one.from, bytes, one.kind, one.stream));
    for (auto &one : each)
        CUDA(cudaStreamSynchronize(one.stream));
    return now() - start;
}

static unsigned long long differing(const uint64_t *one, const uint64_t *other, size_t bytes)
{
    unsigned long long wrong = 0;
    for (size_t i = 0; i < bytes / sizeof *one; i++)
        wrong += one[i] != other[i];
    return wrong;
}

static void host(int, const char *)
{
    const size_t most = 256 * MIB, sizes[] = {64 << 10, MIB, 16 * MIB, most};
    printf("memory   direction  size, bytes     median, s      least, s           MB/s    wrong\n");
    uint64_t *there, *there_too;
    CUDA(cudaMalloc(&there, most));
    CUDA(cudaMalloc(&there_too, most));
    cudaStream_t one, other;
    CUDA(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    for (bool pinned : {true, false}) {
        uint64_t *to, *from;
        if (pinned) {
            CUDA(cudaMallocHost(&to, most));
            CUDA(cudaMallocHost(&from, most));
        } else if (!(to = (uint64_t *)malloc(most)) || !(from = (uint64_t *)malloc(most)))
            die("host", "no memory");
        for (size_t size : sizes) {
            int times = (int)std::max<size_t>(1, 64 * MIB / size);
            for (size_t i = 0; i < size / sizeof *from; i++) {
                from[i] = i * 0x9e3779b97f4a7c15ull + size;
                to[i] = 0;
            }
            Copy down = {there, from, cudaMemcpyHostToDevice, one}, up = {to, there, cudaMemcpyDeviceToHost, other};
            copies({down}, size, 1);
            copies({up}, size, 1);
            unsigned long long wrong = differing(to, from, size);
            Copy beside = {there_too, from, cudaMemcpyHostToDevice, one};
            struct {
                const char *name;
                std::vector<Copy> each;
            } ways[] = {{"to the GPU", {down}}, {"to the host", {up}}, {"both", {beside, up}}};
            for (auto &way : ways) {
                if (!pinned && way.each.size() > 1)
                    continue; /* each such copy holds the one thread that starts them */
                std::vector<double> rounds;
                for (int round = -1; round < LONG_ROUNDS; round++) {
                    double seconds = copies(way.each, size, times) / times;
                    if (round >= 0)
                        rounds.push_back(seconds);
                }
                Times t = of(rounds);
                printf("%-8s %-11s %10zu %13.6g %13.6g %14.2f %8llu\n", pinned ? "pinned" : "pageable", way.name, size, t.median,
                       t.least, (double)(size * way.each.size()) / t.median * 1e-6, wrong);
            }
        }
        if (pinned) {
            CUDA(cudaFreeHost(to));
            CUDA(cudaFreeHost(from));
        } else
            free(to), free(from);
    }
    CUDA(cudaFree(there_too));
    CUDA(cudaFree(there));
}

/* -- starting and waiting -- */

__global__ void nothing(int *place)
{
    if (place)
        *place = 1;
}

static void print_latency(const char *what, const std::vector<double> &rounds)
{
    Times t = of(rounds);
    printf("%-22s %10.3f %10.3f\n", what, t.median * 1e6, t.least * 1e6);
}

static void launch(int, const char *)
{
    const int kernels = 500, calls = 50;
    void *there, *here;
    CUDA(cudaMalloc(&there, 64));
    CUDA(cudaMallocHost(&here, 64));
    auto start = [] { nothing<<<1, 1>>>(nullptr); };
    auto wait = [] { CUDA(cudaDeviceSynchronize()); };
    const struct {
        const char *name;
        int times;
        std::function<void()> one, end;
    } ways[] = {
        {"launch in a row", kernels, start, wait},
        {"launch and wait", calls, [&] { start(), wait(); }, [] {}},
        {"wait for nothing", calls, wait, [] {}},
        {"8 B to the GPU", calls, [&] { CUDA(cudaMemcpy(there, here, 8, cudaMemcpyHostToDevice)); wait(); }, [] {}},
        {"8 B to the host", calls, [&] { CUDA(cudaMemcpy(here, there, 8, cudaMemcpyDeviceToHost)); }, [] {}},
    };
    printf("what                   median, us  least, us\n");
    for (auto &way : ways) {
        std::vector<double> rounds;
        for (int round = -1; round < ROUNDS; round++) {
            double start = now();
            for (int t = 0; t < way.times; t++)
                way.one();
            way.end();
            if (round >= 0)
                rounds.push_back((now() - start) / way.times);
        }
        CUDA(cudaGetLastError());
        print_latency(way.name, rounds);
    }
    CUDA(cudaFree(there));
    CUDA(cudaFreeHost(here));
}

/* -- matrix products -- */

/* Uniform in [-1, 1): a GPU draws less power, and runs faster, at zeros or at equal numbers. */
template <typename T> __global__ void random_numbers(T *a, size_t n, uint32_t seed)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + seed; /* splitmix64 (Steele, Lea, Flood 2014) */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    a[i] = (T)((double)((x ^ (x >> 31)) >> 11) * 0x1p-52 - 1.0);
}

/* Elements of c = a b that differ from the host's product in double precision by more than rounding explains, of 64 tried.
 * input, output: relative error of an element of a or b, and of c. */
template <typename T>
static unsigned long long wrong_products(const T *a, const T *b, const T *c, int n, double input, double output)
{
    std::vector<T> row((size_t)n), column((size_t)n);
    unsigned long long wrong = 0;
    for (int k = 0; k < 64; k++) {
        size_t i = (size_t)k * 7919 % (size_t)n, j = (size_t)k * 104729 % (size_t)n;
        T element;
        CUDA(cudaMemcpy2D(row.data(), sizeof(T), a + i, (size_t)n * sizeof(T), sizeof(T), (size_t)n, cudaMemcpyDeviceToHost));
        CUDA(cudaMemcpy(column.data(), b + j * (size_t)n, (size_t)n * sizeof(T), cudaMemcpyDeviceToHost));
        CUDA(cudaMemcpy(&element, c + i + j * (size_t)n, sizeof element, cudaMemcpyDeviceToHost));
        double exact = 0, sum = 0;
        for (int l = 0; l < n; l++) {
            double product = (double)row[(size_t)l] * (double)column[(size_t)l];
            exact += product;
            sum += fabs(product);
        }
        wrong += !(fabs((double)element - exact) <= input * sum + output * fabs(exact));
    }
    return wrong;
}

/* input: what rounding may do to the sum of the products' magnitudes; output: to the result. */
template <typename T>
static void product(cublasHandle_t blas, const char *pci, const char *name, cudaDataType type, cublasComputeType_t compute, int n,
                    double input, double output)
{
    size_t number = (size_t)n * (size_t)n;
    T *a, *b, *c;
    CUDA(cudaMalloc(&a, number * sizeof(T)));
    CUDA(cudaMalloc(&b, number * sizeof(T)));
    CUDA(cudaMalloc(&c, number * sizeof(T)));
    random_numbers<<<(unsigned)((number + 255) / 256), 256>>>(a, number, 1);
    random_numbers<<<(unsigned)((number + 255) / 256), 256>>>(b, number, 2);
    CUDA(cudaMemset(c, 0xff, number * sizeof(T))); /* NaN */
    using Scalar = std::conditional_t<std::is_same_v<T, double>, double, float>;
    Scalar one = 1, zero = 0;
    auto multiply = [&] {
        BLAS(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, type, n, b, type, n, &zero, c, type, n, compute,
                          CUBLAS_GEMM_DEFAULT));
    };
    on_gpu(multiply); /* the first call loads the kernel */
    double once = on_gpu(multiply), warm = once;
    while (warm < WARM_S)
        warm += on_gpu(multiply);
    int times = (int)ceil(ROUND_S / once), number_of_rounds = once * ROUNDS < 1 ? ROUNDS : LONG_ROUNDS;
    std::vector<double> rounds;
    for (int round = 0; round < number_of_rounds; round++)
        rounds.push_back(on_gpu([&] {
            for (int t = 0; t < times; t++)
                multiply();
        }) / times);
    Times t = of(rounds);
    double flop = 2.0 * n * n * n;
    printf("%-9s %6d %13.6g %13.6g %14.3f %8llu\n", name, n, t.median, t.least, flop / t.median * 1e-9,
           wrong_products(a, b, c, n, input, output));
    watch(pci, t.median, multiply);
    CUDA(cudaFree(a));
    CUDA(cudaFree(b));
    CUDA(cudaFree(c));
}

static void gemm(int, const char *pci)
{
    cublasHandle_t blas;
    BLAS(cublasCreate(&blas));
    printf("precision  order     median, s      least, s        GFLOP/s    wrong\n");
    product<double>(blas, pci, "double", CUDA_R_64F, CUBLAS_COMPUTE_64F, 4096, 0x1p-45, 0);
    product<float>(blas, pci, "single", CUDA_R_32F, CUBLAS_COMPUTE_32F, 4096, 0x1p-17, 0);
    product<float>(blas, pci, "tf32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 8192, 0x1p-11, 0);
    product<__half>(blas, pci, "half", CUDA_R_16F, CUBLAS_COMPUTE_32F, 8192, 0x1p-17, 0x1p-10);
    product<__nv_bfloat16>(blas, pci, "bfloat16", CUDA_R_16BF, CUBLAS_COMPUTE_32F, 8192, 0x1p-17, 0x1p-7);
    BLAS(cublasDestroy(blas));
}

/* -- GPU to GPU -- */

static void peers(int number)
{
    const size_t size = 256 * MIB;
    if (number < 2) {
        fprintf(stderr, "unavailable: this node has one GPU\n");
        exit(1);
    }
    std::vector<uint64_t *> memory((size_t)number), beside((size_t)number);
    std::vector<cudaStream_t> streams((size_t)number);
    for (int gpu = 0; gpu < number; gpu++) {
        CUDA(cudaSetDevice(gpu));
        CUDA(cudaMalloc(&memory[(size_t)gpu], size));
        CUDA(cudaMalloc(&beside[(size_t)gpu], size));
        CUDA(cudaMemset(memory[(size_t)gpu], gpu + 1, size));
        CUDA(cudaStreamCreateWithFlags(&streams[(size_t)gpu], cudaStreamNonBlocking));
        for (int other = 0; other < number; other++) {
            int can = 0;
            if (other != gpu)
                CUDA(cudaDeviceCanAccessPeer(&can, gpu, other));
            if (can)
                CUDA(cudaDeviceEnablePeerAccess(other, 0));
        }
    }
    std::vector<uint64_t> seen(size / sizeof(uint64_t)), wanted(seen.size());
    printf("from   to   way   direction  size, bytes     median, s      least, s           MB/s    wrong\n");
    for (int from = 0; from < number; from++)
        for (int to = 0; to < number; to++) {
            int direct = 0;
            if (from == to)
                continue;
            CUDA(cudaDeviceCanAccessPeer(&direct, to, from));
            CUDA(cudaSetDevice(from));
            auto send = [&](size_t one, size_t other) {
                CUDA(cudaMemcpyPeerAsync(beside[other], (int)other, memory[one], (int)one, size, streams[one]));
            };
            for (bool both : {false, true}) {
                if (both && from > to)
                    continue;
                std::vector<double> rounds;
                for (int round = -1; round < LONG_ROUNDS; round++) {
                    double start = now();
                    send((size_t)from, (size_t)to);
                    if (both)
                        send((size_t)to, (size_t)from);
                    CUDA(cudaStreamSynchronize(streams[(size_t)from]));
                    CUDA(cudaStreamSynchronize(streams[(size_t)to]));
                    if (round >= 0)
                        rounds.push_back(now() - start);
                }
                memset(wanted.data(), from + 1, size);
                CUDA(cudaMemcpy(seen.data(), beside[(size_t)to], size, cudaMemcpyDeviceToHost));
                unsigned long long wrong = differing(seen.data(), wanted.data(), size);
                CUDA(cudaMemset(beside[(size_t)to], 0, size));
                Times t = of(rounds);
                printf("%4d %4d %-6s %-9s %12zu %13.6g %13.6g %14.2f %8llu\n", from, to, direct ? "direct" : "host",
                       both ? "both" : "one", size, t.median, t.least, (double)(both ? 2 * size : size) / t.median * 1e-6, wrong);
            }
        }
}

/* -- one GPU after another -- */

/* Runs on the CPUs beside the GPU, as far as this process may. */
static void go_near(const char *pci)
{
    std::string path = std::string("/sys/bus/pci/devices/") + pci + "/local_cpulist";
    std::transform(path.begin(), path.end(), path.begin(), [](unsigned char c) { return (char)tolower(c); });
    FILE *file = fopen(path.c_str(), "r");
    cpu_set_t may, near;
    CPU_ZERO(&near);
    if (!file || sched_getaffinity(0, sizeof may, &may))
        return;
    int first, last;
    for (char end = ','; end == ',' && fscanf(file, "%d", &first) == 1;) {
        last = first;
        if (fscanf(file, "%c", &end) == 1 && end == '-' && (fscanf(file, "%d", &last) != 1 || fscanf(file, "%c", &end) != 1))
            end = 0;
        for (int cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &may))
                CPU_SET(cpu, &near);
    }
    fclose(file);
    if (CPU_COUNT(&near))
        sched_setaffinity(0, sizeof near, &near);
}

static std::string describe(int gpu)
{
    cudaDeviceProp found;
    char pci[32];
    int driver = 0, runtime = 0;
    CUDA(cudaGetDeviceProperties(&found, gpu));
    CUDA(cudaDeviceGetPCIBusId(pci, sizeof pci, gpu));
    CUDA(cudaDriverGetVersion(&driver));
    CUDA(cudaRuntimeGetVersion(&runtime));
    printf("GPU = %d, %s, %s\n", gpu, found.name, pci);
    printf("Compute capability = %d.%d, multiprocessors = %d, at most %.0f MHz\n", found.major, found.minor,
           found.multiProcessorCount, 1e-3 * attribute(cudaDevAttrClockRate, gpu));
    printf("Memory = %zu bytes, %d bits wide, at most %.0f MHz, ECC %s\n", found.totalGlobalMem,
           attribute(cudaDevAttrGlobalMemoryBusWidth, gpu), 1e-3 * attribute(cudaDevAttrMemoryClockRate, gpu),
           attribute(cudaDevAttrEccEnabled, gpu) ? "on" : "off");
    printf("L2 = %d bytes\n", attribute(cudaDevAttrL2CacheSize, gpu));
    printf("CUDA = %d.%d, driver for %d.%d\n", runtime / 1000, runtime % 100 / 10, driver / 1000, driver % 100 / 10);
    return pci;
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)(int gpu, const char *pci);
    } parts[] = {{"memory", memory}, {"host", host}, {"launch", launch}, {"gemm", gemm}};
    int option, number = 0, only = -1;
    while ((option = getopt(argc, argv, "g:")) == 'g')
        only = atoi(optarg);
    const char *part = optind + 1 == argc ? argv[optind] : "";
    auto *run = std::find_if(std::begin(parts), std::end(parts), [&](auto &each) { return !strcmp(each.name, part); });
    bool all = !strcmp(part, "peers");
    if (option != -1 || (run == std::end(parts) && !all)) {
        fprintf(stderr, "usage: gpu [-g GPU] memory|host|launch|gemm|peers\n");
        return 2;
    }
    cudaError_t error = cudaGetDeviceCount(&number);
    if (error != cudaSuccess || !number) {
        const char *why = error == cudaSuccess ? "none is visible" : cudaGetErrorString(error);
        fprintf(stderr, "unavailable: no GPU on this node: %s\n", why);
        return 1;
    }
    if (only >= number)
        die("-g", ("no such GPU: there are " + std::to_string(number)).c_str());
    setvbuf(stdout, nullptr, _IOLBF, 0); /* what was measured is kept if a later row fails */
    printf("GPU of NPC: %s\n", part);
    if (all)
        peers(number);
    cpu_set_t may;
    sched_getaffinity(0, sizeof may, &may);
    for (int gpu = 0; gpu < number && !all; gpu++) {
        if (only >= 0 && gpu != only)
            continue;
        CUDA(cudaSetDevice(gpu));
        CUDA(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
        std::string pci = describe(gpu);
        go_near(pci.c_str());
        print_others(pci.c_str());
        CUDA(cudaEventCreate(&before));
        CUDA(cudaEventCreate(&after));
        run->run(gpu, pci.c_str());
        printf("Complete\n");
        CUDA(cudaDeviceReset());
        sched_setaffinity(0, sizeof may, &may);
    }
    if (all)
        printf("Complete\n");
    return 0;
}
