/* The counters of each thread. */
#define _GNU_SOURCE
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CALLS = 2048, SLOTS = 2 * CALLS, PEERS = 16384 };
/* The last entries are for calls by name alone, once there is no room for more. */
enum { BY_NAME = 512 };

_Static_assert((int)NPC_CALLS <= BY_NAME, "each call needs an entry of its own");

struct npc_slab {
    npc_section *section;
    npc_calls *calls;
    uint16_t slots[SLOTS]; /* key's hash → entry + 1 */
    npc_calls *recent[NPC_CALLS];
    npc_section *peer_section;
    npc_peer *peers;
    uint32_t *peer_of; /* world rank → entry + 1 */
    npc_thread_place *place;
    uint64_t received, received_bytes;
    bool shared;
    int lock;
};

__thread npc_thread npc_self __attribute__((tls_model("initial-exec")));
static npc_slab *slabs[NPC_THREADS];
static int threads;
static npc_thread_place *places;
static npc_calls no_calls = {.key = UINT64_MAX};

bool npc_open_threads(void)
{
    void *entries;
    npc_section *section = npc_new_section(NPC_PLACE, 0, sizeof(npc_thread_place), NPC_THREADS, &entries);
    if (section == NULL)
        return false;
    places = entries;
    section->used = NPC_THREADS;
    return true;
}

static npc_slab *new_slab(int number)
{
    void *entries;
    npc_slab *slab = mmap(NULL, sizeof *slab, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab == MAP_FAILED)
        return NULL;
    slab->section = npc_new_section(NPC_COUNTS, (uint32_t)number, sizeof(npc_calls), CALLS, &entries);
    slab->calls = entries;
    if (slab->section == NULL) {
        munmap(slab, sizeof *slab);
        return NULL;
    }
    for (int call = 0; call < NPC_CALLS; call++)
        slab->recent[call] = &no_calls;
    slab->place = &places[number];
    slab->shared = number == NPC_THREADS - 1;
    return slab;
}

bool npc_give_slab(npc_thread *self)
{
    int number = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
    if (number >= NPC_THREADS) {
        npc_note(NPC_MANY_THREADS);
        number = NPC_THREADS - 1;
    }
    static int making;
    npc_lock_word(&making);
    if (slabs[number] == NULL)
        slabs[number] = new_slab(number);
    npc_slab *slab = slabs[number];
    npc_unlock_word(&making);
    if (slab == NULL) {
        npc_note(NPC_NO_MEMORY);
        return false;
    }
    __atomic_fetch_add(&npc_head->threads, 1, __ATOMIC_RELAXED);
    self->shared = slab->shared;
    self->recent = slab->recent;
    self->place = slab->place;
    self->slab = slab;
    return true;
}

/* ---- counting ---- */

/* The entry of a key, a new one if there is none. */
static npc_calls *find(npc_slab *slab, uint64_t key)
{
    uint64_t slot = npc_mix(key) % SLOTS;
    while (slab->slots[slot] != 0) {
        npc_calls *calls = &slab->calls[slab->slots[slot] - 1];
        if (calls->key == key)
            return calls;
        slot = (slot + 1) % SLOTS;
    }
    uint64_t used = slab->section->used, by_name = key & 0xffff;
    if (used >= CALLS - BY_NAME && key != by_name) {
        npc_note(NPC_FULL_CALLS);
        return find(slab, by_name);
    }
    slab->calls[used].key = key;
    slab->slots[slot] = (uint16_t)(used + 1);
    slab->section->used = used + 1;
    return &slab->calls[used];
}

npc_calls *npc_find_calls(npc_thread *self, uint64_t key)
{
    npc_calls *calls = find(self->slab, key);
    self->recent[self->call] = calls;
    return calls;
}

void npc_count_shared(npc_thread *self, uint64_t key, uint64_t bytes)
{
    npc_lock_word(&self->slab->lock);
    npc_calls *calls = find(self->slab, key);
    calls->calls++;
    calls->nanoseconds += (uint64_t)(self->left - self->entered);
    calls->bytes += bytes;
    npc_unlock_word(&self->slab->lock);
}

