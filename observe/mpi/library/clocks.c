/* The clocks of the nodes against that of rank 0's node, and the processor's counters. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 40, TAG = 1 };

static MPI_Comm node, leaders;
static bool several_nodes;
static npc_section *offsets;
static npc_offset *entries;

/* Whether all ranks are on this node, as the launcher says it: then there is one clock, and no message is needed. */
static bool one_node(void)
{
    static const char *const local[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE",
                                        "MV2_COMM_WORLD_LOCAL_SIZE"};
    if (npc_ranks == 1)
        return true;
    for (size_t place = 0; place < sizeof local / sizeof *local; place++) {
        const char *value = getenv(local[place]);
        if (value != NULL)
            return atoi(value) == npc_ranks;
    }
    const char *nodes = getenv("SLURM_STEP_NUM_NODES");
    return nodes != NULL && atoi(nodes) == 1;
}

/* The leader of another node: asks rank 0 for its clock; the shortest round trip tells most. */
static npc_offset ask(void)
{
    npc_offset best = {0, 0, INT64_MAX};
    for (int round = 0; round < ROUNDS; round++) {
        int64_t theirs = 0, before = npc_now();
        PMPI_Send(&before, sizeof before, npc_predefined.byte, 0, TAG, leaders);
        PMPI_Recv(&theirs, sizeof theirs, npc_predefined.byte, 0, TAG, leaders, MPI_STATUS_IGNORE);
        int64_t after = npc_now(), half = (after - before + 1) / 2;
        if (half < best.error)
            best = (npc_offset){before + half, theirs - (before + half), half};
    }
    return best;
}

static void answer(int leader)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t theirs, now;
        PMPI_Recv(&theirs, sizeof theirs, npc_predefined.byte, leader, TAG, leaders, MPI_STATUS_IGNORE);
        now = npc_now();
        PMPI_Send(&now, sizeof now, npc_predefined.byte, leader, TAG, leaders);
    }
}

static void measure(void)
{
    int rank = -1, size = 0;
    npc_offset own = {npc_now(), 0, 0};
    if (leaders != npc_predefined.no_comm && PMPI_Comm_rank(leaders, &rank) == MPI_SUCCESS &&
        PMPI_Comm_size(leaders, &size) == MPI_SUCCESS) {
        if (rank > 0)
            own = ask();
        else
            for (int leader = 1; leader < size; leader++)
                answer(leader);
    }
    PMPI_Bcast(&own, sizeof own, npc_predefined.byte, 0, node);
    if (offsets != NULL && offsets->used < offsets->capacity)
        entries[offsets->used++] = own;
}

void npc_align_clocks(void)
{
    MPI_Comm world;
    void *begin;
    int rank;
    if (one_node())
        return;
    offsets = npc_new_section(NPC_OFFSETS, 0, sizeof(npc_offset), 2, &begin);
    entries = begin;
    if (PMPI_Comm_dup(npc_predefined.world, &world) != MPI_SUCCESS)
        return;
    PMPI_Comm_set_errhandler(world, npc_predefined.errors_return);
    several_nodes =
        PMPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, npc_rank, npc_predefined.no_info, &node) == MPI_SUCCESS &&
        PMPI_Comm_rank(node, &rank) == MPI_SUCCESS &&
        PMPI_Comm_split(world, rank == 0 ? 0 : MPI_UNDEFINED, npc_rank, &leaders) == MPI_SUCCESS;
    PMPI_Comm_free(&world);
    if (several_nodes)
        measure();
}

void npc_close_clocks(void)
{
    if (!several_nodes)
        return;
    measure();
    PMPI_Comm_free(&node);
    if (leaders != npc_predefined.no_comm)
        PMPI_Comm_free(&leaders);
}

/* ---- the processor's counters ---- */

static int counters[2] = {-1, -1};
static uint64_t first[2];
static int64_t first_cpu;

/* Of this process and of the threads that it will have, in user mode. */
static int open_counter(uint64_t event)
{
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_HARDWARE, .size = sizeof attributes, .config = event, .inherit = 1, .exclude_kernel = 1,
        .exclude_hv = 1};
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void npc_open_counters(void)
{
    counters[0] = open_counter(PERF_COUNT_HW_INSTRUCTIONS);
    counters[1] = counters[0] < 0 ? -1 : open_counter(PERF_COUNT_HW_CPU_CYCLES);
    if (counters[0] < 0 || counters[1] < 0)
        npc_head->counters_errno = errno;
}

/* The first time: from here on; the second time: so far. */
void npc_read_counters(void)
{
    struct timespec cpu;
    uint64_t values[2] = {0, 0};
    static bool begun;
    for (int place = 0; place < 2; place++)
        if (npc_head->counters_errno == 0 && read(counters[place], &values[place], sizeof *values) != sizeof *values)
            npc_head->counters_errno = errno != 0 ? errno : EIO;
    int64_t spent = clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) != 0
                        ? -1
                        : (int64_t)cpu.tv_sec * 1000000000 + cpu.tv_nsec;
    if (!begun) {
        first_cpu = spent;
        memcpy(first, values, sizeof first);
    } else {
        npc_head->cpu_ns = spent - first_cpu;
        npc_head->instructions = values[0] - first[0];
        npc_head->cycles = values[1] - first[1];
    }
    begun = true;
}
