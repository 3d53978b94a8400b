/* Counting what Valgrind's lackey tells of a program that was not built for it (--trace-mem=yes). Within Valgrind
 * this library keeps allocations and threads only; observe/memory/companion.py has it read the trace in a process
 * of its own, which writes into the same table. The trace does not say which thread it was: all is the first's. */
#define _GNU_SOURCE
#include "count.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIPE_BYTES = 1 << 20 };

__attribute__((constructor)) static void begin(void)
{
    const char *preloaded = getenv("LD_PRELOAD"); /* Valgrind's own stand first; its launcher has none */
    if (getenv("NPC_MEMORY_TRACED") == NULL || preloaded == NULL || strstr(preloaded, "vgpreload_core") == NULL)
        return;
    npc_traced = true;
    if (npc_claim(NPC_COUNTING, &npc_count_hooks)) {
        npc_open_allocations();
        npc_own_blocks = true;
        npc_head->library_low = (uintptr_t)__ehdr_start;
        npc_head->library_high = (uintptr_t)_end;
    }
}

/* A line of the trace: "I  04015ab0,3" an instruction, " L 1ffeffe7e0,8" what it loads, S a store, M both; others
 * are words. */
static void count_line(char *line)
{
    static bool own; /* the instruction is the library's */
    char *end, kind = line[0] == 'I' ? 'I' : line[1];
    if ((line[0] != ' ' && kind != 'I') || strchr("ILSM", kind) == NULL || line[2] != ' ')
        return;
    uintptr_t address = strtoull(line + 3, &end, 16);
    if (kind == 'I')
        own = address >= npc_head->library_low && address < npc_head->library_high;
    if (kind == 'I' || own)
        return;
    size_t bytes = *end == ',' ? strtoull(end + 1, NULL, 10) : 0;
    for (size_t at = 0; at < bytes; at += 64) { /* long ones are those of wide vectors */
        size_t part = bytes - at < 64 ? bytes - at : 64;
        if (kind != 'S')
            npc_count_access(address + at, part, false);
        if (kind != 'L')
            npc_count_access(address + at, part, true);
    }
}

/* Reads a trace to its end into the table, from the moment on when its process has claimed it. */
NPC_EXPORT int npc_read_trace(int trace, int table)
{
    static char text[1 << 16];
    static struct npc_thread first;
    static const struct timespec pause = {.tv_nsec = 1000000};
    size_t unread = 0;
    ssize_t more;
    if (!npc_map(table))
        return 1;
    npc_count_for(&first);
    fcntl(trace, F_SETPIPE_SZ, PIPE_BYTES);
    while ((more = read(trace, text + unread, sizeof text - unread)) > 0 || (more < 0 && errno == EINTR)) {
        char *line = text, *end;
        if (more < (ssize_t)sizeof text / 2)
            nanosleep(&pause, NULL); /* lackey writes line by line, and would wake this process for each */
        unread += more > 0 ? (size_t)more : 0;
        bool claimed = __atomic_load_n(&npc_head->magic[0], __ATOMIC_ACQUIRE) != 0;
        for (; (end = memchr(line, '\n', unread - (size_t)(line - text))) != NULL; line = end + 1) {
            *end = '\0';
            if (claimed)
                count_line(line);
        }
        unread -= (size_t)(line - text);
        memmove(text, line, unread);
        unread = unread == sizeof text ? 0 : unread; /* no line of the trace is that long */
    }
    return 0;
}
