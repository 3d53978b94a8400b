/* Communicators, windows and files: which ranks they have, and a key that is the same in all of these.
 *
 * The key is made of the members and of how many others with these members the rank has at that time. Without
 * a message: MPI wants all members to create and to free them in the same order. One that is created again after it
 * was freed goes on as the former one, so that a loop of both needs no more room. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = NPC_OTHERS + 1, HANDLES = 8192 };
enum { COMMUNICATOR, WINDOW, FILE_ };

int32_t npc_rank, npc_ranks;
uint32_t npc_comm_age = 1;
static npc_group groups[GROUPS];
static npc_comm_entry *entries;
static npc_section *section;
static MPI_Group world_group;

/* Handle → number; an open hash table with linear probing. */
static struct {
    uintptr_t handle;
    MPI_Comm comm; /* of a communicator */
    npc_index on;
} handles[HANDLES];
static int used_handles;

static unsigned slot_of(uintptr_t handle)
{
    return (unsigned)(npc_mix(handle) % HANDLES);
}

static npc_index find_handle(uintptr_t handle)
{
    for (unsigned slot = slot_of(handle); handles[slot].on != 0; slot = (slot + 1) % HANDLES)
        if (handles[slot].handle == handle)
            return handles[slot].on;
    return NPC_NONE;
}

static void add_handle(uintptr_t handle, npc_index on, MPI_Comm comm)
{
    unsigned slot = slot_of(handle);
    while (handles[slot].on != 0 && handles[slot].handle != handle)
        slot = (slot + 1) % HANDLES;
    if (handles[slot].on == 0) {
        if (used_handles > HANDLES * 3 / 4) {
            npc_note(NPC_FULL_COMMS);
            return;
        }
        used_handles++;
    }
    handles[slot].handle = handle;
    handles[slot].comm = comm;
    handles[slot].on = on;
}

static npc_index remove_handle(uintptr_t handle)
{
    unsigned slot = slot_of(handle);
    while (handles[slot].on != 0 && handles[slot].handle != handle)
        slot = (slot + 1) % HANDLES;
    npc_index on = handles[slot].on;
    if (on == 0)
        return NPC_NONE;
    used_handles--;
    /* those behind it move up, so that they are found without it */
    for (unsigned next = (slot + 1) % HANDLES; handles[next].on != 0; next = (next + 1) % HANDLES) {
        unsigned home = slot_of(handles[next].handle);
        if ((next + HANDLES - home) % HANDLES >= (next + HANDLES - slot) % HANDLES) {
            handles[slot] = handles[next];
            slot = next;
        }
    }
    handles[slot].on = 0;
    return on;
}

/* World ranks of a group's members, or NULL where they are rank for rank those of MPI_COMM_WORLD. */
static int32_t *world_ranks(MPI_Group group, int size, uint64_t *hash)
{
    int *own = malloc(2 * sizeof *own * (size_t)(size > 0 ? size : 1));
    if (own == NULL)
        return NULL;
    int *world = own + size;
    for (int rank = 0; rank < size; rank++)
        own[rank] = rank;
    if (size > 0 && PMPI_Group_translate_ranks(group, size, own, world_group, world) != MPI_SUCCESS)
        size = 0;
    bool same = size == npc_ranks;
    for (int rank = 0; rank < size; rank++) {
        if (world[rank] < 0) /* MPI_UNDEFINED: of another world */
            world[rank] = -1;
        same = same && world[rank] == rank;
        *hash = npc_mix(*hash + (uint64_t)(int64_t)world[rank]);
    }
    memmove(own, world, sizeof *own * (size_t)size);
    if (same) {
        free(own);
        return NULL;
    }
    return own;
}

/* `remote`: MPI_GROUP_NULL's place where there is none is told by `inter`. */
static npc_index register_group(int kind, const char *name, MPI_Group group, bool inter, MPI_Group remote)
{
    int size = 0;
    uint64_t hash = npc_mix((uint64_t)kind + 1);
    PMPI_Group_size(inter ? remote : group, &size);
    int32_t *ranks = world_ranks(inter ? remote : group, size, &hash);
    if (inter) { /* both sides shall find the same */
        uint64_t other = npc_mix((uint64_t)kind + 1);
        int local = 0;
        PMPI_Group_size(group, &local);
        free(world_ranks(group, local, &other));
        hash = npc_mix(hash + other);
    }
    uint64_t ordinal = 0;
    for (npc_index on = 1; on <= section->used && on < NPC_OTHERS; on++) {
        if (groups[on].members != hash)
            continue;
        if (!groups[on].live) {
            groups[on].live = true;
            free(ranks);
            return on;
        }
        ordinal++;
    }
    if (section->used + 1 >= NPC_OTHERS) {
        npc_note(NPC_FULL_COMMS);
        free(ranks);
        return NPC_OTHERS;
    }
    npc_index on = (npc_index)++section->used;
    groups[on] = (npc_group){
        .members = hash, .key = npc_mix(hash + ordinal), .size = size, .world_rank = ranks, .live = true};
    npc_comm_entry *entry = &entries[on - 1];
    entry->key = groups[on].key;
    entry->size = size;
    entry->kind = (uint32_t)kind;
    strncpy(entry->name, name, sizeof entry->name - 1);
    return on;
}

