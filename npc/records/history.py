"""The history of a platform: monthly CSV files of records, append-only, and indexes that make them fast.

``history/PLATFORM/2026-11.csv`` holds the records measured in November 2026, UTC, one line each: a header and
rows as in ``records.csv``. Any tool can read them; only the end of a file is ever changed. A night is one
value of the column ``run`` (`night_name`); records of a night's second measurement have the param
`REMEASURED`. A crash or a full disk leaves whole rows: what follows the last line end of a file is half a row
of a writer that was killed. Readers skip it, and the next append cuts it off.

A row that is there already is not appended again: so a night that was cut can be appended once more, and two
histories can be merged. A file with other columns (an older version's, another tool's) is read with the
defaults of `DEFAULTS`, and left as it is; new rows of its month go into ``2026-11.2.csv``. A row without
``run`` is of the night of its day (of ``time``), one without ``platform`` of the folder's platform.

What judging needs of each row is in indexes, one a file (`npc.records.history_index`). A file whose size or
time has changed is indexed again.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timezone
from functools import lru_cache, partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from npc.files import LARGEST_TABLE, append_lines, open_regular
from npc.locks import only_one
from npc.records.history_columns import HistoryColumns
from npc.records.history_columns import HistoryRow as HistoryRow  # whoever judges imports it from here
from npc.records.history_index import INDEXES as INDEXES
from npc.records.history_index import (
    FileIndex,
    file_state,
    index_path,
    load_index,
    microseconds,
    time_text,
)
from npc.records.history_index import InvalidHistory as InvalidHistory
from npc.records.history_reading import DEFAULTS, header_of, keep_index, make_index, record_of
from npc.records.record import COLUMNS, OK, Record, replace, to_row, utc
from npc.records.series import REMEASURED, Series

LOCK: Final = ".lock"
_MONTH: Final = re.compile(r"\d{4}-\d{2}(\..+)?\.csv")
#: More bytes than this to be indexed are shared among the CPUs: a few seconds' work.
_SHARED: Final = 2**25
#: Seconds after which what nobody needs among the indexes is removed: a file may be about to take its place.
_LEFT_S: Final = 3600.0
#: Seconds after which the lock of an append is free: its holder may have died on another host.
_APPENDING_S: Final = 600.0


class LastMeasured(NamedTuple):
    """The last night in which a benchmark had a record from a group of hosts; one for usable records, one for
    others."""

    #: Name of the benchmark's folder.
    benchmark: str
    #: The group, in the order of their roles.
    hosts: tuple[str, ...]
    #: Name of the night.
    run: str
    #: Of its record: ``ok``, or why its value must not be used.
    status: str


class Night(NamedTuple):
    """One night of one platform."""

    #: Its name (`night_name`).
    run: str
    #: Name of the platform that was measured.
    platform: str
    #: Time of its first record, ISO 8601 with offset.
    begun: str
    #: Time of its last record, ISO 8601 with offset.
    ended: str
    #: How many rows it has.
    rows: int
    #: Name of the first file that has rows of it: ``2026-11.csv``.
    file: str


def night_name(begun: datetime, run: str = "") -> str:
    """The name of a night for the column ``run``: ``20261121T023000Z``, with the JUBE run's number behind it.

    JUBE's numbers begin anew where somebody empties ``runs/``; with the time they are unique, and names sort
    as nights do. Raises ValueError for a time without an offset.
    """
    if begun.tzinfo is None:
        raise ValueError("a night's time needs a UTC offset")
    moment = begun.astimezone(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    return f"{moment}-{run}" if run else moment


def of_night(records: Iterable[Record], night: str, remeasured: bool = False) -> Iterator[Record]:
    """The records as the history keeps them: `night` in ``run``, and marked if they were measured again."""
    for record in records:
        params = {**record.params, REMEASURED: "1"} if remeasured else record.params
        yield replace(record, run=night, params=params)


class History:
    """The records of one folder, ``history/PLATFORM``. Raises `InvalidHistory`, and OSError as the file
    system does.

    Several processes may use it at once: whoever appends holds a lock. say: is called with a line for each
    file that is read.
    """

    def __init__(self, folder: Path, say: Callable[[str], None] = lambda _: None) -> None:
        self.folder = folder
        self._say = say
        #: Sentences for people: what was wrong, and has been mended.
        self.notes: list[str] = []
        #: Name of a file → its index.
        self._indexes: dict[str, FileIndex] = {}

    def append(self, records: Iterable[Record]) -> int:
        """Append those records that are not there yet, and return their number.

        When it returns they are on the disk. Where it fails (OSError: a full disk), the file that was being
        written is as before, but those of earlier months may have their new rows; appending again does the
        rest.
        """
        by_month: dict[str, list[tuple[str, ...]]] = {}
        for record in records:
            by_month.setdefault(_month(record.time), []).append(_cells(record))
        if not by_month:
            return 0
        self.folder.mkdir(parents=True, exist_ok=True)
        added = 0
        with only_one(self.folder / LOCK, limit_s=_APPENDING_S, wait_s=math.inf):
            for month, rows in sorted(by_month.items()):
                # An identical row can only be of the same night.
                nights = {row[COLUMNS.index("run")] for row in rows}
                known = {_cells(record) for night in nights for record in self.records(run=night)}
                new = [row for row in dict.fromkeys(rows) if row not in known]
                if new:
                    append_lines(self._file_of(month), _csv(new), header=_csv([COLUMNS]))
                    added += len(new)
        return added

    def records(
        self, series: Series | None = None, run: str | None = None, days: tuple[str, str] | None = None
    ) -> Iterator[Record]:
        """Records in the order of the files; of one series, of one night, or all.

        days: only those measured from the first to the last of two dates (``2026-11-20``, ``2026-11``).
        """
        for path, header, cells in self._rows(series, run, days):
            yield record_of(path, header, cells)

    def cells(self, run: str, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Some columns of the rows of a night that hold, as they are in the files: a fifth of the time that
        records take."""
        for _, header, cells in self._rows(run=run):
            row = dict(zip(header, cells, strict=False))
            yield tuple(row.get(name) or DEFAULTS[name] for name in names)

    def _rows(
        self, series: Series | None = None, run: str | None = None, days: tuple[str, str] | None = None
    ) -> Iterator[tuple[Path, list[str], list[str]]]:
        """The rows of `records` that hold: file, its columns, and the row's cells."""
        begin, end = _period(*days) if days else (0, 0)
        for index in self._refreshed():
            rows = index.rows_of(series, run)
            if days:
                moments = index.column("time")[rows]
                rows = rows[(begin <= moments) & (moments < end)]
            if not len(rows):
                continue
            path = self.folder / index.name
            header = header_of(path)
            with open_regular(path, LARGEST_TABLE) as stream:
                for start in np.sort(index.column("start")[rows]).tolist():
                    stream.seek(start)
                    lines = (line.decode("utf-8", "replace") for line in stream)
                    yield path, header, next(csv.reader(lines))

    def points(self, since: str = "") -> HistoryColumns:
        """What judging needs of all rows, by series, night and time, of nights that began at `since` or
        later."""
        indexes = self._refreshed()
        begun: dict[str, int] = {}
        for index in indexes:
            for night in index.tables.summary:
                name = index.tables.nights[night.night]
                begun[name] = min(night.begun, begun.get(name, night.begun))
        least = microseconds(since) if since else -math.inf
        return HistoryColumns.of_files(indexes, (name for name, first in begun.items() if first >= least))

    def places(self) -> list[LastMeasured]:
        """Where each benchmark ran, and when last: for each group of hosts the last night with a usable
        record, and the last one with a record that must not be used."""
        last: dict[tuple[str, tuple[str, ...], bool], tuple[str, str]] = {}
        for index in self._refreshed():
            tables = index.tables
            benchmarks = sorted({series.benchmark for series in tables.series})
            number = np.array(
                [benchmarks.index(series.benchmark) for series in tables.series], dtype=np.int64
            )
            first = np.array([not condition.remeasured for condition in tables.conditions], dtype=bool)
            alike = number[index.column("series")]
            for name, table in (
                ("night", tables.nights),
                ("place", tables.places),
                ("condition", tables.conditions),
            ):
                alike = alike * max(len(table), 1) + index.column(name)
            chosen = np.flatnonzero(first[index.column("condition")])
            rows = chosen[np.unique(alike[chosen], return_index=True)[1]]
            columns = (
                index.column(name)[rows].tolist() for name in ("series", "night", "place", "condition")
            )
            for series, night, place, condition in zip(*columns, strict=True):
                status = tables.conditions[condition].status
                key = tables.series[series].benchmark, tables.places[place], status == OK
                if tables.places[place] and tables.nights[night] >= last.get(key, ("", ""))[0]:
                    last[key] = tables.nights[night], status
        return [LastMeasured(benchmark, hosts, *of_place) for (benchmark, hosts, _), of_place in last.items()]

    def nights(self) -> list[Night]:
        """All nights of all platforms in the folder, the oldest first."""
        nights: dict[tuple[str, str], Night] = {}
        for index in self._refreshed():
            for number, platform, *times, rows in index.tables.summary:
                run, (begun, ended) = index.tables.nights[number], map(time_text, times)
                night = nights.setdefault((run, platform), Night(run, platform, begun, ended, 0, index.name))
                nights[run, platform] = night._replace(
                    begun=min(begun, night.begun), ended=max(ended, night.ended), rows=night.rows + rows
                )
        return sorted(nights.values(), key=lambda night: (night.begun, night.run))

    @property
    def problems(self) -> list[str]:
        """Rows that cannot be true, each as ``file:line: reason``. All other rows are used."""
        return [
            f"{self.folder / index.name}:{line}: {reason}"
            for index in self._refreshed()
            for line, reason in index.tables.problems
        ]

    def files(self) -> list[Path]:
        """The files, the oldest month first; none where there is no such folder."""
        return sorted(path for path in self.folder.glob("*.csv") if _MONTH.fullmatch(path.name))

    def close(self) -> None:
        """Let go of the indexes."""
        self._indexes = {}

    def _file_of(self, month: str) -> Path:
        """The month's file that has this schema's header, or that may get it."""
        paths = (self.folder / f"{month}{f'.{n}' if n > 1 else ''}.csv" for n in count(1))
        return next(path for path in paths if header_of(path) in ([], list(COLUMNS)))

    def _refreshed(self) -> list[FileIndex]:
        """The indexes of all files as they are now, in the order of the files' names."""
        states = {path: file_state(path) for path in self.files()}
        self._remove_lost_indexes({index_path(path) for path in states})

        def make_anew(path: Path, why: str) -> FileIndex:
            self.notes.append(f"the index of {path.name} was damaged ({why}); it was made anew")
            return make_index(path, states[path])

        def load(path: Path) -> FileIndex | None:
            return load_index(path, partial(make_anew, path))

        def known(path: Path) -> FileIndex | None:
            index = self._indexes.get(path.name)
            if not index or index.tables.state != states[path]:
                index = load(path) or index
            return index

        indexes = {path: known(path) for path in states}
        changed = [path for path, index in indexes.items() if not index or index.tables.state != states[path]]
        workers = min(len(changed), len(os.sched_getaffinity(0)))
        if workers > 1 and sum(path.stat().st_size for path in changed) > _SHARED:
            self._say(f"reading {len(changed)} files of {self.folder.name}")
            with ProcessPoolExecutor(workers, get_context("fork")) as pool:
                made = pool.map(keep_index, changed, map(states.__getitem__, changed))
                indexes |= {path: index or load(path) for path, index in zip(changed, made, strict=True)}
        for number, path in enumerate(changed, 1):
            index = indexes[path]
            if not index or index.tables.state != states[path]:
                self._say(f"reading {self.folder.name}/{path.name}, {number} of {len(changed)}")
                indexes[path] = make_index(path, states[path], index)
        self._indexes = {path.name: index for path, index in indexes.items() if index}
        return list(self._indexes.values())

    def _remove_lost_indexes(self, needed: Collection[Path]) -> None:
        """Indexes of files that are gone, and what killed processes have left."""
        with contextlib.suppress(OSError):
            for path in (self.folder / INDEXES).glob("*.npz"):
                if path not in needed and time.time() - path.stat().st_mtime > _LEFT_S:
                    path.unlink()


@lru_cache(maxsize=2**12)
def _month(time: str) -> str:
    """The month, UTC, of a record's time."""
    return utc(time)[:7]


def _cells(record: Record) -> tuple[str, ...]:
    """A record as cells of one line, as they are read back."""
    return tuple(to_row(record).values())


def _csv(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _period(first: str, last: str) -> tuple[int, int]:
    """Microseconds since 1970 at which the first of two dates begins, and the last one ends."""
    begin, end = np.datetime64(first), np.datetime64(last) + 1
    return tuple(int(day.astype("datetime64[us]").astype(np.int64)) for day in (begin, end))  # type: ignore[return-value]
