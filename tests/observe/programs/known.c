/* Calls of MPI whose numbers are known, on four ranks, and the moments of some of them by the program's own clock.
 *
 *     known single|multiple FOLDER CODE
 *
 * Prints what it has computed, leaves FOLDER/times.RANK and ends with CODE. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, left, right;
static double inside, sum;
static FILE *times;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* A call, and the time in it. */
#define M(call)                     \
    do {                            \
        double before = now();      \
        call;                       \
        inside += now() - before;   \
    } while (0)

/* A call whose moments are left. */
#define TIMED(name, call)                                            \
    do {                                                             \
        double before = now();                                       \
        call;                                                        \
        double after = now();                                        \
        inside += after - before;                                    \
        fprintf(times, "%s %.9f %.9f\n", name, before, after);       \
    } while (0)

static void rest(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&time, NULL);
}

static void point_to_point(void)
{
    static int out[1000], in[1000];
    double seven[7] = {1}, other[7];
    char small[100] = "";
    MPI_Request requests[2], one;
    MPI_Message message;
    MPI_Status status;
    out[0] = rank;
    for (int i = 0; i < 10; i++) { /* 4000 bytes to the right */
        if (rank % 2 == 0)
            M(MPI_Send(out, 1000, MPI_INT, right, 1, MPI_COMM_WORLD));
        M(MPI_Recv(in, 1000, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (rank % 2 == 1)
            M(MPI_Send(out, 1000, MPI_INT, right, 1, MPI_COMM_WORLD));
        sum += in[0];
    }
    for (int i = 0; i < 5; i++) { /* 56 bytes to the left, from whomever */
        M(MPI_Irecv(other, 7, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]));
        M(MPI_Isend(seven, 7, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &requests[1]));
        M(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        sum += other[0];
    }
    M(MPI_Barrier(MPI_COMM_WORLD));
    M(MPI_Send_init(small, 100, MPI_CHAR, right, 3, MPI_COMM_WORLD, &requests[0]));
    M(MPI_Recv_init(in, 100, MPI_CHAR, left, 3, MPI_COMM_WORLD, &requests[1]));
    for (int i = 0; i < 3; i++) { /* 100 bytes to the right */
        M(MPI_Startall(2, requests));
        M(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        M(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    }
    M(MPI_Request_free(&requests[0]));
    M(MPI_Request_free(&requests[1]));
    if (rank == 2) /* 12 bytes where 4000 would have had room */
        M(MPI_Ssend(out, 3, MPI_INT, 3, 4, MPI_COMM_WORLD));
    if (rank == 3) {
        int flag = 0;
        M(MPI_Irecv(in, 1000, MPI_INT, 2, 4, MPI_COMM_WORLD, &one));
        while (!flag)
            M(MPI_Test(&one, &flag, &status));
        int count;
        MPI_Get_count(&status, MPI_INT, &count);
        sum += count;
    }
    if (rank == 0)
        M(MPI_Send(small, 33, MPI_CHAR, 1, 5, MPI_COMM_WORLD));
    if (rank == 1) {
        M(MPI_Mprobe(0, 5, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
        M(MPI_Mrecv(small, 33, MPI_CHAR, &message, MPI_STATUS_IGNORE));
    }
    M(MPI_Sendrecv(small, 50, MPI_CHAR, rank ^ 1, 6, in, 50, MPI_CHAR, rank ^ 1, 6, MPI_COMM_WORLD, &status));
    M(MPI_Send(small, 10, MPI_CHAR, MPI_PROC_NULL, 7, MPI_COMM_WORLD));
    M(MPI_Recv(small, 10, MPI_CHAR, MPI_PROC_NULL, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    /* a receive that nobody answers */
    M(MPI_Irecv(in, 1, MPI_INT, left, 8, MPI_COMM_WORLD, &one));
    M(MPI_Cancel(&one));
    M(MPI_Wait(&one, MPI_STATUS_IGNORE));
}

static void collectives(void)
{
    int twenty[20] = {0}, five[20], all[20] = {0}, counts[4] = {1, 2, 3, 4}, places[4] = {0, 1, 3, 6};
    double one = 1, total;
    MPI_Request request;
    MPI_Comm half, copy;
    for (int i = 0; i < 4; i++)
        M(MPI_Bcast(twenty, 20, MPI_INT, 2, MPI_COMM_WORLD));
    for (int i = 0; i < 6; i++)
        M(MPI_Allreduce(&one, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    sum += total;
    M(MPI_Gather(twenty, 5, MPI_INT, rank == 1 ? five : NULL, 5, MPI_INT, 1, MPI_COMM_WORLD));
    M(MPI_Alltoall(twenty, 2, MPI_INT, five, 2, MPI_INT, MPI_COMM_WORLD));
    M(MPI_Allgatherv(twenty, counts[rank], MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD));
    M(MPI_Reduce(rank == 3 ? MPI_IN_PLACE : (void *)&one, rank == 3 ? &total : NULL, 1, MPI_DOUBLE, MPI_SUM, 3,
                 MPI_COMM_WORLD));
    M(MPI_Iallreduce(&one, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request));
    M(MPI_Wait(&request, MPI_STATUS_IGNORE));
    sum += total;
    M(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    MPI_Comm_set_name(half, "half");
    for (int i = 0; i < 2; i++)
        M(MPI_Allreduce(&one, &total, 1, MPI_DOUBLE, MPI_SUM, half));
    sum += total;
    M(MPI_Comm_dup(half, &copy));
    M(MPI_Barrier(copy));
    M(MPI_Comm_free(&copy));
    M(MPI_Comm_free(&half));
    for (int i = 0; i < 1200; i++) { /* more than there is room for, if each had a place of its own */
        M(MPI_Comm_dup(MPI_COMM_SELF, &copy));
        M(MPI_Comm_free(&copy));
    }
}

static void one_sided(const char *folder)
{
    char *memory, bytes[128] = "", name[4096];
    MPI_Win window;
    MPI_File file;
    M(MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    M(MPI_Win_fence(0, window));
    M(MPI_Put(bytes, 64, MPI_CHAR, right, 0, 64, MPI_CHAR, window));
    M(MPI_Get(bytes, 32, MPI_CHAR, left, 0, 32, MPI_CHAR, window));
    M(MPI_Win_fence(0, window));
    M(MPI_Win_free(&window));
    snprintf(name, sizeof name, "%s/file", folder);
    M(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    M(MPI_File_write_at_all(file, 128 * rank, bytes, 128, MPI_CHAR, MPI_STATUS_IGNORE));
    M(MPI_File_close(&file));
}

/* Somebody is late, and all the others wait. */
static void late(void)
{
    int word = 0;
    M(MPI_Barrier(MPI_COMM_WORLD));
    rest(rank == 1 ? 0.25 : 0.05);
    TIMED("barrier", MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        rest(0.2);
        TIMED("send", MPI_Send(&word, 1, MPI_INT, 3, 9, MPI_COMM_WORLD));
    } else if (rank == 3) {
        TIMED("receive", MPI_Recv(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else if (rank == 2) {
        MPI_Pcontrol(0);
        MPI_Barrier(MPI_COMM_SELF);
        rest(0.1);
        MPI_Pcontrol(1);
    }
}

static MPI_Comm own[4];

/* 100 messages of 8 bytes to the neighbour, and 10 sums, in each thread. */
static void *thread(void *argument)
{
    int number = *(int *)argument;
    long word = 0;
    for (int i = 0; i < 100; i++)
        MPI_Sendrecv_replace(&word, 1, MPI_LONG, rank ^ 1, 100 + number, rank ^ 1, 100 + number, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    for (int i = 0; i < 10; i++)
        MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_LONG, MPI_SUM, own[number]);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = MPI_THREAD_SINGLE, size, numbers[4];
    char name[4096];
    pthread_t threads[4];
    if (argc != 4)
        return 2;
    int multiple = strcmp(argv[1], "multiple") == 0;
    if (multiple)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    else
        MPI_Init(&argc, &argv);
    double began = now();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 4 || (multiple && provided != MPI_THREAD_MULTIPLE)) {
        fprintf(stderr, "known: four ranks, and MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    left = (rank + 3) % 4;
    right = (rank + 1) % 4;
    snprintf(name, sizeof name, "%s/times.%d", argv[2], rank);
    times = fopen(name, "w");
    point_to_point();
    MPI_Pcontrol(1, "collect");
    collectives();
    MPI_Pcontrol(1, "move");
    one_sided(argv[2]);
    MPI_Pcontrol(-1, "move");
    MPI_Pcontrol(-1, "collect");
    MPI_Pcontrol(7);
    late();
    MPI_Pcontrol(-7);
    if (multiple) {
        for (int i = 0; i < 4; i++)
            M(MPI_Comm_dup(MPI_COMM_WORLD, &own[i]));
        double before = now();
        for (int i = 0; i < 4; i++) {
            numbers[i] = i;
            pthread_create(&threads[i], NULL, thread, &numbers[i]);
        }
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        fprintf(times, "threads %.9f %.9f\n", before, now());
    }
    double all;
    M(MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD));
    fprintf(times, "inside 0 %.9f\n", inside);
    fprintf(times, "whole %.9f %.9f\n", began, now());
    fclose(times);
    if (rank == 0)
        printf("sum %g\n", all);
    MPI_Finalize();
    return atoi(argv[3]);
}
