/* Point-to-point messages and collective calls: which one it is of its kind, and when it came and went.
 *
 * The k-th message of a communicator, sender, receiver and tag is the k-th for both, since MPI keeps their order. So
 * each side counts by itself, and both keep the stamps of the same ones: those whose hash has none of the bits
 * of a mask, which has one more bit each time that the table is full. */
#include "internal.h"

#include <stddef.h>
#include <string.h>

enum { STAMPS = 8192, FEWEST = 256, ALL_RANKS = 1 << 20 };
enum { SEQUENCES = 16384, REQUESTS = 32768 };
enum { SENDS, RECEIVES };

/* ---- stamps ---- */

typedef struct {
    npc_section *section;
    char *entries;
    size_t hash_at; /* of an entry's hash */
    uint64_t limit;
} stamps;

static stamps arrivals, messages[2];

static bool open_stamps(stamps *table, enum npc_kind kind, uint32_t entry_bytes, size_t hash_at)
{
    void *entries;
    /* the more ranks, the fewer of each: together they are to be read in seconds */
    int64_t limit = ALL_RANKS / (npc_ranks > 0 ? npc_ranks : 1);
    limit = limit > STAMPS ? STAMPS : limit < FEWEST ? FEWEST : limit;
    table->section = npc_new_section(kind, 0, entry_bytes, (uint32_t)limit, &entries);
    table->entries = entries;
    table->hash_at = hash_at;
    table->limit = (uint64_t)limit;
    return table->section != NULL;
}

bool npc_open_stamps(void)
{
    return open_stamps(&arrivals, NPC_ARRIVALS, sizeof(npc_arrival), offsetof(npc_arrival, hash)) &&
           open_stamps(&messages[SENDS], NPC_SENT, sizeof(npc_message), offsetof(npc_message, hash)) &&
           open_stamps(&messages[RECEIVES], NPC_RECEIVED, sizeof(npc_message), offsetof(npc_message, hash));
}

static inline uint32_t hash_of(const stamps *table, const char *entry)
{
    uint32_t hash;
    memcpy(&hash, entry + table->hash_at, sizeof hash);
    return hash;
}

/* Drops half of them. */
static void thin(stamps *table)
{
    npc_section *section = table->section;
    uint64_t kept = 0;
    section->mask = section->mask << 1 | 1;
    for (uint64_t place = 0; place < section->used; place++) {
        const char *entry = table->entries + place * section->entry_bytes;
        if ((hash_of(table, entry) & section->mask) == 0)
            memmove(table->entries + kept++ * section->entry_bytes, entry, section->entry_bytes);
    }
    section->used = kept;
}

static inline bool keeps(const stamps *table, uint32_t hash)
{
    return (hash & table->section->mask) == 0 && npc_region != NPC_PAUSED;
}

static void stamp(stamps *table, const void *entry)
{
    npc_section *section = table->section;
    npc_lock();
    while (section->used == table->limit && section->mask != UINT32_MAX)
        thin(table);
    if (section->used < table->limit && (hash_of(table, entry) & section->mask) == 0) {
        memcpy(table->entries + section->used * section->entry_bytes, entry, section->entry_bytes);
        section->used++;
    }
    npc_unlock();
}

/* ---- sequences ---- */

/* Messages so far of one communicator, tag, partner and direction. */
typedef struct {
    uint64_t key; /* communicator, direction, partner; +1, so that 0 is a free place */
    int32_t tag;
    bool broken; /* its messages can no longer be counted by both sides alike */
    uint64_t salt;
    uint64_t next;
} sequence;

static sequence sequences[SEQUENCES];
static sequence *last[2] = {sequences, sequences}; /* that was looked up, by direction */
static int used_sequences;

static inline uint32_t hash_number(uint64_t salt, uint64_t which)
{
    return (uint32_t)((salt + which) * 0x9e3779b97f4a7c15ULL >> 32); /* Fibonacci hashing */
}

