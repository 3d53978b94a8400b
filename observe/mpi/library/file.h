/* The rank's file, as the library maps it: a header with a table of sections, then the sections, each on pages of
 * its own. Python reads it by this text (observe/c_header.py), so that a structure has numbers of fixed size, texts
 * and structures declared before it, and nothing else. Numbers have the machine's byte order. A moment is a time of
 * CLOCK_MONOTONIC in ns. Whoever changes a structure changes NPC_VERSION. */
#ifndef NPC_FILE_H
#define NPC_FILE_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

#define NPC_MAGIC "NPCMPI\n"
enum { NPC_VERSION = 2, NPC_SECTIONS = 192, NPC_THREADS = 64 };

/* What the entries of a section are. */
enum npc_kind {
    NPC_NAMES = 1,   /* npc_call_name, by the call's number */
    NPC_REGIONS,     /* npc_region_entry, by the region's number */
    NPC_COMMS,       /* npc_comm_entry: communicators, windows, files, by their number less 1 */
    NPC_PLACE,       /* npc_thread_place, by thread */
    NPC_CLOCK,       /* npc_clock_reading */
    NPC_ARRIVALS,    /* npc_arrival */
    NPC_SENT,        /* npc_message */
    NPC_RECEIVED,    /* npc_message */
    NPC_COUNTS,      /* npc_calls; one section a thread */
    NPC_PEERS,       /* npc_peer; one section a thread */
    NPC_VARIABLES,   /* npc_table of variables.h */
    NPC_SNAPSHOTS    /* npc_column of variables.h */
};
/* The number that stands for all communicators, windows and files that there was no room for. */
enum { NPC_OTHERS = 1023 };

enum npc_state { NPC_LOADED, NPC_COUNTING, NPC_FINALIZED };

/* What is missing, one bit each: `npc_header.notes`. */
enum npc_note {
    NPC_FULL_CALLS = 1,      /* further calls are counted by name only */
    NPC_FULL_COMMS = 2,      /* further communicators are counted as one */
    NPC_FULL_REGIONS = 4,    /* further regions are counted as the one around them */
    NPC_FULL_SEQUENCES = 8,  /* further partners and tags have no stamps */
    NPC_FULL_REQUESTS = 16,  /* what came by further requests is unknown */
    NPC_FULL_PEERS = 32,     /* messages to further partners are in no matrix */
    NPC_MANY_THREADS = 64,   /* the last place is shared */
    NPC_OTHER_WORLD = 128,   /* messages to processes outside MPI_COMM_WORLD */
    NPC_LATE = 256,          /* MPI_Init went past the library */
    NPC_SECOND = 512,        /* a second MPI program in this rank was not counted */
    NPC_NO_MEMORY = 1024     /* no room for the counters of a further thread */
};

typedef struct {
    uint32_t kind;        /* npc_kind */
    uint32_t thread;      /* whose, by number */
    uint32_t entry_bytes; /* of one entry */
    uint32_t capacity;    /* entries that there is room for */
    uint64_t offset;      /* of its first entry, bytes from the file's begin */
    uint64_t used;        /* entries */
    uint64_t mask;        /* stamps: those are in the file whose hash has none of these bits */
} npc_section;

typedef struct {
    char magic[8];           /* NPC_MAGIC */
    uint32_t version;        /* NPC_VERSION */
    uint32_t header_bytes;   /* of this structure */
    uint32_t state;          /* npc_state */
    uint32_t sections;       /* how many of `section` are in use */
    int32_t pid;             /* the process that counts; 0: none yet */
    int32_t rank, ranks;     /* in MPI_COMM_WORLD; rank -1: not known yet */
    int32_t thread_level;    /* MPI's own number, one of `levels` */
    int32_t levels[4];       /* MPI_THREAD_SINGLE … MPI_THREAD_MULTIPLE */
    int32_t threads;         /* that called MPI */
    int32_t openmp_threads;  /* that the rank was to have (OMP_NUM_THREADS) */
    uint32_t notes;          /* npc_note */
    int32_t counters_errno;  /* why the hardware counts nothing; 0: it does */
    uint16_t region;         /* the present one, by number */
    uint16_t paused;         /* 1: by MPI_Pcontrol(0) */
    uint32_t reserved;
    int64_t began;           /* moment at which MPI_Init had ended */
    int64_t ended;           /* moment at which MPI_Finalize began; 0: it has not */
    int64_t region_since;    /* moment from which on `region` or `paused` holds */
    int64_t paused_ns;       /* earlier pauses, ns */
    int64_t cpu_ns;          /* CPU time of all threads from `began` to `ended`, ns; -1: not known */
    uint64_t instructions;   /* in user mode from `began` to `ended` */
    uint64_t cycles;         /* likewise */
    char host[64];           /* its name */
    char library[256];       /* MPI_Get_library_version */
    char reason[256];        /* why nothing is counted; empty: it is */
    npc_section section[NPC_SECTIONS];
} npc_header;

