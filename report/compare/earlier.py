"""Earlier runs of the platforms that are compared: they say how the runs of one machine differ.

Looked for beside the runs that are compared (``runs/*``) and in the platform's history. A run counts that
began before the later of the two sides. A step between such runs counts as spread, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from npc import status_line
from npc.records.history import History, InvalidHistory
from npc.records.record import InvalidRecord, Record
from npc.records.run import RECORDS, read_run
from npc.records.series import REMEASURED
from npc.report.compare.difference import ENOUGH_RUNS
from npc.report.compare.sides import Side

#: Last runs and nights of a platform that are read: 435 pairs of runs.
_MOST: Final = 30


class _EarlierRun(NamedTuple):
    """A run of one platform."""

    #: What the platform is called.
    platform: str
    #: The time of its first record (ISO 8601).
    begun: str
    #: What the run, or the night, is called.
    name: str
    #: What was measured on the platform in it.
    records: Sequence[Record]


class EarlierRuns:
    """The runs beside `sides`, and those of the histories in the folder `history`; read when asked for.

    sides: whole ones, whatever is compared of them.
    """

    def __init__(self, sides: Sequence[Side], history: Path) -> None:
        self._history = history
        self._folders = {folder.resolve() for side in sides for folder in side.folders.values()}
        self._given = [run for side in sides for run in _runs(side)]

    def before(self, a: Side, b: Side) -> Mapping[str, Side]:
        """Platform → its runs that began before one of the sides did, but those of the sides."""
        if min(len(a.records), len(b.records)) >= ENOUGH_RUNS:
            return {}
        own = [{run.begun for run in self._given if run.name in side.records} for side in (a, b)]
        latest = max(map(max, filter(None, own)), default="")
        by_platform: dict[str, dict[str, Sequence[Record]]] = {}
        for run in self._runs:
            if run.begun < latest and run.begun not in own[0] | own[1]:
                by_platform.setdefault(run.platform, {})[run.name] = run.records
        return {
            platform: Side(platform, dict(list(runs.items())[-_MOST:]))
            for platform, runs in by_platform.items()
        }

    @cached_property
    def _runs(self) -> list[_EarlierRun]:
        """Every run once, the oldest first."""
        platforms = {run.platform for run in self._given}
        runs = [*self._beside(), *(run for platform in platforms for run in self._nights(platform))]
        once = {(run.platform, run.begun): run for run in (*runs, *self._given) if run.platform in platforms}
        return sorted(once.values(), key=lambda run: run.begun)

    def _beside(self) -> Iterable[_EarlierRun]:
        places = dict.fromkeys(folder.parent for folder in self._folders)
        beside = [path.parent for place in places for path in place.glob(f"*/{RECORDS}")]
        beside.sort(key=lambda folder: ((folder / RECORDS).stat().st_mtime, folder))
        for folder in beside[-2 * _MOST :]:
            if folder not in self._folders:
                status_line.show(f"reading {folder.name}, an earlier run")
                with contextlib.suppress(OSError, InvalidRecord, UnicodeDecodeError):
                    yield from _runs(Side("", {str(folder): read_run(folder)}))

    def _nights(self, platform: str) -> Iterable[_EarlierRun]:
        folder = self._history / platform
        if not platform or not folder.is_dir():
            return
        latest = max(run.begun for run in self._given)
        with contextlib.closing(History(folder, status_line.show)) as past:
            try:
                nights = [night for night in past.nights() if night.begun < latest][-_MOST:]
                for night in nights:
                    first = [
                        record for record in past.records(run=night.run) if REMEASURED not in record.params
                    ]
                    yield from _runs(Side("", {night.run: first}))
            except InvalidHistory:
                return  # who compares nights of it is told


def _runs(side: Side) -> Iterable[_EarlierRun]:
    """The runs of a side, a platform each."""
    for name, records in side.records.items():
        by_platform: dict[str, list[Record]] = {}
        for record in records:
            by_platform.setdefault(record.platform, []).append(record)
        for platform, own in by_platform.items():
            yield _EarlierRun(platform, min(record.time for record in own), name, own)
