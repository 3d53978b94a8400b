/* How sampling begins. */
#include "sample.h"

#ifdef __x86_64__
__attribute__((constructor)) static void begin(void)
{
    npc_begin_sampling(npc_on_call);
}
#else
static void nothing(void) {}
static void nothing_of(bool begins) { (void)begins; }

__attribute__((constructor)) static void begin(void)
{
    static const struct npc_hooks hooks = {nothing, nothing, nothing_of, nothing, nothing};
    if (npc_claim(NPC_SAMPLING, &hooks)) {
        npc_open_allocations();
        npc_head->obstacles = NPC_NO_CATCHING;
    }
}
#endif
