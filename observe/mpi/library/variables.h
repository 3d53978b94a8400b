/* The library's counters over time: MPI_T performance variables, software-defined events, and totals of the
 * profile itself, in two sections of the rank's file (observe/mpi/variables.py reads them by the text of this header,
 * as file.h says it).
 *
 * They are a table of fixed size: a column for each counter, a row for each snapshot. The first row is taken when
 * MPI_Init has ended, the last one before MPI_Finalize. When it is full, every second row is dropped and the period
 * doubles. Asked for by the environment: NPC_MPIT and NPC_SDE (names with * and ?, separated by commas, or
 * `all`), NPC_SNAPSHOTS (seconds; 0: the first and the last row only). Nothing is written where all are unset.
 */
#ifndef NPC_VARIABLES_H
#define NPC_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Room for counters and snapshots; of npc_choice for text and names. */
enum { NPC_COLUMNS = 512, NPC_ROWS = 256, NPC_CHOICE_BYTES = 512, NPC_CHOICES = 64 };

/* A counter. Texts end with a zero byte. */
typedef struct {
    char name[128];
    char kind[16];           /* counter, aggregate, timer, size, level, percentage, highwatermark, lowwatermark */
    char unit[16];           /* of the values; empty: a number */
    char about[224];         /* what it counts, in a sentence of the library that has it */
    double values[NPC_ROWS]; /* by snapshot; not a number: it was not there yet, or is not there any more */
} npc_column;

/* The counters to be read. */
typedef struct {
    char names[NPC_CHOICE_BYTES]; /* with * and ?, separated by commas, or `all`; empty: none */
    uint64_t matched;             /* a bit for each name that some counter has */
} npc_choice;

/* The one entry of section NPC_VARIABLES; the columns are the entries of NPC_SNAPSHOTS. */
typedef struct {
    uint32_t rows;     /* snapshots so far */
    uint32_t moving;   /* rows are being dropped: should the rank end now, they are mixed up */
    double period;     /* seconds between snapshots; 0: none but the first and the last */
    uint32_t no_mpi_t; /* what MPI_T answered when it was started, if not MPI_SUCCESS */
    uint32_t offered;  /* variables that MPI_T counts, read or not */
    /* Variables that were asked for and are not read: */
    uint32_t off;      /* MPI gives no handle, as for counters that are switched off */
    uint32_t unused;   /* of transports that are not in use */
    uint32_t objects;  /* bound to windows, files, requests … */
    uint32_t others;   /* of other classes (states, generic ones) and types */
    uint32_t no_room;  /* counters for which no column was left */
    uint32_t no_sde;   /* software-defined events are asked for, but libsde is not loaded */
    uint32_t untyped;  /* events registered past this library, and records of a type that it does not know */
    uint32_t reserved;
    npc_choice mpit;   /* of MPI_T's performance variables */
    npc_choice sde;    /* of software-defined events */
    int64_t at[NPC_ROWS]; /* moments of the snapshots, ns of CLOCK_MONOTONIC */
} npc_table;

extern int64_t npc_next_snapshot; /* npc_snapshot is due then; INT64_MAX: never */
void npc_snapshot(int64_t now);

/* When MPI_Init has ended; before MPI_Finalize, MPI_Abort (once is enough). */
void npc_variables_begin(void);
void npc_variables_end(void);

/* columns.c: for variables.c and events.c alone. */

/* The table, with the names that the environment asks for; NULL where there is no room. */
npc_table *npc_table_open(void);
/* Begins a row. Of a full table every second row is dropped first. */
void npc_row_begin(void);
/* Ends it: it was taken at that moment. */
void npc_row_end(int64_t at);
/* Whether one of the names asked for is this one. */
bool npc_chosen(npc_choice *choice, const char *name);
/* A new column, -1 if there is none left. A name that is taken gets its kind behind it. */
int npc_column_add(const char *name, const char *kind, const char *unit, const char *about);
/* The column of that name, -1. */
int npc_column_find(const char *name);
/* In the row that is being taken. */
void npc_column_set(int column, double value);

/* events.c. Software-defined events: looks for new ones and reads all. whole: recorders of any length with their quartiles,
 * else only those that are short. */
void npc_events_read(npc_table *table, bool whole);

#pragma GCC visibility pop
#endif
