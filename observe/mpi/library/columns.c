/* The table of counters over time: a column for each counter, a row for each snapshot. */
#define _GNU_SOURCE
#include "internal.h"
#include "variables.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static npc_table *table;
static npc_column *columns;
static npc_section *table_section, *columns_section;
static int number_of_columns;

bool npc_chosen(npc_choice *choice, const char *name)
{
    char names[NPC_CHOICE_BYTES], ending[NPC_CHOICE_BYTES + 2], *rest = names, *pattern;
    bool chosen = false;
    memcpy(names, choice->names, sizeof names);
    for (int i = 0; i < NPC_CHOICES && (pattern = strsep(&rest, ",")) != NULL; i++) {
        /* runtime_spc_OMPI_SPC_SEND is known as OMPI_SPC_SEND as well */
        snprintf(ending, sizeof ending, "*_%s", pattern);
        if (strcmp(pattern, "all") == 0 || fnmatch(pattern, name, 0) == 0 || fnmatch(ending, name, 0) == 0) {
            choice->matched |= UINT64_C(1) << i;
            chosen = true;
        }
    }
    return chosen;
}

static void copy(char *to, size_t room, const char *from)
{
    snprintf(to, room, "%s", from == NULL ? "" : from);
}

int npc_column_find(const char *name)
{
    for (int i = 0; i < number_of_columns; i++)
        if (strncmp(columns[i].name, name, sizeof columns[i].name - 1) == 0)
            return i;
    return -1;
}

int npc_column_add(const char *name, const char *kind, const char *unit, const char *about)
{
    if (number_of_columns == NPC_COLUMNS) {
        table->no_room++;
        return -1;
    }
    npc_column *new = &columns[number_of_columns];
    if (npc_column_find(name) < 0)
        copy(new->name, sizeof new->name, name);
    else /* MPI_T tells variables by name and class */
        snprintf(new->name, sizeof new->name, "%.100s (%s)", name, kind);
    copy(new->kind, sizeof new->kind, kind);
    copy(new->unit, sizeof new->unit, unit);
    copy(new->about, sizeof new->about, about);
    for (uint32_t row = 0; row < NPC_ROWS && row <= table->rows; row++)
        new->values[row] = NAN;
    columns_section->used = (uint64_t)number_of_columns + 1;
    return number_of_columns++;
}

void npc_column_set(int column, double value)
{
    columns[column].values[table->rows] = value;
}

static void read_choice(npc_choice *choice, const char *variable)
{
    copy(choice->names, sizeof choice->names, getenv(variable));
}

npc_table *npc_table_open(void)
{
    void *begin, *rows;
    table_section = npc_new_section(NPC_VARIABLES, 0, sizeof *table, 1, &begin);
    columns_section = npc_new_section(NPC_SNAPSHOTS, 0, sizeof *columns, NPC_COLUMNS, &rows);
    if (table_section == NULL || columns_section == NULL)
        return NULL;
    table = begin;
    columns = rows;
    read_choice(&table->mpit, "NPC_MPIT");
    read_choice(&table->sde, "NPC_SDE");
    return table;
}

/* ---- rows ---- */

static void drop_every_second(void)
{
    table->moving = 1;
    for (uint32_t row = 0; row < NPC_ROWS / 2; row++) {
        table->at[row] = table->at[2 * row];
        for (int i = 0; i < number_of_columns; i++)
            columns[i].values[row] = columns[i].values[2 * row];
    }
    table->rows = NPC_ROWS / 2;
    table->period *= 2;
    table->moving = 0;
}

void npc_row_begin(void)
{
    if (table->rows == NPC_ROWS)
        drop_every_second();
}

void npc_row_end(int64_t at)
{
    table->at[table->rows] = at;
    __atomic_store_n(&table->rows, table->rows + 1, __ATOMIC_RELEASE); /* a row counts once it is whole */
    table_section->used = 1;
}
