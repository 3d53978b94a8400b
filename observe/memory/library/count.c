/* Counting: what each thread does to each page. The compiler calls these functions before each access to memory
 * that more than one function can know (gcc and clang, -fsanitize=thread); ThreadSanitizer's library, which has
 * them otherwise, is not linked. A thread writes its own entries only, so nothing is locked. */
#define _GNU_SOURCE
#include "count.h"

#include <sched.h>
#include <stddef.h>

/* Entries are found by page: two levels of 18 bits each (48 bits of address, 12 within a page). */
enum { LEVEL = 18, PAGE_SHIFT = 12 };
static const uintptr_t LEVEL_MASK = ((uintptr_t)1 << LEVEL) - 1;

bool npc_traced;

/* What cannot be counted goes here; its page is 0, which no program has. */
static struct npc_page waste;
/* Recent entries are found by the place in the code: it is mostly the same page that one instruction meets. */
enum { RECENT = 64, SECONDS = 16 };
static __thread struct counter {
    struct npc_page *recent[RECENT]; /* single words, so that a signal's handler finds and leaves them whole */
    struct npc_page ***top;
    struct npc_room room;
    int32_t until_often;
    uint32_t seconds, second[SECONDS]; /* which second levels there are, the first of them */
} mine __attribute__((tls_model("initial-exec")));

static struct { uint64_t tick, slot; } no_clock;
static const volatile uint64_t *tick = &no_clock.tick, *slot = &no_clock.slot;

/* Levels of threads that have ended, emptied. */
static struct spare { struct spare *next; } *spares;
static int spares_lock;

static struct npc_page **find_entry(uintptr_t page, bool make)
{
    if (mine.top == NULL || page >> 2 * LEVEL)
        return NULL;
    struct npc_page ***second = mine.top + (page >> LEVEL);
    if (*second == NULL && make) {
        *second = npc_reserve(sizeof(struct npc_page *) << LEVEL);
        if (mine.seconds < SECONDS)
            mine.second[mine.seconds] = (uint32_t)(page >> LEVEL);
        mine.seconds++;
    }
    return *second == NULL ? NULL : *second + (page & LEVEL_MASK);
}

/* A new entry, or the one for what is not counted. */
static NPC_RARE struct npc_page *new_entry(uintptr_t page)
{
    struct npc_page *entry = NULL;
    if (npc_head == NULL || npc_self.over || npc_traced)
        return &waste;
    if (npc_self.inside > 0) { /* a signal's handler, while the library was at work */
        npc_lose();
        return &waste;
    }
    npc_self.inside++;
    uint32_t number = npc_enter_thread();
    if (npc_self.thread != NULL) /* a thread binds itself after its begin */
        npc_self.thread->cpu = (uint32_t)sched_getcpu();
    struct npc_page **place = find_entry(page, true);
    if (place != NULL)
        entry = npc_entry(&mine.room, NPC_PAGES, number, sizeof *entry);
    else
        npc_lose();
    if (entry != NULL) {
        entry->first = npc_now();
        __atomic_store_n(&entry->page, page, __ATOMIC_RELEASE);
        *place = entry;
        npc_refresh_maps();
    }
    npc_self.inside--;
    return entry != NULL ? entry : &waste;
}

static NPC_RARE void widen(struct npc_page *entry, uint32_t scale)
{
    for (; entry->slot_scale < scale; entry->slot_scale++)
        for (uint64_t *mask = &entry->read_slots; mask <= &entry->written_slots; mask++) {
            uint64_t pairs = (*mask | *mask >> 1) & 0x5555555555555555u, folded = 0;
            for (int bit = 0; bit < 32; bit++)
                folded |= (pairs >> 2 * bit & 1) << bit;
            *mask = folded;
        }
}

/* The thread's entry of a page, at the present scale of slots. */
static inline struct npc_page *entry_of(uintptr_t page, uint64_t now)
{
    struct npc_page **place = find_entry(page, false);
    struct npc_page *entry = place != NULL && *place != NULL ? *place : new_entry(page);
    if (entry->slot_scale != now >> 6)
        widen(entry, (uint32_t)(now >> 6));
    return entry;
}

static NPC_RARE void meet_often(struct npc_page *entry, uintptr_t address)
{
    entry->often[address >> 9 & 7] |= (uint64_t)1 << (address >> 3 & 63);
    mine.until_often = NPC_OFTEN;
}

