/* The next library's functions, wherever the program has loaded its MPI, and the neighbours of a topology. */
#define _GNU_SOURCE
#include "roles.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes an MPI library global that was loaded for one object only (Python's import does that). */
static int make_global(struct dl_phdr_info *object, size_t size, void *found)
{
    const char *name = strrchr(object->dlpi_name, '/');
    (void)size;
    if (name == NULL || (strncmp(name, "/libmpi.", 8) && strncmp(name, "/libmpich.", 10) && strncmp(name, "/libmpi_", 8)
                         && strncmp(name, "/libmpich_", 10)))
        return 0;
    void *library = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
    if (library == NULL || dlsym(library, "PMPI_Init") == NULL)
        return 0;
    *(void **)found = library; /* stays open */
    return 1;
}

void *npc_find_next(void **slot, const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);
    if (next == NULL) {
        void *library = NULL;
        dl_iterate_phdr(make_global, &library);
        next = library ? dlsym(library, name) : NULL;
    }
    if (next == NULL) {
        fprintf(stderr, "npc: this MPI has no %s\n", name);
        _Exit(127); /* as the dynamic linker would */
    }
    __atomic_store_n(slot, next, __ATOMIC_RELAXED);
    return next;
}

int npc_neighbours(MPI_Comm comm)
{
    int kind = MPI_UNDEFINED, n = 0, rank, in, weighted;
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART) {
        PMPI_Cartdim_get(comm, &n);
        return 2 * n;
    }
    if (kind == MPI_GRAPH && PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS)
        PMPI_Graph_neighbors_count(comm, rank, &n);
    if (kind == MPI_DIST_GRAPH)
        PMPI_Dist_graph_neighbors_count(comm, &in, &n, &weighted);
    return n;
}

bool npc_is_neighbour(MPI_Comm comm, int i)
{
    int kind = MPI_UNDEFINED, before, behind;
    PMPI_Topo_test(comm, &kind);
    if (kind != MPI_CART || PMPI_Cart_shift(comm, i / 2, 1, &before, &behind) != MPI_SUCCESS)
        return true;
    return (i % 2 ? behind : before) != MPI_PROC_NULL;
}
