/* The MPI that the program has loaded, and its predefined handles. */
#define _GNU_SOURCE
#include "internal.h"
#include "roles.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

npc_handles npc_predefined;

#ifdef OPEN_MPI
#define FAMILY "Open MPI"
#define HANDLE(type, macro, symbol) ((type)dlsym(RTLD_DEFAULT, symbol))
#else
#define FAMILY "MPICH"
#define HANDLE(type, macro, symbol) (macro)
#endif

/* Whether handles and constants of the library that calls itself `version` are those of this one's mpi.h. */
static bool same_family(const char *version)
{
#ifdef OPEN_MPI
    return strncmp(version, "Open MPI", 8) == 0;
#else
    return strstr(version, "MPICH") != NULL || strstr(version, "Intel(R) MPI") != NULL ||
           strstr(version, "MVAPICH") != NULL;
#endif
}

bool npc_find_mpi(void)
{
    static char version[MPI_MAX_LIBRARY_VERSION_STRING > 8192 ? MPI_MAX_LIBRARY_VERSION_STRING : 8192];
    int length = 0;
    static void *known;
    npc_find_next(&known, "PMPI_Get_library_version"); /* now it is global, if it was not */
    if (PMPI_Get_library_version(version, &length) != MPI_SUCCESS) {
        npc_because("MPI_Get_library_version fails");
        return false;
    }
    /* MPICH's goes on with how it was configured */
    version[strcspn(version, "\n")] = '\0';
    for (char *at = version; *at != '\0'; at++)
        *at = *at == '\t' ? ' ' : *at;
    snprintf(npc_head->library, sizeof npc_head->library, "%.255s", version);
    if (!same_family(version)) {
        npc_because("the program's MPI is another one than the profiling library was built for (" FAMILY ")");
        return false;
    }
    npc_predefined = (npc_handles){
        .world = HANDLE(MPI_Comm, MPI_COMM_WORLD, "ompi_mpi_comm_world"),
        .no_comm = HANDLE(MPI_Comm, MPI_COMM_NULL, "ompi_mpi_comm_null"),
        .no_win = HANDLE(MPI_Win, MPI_WIN_NULL, "ompi_mpi_win_null"),
        .no_file = HANDLE(MPI_File, MPI_FILE_NULL, "ompi_mpi_file_null"),
        .no_request = HANDLE(MPI_Request, MPI_REQUEST_NULL, "ompi_request_null"),
        .byte = HANDLE(MPI_Datatype, MPI_BYTE, "ompi_mpi_byte"),
    };
    return true;
}
