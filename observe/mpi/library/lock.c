/* The locks of the library. They are held for moments. */
#define _GNU_SOURCE
#include "internal.h"

#include <sched.h>

bool npc_threaded;
static int lock_word;

void npc_lock_word(int *word)
{
    while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

void npc_unlock_word(int *word)
{
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

void npc_lock(void)
{
    if (npc_threaded)
        npc_lock_word(&lock_word);
}

void npc_unlock(void)
{
    if (npc_threaded)
        npc_unlock_word(&lock_word);
}
