/* Counting: what its parts share. How it works stands in count.c. */
#ifndef NPC_MEMORY_COUNT_H
#define NPC_MEMORY_COUNT_H

#include "runtime.h"

#pragma GCC visibility push(hidden)

extern const struct npc_hooks npc_count_hooks;
/* Within Valgrind, whose trace says the accesses: the code itself counts nothing. */
extern bool npc_traced;

/* Counts accesses of the calling thread: one, or each word of 8 bytes of a range. */
void npc_count_access(uintptr_t address, size_t bytes, bool write);
void npc_count_reads(const void *address, size_t bytes);
void npc_count_writes(const void *address, size_t bytes);
/* From now on the calling thread counts for this thread of another process, whose table is mapped. */
void npc_count_for(struct npc_thread *thread);

#pragma GCC visibility pop
#endif
