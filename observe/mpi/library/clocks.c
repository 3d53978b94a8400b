/* The node's clock beside the time of the world, and the processor's counters. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
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

/* A descriptor and the kernel's number of what it was opened for. */
typedef struct {
    int file;
    uint64_t event;
} counter;

static counter counters[2] = {{-1, 0}, {-1, 0}};
static uint64_t first[2];
static int64_t first_cpu;

/* Of this process and of the threads that it will have, in user mode. */
static counter open_counter(uint64_t event)
{
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_HARDWARE, .size = sizeof attributes, .config = event, .inherit = 1, .exclude_kernel = 1,
        .exclude_hv = 1};
    counter opened = {(int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC), 0};
    if (opened.file >= 0 && ioctl(opened.file, PERF_EVENT_IOC_ID, &opened.event) != 0) {
        int reason = errno;
        close(opened.file);
        errno = reason;
        opened.file = -1;
    }
    return opened;
}

/* Whether the descriptor still is the counter's. Programs close what they do not know, and open pipes and files in its
 * place: those must be neither read nor asked by ioctl(2). (A counter that threads inherit cannot be mapped, and so
 * not be had without a descriptor: perf_event_open(2).) */
static bool is_open(const counter *opened)
{
    char path[32], target[32];
    uint64_t event;
    snprintf(path, sizeof path, "/proc/self/fd/%d", opened->file);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = '\0';
    return strcmp(target, "anon_inode:[perf_event]") == 0 && ioctl(opened->file, PERF_EVENT_IOC_ID, &event) == 0 &&
           event == opened->event;
}

void npc_open_counters(void)
{
    counters[0] = open_counter(PERF_COUNT_HW_INSTRUCTIONS);
    if (counters[0].file >= 0)
        counters[1] = open_counter(PERF_COUNT_HW_CPU_CYCLES);
    if (counters[0].file < 0 || counters[1].file < 0)
        npc_head->counters_errno = errno;
}

/* The first time: from here on; the second time: so far. */
void npc_read_counters(void)
{
    struct timespec cpu;
    uint64_t values[2] = {0, 0};
    static bool begun;
    for (int place = 0; place < 2 && npc_head->counters_errno == 0; place++) {
        if (!is_open(&counters[place]))
            npc_head->counters_errno = EBADF;
        else if (read(counters[place].file, &values[place], sizeof *values) != sizeof *values)
            npc_head->counters_errno = errno != 0 ? errno : EIO;
    }
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
