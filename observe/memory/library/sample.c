/* Where the memory of any program goes, seen by page faults that are made: sampling.
 *
 * After Beniamine 2016, chapter 5, but without a kernel module. At the begin of each interval a thread of the
 * library closes pages of the program (mprotect(2)): its heap, anonymous mappings and static data; not stacks, not
 * what is shared with other processes, not the C library's own. The first access to a closed page faults; the
 * handler notes the thread, address, instruction and kind, and opens the page for it: for reading first, so that
 * the first write is seen too. As long as a page is open, other threads' accesses to it go unseen; therefore half
 * of the pages are closed again at random moments within the interval.
 *
 * The kernel does not fault as the program does: a system call that reaches a closed page fails. So calls are
 * caught while pages are closed (sample_calls.c). Pages may only be closed once no call is on its way that was not
 * caught. To know that, first the catching is switched on, then, a moment later, each thread must have been seen:
 * caught in a call; or asleep in one, and in which stands in /proc/PID/task/TID/syscall; or, if it computes, by a
 * signal that it answers. A thread that only computes is in no call that a signal could cut short.
 *
 * What it costs is bounded: a fault's and a call's price is measured; when all threads together have paid the
 * budget's share of an interval (since threads wait for each other), everything is opened until the next. The number of pages follows, which are then
 * a random sample of all; npc_interval has both numbers. */
#define _GNU_SOURCE
#include "sample.h"

#ifdef __x86_64__
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <dlfcn.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
enum { CATCH_NOTHING = 0, CATCH = 1 };  /* SYSCALL_DISPATCH_FILTER_ALLOW, _BLOCK */
enum { PAGE = NPC_PAGE_BYTES, REGIONS = 4096, MOST_PAGES = 16384, FEWEST_PAGES = 32, GROUP = 16, AT_ONCE = 16 };
enum { TEXT_BYTES = 1 << 21, TIMER_STACK = 1 << 18, AROUND_STACK = 1 << 16, OTHER_STACKS = 64 };
enum { FAULT_WRITES = 2, FAULT_FETCHES = 16 };  /* of a page fault's error code */
enum state { GONE, OPEN, READABLE, CLOSED };    /* GONE: the program has changed it, hands off */

static const uint64_t settling_ns = 300000, step_ns = 100000, places_ns = 1000000000, longest_ns = 100000;

struct region {
    uintptr_t low, high;
    int first, end;      /* its pages in the list */
    bool changed;
};

__thread struct watched *npc_watched __attribute__((tls_model("initial-exec")));
uint64_t npc_call_cost;

static struct watched watched[THREADS];
static struct region regions[REGIONS + 1];
static int region_count, page_count, most_pages;
/* Of the interval, ascending: which page, its state, and the threads (modulo 64) of which was noted that they
 * read and wrote it. */
static uint64_t *pages, *readers, *writers;
static uint8_t *states;
static struct reach *busy, other_stacks[OTHER_STACKS];
static int other_stack;
static char *text;

/* Held for microseconds, with all signals blocked. */
static int lock;
static bool armed;             /* calls are caught; pages may be closed */
static int holds;              /* nothing may be armed */
static uint64_t openings, opened, closing_round;
static uint64_t spent;         /* ns that faults and calls of all threads took in this interval */
static uint64_t fault_cost, most_ns, interval_ns; /* fault_cost: beside the handler */
static uint32_t interval;
static int timer_tid;
static bool measuring;
static struct npc_room interval_room;
static uint64_t seed;

/* ---- small things ---- */

static void wait_a_little(int tries)
{
    struct timespec moment = {0, 20000};
    if (tries < 100)
        __builtin_ia32_pause();
    else
        NPC_CALL(SYS_nanosleep, &moment, NULL);
}

static void take_lock(void)
{
    for (int tries = 0; __atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE); tries++)
        wait_a_little(tries);
}

