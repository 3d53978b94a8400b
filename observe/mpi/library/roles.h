/* What the generated wrappers need beside the runtime: the next library's functions, and sums over ranks. */
#ifndef NPC_ROLES_H
#define NPC_ROLES_H

#include "runtime.h"

/* A function of the library behind this one, kept in `slot` from its first call on. */
void *npc_find_next(void **slot, const char *name) __attribute__((visibility("hidden"), cold));

static inline void *npc_next(void **slot, const char *name)
{
    void *known = __atomic_load_n(slot, __ATOMIC_RELAXED);
    return __builtin_expect(known != NULL, 1) ? known : npc_find_next(slot, name);
}

/* The sum of `term` for i = 0 … n-1. */
#define NPC_SUM(i, n, term)                          \
    __extension__({                                  \
        uint64_t sum_of_terms = 0;                   \
        for (int i = 0, last = (n); i < last; i++)   \
            sum_of_terms += (uint64_t)(term);        \
        sum_of_terms;                                \
    })

static inline int npc_own_rank(MPI_Comm comm)
{
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

/* The processes on this side of an intercommunicator, else all. */
static inline int npc_local_size(MPI_Comm comm)
{
    int size = 0;
    PMPI_Comm_size(comm, &size);
    return size;
}

/* What a rank is in a collective call with a root. */
enum npc_role { NPC_MEMBER, NPC_ROOT, NPC_REMOTE_ROOT, NPC_OUTSIDE };

static inline enum npc_role npc_role(MPI_Comm comm, int root)
{
    int remote = 0;
    if (root == MPI_ROOT)
        return NPC_REMOTE_ROOT;
    if (root == MPI_PROC_NULL)
        return NPC_OUTSIDE;
    if (root != npc_own_rank(comm))
        return NPC_MEMBER;
    PMPI_Comm_test_inter(comm, &remote);
    return remote ? NPC_MEMBER : NPC_ROOT;
}

/* How many neighbours a neighbourhood call names for its send buffer; those that are MPI_PROC_NULL as well. */
int npc_neighbours(MPI_Comm comm) __attribute__((visibility("hidden")));
/* Whether the i-th of them is a process. */
bool npc_is_neighbour(MPI_Comm comm, int i) __attribute__((visibility("hidden")));

/* Before MPI_Abort; where the runtime has nothing to do then, it is not there. */
void npc_aborting(void) __attribute__((weak, visibility("hidden")));

#endif
