/* What a program may do that a library inside it must not change: forks, vforks and execs, threads that come and
 * go, a stack that grows, pages of 2 MiB, a SIGSEGV handler of its own, every way to allocate. Prints what came of
 * it; exit code 7. `marks` are pages of which it is known who writes them how often. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, FORK = 0, VFORK, THREADS, HANDLER, MARKS, COMING = 200 };
static volatile char marks[MARKS][PAGE] __attribute__((aligned(4096)));
static char *guarded;

static void *come(void *given)
{
    marks[THREADS][0]++;
    free(malloc(100000));
    return given;
}

static void *leave(void *given)
{
    (void)given;
    marks[THREADS][1]++;
    pthread_exit(NULL);
}

static void handle(int number, siginfo_t *what, void *context)
{
    (void)number, (void)context;
    marks[HANDLER][0]++;
    if (what->si_addr == guarded)
        mprotect(guarded, PAGE, PROT_READ | PROT_WRITE);
    else
        _exit(99);
}

static int grow(int depth)
{
    volatile char room[64 * 1024];
    memset((void *)room, depth, sizeof room);
    return depth == 0 ? room[5] : grow(depth - 1) + room[depth];
}

static int allocate(void)
{
    int wrong = 0;
    char *block = malloc(10);
    strcpy(block, "content");
    for (size_t bytes = 100; bytes < 3000000; bytes *= 7) {
        block = realloc(block, bytes);
        wrong += strcmp(block, "content") != 0 || malloc_usable_size(block) < bytes;
        memset(block + 8, 1, bytes - 8);
    }
    block = realloc(block, 5000);
    block = realloc(block, 20);
    wrong += strcmp(block, "content") != 0;
    free(block);
    char *zeros = calloc(1000, 50);
    for (int each = 0; each < 50000; each++)
        wrong += zeros[each] != 0;
    zeros = reallocarray(zeros, 2000, 50);
    wrong += zeros == NULL || reallocarray(NULL, SIZE_MAX, 2) != NULL || errno != ENOMEM;
    free(zeros);
    for (size_t alignment = 16; alignment <= 1 << 21; alignment *= 8) {
        void *aligned = NULL;
        wrong += posix_memalign(&aligned, alignment, 3 * PAGE) != 0 || (uintptr_t)aligned % alignment != 0;
        free(aligned);
        aligned = aligned_alloc(alignment, alignment);
        wrong += (uintptr_t)aligned % alignment != 0;
        free(aligned);
        aligned = memalign(alignment, 100);
        wrong += (uintptr_t)aligned % alignment != 0;
        free(aligned);
    }
    void *aligned;
    wrong += posix_memalign(&aligned, 3, PAGE) != EINVAL;
    aligned = valloc(10);
    wrong += (uintptr_t)aligned % PAGE != 0;
    free(aligned);
    char *mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(mapped, "mapped");
    mapped = mremap(mapped, PAGE, 5 * PAGE, MREMAP_MAYMOVE);
    wrong += strcmp(mapped, "mapped") != 0 || munmap(mapped, 5 * PAGE) != 0;
    char *line = NULL;
    size_t room = 0;
    FILE *file = fmemopen("a line that is read\n", 20, "r");
    wrong += getline(&line, &room, file) != 20;
    fclose(file);
    free(line);
    return wrong;
}

int main(void)
{
    int status;
    char *block = malloc(2 * PAGE);
    strcpy(block, "of the parent");
    pid_t child = fork();
    if (child == 0) {
        for (int time = 0; time < 1000; time++)
            marks[FORK][time]++;
        block = realloc(block, 3 * PAGE);
        int right = strcmp(block, "of the parent") == 0;
        free(block);
        free(malloc(3 * PAGE));
        exit(right ? 11 : 12);
    }
    waitpid(child, &status, 0);
    marks[FORK][0]++;
    printf("fork %d\n", WEXITSTATUS(status));
    child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 13", (char *)NULL);
        _exit(14);
    }
    waitpid(child, &status, 0);
    printf("vfork %d\n", WEXITSTATUS(status));
    fflush(stdout);
    printf("system %d\n", WEXITSTATUS(system("exit 15")));
    for (int time = 0; time < COMING; time++) {
        pthread_t thread;
        pthread_create(&thread, NULL, time % 2 ? come : leave, NULL);
        pthread_join(thread, NULL);
    }
    printf("threads %d %d\n", marks[THREADS][0], marks[THREADS][1]);
    printf("stack %d\n", grow(60));
    char *huge = aligned_alloc(2 << 20, 4 << 20);
    madvise(huge, 4 << 20, MADV_HUGEPAGE);
    memset(huge, 3, 4 << 20);
    printf("huge %d\n", huge[3 << 20]);
    free(huge);
    guarded = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    guarded[0] = 5;
    printf("handler %d %d\n", marks[HANDLER][0], guarded[0]);
    printf("wrong %d\n", allocate());
    printf("block %s\n", block);
    free(block);
    fprintf(stderr, "%p\n", (void *)marks);
    return 7;
}