static inline void stamp(struct npc_page *entry, uint64_t now, bool write)
{
    entry->last = *tick;
    *(write ? &entry->written_slots : &entry->read_slots) |= (uint64_t)1 << (now & 63);
}

/* A bit for each word from the first one's on. */
static inline uint64_t words_between(uintptr_t first, uintptr_t last)
{
    return ((uint64_t)2 << ((last >> 3) - (first >> 3))) - 1;
}

static inline void count_in(struct npc_page *entry, uint64_t now, uintptr_t address, uint64_t words, bool write)
{
    uint32_t *line = (write ? entry->line_writes : entry->line_reads) + (address >> 6 & 63);
    *(write ? &entry->writes : &entry->reads) += 1;
    (write ? entry->written_words : entry->read_words)[address >> 9 & 7] |= words << (address >> 3 & 63);
    *line += *line != UINT32_MAX;
    stamp(entry, now, write);
    if (__builtin_expect(--mine.until_often < 0, 0))
        meet_often(entry, address);
}

static __attribute__((noinline)) void count_elsewhere(uintptr_t address, uint64_t words, bool write,
                                                      struct npc_page **recent)
{
    uint64_t now = *slot;
    if (npc_head == NULL)
        return;
    *recent = entry_of(address >> PAGE_SHIFT, now);
    count_in(*recent, now, address, words, write);
}

/* One access that begins at `address` and stays in its line; words: the bits of the words from its own on. Nothing
 * is called but at the end, so that no register has to be saved. */
static inline __attribute__((always_inline)) void count(uintptr_t address, uint64_t words, bool write)
{
    uintptr_t place = (uintptr_t)__builtin_return_address(0);
    struct npc_page **recent = mine.recent + ((place >> 2 ^ place >> 7) & (RECENT - 1)), *entry = *recent;
    uint64_t now = *slot;
    if (__builtin_expect(entry == NULL || entry->page != address >> PAGE_SHIFT || entry->slot_scale != now >> 6, 0))
        count_elsewhere(address, words, write, recent);
    else
        count_in(entry, now, address, words, write);
}

/* One access that may begin and end anywhere: it counts on each line and on each page that it touches. */
static inline __attribute__((always_inline)) void count_unaligned(uintptr_t address, size_t bytes, bool write)
{
    uintptr_t last = address + bytes - 1, second = last & ~(uintptr_t)(NPC_LINE_BYTES - 1);
    if (__builtin_expect(address >= second, 1)) {
        count(address, words_between(address, last), write);
        return;
    }
    count(address, words_between(address, second - 1), write);
    count(second, words_between(second, last), write);
    if (npc_head != NULL && address >> PAGE_SHIFT == last >> PAGE_SHIFT) { /* on one page it is one */
        struct npc_page *entry = entry_of(last >> PAGE_SHIFT, *slot);
        *(write ? &entry->writes : &entry->reads) -= 1;
    }
}

/* A stretch of memory: an access for each word that it touches. */
static void count_range(uintptr_t address, size_t bytes, bool write)
{
    if (bytes == 0 || npc_head == NULL)
        return;
    for (uintptr_t word = address >> 3, end = (address + bytes - 1) >> 3; word <= end;) {
        uint64_t now = *slot;
        struct npc_page *entry = entry_of(word >> (PAGE_SHIFT - 3), now);
        uint64_t *masks = write ? entry->written_words : entry->read_words;
        uint32_t *lines = write ? entry->line_writes : entry->line_reads;
        uint64_t accesses = 0;
        do { /* a line at a time */
            uintptr_t after = (word | 7) + 1;
            uint32_t number = (uint32_t)((after <= end ? after : end + 1) - word), *line = lines + (word >> 3 & 63);
            masks[word >> 6 & 7] |= (((uint64_t)1 << number) - 1) << (word & 63);
            *line = *line > UINT32_MAX - number ? UINT32_MAX : *line + number;
            accesses += number;
            word += number;
        } while (word <= end && (word & (NPC_PAGE_BYTES / 8 - 1)) != 0);
        *(write ? &entry->writes : &entry->reads) += accesses;
        stamp(entry, now, write);
        mine.until_often -= (int32_t)accesses;
        if (mine.until_often < 0)
            meet_often(entry, (word - 1) << 3);
    }
}

