"""Programs that `npc observe` watched: inside MPI, on their nodes, where their time and memory went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from npc.records.hotspots import HOTSPOTS, Hotspots
from npc.records.memory_use import MEMORY, MemoryUse
from npc.records.mpi_profile import PROFILE, Profile
from npc.records.node_probes import OVERHEAD, PROBES, Overhead, Probes
from npc.records.observed import part_of, read_document
from npc.records.record import Record
from npc.records.series import OBSERVED
from roofline.applications import program_of
from roofline.result import ranks_text

#: Launches that are read at most; of a long history the newest.
_MOST: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """One launch. seconds: of the whole run. ident: of its records in a page. raw: relative to the run."""

    program: str
    nodes: int
    ranks: int
    time: str
    seconds: float
    raw: str
    ident: str

    @property
    def name(self) -> str:
        """``himeno, 8 ranks on 2 nodes``."""
        return f"{self.program}, {ranks_text(self.ranks, self.nodes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(Launched):
    """One whose MPI was looked into."""

    profile: Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class OnNode(Launched):
    """One with probes on its nodes, with stacks, or whose memory was looked at. profile: of its MPI, as far
    as there is one."""

    profile: Profile | None
    probes: Probes | None
    hotspots: Hotspots | None
    overhead: Overhead | None
    memory: MemoryUse | None = None


AnyLaunch = TypeVar("AnyLaunch", bound=Launched)


def read_observed(
    records: Iterable[Record], folder: Path, idents: Mapping[int, str]
) -> tuple[list[Observed], list[OnNode]]:
    """The launches of a run with profiles of their ranks, and those whose nodes or memory were looked at, the
    newest first, without what cannot be read. folder: what raw files are relative to. idents:
    ``id(record)`` → the id of its series."""
    inside: list[Observed] = []
    on_node: list[OnNode] = []
    for record, document in _documents(records, folder):
        profile = _part(document, PROFILE, Profile)
        if profile and not profile.ranks:
            profile = None
        fields: dict[str, Any] = {
            "program": program_of(record),
            "nodes": record.nodes,
            "ranks": len(profile.ranks) if profile else int(document.get("ranks") or 0),
            "time": record.time,
            "seconds": record.value if record.metric == "time" else _seconds(document),
            "raw": record.raw,
            "ident": idents[id(record)],
        }
        probes, hotspots = _part(document, PROBES, Probes), _part(document, HOTSPOTS, Hotspots)
        memory = _part(document, MEMORY, MemoryUse)
        if profile:
            inside.append(Observed(**fields, profile=profile))
        if probes or hotspots or memory:
            fields |= {"profile": profile, "probes": probes, "hotspots": hotspots, "memory": memory}
            on_node.append(OnNode(**fields, overhead=_part(document, OVERHEAD, Overhead)))
    return inside, on_node


def newest(observed: Iterable[AnyLaunch]) -> list[AnyLaunch]:
    """The newest launch of each program on as many nodes with as many ranks."""
    found: dict[str, AnyLaunch] = {}
    for each in observed:
        found.setdefault(each.name, each)
    return list(found.values())


def overhead_lines(found: Overhead | None) -> Iterator[str]:
    """What watching took of the run time, as estimated and as measured."""
    if found is None:
        return
    if found.estimated:
        parts = ", ".join(f"{name} {share:.2%}" for name, share in found.estimated.items())
        total = sum(found.estimated.values())
        budget = "" if found.budget is None else f"; {found.budget:.2%} was allowed"
        yield f"watching took an estimated {total:.2%} of the run time ({parts}){budget}"
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
