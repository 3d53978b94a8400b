"""What every rank leaves in the folder of its run, ``HOST.RANK.json`` (`npc.observe.rank`), read as data.

A program may have run for hours: a file that is damaged costs what stood in it, and a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from npc.files import LARGEST_TABLE, read_bytes
from npc.machine.sysfs import parse_cpus
from npc.records.observed import MovedBytes

T = TypeVar("T")
#: Numbers of ranks and threads, beyond any machine's: as many are looked for.
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**22)]


class PortReading(msgspec.Struct):
    """A reading of the node's ports (`npc.observe.counters.read_counters`), in seconds of its clock."""

    time: float
    counters: dict[str, dict[str, int]]


class Flop(msgspec.Struct, kw_only=True):
    """What was counted by `group`: FLOP, or `npc.observe.flop_counters.moved_bytes`, or why nothing was."""

    group: str
    flop: float | None = None
    moved: MovedBytes | None = None
    reason: str = "nothing was counted"


class SampledStacks(msgspec.Struct):
    """Stacks that were taken of a rank."""

    samples: int = 0


class NoRankProbes(msgspec.Struct):
    """Why the probes were not there for a rank."""

    reason: str


class WatchedRank(msgspec.Struct, kw_only=True):
    """A rank. idle, begin, end: before anything had begun, when the program did, when it had ended. io: what
    the kernel counted; profile: why there is none of its MPI."""

    host: str
    rank: Number
    ranks: Number
    idle: PortReading
    begin: PortReading
    end: PortReading
    cpus: str | None = None
    threads: Number = 1
    counted: Flop | None = None
    io: dict[str, int] | None = None
    profile: str = ""
    probes: NoRankProbes | None = None
    hotspots: SampledStacks | None = None

    def __post_init__(self) -> None:
        parse_cpus(self.cpus or "")
        for moment in (self.idle, self.begin, self.end):
            if not all({"received", "sent", "unit"} <= port.keys() for port in moment.counters.values()):
                raise ValueError("a port without its counters")

    @property
    def seconds(self) -> float:
        """How long its program ran."""
        return self.end.time - self.begin.time


def read_ranks(folder: Path) -> tuple[list[WatchedRank], list[str]]:
    """The ranks that left their files in `folder`, and notes of those files that are damaged."""
    damaged: list[str] = []
    return list(decoded(folder, ".json", WatchedRank, damaged)), damaged


def decoded(folder: Path, suffix: str, kind: type[T], damaged: list[str]) -> Iterator[T]:
    """The ranks' files of JSON with a suffix, one by one; what cannot be read is noted in `damaged`."""
    decoder = msgspec.json.Decoder(kind)
    for path in sorted(folder.glob(f"*{suffix}")):
        try:
            found = decoder.decode(read_bytes(path, LARGEST_TABLE))
        except (OSError, ValueError, RecursionError) as error:
            damaged.append(f"{path.name} is damaged: {error}")
        else:
            yield found
