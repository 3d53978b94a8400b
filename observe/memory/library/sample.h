/* Sampling: what its parts share. How it works stands in sample.c. */
#ifndef NPC_MEMORY_SAMPLE_H
#define NPC_MEMORY_SAMPLE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "runtime.h"

#pragma GCC visibility push(hidden)

/* Memory that a system call may reach. */
struct reach {
    uintptr_t low, high; /* addresses of its first byte and past its last */
    bool written;        /* else read */
};
enum { REACHES = 12, NESTED = 4, THREADS = 1024, HANDLER_STACK = 1 << 16 };

/* A system call in progress. */
struct call {
    uintptr_t sp;                /* of the frame it was made from */
    int reaches;                 /* how many of `reach` are in use */
    bool by_result;              /* of the first of them as many bytes as the call returns are written */
    struct reach reach[REACHES];
};

/* A thread whose accesses and system calls are seen. */
struct watched {
    char selector;          /* read by the kernel at each of its system calls */
    bool leaving;           /* it has had its last own code */
    int tid;                /* 0: a free place */
    uint32_t number;        /* npc_thread's */
    uint64_t settled;       /* the last round in which no system call of it was on its way unseen */
    uintptr_t stack_low, stack_high; /* addresses */
    uintptr_t sp;           /* when it was last looked at */
    uintptr_t own_low, own_high; /* the stack that the program has for signals */
    int depth;              /* calls in progress, of which a signal's handler may have interrupted some */
    struct call calls[NESTED];
    struct call slept;      /* in which it slept when the round began */
    uintptr_t last_address, last_ip; /* of its last fault: which byte, by which instruction */
    uint64_t last_opening;  /* how often pages had been opened then */
    struct npc_room room;   /* of touches */
    void *handler_stack;    /* the library's, HANDLER_STACK bytes */
    void *thread_pointer;   /* of the first thread */
};

extern __thread struct watched *npc_watched __attribute__((tls_model("initial-exec")));
extern uint64_t npc_call_cost;

/* A system call that is never caught, since it is made from the library's text. −errno where it fails. */
#define NPC_CALL(number, ...) npc_call6(number, NPC_SIX(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0))
#define NPC_SIX(a, b, c, d, e, f, ...) (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)
#ifdef __x86_64__
static inline long npc_call6(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return number;
}
#endif

typedef void npc_handler(int signal, siginfo_t *info, void *context);

/* sample_reach.c: what a system call reaches; false where that is not known. */
bool npc_reaches_of(long number, const long *arguments, struct call *call);
/* Adds a range to what it reaches; false where there is no room. */
bool npc_add_reach(struct call *call, uintptr_t low, uint64_t bytes, bool written);
/* Copies from the program's memory; false where there is none. */
bool npc_copy_in(void *to, uintptr_t from, size_t bytes);
/* The instruction pointer to go on at after a fault in npc_copy_in; 0: it was elsewhere. */
uintptr_t npc_copy_failed(uintptr_t ip);

/* sample_actions.c: the library's actions for the two signals, and the program's. */
enum { KERNEL_SET_BYTES = 8 };
/* An action as the kernel has it, rt_sigaction(2). */
struct npc_kernel_action {
    void *handler;
    unsigned long flags;
    void *restorer; /* what a handler returns to */
    uint64_t mask;
};
extern bool npc_handlers_installed;
bool npc_install_handlers(npc_handler *of_faults, npc_handler *of_calls);
/* Installs them anew where the program has gone past the C library. */
void npc_check_handlers(void);
/* The program's action. */
int npc_swap_action(int signal, const struct sigaction *action, struct sigaction *old);
/* Does what the program's action says. */
void npc_to_program(int signal, siginfo_t *info, void *context);
/* Takes the two signals out of a set; the same of a copy, once the handlers are there. */
void npc_strip(uint64_t *set);
sigset_t npc_stripped(const sigset_t *set);

/* sample.c. Between these two all pages are open, and none is closed. Pairs may nest. */
void npc_pages_open_begin(void);
void npc_pages_open_end(void);
/* Opens everything until the next interval. */
void npc_open_all(void);
/* Opens what is closed in a range: for a system call, or (for good in this interval) for one that changes it. */
void npc_open_reach(uintptr_t low, uintptr_t high, bool for_good);
/* Makes a call that changes what is mapped, which is the program's alone from then on in this interval. */
long npc_change(long number, const long *arguments, const struct reach *reach, int count);
/* Notes on which stack the calling thread is, and which it has for signals. */
void npc_note_stack(uintptr_t sp, const stack_t *own);
void npc_note_own_stack(struct watched *self, const stack_t *own);
/* Notes that the calling thread has had a system call read or write a range. */
void npc_note_reach(const struct reach *reach, uint64_t bytes, uintptr_t ip);
void npc_wait_for_closing(void);
bool npc_is_over_budget(void);
/* ns that a fault or a caught call took. */
void npc_spend(uint64_t time);
/* The number of the present attempt to close pages. */
uint64_t npc_round(void);
/* on_call: what SIGSYS of a caught call is given to. */
void npc_begin_sampling(npc_handler *on_call);

/* sample_calls.c */
npc_handler npc_on_call;

#pragma GCC visibility pop
#endif