/* The name that the program gave; Open MPI itself names "MPI COMMUNICATOR 3 DUP FROM 0", which is none. */
static void name_communicator(MPI_Comm comm, npc_index on)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length = 0;
    if (on == NPC_OTHERS || PMPI_Comm_get_name(comm, name, &length) != MPI_SUCCESS)
        return;
    if (strncmp(name, "MPI COMMUNICATOR ", 17) != 0 && strncmp(name, "MPI_COMM_NULL", 13) != 0)
        snprintf(entries[on - 1].name, sizeof entries[on - 1].name, "%s", name);
}

void npc_name_communicators(void)
{
    for (int slot = 0; slot < HANDLES; slot++)
        if (handles[slot].on != 0 && handles[slot].on != NPC_OTHERS && entries[handles[slot].on - 1].kind == COMMUNICATOR)
            name_communicator(handles[slot].comm, handles[slot].on);
}

npc_index npc_register_comm(MPI_Comm comm)
{
    MPI_Group group, remote;
    int inter = 0;
    if (comm == npc_predefined.no_comm || PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS ||
        PMPI_Comm_group(comm, &group) != MPI_SUCCESS)
        return NPC_NONE;
    if (!inter || PMPI_Comm_remote_group(comm, &remote) != MPI_SUCCESS)
        inter = 0;
    npc_index on = register_group(COMMUNICATOR, "", group, inter, inter ? remote : group);
    PMPI_Group_free(&group);
    if (inter)
        PMPI_Group_free(&remote);
    name_communicator(comm, on);
    add_handle((uintptr_t)comm, on, comm);
    return on;
}

bool npc_open_communicators(void)
{
    void *begin;
    section = npc_new_section(NPC_COMMS, 0, sizeof(npc_comm_entry), NPC_OTHERS, &begin);
    entries = begin;
    if (section == NULL || PMPI_Comm_rank(npc_predefined.world, &npc_rank) != MPI_SUCCESS ||
        PMPI_Comm_size(npc_predefined.world, &npc_ranks) != MPI_SUCCESS ||
        PMPI_Comm_group(npc_predefined.world, &world_group) != MPI_SUCCESS)
        return false;
    npc_register_comm(npc_predefined.world);
    return true;
}

npc_group *npc_group_of(npc_index on)
{
    return &groups[on];
}

int npc_size(npc_index on)
{
    return groups[on].size;
}

int32_t npc_world_rank(npc_index on, int rank)
{
    const npc_group *group = &groups[on];
    if (rank < 0 || rank >= group->size)
        return -1;
    return group->world_rank != NULL ? group->world_rank[rank] : rank;
}

npc_index npc_find_comm(npc_thread *self, MPI_Comm comm)
{
    npc_lock();
    npc_index on = find_handle((uintptr_t)comm);
    if (on == NPC_NONE)
        on = npc_register_comm(comm);
    npc_unlock();
    self->comm = comm;
    self->comm_index = on;
    self->comm_age = npc_comm_age;
    return on;
}

void npc_comm_made(npc_thread *self, MPI_Comm comm)
{
    (void)self;
    npc_lock();
    if (comm != npc_predefined.no_comm && find_handle((uintptr_t)comm) == NPC_NONE)
        npc_register_comm(comm);
    npc_unlock();
}

void npc_comm_freed(npc_thread *self, MPI_Comm comm)
{
    if (self == NULL)
        return;
    npc_lock();
    npc_index on = find_handle((uintptr_t)comm);
    if (on != NPC_NONE && on != NPC_OTHERS) {
        name_communicator(comm, on);
        groups[on].live = false;
    }
    remove_handle((uintptr_t)comm);
    __atomic_fetch_add(&npc_comm_age, 1, __ATOMIC_RELAXED);
    npc_unlock();
}

static npc_index find_win(MPI_Win win)
{
    MPI_Group group;
    npc_index on = find_handle((uintptr_t)win);
    if (on != NPC_NONE || win == npc_predefined.no_win || PMPI_Win_get_group(win, &group) != MPI_SUCCESS)
        return on;
    on = register_group(WINDOW, "window", group, false, group);
    PMPI_Group_free(&group);
    add_handle((uintptr_t)win, on, npc_predefined.no_comm);
    return on;
}

npc_index npc_win(npc_thread *self, MPI_Win win)
{
    (void)self;
    npc_lock();
    npc_index on = find_win(win);
    npc_unlock();
    return on;
}

static npc_index find_file(MPI_File file)
{
    MPI_Group group;
    npc_index on = find_handle((uintptr_t)file);
    if (on != NPC_NONE || file == npc_predefined.no_file || PMPI_File_get_group(file, &group) != MPI_SUCCESS)
        return on;
    on = register_group(FILE_, "file", group, false, group);
    PMPI_Group_free(&group);
    add_handle((uintptr_t)file, on, npc_predefined.no_comm);
    return on;
}

npc_index npc_file(npc_thread *self, MPI_File file)
{
    (void)self;
    npc_lock();
    npc_index on = find_file(file);
    npc_unlock();
    return on;
}

static void freed(npc_thread *self, uintptr_t handle)
{
    if (self == NULL)
        return;
    npc_lock();
    npc_index on = remove_handle(handle);
    if (on != NPC_NONE && on != NPC_OTHERS)
        groups[on].live = false;
    npc_unlock();
}

void npc_win_made(npc_thread *self, MPI_Win win)
{
    npc_win(self, win);
}

void npc_file_made(npc_thread *self, MPI_File file)
{
    npc_file(self, file);
}

void npc_win_freed(npc_thread *self, MPI_Win win)
{
    freed(self, (uintptr_t)win);
}

void npc_file_freed(npc_thread *self, MPI_File file)
{
    freed(self, (uintptr_t)file);
}
