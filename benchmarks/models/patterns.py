"""Times of communication patterns that tell what a ping-pong cannot: ``mpirun -n 2 python patterns.py prtt``.

Every test prints one table, sizes in bytes and times in µs, each the median over repetitions:

- ``prtt``: the parametrised round trip time PRTT(n,d,s): n messages of s bytes, a pause of d between them,
  and one answer (Hoefler, Lichei, Rehm, Low-Overhead LogGP Parameter Assessment for Modern Interconnection
  Networks, IPDPS 2007, section 3). Rank 0 and the last rank, which is on the last node.
- ``burst``: PRTT(n,0,1) over n; the size is the bytes of all n messages, of one byte each.
- ``middleware``: half the round trip of contiguous and of strided data, and MPI_Pack of both: what the
  library adds to the transfer (Cameron, Ge, Sun, IEEE Transactions on Computers 56(3), 2007).
- ``h_relation``: a superstep in which every rank sends and receives h bytes, with its barrier (Valiant, CACM
  33(8), 1990); h is the size.
- ``ring``: half a round trip (1 transfer), then the first 2, 3, … ranks shift s bytes around a ring, as many
  concurrent transfers (Rico-Gallego, Díaz-Martín, Parallel Computing 46, 2015).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from statistics import median

from mpi4py import MPI

#: Messages of a burst, as in the paper's own measurements.
MESSAGES = 16
#: Blocks of 8 bytes, every second one: the layout of a column of doubles in a matrix of two.
BLOCK = 8
BURSTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)

COMM = MPI.COMM_WORLD
RANK, RANKS = COMM.Get_rank(), COMM.Get_size()
LAST = RANKS - 1


def repetitions(size: int) -> int:
    """How often a pattern of messages of `size` bytes is timed."""
    return 400 if size <= 4096 else 100 if size <= 65536 else 30


def sizes(largest: int, first: int = 1) -> list[int]:
    """Powers of two from `first` to `largest`."""
    chosen_sizes = [first]
    while chosen_sizes[-1] * 2 <= largest:
        chosen_sizes.append(chosen_sizes[-1] * 2)
    return chosen_sizes


def prtt(messages: int, delay_s: float, buffer: Sequence[object], count: int) -> float:
    """PRTT(messages, delay_s, s) in seconds at rank 0, the median of `count`; 0 elsewhere."""
    times = []
    for _ in range(count + 5):
        if RANK == 0:
            start = MPI.Wtime()
            for number in range(messages):
                if number and delay_s:
                    pause(delay_s)
                COMM.Send(buffer, LAST)
            COMM.Recv(buffer, LAST)
            times.append(MPI.Wtime() - start)
        elif RANK == LAST:
            for _ in range(messages):
                COMM.Recv(buffer, 0)
            COMM.Send(buffer, 0)
    return median(times[5:]) if times else 0.0


def pause(seconds: float) -> None:
    """Compute for a while, as a program does between two messages."""
    end = MPI.Wtime() + seconds
    while MPI.Wtime() < end:
        pass


def length_of_pause(seconds: float) -> float:
    """What `pause` really takes, its call included: the median."""
    times = []
    for _ in range(50):
        start = MPI.Wtime()
        for _ in range(MESSAGES - 1):
            pause(seconds)
        times.append((MPI.Wtime() - start) / (MESSAGES - 1))
    return median(times)


def slowest(step: Callable[[], object], count: int, ranks: MPI.Comm) -> float:
    """Time of one `step` in seconds: of batches of steps the median, of the ranks the slowest."""
    times = []
    batches = 11
    for batch in range(batches + 1):
        ranks.Barrier()
        start = MPI.Wtime()
        for _ in range(max(1, count // batches)):
            step()
        times.append((MPI.Wtime() - start) / max(1, count // batches))
    return median(ranks.allreduce(time, op=MPI.MAX) for time in times[1:])


def prtt_rows(largest: int) -> Iterator[tuple[float, ...]]:
    """Size; PRTT(1,0,s), PRTT(n,0,s), PRTT(n,d,s), d."""
    data = bytearray(largest)
    for size in sizes(largest):
        buffer, count = [data, size, MPI.BYTE], repetitions(size)
        single = COMM.bcast(prtt(1, 0.0, buffer, count), 0)
        burst = prtt(MESSAGES, 0.0, buffer, max(count // 4, 15))
        # longer than all that one message causes, so that only the sender's overhead is left
        delay = 1.2 * single
        delayed = prtt(MESSAGES, delay, buffer, max(count // 8, 15))
        yield size, single, burst, delayed, length_of_pause(delay)


def burst_rows(largest: int) -> Iterator[tuple[float, ...]]:
    """Bytes of all messages; PRTT(n,0,1)."""
    for messages in BURSTS:
        yield messages, prtt(messages, 0.0, [bytearray(1), 1, MPI.BYTE], 300)


def middleware_rows(largest: int) -> Iterator[tuple[float, ...]]:
    """Size; half the round trip of contiguous and strided data, time to pack each."""
    data, packed = bytearray(2 * largest), bytearray(2 * largest)
    for size in sizes(largest, BLOCK):
        strided = MPI.BYTE.Create_vector(size // BLOCK, BLOCK, 2 * BLOCK).Commit()
        count = repetitions(size)
        half = [prtt(1, 0.0, layout, count) / 2 for layout in ([data, size, MPI.BYTE], [data, 1, strided])]
        pack = [
            slowest(partial(layout.Pack, source, packed, 0, MPI.COMM_SELF), count, MPI.COMM_SELF)
            for layout, source in ((MPI.BYTE, data[:size]), (strided, data[: strided.Get_extent()[1]]))
        ]
        yield size, *half, *pack
        strided.Free()


def h_relation_rows(largest: int) -> Iterator[tuple[float, ...]]:
    """h; time of a superstep."""
    outgoing, incoming = memoryview(bytearray(largest)), memoryview(bytearray(largest))

    def superstep(parts: Sequence[slice]) -> None:
        requests = []
        for distance, part in enumerate(parts, 1):
            requests.append(COMM.Irecv(incoming[part], (RANK - distance) % RANKS))
            requests.append(COMM.Isend(outgoing[part], (RANK + distance) % RANKS))
        MPI.Request.Waitall(requests)
        COMM.Barrier()

    for size in sizes(largest):
        edges = [size * place // LAST for place in range(RANKS)]
        parts = [slice(*edge) for edge in pairwise(edges)]
        yield size, slowest(partial(superstep, parts), repetitions(size), COMM)


def ring_rows(largest: int) -> Iterator[tuple[float, ...]]:
    """Size; time of one transfer, of two concurrent ones, and so on."""
    rings = [COMM.Create_group(COMM.Get_group().Incl(range(ranks))) for ranks in range(2, RANKS + 1)]
    outgoing, incoming = bytearray(largest), bytearray(largest)
    for size in sizes(largest):
        out, into, count = [outgoing, size, MPI.BYTE], [incoming, size, MPI.BYTE], repetitions(size)
        times = [prtt(1, 0.0, out, count) / 2]
        for ring in rings:
            mine = 0.0
            if ring != MPI.COMM_NULL:
                rank, ranks = ring.Get_rank(), ring.Get_size()
                neighbours = ((rank + 1) % ranks, 0, into, (rank - 1) % ranks, 0)
                mine = slowest(partial(ring.Sendrecv, out, *neighbours), count, ring)
            times.append(mine)
            COMM.Barrier()
        yield size, *times


#: Test → title, headings of the times, rows.
TESTS: dict[str, tuple[str, list[str], Callable[[int], Iterator[tuple[float, ...]]]]] = {
    "prtt": (
        "Parametrised Round Trip Time",
        ["PRTT(1,0,s)", f"PRTT({MESSAGES},0,s)", f"PRTT({MESSAGES},d,s)", "d"],
        prtt_rows,
    ),
    "burst": ("Burst", ["PRTT(n,0,1)"], burst_rows),
    "middleware": ("Middleware", ["contiguous", "strided", "pack", "pack_strided"], middleware_rows),
    "h_relation": ("h-Relation", ["T(h)"], h_relation_rows),
    "ring": ("Ring", [f"T({transfers})" for transfers in range(1, RANKS + 1)], ring_rows),
}


def main() -> None:
    """Print the table from rank 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("test", choices=TESTS)
    parser.add_argument("--max-size", type=int, default=1 << 20, help="largest message in bytes")
    options = parser.parse_args()
    if RANKS < 2:
        sys.exit("This test requires at least two processes")
    if options.max_size < 64:
        parser.error("--max-size: at least 64 bytes")
    title, headings, rows = TESTS[options.test]
    if RANK == 0:
        print(f"# NPC {title} Test, {RANKS} ranks")
        print(f"# {'Size [B]':<8}" + "".join(f" {heading + ' [us]':>18}" for heading in headings), flush=True)
    for size, *times in rows(options.max_size):
        if RANK == 0:
            print(f"{size:10d}" + "".join(f" {time * 1e6:18.3f}" for time in times), flush=True)


if __name__ == "__main__":
    main()
