/* What memory a system call reaches, by its number and arguments. */
#ifdef __x86_64__
#define _GNU_SOURCE
#include "sample.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* size: of bytes; +argument `by` (if not −1) times `times`. */
struct pointer {
    char kind;           /* 0: no more; 'r' read, 'w' written, 's' text, 'v' iovec read, 'V' written, 'm' 'M' msghdr */
    signed char at, by;
    uint16_t size, times;
};
struct known {
    bool is;
    bool by_result;      /* of the range that is written, as much as the call returns */
    struct pointer pointer[4];
};
#define R(at, size) {'r', at, -1, size, 0}
#define W(at, size) {'w', at, -1, size, 0}
#define RN(at, by, times) {'r', at, by, 0, times}
#define WN(at, by, times) {'w', at, by, 0, times}
#define S(at) {'s', at, -1, 0, 0}
#define V(at, kind) {kind, at, (at) + 1, 0, 0}
#define NONE {true, false, {{0, 0, 0, 0, 0}}}
#define REACH(...) {true, false, {__VA_ARGS__}}
#define RESULT(...) {true, true, {__VA_ARGS__}}

static const struct known known[] = {
    [SYS_read] = RESULT(WN(1, 2, 1)),
    [SYS_pread64] = RESULT(WN(1, 2, 1)),
    [SYS_write] = REACH(RN(1, 2, 1)),
    [SYS_pwrite64] = REACH(RN(1, 2, 1)),
    [SYS_readv] = REACH(V(1, 'V')),
    [SYS_preadv] = REACH(V(1, 'V')),
    [SYS_preadv2] = REACH(V(1, 'V')),
    [SYS_writev] = REACH(V(1, 'v')),
    [SYS_pwritev] = REACH(V(1, 'v')),
    [SYS_pwritev2] = REACH(V(1, 'v')),
    [SYS_recvfrom] = RESULT(WN(1, 2, 1), W(4, 128), W(5, 4)),
    [SYS_sendto] = REACH(RN(1, 2, 1), RN(4, 5, 1)),
    [SYS_recvmsg] = REACH({'M', 1, -1, 0, 0}),
    [SYS_sendmsg] = REACH({'m', 1, -1, 0, 0}),
    [SYS_process_vm_readv] = REACH(V(1, 'V'), RN(3, 4, sizeof(struct iovec))),
    [SYS_process_vm_writev] = REACH(V(1, 'v'), RN(3, 4, sizeof(struct iovec))),
    [SYS_sendfile] = REACH(W(2, 8)),
    [SYS_copy_file_range] = REACH(W(1, 8), W(3, 8)),
    [SYS_getdents64] = RESULT(WN(1, 2, 1)),
    [SYS_getrandom] = RESULT(WN(0, 1, 1)),
    [SYS_poll] = REACH(WN(0, 1, 8)),
    [SYS_ppoll] = REACH(WN(0, 1, 8), W(2, 16), RN(3, 4, 1)),
    [SYS_select] = REACH({'w', 1, 0, 8, 1}, {'w', 2, 0, 8, 1}, {'w', 3, 0, 8, 1}, W(4, 16)),
    [SYS_epoll_wait] = REACH(WN(1, 2, 12)),
    [SYS_epoll_pwait] = REACH(WN(1, 2, 12), RN(4, 5, 1)),
    [SYS_epoll_pwait2] = REACH(WN(1, 2, 12), R(3, 16), RN(4, 5, 1)),
    [SYS_epoll_ctl] = REACH(R(3, 12)),
    [SYS_nanosleep] = REACH(R(0, 16), W(1, 16)),
    [SYS_clock_nanosleep] = REACH(R(2, 16), W(3, 16)),
    [SYS_clock_gettime] = REACH(W(1, 16)),
    [SYS_clock_getres] = REACH(W(1, 16)),
    [SYS_gettimeofday] = REACH(W(0, 16), W(1, 8)),
    [SYS_time] = REACH(W(0, 8)),
    [SYS_times] = REACH(W(0, 32)),
    [SYS_getrusage] = REACH(W(1, 144)),
    [SYS_getitimer] = REACH(W(1, 32)),
    [SYS_setitimer] = REACH(R(1, 32), W(2, 32)),
    [SYS_timer_settime] = REACH(R(2, 32), W(3, 32)),
    [SYS_timerfd_settime] = REACH(R(2, 32), W(3, 32)),
    [SYS_uname] = REACH(W(0, 390)),
    [SYS_sysinfo] = REACH(W(0, 112)),
    [SYS_prlimit64] = REACH(R(2, 16), W(3, 16)),
    [SYS_getrlimit] = REACH(W(1, 16)),
    [SYS_getcpu] = REACH(W(0, 4), W(1, 4)),
    [SYS_sched_getaffinity] = RESULT(WN(2, 1, 1)),
    [SYS_sched_setaffinity] = REACH(RN(2, 1, 1)),
    [SYS_wait4] = REACH(W(1, 4), W(3, 144)),
    [SYS_waitid] = REACH(W(2, 128), W(4, 144)),
    [SYS_open] = REACH(S(0)),
    [SYS_openat] = REACH(S(1)),
    [SYS_stat] = REACH(S(0), W(1, 144)),
    [SYS_lstat] = REACH(S(0), W(1, 144)),
    [SYS_fstat] = REACH(W(1, 144)),
    [SYS_newfstatat] = REACH(S(1), W(2, 144)),
    [SYS_statx] = REACH(S(1), W(4, 256)),
    [SYS_statfs] = REACH(S(0), W(1, 120)),
    [SYS_fstatfs] = REACH(W(1, 120)),
    [SYS_access] = REACH(S(0)),
    [SYS_faccessat] = REACH(S(1)),
    [SYS_faccessat2] = REACH(S(1)),
    [SYS_readlink] = REACH(S(0), WN(1, 2, 1)),
    [SYS_readlinkat] = REACH(S(1), WN(2, 3, 1)),
    [SYS_getcwd] = RESULT(WN(0, 1, 1)),
    [SYS_unlink] = REACH(S(0)),
    [SYS_unlinkat] = REACH(S(1)),
    [SYS_mkdir] = REACH(S(0)),
    [SYS_rmdir] = REACH(S(0)),
    [SYS_rename] = REACH(S(0), S(1)),
    [SYS_chdir] = REACH(S(0)),
    [SYS_pipe] = REACH(W(0, 8)),
    [SYS_pipe2] = REACH(W(0, 8)),
    [SYS_connect] = REACH(RN(1, 2, 1)),
    [SYS_bind] = REACH(RN(1, 2, 1)),
    [SYS_accept] = REACH(W(1, 128), W(2, 4)),
    [SYS_accept4] = REACH(W(1, 128), W(2, 4)),
    [SYS_getsockname] = REACH(W(1, 128), W(2, 4)),
    [SYS_getpeername] = REACH(W(1, 128), W(2, 4)),
    [SYS_setsockopt] = REACH(RN(3, 4, 1)),
    [SYS_rt_sigtimedwait] = REACH(RN(0, 3, 1), W(1, 128), R(2, 16)),
    [SYS_rt_sigpending] = REACH(WN(0, 1, 1)),
    [SYS_rt_sigsuspend] = REACH(RN(0, 1, 1)),
    [SYS_semop] = REACH(RN(1, 2, 6)),
    [SYS_futex_waitv] = REACH(RN(0, 1, 24), R(3, 16)),
    [SYS_close] = NONE, [SYS_lseek] = NONE, [SYS_sched_yield] = NONE, [SYS_dup] = NONE, [SYS_dup2] = NONE,
    [SYS_dup3] = NONE, [SYS_pause] = NONE, [SYS_alarm] = NONE, [SYS_getpid] = NONE, [SYS_gettid] = NONE,
    [SYS_getppid] = NONE, [SYS_getuid] = NONE, [SYS_geteuid] = NONE, [SYS_getgid] = NONE, [SYS_getegid] = NONE,
    [SYS_getpgrp] = NONE, [SYS_kill] = NONE, [SYS_tgkill] = NONE, [SYS_tkill] = NONE, [SYS_socket] = NONE,
    [SYS_listen] = NONE, [SYS_shutdown] = NONE, [SYS_fsync] = NONE, [SYS_fdatasync] = NONE, [SYS_ftruncate] = NONE,
    [SYS_fallocate] = NONE, [SYS_flock] = NONE, [SYS_fchmod] = NONE, [SYS_umask] = NONE, [SYS_membarrier] = NONE,
    [SYS_epoll_create] = NONE, [SYS_epoll_create1] = NONE, [SYS_eventfd2] = NONE, [SYS_timerfd_create] = NONE,
    [SYS_madvise] = NONE, [SYS_msync] = NONE, [SYS_sched_getscheduler] = NONE, [SYS_getpriority] = NONE,
    [SYS_inotify_init1] = NONE, [SYS_fadvise64] = NONE, [SYS_timer_getoverrun] = NONE,
};

