/* What generated wrappers call around PMPI: counting calls, messages and moments in a rank's mapped file.
 *
 * A wrapper enters, calls PMPI, leaves, tells what it knows, and ends with one of the npc_count… functions:
 *
 *     npc_thread *self = npc_enter(NPC_MPI_Send);
 *     int code = PMPI_Send(buf, count, datatype, dest, tag, comm);
 *     if (npc_leave(self, code)) {
 *         npc_index on = npc_comm(self, comm);
 *         uint64_t bytes = npc_bytes(count, datatype);
 *         npc_sent(self, on, dest, tag, bytes);
 *         npc_count(self, on, bytes);
 *     }
 *     return code;
 *
 * npc_enter gives NULL within another MPI call, and where nothing is to be counted; only npc_leave, npc_status,
 * npc_statuses and npc_requests take a NULL. The library is not linked with an MPI, so that it does no harm in
 * front of a shell or of Python: functions of MPI are found when they are first called, but its data are not
 * there while the library is loaded. No wrapper may therefore name a predefined handle (MPI_COMM_WORLD, MPI_BYTE,
 * MPI_REQUEST_NULL, …: data in Open MPI), nor take the address of a PMPI function.
 */
#ifndef NPC_RUNTIME_H
#define NPC_RUNTIME_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "calls.h" /* generated: enum npc_call { NPC_MPI_Send, …, NPC_CALLS } */
#include "file.h"

#pragma GCC visibility push(hidden)

/* The number of a communicator, window or file in the rank's file. */
typedef uint16_t npc_index;
enum { NPC_NONE = 0 }; /* none, or one that is not known */

typedef struct npc_slab npc_slab;

/* A thread; its counters are in its slab, the last of which is shared by all threads that came too late. */
typedef struct {
    int inside; /* within an MPI call, or for ever where nothing is counted */
    bool shared;
    uint16_t call;
    npc_index comm_index;
    uint32_t comm_age;
    MPI_Comm comm; /* the last one that was looked up, while no other was freed (comm_age) */
    int64_t entered, left;
    npc_calls **recent; /* the entry that a call used last */
    npc_thread_place *place;
    npc_slab *slab;
} npc_thread;

extern __thread npc_thread npc_self __attribute__((tls_model("initial-exec")));
extern int64_t npc_next_snapshot; /* when npc_snapshot is to be called; never: INT64_MAX */
extern uint16_t npc_region;       /* the innermost one, or NPC_PAUSED */
extern uint32_t npc_comm_age;     /* communicators freed so far */
enum { NPC_PAUSED = 0xffff };

bool npc_attach(npc_thread *self);
npc_calls *npc_find_calls(npc_thread *self, uint64_t key);
void npc_count_shared(npc_thread *self, uint64_t key, uint64_t bytes);
npc_index npc_find_comm(npc_thread *self, MPI_Comm comm);
uint64_t npc_large_bytes(uint64_t count, MPI_Datatype datatype);

/* The MPI library's own variables (variables.c): by the thread that leaves a call after npc_next_snapshot, which
 * npc_snapshot then sets anew. */
void npc_snapshot(int64_t now);
/* So far: calls, seconds in them, messages and bytes sent, messages and bytes received. */
void npc_totals(double out[6]);

/* CLOCK_MONOTONIC in nanoseconds. */
static inline int64_t npc_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline npc_thread *npc_enter(enum npc_call call)
{
    npc_thread *self = &npc_self;
    if (self->inside || (__builtin_expect(self->slab == NULL, 0) && !npc_attach(self)))
        return NULL;
    self->inside = 1;
    self->call = (uint16_t)call;
    self->entered = npc_now();
    self->place->call = (uint16_t)call;
    self->place->entered = self->entered;
    return self;
}

/* 0 for nothing, k for 2^(k-1) … 2^k - 1 bytes. */
static inline unsigned npc_size_class(uint64_t bytes)
{
    return bytes ? 64 - (unsigned)__builtin_clzll(bytes) : 0;
}

/* Ends the call: it is counted with the bytes that the rank handed over or got. */
static inline void npc_count(npc_thread *self, npc_index on, uint64_t bytes)
{
    uint16_t region = npc_region;
    if (__builtin_expect(region != NPC_PAUSED, 1)) {
        uint64_t key = self->call | (uint64_t)region << 16 | (uint64_t)on << 32 | (uint64_t)npc_size_class(bytes) << 48;
        if (__builtin_expect(self->shared, 0)) {
            npc_count_shared(self, key, bytes);
        } else {
            npc_calls *calls = self->recent[self->call];
            if (__builtin_expect(calls->key != key, 0))
                calls = npc_find_calls(self, key);
            calls->calls++;
            calls->nanoseconds += (uint64_t)(self->left - self->entered);
            calls->bytes += bytes;
        }
    }
    self->place->left = self->left;
    if (__builtin_expect(self->left >= npc_next_snapshot, 0))
        npc_snapshot(self->left);
    self->inside = 0;
}

/* Whether the wrapper has anything to tell: a call that failed is counted here, without bytes. */
static inline bool npc_leave(npc_thread *self, int code)
{
    if (self == NULL)
        return false;
    self->left = npc_now();
    if (__builtin_expect(code == MPI_SUCCESS, 1))
        return true;
    npc_count(self, NPC_NONE, 0);
    return false;
}

static inline npc_index npc_comm(npc_thread *self, MPI_Comm comm)
{
    return comm == self->comm && self->comm_age == npc_comm_age ? self->comm_index : npc_find_comm(self, comm);
}

