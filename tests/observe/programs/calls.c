/* Calls of every kind on four ranks, with counts that can be worked out by hand: test_generated_calls.py has
 * them. Ends with 1 if MPI gave it anything wrong. Argument: a file to write. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, next, before;
static int out[64], in[64];

static void check(int right, const char *what)
{
    if (!right) {
        printf("rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void point_to_point(void)
{
    MPI_Request requests[4];
    MPI_Message message;
    MPI_Status status, statuses[4];
    int index, done, indices[4], left, flag;

    /* nobody is no peer */
    MPI_Send(out, 9, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Recv(in, 9, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    /* less comes than was asked for, from anyone */
    MPI_Irecv(in, 64, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Ssend(out, 5, MPI_INT, next, 1, MPI_COMM_WORLD);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);

    for (int i = 0; i < 4; i++)
        MPI_Irecv(in + i, 1, MPI_INT, before, 10 + i, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < 4; i++)
        MPI_Send(&rank, 1, MPI_INT, next, 10 + i, MPI_COMM_WORLD);
    MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
    for (left = 3; left > 0; left -= done)
        MPI_Waitsome(4, requests, &done, indices, MPI_STATUSES_IGNORE);
    check(in[3] == before, "received");
    MPI_Waitall(4, requests, statuses); /* of none */

    /* matched */
    MPI_Isend(out, 7, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Mprobe(before, 2, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(in, 64, MPI_INT, &message, &status);
    MPI_Get_count(&status, MPI_INT, &done);
    check(done == 7, "matched");
    do
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    while (!flag);

    /* persistent, three times */
    MPI_Recv_init(in, 64, MPI_INT, before, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(out, 6, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);

    /* addresses within a datatype */
    MPI_Aint address;
    MPI_Datatype there;
    int eleven = 11;
    MPI_Get_address(out, &address);
    MPI_Type_create_hindexed(1, &eleven, &address, MPI_INT, &there);
    MPI_Type_commit(&there);
    MPI_Sendrecv(MPI_BOTTOM, 1, there, next, 4, in, 64, MPI_INT, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&there);

    /* a call that fails */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Rsend(out, 1, MPI_INT, ranks + 5, 0, MPI_COMM_WORLD) != MPI_SUCCESS, "no such rank");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void collective(void)
{
    int counts[4], displacements[4], many[4] = {1, 2, 3, 4};
    MPI_Request request;

    for (int i = 0; i < 4; i++) {
        counts[i] = rank + 1;
        displacements[i] = 4 * i;
    }
    MPI_Alltoallv(out, counts, displacements, MPI_INT, in, many, displacements, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, many, displacements, MPI_INT, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Gatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, many, displacements, MPI_INT, 1, MPI_COMM_WORLD);
    else
        MPI_Gatherv(out, rank + 1, MPI_INT, NULL, NULL, NULL, MPI_DATATYPE_NULL, 1, MPI_COMM_WORLD);
    if (rank == 2)
        MPI_Scatterv(out, many, displacements, MPI_INT, in, rank + 1, MPI_INT, 2, MPI_COMM_WORLD);
    else
        MPI_Scatterv(NULL, NULL, NULL, MPI_DATATYPE_NULL, in, rank + 1, MPI_INT, 2, MPI_COMM_WORLD);
    MPI_Scatter(out, 2, MPI_INT, in, 2, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Reduce_scatter(out, in, many, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(out, in, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Iallreduce(MPI_IN_PLACE, in, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 3, MPI_INT, MPI_COMM_WORLD);
    MPI_Reduce(out, in, 5, MPI_INT, MPI_SUM, 3, MPI_COMM_WORLD);
    MPI_Scan(out, in, 6, MPI_INT, MPI_SUM, MPI_COMM_WORLD);

    /* one int to ranks 0 and 2, three bytes to ranks 1 and 3 */
    MPI_Datatype to[4] = {MPI_INT, MPI_BYTE, MPI_INT, MPI_BYTE}, from[4];
    int pieces[4] = {1, 3, 1, 3}, wanted[4], bytes[4] = {0, 16, 32, 48};
    for (int i = 0; i < 4; i++) {
        from[i] = to[rank];
        wanted[i] = pieces[rank];
    }
    MPI_Alltoallw(out, pieces, bytes, to, in, wanted, bytes, from, MPI_COMM_WORLD);
}

static void communicators(void)
{
    MPI_Comm copy, later;
    MPI_Request request;

    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_idup(copy, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ibcast(in, 10, MPI_INT, 1, later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&later);
    MPI_Comm_free(&copy);
}

static void neighbourhood(void)
{
    int dims[1] = {4}, open[1] = {0}, counts[2] = {2, 2}, where[2] = {0, 4};
    MPI_Comm line, ring;

    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, open, 0, &line);
    MPI_Neighbor_alltoall(out, 3, MPI_INT, in, 3, MPI_INT, line);
    MPI_Neighbor_alltoallv(out, counts, where, MPI_INT, in, counts, where, MPI_INT, line);
    MPI_Neighbor_allgather(out, 5, MPI_INT, in, 5, MPI_INT, line);
    MPI_Comm_free(&line);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &ring);
    MPI_Neighbor_alltoall(&rank, 1, MPI_INT, in, 1, MPI_INT, ring);
    check(in[0] == before, "neighbour");
    MPI_Comm_free(&ring);
}

/* Ranks 0, 1 and 2, 3 on two sides. */
static void intercommunicator(void)
{
    MPI_Comm half, both;
    int side = rank / 2;

    MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, side ? 0 : 2, 5, &both);
    MPI_Send(out, 4, MPI_INT, rank % 2, 6, both); /* to rank + 2 or rank - 2 */
    MPI_Recv(in, 4, MPI_INT, rank % 2, 6, both, MPI_STATUS_IGNORE);
    /* from rank 0 to the other side; then to rank 3 */
    MPI_Bcast(out, 5, MPI_INT, side ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, both);
    MPI_Gather(out, 3, MPI_INT, in, 3, MPI_INT, side == 0 ? 1 : rank == 3 ? MPI_ROOT : MPI_PROC_NULL, both);
    MPI_Allgather(out, 2, MPI_INT, in, 2, MPI_INT, both);
    MPI_Comm_disconnect(&both);
    MPI_Comm_free(&half);
}

static void one_sided(void)
{
    MPI_Win win;
    MPI_Request request;
    int *memory, one = 1, two = 2;

    MPI_Win_allocate(64 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, 64 * sizeof(int));
    MPI_Win_fence(0, win);
    MPI_Put(out, 10, MPI_INT, next, 0, 10, MPI_INT, win);
    MPI_Get(in, 6, MPI_INT, before, 20, 6, MPI_INT, win);
    MPI_Accumulate(out, 3, MPI_INT, next, 30, 3, MPI_INT, MPI_SUM, win);
    MPI_Put(out, 10, MPI_INT, MPI_PROC_NULL, 0, 10, MPI_INT, win);
    MPI_Win_fence(0, win);
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    MPI_Fetch_and_op(&one, in, MPI_INT, next, 40, MPI_SUM, win);
    MPI_Compare_and_swap(&two, &one, in, MPI_INT, next, 41, win);
    MPI_Rput(out, 2, MPI_INT, next, 42, 2, MPI_INT, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(next, win);
    MPI_Win_unlock(next, win);

    /* the next one may be written to by this one, and this one by the one before */
    MPI_Group world, sources, targets;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &before, &sources);
    MPI_Group_incl(world, 1, &next, &targets);
    MPI_Win_post(sources, 0, win);
    MPI_Win_start(targets, 0, win);
    MPI_Get_accumulate(out, 4, MPI_INT, in, 4, MPI_INT, next, 50, 4, MPI_INT, MPI_SUM, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    MPI_Group_free(&sources);
    MPI_Group_free(&targets);
    MPI_Group_free(&world);
    MPI_Win_free(&win);
}

static void files(const char *path)
{
    MPI_File file;
    MPI_Request request;
    MPI_Offset at = (MPI_Offset)rank * 8 * (MPI_Offset)sizeof(int);

    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                  &file);
    for (int i = 0; i < 8; i++)
        out[i] = rank;
    MPI_File_write_at(file, at, out, 6, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_iwrite_at(file, at + 6 * (MPI_Offset)sizeof(int), out, 2, MPI_INT, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_File_read_at_all(file, at, in, 8, MPI_INT, MPI_STATUS_IGNORE);
    check(in[7] == rank, "file");
    /* the file ends after 4 of them */
    MPI_File_read_at(file, (MPI_Offset)((4 * 8 - 4) * sizeof(int)), in, 20, MPI_INT, MPI_STATUS_IGNORE);
    check(in[0] == 3, "end of file");
    MPI_File_seek(file, at, MPI_SEEK_SET);
    MPI_File_write_all_begin(file, out, 8, MPI_INT);
    MPI_File_write_all_end(file, out, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

#if MPI_VERSION >= 4
static void mpi_4(void)
{
    MPI_Request requests[2], reduction;

    if (rank % 2 == 0) {
        MPI_Send_c(out, 12, MPI_INT, next, 7, MPI_COMM_WORLD);
    } else {
        MPI_Recv_c(in, 64, MPI_INT, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Allreduce_c(out, in, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);

    MPI_Allreduce_init(out, in, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &reduction);
    for (int i = 0; i < 2; i++) {
        MPI_Start(&reduction);
        MPI_Wait(&reduction, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&reduction);

    MPI_Precv_init(in, 3, 4, MPI_INT, before, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Psend_init(out, 3, 4, MPI_INT, next, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Pready(2, requests[1]);
    MPI_Pready_range(0, 1, requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    check(argc == 2 && ranks == 4, "four ranks and a file");
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    point_to_point();
    collective();
    communicators();
    neighbourhood();
    intercommunicator();
    one_sided();
    files(argv[1]);
#if MPI_VERSION >= 4
    mpi_4();
#endif
    MPI_Finalize();
    return 0;
}
