"""What a message takes, where something else is made of messages: which ping-pong says it."""

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
    """The least is the ping-pong that a prediction takes: of more nodes before of fewer, MPI's own before
    others, then in the order of the catalogue."""
    return -nodes, not of_mpi(benchmark, case), catalogue.place(benchmark)


def of_mpi(benchmark: str, case: str) -> bool:
    """Whether the messages of a test are MPI's."""
    return catalogue.find(benchmark, case).layer == "mpi"


def made_of(source: SweepSource, messages: Mapping[SweepSource, BelievedModels]) -> SweepSource | None:
    """The ping-pong whose messages `source` is made of: on the same platform, within a node or between nodes
    as that is, and of parameters that do not contradict. Among several that of the same benchmark and on its
    hosts."""

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
