"""Which ping-pong tells the time of a message, where something else is made of messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from npc import catalogue

if TYPE_CHECKING:
    from npc.roofline.prediction import BelievedModels
    from npc.roofline.sweeps import SweepSource

#: Parameters that may differ between a ping-pong and what is made of its messages: numbers of processes.
_PROCESSES: Final = frozenset({"ranks", "waiting"})


def preference(benchmark: str, case: str, nodes: int) -> tuple[int, bool, int]:
    """A key to sort ping-pongs by; a prediction takes the one with the least key. More nodes come first, then
    MPI's own tests, then the order of the catalogue."""
    return -nodes, not of_mpi(benchmark, case), catalogue.place(benchmark)


def of_mpi(benchmark: str, case: str) -> bool:
    """Whether the messages of a test are MPI's."""
    return catalogue.find(benchmark, case).layer == "mpi"


def made_of(source: SweepSource, messages: Mapping[SweepSource, BelievedModels]) -> SweepSource | None:
    """The ping-pong whose messages `source` is made of; None if there is none.

    It is of the same platform, within a node or between nodes as `source` is, and of parameters that do not
    contradict. Of several that of the same benchmark is taken, and that on the same hosts.
    """

    def distance(ping_pong: SweepSource) -> tuple[bool, bool, tuple[int, bool, int]]:
        elsewhere = not set(ping_pong.hosts) <= set(source.hosts)
        return (
            ping_pong.benchmark != source.benchmark,
            elsewhere,
            preference(ping_pong.benchmark, ping_pong.case, ping_pong.nodes),
        )

    return min((message for message in messages if _together(message, source)), key=distance, default=None)


def _together(a: SweepSource, b: SweepSource) -> bool:
    ours, theirs = a.by_name, b.by_name
    shared = ours.keys() & theirs.keys() - _PROCESSES
    return (
        a.platform == b.platform
        and (a.nodes > 1) == (b.nodes > 1)
        and all(ours[name] == theirs[name] for name in shared)
    )
