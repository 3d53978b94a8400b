"""Programs that `npc observe` watched, and what it kept of each launch, part by part.

What is in a part knows the module that owns it: it asks with the part's key and its type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from npc.page.blocks import Cell, Listing
from npc.records.observed import part_of, read_document
from npc.records.overhead import OVERHEAD, Overhead
from npc.records.record import Record
from npc.records.series import OBSERVED
from npc.roofline.applications import program_of
from npc.roofline.result import ranks_text

#: Launches that are read at most; of a long history the newest.
_MOST: Final = 32

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One launch of a program."""

    #: What the program is called.
    program: str
    #: How many nodes it ran on.
    nodes: int
    #: How many MPI ranks it had.
    ranks: int
    #: When it began, ISO 8601.
    time: str
    #: How long the whole run took, in s.
    seconds: float
    #: The observation's file, relative to the run's folder.
    raw: str
    #: The series of its records in the page.
    ident: str
    #: The whole observation, as it is in its file.
    document: Mapping[str, Any] = field(repr=False)
    #: Parts that were read already, by key and type; None for one that is not there or not whole.
    _parts: dict[tuple[str, type], Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """``himeno, 8 ranks on 2 nodes``."""
        return f"{self.program}, {ranks_text(self.ranks, self.nodes)}"

    @property
    def overhead(self) -> Overhead | None:
        """What watching took; None where nobody looked at that."""
        return self.part(OVERHEAD, Overhead)

    def part(self, key: str, kind: type[Part]) -> Part | None:
        """What stands under a key of the observation; None where nothing does, and where it is not whole."""
        if (key, kind) not in self._parts:
            try:
                self._parts[key, kind] = part_of(self.document, key, kind)
            except ValueError:
                self._parts[key, kind] = None
        part: Part | None = self._parts[key, kind]
        return part

    def heading(self, lines: Iterable[str]) -> Listing:
        """What is known of it, a line each, below the time of the launch."""
        return Listing(
            f"As npc observe saw it at {self.time[:16].replace('T', ' ')}", tuple(map(Cell, lines))
        )


def read_observed(records: Iterable[Record], folder: Path, idents: Mapping[int, str]) -> list[Observed]:
    """The observed launches of a run, the newest first, without what cannot be read. folder: what raw files
    are relative to. idents: ``id(record)`` → the id of its series."""
    return [
        Observed(
            program=program_of(record),
            nodes=record.nodes,
            ranks=int(document["ranks"]),
            time=record.time,
            seconds=(record.value or 0.0) if record.metric == "time" else _seconds(document),
            raw=record.raw,
            ident=idents[id(record)],
            document=document,
        )
        for record, document in _documents(records, folder)
    ]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Launch = TypeVar("Launch", bound=_Named)


def newest(observed: Iterable[Launch]) -> list[Launch]:
    """The newest launch of each program on as many nodes with as many ranks."""
    by_name: dict[str, Launch] = {}
    for launch in observed:
        by_name.setdefault(launch.name, launch)
    return list(by_name.values())


def overhead_lines(overhead: Overhead | None) -> Iterator[str]:
    """What watching took of the run time, as estimated and as measured."""
    if overhead is None:
        return
    if overhead.words:
        yield overhead.words
    if (measured := overhead.measured) is not None:
        spread = "too few pairs for an interval"
        if measured.low is not None and measured.high is not None and measured.coverage is not None:
            spread = f"{measured.coverage:.1%} interval: {measured.low:+.2%} to {measured.high:+.2%}"
        yield (
            f"measured: {measured.median:+.2%} in the median of {measured.pairs} pairs of runs with and "
            f"without ({spread})"
        )


def _documents(records: Iterable[Record], folder: Path) -> Iterator[tuple[Record, dict[str, Any]]]:
    """The observations that can be read, each with the record of its time, or where no time was measured with
    its first record."""
    launches: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.case == OBSERVED:
            launches[record.raw].append(record)
    firsts = [first for launch in launches.values() if (first := _first(launch)) is not None]
    for record in sorted(firsts, key=lambda record: record.time, reverse=True)[:_MOST]:
        try:
            document = read_document(folder / record.raw)
        except (OSError, ValueError):
            continue
        if record.value or record.metric != "time":  # a program may only write
            yield record, document


def _first(launch: Iterable[Record]) -> Record | None:
    """The record that stands for a launch; None where that is not usable."""
    timed = [record for record in launch if record.metric == "time" and "part" not in record.params]
    return next((record for record in timed or launch if record.ok), None)


def _seconds(document: Mapping[str, Any]) -> float:
    return max((float(node["seconds"]) for node in document["nodes"]), default=0.0)
