/* The node's clock beside the time of the world, and the processor's counters. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

/* How clocks of two nodes differ is found from what their ranks note (observe/mpi/clocks.py). Asking other ranks is
 * no way: whoever lacks this library would never answer, and MPI_Init would hang. */
void npc_read_clock(void)
{
    static npc_section *section;
    static npc_clock_reading *entries;
    struct timespec world;
    struct timex state = {.modes = 0};
    void *begin;
    if (section == NULL) {
        section = npc_new_section(NPC_CLOCK, 0, sizeof(npc_clock_reading), 2, &begin);
        entries = begin;
    }
    if (section == NULL || section->used == section->capacity)
        return;
    int64_t before = npc_now();
    clock_gettime(CLOCK_REALTIME, &world);
    int64_t took = npc_now() - before;
    int kept = adjtimex(&state);
    bool known = kept >= 0 && kept != TIME_ERROR;
    entries[section->used++] = (npc_clock_reading){
        .at = before + took / 2,
        .unix_ns = (int64_t)world.tv_sec * 1000000000 + world.tv_nsec,
        .error = known ? (int64_t)state.maxerror * 1000 + took : -1};
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