/* NULL: there is no room. Called under npc_lock. */
static sequence *find_sequence(npc_index on, int direction, int32_t peer, int32_t tag)
{
    uint64_t key = ((uint64_t)on | (uint64_t)direction << 16 | (uint64_t)(uint32_t)peer << 17) + 1;
    if (last[direction]->key == key && last[direction]->tag == tag)
        return last[direction];
    uint64_t slot = npc_mix(key ^ (uint64_t)(uint32_t)tag << 32) % SEQUENCES;
    while (sequences[slot].key != 0) {
        if (sequences[slot].key == key && sequences[slot].tag == tag)
            return last[direction] = &sequences[slot];
        slot = (slot + 1) % SEQUENCES;
    }
    if (used_sequences >= SEQUENCES * 3 / 4) {
        npc_note(NPC_FULL_SEQUENCES);
        return NULL;
    }
    used_sequences++;
    sequence *new = &sequences[slot];
    new->key = key;
    new->tag = tag;
    int32_t sender = direction == SENDS ? npc_rank : peer, receiver = direction == SENDS ? peer : npc_rank;
    new->salt = npc_mix(npc_group_of(on)->key ^ npc_mix((uint64_t)(uint32_t)sender << 32 | (uint32_t)receiver) ^
                        npc_mix((uint64_t)(uint32_t)tag + 1));
    return last[direction] = new;
}

typedef struct {
    bool known;
    uint32_t hash;
    uint64_t sequence;
} number;

static number next_number(npc_index on, int direction, int32_t peer, int32_t tag)
{
    number found = {false, 0, 0};
    if (on == NPC_NONE || peer < 0)
        return found;
    npc_lock();
    sequence *line = find_sequence(on, direction, peer, tag);
    if (line != NULL && !line->broken) {
        found.known = true;
        found.sequence = line->next++;
        found.hash = hash_number(line->salt, found.sequence);
    }
    npc_unlock();
    return found;
}

static void stamp_message(const npc_thread *self, int direction, npc_index on, int32_t peer, int32_t tag,
                          number which, int64_t posted, uint64_t bytes)
{
    if (!which.known || !keeps(&messages[direction], which.hash))
        return;
    npc_message message = {
        .on = on, .call = self->call, .region = npc_region, .tag = tag, .peer = peer, .hash = which.hash,
        .sequence = which.sequence, .entered = self->entered, .left = self->left, .posted = posted,
        .bytes = bytes};
    stamp(&messages[direction], &message);
}

/* ---- blocking calls, and those that begin a send ---- */

void npc_sent(npc_thread *self, npc_index on, int dest, int tag, uint64_t bytes)
{
    if (dest == MPI_PROC_NULL)
        return;
    int32_t peer = npc_world_rank(on, dest);
    npc_add_peer(self, NPC_USER, peer, bytes);
    stamp_message(self, SENDS, on, peer, tag, next_number(on, SENDS, peer, tag), 0, bytes);
}

uint64_t npc_status_bytes(const MPI_Status *status)
{
    MPI_Count count = 0;
#ifdef OPEN_MPI
    if (status != MPI_STATUS_IGNORE)
        return status->_ucount;
#endif
    if (status == MPI_STATUS_IGNORE || PMPI_Get_elements_x(status, npc_predefined.byte, &count) != MPI_SUCCESS)
        return 0;
    return count > 0 ? (uint64_t)count : 0;
}

uint64_t npc_received(npc_thread *self, npc_index on, const MPI_Status *status)
{
    if (status == MPI_STATUS_IGNORE || status->MPI_SOURCE == MPI_PROC_NULL)
        return 0;
    uint64_t bytes = npc_status_bytes(status);
    int32_t peer = npc_world_rank(on, status->MPI_SOURCE);
    npc_add_received(self, bytes);
    stamp_message(self, RECEIVES, on, peer, status->MPI_TAG, next_number(on, RECEIVES, peer, status->MPI_TAG),
                  self->entered, bytes);
    return bytes;
}

void npc_matched(npc_thread *self, npc_index on, const MPI_Status *status)
{
    (void)self;
    if (status != MPI_STATUS_IGNORE && status->MPI_SOURCE != MPI_PROC_NULL)
        next_number(on, RECEIVES, npc_world_rank(on, status->MPI_SOURCE), status->MPI_TAG);
}