/* Of `count` elements. The datatype must be one that the call reads: it must not be asked for where
 * MPI_IN_PLACE or another root's rank makes it insignificant. */
static inline uint64_t npc_bytes(uint64_t count, MPI_Datatype datatype)
{
    int size;
    if (count == 0)
        return 0;
    if (PMPI_Type_size(datatype, &size) == MPI_SUCCESS && size >= 0)
        return count * (uint64_t)size;
    return npc_large_bytes(count, datatype);
}

/* A place for a status where the program wants none; `own` is the wrapper's. */
static inline MPI_Status *npc_status(npc_thread *self, MPI_Status *status, MPI_Status *own)
{
    return self != NULL && status == MPI_STATUS_IGNORE ? own : status;
}

/* Grow-only memory of this thread, of its own for each `place`; NULL where there is no more. */
enum npc_place { NPC_REQUESTS, NPC_STATUSES, NPC_FORTRAN_REQUESTS, NPC_FORTRAN_STATUSES, NPC_INDICES, NPC_PLACES };
void *npc_scratch(enum npc_place place, size_t bytes);
/* As npc_status for n of them. */
MPI_Status *npc_statuses(npc_thread *self, int n, MPI_Status *statuses);
/* A copy of the requests as they are before the call that may end them; NULL if self is. */
const MPI_Request *npc_requests(npc_thread *self, int n, const MPI_Request *requests);

/* Ranks of a communicator, window or file; of an intercommunicator, of the other group. */
int npc_size(npc_index on);

/* Point to point. Ranks are the communicator's; MPI_PROC_NULL is no message. */
void npc_sent(npc_thread *self, npc_index on, int dest, int tag, uint64_t bytes); /* also MPI_Isend … */
uint64_t npc_received(npc_thread *self, npc_index on, const MPI_Status *status);  /* its bytes */
uint64_t npc_status_bytes(const MPI_Status *status);
void npc_irecv(npc_thread *self, MPI_Request request, npc_index on, int source, int tag);
void npc_imrecv(npc_thread *self, MPI_Request request);
/* MPI_Mprobe, and MPI_Improbe that found a message. */
void npc_matched(npc_thread *self, npc_index on, const MPI_Status *status);
void npc_send_init(npc_thread *self, MPI_Request request, npc_index on, int dest, int tag, uint64_t bytes);
void npc_recv_init(npc_thread *self, MPI_Request request, npc_index on, int source, int tag);
/* MPI_Psend_init and MPI_Precv_init, whose messages have no sequence with the others'; bytes of all partitions. */
void npc_psend_init(npc_thread *self, MPI_Request request, npc_index on, int dest, uint64_t bytes);
void npc_precv_init(npc_thread *self, MPI_Request request, npc_index on, int source, uint64_t bytes);

/* Ends MPI_Start, MPI_Startall. */
void npc_count_started(npc_thread *self, int n, const MPI_Request *requests);
/* Ends MPI_Wait…, MPI_Test… of `n` requests that are complete (0 or MPI_UNDEFINED: of none): those of `was`
 * (npc_requests) at `indices`, or the first n where that is NULL; statuses[i] belongs to the i-th of them. */
void npc_count_completed(npc_thread *self, int n, const int *indices, const MPI_Request *was,
                         const MPI_Status *statuses);
/* Before MPI_Request_free; before MPI_Cancel. Both take what npc_enter gave and tolerate NULL. */
void npc_request_freed(npc_thread *self, MPI_Request request);
void npc_request_cancelled(npc_thread *self, MPI_Request request);

/* Collective calls on communicators, windows (MPI_Win_fence) and files: stamps of arriving and leaving.
 * root: the call's own argument (MPI_ROOT and MPI_PROC_NULL as well), NPC_NO_ROOT where it has none. */
enum { NPC_NO_ROOT = -1000000 };
void npc_collective(npc_thread *self, npc_index on, int root);
void npc_icollective(npc_thread *self, MPI_Request request, npc_index on, int root);
void npc_collective_init(npc_thread *self, MPI_Request request, npc_index on, int root, uint64_t bytes);

/* One-sided: bytes to or from a rank of the window. */
npc_index npc_win(npc_thread *self, MPI_Win win);
void npc_put(npc_thread *self, npc_index on, int target, uint64_t bytes); /* also MPI_Accumulate … */
void npc_get(npc_thread *self, npc_index on, int target, uint64_t bytes);
npc_index npc_file(npc_thread *self, MPI_File file);

/* After creation (…_NULL is none) and before the end of communicators, windows, files. The latter take what
 * npc_enter gave and tolerate NULL. */
void npc_comm_made(npc_thread *self, MPI_Comm comm);
void npc_comm_freed(npc_thread *self, MPI_Comm comm);
void npc_comm_idup(npc_thread *self, MPI_Request request, npc_index on, MPI_Comm *made);
void npc_win_made(npc_thread *self, MPI_Win win);
void npc_win_freed(npc_thread *self, MPI_Win win);
void npc_file_made(npc_thread *self, MPI_File file);
void npc_file_freed(npc_thread *self, MPI_File file);

/* After MPI_Init… has succeeded; before MPI_Finalize. */
void npc_initialized(int thread_level);
void npc_finalizing(void);
void npc_aborting(void);
/* After MPI_Session_init, which gives no MPI_COMM_WORLD. */
void npc_session(void);
/* name: the second argument, whatever it is. */
void npc_pcontrol(int level, const void *name);

#pragma GCC visibility pop
#endif
