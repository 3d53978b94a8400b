/* Regions that the program marks by MPI_Pcontrol, as IPM has it: MPI_Pcontrol(1, "name") begins one and
 * MPI_Pcontrol(-1, "name") ends it; 0 pauses counting, 1 without a name goes on (MPI 4.0, section 14.4.2). Fortran has
 * no second argument: there k > 1 begins region "k" and -k ends it. Time belongs to the innermost region. */
#define _GNU_SOURCE
#include "internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { REGIONS = 256, DEPTH = 64 };

uint16_t npc_region;
static npc_region_entry *entries;
static npc_section *section;
static uint16_t stack[DEPTH];
static int depth;
static uint16_t before_pause;

void npc_open_regions(void)
{
    void *begin;
    section = npc_new_section(NPC_REGIONS, 0, sizeof(npc_region_entry), REGIONS, &begin);
    entries = begin;
    if (section != NULL)
        section->used = 1; /* the one without a name */
}

static void spend(int64_t now)
{
    if (npc_region == NPC_PAUSED)
        npc_head->paused_ns += now - npc_head->region_since;
    else if (section != NULL)
        entries[npc_region].nanoseconds += now - npc_head->region_since;
    npc_head->region_since = now;
}

void npc_close_regions(int64_t now)
{
    spend(now);
}

static void change(uint16_t region)
{
    spend(npc_now());
    npc_region = region;
    npc_head->paused = region == NPC_PAUSED;
    if (region != NPC_PAUSED)
        npc_head->region = region;
}

/* Copies a C string from a pointer that may be none: the kernel reads it, and says so if it cannot. */
static bool read_name(const void *pointer, char *name, size_t bytes)
{
    int ends[2];
    size_t got = 0;
    bool whole = false;
    if ((uintptr_t)pointer < 4096 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    while (got < bytes && !whole) {
        if (write(ends[1], (const char *)pointer + got, 1) != 1 || read(ends[0], name + got, 1) != 1)
            break;
        unsigned char letter = (unsigned char)name[got++];
        whole = letter == '\0';
        if (!whole && (letter < ' ' || letter == 127))
            break;
    }
    close(ends[0]);
    close(ends[1]);
    return whole && got > 1;
}

/* The region's number; the one around it where there is no room. */
static uint16_t find_region(const char *name)
{
    for (uint64_t region = 1; region < section->used; region++)
        if (strcmp(entries[region].name, name) == 0)
            return (uint16_t)region;
    if (section->used == REGIONS) {
        npc_note(NPC_FULL_REGIONS);
        return npc_region;
    }
    snprintf(entries[section->used].name, sizeof entries->name, "%s", name);
    return (uint16_t)section->used++;
}

static void enter(const char *name)
{
    uint16_t region = find_region(name);
    if (depth < DEPTH)
        stack[depth] = npc_region;
    depth++;
    change(region);
}

/* Ends the innermost region, if it is this one. */
static void leave(const char *name)
{
    if (depth == 0 || npc_region != find_region(name))
        return;
    depth--;
    change(depth < DEPTH ? stack[depth] : npc_region);
}

void npc_pcontrol(int level, const void *pointer)
{
    char name[sizeof entries->name] = "";
    if (npc_head == NULL || section == NULL || npc_head->state != NPC_COUNTING)
        return;
    npc_lock();
    if (level == 0) {
        if (npc_region != NPC_PAUSED) {
            before_pause = npc_region;
            change(NPC_PAUSED);
        }
    } else if (npc_region == NPC_PAUSED) {
        if (level == 1)
            change(before_pause);
    } else {
        if (level > 1 || level < -1)
            snprintf(name, sizeof name, "%d", level > 0 ? level : -level);
        else if (!read_name(pointer, name, sizeof name))
            name[0] = '\0';
        if (name[0] != '\0' && level > 0)
            enter(name);
        else if (name[0] != '\0')
            leave(name);
    }
    npc_unlock();
}