/* A copy that may fail: the handler of faults goes on at the end of it, with what is left in rcx. */
extern const char npc_copy_begin[], npc_copy_end[], npc_copy_out[];
__asm__(".text\n"
        ".hidden npc_copy_bytes\n.hidden npc_copy_begin\n.hidden npc_copy_end\n.hidden npc_copy_out\n"
        ".globl npc_copy_bytes\n.globl npc_copy_begin\n.globl npc_copy_end\n.globl npc_copy_out\n"
        ".type npc_copy_bytes, @function\n"
        "npc_copy_bytes:\n"
        "    mov %rdx, %rcx\n"
        "npc_copy_begin:\n"
        "    rep movsb\n"
        "npc_copy_end:\n"
        "npc_copy_out:\n"
        "    mov %rcx, %rax\n"
        "    ret\n"
        ".size npc_copy_bytes, . - npc_copy_bytes\n");
size_t npc_copy_bytes(void *to, const void *from, size_t bytes);

bool npc_copy_in(void *to, uintptr_t from, size_t bytes)
{
    return npc_copy_bytes(to, (const void *)from, bytes) == 0;
}

uintptr_t npc_copy_failed(uintptr_t ip)
{
    return ip >= (uintptr_t)npc_copy_begin && ip < (uintptr_t)npc_copy_end ? (uintptr_t)npc_copy_out : 0;
}

