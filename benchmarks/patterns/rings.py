"""Effective bandwidth of rings, as b_eff has it: ``mpirun -n 8 python rings.py``.

All processes send to both neighbours at once, in rings of 2, 4, … and all processes in the order of their
ranks, and in rings of all processes in random orders; by three methods; at 21 sizes, 1 to 4096 bytes and 8
more up to the largest. Of two repetitions the faster counts. The bandwidth is that of a process, 2 L / t,
the latency t / 2, as in HPC Challenge.

b_eff is the logarithmic mean over the ring patterns and that over the random ones, averaged alike, of all
processes' bandwidth, of the best method, averaged over the sizes.

Source: Koniges, Rabenseifner, Solchenbach, Benchmark design for characterization of balanced
high-performance architectures, IPDPS 2001; https://fs.hlrs.de/projects/par/mpi/b_eff. Here the largest
message is a setting, not a share of the memory.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable

from mpi4py import MPI
from world import end, head, loops_for, refuse, timed

REPETITIONS = 2
SMALL_SIZES = [2**power for power in range(13)]
LARGE_SIZES = 8


def all_sizes(largest: int) -> list[int]:
    """The 21 sizes: powers of two up to 4096, then as many equal factors up to the largest."""
    factor = (largest / SMALL_SIZES[-1]) ** (1 / LARGE_SIZES)
    return SMALL_SIZES + [round(SMALL_SIZES[-1] * factor**power) for power in range(1, LARGE_SIZES + 1)]


def neighbours(order: list[int], rank: int, length: int) -> tuple[int, int]:
    """(left, right) of `rank` in the rings of about `length` processes that `order` is cut into."""
    rings = max(1, len(order) // length)
    place = order.index(rank)
    ring = place * rings // len(order)
    first = -(-ring * len(order) // rings)
    members = order[first : -(-(ring + 1) * len(order) // rings)]
    return members[place - first - 1], members[(place - first + 1) % len(members)]


def patterns(processes: int, randoms: int, seed: int) -> dict[str, tuple[list[int], int]]:
    """name → (order of the processes, length of a ring)."""
    natural = list(range(processes))
    lengths = sorted({2**power for power in range(1, processes.bit_length()) if 2**power < processes})
    orders = {f"ring_{length}": (natural, length) for length in [*lengths, processes]}
    generator = random.Random(seed)
    for number in range(randoms):
        orders[f"random_{number}"] = (generator.sample(natural, processes), processes)
    return orders


def methods(comm: MPI.Comm, left: int, right: int, size: int) -> dict[str, Callable[[int], None]]:
    """name → a function that exchanges messages with both neighbours as often as it is told."""
    out = [bytearray(size), bytearray(size)]
    into = [bytearray(size), bytearray(size)]
    # what goes left arrives from the right
    requests = [
        comm.Recv_init([into[0], MPI.BYTE], right, 1),
        comm.Recv_init([into[1], MPI.BYTE], left, 2),
        comm.Send_init([out[0], MPI.BYTE], left, 1),
        comm.Send_init([out[1], MPI.BYTE], right, 2),
    ]
    counts, places = [0] * comm.size, [0] * comm.size
    counts[left] += size
    counts[right] += size
    places[right] = size if left != right else 0
    sent, received = bytearray(2 * size), bytearray(2 * size)

    def sendrecv(loops: int) -> None:
        for _ in range(loops):
            comm.Sendrecv([out[0], MPI.BYTE], left, 1, [into[0], MPI.BYTE], right, 1)
            comm.Sendrecv([out[1], MPI.BYTE], right, 2, [into[1], MPI.BYTE], left, 2)

    def nonblocking(loops: int) -> None:
        for _ in range(loops):
            MPI.Prequest.Startall(requests)
            MPI.Request.Waitall(requests)

    def alltoallv(loops: int) -> None:
        for _ in range(loops):
            comm.Alltoallv([sent, (counts, places), MPI.BYTE], [received, (counts, places), MPI.BYTE])

    return {"sendrecv": sendrecv, "nonblocking": nonblocking, "alltoallv": alltoallv}


def logarithmic_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    """Print a row for each pattern, method and size, and b_eff at the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-size", type=int, default=1 << 20, help="largest message in bytes")
    parser.add_argument("--randoms", type=int, default=3, help="random orders")
    parser.add_argument("--seed", type=int, default=1, help="of the random orders")
    parser.add_argument("--time", type=float, default=0.003, help="seconds of a repetition")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    if comm.size < 2:
        refuse(comm, "rings.py: needs two processes or more: is mpirun of the MPI that mpi4py has loaded?")
    if options.max_size < 2 * SMALL_SIZES[-1]:
        refuse(comm, f"rings.py: --max-size {options.max_size}: at least {2 * SMALL_SIZES[-1]}")
    if options.randoms < 1:
        refuse(comm, f"rings.py: --randoms {options.randoms}: at least 1")
    head(comm, "rings", 1, "pattern method size_B latency_us bandwidth_MB/s")
    of_pattern: dict[str, float] = {}
    for name, (order, length) in patterns(comm.size, options.randoms, options.seed).items():
        left, right = neighbours(order, comm.rank, length)
        total = 0.0
        for size in all_sizes(options.max_size):
            rates = []
            for method, exchange in methods(comm, left, right, size).items():
                loops = loops_for(comm, exchange, options.time)
                took = min(timed(comm, exchange, loops) for _ in range(REPETITIONS)) / loops
                rates.append(2 * size / took)
                if comm.rank == 0:
                    cells = f"{name:10} {method:12} {size:9d} {took / 2 * 1e6:12.4f} {rates[-1] / 1e6:14.6f}"
                    print(cells, flush=True)
            total += max(rates)
        of_pattern[name] = comm.size * total / len(all_sizes(options.max_size))
    natural = [value for name, value in of_pattern.items() if name.startswith("ring")]
    scattered = [value for name, value in of_pattern.items() if name.startswith("random")]
    b_eff = logarithmic_mean([logarithmic_mean(natural), logarithmic_mean(scattered)])
    if comm.rank == 0:
        print(f"# b_eff: {b_eff / 1e6:.3f} MB/s")
    end(comm)


if __name__ == "__main__":
    main()
