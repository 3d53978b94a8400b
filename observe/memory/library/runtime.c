/* The table, its threads, and who may write it. */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* /proc/self/maps of a program with thousands of libraries; the rest is left away. */
enum { MAPS_BYTES = 1 << 20 };
enum { LARGEST_CHUNK = 1 << 16 };
enum { FEWEST_BYTES = 1 << 20 };

struct npc_table *npc_head;
struct npc_reserved npc_reserved[NPC_RESERVED];
int npc_reserved_count;
__thread struct npc_self npc_self __attribute__((tls_model("initial-exec")));

static const struct npc_hooks *hooks;
static uint64_t file_bytes, maps_due;
static pthread_key_t at_end;
static struct npc_room threads;
static int threads_lock;

static uint64_t monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t npc_now(void)
{
    return monotonic() - npc_head->began;
}

void npc_lose(void)
{
    __atomic_fetch_add(&npc_head->lost, 1, __ATOMIC_RELAXED);
}

bool npc_is_half_full(void)
{
    return __atomic_load_n(&npc_head->used, __ATOMIC_RELAXED) > file_bytes / 2;
}

void *npc_reserve(size_t bytes)
{
    /* the system call, since mmap is intercepted, and may be by others as well */
    long begin = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, (off_t)0);
    int at = begin == -1 ? NPC_RESERVED : __atomic_fetch_add(&npc_reserved_count, 1, __ATOMIC_RELAXED);
    if (at < NPC_RESERVED)
        npc_reserved[at] = (struct npc_reserved){(uintptr_t)begin, (uintptr_t)begin + bytes};
    return begin == -1 ? NULL : (void *)begin;
}

void npc_release(void *begin, size_t bytes)
{
    syscall(SYS_munmap, begin, bytes);
}

