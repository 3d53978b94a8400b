/* Does what a program may do with its memory while its pages are closed and opened; each part for 0.15 s, and says
 * what came of it. Whoever runs it compares that with what it says alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096 };
extern char **environ;

static double began;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int more(void)
{
    return now() - began < 0.15;
}

static void check(int held, const char *what)
{
    if (!held) {
        printf("wrong: %s (%s)\n", what, strerror(errno));
        fflush(stdout);
        _exit(9);
    }
}

static char *pages(size_t number)
{
    char *begin = mmap(NULL, number * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(begin != MAP_FAILED, "mmap");
    return begin;
}

/* System calls whose arguments lie in pages that nobody else touches. */
static void calls(void)
{
    int pipes[2], sockets[2];
    char *from = pages(16), *to = pages(16);
    struct iovec *vector = (void *)pages(1);
    struct timespec *time = (void *)pages(1);
    struct pollfd *list = (void *)pages(1);
    struct msghdr *message = (void *)pages(1);
    struct epoll_event *events = (void *)pages(1);
    fd_set *set = (void *)pages(1);
    char *name = pages(1);
    check(pipe(pipes) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "pipe");
    int queue = epoll_create1(0), zero = open("/dev/zero", O_RDONLY);
    events->events = EPOLLIN;
    check(epoll_ctl(queue, EPOLL_CTL_ADD, pipes[0], events) == 0, "epoll_ctl");
    strcpy(name, "/proc/self/statm");
    for (int round = 0; more(); round++) {
        size_t bytes = 16 * PAGE;
        memset(from, round, bytes);
        check(write(pipes[1], from, bytes) == (ssize_t)bytes, "write");
        list->fd = pipes[0];
        list->events = POLLIN;
        check(poll(list, 1, -1) == 1 && list->revents == POLLIN, "poll");
        check(epoll_wait(queue, events, 8, -1) == 1, "epoll_wait");
        FD_ZERO(set);
        FD_SET(pipes[0], set);
        check(select(pipes[0] + 1, set, NULL, NULL, NULL) == 1, "select");
        for (int at = 0; at < 2; at++)
            vector[at] = (struct iovec){to + (size_t)at * 8 * PAGE, 8 * PAGE};
        check(readv(pipes[0], vector, 2) == (ssize_t)bytes, "readv");
        check(memcmp(from, to, bytes) == 0, "what came through the pipe");
        check(send(sockets[0], from, 3 * PAGE, 0) == 3 * PAGE, "send");
        *message = (struct msghdr){.msg_iov = vector, .msg_iovlen = 2};
        check(recvmsg(sockets[1], message, 0) == 3 * PAGE, "recvmsg");
        check(read(zero, to, bytes) == (ssize_t)bytes && to[bytes - 1] == 0, "read of zeros");
        time->tv_sec = 0;
        time->tv_nsec = 1000;
        check(nanosleep(time, time + 1) == 0, "nanosleep");
        int file = open(name, O_RDONLY);
        check(file >= 0 && read(file, to + PAGE, 100) > 0 && close(file) == 0, "a name in a page");
        if (round % 16 == 0) {
            int *unknown = (void *)(to + 3 * PAGE);
            check(syscall(SYS_ioctl, pipes[0], 0x541b /* FIONREAD */, unknown) == 0, "ioctl");
        }
        check(syscall(SYS_read, zero, 16, 100) == -1 && errno == EFAULT, "a bad address is still one");
    }
    /* a read that sleeps over many intervals */
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        usleep(50000);
        _exit(write(pipes[1], "late", 4) == 4 ? 0 : 1);
    }
    check(read(pipes[0], to, 10) == 4 && memcmp(to, "late", 4) == 0, "a call that sleeps");
    check(waitpid(child, (int *)from, 0) == child && *(int *)from == 0, "waitpid");
}

