/* System calls while pages are closed.
 *
 * The kernel does not fault on a closed page as the program does: the call fails with EFAULT. So while pages are
 * closed each call is caught before it is made (Syscall User Dispatch, Linux 5.11: prctl(2)), the pages that its
 * arguments reach are opened, and it is made from here. A call of which that is not known ends the interval and
 * is then made by the program itself; so are those that make threads and processes. */
#ifdef __x86_64__
#define _GNU_SOURCE
#include "sample.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef SYS_USER_DISPATCH
#define SYS_USER_DISPATCH 2
#endif

/* ---- calls that are more than what they reach ---- */

/* Calls that change what is mapped; false for all others. */
static bool change(long number, const long *argument, greg_t *result)
{
    uintptr_t low = (uintptr_t)argument[0], bytes = (uintptr_t)argument[1];
    struct reach reach[2] = {{low, low + bytes, true}, {0, 0, true}};
    switch (number) {
    case SYS_munmap:
    case SYS_mprotect:
        break;
    case SYS_mmap:
        if (argument[3] & (MAP_POPULATE | MAP_LOCKED))
            return false;
        if (!(argument[3] & MAP_FIXED))
            reach[0].high = low;
        break;
    case SYS_mremap:
        if (argument[3] & MREMAP_FIXED)
            reach[1] = (struct reach){(uintptr_t)argument[4], (uintptr_t)(argument[4] + argument[2]), true};
        break;
    case SYS_brk:
        reach[0].low &= ~(uintptr_t)(NPC_PAGE_BYTES - 1);
        reach[0].high = low == 0 ? 0 : (uintptr_t)NPC_CALL(SYS_brk, 0);
        break;
    default:
        return false;
    }
    *result = npc_change(number, argument, reach, 2);
    return true;
}

/* The mask and the stack of signals are those of the handler's frame when it ends. */
static long set_mask(const long *argument, ucontext_t *context)
{
    uint64_t set = 0, old = 0;
    uintptr_t from = (uintptr_t)argument[1], to = (uintptr_t)argument[2];
    if (argument[3] != KERNEL_SET_BYTES)
        return -EINVAL;
    if (from != 0 && !npc_copy_in(&set, from, sizeof set))
        return -EFAULT;
    npc_strip(&set);
    long failed = NPC_CALL(SYS_rt_sigprocmask, argument[0], from ? &set : NULL, &old, sizeof old);
    if (failed)
        return failed;
    NPC_CALL(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &set, sizeof set);
    __builtin_memcpy(&context->uc_sigmask, &set, sizeof set);
    if (to != 0)
        __builtin_memcpy((void *)to, &old, sizeof old);
    return 0;
}

static long set_stack(const long *argument, ucontext_t *context)
{
    stack_t stack;
    if (argument[0] != 0 && !npc_copy_in(&stack, (uintptr_t)argument[0], sizeof stack))
        return -EFAULT;
    if (argument[1] != 0)
        npc_open_reach((uintptr_t)argument[1], (uintptr_t)argument[1] + sizeof stack, false);
    long failed = NPC_CALL(SYS_sigaltstack, argument[0] ? &stack : NULL, argument[1]);
    if (!failed && argument[0] != 0) {
        npc_open_reach((uintptr_t)stack.ss_sp, (uintptr_t)stack.ss_sp + stack.ss_size, true);
        context->uc_stack = stack;
        npc_note_own_stack(npc_watched, &stack);
    }
    return failed;
}

static long set_action(const long *argument)
{
    struct npc_kernel_action given;
    struct sigaction action = {0}, old;
    if (argument[1] != 0) {
        if (!npc_copy_in(&given, (uintptr_t)argument[1], sizeof given))
            return -EFAULT;
        action.sa_handler = (void (*)(int))given.handler;
        action.sa_flags = (int)given.flags;
        __builtin_memcpy(&action.sa_mask, &given.mask, sizeof given.mask);
    }
    npc_swap_action((int)argument[0], argument[1] ? &action : NULL, &old);
    if (argument[2] != 0) {
        given = (struct npc_kernel_action){(void *)old.sa_handler, (unsigned long)old.sa_flags, NULL, 0};
        __builtin_memcpy(&given.mask, &old.sa_mask, sizeof given.mask);
        __builtin_memcpy((void *)argument[2], &given, sizeof given);
    }
    return 0;
}

