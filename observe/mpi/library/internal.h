/* Between the parts of the runtime. */
#ifndef NPC_INTERNAL_H
#define NPC_INTERNAL_H

#include "runtime.h"

/* The library is not linked with MPI: what it calls must not be missed in a process that has none. All of these are
 * local (MPI 4.0, section 2.4): none waits for another rank, which may be without this library. */
#pragma weak PMPI_Comm_get_name
#pragma weak PMPI_Comm_group
#pragma weak PMPI_Comm_rank
#pragma weak PMPI_Comm_remote_group
#pragma weak PMPI_Comm_size
#pragma weak PMPI_Comm_test_inter
#pragma weak PMPI_File_get_group
#pragma weak PMPI_Get_elements_x
#pragma weak PMPI_Get_library_version
#pragma weak PMPI_Group_free
#pragma weak PMPI_Group_rank
#pragma weak PMPI_Group_size
#pragma weak PMPI_Group_translate_ranks
#pragma weak PMPI_Initialized
#pragma weak PMPI_Query_thread
#pragma weak PMPI_Test_cancelled
#pragma weak PMPI_Type_size
#pragma weak PMPI_Type_size_x
#pragma weak PMPI_Win_get_group

#define NPC_EXPORT __attribute__((visibility("default")))

#pragma GCC visibility push(hidden)

/* MPI's predefined handles: data in Open MPI, looked up once MPI is there. */
typedef struct {
    MPI_Comm world, no_comm;
    MPI_Win no_win;
    MPI_File no_file;
    MPI_Request no_request;
    MPI_Datatype byte;
} npc_handles;
extern npc_handles npc_predefined;
/* Finds MPI among what is loaded, and its handles; false if it is another one than this was compiled for. */
bool npc_find_mpi(void);

/* The rank's file; NULL where nothing is counted. */
extern npc_header *npc_head;
bool npc_open_file(void);
void npc_because(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void npc_note(enum npc_note note)
{
    __atomic_fetch_or(&npc_head->notes, (uint32_t)note, __ATOMIC_RELAXED);
}

/* What all threads share: taken only where several of them may call MPI at once. */
extern bool npc_threaded;
void npc_lock(void);
void npc_unlock(void);
/* A lock of one's own, 0 at first. */
void npc_lock_word(int *word);
void npc_unlock_word(int *word);

static inline uint64_t npc_mix(uint64_t bits) /* the finalizer of MurmurHash3 */
{
    bits ^= bits >> 33;
    bits *= 0xff51afd7ed558ccdULL;
    bits ^= bits >> 33;
    bits *= 0xc4ceb9fe1a85ec53ULL;
    return bits ^ bits >> 33;
}

/* The members of a communicator, window or file. */
typedef struct {
    uint64_t members;     /* their hash */
    uint64_t key;         /* the same in all of them */
    int32_t size;
    int32_t *world_rank;  /* by rank; NULL: the same */
    uint64_t collectives; /* so far */
    bool live;
} npc_group;
extern int32_t npc_rank, npc_ranks; /* in MPI_COMM_WORLD */
bool npc_open_communicators(void);
npc_group *npc_group_of(npc_index on);
/* The rank in MPI_COMM_WORLD, -1: none, or not known. */
int32_t npc_world_rank(npc_index on, int rank);
npc_index npc_register_comm(MPI_Comm comm);
void npc_name_communicators(void);

/* The threads' counters; false where there is no room. */
bool npc_open_threads(void);
/* Gives a thread its counters; false where there is no memory for them. */
bool npc_give_slab(npc_thread *self);
/* A message of so many bytes has arrived. */
void npc_add_received(npc_thread *self, uint64_t bytes);
bool npc_open_stamps(void);
void npc_read_clock(void);
void npc_open_regions(void);
void npc_close_regions(int64_t now);
void npc_open_counters(void);
void npc_read_counters(void);
void npc_add_peer(npc_thread *self, enum npc_peer_kind kind, int32_t rank, uint64_t bytes);

#pragma GCC visibility pop
#endif