void npc_put(npc_thread *self, npc_index on, int target, uint64_t bytes)
{
    if (target != MPI_PROC_NULL)
        npc_add_peer(self, NPC_PUT, npc_world_rank(on, target), bytes);
}

void npc_get(npc_thread *self, npc_index on, int target, uint64_t bytes)
{
    if (target != MPI_PROC_NULL)
        npc_add_peer(self, NPC_GET, npc_world_rank(on, target), bytes);
}

/* ---- requests ---- */

enum kind { FREE, RECEIVE, MATCHED_RECEIVE, SEND, PARTITIONED_SEND, PARTITIONED_RECEIVE, COLLECTIVE, DUPLICATE };

/* A receive, a collective call or a persistent operation that is under way. */
typedef struct {
    uintptr_t handle;
    uint8_t kind;
    bool persistent, active, cancelled;
    npc_index on;
    uint16_t call;       /* that began it */
    int32_t peer, tag;   /* peer: a world rank, or MPI_ANY_SOURCE */
    int32_t root;
    number which;
    int64_t posted;
    uint64_t bytes;
    MPI_Comm *made;
} request;

static request requests[REQUESTS];
static int used_requests;

static unsigned slot_of(uintptr_t handle)
{
    return (unsigned)(npc_mix(handle) % REQUESTS);
}

static request *find_request(uintptr_t handle)
{
    if (used_requests == 0)
        return NULL;
    for (unsigned slot = slot_of(handle); requests[slot].kind != FREE; slot = (slot + 1) % REQUESTS)
        if (requests[slot].handle == handle)
            return &requests[slot];
    return NULL;
}

static void remove_request(request *found)
{
    unsigned slot = (unsigned)(found - requests);
    used_requests--;
    for (unsigned next = (slot + 1) % REQUESTS; requests[next].kind != FREE; next = (next + 1) % REQUESTS) {
        unsigned home = slot_of(requests[next].handle);
        if ((next + REQUESTS - home) % REQUESTS >= (next + REQUESTS - slot) % REQUESTS) {
            requests[slot] = requests[next];
            slot = next;
        }
    }
    requests[slot].kind = FREE;
}

static void add_request(const request *new)
{
    if ((uintptr_t)new->handle == (uintptr_t)npc_predefined.no_request)
        return;
    npc_lock();
    request *place = find_request(new->handle);
    if (place == NULL && used_requests < REQUESTS * 3 / 4) {
        unsigned slot = slot_of(new->handle);
        while (requests[slot].kind != FREE)
            slot = (slot + 1) % REQUESTS;
        place = &requests[slot];
        used_requests++;
    }
    if (place != NULL)
        *place = *new;
    else
        npc_note(NPC_FULL_REQUESTS);
    npc_unlock();
}

/* The world rank of a receive's source, MPI_ANY_SOURCE as it is. */
static int32_t source_rank(npc_index on, int source)
{
    return source == MPI_ANY_SOURCE ? source : npc_world_rank(on, source);
}

static bool any(const request *found)
{
    return found->peer == MPI_ANY_SOURCE || found->tag == MPI_ANY_TAG;
}

void npc_irecv(npc_thread *self, MPI_Request handle, npc_index on, int source, int tag)
{
    if (source == MPI_PROC_NULL)
        return;
    request new = {
        .handle = (uintptr_t)handle, .kind = RECEIVE, .active = true, .on = on, .call = self->call,
        .peer = source_rank(on, source), .tag = tag, .posted = self->entered};
    if (!any(&new))
        new.which = next_number(on, RECEIVES, new.peer, tag);
    add_request(&new);
}

void npc_imrecv(npc_thread *self, MPI_Request handle)
{
    request new = {
        .handle = (uintptr_t)handle, .kind = MATCHED_RECEIVE, .active = true, .call = self->call,
        .posted = self->entered};
    add_request(&new);
}

void npc_send_init(npc_thread *self, MPI_Request handle, npc_index on, int dest, int tag, uint64_t bytes)
{
    request new = {
        .handle = (uintptr_t)handle, .kind = SEND, .persistent = true, .on = on, .call = self->call,
        .peer = dest == MPI_PROC_NULL ? MPI_PROC_NULL : npc_world_rank(on, dest), .tag = tag, .bytes = bytes};
    if (dest != MPI_PROC_NULL)
        add_request(&new);
}

