"""What every rank leaves in the folder of its run, ``HOST.RANK.json`` (`npc.observe.rank`), read as data.

A program may have run for hours: a file that is damaged costs what stood in it, and a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from npc.files import LARGEST_TABLE, read_bytes
from npc.machine.sysfs import parse_cpus
from npc.records.observed import MovedBytes

T = TypeVar("T")
#: Numbers of ranks and threads, beyond any machine's: as many are looked for.
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**22)]


class PortReading(msgspec.Struct):
    """A reading of the node's ports."""

    #: When it was read, in s since 1970 by the node's clock.
    time: float
    #: By port or interface what `npc.observe.counters.read_counters` read: received, sent, and B a count.
    counters: dict[str, dict[str, int]]


class Flop(msgspec.Struct, kw_only=True):
    """What was counted: FLOP, or `npc.observe.flop_counters.moved_bytes`, or why nothing was."""

    #: The group or event that was asked for.
    group: str
    #: FLOP that were counted; None where they were not.
    flop: float | None = None
    #: What went through a level of the memory; None where the group does not count that.
    moved: MovedBytes | None = None
    #: Why there are no counts, in words; without a meaning where there are some.
    reason: str = "nothing was counted"


class WatchedRank(msgspec.Struct, kw_only=True):
    """A rank."""

    #: Name of the host that it ran on.
    host: str
    #: Its number in the program, from 0.
    rank: Number
    #: Of the whole program.
    ranks: Number
    #: Before anything had begun.
    idle: PortReading
    #: When the program began.
    begin: PortReading
    #: When it had ended.
    end: PortReading
    #: CPUs that the launcher bound it to, as a list of Linux; None if not known.
    cpus: str | None = None
    #: Those that OpenMP was to have.
    threads: Number = 1
    #: What the hardware counted; None where this rank had nothing to count.
    counted: Flop | None = None
    #: What the kernel counted (`npc.processes.storage_and_calls`), in bytes and calls; None if not known.
    io: dict[str, int] | None = None
    #: What companions said at their end, by their keys.
    companions: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        parse_cpus(self.cpus or "")
        for moment in (self.idle, self.begin, self.end):
            if not all({"received", "sent", "unit"} <= port.keys() for port in moment.counters.values()):
                raise ValueError("a port without its counters")

    @property
    def seconds(self) -> float:
        """How long its program ran."""
        return self.end.time - self.begin.time

    def left_by(self, companion: str, kind: type[T]) -> T | None:
        """What a companion said at its end; None where it said nothing, or nothing of this kind."""
        try:
            return msgspec.convert(self.companions.get(companion), kind)
        except msgspec.ValidationError:
            return None


def read_ranks(folder: Path) -> tuple[list[WatchedRank], list[str]]:
    """The ranks that left their files in `folder`, and notes of those files that are damaged."""
    damaged: list[str] = []
    return list(decoded(folder, ".json", WatchedRank, damaged)), damaged


def decoded(folder: Path, suffix: str, kind: type[T], damaged: list[str]) -> Iterator[T]:
    """The ranks' files of JSON with a suffix, one by one; what cannot be read is noted in `damaged`."""
    decoder = msgspec.json.Decoder(kind)
    for path in sorted(folder.glob(f"*{suffix}")):
        try:
            rank = decoder.decode(read_bytes(path, LARGEST_TABLE))
        except (OSError, ValueError, RecursionError) as error:
            damaged.append(f"{path.name} is damaged: {error}")
        else:
            yield rank