static void give_lock(void)
{
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

static uint64_t block_signals(void)
{
    uint64_t all = ~0ull, old = 0;
    npc_strip(&all);
    NPC_CALL(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof old);
    return old;
}

static void restore_signals(uint64_t old)
{
    NPC_CALL(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
}

static bool protect(uintptr_t low, uintptr_t high, int how)
{
    return NPC_CALL(SYS_mprotect, low, high - low, how) == 0;
}

static uint64_t chance(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void sleep_until(uint64_t when)
{
    uint64_t absolute = when + npc_head->began;
    struct timespec time = {(time_t)(absolute / 1000000000u), (long)(absolute % 1000000000u)};
    NPC_CALL(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static uint64_t own_time(void)
{
    struct timespec time;
    NPC_CALL(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t npc_round(void)
{
    return __atomic_load_n(&closing_round, __ATOMIC_ACQUIRE);
}

/* ---- the list of pages ---- */

/* The first page of the list that is not below. */
static int first_page(uint64_t page)
{
    int low = 0, high = page_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (pages[middle] < page)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The end of those that follow each other in memory and are closed. */
static int run_end(int at, int end, uint8_t least)
{
    do
        at++;
    while (at < end && pages[at] == pages[at - 1] + 1 && states[at] >= least);
    return at;
}

static void open_region(struct region *region)
{
    if (region->first == region->end)
        return;
    if (!region->changed && protect(pages[region->first] * PAGE, (pages[region->end - 1] + 1) * PAGE,
                                    PROT_READ | PROT_WRITE))
        return;
    for (int at = region->first, end; at < region->end; at = end) {
        end = at + 1;
        if (states[at] >= READABLE) {
            end = run_end(at, region->end, READABLE);
            protect(pages[at] * PAGE, (pages[end - 1] + 1) * PAGE, PROT_READ | PROT_WRITE);
        }
    }
}

static void open_all(void)
{
    if (!armed)
        return;
    for (int at = 0; at < region_count; at++)
        open_region(&regions[at]);
    page_count = 0;
    region_count = 0;
    openings++;
    opened = npc_now();
    for (int at = 0; at < THREADS; at++)
        __atomic_store_n(&watched[at].selector, CATCH_NOTHING, __ATOMIC_RELEASE);
    __atomic_store_n(&armed, false, __ATOMIC_RELEASE);
}

void npc_open_all(void)
{
    uint64_t mask = block_signals();
    take_lock();
    open_all();
    give_lock();
    restore_signals(mask);
}

void npc_pages_open_begin(void)
{
    __atomic_fetch_add(&holds, 1, __ATOMIC_SEQ_CST);
    if (npc_head != NULL)
        npc_open_all();
}

void npc_pages_open_end(void)
{
    __atomic_fetch_sub(&holds, 1, __ATOMIC_SEQ_CST);
}

void npc_wait_for_closing(void)
{
    for (int tries = 0; __atomic_load_n(&lock, __ATOMIC_SEQ_CST); tries++)
        wait_a_little(tries);
}

bool npc_is_over_budget(void)
{
    return __atomic_load_n(&spent, __ATOMIC_RELAXED) > most_ns;
}

void npc_spend(uint64_t time)
{
    __atomic_fetch_add(&spent, time, __ATOMIC_RELAXED);
}

static void open_reach(uintptr_t low, uintptr_t high, bool for_good)
{
    uint64_t last = (high - 1) / PAGE;
    openings += for_good;
    if (for_good)
        for (int at = 0; at < region_count && armed; at++)
            if (regions[at].low < high && low < regions[at].high)
                regions[at].changed = true;
    int end;
    for (int at = armed ? first_page(low / PAGE) : page_count; at < page_count && pages[at] <= last; at = end) {
        end = at + 1;
        if (states[at] >= READABLE) {
            while (end < page_count && pages[end] == pages[end - 1] + 1 && pages[end] <= last &&
                   states[end] >= READABLE)
                end++;
            protect(pages[at] * PAGE, (pages[end - 1] + 1) * PAGE, PROT_READ | PROT_WRITE);
        }
        for (int part = at; part < end; part++)
            states[part] = for_good ? GONE : states[part] == GONE ? GONE : OPEN;
    }
}

long npc_change(long number, const long *argument, const struct reach *reach, int count)
{
    uint64_t mask = block_signals();
    take_lock();
    for (int at = 0; at < count && armed; at++)
        if (reach[at].low < reach[at].high)
            open_reach(reach[at].low, reach[at].high, true);
    long result = npc_call6(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
    give_lock();
    restore_signals(mask);
    return result;
}

void npc_open_reach(uintptr_t low, uintptr_t high, bool for_good)
{
    if (!__atomic_load_n(&armed, __ATOMIC_ACQUIRE) || low >= high)
        return;
    uint64_t mask = block_signals();
    take_lock();
    open_reach(low, high, for_good);
    give_lock();
    restore_signals(mask);
}

static bool is_known_stack(const struct watched *self, uintptr_t sp)
{
    if ((sp >= self->stack_low && sp < self->stack_high) || (sp >= self->own_low && sp < self->own_high) ||
        sp - (uintptr_t)self->handler_stack < HANDLER_STACK)
        return true;
    for (int at = 0; at < other_stack; at++)
        if (sp > other_stacks[at].low + AROUND_STACK / 2 && sp < other_stacks[at].high)
            return true;
    return false;
}

/* A stack of the program's own making (coroutines): the kernel needs what lies below for a signal's frame, so
 * that it is left alone from now on. With more of them than can be known nothing is closed any more. */
static void add_stack(struct watched *self, uintptr_t sp)
{
    self->sp = sp;
    if (is_known_stack(self, sp))
        return;
    if (other_stack == OTHER_STACKS) {
        npc_head->obstacles |= NPC_MANY_STACKS;
        holds++;
        open_all();
        return;
    }
    other_stacks[other_stack] = (struct reach){sp - AROUND_STACK, sp + AROUND_STACK / 2, false};
    if (armed)
        open_reach(other_stacks[other_stack].low, other_stacks[other_stack].high, true);
    other_stack++;
}

void npc_note_own_stack(struct watched *self, const stack_t *stack)
{
    bool own = !(stack->ss_flags & SS_DISABLE) && stack->ss_sp != self->handler_stack;
    self->own_low = own ? (uintptr_t)stack->ss_sp : 0;
    self->own_high = own ? (uintptr_t)stack->ss_sp + stack->ss_size : 0;
}

void npc_note_stack(uintptr_t sp, const stack_t *own)
{
    npc_note_own_stack(npc_watched, own);
    if (is_known_stack(npc_watched, sp))
        return;
    uint64_t mask = block_signals();
    take_lock();
    add_stack(npc_watched, sp);
    give_lock();
    restore_signals(mask);
}

/* ---- what is seen ---- */

static void note(struct watched *self, int at, uintptr_t address, uintptr_t ip, bool written)
{
    uint64_t bit = 1ull << self->number % 64, *seen = written ? &writers[at] : &readers[at];
    if (measuring || *seen & bit)
        return;
    *seen |= bit;
    struct npc_touch *touch = npc_entry(&self->room, NPC_TOUCHES, self->number, sizeof *touch);
    if (touch == NULL)
        return;
    touch->ip = ip;
    touch->time = npc_now();
    touch->interval = interval;
    touch->thread = (uint16_t)self->number;
    touch->cpu = (uint16_t)sched_getcpu();
    touch->written = written;
    __atomic_store_n(&touch->address, address, __ATOMIC_RELEASE);
}

void npc_note_reach(const struct reach *reach, uint64_t bytes, uintptr_t ip)
{
    uintptr_t high = reach->high - reach->low > bytes ? reach->low + bytes : reach->high;
    if (!__atomic_load_n(&armed, __ATOMIC_ACQUIRE) || reach->low >= high)
        return;
    int at = first_page(reach->low / PAGE);
    if (at >= page_count || pages[at] > (high - 1) / PAGE)
        return;
    uint64_t mask = block_signals();
    take_lock();
    for (at = armed ? first_page(reach->low / PAGE) : page_count;
         at < page_count && pages[at] <= (high - 1) / PAGE; at++)
        if (states[at] != GONE)
            note(npc_watched, at, pages[at] * PAGE > reach->low ? pages[at] * PAGE : reach->low, ip, reach->written);
    give_lock();
    restore_signals(mask);
}

/* Whether the access may be tried again. */
static bool open_for(struct watched *self, uintptr_t address, const greg_t *registers)
{
    bool writes = registers[REG_ERR] & FAULT_WRITES, again = false;
    uint64_t begin = npc_now();
    uintptr_t sp = (uintptr_t)registers[REG_RSP], ip = (uintptr_t)registers[REG_RIP];
    take_lock();
    int at = armed ? first_page(address / PAGE) : page_count;
    if (at < page_count && pages[at] == address / PAGE && states[at] >= (writes ? READABLE : CLOSED)) {
        uint8_t state = writes || measuring ? OPEN : READABLE;
        if (!protect(pages[at] * PAGE, (pages[at] + 1) * PAGE, state == OPEN ? PROT_READ | PROT_WRITE : PROT_READ))
            open_all(); /* as many mappings as a process may have */
        else
            states[at] = state;
        if (self != NULL && armed)
            note(self, at, address, ip, writes);
        if (self != NULL && address + AROUND_STACK > sp && address < sp + AROUND_STACK)
            add_stack(self, sp);
        again = true;
    } else if (at < page_count && pages[at] == address / PAGE && states[at] != GONE) {
        again = true; /* another thread has opened it since, and the program has not changed it */
    } else if (self != NULL && (self->last_opening != openings || self->last_address != address ||
                                self->last_ip != ip)) {
        again = true; /* it may have been open since: the next fault here is one of the program's */
    }
    if (self != NULL) {
        self->last_opening = again ? openings : self->last_opening;
        self->last_address = address;
        self->last_ip = ip;
        /* what the handler took, locks and other processors' share of it included, unless it did not run */
        uint64_t took = npc_now() - begin;
        npc_spend(!armed ? 0 : fault_cost + (took < longest_ns ? took : longest_ns));
        if (npc_is_over_budget() && !measuring)
            open_all();
    }
    give_lock();
    return again;
}

/* Asks a thread that computes to be seen. By SIGSEGV, since a signal that is pending swallows one of the same kind:
 * a fault then comes again, a caught call would not. */
static void call_thread(int process, int tid)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = SIGSEGV;
    info.si_code = SI_QUEUE;
    info.si_value.sival_ptr = &closing_round;
    NPC_CALL(SYS_rt_tgsigqueueinfo, process, tid, SIGSEGV, &info);
}

/* A thread has answered: it is in no call that was not caught. Not if it has the signals blocked. */
static void note_settled(const ucontext_t *context)
{
    uint64_t mask, without;
    memcpy(&mask, &context->uc_sigmask, sizeof mask);
    without = mask;
    npc_strip(&without);
    npc_note_stack((uintptr_t)context->uc_mcontext.gregs[REG_RSP], &context->uc_stack);
    if (mask == without)
        __atomic_store_n(&npc_watched->settled, npc_round(), __ATOMIC_RELEASE);
}

static void on_fault(int signal, siginfo_t *info, void *given)
{
    greg_t *registers = ((ucontext_t *)given)->uc_mcontext.gregs;
    if (info->si_code == SI_QUEUE && info->si_value.sival_ptr == &closing_round) {
        if (npc_watched != NULL)
            note_settled(given);
        return;
    }
    if (info->si_code > 0 && npc_head != NULL) {
        if (info->si_code == SEGV_ACCERR && !(registers[REG_ERR] & FAULT_FETCHES) &&
            open_for(npc_watched, (uintptr_t)info->si_addr, registers))
            return;
        uintptr_t on = npc_copy_failed((uintptr_t)registers[REG_RIP]);
        if (on != 0) {
            registers[REG_RIP] = (greg_t)on;
            return;
        }
    }
    npc_to_program(signal, info, given);
}

/* ---- threads ---- */

static bool dispatch(struct watched *self)
{
    return NPC_CALL(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, self != NULL, self == NULL ? 0 : (long)__ehdr_start,
                    self == NULL ? 0 : _end - __ehdr_start, self == NULL ? 0 : (long)&self->selector) == 0;
}

static void thread_begins(void)
{
    struct watched *self = NULL;
    int tid = (int)NPC_CALL(SYS_gettid, 0);
    npc_pages_open_begin();
    for (int at = 0; at < THREADS && self == NULL; at++) {
        int nobody = 0;
        if (__atomic_compare_exchange_n(&watched[at].tid, &nobody, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            self = &watched[at];
    }
    if (self != NULL) {
        if (self->handler_stack == NULL)
            self->handler_stack = npc_reserve(HANDLER_STACK);
        self->number = npc_self.number;
        self->stack_low = npc_self.thread->stack_low;
        self->stack_high = npc_self.thread->stack_high;
        self->settled = self->sp = 0;
        self->depth = self->slept.reaches = 0;
        self->leaving = false;
        memset(&self->room, 0, sizeof self->room);
        stack_t stack = {.ss_sp = self->handler_stack, .ss_size = HANDLER_STACK}, old = {0};
        NPC_CALL(SYS_sigaltstack, NULL, &old);
        npc_note_own_stack(self, &old);
        if (self->handler_stack != NULL && old.ss_flags & SS_DISABLE)
            NPC_CALL(SYS_sigaltstack, &stack, NULL);
        if (self->handler_stack != NULL && self->stack_high != 0 && dispatch(self))
            npc_watched = self;
        else
            __atomic_store_n(&self->tid, 0, __ATOMIC_RELEASE); /* an unknown thread: nothing is closed */
    }
    npc_pages_open_end();
}

static void thread_ends(void)
{
    struct watched *self = npc_watched;
    if (self == NULL)
        return;
    npc_pages_open_begin();
    __atomic_store_n(&self->leaving, true, __ATOMIC_SEQ_CST);
    npc_watched = NULL;
    stack_t none = {.ss_flags = SS_DISABLE};
    NPC_CALL(SYS_sigaltstack, &none, NULL);
    dispatch(NULL);
    npc_pages_open_end();
}

static void creating(bool begins)
{
    if (begins)
        npc_pages_open_begin();
    else
        npc_pages_open_end();
}

static void before_fork(void)
{
    npc_pages_open_begin();
}

static void after_fork(void)
{
    npc_pages_open_end();
}

/* Nothing was closed when it was made, and nothing ever is: its calls are not caught. */
static void forked(void)
{
    npc_watched = NULL;
    lock = 0;
}

/* ---- nothing on its way ---- */

/* Always false. What has kept pages from being closed in more than two intervals, and in more than one of ten, is noted
 * as an obstacle. */
static bool refuse(enum npc_obstacle why)
{
    static uint32_t refused[64];
    uint32_t times = ++refused[__builtin_ctzll((uint64_t)why)];
    if ((times > 2 && times > interval / 10) || interval == 0)
        npc_head->obstacles |= (uint64_t)why;
    return false;
}

static long read_file(const char *path, char *to, long most)
{
    long file = NPC_CALL(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), used = 0, more = 0;
    if (file < 0)
        return -1;
    while (used < most - 1 && (more = NPC_CALL(SYS_read, file, to + used, most - 1 - used)) > 0)
        used += more;
    NPC_CALL(SYS_close, file);
    to[used] = 0;
    return used;
}

static char *append_number(char *to, uint64_t number)
{
    char digits[24];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (count > 0)
        *to++ = digits[--count];
    *to = 0;
    return to;
}

static void task_path(char *to, int tid, const char *name)
{
    static const char folder[] = "/proc/self/task/";
    memcpy(to, folder, sizeof folder);
    to = append_number(to + sizeof folder - 1, (uint64_t)tid);
    memcpy(to, name, strlen(name) + 1);
}

static uint64_t read_number(const char **at, unsigned base)
{
    uint64_t number = 0;
    const char *from = *at;
    if (base == 16 && from[0] == '0' && from[1] == 'x')
        from += 2;
    for (;; from++) {
        unsigned digit = *from >= '0' && *from <= '9'   ? (unsigned)(*from - '0')
                         : *from >= 'a' && *from <= 'f' ? (unsigned)(*from - 'a' + 10)
                                                        : 99;
        if (digit >= base)
            break;
        number = number * base + digit;
    }
    *at = from;
    return number;
}

static struct watched *watched_of(int tid)
{
    for (int at = 0; at < THREADS; at++)
        if (watched[at].tid == tid)
            return &watched[at];
    return NULL;
}

/* Whether a thread has one of the two signals blocked: it would die of it. proc(5): field 32 of stat. */
static bool blocks(int tid)
{
    char path[64], line[1024];
    task_path(path, tid, "/stat");
    if (read_file(path, line, sizeof line) < 0)
        return false;
    const char *at = strrchr(line, ')');
    for (int field = 2; at != NULL && field < 32; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL)
        return true;
    at++;
    uint64_t mask = read_number(&at, 10), without = mask;
    npc_strip(&without);
    return mask != without;
}

/* Whether all threads are known, and none is about to end or has the signals blocked. */
static bool are_known(bool look_closer)
{
    char list[4096];
    long folder = NPC_CALL(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), bytes;
    bool known = folder >= 0;
    static bool alive[THREADS];
    memset(alive, 0, sizeof alive);
    while (known && (bytes = NPC_CALL(SYS_getdents64, folder, list, sizeof list)) > 0)
        for (long at = 0; at < bytes; at += *(unsigned short *)(list + at + 16)) {
            const char *name = list + at + 19;
            if (*name == '.')
                continue;
            int tid = (int)read_number(&name, 10);
            struct watched *thread = tid == timer_tid ? NULL : watched_of(tid);
            if (thread != NULL)
                alive[thread - watched] = true;
            if (tid != timer_tid && thread == NULL)
                known = refuse(NPC_OTHER_THREADS);
            else if (thread != NULL && (thread->leaving || (look_closer && blocks(tid))))
                known = refuse(NPC_UNSETTLED);
        }
    if (folder >= 0)
        NPC_CALL(SYS_close, folder);
    for (int at = 0; at < THREADS && known; at++)
        if (watched[at].tid != 0 && !alive[at] && watched[at].leaving)
            __atomic_store_n(&watched[at].tid, 0, __ATOMIC_RELEASE);
    return known;
}

enum sleeps { AWAKE, ASLEEP, UNKNOWN_CALL };

/* Whether a thread sleeps, and what the call in which it does will reach. */
static enum sleeps look_at(struct watched *thread)
{
    char path[64], line[256];
    task_path(path, thread->tid, "/syscall");
    if (read_file(path, line, sizeof line) <= 0 || line[0] == 'r')
        return AWAKE;
    const char *at = line;
    long argument[6] = {0};
    thread->slept.reaches = 0;
    if (line[0] == '-') { /* -1 sp ip: asleep, in no call */
        at = line + 3;
        thread->sp = read_number(&at, 16);
        return ASLEEP;
    }
    long number = (long)read_number(&at, 10);
    for (int part = 0; part < 6 && *at == ' '; part++) {
        at++;
        argument[part] = (long)read_number(&at, 16);
    }
    at++;
    thread->sp = read_number(&at, 16);
    return npc_reaches_of(number, argument, &thread->slept) ? ASLEEP : UNKNOWN_CALL;
}

/* Whether no call is on its way that was not caught, and its reach unknown. */
static bool settle(void)
{
    if (!are_known(true))
        return false;
    take_lock();
    if (__atomic_load_n(&holds, __ATOMIC_SEQ_CST) > 0) {
        give_lock();
        return false;
    }
    __atomic_store_n(&closing_round, closing_round + 1, __ATOMIC_SEQ_CST);
    page_count = region_count = 0;
    armed = true;
    for (int at = 0; at < THREADS; at++) {
        watched[at].slept.reaches = 0;
        if (watched[at].tid != 0)
            __atomic_store_n(&watched[at].selector, CATCH, __ATOMIC_SEQ_CST);
    }
    give_lock();
    uint64_t now = npc_now(), called = now + 2 * settling_ns, given_up = now + interval_ns / 4;
    int process = (int)NPC_CALL(SYS_getpid, 0);
    bool all = false, called_all = false;
    for (sleep_until(now + settling_ns); !all && __atomic_load_n(&armed, __ATOMIC_ACQUIRE); ) {
        all = true;
        now = npc_now();
        for (int at = 0; at < THREADS; at++) {
            struct watched *thread = &watched[at];
            if (thread->tid == 0 || __atomic_load_n(&thread->settled, __ATOMIC_ACQUIRE) == closing_round)
                continue;
            enum sleeps sleeps = look_at(thread);
            if (sleeps == UNKNOWN_CALL)
                return refuse(NPC_UNKNOWN_CALLS);
            if (sleeps == ASLEEP) {
                __atomic_store_n(&thread->settled, closing_round, __ATOMIC_RELEASE);
                continue;
            }
            all = false;
            if (now >= called && !called_all)
                call_thread(process, thread->tid);
        }
        called_all = called_all || now >= called;
        if (!all && now >= given_up)
            return refuse(NPC_UNSETTLED);
        if (!all)
            sleep_until(now + step_ns);
    }
    return all && are_known(false);
}

/* ---- which pages ---- */

static void leave_out(uintptr_t low, uintptr_t high)
{
    low &= ~(uintptr_t)(PAGE - 1);
    high = (high + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    for (int at = 0; at < region_count; at++) {
        struct region *region = &regions[at];
        if (high <= region->low || low >= region->high)
            continue;
        if (low > region->low && high < region->high) {
            if (region_count == REGIONS) {
                region->high = low;
                continue;
            }
            memmove(region + 2, region + 1, (size_t)(region_count - at - 1) * sizeof *region);
            region_count++;
            region[1] = *region;
            region[1].low = high;
            region->high = low;
        } else if (low > region->low) {
            region->high = low;
        } else if (high < region->high) {
            region->low = high;
        } else {
            region->high = region->low;
        }
    }
}

static bool ends_with_one_of(const char *path, size_t length)
{
    /* whose data the C library uses with signals blocked, or in a handler of the library's */
    static const char *const names[] = {"/libc.so", "/libc-", "/ld-linux", "/ld-", "/libpthread"};
    const char *base = path + length;
    while (base > path && *base != '/')
        base--;
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (strncmp(base, names[at], strlen(names[at])) == 0)
            return true;
    return false;
}

/* The regions that are looked at, from proc_pid_maps(5); false where none may be. */
static bool find_regions(void)
{
    long length = read_file("/proc/self/maps", text, TEXT_BYTES);
    uint64_t code_file = 0, last_high = 0;
    bool last_left = false;
    region_count = 0;
    for (const char *at = text; length > 0 && *at != 0 && region_count < REGIONS; at++) {
        uintptr_t low = read_number(&at, 16);
        at++;
        uintptr_t high = read_number(&at, 16);
        const char *rights = ++at;
        at += 5;
        read_number(&at, 16); /* offset */
        at++;
        uint64_t major = read_number(&at, 16);
        at++;
        uint64_t minor = read_number(&at, 16);
        at++;
        uint64_t number = read_number(&at, 10), file = number == 0 ? 0 : number ^ major << 52 ^ minor << 40;
        while (*at == ' ')
            at++;
        const char *name = at;
        while (*at != 0 && *at != '\n')
            at++;
        size_t name_length = (size_t)(at - name);
        if (strncmp(name, "anon_inode:[io_uring]", 21) == 0 || strncmp(name, "/[aio]", 6) == 0)
            return refuse(NPC_KERNEL_RINGS);
        bool left = file != 0 ? ends_with_one_of(name, name_length) : last_left && low == last_high;
        bool wanted = strncmp(rights, "rw-p", 4) == 0 && !left &&
                      (file != 0 ? file == code_file
                                 : name_length == 0 || strncmp(name, "[heap]", 6) == 0 ||
                                       strncmp(name, "[anon", 5) == 0);
        if (rights[2] == 'x')
            code_file = file;
        if (wanted)
            regions[region_count++] = (struct region){low, high, 0, 0, false};
        last_left = left;
        last_high = high;
        if (*at == 0)
            break;
    }
    uintptr_t main_tls = (uintptr_t)watched[0].thread_pointer;
    for (int at = 0; at < THREADS; at++)
        if (watched[at].tid != 0) {
            leave_out(watched[at].stack_low, watched[at].stack_high);
            leave_out(watched[at].own_low, watched[at].own_high);
        }
    for (int at = 0; at < THREADS && watched[at].handler_stack != NULL; at++)
        leave_out((uintptr_t)watched[at].handler_stack, (uintptr_t)watched[at].handler_stack + HANDLER_STACK);
    for (int at = 0; at < npc_reserved_count && at < NPC_RESERVED; at++)
        leave_out(npc_reserved[at].low, npc_reserved[at].high);
    for (int at = 0; at < other_stack; at++)
        leave_out(other_stacks[at].low, other_stacks[at].high);
    leave_out((uintptr_t)__ehdr_start, (uintptr_t)_end);
    leave_out(main_tls - AROUND_STACK, main_tls + 3 * PAGE); /* rseq(2), robust lists: the kernel's at any time */
    return true;
}

/* Lists `wanted` pages at most: all, or one group of neighbours in each of as many equal parts, since a single page
 * costs two mappings, and a large page its size, as much as a group does. The pages there are. */
static uint64_t list_pages(uint64_t wanted)
{
    uint64_t all = 0, before = 0;
    int listed = 0, place = 0;
    for (int at = 0; at < region_count; at++)
        all += (regions[at].high - regions[at].low) / PAGE;
    uint64_t unit = all <= wanted ? 1 : GROUP, units = all / unit, parts = all <= wanted ? all : wanted / GROUP;
    for (uint64_t part = 0; part < parts; part++) {
        uint64_t low = part * units / parts, next = (part + 1) * units / parts;
        uint64_t number = (low + (next - low > 1 ? chance() % (next - low) : 0)) * unit;
        for (uint64_t end = number + unit; number < end; number++) {
            while (number >= before + (regions[place].high - regions[place].low) / PAGE) {
                before += (regions[place].high - regions[place].low) / PAGE;
                regions[place].end = listed;
                regions[++place].first = listed;
            }
            pages[listed] = regions[place].low / PAGE + number - before;
            readers[listed] = writers[listed] = 0;
            states[listed++] = OPEN;
        }
    }
    for (; place < region_count; place++) {
        regions[place].end = listed;
        if (place + 1 < region_count)
            regions[place + 1].first = listed;
    }
    page_count = listed;
    return all;
}

/* What may be in use by the kernel, or as a stack, at this moment. */
static int find_busy(void)
{
    int count = 0;
    for (int at = 0; at < THREADS; at++) {
        struct watched *thread = &watched[at];
        if (thread->tid == 0)
            continue;
        if (thread->sp != 0)
            add_stack(thread, thread->sp);
        int depth = __atomic_load_n(&thread->depth, __ATOMIC_SEQ_CST);
        for (int call = 0; call <= depth && call <= NESTED; call++) {
            const struct call *calls = call == depth ? &thread->slept : &thread->calls[call];
            for (int part = 0; part < calls->reaches; part++)
                busy[count++] = calls->reach[part];
        }
    }
    return count;
}

static bool is_busy(int count, uint64_t page)
{
    for (int at = 0; at < count; at++)
        if (busy[at].low / PAGE <= page && page * PAGE < busy[at].high)
            return true;
    return false;
}

/* Closes what is listed; `again`: half of what was opened since. Pages closed. */
static uint64_t close_pages(bool again)
{
    uint64_t closed = 0;
    for (int at = 0; at < page_count;) {
        take_lock();
        if (!armed || __atomic_load_n(&holds, __ATOMIC_SEQ_CST) > 0) {
            give_lock();
            break;
        }
        int count = find_busy();
        for (int calls = 0; calls < AT_ONCE && at < page_count;) {
            int begin = at;
            while (at < page_count && (at == begin || pages[at] == pages[at - 1] + 1) &&
                   (states[at] == OPEN || (again && states[at] == READABLE)) && !(again && chance() & 1) &&
                   !is_busy(count, pages[at]))
                states[at++] = CLOSED;
            if (at == begin) {
                at++;
                continue;
            }
            calls++;
            if (!protect(pages[begin] * PAGE, (pages[at - 1] + 1) * PAGE, PROT_NONE)) {
                protect(pages[begin] * PAGE, (pages[at - 1] + 1) * PAGE, PROT_READ | PROT_WRITE);
                for (int part = begin; part < at; part++)
                    states[part] = GONE;
            } else {
                closed += (uint64_t)(at - begin);
            }
        }
        give_lock();
    }
    return closed;
}

/* ---- where pages lie ---- */

/* Of the pages that were touched in this interval. */
static void ask_places(void)
{
    enum { PLACES_AT_ONCE = 1024 };
    static void *addresses[PLACES_AT_ONCE];
    int count = 0;
    for (int at = 0; at < page_count && count < PLACES_AT_ONCE; at++)
        if (readers[at] | writers[at])
            addresses[count++] = (void *)(pages[at] * PAGE);
    npc_note_places(addresses, count);
}

/* ---- intervals ---- */

static void *keep_time(void *unused)
{
    (void)unused;
    uint64_t begin = npc_now(), wanted = most_ns / (4 * fault_cost), placed = 0;
    timer_tid = (int)NPC_CALL(SYS_gettid, 0);
    for (;;) {
        uint64_t end = begin + interval_ns, paid = own_time(), all = 0, closed = 0;
        if (wanted > (uint64_t)most_pages)
            wanted = (uint64_t)most_pages;
        if (wanted < FEWEST_PAGES)
            wanted = FEWEST_PAGES;
        begin = npc_now();
        interval++;
        npc_check_handlers();
        opened = 0;
        if (settle()) {
            take_lock(); /* nobody changes a mapping now */
            if (armed && find_regions())
                all = list_pages(wanted);
            give_lock();
            begin = npc_now();
            closed = close_pages(false);
            uint64_t third = (end > begin ? end - begin : 0) / 3;
            for (int part = 0; part < 3 && __atomic_load_n(&armed, __ATOMIC_ACQUIRE); part++) {
                sleep_until(begin + (uint64_t)part * third + chance() % (third + 1));
                close_pages(true);
            }
            sleep_until(end);
            if (placed == 0 || npc_now() - placed >= places_ns) {
                ask_places();
                placed = npc_now();
            }
        }
        take_lock();
        bool early = !armed && opened != 0;
        open_all();
        uint64_t sum = __atomic_exchange_n(&spent, 0, __ATOMIC_RELAXED);
        give_lock();
        struct npc_interval *entry = npc_entry(&interval_room, NPC_INTERVALS, 0, sizeof *entry);
        if (entry != NULL) {
            entry->begin = begin;
            entry->end = closed > 0 ? opened : begin;
            entry->tracked = all;
            entry->guarded = closed;
            __atomic_store_n(&entry->number, interval, __ATOMIC_RELEASE);
        }
        paid = own_time() - paid;
        npc_head->inside += sum + paid;
        if (closed > 0) {
            sum += paid;
            wanted = early && sum > most_ns ? wanted / 2
                     : sum < most_ns / 2    ? wanted * 2
                                            : wanted * most_ns / (sum + 1);
        }
        /* a program with many threads or mappings pays for fewer intervals */
        begin = npc_now();
        if (end < begin + paid * (interval_ns / most_ns) / 2)
            end = begin + paid * (interval_ns / most_ns) / 2;
        sleep_until(end);
        begin = npc_now();
    }
    return NULL;
}

/* ---- begin ---- */

static double setting(const char *name, double otherwise, double least, double most)
{
    const char *given = getenv(name);
    double value = given != NULL ? strtod(given, NULL) : otherwise;
    return value < least ? least : value > most ? most : value;
}

/* What a fault and a caught call cost, by as many of them; ns. */
static void measure_costs(void)
{
    enum { TIMES = 64 };
    volatile char *page = npc_reserve(PAGE);
    measuring = true;
    most_ns = UINT64_MAX;
    regions[0] = (struct region){(uintptr_t)page, (uintptr_t)page + PAGE, 0, 1, false};
    pages[0] = (uintptr_t)page / PAGE;
    page_count = region_count = 1;
    armed = true;
    fault_cost = spent = 0;
    uint64_t begin = npc_now();
    for (int at = 0; at < TIMES; at++) {
        states[0] = CLOSED;
        protect((uintptr_t)page, (uintptr_t)page + PAGE, PROT_NONE);
        (void)*page;
    }
    fault_cost = (npc_now() - begin - spent) / TIMES + 1; /* what the kernel took of it */
    npc_watched->selector = CATCH;
    begin = npc_now();
    for (int at = 0; at < TIMES; at++)
        syscall(SYS_getppid);
    npc_call_cost = (npc_now() - begin) / TIMES + 1;
    open_all();
    measuring = false;
}

/* Past the library's pthread_create: it is no thread of the program's. */
static bool start_timer(void *stack)
{
    typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create_function *create = (create_function *)dlsym(RTLD_NEXT, "pthread_create");
    pthread_attr_t attributes;
    pthread_t timer;
    uint64_t mask = block_signals();
    bool made = create != NULL && pthread_attr_init(&attributes) == 0 &&
                pthread_attr_setstack(&attributes, stack, TIMER_STACK) == 0 &&
                pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                create(&timer, &attributes, keep_time, NULL) == 0;
    restore_signals(mask);
    return made;
}

static const struct npc_hooks hooks = {
    .thread_begins = thread_begins,
    .thread_ends = thread_ends,
    .creating = creating,
    .forked = forked,
    .ends = npc_pages_open_begin,
};

void npc_begin_sampling(npc_handler *on_call)
{
    char number[32];
    npc_self.inside++;
    pthread_atfork(before_fork, after_fork, NULL);
    bool begins = false;
    holds = 1; /* until everything is there */
    if (npc_claim(NPC_SAMPLING, &hooks)) {
        npc_open_allocations();
        begins = npc_watched != NULL && npc_install_handlers(on_fault, on_call);
    }
    if (begins) {
        watched[0].thread_pointer = __builtin_thread_pointer();
        interval_ns = (uint64_t)(1e9 * setting("NPC_MEMORY_INTERVAL", 0.1, 0.01, 60));
        seed = npc_head->began | 1;
        most_pages = MOST_PAGES;
        if (read_file("/proc/sys/vm/max_map_count", number, sizeof number) > 0) {
            const char *at = number;
            uint64_t mappings = read_number(&at, 10) / 6;
            most_pages = mappings < MOST_PAGES ? (int)mappings : MOST_PAGES;
        }
        pages = npc_reserve(MOST_PAGES * sizeof *pages);
        readers = npc_reserve(MOST_PAGES * sizeof *readers);
        writers = npc_reserve(MOST_PAGES * sizeof *writers);
        states = npc_reserve(MOST_PAGES);
        busy = npc_reserve(THREADS * (1 + (NESTED + 1) * REACHES) * sizeof *busy);
        text = npc_reserve(TEXT_BYTES);
        void *stack = npc_reserve(TIMER_STACK);
        if (pages && readers && writers && states && busy && text && stack) {
            measure_costs();
            most_ns = (uint64_t)((double)interval_ns * setting("NPC_MEMORY_BUDGET", 0.1, 0.001, 10));
            start_timer(stack);
        }
    } else if (npc_head != NULL) {
        refuse(NPC_NO_CATCHING);
    }
    holds = 0;
    npc_self.inside--;
}
#endif