void npc_psend_init(npc_thread *self, MPI_Request handle, npc_index on, int dest, uint64_t bytes)
{
    request new = {
        .handle = (uintptr_t)handle, .kind = PARTITIONED_SEND, .persistent = true, .on = on, .call = self->call,
        .peer = npc_world_rank(on, dest), .bytes = bytes};
    if (dest != MPI_PROC_NULL)
        add_request(&new);
}

void npc_precv_init(npc_thread *self, MPI_Request handle, npc_index on, int source, uint64_t bytes)
{
    request new = {
        .handle = (uintptr_t)handle, .kind = PARTITIONED_RECEIVE, .persistent = true, .on = on,
        .call = self->call, .bytes = bytes};
    if (source != MPI_PROC_NULL)
        add_request(&new);
}

void npc_recv_init(npc_thread *self, MPI_Request handle, npc_index on, int source, int tag)
{
    request new = {
        .handle = (uintptr_t)handle, .kind = RECEIVE, .persistent = true, .on = on, .call = self->call,
        .peer = source_rank(on, source), .tag = tag};
    if (source != MPI_PROC_NULL)
        add_request(&new);
}

/* ---- collective calls ---- */

/* The next one on a communicator: all of its ranks call them in the same order. */
static number next_collective(npc_index on)
{
    npc_group *group = npc_group_of(on);
    number which = {on != NPC_NONE && group->live, 0, 0};
    if (which.known) {
        which.sequence = group->collectives++;
        which.hash = hash_number(group->key, which.sequence);
    }
    return which;
}

static int32_t root_rank(npc_index on, int root)
{
    if (root == NPC_NO_ROOT || root == MPI_PROC_NULL)
        return -1;
    return root == MPI_ROOT ? npc_rank : npc_world_rank(on, root);
}

static void stamp_arrival(npc_index on, uint16_t call, int32_t root, number which, int64_t entered, int64_t left)
{
    if (!which.known || !keeps(&arrivals, which.hash))
        return;
    npc_arrival arrival = {
        .on = on, .call = call, .region = npc_region, .root = root, .hash = which.hash,
        .sequence = which.sequence, .entered = entered, .left = left};
    stamp(&arrivals, &arrival);
}

void npc_collective(npc_thread *self, npc_index on, int root)
{
    stamp_arrival(on, self->call, root_rank(on, root), next_collective(on), self->entered, self->left);
}

void npc_icollective(npc_thread *self, MPI_Request handle, npc_index on, int root)
{
    request new = {
        .handle = (uintptr_t)handle, .kind = COLLECTIVE, .active = true, .on = on, .call = self->call,
        .root = root_rank(on, root), .which = next_collective(on), .posted = self->entered};
    add_request(&new);
}

void npc_collective_init(npc_thread *self, MPI_Request handle, npc_index on, int root, uint64_t bytes)
{
    request new = {
        .handle = (uintptr_t)handle, .kind = COLLECTIVE, .persistent = true, .on = on, .call = self->call,
        .root = root_rank(on, root), .bytes = bytes};
    add_request(&new);
}

void npc_comm_idup(npc_thread *self, MPI_Request handle, npc_index on, MPI_Comm *made)
{
    request new = {
        .handle = (uintptr_t)handle, .kind = DUPLICATE, .active = true, .on = on, .call = self->call,
        .root = -1, .which = next_collective(on), .posted = self->entered, .made = made};
    add_request(&new);
}

/* ---- beginning and ending them ---- */

/* The communicator of several requests: none if they differ. */
static npc_index common(npc_index so_far, npc_index on, bool first)
{
    return first || so_far == on ? on : NPC_NONE;
}