void npc_count_reads(const void *address, size_t bytes)
{
    count_range((uintptr_t)address, bytes, false);
}

void npc_count_writes(const void *address, size_t bytes)
{
    count_range((uintptr_t)address, bytes, true);
}

/* ---- threads and the process ---- */

static void lock_spares(void)
{
    while (__atomic_exchange_n(&spares_lock, 1, __ATOMIC_ACQUIRE))
        ;
}

static void unlock_spares(void)
{
    __atomic_store_n(&spares_lock, 0, __ATOMIC_RELEASE);
}

static void thread_begins(void)
{
    if (npc_traced)
        return;
    lock_spares();
    struct spare *spare = spares;
    if (spare != NULL)
        spares = spare->next;
    unlock_spares();
    if (spare != NULL)
        spare->next = NULL;
    mine.top = spare != NULL ? (struct npc_page ***)spare : npc_reserve(sizeof(struct npc_page **) << LEVEL);
    mine.until_often = NPC_OFTEN;
}

static void creating(bool begins)
{
    (void)begins;
}

static void forget(void)
{
    mine = (struct counter){0};
}

static void thread_ends(void)
{
    struct npc_page ***top = mine.top;
    struct counter was = mine;
    forget();
    if (top == NULL)
        return;
    bool all = was.seconds <= SECONDS;
    for (size_t index = 0; index < (all ? was.seconds : LEVEL_MASK + 1); index++) {
        size_t at = all ? was.second[index] : index;
        if (top[at] != NULL) {
            npc_release(top[at], sizeof(struct npc_page *) << LEVEL);
            top[at] = NULL;
        }
    }
    struct spare *spare = (struct spare *)top;
    lock_spares();
    spare->next = spares;
    spares = spare;
    unlock_spares();
}

static void forked(void)
{
    tick = &no_clock.tick;
    slot = &no_clock.slot;
    forget();
}

/* Where the pages lie that were accessed: now, since the first touch decides it. */
static void ends(void)
{
    enum { PLACES_AT_ONCE = 512 };
    void *addresses[PLACES_AT_ONCE];
    int count = 0;
    const char *begin = (const char *)npc_head, *end = begin + npc_head->used;
    if (!npc_has_nodes())
        return;
    for (const char *at = begin + NPC_CHUNK_BYTES; at + sizeof(struct npc_chunk) <= end;) {
        const struct npc_chunk *chunk = (const struct npc_chunk *)at;
        const struct npc_page *page = (const struct npc_page *)(chunk + 1);
        if (chunk->kind == NPC_PAGES)
            for (const char *last = (const char *)page + chunk->bytes; (const char *)(page + 1) <= last; page++) {
                if (page->page != 0)
                    addresses[count++] = (void *)(page->page << PAGE_SHIFT);
                if (count == PLACES_AT_ONCE) {
                    npc_note_places(addresses, count);
                    count = 0;
                }
            }
        at += chunk->kind == 0 ? NPC_CHUNK_BYTES : sizeof *chunk + chunk->bytes;
    }
    npc_note_places(addresses, count);
}

const struct npc_hooks npc_count_hooks = {
    .thread_begins = thread_begins,
    .thread_ends = thread_ends,
    .creating = creating,
    .forked = forked,
    .ends = ends,
};

/* ---- for the reader of a trace ---- */

void npc_count_access(uintptr_t address, size_t bytes, bool write)
{
    count_unaligned(address, bytes, write);
}

void npc_count_for(struct npc_thread *thread)
{
    npc_self.thread = thread;
    npc_self.number = thread->number;
    thread_begins();
    tick = &npc_head->tick;
    slot = &npc_head->slot;
}

/* ---- what the compiler calls ---- */

/* Each module's first initialiser: a process that has none is no program to count. */
NPC_EXPORT void __tsan_init(void)
{
    static int once;
    if (__atomic_exchange_n(&once, 1, __ATOMIC_RELAXED))
        return;
    if (npc_claim(NPC_COUNTING, &npc_count_hooks)) {
        npc_open_allocations();
        tick = &npc_head->tick;
        slot = &npc_head->slot;
        npc_own_blocks = true;
    }
}

NPC_EXPORT void __tsan_func_entry(void *caller)
{
    (void)caller;
}

