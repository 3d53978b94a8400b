/* The library's counters over time: MPI_T performance variables, software-defined events, and totals of the
 * profile itself, in a section of the rank's file (observe/mpi/variables.py reads it).
 *
 * The section is a table of fixed size: a column for each counter, a row for each snapshot. The first row is taken
 * when MPI_Init has ended, the last one before MPI_Finalize. When it is full, every second row is dropped and the
 * period doubles. Asked for by the environment: NPC_MPIT and NPC_SDE (names with * and ?, separated by commas, or
 * `all`), NPC_SNAPSHOTS (seconds; 0: the first and the last row only). Nothing is written where all are unset.
 */
#ifndef NPC_VARIABLES_H
#define NPC_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

enum { NPC_COLUMNS = 512, NPC_ROWS = 512, NPC_ASKED = 512, NPC_PATTERNS = 64 };

/* Texts end with a zero byte. A value that was not there yet, or is not there any more, is not a number. */
typedef struct {
    char name[128];
    char kind[16]; /* counter, aggregate, timer, size, level, percentage, highwatermark, lowwatermark */
    char unit[16];
    char about[224];
    double values[NPC_ROWS];
} npc_column;

/* Names that were asked for, and which of them (bit by bit) something has matched. */
typedef struct {
    char asked[NPC_ASKED];
    uint64_t matched;
} npc_choice;

typedef struct {
    uint32_t version; /* 0: nothing was asked for */
    uint32_t columns, rows;
    uint32_t moving;   /* rows are being dropped: should the rank end now, they are mixed up */
    double period;     /* seconds between snapshots; 0: none but the first and the last */
    uint32_t no_mpi_t; /* what MPI_T_init_thread answered, if not MPI_SUCCESS */
    uint32_t offered;  /* variables that MPI_T counts, read or not */
    uint32_t closed;   /* those of components that are not in use */
    uint32_t objects;  /* those bound to windows, files, requests … */
    uint32_t others;   /* those of other classes: states, generic ones */
    uint32_t no_room;  /* counters for which no column was left */
    uint32_t no_sde;   /* software-defined events are asked for, but libsde is not loaded */
    uint32_t untyped;  /* events registered past this library, and records of a type that it does not know */
    npc_choice mpit, sde;
    char reserved[952];
    int64_t at[NPC_ROWS]; /* nanoseconds of CLOCK_MONOTONIC */
    npc_column column[NPC_COLUMNS];
} npc_section;

_Static_assert(sizeof(npc_section) == 2048 + 8 * NPC_ROWS + NPC_COLUMNS * (384 + 8 * NPC_ROWS), "read by Python");

#define NPC_VARIABLES_BYTES sizeof(npc_section)

extern int64_t npc_next_snapshot; /* npc_snapshot is due then; INT64_MAX: never */
void npc_snapshot(int64_t now);

/* When MPI_Init has ended; before MPI_Finalize, MPI_Abort (once is enough). */
void npc_variables_begin(void *section);
void npc_variables_end(void);

/* For variables.c and events.c alone. */

/* Whether one of the names asked for is this one. */
bool npc_chosen(npc_choice *choice, const char *name);
/* A new column, -1 if there is none left. A name that is taken gets its kind behind it. */
int npc_column_add(const char *name, const char *kind, const char *unit, const char *about);
/* The column of that name, -1. */
int npc_column_find(const char *name);
/* In the row that is being taken. */
void npc_column_set(int column, double value);

/* Software-defined events: looks for new ones and reads all. whole: recorders of any length with their quartiles,
 * else only those that are short. */
void npc_events_read(npc_section *section, bool whole);

#pragma GCC visibility pop
#endif