static void add_peer(npc_slab *slab, enum npc_peer_kind kind, int32_t rank, uint64_t bytes)
{
    if (slab->peer_of == NULL) {
        void *entries;
        uint32_t capacity = npc_ranks < PEERS ? (uint32_t)npc_ranks : PEERS;
        size_t size = (size_t)npc_ranks * NPC_PEER_KINDS * sizeof *slab->peer_of;
        slab->peer_section = npc_new_section(NPC_PEERS, (uint32_t)(slab->place - places), sizeof(npc_peer),
                                             NPC_PEER_KINDS * capacity, &entries);
        slab->peers = entries;
        slab->peer_of = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    npc_section *section = slab->peer_section;
    if (section == NULL || slab->peer_of == MAP_FAILED) {
        npc_note(NPC_FULL_PEERS);
        return;
    }
    uint32_t *known = &slab->peer_of[(uint32_t)rank * NPC_PEER_KINDS + kind];
    if (*known == 0) {
        if (section->used == section->capacity) {
            npc_note(NPC_FULL_PEERS);
            return;
        }
        slab->peers[section->used].rank = rank;
        slab->peers[section->used].kind = kind;
        *known = (uint32_t)++section->used;
    }
    npc_peer *peer = &slab->peers[*known - 1];
    peer->bytes += bytes;
    peer->messages++;
}

void npc_add_peer(npc_thread *self, enum npc_peer_kind kind, int32_t rank, uint64_t bytes)
{
    if (rank < 0) {
        npc_note(NPC_OTHER_WORLD);
        return;
    }
    if (npc_region == NPC_PAUSED)
        return;
    if (self->shared)
        npc_lock_word(&self->slab->lock);
    add_peer(self->slab, kind, rank, bytes);
    if (self->shared)
        npc_unlock_word(&self->slab->lock);
}

void npc_add_received(npc_thread *self, uint64_t bytes)
{
    self->slab->received++;
    self->slab->received_bytes += bytes;
}

void npc_totals(double out[6])
{
    memset(out, 0, 6 * sizeof *out);
    for (int thread = 0; thread < NPC_THREADS && slabs[thread] != NULL; thread++) {
        const npc_slab *slab = slabs[thread];
        for (uint64_t place = 0; place < slab->section->used; place++) {
            out[0] += (double)slab->calls[place].calls;
            out[1] += 1e-9 * (double)slab->calls[place].nanoseconds;
        }
        for (uint64_t place = 0; slab->peer_section != NULL && place < slab->peer_section->used; place++) {
            const npc_peer *peer = &slab->peers[place];
            out[2] += peer->kind == NPC_USER ? (double)peer->messages : 0;
            out[3] += peer->kind == NPC_USER ? (double)peer->bytes : 0;
        }
        out[4] += (double)slab->received;
        out[5] += (double)slab->received_bytes;
    }
}

uint64_t npc_large_bytes(uint64_t count, MPI_Datatype datatype)
{
    MPI_Count size;
    if (PMPI_Type_size_x(datatype, &size) != MPI_SUCCESS || size < 0)
        return 0;
    return count * (uint64_t)size;
}

/* ---- memory of the wrappers ---- */

static __thread struct {
    void *begin;
    size_t bytes;
} scratch[NPC_PLACES] __attribute__((tls_model("initial-exec")));

void *npc_scratch(enum npc_place place, size_t bytes)
{
    if (scratch[place].bytes < bytes) {
        size_t more = bytes < 4096 ? 4096 : 2 * bytes;
        void *begin = realloc(scratch[place].begin, more);
        if (begin == NULL)
            return NULL;
        scratch[place].begin = begin;
        scratch[place].bytes = more;
    }
    return scratch[place].begin;
}

MPI_Status *npc_statuses(npc_thread *self, int n, MPI_Status *statuses)
{
    if (self == NULL || n <= 0 || statuses != MPI_STATUSES_IGNORE)
        return statuses;
    MPI_Status *own = npc_scratch(NPC_STATUSES, (size_t)n * sizeof *own);
    return own != NULL ? own : statuses;
}

const MPI_Request *npc_requests(npc_thread *self, int n, const MPI_Request *requests)
{
    if (self == NULL || n <= 0)
        return NULL;
    MPI_Request *copies = npc_scratch(NPC_REQUESTS, (size_t)n * sizeof *copies);
    if (copies != NULL)
        memcpy(copies, requests, (size_t)n * sizeof *copies);
    return copies;
}
