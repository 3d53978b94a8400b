/* Prints what a program is given by whoever starts it: a line each, "what value". */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

extern char **environ;

static void signals(void)
{
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int number = 1; number <= SIGRTMAX; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0)
            continue;
        const char *name = action.sa_flags & SA_SIGINFO ? "caught" : action.sa_handler == SIG_DFL ? "default" :
                           action.sa_handler == SIG_IGN ? "ignored" : "caught";
        printf("signal.%d %s%s\n", number, name, sigismember(&blocked, number) == 1 ? ", blocked" : "");
    }
    for (int timer = ITIMER_REAL; timer <= ITIMER_PROF; timer++) {
        struct itimerval value;
        getitimer((__itimer_which_t)timer, &value);
        printf("timer.%d %ld\n", timer, value.it_value.tv_sec * 1000000L + value.it_value.tv_usec);
    }
}

static void limits(void)
{
    for (int number = 0; number < (int)RLIM_NLIMITS; number++) {
        struct rlimit limit;
        getrlimit((__rlimit_resource_t)number, &limit);
        printf("limit.%d %ld %ld\n", number, (long)limit.rlim_cur, (long)limit.rlim_max);
    }
}

static void descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        int number = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || number == dirfd(folder))
            continue;
        struct stat status;
        fstat(number, &status);
        printf("descriptor.%d mode %o flags %o terminal %d\n", number, status.st_mode & S_IFMT, fcntl(number, F_GETFL),
               isatty(number));
    }
    closedir(folder);
}

static void process(void)
{
    char path[4096];
    int own = getpgrp() == getpid() || getpgrp() == getppid();
    printf("group %s\n", getpgrp() == getsid(0) ? "the session's" : own ? "begun here" : "given");
    int begun = getsid(0) == getpid() || getsid(0) == getppid();
    printf("session %s\n", begun ? "begun here" : "given");
    printf("session.leader %d\n", getsid(0));
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    printf("terminal %s\n", terminal < 0 ? "none" : tcgetpgrp(terminal) == getpgrp() ? "foreground" : "background");
    if (terminal >= 0)
        close(terminal);
    printf("folder %s\n", getcwd(path, sizeof path));
    mode_t mask = umask(0);
    umask(mask);
    printf("umask %o\n", mask);
    printf("nice %d\n", getpriority(PRIO_PROCESS, 0));
    printf("policy %d\n", sched_getscheduler(0));
    printf("io.priority %ld\n", syscall(SYS_ioprio_get, 1, 0));
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof cpus, &cpus);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &cpus))
            printf("cpu.%d bound\n", cpu);
    int number = 0;
    prctl(PR_GET_PDEATHSIG, &number);
    printf("parent.death %d\n", number);
    prctl(PR_GET_CHILD_SUBREAPER, &number);
    printf("subreaper %d\n", number);
    printf("dumpable %d\n", prctl(PR_GET_DUMPABLE));
    printf("timer.slack %d\n", prctl(PR_GET_TIMERSLACK));
    printf("no.new.privileges %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    printf("huge.pages %d\n", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    printf("personality %x\n", personality(0xffffffff));
}

static void kernel(const char *file, const char *const *names)
{
    char line[4096];
    FILE *stream = fopen(file, "re");
    while (stream != NULL && fgets(line, sizeof line, stream) != NULL)
        for (const char *const *name = names; *name != NULL; name++)
            if (strncmp(line, *name, strlen(*name)) == 0)
                printf("kernel.%s.%s", strrchr(file, '/') + 1, line);
    if (stream != NULL)
        fclose(stream);
}

int main(int argc, char **argv)
{
    static const char *const status[] = {"Cap", "Seccomp:", "Groups:", "Uid:", "Gid:", "Mems_allowed:", NULL};
    static const char *const any[] = {"", NULL};
    for (int word = 0; word < argc; word++)
        printf("argument.%d %s\n", word, argv[word]);
    for (char **variable = environ; *variable != NULL; variable++)
        printf("variable.%.*s %s\n", (int)strcspn(*variable, "="), *variable, strchr(*variable, '=') + 1);
    signals();
    limits();
    descriptors();
    process();
    kernel("/proc/self/status", status);
    kernel("/proc/self/oom_score_adj", any);
    return 0;
}
