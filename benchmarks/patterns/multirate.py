"""Message rate with pairs of processes and threads: ``mpirun -n 2 python multirate.py --threads 4``.

The first half of the processes sends to the second half, in every pair `--threads` threads, each with a
window of messages in flight and an empty answer after each window (as osu_mbw_mr has it). Threads share one
communicator and tell their messages by tags, or each has its own, which spares an MPI the search of one
queue by all. A window is one call (persistent requests), so that Python's share of a message is small and its
lock is free while MPI works.

Threads need MPI_THREAD_MULTIPLE: where MPI does not give it, this is unavailable.
"""

from __future__ import annotations

import argparse
import sys
import threading
from functools import partial

import mpi4py

THREAD_LEVELS = ("single", "funneled", "serialized", "multiple")


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="8,1024,16384", help="bytes, with commas between")
    parser.add_argument("--window", type=int, default=64, help="messages in flight of each thread")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--comm", choices=("shared", "own"), default="shared", help="communicator of threads")
    parser.add_argument("--time", type=float, default=0.3, help="seconds of a size")
    options = parser.parse_args()
    mpi4py.rc.thread_level = "multiple" if options.threads > 1 else "single"
    from mpi4py import MPI
    from world import end, head, loops_for, refuse, sizes, timed

    comm = MPI.COMM_WORLD
    level = {getattr(MPI, f"THREAD_{name.upper()}"): name for name in THREAD_LEVELS}[MPI.Query_thread()]
    if options.threads > 1 and level != "multiple":
        refuse(comm, f"unavailable: MPI gives MPI_THREAD_{level.upper()}, threads need MPI_THREAD_MULTIPLE")
    if comm.size % 2:
        refuse(comm, f"multirate.py: {comm.size} processes make no pairs: an even number is needed")
    if options.threads < 1 or options.window < 1:
        refuse(comm, "multirate.py: --threads and --window are at least 1")
    try:
        wanted = sizes(options.sizes)
    except ValueError as error:
        refuse(comm, f"multirate.py: --sizes: {error}")

    sending, half = comm.rank < comm.size // 2, comm.size // 2
    peer = comm.rank + half if sending else comm.rank - half
    own = [comm.Dup() for _ in range(options.threads)] if options.comm == "own" else []

    def exchange(thread: int, size: int, loops: int) -> None:
        """Windows of one thread, and their answers."""
        with_ = own[thread] if own else comm
        tag, answer = thread, options.threads + thread
        buffer = bytearray(size if sending else size * options.window)
        view = memoryview(buffer)
        if sending:
            window = [with_.Send_init([buffer, MPI.BYTE], peer, tag) for _ in range(options.window)]
        else:
            parts = (view[size * place : size * (place + 1)] for place in range(options.window))
            window = [with_.Recv_init([part, MPI.BYTE], peer, tag) for part in parts]
        empty = bytearray(0)
        for _ in range(loops):
            MPI.Prequest.Startall(window)
            MPI.Request.Waitall(window)
            if sending:
                with_.Recv([empty, MPI.BYTE], peer, answer)
            else:
                with_.Send([empty, MPI.BYTE], peer, answer)
        for request in window:
            request.Free()

    def all_threads(size: int, loops: int) -> None:
        if options.threads == 1:
            exchange(0, size, loops)
            return
        threads = [
            threading.Thread(target=exchange, args=(number, size, loops)) for number in range(options.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    sys.setswitchinterval(1e-3)
    head(
        comm,
        "multirate",
        options.threads,
        "pairs threads communicator window size_B messages/s bandwidth_MB/s",
    )
    for size in wanted:
        work = partial(all_threads, size)
        loops = loops_for(comm, work, options.time)
        took = timed(comm, work, loops)
        rate = half * options.threads * options.window * loops / took
        if comm.rank == 0:
            row = f"{half:5d} {options.threads:5d} {options.comm:8} {options.window:5d}"
            print(f"{row} {size:9d} {rate:15.2f} {rate * size / 1e6:14.6f}", flush=True)
    end(comm)


if __name__ == "__main__":
    main()
