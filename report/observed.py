"""Programs that `npc observe` watched: inside MPI, on their nodes, where their time and memory went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from npc.page.blocks import Cell, Listing
from npc.records.hotspots import HOTSPOTS, Hotspots
from npc.records.memory_use import MEMORY, MemoryUse
from npc.records.mpi_profile import PROFILE, Profile
from npc.records.node_probes import PROBES, Probes
from npc.records.observed import part_of, read_document
from npc.records.overhead import OVERHEAD, Overhead
from npc.records.record import Record
from npc.records.series import OBSERVED
from npc.roofline.applications import program_of
from npc.roofline.result import ranks_text

#: Launches that are read at most; of a long history the newest.
_MOST: Final = 32


#: Of a program whose MPI was not looked into.
_NO_PROFILE: Final = Profile(library="", thread_level="", threads=0, profiles=0, finalized=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One launch. seconds: of the whole run. ident: of its records in a page. raw: relative to the run.

    profile: of its MPI, without ranks where nobody looked into that; probes on its nodes, its stacks
    (hotspots) and its memory: None where these were not looked at.
    """

    program: str
    nodes: int
    ranks: int
    time: str
    seconds: float
    raw: str
    ident: str
    profile: Profile
    probes: Probes | None
    hotspots: Hotspots | None
    memory: MemoryUse | None
    overhead: Overhead | None

    @property
    def name(self) -> str:
        """``himeno, 8 ranks on 2 nodes``."""
        return f"{self.program}, {ranks_text(self.ranks, self.nodes)}"

    def heading(self, lines: Iterable[str]) -> Listing:
        """What is known of it, a line each, below the time of the launch."""
        return Listing(
            f"As npc observe saw it at {self.time[:16].replace('T', ' ')}", tuple(map(Cell, lines))
        )


def read_observed(records: Iterable[Record], folder: Path, idents: Mapping[int, str]) -> list[Observed]:
    """The launches of a run that were looked into, the newest first, without what cannot be read. folder:
    what raw files are relative to. idents: ``id(record)`` → the id of its series."""
    found = []
    for record, document in _documents(records, folder):
        profile = _part(document, PROFILE, Profile) or _NO_PROFILE
        launch = Observed(
            program=program_of(record),
            nodes=record.nodes,
            ranks=len(profile.ranks) or int(document.get("ranks") or 0),
            time=record.time,
            seconds=(record.value or 0.0) if record.metric == "time" else _seconds(document),
            raw=record.raw,
            ident=idents[id(record)],
            profile=profile,
            probes=_part(document, PROBES, Probes),
            hotspots=_part(document, HOTSPOTS, Hotspots),
            memory=_part(document, MEMORY, MemoryUse),
            overhead=_part(document, OVERHEAD, Overhead),
        )
        if launch.profile.ranks or launch.probes or launch.hotspots or launch.memory:
            found.append(launch)
    return found


def newest(observed: Iterable[Observed]) -> list[Observed]:
    """The newest launch of each program on as many nodes with as many ranks."""
    found: dict[str, Observed] = {}
    for each in observed:
        found.setdefault(each.name, each)
    return list(found.values())


def overhead_lines(found: Overhead | None) -> Iterator[str]:
    """What watching took of the run time, as estimated and as measured."""
    if found is None:
        return
    if found.words:
        yield found.words
    if (measured := found.measured) is not None:
        spread = "too few pairs for an interval"
        if measured.low is not None and measured.high is not None and measured.coverage is not None:
            spread = f"{measured.coverage:.1%} interval: {measured.low:+.2%} to {measured.high:+.2%}"
        yield (
            f"measured: {measured.median:+.2%} in the median of {measured.pairs} pairs of runs with and "
            f"without ({spread})"
        )


def _documents(records: Iterable[Record], folder: Path) -> Iterator[tuple[Record, dict[str, Any]]]:
    """The observations that can be read, each with the record of its time; of one in which the program's
    memory was looked at, and no time was measured, with that of its accesses."""
    times = [record for record in records if record.ok and record.case == OBSERVED and _is_first(record)]
    for record in sorted(times, key=lambda record: record.time, reverse=True)[:_MOST]:
        try:
            document = read_document(folder / record.raw)
        except (OSError, ValueError):
            continue
        if record.value or record.metric != "time":  # a program may only write
            yield record, document


def _seconds(document: Mapping[str, Any]) -> float:
    return max((float(node["seconds"]) for node in document["nodes"]), default=0.0)


def _is_first(record: Record) -> bool:
    if record.metric == "time":
        return "part" not in record.params
    return record.params.get("layer") == "memory" and record.params.get("kind") == "reads"


Part = TypeVar("Part")


def _part(document: Mapping[str, Any], key: str, kind: type[Part]) -> Part | None:
    """A part of an observation; None also where it is not whole."""
    try:
        return part_of(document, key, kind)
    except ValueError:
        return None