bool npc_add_reach(struct call *call, uintptr_t low, uint64_t bytes, bool written)
{
    if (low == 0 || bytes == 0)
        return true;
    if (call->reaches == REACHES)
        return false;
    uintptr_t high = low + bytes < low ? UINTPTR_MAX : low + bytes;
    call->reach[call->reaches++] = (struct reach){low, high, written};
    return true;
}

static bool add_vector(struct call *call, uintptr_t from, uint64_t count, bool written)
{
    struct iovec vector[REACHES];
    if (count > REACHES || !npc_copy_in(vector, from, count * sizeof *vector))
        return false;
    for (uint64_t at = 0; at < count; at++)
        if (!npc_add_reach(call, (uintptr_t)vector[at].iov_base, vector[at].iov_len, written))
            return false;
    return npc_add_reach(call, from, count * sizeof *vector, false);
}

static bool add_message(struct call *call, uintptr_t from, bool written)
{
    struct msghdr message;
    return npc_copy_in(&message, from, sizeof message) && npc_add_reach(call, from, sizeof message, written) &&
           npc_add_reach(call, (uintptr_t)message.msg_name, message.msg_namelen, written) &&
           npc_add_reach(call, (uintptr_t)message.msg_control, message.msg_controllen, written) &&
           add_vector(call, (uintptr_t)message.msg_iov, message.msg_iovlen, written);
}

/* A text ends within a page or two; it is read here, so that no more is opened than it has. */
static bool add_text(struct call *call, uintptr_t from)
{
    char part[64];
    uintptr_t at = from;
    while (from != 0 && at - from < 4096) {
        size_t bytes = sizeof part - at % sizeof part;
        if (!npc_copy_in(part, at, bytes))
            break; /* the kernel may say so */
        size_t end = 0;
        while (end < bytes && part[end] != 0)
            end++;
        at += end;
        if (end < bytes)
            break;
    }
    return npc_add_reach(call, from, at - from + 1, false);
}

static bool add_futex(struct call *call, const long *argument)
{
    switch (argument[1] & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
        return npc_add_reach(call, (uintptr_t)argument[0], 4, false) && npc_add_reach(call, (uintptr_t)argument[3], 16, false);
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
        return true; /* it is by the address alone, but for what is shared between processes, which is never closed */
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
    case FUTEX_WAKE_OP:
        return npc_add_reach(call, (uintptr_t)argument[0], 4, false) && npc_add_reach(call, (uintptr_t)argument[4], 4, true);
    default:
        return false;
    }
}

bool npc_reaches_of(long number, const long *argument, struct call *call)
{
    call->reaches = 0;
    call->by_result = false;
    if (number == SYS_futex)
        return add_futex(call, argument);
    if (number == SYS_fcntl) {
        int command = (int)argument[1];
        if (command == F_GETFL || command == F_SETFL || command == F_GETFD || command == F_SETFD ||
            command == F_DUPFD || command == F_DUPFD_CLOEXEC)
            return true;
        return (command == F_SETLK || command == F_SETLKW || command == F_GETLK) &&
               npc_add_reach(call, (uintptr_t)argument[2], sizeof(struct flock), true);
    }
    if (number == SYS_madvise && argument[2] >= 22 && argument[2] <= 23)
        return false; /* MADV_POPULATE_READ, MADV_POPULATE_WRITE */
    if (number < 0 || number >= (long)(sizeof known / sizeof *known) || !known[number].is)
        return false;
    call->by_result = known[number].by_result;
    for (int at = 0; at < 4 && known[number].pointer[at].kind != 0; at++) {
        struct pointer pointer = known[number].pointer[at];
        uintptr_t low = (uintptr_t)argument[(int)pointer.at];
        uint64_t more = pointer.by < 0 ? 0 : (uint64_t)argument[(int)pointer.by];
        bool has_room = true;
        switch (pointer.kind) {
        case 's': has_room = add_text(call, low); break;
        case 'v': has_room = add_vector(call, low, more, false); break;
        case 'V': has_room = add_vector(call, low, more, true); break;
        case 'm': has_room = add_message(call, low, false); break;
        case 'M': has_room = add_message(call, low, true); break;
        default: has_room = npc_add_reach(call, low, pointer.size + (uint32_t)more * (uint64_t)pointer.times, pointer.kind == 'w');
        }
        if (!has_room)
            return false;
    }
    return true;
}
#endif