void *npc_take(enum npc_chunk_kind kind, uint32_t thread, uint64_t *bytes)
{
    uint64_t whole = (*bytes + sizeof(struct npc_chunk) + NPC_CHUNK_BYTES - 1) / NPC_CHUNK_BYTES * NPC_CHUNK_BYTES;
    uint64_t begin = __atomic_load_n(&npc_head->used, __ATOMIC_RELAXED);
    do {
        if (begin + whole > file_bytes)
            return NULL;
    } while (!__atomic_compare_exchange_n(&npc_head->used, &begin, begin + whole, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    struct npc_chunk *chunk = (struct npc_chunk *)((char *)npc_head + begin);
    *bytes = whole - sizeof *chunk;
    chunk->bytes = *bytes;
    chunk->thread = thread;
    __atomic_store_n(&chunk->kind, kind, __ATOMIC_RELEASE); /* last: now the reader may step over it */
    return chunk + 1;
}

void *npc_entry(struct npc_room *room, enum npc_chunk_kind kind, uint32_t thread, uint64_t bytes)
{
    if (room->left < bytes) {
        uint64_t more = room->chunk == 0 ? bytes : room->chunk < LARGEST_CHUNK ? 2 * room->chunk : LARGEST_CHUNK;
        room->next = npc_take(kind, thread, &more);
        if (room->next == NULL) {
            room->left = 0;
            npc_lose();
            return NULL;
        }
        room->left = room->chunk = more;
    }
    void *entry = room->next;
    room->next += bytes;
    room->left -= bytes;
    return entry;
}

/* ---- threads ---- */

/* The next entry; NULL where there is no room. A thread holds the lock for a moment only, and not in a handler
 * that interrupts itself, since `inside` is set. */
static struct npc_thread *next_place(void)
{
    while (__atomic_exchange_n(&threads_lock, 1, __ATOMIC_ACQUIRE))
        sched_yield();
    struct npc_thread *place = npc_entry(&threads, NPC_THREADS, 0, sizeof *place);
    if (place != NULL) {
        place->number = npc_head->threads;
        __atomic_store_n(&npc_head->threads, place->number + 1, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&threads_lock, 0, __ATOMIC_RELEASE);
    return place;
}

static void enter(uintptr_t start, bool known)
{
    npc_self.inside++;
    struct npc_thread *place = next_place();
    if (place == NULL) {
        npc_self.over = true;
    } else {
        pthread_attr_t attributes;
        void *low;
        size_t bytes;
        place->born = npc_now();
        place->start = start;
        place->cpu = (uint32_t)sched_getcpu();
        /* not of threads made past pthread_create: these may be no threads of the C library's */
        if (known && pthread_getattr_np(pthread_self(), &attributes) == 0) {
            if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
                place->stack_low = (uintptr_t)low;
                place->stack_high = (uintptr_t)low + bytes;
            }
            pthread_attr_destroy(&attributes);
        }
        __atomic_store_n(&place->tid, (uint64_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
        npc_self.number = place->number;
        npc_self.thread = place;
        hooks->thread_begins();
    }
    npc_self.inside--;
}

uint32_t npc_enter_thread(void)
{
    if (npc_self.thread == NULL && !npc_self.over)
        enter(0, false);
    return npc_self.number;
}

/* The library's word is the last: other keys' destructors may be the program's code. */
static void leave(void *round)
{
    if ((uintptr_t)round < PTHREAD_DESTRUCTOR_ITERATIONS &&
        pthread_setspecific(at_end, (void *)((uintptr_t)round + 1)) == 0)
        return;
    if (npc_head == NULL || npc_self.thread == NULL)
        return;
    npc_self.inside++;
    npc_self.thread->ended = npc_now();
    hooks->thread_ends();
    npc_self.over = true;
    npc_self.thread = NULL;
    npc_self.inside--;
}

struct start {
    void *(*routine)(void *);
    void *argument;
};

static void *begin_thread(void *given)
{
    struct start start = *(struct start *)given;
    npc_self.inside++;
    free(given);
    npc_self.inside--;
    if (npc_head != NULL) {
        enter((uintptr_t)start.routine, true);
        pthread_setspecific(at_end, (void *)1);
    }
    return start.routine(start.argument);
}

typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

NPC_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                              void *argument)
{
    static create_function *real;
    if (real == NULL)
        real = (create_function *)dlsym(RTLD_NEXT, "pthread_create");
    if (npc_head == NULL || hooks == NULL) /* without hooks it is the table of another process */
        return real(thread, attributes, routine, argument);
    npc_self.inside++;
    struct start *start = malloc(sizeof *start);
    int failed = 0;
    if (start != NULL) {
        *start = (struct start){routine, argument};
        hooks->creating(true);
        failed = real(thread, attributes, begin_thread, start);
        hooks->creating(false);
        if (failed)
            free(start);
    }
    npc_self.inside--;
    return start != NULL ? failed : real(thread, attributes, routine, argument);
}

/* ---- the process's memory map ---- */

static void write_maps(void)
{
    static int lock;
    static char *text;
    if (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
        return; /* another thread, or this one under a signal's handler, does it */
    uint64_t used = 0, bytes;
    ssize_t more = 0;
    int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (text == NULL)
        text = npc_reserve(MAPS_BYTES);
    while (text != NULL && descriptor >= 0 && (more = read(descriptor, text + used, MAPS_BYTES - used)) > 0)
        used += (uint64_t)more;
    if (descriptor >= 0)
        close(descriptor);
    bytes = (used + 7) / 8 * 8;
    char *place = used > 0 ? npc_take(NPC_MAPS, 0, &bytes) : NULL;
    for (uint64_t at = 0; place != NULL && at < used; at++)
        place[at] = text[at];
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

void npc_refresh_maps(void)
{
    uint64_t now = npc_now(), due = __atomic_load_n(&maps_due, __ATOMIC_RELAXED);
    /* after one second, two, four: what was loaded since must not be unknown if the process is killed */
    if (now < due || npc_head->process != (uint64_t)getpid())
        return;
    if (__atomic_compare_exchange_n(&maps_due, &due, 2 * now + 1000000000u, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
        write_maps();
}

/* ---- where pages lie ---- */

bool npc_has_nodes(void)
{
    static int known; /* 1: there is one node, 2: several */
    if (known == 0) {
        char online[16] = "";
        int descriptor = open("/sys/devices/system/node/online", O_RDONLY | O_CLOEXEC);
        if (descriptor >= 0) {
            known = read(descriptor, online, sizeof online - 1) > 0 && strcmp(online, "0\n") != 0 ? 2 : 1;
            close(descriptor);
        } else {
            known = 1;
        }
    }
    return known == 2;
}

void npc_note_places(void *const *addresses, int count)
{
    static __thread struct npc_room room __attribute__((tls_model("initial-exec")));
    enum { AT_ONCE = 512 };
    for (int nodes[AT_ONCE], some; count > 0; addresses += some, count -= some) {
        some = count < AT_ONCE ? count : AT_ONCE;
        if (syscall(SYS_move_pages, 0, some, addresses, NULL, nodes, 0) < 0)
            return;
        uint64_t now = npc_now();
        for (int at = 0; at < some; at++) {
            struct npc_place *place =
                nodes[at] >= 0 ? npc_entry(&room, NPC_PLACES, 0, sizeof *place) : NULL;
            if (place == NULL)
                continue;
            place->node = nodes[at];
            place->time = now;
            __atomic_store_n(&place->page, (uintptr_t)addresses[at] / NPC_PAGE_BYTES, __ATOMIC_RELEASE);
        }
    }
}

/* ---- begin and end ---- */

static void in_child(void)
{
    npc_head = NULL;
    npc_self.thread = NULL;
    hooks->forked();
}

bool npc_map(int descriptor)
{
    struct stat status;
    file_bytes = fstat(descriptor, &status) == 0 ? (uint64_t)status.st_size : 0;
    for (; file_bytes >= FEWEST_BYTES; file_bytes = file_bytes / 2 / NPC_CHUNK_BYTES * NPC_CHUNK_BYTES) {
        void *begin = mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
        if (begin != MAP_FAILED) {
            npc_head = begin;
            return true;
        } /* else less of it: RLIMIT_AS */
    }
    return false;
}

static bool open_table(void)
{
    const char *path = getenv("NPC_MEMORY_TABLE");
    int descriptor = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    bool done = descriptor >= 0 && npc_map(descriptor);
    if (descriptor >= 0)
        close(descriptor);
    return done;
}

bool npc_claim(enum npc_mode mode, const struct npc_hooks *of_library)
{
    uint64_t nobody = 0, process = (uint64_t)getpid();
    npc_self.inside++;
    bool mine = npc_head == NULL && open_table();
    if (mine && !__atomic_compare_exchange_n(&npc_head->process, &nobody, process, false, __ATOMIC_ACQ_REL,
                                             __ATOMIC_RELAXED)) {
        mine = nobody == process;
        if (mine) /* what it was before exec is of no interest; its pages are zeroed by giving them back */
            mine = madvise(npc_head, file_bytes, MADV_REMOVE) == 0;
        else
            __atomic_fetch_add(&npc_head->others, 1, __ATOMIC_RELAXED);
    }
    if (!mine && npc_head != NULL) {
        munmap(npc_head, file_bytes);
        npc_head = NULL;
    }
    if (mine) {
        hooks = of_library;
        npc_head->process = process;
        npc_head->version = NPC_MEMORY_VERSION;
        npc_head->mode = mode;
        npc_head->page_bytes = NPC_PAGE_BYTES;
        npc_head->began = monotonic();
        npc_head->used = NPC_CHUNK_BYTES;
        for (size_t at = 0; at < sizeof npc_head->magic; at++)
            __atomic_store_n(npc_head->magic + at, NPC_MEMORY_MAGIC[at], __ATOMIC_RELEASE);
        pthread_key_create(&at_end, leave);
        pthread_atfork(NULL, NULL, in_child);
        npc_refresh_maps();
        enter(0, true);
    }
    npc_self.inside--;
    return mine;
}

/* The key's value is of threads alone; the first thread ends with the process. */
static void end(void)
{
    static int ended;
    if (npc_head == NULL || npc_head->process != (uint64_t)getpid())
        return; /* a child of vfork has its parent's memory */
    if (__atomic_exchange_n(&ended, 1, __ATOMIC_RELAXED))
        return;
    npc_self.inside++;
    hooks->ends();
    write_maps();
    npc_head->ended = npc_now();
    npc_self.inside--;
}

__attribute__((destructor)) static void at_exit(void)
{
    end();
}

NPC_EXPORT __attribute__((noreturn)) void _exit(int status)
{
    end();
    for (;;)
        syscall(SYS_exit_group, status);
}

NPC_EXPORT __attribute__((noreturn)) void _Exit(int status)
{
    _exit(status);
}