void npc_count_started(npc_thread *self, int n, const MPI_Request *handles)
{
    npc_index on = NPC_NONE;
    uint64_t bytes = 0;
    bool first = true;
    for (int i = 0; i < n; i++) {
        npc_lock();
        request *found = find_request((uintptr_t)handles[i]);
        npc_unlock();
        if (found == NULL)
            continue;
        found->active = true;
        found->posted = self->entered;
        on = common(on, found->on, first);
        first = false;
        if (found->kind == SEND || found->kind == PARTITIONED_SEND) {
            npc_add_peer(self, NPC_USER, found->peer, found->bytes);
            bytes += found->bytes;
        }
        if (found->kind == SEND)
            stamp_message(self, SENDS, found->on, found->peer, found->tag,
                          next_number(found->on, SENDS, found->peer, found->tag), 0, found->bytes);
        else if (found->kind == RECEIVE && !any(found))
            found->which = next_number(found->on, RECEIVES, found->peer, found->tag);
        else if (found->kind == COLLECTIVE) {
            found->which = next_collective(found->on);
            bytes += found->bytes;
        }
    }
    npc_count(self, on, bytes);
}

/* A receive that was cancelled has taken no message: from here on the two sides count differently. */
static bool was_cancelled(const request *found, const MPI_Status *status)
{
    int flag = 0;
    if (status == MPI_STATUS_IGNORE || PMPI_Test_cancelled(status, &flag) != MPI_SUCCESS || !flag)
        return false;
    if (found->which.known) {
        npc_lock();
        sequence *line = find_sequence(found->on, RECEIVES, found->peer, found->tag);
        if (line != NULL)
            line->broken = true;
        npc_unlock();
    }
    return true;
}

static uint64_t complete(npc_thread *self, const request *found, const MPI_Status *status)
{
    int32_t peer = found->peer, tag = found->tag;
    number which = found->which;
    uint64_t bytes;
    switch (found->kind) {
    case MATCHED_RECEIVE:
        bytes = npc_status_bytes(status);
        npc_add_received(self, bytes);
        return bytes;
    case PARTITIONED_RECEIVE:
        npc_add_received(self, found->bytes);
        return found->bytes;
    case RECEIVE:
        if (found->cancelled && was_cancelled(found, status))
            return 0;
        bytes = npc_status_bytes(status);
        npc_add_received(self, bytes);
        if (any(found)) {
            if (status == MPI_STATUS_IGNORE)
                return bytes;
            peer = npc_world_rank(found->on, status->MPI_SOURCE);
            tag = status->MPI_TAG;
            which = next_number(found->on, RECEIVES, peer, tag);
        }
        stamp_message(self, RECEIVES, found->on, peer, tag, which, found->posted, bytes);
        return bytes;
    case DUPLICATE:
        npc_comm_made(self, *found->made);
        /* fall through */
    case COLLECTIVE:
        stamp_arrival(found->on, found->call, found->root, which, found->posted, self->left);
        return 0;
    default:
        return 0;
    }
}

void npc_count_completed(npc_thread *self, int n, const int *indices, const MPI_Request *was,
                         const MPI_Status *statuses)
{
    npc_index on = NPC_NONE;
    uint64_t bytes = 0;
    bool first = true;
    for (int i = 0; was != NULL && n != MPI_UNDEFINED && i < n; i++) {
        request copy;
        npc_lock();
        request *found = find_request((uintptr_t)was[indices != NULL ? indices[i] : i]);
        bool known = found != NULL && found->active;
        if (known) {
            copy = *found;
            if (copy.persistent)
                found->active = false;
            else
                remove_request(found);
        }
        npc_unlock();
        if (!known)
            continue;
        bytes += complete(self, &copy, statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i]);
        on = common(on, copy.on, first);
        first = false;
    }
    npc_count(self, on, bytes);
}

void npc_request_freed(npc_thread *self, MPI_Request handle)
{
    if (self == NULL)
        return;
    npc_lock();
    request *found = find_request((uintptr_t)handle);
    if (found != NULL)
        remove_request(found);
    npc_unlock();
}

void npc_request_cancelled(npc_thread *self, MPI_Request handle)
{
    if (self == NULL)
        return;
    npc_lock();
    request *found = find_request((uintptr_t)handle);
    if (found != NULL)
        found->cancelled = true;
    npc_unlock();
}