/* The program's handler ends: its frame lies where the stack is. */
__attribute__((noreturn)) static void end_handler(uintptr_t sp)
{
    npc_open_reach(sp, sp + 16384, false);
    __asm__ volatile("mov %0, %%rsp\n\tmov %1, %%eax\n\tsyscall" : : "r"(sp), "i"(SYS_rt_sigreturn) : "memory");
    __builtin_unreachable();
}

/* ---- a call is caught ---- */

static struct call *begin_call(struct watched *self, uintptr_t sp)
{
    /* calls whose frames lie further down on the same stack were left by a jump out of a handler */
    while (self->depth > 0 && self->calls[self->depth - 1].sp <= sp && sp < self->stack_high &&
           self->calls[self->depth - 1].sp >= self->stack_low)
        self->depth--;
    return self->depth < NESTED ? &self->calls[self->depth] : NULL;
}

static bool make(struct watched *self, long number, const long *argument, ucontext_t *context, uintptr_t sp)
{
    greg_t *registers = context->uc_mcontext.gregs;
    switch (number) {
    case SYS_rt_sigreturn:
        end_handler((uintptr_t)registers[REG_RSP]);
    case SYS_rt_sigprocmask:
        registers[REG_RAX] = set_mask(argument, context);
        return true;
    case SYS_sigaltstack:
        registers[REG_RAX] = set_stack(argument, context);
        return true;
    case SYS_rt_sigaction:
        if (argument[0] == SIGSEGV || argument[0] == SIGSYS) {
            registers[REG_RAX] = set_action(argument);
            return true;
        }
        if (argument[3] != KERNEL_SET_BYTES)
            return false;
        break;
    default:;
    }
    if (change(number, argument, &registers[REG_RAX]))
        return true;
    struct call *call = begin_call(self, sp);
    if (call == NULL)
        return false;
    if (number == SYS_rt_sigaction) {
        call->reaches = 0;
        call->by_result = false;
        npc_add_reach(call, (uintptr_t)argument[1], sizeof(struct npc_kernel_action), false);
        npc_add_reach(call, (uintptr_t)argument[2], sizeof(struct npc_kernel_action), true);
    } else if (!npc_reaches_of(number, argument, call)) {
        return false;
    }
    call->sp = sp;
    /* first it can be seen, then what is being closed is waited for: from now on its pages are left alone */
    __atomic_store_n(&self->depth, self->depth + 1, __ATOMIC_SEQ_CST);
    npc_wait_for_closing();
    for (int at = 0; at < call->reaches; at++)
        npc_open_reach(call->reach[at].low, call->reach[at].high, false);
    long result = npc_call6(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
    for (int at = 0; at < call->reaches && result >= 0; at++)
        npc_note_reach(&call->reach[at], at == 0 && call->by_result ? (uint64_t)result : UINT64_MAX,
                       (uintptr_t)registers[REG_RIP]);
    __atomic_store_n(&self->depth, (int)(call - self->calls), __ATOMIC_RELEASE);
    registers[REG_RAX] = result;
    return true;
}

void npc_on_call(int signal, siginfo_t *info, void *given)
{
    ucontext_t *context = given;
    greg_t *registers = context->uc_mcontext.gregs;
    struct watched *self = npc_watched;
    uintptr_t sp = (uintptr_t)registers[REG_RSP];
    if (self == NULL || info->si_code != SYS_USER_DISPATCH) {
        npc_to_program(signal, info, given);
        return;
    }
    const long argument[6] = {(long)registers[REG_RDI], (long)registers[REG_RSI], (long)registers[REG_RDX],
                              (long)registers[REG_R10], (long)registers[REG_R8], (long)registers[REG_R9]};
    long number = (long)registers[REG_RAX];
    npc_note_stack(sp, &context->uc_stack);
    npc_spend(npc_call_cost);
    __atomic_store_n(&self->settled, npc_round(), __ATOMIC_RELEASE);
    if (npc_is_over_budget() || !make(self, number, argument, context, sp)) {
        npc_open_all();
        registers[REG_RAX] = number;
        registers[REG_RIP] -= 2; /* the instruction: once more, seen by nobody */
    }
}
#endif
