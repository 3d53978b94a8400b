/* The program's signals beside the library's two: SIGSEGV (a closed page) and SIGSYS (a caught call).
 *
 * Both must reach the library in each thread at any time: a blocked one would end the process. So the program's
 * actions for them are remembered (sample_actions.c), and they are left out of every mask that the program sets. */
#ifdef __x86_64__
#define _GNU_SOURCE
#include "sample.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) static __typeof__(name) *real; if (real == NULL) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* ---- what the program calls ---- */

NPC_EXPORT int sigaction(int signal, const struct sigaction *restrict action, struct sigaction *restrict old)
{
    REAL(sigaction);
    if (npc_handlers_installed && (signal == SIGSEGV || signal == SIGSYS))
        return npc_swap_action(signal, action, old);
    if (action == NULL)
        return real(signal, NULL, old);
    struct sigaction copy = *action;
    copy.sa_mask = npc_stripped(&action->sa_mask);
    return real(signal, &copy, old);
}

NPC_EXPORT sighandler_t signal(int number, sighandler_t handler)
{
    REAL(signal);
    if (!npc_handlers_installed || (number != SIGSEGV && number != SIGSYS))
        return real(number, handler);
    struct sigaction action = {0}, old;
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    npc_swap_action(number, &action, &old);
    return old.sa_handler;
}

#define STRIPPED(set) sigset_t copy_of_set; if (set != NULL) { copy_of_set = npc_stripped(set); set = &copy_of_set; }

NPC_EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
    REAL(sigprocmask);
    STRIPPED(set)
    return real(how, set, old);
}

NPC_EXPORT int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
    REAL(pthread_sigmask);
    STRIPPED(set)
    return real(how, set, old);
}

NPC_EXPORT int sigsuspend(const sigset_t *set)
{
    REAL(sigsuspend);
    sigset_t copy = npc_stripped(set);
    return real(&copy);
}

NPC_EXPORT int ppoll(struct pollfd *list, nfds_t number, const struct timespec *limit, const sigset_t *set)
{
    REAL(ppoll);
    STRIPPED(set)
    return real(list, number, limit, set);
}

NPC_EXPORT int pselect(int number, fd_set *restrict in, fd_set *restrict out, fd_set *restrict other,
                       const struct timespec *restrict limit, const sigset_t *restrict set)
{
    REAL(pselect);
    STRIPPED(set)
    return real(number, in, out, other, limit, set);
}

NPC_EXPORT int epoll_pwait(int queue, struct epoll_event *events, int most, int limit, const sigset_t *set)
{
    REAL(epoll_pwait);
    STRIPPED(set)
    return real(queue, events, most, limit, set);
}

/* Without a stack of its own for signals the program has the library's. */
NPC_EXPORT int sigaltstack(const stack_t *restrict stack, stack_t *restrict old)
{
    REAL(sigaltstack);
    stack_t before, given;
    if (npc_watched == NULL)
        return real(stack, old);
    npc_pages_open_begin(); /* it must not be closed */
    if (stack != NULL)
        given = stack->ss_flags & SS_DISABLE
                    ? (stack_t){.ss_sp = npc_watched->handler_stack, .ss_size = HANDLER_STACK}
                    : *stack;
    int failed = real(stack == NULL ? NULL : &given, &before);
    if (!failed && stack != NULL)
        npc_note_own_stack(npc_watched, &given);
    npc_pages_open_end();
    if (!failed && old != NULL)
        *old = before.ss_sp == npc_watched->handler_stack
                   ? (stack_t){.ss_flags = SS_DISABLE | (before.ss_flags & SS_ONSTACK)}
                   : before;
    return failed;
}

/* ---- the C library blocks all signals within these ---- */

NPC_EXPORT int posix_spawn(pid_t *restrict pid, const char *restrict path,
                           const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *restrict attributes,
                           char *const arguments[restrict], char *const environment[restrict])
{
    REAL(posix_spawn);
    npc_pages_open_begin();
    int failed = real(pid, path, actions, attributes, arguments, environment);
    npc_pages_open_end();
    return failed;
}

