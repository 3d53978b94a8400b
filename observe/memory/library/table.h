/* What is kept of a process's memory while it runs: one file, in memory without a name, that observe.rank holds.
 *
 * Both libraries write it: count.c every access, sample.c the first accesses of an interval. Whatever ends the
 * process, what is in the file is whole: a chunk is taken by one atomic step of `used`, belongs to one thread, and
 * an entry counts once its first field is not zero. Header and chunks are whole NPC_CHUNK_BYTES; a piece that
 * begins with zeros was taken and never used. Python reads the file by this text (observe/c_header.py), so that a
 * structure has numbers of fixed size and texts, and nothing else.
 *
 * All times are CLOCK_MONOTONIC in ns since `began`; addresses and pages are those of the process (page: address
 * divided by page_bytes). Threads are numbered from 0 in the order in which they were first seen. */
#ifndef NPC_MEMORY_TABLE_H
#define NPC_MEMORY_TABLE_H

#include <stdint.h>

#define NPC_MEMORY_MAGIC "NPCMEM\n"
enum { NPC_MEMORY_VERSION = 1, NPC_LINE_BYTES = 64, NPC_PAGE_BYTES = 4096, NPC_LINES = 64, NPC_CALLERS = 6 };
enum { NPC_CHUNK_BYTES = 4096, NPC_SMALL = 16384, NPC_OFTEN = 1021 };
/* Of npc_page: the shortest slot, and slots, bits of a mask. */
enum { NPC_SLOT_NS = 1 << 20, NPC_SLOTS = 64 };

enum npc_mode { NPC_COUNTING = 1, NPC_SAMPLING = 2 };

struct npc_table {
    char magic[8];                 /* NPC_MEMORY_MAGIC */
    uint32_t version;              /* NPC_MEMORY_VERSION */
    uint32_t mode;                 /* npc_mode */
    uint32_t page_bytes;           /* NPC_PAGE_BYTES */
    uint32_t threads;              /* seen so far */
    uint64_t began;                /* CLOCK_MONOTONIC, ns */
    uint64_t ended;                /* since `began`; 0: the process did not come to its end */
    uint64_t used;                 /* bytes of the file in use, with this header */
    uint64_t lost;                 /* accesses or allocations that there was no room for */
    uint64_t inside;               /* ns that the library itself took, as far as it knows; 0: unknown */
    uint64_t process;              /* whose table it is; 0: nobody's yet */
    uint64_t tick;                 /* a coarse clock, by observe/memory/companion.py: ns since `began` */
    uint64_t slot;                 /* by the same: the present slot of npc_page, scale · NPC_SLOTS + bit */
    uint64_t small;                /* allocations below a page that were not kept, NPC_SMALL were */
    uint64_t others;               /* processes that found the table taken */
    uint64_t obstacles;            /* npc_obstacle, a bit each */
    uint64_t library_low, library_high;  /* within Valgrind: addresses whose instructions are not the program's */
    uint64_t spare;
};

/* Sampling: why accesses were not seen, or not all the time. */
enum npc_obstacle {
    NPC_NO_CATCHING = 1,    /* no Syscall User Dispatch: Linux 5.11 on x86-64 */
    NPC_MANY_STACKS = 2,    /* the program runs on many stacks of its own making */
    NPC_OTHER_THREADS = 4,  /* threads that were made past pthread_create */
    NPC_KERNEL_RINGS = 8,   /* io_uring or aio: the kernel reaches memory without a call */
    NPC_UNKNOWN_CALLS = 16, /* a thread slept in a call whose reach is not known */
    NPC_UNSETTLED = 32,     /* a thread was for too long in a call, or had SIGSEGV or SIGSYS blocked */
};

enum npc_chunk_kind {
    NPC_PAGES = 1,      /* npc_page, of one thread */
    NPC_OBJECTS = 2,    /* npc_object */
    NPC_THREADS = 3,    /* npc_thread */
    NPC_TOUCHES = 4,    /* npc_touch (sampling) */
    NPC_INTERVALS = 5,  /* npc_interval (sampling) */
    NPC_MAPS = 6,       /* text of /proc/self/maps, at the process's end or as late as it was to be had */
    NPC_PLACES = 7,     /* npc_place: on which NUMA node pages lie */
};

struct npc_chunk {
    uint32_t kind;   /* npc_chunk_kind */
    uint32_t thread; /* whose, by number */
    uint64_t bytes;  /* of the entries that follow, used or not; a multiple of 8 */
};

/* Counting: what one thread did to one page; reads and writes are accesses, an access counts on every page and
 * line that it touches, and counts of lines stop at their largest value. A page has one entry of a thread. The slots are
 * parts of the run, NPC_SLOT_NS << slot_scale each, the first from `began`. */
struct npc_page {
    uint64_t page;                 /* its number; 0: not used */
    uint64_t reads, writes;        /* accesses */
    uint64_t first, last;          /* ns of the first and (by the coarse clock, or 0) the last access */
    uint64_t read_words[8], written_words[8];  /* a bit for each 8 bytes */
    uint64_t often[8];             /* words that every NPC_OFTENth access of the thread met */
    uint64_t read_slots, written_slots;        /* a bit for each slot */
    uint32_t slot_scale;           /* a slot is NPC_SLOT_NS << slot_scale long */
    uint32_t spare;
    uint32_t line_reads[NPC_LINES], line_writes[NPC_LINES];  /* accesses, by cache line */
};

enum npc_object_kind { NPC_HEAP = 1, NPC_MAPPED = 2, NPC_STACK = 3 };

/* An allocation. */
struct npc_object {
    uint64_t address;              /* 0: not used */
    uint64_t bytes;                /* that were asked for */
    uint64_t born, freed;          /* ns; freed 0: never */
    uint32_t kind;                 /* npc_object_kind */
    uint32_t thread;               /* by whom */
    uint64_t callers[NPC_CALLERS]; /* return addresses from the inside out, 0 where there are no more */
};

struct npc_thread {
    uint64_t tid;                  /* Linux's number; 0: not used */
    uint64_t born, ended;          /* ns; ended 0: never */
    uint64_t stack_low, stack_high;  /* addresses; 0: not known */
    uint64_t start;                /* address of what the thread runs; 0: main */
    uint32_t number;               /* as in other structures */
    uint32_t cpu;                  /* where it last met a page (counting), or began */
};

/* Sampling: the first access of a thread to a page in an interval, as far as it could be seen. */
struct npc_touch {
    uint64_t address;              /* 0: not used; the byte, as the processor told it */
    uint64_t ip;                   /* address of the instruction */
    uint64_t time;                 /* ns */
    uint32_t interval;             /* npc_interval's number */
    uint16_t thread;               /* by number */
    uint16_t cpu;                  /* on which it was */
    uint32_t written;              /* 1: it was a write */
    uint32_t spare;
};

/* Sampling: a time in which the pages were closed once. */
struct npc_interval {
    uint64_t number;               /* from 1; 0: not used */
    uint64_t begin, end;           /* ns */
    uint64_t tracked, guarded;     /* pages there were, and of these whose accesses were to be seen */
};

/* Where a page lay. */
struct npc_place {
    uint64_t page;                 /* its number; 0: not used */
    int32_t node;                  /* the NUMA node; −1: not in memory */
    int32_t spare;
    uint64_t time;                 /* ns, at which the system was asked */
};

#endif