NPC_EXPORT void __tsan_func_exit(void)
{
}

#define READ(address, bytes) count_unaligned((uintptr_t)(address), bytes, false)
#define WRITE(address, bytes) count_unaligned((uintptr_t)(address), bytes, true)
/* Aligned: within a word, or two words of one line. */
#define ALIGNED(name, bytes)                                                                                   \
    NPC_EXPORT void __tsan_##name##read##bytes(void *address)                                                  \
    {                                                                                                          \
        count((uintptr_t)address, bytes == 16 ? 3 : 1, false);                                                 \
    }                                                                                                          \
    NPC_EXPORT void __tsan_##name##write##bytes(void *address)                                                 \
    {                                                                                                          \
        count((uintptr_t)address, bytes == 16 ? 3 : 1, true);                                                  \
    }
#define UNALIGNED(name, bytes)                                                                                 \
    NPC_EXPORT void __tsan_##name##read##bytes(void *address)                                                  \
    {                                                                                                          \
        READ(address, bytes);                                                                                  \
    }                                                                                                          \
    NPC_EXPORT void __tsan_##name##write##bytes(void *address)                                                 \
    {                                                                                                          \
        WRITE(address, bytes);                                                                                 \
    }
/* clang's, of an access that reads and writes. */
#define BOTH(name, bytes)                                                                                      \
    NPC_EXPORT void __tsan_##name##read_write##bytes(void *address)                                            \
    {                                                                                                          \
        READ(address, bytes);                                                                                  \
        WRITE(address, bytes);                                                                                 \
    }
#define SIZES(macro, name) macro(name, 1) macro(name, 2) macro(name, 4) macro(name, 8) macro(name, 16)
#define LONGER(macro, name) macro(name, 2) macro(name, 4) macro(name, 8) macro(name, 16)
SIZES(ALIGNED, )
SIZES(ALIGNED, volatile_)
LONGER(UNALIGNED, unaligned_)
LONGER(UNALIGNED, unaligned_volatile_)
SIZES(BOTH, )
LONGER(BOTH, unaligned_)

NPC_EXPORT void __tsan_read_range(void *address, size_t bytes)
{
    npc_count_reads(address, bytes);
}

NPC_EXPORT void __tsan_write_range(void *address, size_t bytes)
{
    npc_count_writes(address, bytes);
}

NPC_EXPORT void __tsan_vptr_update(void **place, void *value)
{
    (void)value;
    WRITE(place, sizeof *place);
}

NPC_EXPORT void __tsan_vptr_read(void **place)
{
    READ(place, sizeof *place);
}

/* ---- atomic operations: these are left to the library altogether ---- */

/* Sequentially consistent, which is right for every order that may be asked for. An operation that changes a value
 * reads and writes; an exchange that fails reads. */
#define ORDER __ATOMIC_SEQ_CST
#define CHANGE(bits, type, name, builtin)                                                                      \
    NPC_EXPORT type __tsan_atomic##bits##_##name(volatile type *place, type value, int order)                  \
    {                                                                                                          \
        (void)order;                                                                                           \
        READ(place, sizeof *place);                                                                            \
        WRITE(place, sizeof *place);                                                                           \
        return builtin(place, value, ORDER);                                                                   \
    }
#define EXCHANGE(bits, type, name)                                                                             \
    NPC_EXPORT int __tsan_atomic##bits##_##name(volatile type *place, type *expected, type value, int order,   \
                                                int failed)                                                    \
    {                                                                                                          \
        (void)order, (void)failed;                                                                             \
        READ(place, sizeof *place);                                                                            \
        if (!__atomic_compare_exchange_n(place, expected, value, false, ORDER, ORDER))                         \
            return 0;                                                                                          \
        WRITE(place, sizeof *place);                                                                           \
        return 1;                                                                                              \
    }
