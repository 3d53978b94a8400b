/* The rank's file: its header and the sections that grow behind it. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

npc_header *npc_head;
static const char *path;
static uint64_t end; /* of the sections so far */

static uint64_t whole_pages(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Maps `bytes` behind the file's end. They are there, so that no full file system ends the program later. The file
 * is opened each time, since programs close descriptors that they do not know. */
static void *more(uint64_t bytes)
{
    struct rlimit limit;
    bytes = whole_pages(bytes);
    /* beyond this limit the kernel would send SIGXFSZ */
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || (limit.rlim_cur != RLIM_INFINITY && end + bytes > limit.rlim_cur))
        return NULL;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return NULL;
    void *begin = MAP_FAILED;
    if (posix_fallocate(descriptor, (off_t)end, (off_t)bytes) == 0)
        begin = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, (off_t)end);
    close(descriptor);
    if (begin == MAP_FAILED)
        return NULL;
    end += bytes;
    return begin;
}

bool npc_open_file(void)
{
    struct stat status;
    const char *variable = getenv("NPC_MPI_PROFILE");
    if (variable == NULL || stat(variable, &status) != 0)
        return false;
    path = strdup(variable); /* the program may change its environment */
    if (path == NULL)
        return false;
    npc_header *header = more(sizeof *header);
    if (header == NULL)
        return false;
    int32_t nobody = 0;
    if (!__atomic_compare_exchange_n(&header->pid, &nobody, getpid(), false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        __atomic_fetch_or(&header->notes, (uint32_t)NPC_SECOND, __ATOMIC_RELAXED);
        munmap(header, whole_pages(sizeof *header));
        return false;
    }
    memcpy(header->magic, NPC_MAGIC, sizeof header->magic);
    header->version = NPC_VERSION;
    header->header_bytes = sizeof *header;
    header->cpu_ns = -1;
    header->rank = -1;
    header->levels[0] = MPI_THREAD_SINGLE;
    header->levels[1] = MPI_THREAD_FUNNELED;
    header->levels[2] = MPI_THREAD_SERIALIZED;
    header->levels[3] = MPI_THREAD_MULTIPLE;
    gethostname(header->host, sizeof header->host - 1);
    npc_head = header;
    return true;
}

void npc_because(const char *format, ...)
{
    va_list values;
    if (npc_head == NULL)
        return;
    va_start(values, format);
    vsnprintf(npc_head->reason, sizeof npc_head->reason, format, values);
    va_end(values);
}

npc_section *npc_new_section(enum npc_kind kind, uint32_t thread, uint32_t entry_bytes, uint32_t capacity,
                             void **entries)
{
    npc_section *section = NULL;
    npc_lock();
    uint64_t offset = end;
    if (npc_head->sections < NPC_SECTIONS && (*entries = more((uint64_t)entry_bytes * capacity)) != NULL) {
        section = &npc_head->section[npc_head->sections];
        *section = (npc_section){kind, thread, entry_bytes, capacity, offset, 0, 0};
        __atomic_store_n(&npc_head->sections, npc_head->sections + 1, __ATOMIC_RELEASE);
    }
    npc_unlock();
    return section;
}
