/* The actions for the library's two signals, SIGSEGV (a closed page) and SIGSYS (a caught call): its own, which the
 * kernel has, and the program's, which are remembered here and called for what is not the library's. */
#ifdef __x86_64__
#define _GNU_SOURCE
#include "sample.h"

#include <sys/syscall.h>
#include <unistd.h>

enum { HAS_RESTORER = 0x04000000 };
/* Its bytes are those that unwinders know. */
void npc_return_from_handler(void);
__asm__(".text\n.hidden npc_return_from_handler\n.globl npc_return_from_handler\n"
        ".type npc_return_from_handler, @function\n    nop\n"
        "npc_return_from_handler:\n    .byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05\n"
        ".size npc_return_from_handler, . - npc_return_from_handler\n");

static struct sigaction program_segv, program_sys;
bool npc_handlers_installed;
static npc_handler *on_fault, *on_call;

static const uint64_t ours = 1ull << (SIGSEGV - 1) | 1ull << (SIGSYS - 1);

void npc_strip(uint64_t *set)
{
    *set &= ~ours;
}

sigset_t npc_stripped(const sigset_t *set)
{
    sigset_t copy = *set;
    if (npc_handlers_installed) {
        sigdelset(&copy, SIGSEGV);
        sigdelset(&copy, SIGSYS);
    }
    return copy;
}

/* ---- the library's handlers ---- */

static struct npc_kernel_action our_action(int signal)
{
    struct npc_kernel_action action = {0};
    action.restorer = (void *)npc_return_from_handler;
    action.flags = SA_SIGINFO | SA_NODEFER | SA_RESTART | HAS_RESTORER;
    if (signal == SIGSEGV) {
        action.handler = (void *)on_fault;
        action.flags |= SA_ONSTACK;   /* the stack may be what was closed */
        action.mask = ~ours;
    } else {
        action.handler = (void *)on_call;
    }
    return action;
}

static void keep_program_action(const struct npc_kernel_action *old, struct sigaction *program)
{
    *program = (struct sigaction){0};
    program->sa_sigaction = (void (*)(int, siginfo_t *, void *))old->handler;
    program->sa_flags = (int)(old->flags & ~(unsigned long)HAS_RESTORER);
    __builtin_memcpy(&program->sa_mask, &old->mask, sizeof old->mask);
}

static bool install(int signal, struct sigaction *program)
{
    struct npc_kernel_action action = our_action(signal), old = {0};
    if (NPC_CALL(SYS_rt_sigaction, signal, NULL, &old, KERNEL_SET_BYTES) != 0)
        return false;
    if (old.handler == action.handler)
        return true;
    keep_program_action(&old, program);
    return NPC_CALL(SYS_rt_sigaction, signal, &action, NULL, KERNEL_SET_BYTES) == 0;
}

bool npc_install_handlers(npc_handler *of_faults, npc_handler *of_calls)
{
    on_fault = of_faults;
    on_call = of_calls;
    npc_handlers_installed = install(SIGSEGV, &program_segv) && install(SIGSYS, &program_sys);
    return npc_handlers_installed;
}

void npc_check_handlers(void)
{
    install(SIGSEGV, &program_segv);
    install(SIGSYS, &program_sys);
}

/* ---- the program's ---- */

int npc_swap_action(int signal, const struct sigaction *action, struct sigaction *old)
{
    struct sigaction *program = signal == SIGSEGV ? &program_segv : &program_sys, before = *program;
    if (action != NULL)
        *program = *action;
    if (old != NULL)
        *old = before;
    return 0;
}

/* As the kernel would have done it. */
void npc_to_program(int signal, siginfo_t *info, void *given)
{
    ucontext_t *context = given;
    struct sigaction *program = signal == SIGSEGV ? &program_segv : &program_sys, action = *program;
    bool sent = info->si_code <= 0;
    if (action.sa_handler == SIG_IGN && sent)
        return;
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
        struct npc_kernel_action standard = {0};
        NPC_CALL(SYS_rt_sigaction, signal, &standard, NULL, KERNEL_SET_BYTES);
        if (sent || signal == SIGSYS) /* else the instruction faults again */
            NPC_CALL(SYS_rt_tgsigqueueinfo, NPC_CALL(SYS_getpid, 0), NPC_CALL(SYS_gettid, 0), signal, info);
        return;
    }
    uint64_t mask, more;
    __builtin_memcpy(&mask, &context->uc_sigmask, sizeof mask);
    __builtin_memcpy(&more, &action.sa_mask, sizeof more);
    mask |= more;
    npc_strip(&mask);
    if (action.sa_flags & (int)SA_RESETHAND)
        program->sa_handler = SIG_DFL;
    NPC_CALL(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
    if (action.sa_flags & SA_SIGINFO)
        action.sa_sigaction(signal, info, context);
    else
        action.sa_handler(signal);
}
#endif