static void children(void)
{
    char **arguments = (char **)pages(1);
    char *words = pages(1);
    pid_t *child = (pid_t *)pages(1);
    int *status = (int *)pages(1);
    arguments[0] = strcpy(words, "/bin/true");
    for (int round = 0; more() || round < 6; round++) {
        switch (round % 6) {
        case 0: *child = fork(); break;
        case 1: *child = vfork(); break;
        case 2: check(posix_spawn(child, words, NULL, NULL, arguments, environ) == 0, "posix_spawn"); break;
        case 3: check(system("exit 7") == 7 << 8, "system"); continue;
        case 4: {
            FILE *stream = popen("echo word", "r");
            check(stream && fgets(words + 100, 50, stream) && pclose(stream) == 0, "popen");
            check(strcmp(words + 100, "word\n") == 0, "what popen said");
            continue;
        }
        default: *child = (pid_t)syscall(SYS_fork);
        }
        if (*child == 0) {
            execv(words, arguments);
            _exit(5);
        }
        check(*child > 0 && waitpid(*child, status, 0) == *child && *status == 0, "a child");
    }
}

static void *touch(void *given)
{
    volatile char *at = given;
    for (int page = 0; page < 32; page++)
        at[page * PAGE]++;
    char *own = malloc(100000);
    memset(own, 1, 100000);
    free(own);
    return NULL;
}

static void threads(void)
{
    char *shared = pages(8 * 32);
    int runs = 0;
    for (; more(); runs++) {
        pthread_t some[8];
        for (int at = 0; at < 8; at++)
            check(pthread_create(&some[at], NULL, touch, shared + at * 32 * PAGE) == 0, "pthread_create");
        for (int at = 0; at < 8; at++)
            pthread_join(some[at], NULL);
    }
    for (int page = 0; page < 8 * 32; page++)
        check(shared[page * PAGE] == (char)runs, "what threads wrote");
}

static pthread_mutex_t *mutex;
static pthread_cond_t *turn;
static long *whose;

static void *take_turns(void *given)
{
    long own = (long)given;
    for (;;) {
        pthread_mutex_lock(mutex);
        while (*whose >= 0 && *whose % 4 != own)
            pthread_cond_wait(turn, mutex);
        int over = *whose < 0;
        if (!over)
            *whose = !more() ? -1 : *whose + 1;
        pthread_cond_broadcast(turn);
        pthread_mutex_unlock(mutex);
        if (over)
            return NULL;
    }
}

static void locks(void)
{
    pthread_t some[4];
    mutex = (void *)pages(1);
    turn = (void *)pages(1);
    whose = (void *)pages(1);
    pthread_mutex_init(mutex, NULL);
    pthread_cond_init(turn, NULL);
    for (long at = 0; at < 4; at++)
        check(pthread_create(&some[at], NULL, take_turns, (void *)at) == 0, "pthread_create");
    for (int at = 0; at < 4; at++)
        pthread_join(some[at], NULL);
    check(*whose == -1, "turns");
}

static void large_pages(void)
{
    enum { LARGE = 2 << 20 };
    char *begin = mmap(NULL, 4 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin = (char *)(((unsigned long)begin + LARGE - 1) / LARGE * LARGE);
    madvise(begin, 3 * LARGE, MADV_HUGEPAGE);
    char *huge = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    char sum = 0;
    int rounds = 0;
    for (; more(); rounds++) {
        for (long at = 0; at < 3 * LARGE; at += PAGE)
            begin[at + rounds % PAGE]++;
        if (huge != MAP_FAILED)
            huge[rounds % LARGE]++;
    }
    for (long at = 0; at < 3 * LARGE; at++)
        sum = (char)(sum + begin[at]);
    check(sum == (char)(3 * LARGE / PAGE * rounds), "sums in large pages");
}

static long __attribute__((noinline)) deep(long depth)
{
    volatile char frame[1000];
    frame[0] = (char)depth;
    return depth == 0 ? frame[0] : deep(depth - 1) + (frame[0] == (char)depth);
}

static void stacks(void)
{
    for (long depth = 10; more(); depth = depth < 5000 ? depth + 50 : 10)
        check(deep(depth) == depth, "a stack that grows");
}

/* ---- signals ---- */

static volatile char *handled;
static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    for (int page = 0; page < 16; page++)
        handled[page * PAGE]++;
    if (alarms++ % 4 == 0)
        raise(SIGUSR1);
}

static void on_user(int signal)
{
    (void)signal;
    handled[16 * PAGE]++;
}