#define ATOMIC(bits, type)                                                                                     \
    NPC_EXPORT type __tsan_atomic##bits##_load(const volatile type *place, int order)                          \
    {                                                                                                          \
        (void)order;                                                                                           \
        READ(place, sizeof *place);                                                                            \
        return __atomic_load_n(place, ORDER);                                                                  \
    }                                                                                                          \
    NPC_EXPORT void __tsan_atomic##bits##_store(volatile type *place, type value, int order)                   \
    {                                                                                                          \
        (void)order;                                                                                           \
        WRITE(place, sizeof *place);                                                                           \
        __atomic_store_n(place, value, ORDER);                                                                 \
    }                                                                                                          \
    CHANGE(bits, type, exchange, __atomic_exchange_n)                                                          \
    CHANGE(bits, type, fetch_add, __atomic_fetch_add)                                                          \
    CHANGE(bits, type, fetch_sub, __atomic_fetch_sub)                                                          \
    CHANGE(bits, type, fetch_and, __atomic_fetch_and)                                                          \
    CHANGE(bits, type, fetch_or, __atomic_fetch_or)                                                            \
    CHANGE(bits, type, fetch_xor, __atomic_fetch_xor)                                                          \
    CHANGE(bits, type, fetch_nand, __atomic_fetch_nand)                                                        \
    EXCHANGE(bits, type, compare_exchange_strong)                                                              \
    EXCHANGE(bits, type, compare_exchange_weak)                                                                \
    NPC_EXPORT type __tsan_atomic##bits##_compare_exchange_val(volatile type *place, type expected, type value, \
                                                               int order, int failed)                          \
    {                                                                                                          \
        __tsan_atomic##bits##_compare_exchange_strong(place, &expected, value, order, failed);                 \
        return expected;                                                                                       \
    }

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

#if defined __GCC_HAVE_SYNC_COMPARE_AND_SWAP_16
/* By compare and exchange: the C library's own way would take a lock that the program does not know of. */
typedef unsigned __int128 wide;

static wide change(volatile wide *place, wide value, wide (*operation)(wide, wide))
{
    wide old = *place, seen;
    READ(place, sizeof *place);
    WRITE(place, sizeof *place);
    while ((seen = __sync_val_compare_and_swap(place, old, operation(old, value))) != old)
        old = seen;
    return old;
}

#define WIDE(name, expression)                                                                                 \
    static wide wide_##name(wide old, wide value)                                                              \
    {                                                                                                          \
        (void)old;                                                                                             \
        return expression;                                                                                     \
    }                                                                                                          \
    NPC_EXPORT wide __tsan_atomic128_##name(volatile wide *place, wide value, int order)                       \
    {                                                                                                          \
        (void)order;                                                                                           \
        return change(place, value, wide_##name);                                                              \
    }
WIDE(exchange, value)
WIDE(fetch_add, old + value)
WIDE(fetch_sub, old - value)
WIDE(fetch_and, old & value)
WIDE(fetch_or, old | value)
WIDE(fetch_xor, old ^ value)
WIDE(fetch_nand, ~(old & value))

NPC_EXPORT wide __tsan_atomic128_load(const volatile wide *place, int order)
{
    (void)order;
    READ(place, sizeof *place);
    return __sync_val_compare_and_swap((volatile wide *)place, 0, 0);
}

NPC_EXPORT void __tsan_atomic128_store(volatile wide *place, wide value, int order)
{
    wide old = *place, seen;
    (void)order;
    WRITE(place, sizeof *place);
    while ((seen = __sync_val_compare_and_swap(place, old, value)) != old)
        old = seen;
}

NPC_EXPORT wide __tsan_atomic128_compare_exchange_val(volatile wide *place, wide expected, wide value, int order,
                                                      int failed)
{
    (void)order, (void)failed;
    READ(place, sizeof *place);
    wide seen = __sync_val_compare_and_swap(place, expected, value);
    if (seen == expected)
        WRITE(place, sizeof *place);
    return seen;
}

NPC_EXPORT int __tsan_atomic128_compare_exchange_strong(volatile wide *place, wide *expected, wide value, int order,
                                                        int failed)
{
    wide seen = __tsan_atomic128_compare_exchange_val(place, *expected, value, order, failed);
    bool done = seen == *expected;
    *expected = seen;
    return done;
}

NPC_EXPORT int __tsan_atomic128_compare_exchange_weak(volatile wide *place, wide *expected, wide value, int order,
                                                      int failed)
{
    return __tsan_atomic128_compare_exchange_strong(place, expected, value, order, failed);
}
#endif

NPC_EXPORT void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    __atomic_thread_fence(ORDER);
}

NPC_EXPORT void __tsan_atomic_signal_fence(int order)
{
    (void)order;
    __atomic_signal_fence(ORDER);
}
