"""What collectives cost, from the cost of their messages.

An algorithm is a list of rounds on its critical path: how many messages of what size one process sends one
after the other, and how many bytes it reduces with each. A model of one message's time makes a time of it.
The rounds are those of R. Thakur, R. Rabenseifner, W. Gropp, Optimization of collective communication
operations in MPICH, IJHPCA 19(1), 2005 (TRG below), of a ring (P. Patarasuk, X. Yuan, JPDC 69(2), 2009) and
of the dissemination barrier (D. Hensgen, R. Finkel, U. Manber, IJPP 17(1), 1988).

Parts of a vector are whole bytes, rounded up. As there, every process sends and receives at the same time
at full speed, all pairs are alike, and no link is shared: on a network that is not so, the true time is
longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple


class Round(NamedTuple):
    """Messages of one size that a process sends one after the other."""

    #: Number of messages.
    messages: int
    #: Bytes of each message.
    size: int
    #: Bytes that are reduced with each message.
    reduced: int = 0


Algorithm = Callable[[int, int], list[Round]]


def send(processes: int, size: int) -> list[Round]:
    """One message."""
    return [Round(1, size)]


def broadcast_binomial(processes: int, size: int) -> list[Round]:
    """⌈lg p⌉·(α + nβ) (TRG 4.3)."""
    return [Round(_steps(processes), size)]


def broadcast_van_de_geijn(processes: int, size: int) -> list[Round]:
    """Scatter along a binomial tree, then a ring: (⌈lg p⌉ + p − 1)·α + 2·(p − 1)/p·nβ (TRG 4.3)."""
    return [*_halves(processes, size), Round(processes - 1, _part(size, processes))]


def allreduce_recursive_doubling(processes: int, size: int) -> list[Round]:
    """⌊lg p⌋·(α + nβ + nγ), and two messages more where p is no power of two (TRG 4.5)."""
    rounds = [Round(_floor(processes), size, size)]
    if processes != 1 << _floor(processes):
        rounds += [Round(1, size, size), Round(1, size)]
    return rounds


def allreduce_rabenseifner(processes: int, size: int) -> list[Round]:
    """Reduce-scatter by halving, all-gather by doubling: 2·lg p·α + 2·(p − 1)/p·nβ + (p − 1)/p·nγ (TRG 4.5).

    Where p is no power of two, the processes beyond the last power of two first exchange halves of their
    vectors with others, and get the result at the end.
    """
    steps = _floor(processes)
    parts = [_part(size, 1 << step) for step in range(1, steps + 1)]
    rounds = [Round(1, part, part) for part in parts] + [Round(1, part) for part in parts]
    if processes != 1 << steps:
        half = _part(size, 2)
        rounds += [Round(1, half, half), Round(1, half), Round(1, size)]
    return rounds


def allreduce_ring(processes: int, size: int) -> list[Round]:
    """2·(p − 1)·(α + n/p·β) + (p − 1)·n/p·γ (Patarasuk, Yuan)."""
    part = _part(size, processes)
    return [Round(processes - 1, part, part), Round(processes - 1, part)]


def alltoall_pairwise(processes: int, size: int) -> list[Round]:
    """(p − 1)·(α + mβ) for m bytes to each process (TRG 4.2)."""
    return [Round(processes - 1, size)]


def alltoall_bruck(processes: int, size: int) -> list[Round]:
    """⌈lg p⌉ messages, the k-th with all blocks whose number has bit k: about p/2·m bytes (TRG 4.2)."""
    blocks = [sum(block >> bit & 1 for block in range(processes)) for bit in range(_steps(processes))]
    return [Round(1, count * size) for count in blocks]


def barrier_dissemination(processes: int, size: int) -> list[Round]:
    """⌈lg p⌉ messages without data (Hensgen, Finkel, Manber)."""
    return [Round(_steps(processes), 0)]


def superstep(processes: int, size: int) -> list[Round]:
    """An h-relation of `size` bytes out of every process, parted among the others, and its barrier."""
    others = processes - 1
    return [Round(others, _part(size, others)), *barrier_dissemination(processes, 0)]


#: Operation → its algorithms. The size is that of the message, of the vector, and of all-to-all the bytes for
#: each process, as the OSU and Intel benchmarks count it.
OPERATIONS: Final[Mapping[str, Mapping[str, Algorithm]]] = {
    "send": {"one message": send},
    "bcast": {"binomial": broadcast_binomial, "van de Geijn": broadcast_van_de_geijn},
    "allreduce": {
        "recursive doubling": allreduce_recursive_doubling,
        "ring": allreduce_ring,
        "Rabenseifner": allreduce_rabenseifner,
    },
    "alltoall": {"pairwise": alltoall_pairwise, "Bruck": alltoall_bruck},
    "barrier": {"dissemination": barrier_dissemination},
}


def _part(size: int, parts: int) -> int:
    return math.ceil(size / parts)


def _floor(processes: int) -> int:
    """⌊lg p⌋."""
    return processes.bit_length() - 1


def _steps(processes: int) -> int:
    """⌈lg p⌉."""
    return (processes - 1).bit_length()


def _halves(processes: int, size: int) -> list[Round]:
    """The root's messages of a binomial scatter: half of what it holds, then half of the rest."""
    rounds = []
    held = processes
    while held > 1:
        given = held // 2
        rounds.append(Round(1, math.ceil(size * given / processes)))
        held = math.ceil(held / 2)
    return rounds