static void signals(void)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART | SA_ONSTACK};
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16}, old;
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    int pipes[2];
    char *to = pages(1);
    handled = pages(17);
    check(sigaltstack(NULL, &old) == 0 && old.ss_flags & SS_DISABLE, "no stack for signals yet");
    check(sigaltstack(&stack, NULL) == 0 && pipe(pipes) == 0, "sigaltstack");
    sigfillset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = on_user;
    action.sa_flags = 0;
    sigaction(SIGUSR1, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    sigset_t all, before;
    sigfillset(&all);
    while (more()) {
        sigprocmask(SIG_BLOCK, &all, &before);
        handled[16 * PAGE] += 0;
        check(write(pipes[1], to, 100) == 100, "write among signals");
        sigprocmask(SIG_SETMASK, &before, NULL);
        check(read(pipes[0], to, 100) == 100, "read among signals");
        sigdelset(&before, SIGALRM);
        sigsuspend(&before);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    check(alarms > 20 && handled[0] == (char)alarms, "alarms");
    check(sigaltstack(NULL, &old) == 0 && old.ss_sp == stack.ss_sp, "the stack for signals");
}

static sigjmp_buf back;
static char *forbidden;
static volatile int caught;

static void jump_back(int signal, siginfo_t *info, void *context)
{
    (void)context;
    check(signal == SIGSEGV && info->si_code == SEGV_ACCERR, "which fault");
    check((char *)info->si_addr == forbidden + 5, "the fault's address");
    caught++;
    siglongjmp(back, 1);
}

static void let_it(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    mprotect((void *)((unsigned long)info->si_addr / PAGE * PAGE), PAGE, PROT_READ | PROT_WRITE);
    caught++;
}

static void faults(void)
{
    struct sigaction action = {.sa_sigaction = jump_back, .sa_flags = SA_SIGINFO}, old;
    forbidden = pages(8);
    check(mprotect(forbidden, PAGE, PROT_NONE) == 0, "mprotect");
    check(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGSEGV, NULL, &old) == 0, "sigaction");
    check(old.sa_sigaction == jump_back, "the program's own handler");
    volatile int tries = 0;
    while (more()) {
        tries++;
        if (sigsetjmp(back, 1) == 0)
            ((volatile char *)forbidden)[5] = 1;
    }
    check(caught == tries, "each fault once");
    action.sa_sigaction = let_it;
    sigaction(SIGSEGV, &action, NULL);
    began = now();
    for (tries = 0; more(); tries++) { /* as a collector of garbage does */
        caught = 0;
        check(mprotect(forbidden, 8 * PAGE, PROT_READ) == 0, "mprotect");
        for (int page = 0; page < 8; page++)
            ((volatile char *)forbidden)[page * PAGE] = 1;
        check(caught == 8, "each write barrier once");
    }
}

static void jump_out(int signal)
{
    (void)signal;
    handled[0]++;
    siglongjmp(back, 1);
}

static void jumps(void)
{
    struct sigaction action = {.sa_handler = jump_out};
    int pipes[2];
    handled = pages(1);
    check(pipe(pipes) == 0, "pipe");
    sigaction(SIGALRM, &action, NULL);
    char *to = pages(2);
    volatile int rounds = 0;
    while (more()) {
        struct itimerval once = {{0, 0}, {0, 500}};
        rounds++;
        if (sigsetjmp(back, 1) == 0) {
            setitimer(ITIMER_REAL, &once, NULL);
            check(read(pipes[0], to, 10) < 0, "a read that is left");
        }
        to[PAGE]++;
    }
    check(handled[0] == (char)rounds, "jumps");
}

