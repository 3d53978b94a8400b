"""Ping-pong latency, idle and under load: ``mpirun -n 4 python pingpong.py``.

The first process of the first half and the first of the second half play ping-pong with small messages,
first alone and then while the others load the same way with large ones, each of the first half sending
to its partner in the second half. With two processes only, the load is between these two themselves: large
messages are always in flight beside the ping-pong. Latency is half the round trip, its mean and its 99 %
quantile; the bandwidth is that of the load.
"""

from __future__ import annotations

import argparse

from mpi4py import MPI
from world import end, head, refuse, sizes

PING, LOAD, GO_ON = 1, 2, 3
WARM_UP = 100


class OwnLoad:
    """Large messages in flight between the two that play: filled up again whenever all have arrived."""

    def __init__(self, comm: MPI.Comm, peer: int, size: int, window: int) -> None:
        self.windows = 0
        self._buffers = [bytearray(size) for _ in range(window)]
        begin = comm.Send_init if comm.rank == 0 else comm.Recv_init
        self._requests = [begin([buffer, MPI.BYTE], peer, LOAD) for buffer in self._buffers]
        MPI.Prequest.Startall(self._requests)

    def fill_up(self) -> None:
        """Start the next window if the last one has ended."""
        if MPI.Request.Testall(self._requests):
            self.windows += 1
            MPI.Prequest.Startall(self._requests)

    def stop(self, comm: MPI.Comm, peer: int) -> None:
        """End with as many windows on both sides."""
        most = comm.allreduce(self.windows, op=MPI.MAX)
        while True:
            MPI.Request.Waitall(self._requests)
            self.windows += 1
            if self.windows > most:
                break
            MPI.Prequest.Startall(self._requests)
        for request in self._requests:
            request.Free()


def play(comm: MPI.Comm, peer: int, size: int, loops: int, load: OwnLoad | None) -> list[float]:
    """Half round trips in seconds, of the process that begins; empty for the other one."""
    out, into = bytearray(size), bytearray(size)
    times = []
    for loop in range(WARM_UP + loops):
        if load:
            load.fill_up()
        if comm.rank == 0:
            start = MPI.Wtime()
            comm.Send([out, MPI.BYTE], peer, PING)
            comm.Recv([into, MPI.BYTE], peer, PING)
            if loop >= WARM_UP:
                times.append((MPI.Wtime() - start) / 2)
        else:
            comm.Recv([into, MPI.BYTE], peer, PING)
            comm.Send([out, MPI.BYTE], peer, PING)
    return times


def load_partner(comm: MPI.Comm, peer: int, sending: bool, size: int, window: int) -> int:
    """Send or receive windows of large messages until rank 0 says stop; how many there were."""
    buffers = [bytearray(size) for _ in range(window)]
    begin = comm.Send_init if sending else comm.Recv_init
    requests = [begin([buffer, MPI.BYTE], peer, LOAD) for buffer in buffers]
    stop = comm.Irecv([bytearray(1), MPI.BYTE], 0, GO_ON) if sending else None
    flag, windows = bytearray(1), 0
    while True:
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        windows += 1
        if stop is not None:  # the sender decides, the receiver is told
            flag[0] = stop.Test()
            comm.Send([flag, MPI.BYTE], peer, PING)
        else:
            comm.Recv([flag, MPI.BYTE], peer, PING)
        if flag[0]:
            break
    for request in requests:
        request.Free()
    return windows


def main() -> None:
    """Print a row for each size, idle and under load."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="8,1024", help="bytes of the ping-pong, with commas between")
    parser.add_argument("--load-size", type=int, default=1 << 18, help="bytes of a message of the load")
    parser.add_argument("--window", type=int, default=8, help="messages in flight of the load")
    parser.add_argument("--loops", type=int, default=2000, help="round trips of a size")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    if comm.size < 2 or comm.size % 2:
        refuse(comm, f"pingpong.py: {comm.size} processes: an even number, at least 2, is needed")
    if min(options.load_size, options.window, options.loops) < 1:
        refuse(comm, "pingpong.py: --load-size, --window and --loops are at least 1")
    try:
        wanted = sizes(options.sizes)
    except ValueError as error:
        refuse(comm, f"pingpong.py: --sizes: {error}")
    half = comm.size // 2
    sending = comm.rank < half
    peer = comm.rank + half if sending else comm.rank - half
    playing = comm.rank in (0, half)
    head(comm, "pingpong", 1, "load size_B latency_us latency_p99_us bandwidth_MB/s")
    for size in wanted:
        for load in ("none", "other_pairs" if half > 1 else "same_pair"):
            times: list[float] = []
            windows = 0
            comm.Barrier()
            start = MPI.Wtime()
            if playing:
                own = OwnLoad(comm, peer, options.load_size, options.window) if load == "same_pair" else None
                times = play(comm, peer, size, options.loops, own)
                if own:
                    own.stop(comm, peer)
                    windows = own.windows if comm.rank == 0 else 0
                if comm.rank == 0 and load == "other_pairs":
                    for sender in range(1, half):
                        comm.Send([bytearray(1), MPI.BYTE], sender, GO_ON)
            elif load == "other_pairs":
                windows = load_partner(comm, peer, sending, options.load_size, options.window)
            took = comm.allreduce(MPI.Wtime() - start, op=MPI.MAX)
            moved = comm.allreduce(windows if sending else 0) * options.window * options.load_size
            if comm.rank == 0:
                times.sort()
                mean, p99 = sum(times) / len(times), times[-(-len(times) * 99 // 100) - 1]
                rate = f"{moved / took / 1e6:.3f}" if moved else "-"
                print(f"{load:12} {size:9d} {mean * 1e6:10.3f} {p99 * 1e6:10.3f} {rate:>12}", flush=True)
    end(comm)


if __name__ == "__main__":
    main()
