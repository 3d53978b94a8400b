"""All-reduce latency in the manner of mpi4py's ports of the OSU benchmarks, which have none.

Sum of 4-byte floats, as osu_allreduce does by default; the time is the mean over the ranks.
"""

from mpi4py import MPI


def osu_allreduce(
    skip: int = 200,
    loop: int = 1000,
    skip_large: int = 10,
    loop_large: int = 100,
    large_message_size: int = 8192,
    MAX_MSG_SIZE: int = 1 << 20,
) -> None:
    """Print the table from rank 0. Needs two processes or more."""
    comm = MPI.COMM_WORLD
    rank, ranks = comm.Get_rank(), comm.Get_size()
    if ranks < 2:
        raise SystemExit("This test requires at least two processes")
    width = MPI.FLOAT.Get_size()
    send, receive = bytearray(MAX_MSG_SIZE), bytearray(MAX_MSG_SIZE)
    if rank == 0:
        print("# MPI Allreduce Latency Test")
        print(f"# {'Size [B]':<8s}{'Latency [us]':>20s}")
    size = width
    while size <= MAX_MSG_SIZE:
        if size > large_message_size:
            skip, loop = skip_large, loop_large
        count = size // width
        outgoing, incoming = [send, count, MPI.FLOAT], [receive, count, MPI.FLOAT]
        comm.Barrier()
        for iteration in range(skip + loop):
            if iteration == skip:
                start = MPI.Wtime()
            comm.Allreduce(outgoing, incoming, op=MPI.SUM)
        mine = (MPI.Wtime() - start) / loop
        total = comm.reduce(mine, op=MPI.SUM, root=0)
        if rank == 0:
            print(f"{size:10d}{total / ranks * 1e6:20.2f}", flush=True)
        size *= 2


if __name__ == "__main__":
    osu_allreduce()