static void mappings(void)
{
    for (int round = 0; more(); round++) {
        char *begin = pages(64);
        memset(begin, round, 64 * PAGE);
        check(mprotect(begin, 8 * PAGE, PROT_READ) == 0 && begin[PAGE] == (char)round, "mprotect");
        check(madvise(begin + 8 * PAGE, 8 * PAGE, MADV_DONTNEED) == 0 && begin[9 * PAGE] == 0, "madvise");
        check(munmap(begin + 16 * PAGE, 8 * PAGE) == 0, "munmap");
        char *fixed = mmap(begin + 16 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        check(fixed == begin + 16 * PAGE && fixed[0] == 0, "mmap at an address");
        char *moved = mremap(begin + 32 * PAGE, 32 * PAGE, 96 * PAGE, MREMAP_MAYMOVE);
        check(moved != MAP_FAILED && moved[31 * PAGE] == (char)round && moved[95 * PAGE] == 0, "mremap");
        check(munmap(moved, 96 * PAGE) == 0 && munmap(begin, 32 * PAGE) == 0, "munmap");
        char *heap = sbrk(16 * PAGE);
        heap[15 * PAGE] = 1;
        check(sbrk(-16 * PAGE) != (void *)-1, "sbrk");
        if (round % 8 == 0) {
            char *code = pages(1);
            memcpy(code, "\xb8\x2a\0\0\0\xc3", 6); /* mov $42, %eax; ret */
            check(mprotect(code, PAGE, PROT_READ | PROT_EXEC) == 0, "mprotect");
            check(((int (*)(void))code)() == 42 && munmap(code, PAGE) == 0, "code made at run time");
        }
    }
}

static void shared(void)
{
    volatile char *between = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *own = pages(16);
    memset(own, 3, 16 * PAGE);
    pid_t child = fork();
    check(child >= 0, "fork");
    for (int round = 0; more(); round++)
        for (int page = 0; page < 16; page++) {
            __atomic_fetch_add((int *)(between + page * PAGE), 1, __ATOMIC_RELAXED);
            own[page * PAGE] = (char)(child ? round & 63 : 77);
        }
    if (child == 0)
        _exit(own[0] == 77 ? 4 : 5);
    int status;
    check(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4 && own[0] != 77, "memory of its own");
}

static ucontext_t here, there;
static void coroutine(void)
{
    volatile char deep[30000];
    for (;;) {
        deep[100]++;
        struct timespec time;
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
        swapcontext(&there, &here);
    }
}

static void coroutines(void)
{
    struct sigaction action = {.sa_handler = on_user, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    handled = pages(17);
    sigaction(SIGALRM, &action, NULL);
    getcontext(&there);
    there.uc_stack.ss_sp = pages(32);
    there.uc_stack.ss_size = 32 * PAGE;
    makecontext(&there, coroutine, 0);
    setitimer(ITIMER_REAL, &often, NULL);
    while (more())
        for (int at = 0; at < 100; at++)
            swapcontext(&here, &there);
    setitimer(ITIMER_REAL, &never, NULL);
}

static void loads(void)
{
    while (more()) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        double (*function)(double) = (double (*)(double))dlsym(library, "cbrt");
        check(function != NULL && function(27.0) > 2.9, "dlopen");
        dlclose(library);
    }
}

static void dies(void)
{
    usleep(30000);
    *(volatile int *)8 = 1;
}

static void aborts(void)
{
    char *some = pages(8);
    for (; more(); some[PAGE]++)
        some[0]++;
    abort();
}

static void killed(void)
{
    char *some = pages(512);
    pid_t own = getpid();
    if (fork() == 0) {
        usleep(40000);
        kill(own, SIGKILL);
        _exit(0);
    }
    for (;;)
        for (int page = 0; page < 512; page++)
            some[page * PAGE]++;
}

static const struct {
    const char *name;
    void (*part)(void);
} parts[] = {
    {"calls", calls}, {"children", children}, {"threads", threads}, {"locks", locks}, {"large_pages", large_pages},
    {"stacks", stacks}, {"signals", signals}, {"faults", faults}, {"jumps", jumps}, {"mappings", mappings},
    {"shared", shared}, {"coroutines", coroutines}, {"loads", loads}, {"dies", dies}, {"aborts", aborts},
    {"killed", killed},
};

int main(int count, char **words)
{
    for (size_t at = 0; at < sizeof parts / sizeof *parts; at++)
        if (count > 1 && strcmp(words[1], parts[at].name) == 0) {
            began = now();
            parts[at].part();
            printf("%s: as it should be\n", words[1]);
            return 3;
        }
    return 2;
}