NPC_EXPORT int posix_spawnp(pid_t *restrict pid, const char *restrict path,
                            const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *restrict attributes,
                            char *const arguments[restrict], char *const environment[restrict])
{
    REAL(posix_spawnp);
    npc_pages_open_begin();
    int failed = real(pid, path, actions, attributes, arguments, environment);
    npc_pages_open_end();
    return failed;
}

NPC_EXPORT FILE *popen(const char *command, const char *mode)
{
    REAL(popen);
    npc_pages_open_begin();
    FILE *stream = real(command, mode);
    npc_pages_open_end();
    return stream;
}

NPC_EXPORT int system(const char *command)
{
    REAL(system);
    npc_pages_open_begin();
    int status = real(command);
    npc_pages_open_end();
    return status;
}

NPC_EXPORT int pthread_kill(pthread_t thread, int number)
{
    REAL(pthread_kill);
    if (pthread_equal(thread, pthread_self()))
        return real(thread, number); /* its handler may jump away */
    npc_pages_open_begin();
    int failed = real(thread, number);
    npc_pages_open_end();
    return failed;
}

/* ---- another process's memory, which may be closed by the library there ---- */

/* /proc/PID/mem goes past the pages' protection. Bytes moved, from `done` on. */
static ssize_t move_rest(pid_t process, const struct iovec *local, unsigned long locals, const struct iovec *remote,
                         unsigned long remotes, size_t done, bool writes)
{
    char path[32];
    size_t at_local = done, at_remote = done;
    snprintf(path, sizeof path, "/proc/%d/mem", (int)process);
    int file = open(path, (writes ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    if (file < 0)
        return (ssize_t)done;
    while (locals > 0 && remotes > 0) {
        if (at_local >= local->iov_len) {
            at_local -= local->iov_len;
            local++, locals--;
            continue;
        }
        if (at_remote >= remote->iov_len) {
            at_remote -= remote->iov_len;
            remote++, remotes--;
            continue;
        }
        size_t bytes = local->iov_len - at_local;
        if (bytes > remote->iov_len - at_remote)
            bytes = remote->iov_len - at_remote;
        char *here = (char *)local->iov_base + at_local;
        off_t there = (off_t)((uintptr_t)remote->iov_base + at_remote);
        ssize_t moved = writes ? pwrite(file, here, bytes, there) : pread(file, here, bytes, there);
        if (moved <= 0)
            break;
        at_local += (size_t)moved;
        at_remote += (size_t)moved;
        done += (size_t)moved;
    }
    close(file);
    return (ssize_t)done;
}

static ssize_t move_all(ssize_t moved, pid_t process, const struct iovec *local, unsigned long locals,
                        const struct iovec *remote, unsigned long remotes, bool writes)
{
    size_t here = 0, there = 0;
    int error = errno;
    if (moved < 0 && error != EFAULT)
        return moved;
    for (unsigned long at = 0; at < locals; at++)
        here += local[at].iov_len;
    for (unsigned long at = 0; at < remotes; at++)
        there += remote[at].iov_len;
    size_t done = moved < 0 ? 0 : (size_t)moved;
    if (done >= (here < there ? here : there))
        return moved;
    ssize_t all = move_rest(process, local, locals, remote, remotes, done, writes);
    errno = error;
    return all > 0 ? all : moved;
}

NPC_EXPORT ssize_t process_vm_readv(pid_t process, const struct iovec *local, unsigned long locals,
                                    const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    REAL(process_vm_readv);
    return move_all(real(process, local, locals, remote, remotes, flags), process, local, locals, remote, remotes,
                    false);
}

NPC_EXPORT ssize_t process_vm_writev(pid_t process, const struct iovec *local, unsigned long locals,
                                     const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
    REAL(process_vm_writev);
    return move_all(real(process, local, locals, remote, remotes, flags), process, local, locals, remote, remotes,
                    true);
}
#endif
