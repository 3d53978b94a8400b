"""Programs whose MPI `npc observe` looked into: the profiles beside a run's records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from npc.records.mpi_profile import Profile, read_profile
from npc.records.record import Record
from roofline.applications import OBSERVED, program_of
from roofline.result import ranks_text

#: Launches that are read at most; of a long history the newest.
_MOST: Final = 32


@dataclass(frozen=True, slots=True)
class Observed:
    """One launch. seconds: of the whole run. ident: of its records in a page. raw: relative to the run."""

    program: str
    nodes: int
    time: str
    seconds: float
    raw: str
    ident: str
    profile: Profile

    @property
    def name(self) -> str:
        """``himeno, 8 ranks on 2 nodes``."""
        return f"{self.program}, {ranks_text(len(self.profile.ranks), self.nodes)}"


def read_observed(records: Iterable[Record], folder: Path, idents: Mapping[int, str]) -> list[Observed]:
    """The launches of a run with profiles of their ranks, the newest first, without those that cannot be
    read. folder: what raw files are relative to. idents: ``id(record)`` → the id of its series."""
    times = [
        record
        for record in records
        if record.ok and record.case == OBSERVED and record.metric == "time" and "part" not in record.params
    ]
    found = []
    for record in sorted(times, key=lambda record: record.time, reverse=True)[:_MOST]:
        try:
            profile = read_profile(folder / record.raw)
        except (OSError, ValueError):
            continue
        if profile and profile.ranks and record.value:
            where = record.time, record.value, record.raw, idents[id(record)]
            found.append(Observed(program_of(record), record.nodes, *where, profile))
    return found


def newest(observed: list[Observed]) -> list[Observed]:
    """The newest launch of each program on as many nodes with as many ranks."""
    found: dict[str, Observed] = {}
    for each in observed:
        found.setdefault(each.name, each)
    return list(found.values())
