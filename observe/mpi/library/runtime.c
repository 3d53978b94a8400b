/* How the library begins and ends. */
#define _GNU_SOURCE
#include "internal.h"
#include "variables.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool usable; /* an MPI that this was compiled for, and a file to count in */
static bool initialized, finalizing;
static pthread_once_t loaded = PTHREAD_ONCE_INIT;

static void load(void)
{
    usable = npc_open_file() && npc_find_mpi();
}

static bool name_calls(void)
{
    void *entries;
    npc_section *names = npc_new_section(NPC_NAMES, 0, sizeof(npc_call_name), NPC_CALLS, &entries);
    if (names == NULL)
        return false;
    for (int call = 0; call < NPC_CALLS; call++)
        strncpy(((npc_call_name *)entries)[call].text, npc_call_names[call], sizeof(npc_call_name) - 1);
    names->used = NPC_CALLS;
    return true;
}

/* Opens everything; false if there is no room. What the library asks of MPI is no call of the program's. */
static bool open_all(int thread_level)
{
    npc_head->thread_level = thread_level;
    const char *openmp = getenv("OMP_NUM_THREADS");
    npc_head->openmp_threads = openmp != NULL ? atoi(openmp) : 0;
    if (!npc_open_threads() || !name_calls() || !npc_open_communicators() || !npc_open_stamps()) {
        npc_because("no room for the counters in %s", getenv("NPC_MPI_PROFILE"));
        return false;
    }
    npc_open_regions();
    npc_head->rank = npc_rank;
    npc_head->ranks = npc_ranks;
    npc_threaded = thread_level == MPI_THREAD_MULTIPLE;
    npc_open_counters();
    npc_read_clock();
    npc_variables_begin();
    npc_read_counters();
    npc_head->began = npc_now();
    npc_head->region_since = npc_head->began;
    __atomic_store_n(&npc_head->state, NPC_COUNTING, __ATOMIC_RELEASE);
    return true;
}

static void start(int thread_level)
{
    static bool started;
    pthread_once(&loaded, load);
    if (!usable || started)
        return;
    started = true;
    int inside = npc_self.inside;
    npc_self.inside = 1;
    usable = open_all(thread_level);
    initialized = usable;
    npc_self.inside = inside;
}

void npc_initialized(int thread_level)
{
    start(thread_level);
}

/* What is read at the end. */
static void end(void)
{
    finalizing = true;
    npc_self.inside = 1;
    npc_head->ended = npc_now();
    npc_read_counters();
    npc_read_clock();
    npc_close_regions(npc_head->ended);
    npc_variables_end();
    npc_name_communicators();
}

void npc_finalizing(void)
{
    if (!usable || !initialized || finalizing)
        return;
    end();
    __atomic_store_n(&npc_head->state, NPC_FINALIZED, __ATOMIC_RELEASE);
}

void npc_aborting(void)
{
    if (usable && initialized && !finalizing)
        end();
}

void npc_session(void)
{
    pthread_once(&loaded, load);
    if (usable && !initialized)
        npc_because("the program has no MPI_COMM_WORLD: it calls MPI_Session_init instead of MPI_Init");
}

bool npc_attach(npc_thread *self)
{
    int level, flag = 0;
    pthread_once(&loaded, load);
    if (usable && !initialized && PMPI_Initialized(&flag) == MPI_SUCCESS && flag) {
        npc_note(NPC_LATE);
        if (PMPI_Query_thread(&level) == MPI_SUCCESS)
            start(level);
    }
    if (!usable || finalizing) {
        self->inside = 1;
        return false;
    }
    if (!initialized)
        return false;
    if (!npc_give_slab(self)) {
        self->inside = 1;
        return false;
    }
    return true;
}