/* The name of a call, as in the manual (MPI_Send). */
typedef struct {
    char text[48];
} npc_call_name;

/* Calls of one kind. */
typedef struct {
    uint64_t key;         /* call, region, communicator, size class: 16 bits each, from the lowest */
    uint64_t calls;       /* how many */
    uint64_t nanoseconds; /* in all of them */
    uint64_t bytes;       /* of all of them */
} npc_calls;

typedef struct {
    int64_t nanoseconds; /* spent in it */
    char name[56];       /* by MPI_Pcontrol; empty: outside of all */
} npc_region_entry;

typedef struct {
    uint64_t key;  /* the same in all its ranks */
    int32_t size;  /* ranks; of an intercommunicator, of the other group */
    uint32_t kind; /* 0 communicator, 1 window, 2 file */
    char name[64]; /* MPI_Comm_get_name's, or empty */
} npc_comm_entry;

/* Where a thread is: within `call` if entered > left. */
typedef struct {
    int64_t entered, left; /* moments */
    uint32_t call;         /* by number */
    uint32_t reserved;
} npc_thread_place;

/* A reading of the node's clock. */
typedef struct {
    int64_t at;      /* moment */
    int64_t unix_ns; /* the Unix time then, ns */
    int64_t error;   /* of that at most, ns; -1: no time service keeps it right */
} npc_clock_reading;

/* The stamp of a collective call. */
typedef struct {
    uint16_t on;           /* the communicator, window or file, by number */
    uint16_t call;         /* by number */
    uint16_t region;       /* by number */
    uint16_t reserved;
    int32_t root;          /* its rank in MPI_COMM_WORLD; -1: none, or not known */
    uint32_t hash;         /* of `sequence` */
    uint64_t sequence;     /* which of the collective calls on it */
    int64_t entered, left; /* moments */
} npc_arrival;

/* The stamp of a message that was sent, or received. */
typedef struct {
    uint16_t on;           /* the communicator, by number */
    uint16_t call;         /* by number */
    uint16_t region;       /* by number */
    uint16_t reserved;
    int32_t tag;           /* MPI's */
    int32_t peer;          /* the other rank, in MPI_COMM_WORLD */
    uint32_t hash;         /* of `sequence` */
    uint32_t reserved2;
    uint64_t sequence;     /* which of the messages of this communicator, tag and peer */
    int64_t entered, left; /* moments */
    int64_t posted;        /* moment at which it was asked for (received) */
    uint64_t bytes;        /* of the message */
} npc_message;

enum npc_peer_kind { NPC_USER, NPC_PUT, NPC_GET, NPC_PEER_KINDS };
/* What went to another rank, or was fetched from it. */
typedef struct {
    int32_t rank;      /* in MPI_COMM_WORLD */
    uint32_t kind;     /* npc_peer_kind */
    uint64_t bytes;    /* of all messages */
    uint64_t messages; /* how many */
} npc_peer;

/* A new section of the rank's file, zeroed, or NULL where there is no room; it may be filled up to its capacity,
 * `used` says how far. *entries: its begin. */
npc_section *npc_new_section(enum npc_kind kind, uint32_t thread, uint32_t entry_bytes, uint32_t capacity,
                             void **entries);

#pragma GCC visibility pop
#endif
