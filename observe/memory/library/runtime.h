/* What both libraries need: the table, its threads, and who may write it. */
#ifndef NPC_MEMORY_RUNTIME_H
#define NPC_MEMORY_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table.h"

/* Each symbol that stands before the system's, or that compilers call. */
#define NPC_EXPORT __attribute__((visibility("default")))
#define NPC_RARE __attribute__((noinline, cold))

/* The table of this process; NULL: nothing is recorded (nobody asked, another process has it, a child of fork). */
extern struct npc_table *npc_head;

/* The calling thread. */
struct npc_self {
    struct npc_thread *thread; /* NULL: not seen yet */
    uint32_t number;
    int inside;                /* the library is at work: what it allocates is not the program's */
    bool over;                 /* past its end */
};
extern __thread struct npc_self npc_self __attribute__((tls_model("initial-exec")));

/* What each library does at the moments of a program's life that this runtime sees. */
struct npc_hooks {
    void (*thread_begins)(void);   /* in a thread, before what it runs */
    void (*thread_ends)(void);     /* in a thread, past its end (keys' destructors) */
    void (*creating)(bool begins); /* in the creator, before and after pthread_create */
    void (*forked)(void);          /* in the child after fork, where npc_head is NULL already */
    void (*ends)(void);            /* before the process ends, once, also by _exit */
};

/* Maps the file that NPC_MEMORY_TABLE names and claims it for this process; false where there is none, or where
 * another process has it. A program that this process becomes by exec takes it over. */
bool npc_claim(enum npc_mode mode, const struct npc_hooks *hooks);

/* Maps a table without claiming it: that of another process. */
bool npc_map(int descriptor);

/* ns since `began`. */
uint64_t npc_now(void);

/* A chunk of at least *bytes of entries, all zero; NULL where there is no room. *bytes: what there is. Nothing
 * but atomic steps: safe in a signal's handler. */
void *npc_take(enum npc_chunk_kind kind, uint32_t thread, uint64_t *bytes);

/* Entries of one kind that one thread fills: a variable of that thread, zero at first. */
struct npc_room {
    char *next;
    uint64_t left;  /* bytes */
    uint64_t chunk; /* bytes of the last chunk: the first are small, for programs with many short threads */
};
/* The next entry, zeroed; NULL where there is no room, which is counted as lost. As safe as npc_take, but not
 * against a handler that takes from the same room. */
void *npc_entry(struct npc_room *room, enum npc_chunk_kind kind, uint32_t thread, uint64_t bytes);
void npc_lose(void);
bool npc_is_half_full(void);

/* Sees to it that the calling thread has its entry; its number. */
uint32_t npc_enter_thread(void);

/* The library itself, from its first byte to the one after its last (ld(1)). */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

/* Zeroed memory that is not the program's, NULL where there is none; and giving it back. Safe in a signal's
 * handler. */
void *npc_reserve(size_t bytes);
void npc_release(void *begin, size_t bytes);
/* What was reserved first, and how often. */
enum { NPC_RESERVED = 32 };
extern struct npc_reserved {
    uintptr_t low, high;
} npc_reserved[NPC_RESERVED];
extern int npc_reserved_count;

/* Whether pages can lie on several NUMA nodes. */
bool npc_has_nodes(void);
/* Records on which of them these pages of the process lie, as far as they are in memory (move_pages(2), which only
 * asks where it is given no nodes). */
void npc_note_places(void *const *addresses, int count);

/* Writes /proc/self/maps anew if that is long ago, and the table this process's. */
void npc_refresh_maps(void);

/* allocations.c, from a library that has claimed the table. Own blocks: allocations of at least a page get addresses of their own, whole pages that are
 * never used again, so that a page belongs to one allocation. */
extern bool npc_own_blocks;
void npc_open_allocations(void);
/* A mapping that the program has asked for (kind NPC_MAPPED), or that is no longer. */
void npc_note_allocation(uintptr_t address, size_t bytes, enum npc_object_kind kind);
void npc_note_free(uintptr_t address);

#endif
