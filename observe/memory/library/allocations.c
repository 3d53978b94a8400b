/* Allocations: where they lie, how long they live, and who made them.
 *
 * Every one of at least a page is kept, and the first NPC_SMALL smaller ones. C++'s new and Fortran's ALLOCATE
 * come through malloc; what the C library allocates for itself by mmap does not come here. */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

bool npc_own_blocks;

/* ---- the functions behind ---- */

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void (*real_free)(void *);
static int (*real_posix_memalign)(void **, size_t, size_t);
static void *(*real_aligned_alloc)(size_t, size_t);
static void *(*real_memalign)(size_t, size_t);
static size_t (*real_usable)(void *);
static void *(*real_mmap)(void *, size_t, int, int, int, off_t);
static int (*real_munmap)(void *, size_t);
static void *(*real_mremap)(void *, size_t, size_t, int, ...);

/* What dlsym itself allocates; it is never given back. */
static char early[16384] __attribute__((aligned(16)));
static size_t early_used;
enum { UNKNOWN, LOOKING, KNOWN };
static int found;

static void *allocate_early(size_t bytes)
{
    size_t begin = __atomic_fetch_add(&early_used, (bytes + 15) / 16 * 16, __ATOMIC_RELAXED);
    return begin + bytes <= sizeof early ? early + begin : NULL;
}

static bool is_early(const void *address)
{
    return (const char *)address >= early && (const char *)address < early + sizeof early;
}

#define FIND(name, symbol) (name = (__typeof__(name))dlsym(RTLD_NEXT, symbol))

/* False while they are being found: the process has one thread then. */
static bool find(void)
{
    if (__builtin_expect(found == KNOWN, 1))
        return true;
    if (found == LOOKING)
        return false;
    found = LOOKING;
    FIND(real_malloc, "malloc");
    FIND(real_calloc, "calloc");
    FIND(real_realloc, "realloc");
    FIND(real_free, "free");
    FIND(real_posix_memalign, "posix_memalign");
    FIND(real_aligned_alloc, "aligned_alloc");
    FIND(real_memalign, "memalign");
    FIND(real_usable, "malloc_usable_size");
    FIND(real_mmap, "mmap");
    FIND(real_munmap, "munmap");
    FIND(real_mremap, "mremap");
    found = KNOWN;
    return true;
}

/* ---- those that live ---- */

/* Their entries by address: an address has one of the WAYS places from its hash on. It lives once at a time, so
 * a place is taken and given back by its address alone, without a lock. */
enum { SLOT_BITS = 20, WAYS = 16 };
static struct slot {
    uintptr_t address;
    struct npc_object *object;
} *slots;

static struct slot *first_slot(uintptr_t address)
{
    return slots + ((address >> 4) * 0x9e3779b97f4a7c15u >> (64 - SLOT_BITS));
}

