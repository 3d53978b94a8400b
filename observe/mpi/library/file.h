/* The rank's file, as the library maps it and observe/mpi/rank_file.py reads it: a header with a table of sections,
 * then the sections, each on pages of its own. Numbers have the machine's byte order; moments are nanoseconds of
 * CLOCK_MONOTONIC. Whoever changes a struct changes NPC_VERSION and the reader. */
#ifndef NPC_FILE_H
#define NPC_FILE_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

#define NPC_MAGIC "NPCMPI\n"
enum { NPC_VERSION = 2, NPC_SECTIONS = 192, NPC_THREADS = 64 };

enum npc_kind {
    NPC_NAMES = 1,   /* char[NPC_NAME]: the calls' names, by number */
    NPC_REGIONS,     /* npc_region_entry */
    NPC_COMMS,       /* npc_comm_entry: communicators, windows, files */
    NPC_PLACE,       /* npc_thread_place, by thread */
    NPC_CLOCK,       /* npc_clock_reading */
    NPC_ARRIVALS,    /* npc_arrival */
    NPC_SENT,        /* npc_message */
    NPC_RECEIVED,    /* npc_message */
    NPC_COUNTS,      /* npc_calls; one section a thread */
    NPC_PEERS,       /* npc_peer; one section a thread */
    NPC_VARIABLES,   /* variables.c's */
    NPC_SNAPSHOTS
};
enum { NPC_NAME = 48 };

enum npc_state { NPC_LOADED, NPC_COUNTING, NPC_FINALIZED };

/* What is missing, one bit each: `npc_header.notes`. */
enum npc_note {
    NPC_FULL_CALLS = 1,      /* further calls are counted by name only */
    NPC_FULL_COMMS = 2,      /* further communicators are counted as one */
    NPC_FULL_REGIONS = 4,    /* further regions are counted as the one around them */
    NPC_FULL_SEQUENCES = 8,  /* further partners and tags have no stamps */
    NPC_FULL_REQUESTS = 16,  /* what came by further requests is unknown */
    NPC_FULL_PEERS = 32,
    NPC_MANY_THREADS = 64,   /* the last place is shared */
    NPC_OTHER_WORLD = 128,   /* messages to processes outside MPI_COMM_WORLD */
    NPC_LATE = 256,          /* MPI_Init went past the library */
    NPC_SECOND = 512,        /* a second MPI program in this rank was not counted */
    NPC_NO_MEMORY = 1024     /* no room for the counters of a further thread */
};

typedef struct {
    uint32_t kind, thread;
    uint32_t entry_bytes, capacity;
    uint64_t offset;
    uint64_t used;
    uint64_t mask; /* stamps: those are kept whose hash has none of these bits */
} npc_section;

typedef struct {
    char magic[8];
    uint32_t version, header_bytes;
    uint32_t state, sections;
    int32_t pid;
    int32_t rank, ranks;
    int32_t thread_level; /* MPI's own number: names stand in levels */
    int32_t levels[4];    /* MPI_THREAD_SINGLE … MPI_THREAD_MULTIPLE */
    int32_t threads;
    int32_t openmp_threads;
    uint32_t notes;
    int32_t counters_errno; /* why the hardware counts nothing; 0: it does */
    uint16_t region, paused;
    uint32_t reserved;
    int64_t began, ended;
    int64_t region_since;
    int64_t paused_ns;
    int64_t cpu_ns; /* -1: not known */
    uint64_t instructions, cycles;
    char host[64];
    char library[256];
    char reason[256]; /* why nothing is counted; empty: it is */
    npc_section section[NPC_SECTIONS];
} npc_header;

/* Calls of one kind. key: call, region, communicator, size class: 16 bits each, from the lowest. */
typedef struct {
    uint64_t key;
    uint64_t calls;
    uint64_t nanoseconds;
    uint64_t bytes;
} npc_calls;

typedef struct {
    int64_t nanoseconds;
    char name[56];
} npc_region_entry;

typedef struct {
    uint64_t key;
    int32_t size;
    uint32_t kind; /* 0 communicator, 1 window, 2 file */
    char name[64];
} npc_comm_entry;

/* Where a thread is: within `call` if entered > left. */
typedef struct {
    int64_t entered, left;
    uint32_t call, reserved;
} npc_thread_place;

/* A moment, the Unix time then, and how wrong that is at most; -1: nobody keeps it right. */
typedef struct {
    int64_t at, unix_ns, error;
} npc_clock_reading;

typedef struct {
    uint16_t on, call, region, reserved;
    int32_t root; /* its world rank, -1: none */
    uint32_t hash;
    uint64_t sequence;
    int64_t entered, left;
} npc_arrival;

typedef struct {
    uint16_t on, call, region, reserved;
    int32_t tag, peer;
    uint32_t hash, reserved2;
    uint64_t sequence;
    int64_t entered, left;
    int64_t posted; /* of a receive */
    uint64_t bytes;
} npc_message;

enum npc_peer_kind { NPC_USER, NPC_PUT, NPC_GET, NPC_PEER_KINDS };
typedef struct {
    int32_t rank;
    uint32_t kind;
    uint64_t bytes, messages;
} npc_peer;

/* A new section of the rank's file, zeroed, or NULL where there is no room; it may be filled up to its capacity,
 * `used` says how far. *entries: its begin. */
npc_section *npc_new_section(enum npc_kind kind, uint32_t thread, uint32_t entry_bytes, uint32_t capacity,
                             void **entries);

#pragma GCC visibility pop
#endif