/* NULL where there is no place. */
static struct slot *take_slot(uintptr_t address)
{
    struct slot *slot = first_slot(address);
    for (int way = 0; way < WAYS; way++) {
        uintptr_t nobody = 0;
        if (__atomic_load_n(&slot[way].address, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&slot[way].address, &nobody, address, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return slot + way;
    }
    return NULL;
}

static struct slot *find_live(uintptr_t address)
{
    if (slots == NULL)
        return NULL;
    struct slot *slot = first_slot(address);
    for (int way = 0; way < WAYS; way++)
        if (__atomic_load_n(&slot[way].address, __ATOMIC_RELAXED) == address)
            return slot + way;
    return NULL;
}

/* ---- entries ---- */

static __thread struct npc_room objects __attribute__((tls_model("initial-exec")));

/* Its entry is kept, and found again by its address; false where there is no room. */
static NPC_RARE bool note(uintptr_t address, size_t bytes, enum npc_object_kind kind)
{
    static uint64_t small;
    void *frames[NPC_CALLERS + 6];
    if (bytes < NPC_PAGE_BYTES && (npc_head->small > 0 ||
                                   __atomic_fetch_add(&small, 1, __ATOMIC_RELAXED) >= NPC_SMALL)) {
        __atomic_fetch_add(&npc_head->small, 1, __ATOMIC_RELAXED);
        return false;
    }
    npc_self.inside++;
    uint32_t number = npc_enter_thread();
    struct slot *slot = take_slot(address);
    struct npc_object *object = slot != NULL && !npc_self.over
                                    ? npc_entry(&objects, NPC_OBJECTS, number, sizeof *object)
                                    : NULL;
    if (object != NULL) {
        object->bytes = bytes;
        object->born = npc_now();
        object->kind = kind;
        object->thread = number;
        int depth = backtrace(frames, sizeof frames / sizeof *frames);
        for (int at = 0, kept = 0; at < depth && kept < NPC_CALLERS; at++)
            if ((const char *)frames[at] < __ehdr_start || (const char *)frames[at] >= _end)
                object->callers[kept++] = (uintptr_t)frames[at];
        slot->object = object;
        __atomic_store_n(&object->address, address, __ATOMIC_RELEASE);
    } else if (slot != NULL) {
        __atomic_store_n(&slot->address, 0, __ATOMIC_RELEASE);
    } else {
        npc_lose();
    }
    npc_refresh_maps();
    npc_self.inside--;
    return object != NULL;
}

/* Whether an allocation is the program's. */
static bool is_noted(void)
{
    return npc_head != NULL && slots != NULL && npc_self.inside == 0;
}

void npc_note_allocation(uintptr_t address, size_t bytes, enum npc_object_kind kind)
{
    if (address != 0 && is_noted())
        note(address, bytes, kind);
}

void npc_note_free(uintptr_t address)
{
    struct slot *slot = find_live(address);
    if (slot != NULL) {
        if (npc_head != NULL)
            slot->object->freed = npc_now();
        __atomic_store_n(&slot->address, 0, __ATOMIC_RELEASE);
    }
}

/* ---- blocks of their own ---- */

/* Address space is taken in pieces; blocks are cut from the last one, and freed ones are empty pages. New pages
 * have new entries in the table: once that is half full, it is the C library's turn again. */
enum { PIECES = 256 };
static const uint64_t PIECE_BYTES = (uint64_t)64 << 30;
static struct {
    uintptr_t begin, end;
} pieces[PIECES];
static int pieces_used, pieces_lock;
static uintptr_t next_block;

static uintptr_t round_up(uintptr_t number, uintptr_t unit)
{
    return (number + unit - 1) / unit * unit;
}

static bool is_own(const void *address)
{
    for (int piece = 0; piece < __atomic_load_n(&pieces_used, __ATOMIC_ACQUIRE); piece++)
        if ((uintptr_t)address >= pieces[piece].begin && (uintptr_t)address < pieces[piece].end)
            return true;
    return false;
}

static bool new_piece(uint64_t bytes)
{
    if (pieces_used == PIECES)
        return false;
    for (uint64_t size = PIECE_BYTES > bytes ? PIECE_BYTES : bytes; size >= bytes; size /= 4) {
        void *begin = npc_reserve(size);
        if (begin != NULL) {
            pieces[pieces_used].begin = next_block = (uintptr_t)begin;
            pieces[pieces_used].end = (uintptr_t)begin + size;
            __atomic_store_n(&pieces_used, pieces_used + 1, __ATOMIC_RELEASE);
            return true;
        }
    }
    return false;
}

/* NULL: the C library's will do. */
static void *own_block(size_t alignment, size_t bytes)
{
    uintptr_t address = 0, whole = round_up(bytes, NPC_PAGE_BYTES);
    if (bytes < NPC_PAGE_BYTES || !npc_own_blocks || !is_noted() || bytes >= (uint64_t)1 << 46 ||
        alignment >= (size_t)1 << 40 || npc_is_half_full())
        return NULL;
    if (alignment < NPC_PAGE_BYTES)
        alignment = NPC_PAGE_BYTES;
    while (__atomic_exchange_n(&pieces_lock, 1, __ATOMIC_ACQUIRE))
        ;
    for (int tries = 0; tries < 2 && address == 0; tries++) {
        uintptr_t begin = round_up(next_block, alignment);
        if (pieces_used > 0 && begin + whole <= pieces[pieces_used - 1].end) {
            address = begin;
            next_block = begin + whole;
        } else if (!new_piece(whole + alignment)) {
            break;
        }
    }
    __atomic_store_n(&pieces_lock, 0, __ATOMIC_RELEASE);
    return address != 0 && note(address, bytes, NPC_HEAP) ? (void *)address : NULL;
}

/* Before its pages are given back: nobody can ask later where they lay. */
static void note_places(char *block, size_t whole)
{
    void *asked[512];
    for (size_t at = 0, some; at < whole; at += some * NPC_PAGE_BYTES) {
        size_t left = (whole - at) / NPC_PAGE_BYTES;
        some = left < 512 ? left : 512;
        for (size_t each = 0; each < some; each++)
            asked[each] = block + at + each * NPC_PAGE_BYTES;
        npc_note_places(asked, (int)some);
    }
}

static void free_own(void *block)
{
    struct slot *slot = find_live((uintptr_t)block);
    if (slot == NULL)
        return; /* freed twice */
    size_t whole = round_up(slot->object->bytes, NPC_PAGE_BYTES);
    if (npc_has_nodes())
        note_places(block, whole);
    npc_note_free((uintptr_t)block);
    madvise(block, whole, MADV_DONTNEED);
}

/* ---- what the program calls ---- */

static void *noted(void *block, size_t bytes)
{
    npc_note_allocation((uintptr_t)block, bytes, NPC_HEAP);
    return block;
}

NPC_EXPORT void *malloc(size_t bytes)
{
    if (!find())
        return allocate_early(bytes);
    void *block = own_block(1, bytes);
    return block != NULL ? block : noted(real_malloc(bytes), bytes);
}

NPC_EXPORT void *calloc(size_t number, size_t each)
{
    size_t bytes;
    if (!find())
        return allocate_early(number * each); /* of zeros */
    if (__builtin_mul_overflow(number, each, &bytes))
        return real_calloc(number, each);
    void *block = own_block(1, bytes); /* fresh pages: zeros */
    return block != NULL ? block : noted(real_calloc(number, each), bytes);
}

NPC_EXPORT void free(void *block)
{
    if (block == NULL || is_early(block) || !find())
        return;
    if (is_own(block)) {
        free_own(block);
        return;
    }
    npc_note_free((uintptr_t)block);
    real_free(block);
}

/* A block that this library has made elsewhere, with the content of the old one. */
static void *moved(void *block, size_t old, size_t bytes)
{
    void *other = malloc(bytes);
    if (other == NULL)
        return NULL;
    __builtin_memcpy(other, block, old < bytes ? old : bytes);
    free(block);
    return other;
}

NPC_EXPORT void *realloc(void *block, size_t bytes)
{
    if (block == NULL)
        return malloc(bytes);
    if (is_early(block))
        return moved(block, (size_t)(early + sizeof early - (char *)block), bytes);
    if (!find())
        return NULL;
    if (is_own(block)) {
        struct slot *slot = find_live((uintptr_t)block);
        size_t old = slot != NULL ? slot->object->bytes : 0;
        if (bytes == 0) {
            free(block);
            return NULL;
        }
        return bytes <= old && bytes > old / 2 ? block : moved(block, old, bytes);
    }
    if (!is_noted())
        return real_realloc(block, bytes);
    if (npc_own_blocks && bytes >= NPC_PAGE_BYTES)
        return moved(block, real_usable(block), bytes);
    uintptr_t was = (uintptr_t)block;
    struct slot *slot = find_live(was);
    struct npc_object *object = slot != NULL ? slot->object : NULL;
    if (slot != NULL) /* before the address can be another thread's */
        __atomic_store_n(&slot->address, 0, __ATOMIC_RELEASE);
    void *now = real_realloc(block, bytes);
    if (now == NULL && bytes > 0) {
        if (object != NULL && (slot = take_slot(was)) != NULL)
            slot->object = object;
        return NULL;
    }
    if (object != NULL)
        object->freed = npc_now();
    return noted(now, bytes);
}

NPC_EXPORT void *reallocarray(void *block, size_t number, size_t each)
{
    size_t bytes;
    if (__builtin_mul_overflow(number, each, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

NPC_EXPORT int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    if (!find())
        return ENOMEM;
    void *own = alignment % sizeof(void *) == 0 && alignment > 0 && (alignment & (alignment - 1)) == 0
                    ? own_block(alignment, bytes)
                    : NULL;
    if (own != NULL) {
        *block = own;
        return 0;
    }
    int failed = real_posix_memalign(block, alignment, bytes);
    if (!failed)
        noted(*block, bytes);
    return failed;
}

NPC_EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
    if (!find())
        return NULL;
    void *own = alignment > 0 && (alignment & (alignment - 1)) == 0 ? own_block(alignment, bytes) : NULL;
    return own != NULL ? own : noted(real_aligned_alloc(alignment, bytes), bytes);
}

NPC_EXPORT void *memalign(size_t alignment, size_t bytes)
{
    if (!find())
        return NULL;
    void *own = alignment > 0 && (alignment & (alignment - 1)) == 0 ? own_block(alignment, bytes) : NULL;
    return own != NULL ? own : noted(real_memalign(alignment, bytes), bytes);
}

NPC_EXPORT void *valloc(size_t bytes)
{
    return memalign((size_t)sysconf(_SC_PAGESIZE), bytes);
}

NPC_EXPORT void *pvalloc(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return memalign(page, round_up(bytes, page));
}

NPC_EXPORT size_t malloc_usable_size(void *block)
{
    if (block == NULL || is_early(block) || !find())
        return 0;
    if (is_own(block)) {
        struct slot *slot = find_live((uintptr_t)block);
        return slot != NULL ? slot->object->bytes : 0;
    }
    return real_usable(block);
}

NPC_EXPORT void *mmap(void *wanted, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if (!find())
        return (void *)syscall(SYS_mmap, wanted, bytes, protection, flags, file, offset);
    void *begin = real_mmap(wanted, bytes, protection, flags, file, offset);
    if (begin != MAP_FAILED && bytes >= NPC_PAGE_BYTES)
        npc_note_allocation((uintptr_t)begin, bytes, NPC_MAPPED);
    return begin;
}

NPC_EXPORT void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

NPC_EXPORT int munmap(void *begin, size_t bytes)
{
    if (!find())
        return (int)syscall(SYS_munmap, begin, bytes);
    npc_note_free((uintptr_t)begin);
    return real_munmap(begin, bytes);
}

NPC_EXPORT void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(rest, void *) : NULL;
    va_end(rest);
    if (!find())
        return MAP_FAILED;
    void *begin = real_mremap(old, old_bytes, bytes, flags, wanted);
    if (begin != MAP_FAILED) {
        npc_note_free((uintptr_t)old);
        npc_note_allocation((uintptr_t)begin, bytes, NPC_MAPPED);
    }
    return begin;
}

void npc_open_allocations(void)
{
    void *frame;
    npc_self.inside++;
    backtrace(&frame, 1); /* loads libgcc, which allocates */
    find();
    slots = npc_reserve((((size_t)1 << SLOT_BITS) + WAYS) * sizeof *slots);
    npc_self.inside--;
}
