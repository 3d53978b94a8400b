"""The history of a platform: monthly CSV files of records, append-only, and a cache that makes them fast.

``history/PLATFORM/2026-11.csv`` holds the records measured in November 2026, UTC, one line each: a header and
rows as in ``records.csv``. Any tool can read them; only the end of a file is ever changed. A night is one
value of the column ``run`` (`night_name`); records of a night's second measurement have the param
`REMEASURED`. A crash or a full disk leaves whole rows: what follows the last line end of a file is half a row
of a writer that was killed. Readers skip it, and the next append cuts it off.

A row that is there already is not appended again: so a night that was cut can be appended once more, and two
histories can be merged. A file with other columns (an older version's, another tool's) is read with the
defaults of `DEFAULTS`, and left as it is; new rows of its month go into ``2026-11.2.csv``. A row without
``run`` is of the night of its day (of ``time``), one without ``platform`` of the folder's platform.

The cache ``.cache.sqlite`` has the place of each row, and what judging needs of it. A file whose size or time
has changed is indexed again. A cache that cannot be read is made anew, and one that cannot be written is kept
in memory; deleting it costs nothing but time.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from npc.files import LARGEST_TABLE, InvalidFile, append_lines, open_regular
from npc.locks import only_one
from npc.records.record import COLUMNS, OK, InvalidRecord, Record, from_row, replace, to_row, utc
from npc.records.series import REMEASURED, Series, share_taken
from npc.records.units import METRICS

CACHE: Final = ".cache.sqlite"
LOCK: Final = ".lock"
#: What an empty cell means, or a column that a file does not have; ``unit`` follows from the metric.
DEFAULTS: Final[Mapping[str, str]] = {**dict.fromkeys(COLUMNS, ""), "nodes": "1", "sample": "0", "status": OK}

_NEEDED: Final = ("time", "metric", "value")
_MONTH: Final = re.compile(r"\d{4}-\d{2}(\..+)?\.csv")
#: Version of the cache: raised when its tables change, or what identifies a series.
_SCHEMA: Final = 6
#: Seconds after which the lock of an append is free: its holder may have died on another host.
_APPENDING_S: Final = 600.0
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS file (name TEXT PRIMARY KEY, state TEXT);
CREATE TABLE IF NOT EXISTS problem (file TEXT, line INTEGER, reason TEXT);
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, platform TEXT, benchmark TEXT, case_ TEXT,
    metric TEXT, size INTEGER, nodes INTEGER, params TEXT);
CREATE TABLE IF NOT EXISTS entry (series INTEGER, night TEXT, time TEXT, file TEXT, start INTEGER, value REAL,
    status TEXT, hosts TEXT, again INTEGER, disturbed REAL, PRIMARY KEY (series, night, time, file, start)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entry_night ON entry (night);
"""


class InvalidHistory(InvalidFile):
    """A file in a history's folder that does not belong there; the message names it and what to do."""


class HistoryRow(NamedTuple):
    """One row of the history, as far as judging needs it."""

    #: The series that the record belongs to.
    key: Series
    #: Name of the night.
    run: str
    #: When it was measured, ISO 8601 with offset.
    time: str
    #: In the metric's SI unit; None where nothing was measured.
    value: float | None
    #: ``ok``, or why the value must not be used.
    status: str
    #: Where it was measured, in the order of their roles; empty if not known.
    hosts: tuple[str, ...]
    #: Whether it belongs to the night's second measurement.
    remeasured: bool
    #: Share of the CPUs (of 1) that others took during the launch; 0 where none is known.
    disturbed: float = 0.0


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
        self._cache: sqlite3.Connection | None = None

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
        cache = self._refreshed()
        conditions, values = ["TRUE"], list[str | int]()
        if series is not None:
            conditions.append("series = ?")
            values.append(_numbers(cache).get(series, -1))
        if run is not None:
            conditions.append("night = ?")
            values.append(run)
        if days is not None:
            conditions.append("substr(time, 1, ?) >= ? AND substr(time, 1, ?) <= ?")
            values += [word for day in days for word in (len(day), day)]
        places = cache.execute(
            f"SELECT file, start FROM entry WHERE {' AND '.join(conditions)} ORDER BY file, start", values
        ).fetchall()
        for name, of_file in groupby(places, itemgetter(0)):
            path = self.folder / name
            header = _header(path)
            with open_regular(path, LARGEST_TABLE) as stream:
                for _, start in of_file:
                    stream.seek(start)
                    lines = (line.decode("utf-8", "replace") for line in stream)
                    yield _record(path, header, next(csv.reader(lines)))

    def points(self, since: str = "") -> Iterator[HistoryRow]:
        """What judging needs of all rows, by series and night, of nights that began at `since` or later."""
        since = utc(since) if since else ""
        cache = self._refreshed()
        series = {number: key for key, number in _numbers(cache).items()}
        hosts: dict[str, tuple[str, ...]] = {"": ()}
        rows = cache.execute(
            "SELECT series, night, time, value, status, hosts, again, disturbed FROM entry WHERE ? = ''"
            " OR night IN (SELECT night FROM entry GROUP BY night HAVING MIN(time) >= ?)"
            " ORDER BY series, night, time",
            (since, since),
        )
        for number, night, time, value, status, where, again, disturbed in rows:
            if where not in hosts:
                hosts[where] = tuple(where.split(";"))
            yield HistoryRow(series[number], night, time, value, status, hosts[where], bool(again), disturbed)

    def places(self) -> list[LastMeasured]:
        """Where each benchmark ran, and when last: for each group of hosts the last night with a usable
        record, and the last one with a record that must not be used."""
        rows = self._refreshed().execute(
            "SELECT benchmark, hosts, MAX(night), status FROM entry JOIN series ON series.id = series"
            " WHERE again = 0 AND hosts != '' GROUP BY benchmark, hosts, status = 'ok'"
        )  # SQLite takes the status from the row with the largest night (lang_select, "bare columns")
        return [
            LastMeasured(name, tuple(hosts.split(";")), night, status) for name, hosts, night, status in rows
        ]

    def nights(self) -> list[Night]:
        """All nights of all platforms in the folder, the oldest first."""
        rows = self._refreshed().execute(
            "SELECT night, platform, MIN(time), MAX(time), COUNT(*), MIN(file) FROM entry"
            " JOIN series ON series.id = series GROUP BY night, platform"
        )
        return sorted(map(Night._make, rows), key=lambda night: (night.begun, night.run))

    @property
    def problems(self) -> list[str]:
        """Rows that cannot be true, each as ``file:line: reason``. All other rows are used."""
        rows = self._refreshed().execute("SELECT file, line, reason FROM problem ORDER BY file, line")
        return [f"{self.folder / name}:{line}: {reason}" for name, line, reason in rows]

    def files(self) -> list[Path]:
        """The files, the oldest month first; none where there is no such folder."""
        return sorted(path for path in self.folder.glob("*.csv") if _MONTH.fullmatch(path.name))

    def close(self) -> None:
        """Let go of the cache."""
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    def _file_of(self, month: str) -> Path:
        """The month's file that has this schema's header, or that may get it."""
        paths = (self.folder / f"{month}{f'.{n}' if n > 1 else ''}.csv" for n in count(1))
        return next(path for path in paths if _header(path) in ([], list(COLUMNS)))

    # The cache

    def _refreshed(self) -> sqlite3.Connection:
        """The cache, which then has all that is in the files."""
        path = self.folder / CACHE
        for place in (path, path, None):
            try:
                if self._cache is None:
                    self._cache = _open_cache(place)
                self._read_on(self._cache)
                break
            except sqlite3.Error:
                # Damaged, of another version, or no room for it: made anew, in memory if need be.
                self.close()
                with contextlib.suppress(OSError):
                    path.unlink()
        assert self._cache is not None
        return self._cache

    def _read_on(self, cache: sqlite3.Connection) -> None:
        """Index the files that have changed since the last time."""
        if not self._changed(cache):
            return
        with cache:
            cache.execute("BEGIN IMMEDIATE")
            changed = self._changed(cache)  # another process may have read them meanwhile
            for number, (name, state) in enumerate(changed.items(), 1):
                for table, column in (("entry", "file"), ("problem", "file"), ("file", "name")):
                    cache.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))
                if state:
                    self._say(f"reading {self.folder.name}/{name}, {number} of {len(changed)}")
                    self._index(cache, self.folder / name)
                    cache.execute("INSERT INTO file VALUES (?, ?)", (name, state))

    def _changed(self, cache: sqlite3.Connection) -> dict[str, str]:
        """Files that have changed since they were indexed, with their states now; the state of a file that is
        gone is empty."""
        known = dict(cache.execute("SELECT name, state FROM file"))
        states = {path.name: path.stat() for path in self.files()}
        now = {name: f"{state.st_size} {state.st_mtime_ns}" for name, state in states.items()}
        return {
            name: now.get(name, "") for name in sorted({*known, *now}) if known.get(name) != now.get(name)
        }

    def _index(self, cache: sqlite3.Connection, path: Path) -> None:
        numbers = _numbers(cache)
        #: Fields of a record that tell its series → that series' number.
        known: dict[tuple[object, ...], int] = {}
        entries, problems = [], []
        for start, line, record in _rows(path):
            if isinstance(record, str):
                problems.append((path.name, line, record))
                continue
            tells = (
                record.platform, record.benchmark, record.case, record.metric, record.size, record.nodes,
                tuple(record.params.items()),
            )  # fmt: skip
            if tells not in known:
                series = Series.of(record)
                if series not in numbers:
                    added = cache.execute("INSERT INTO series VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", series)
                    numbers[series] = int(added.lastrowid or 0)
                known[tells] = numbers[series]
            entries.append(
                (
                    known[tells], record.run, record.time, path.name, start, record.value, record.status,
                    ";".join(record.hosts), REMEASURED in record.params, share_taken(record),
                )
            )  # fmt: skip
        entries.sort(key=itemgetter(0, 1, 2, 3, 4))  # as the table is: several times faster
        cache.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", entries)
        cache.executemany("INSERT INTO problem VALUES (?, ?, ?)", problems)


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


def _header(path: Path) -> list[str]:
    """The columns of a file; none if it does not exist, or has no whole line.

    Raises `InvalidHistory` where one of those that every row needs is missing.
    """
    try:
        with open_regular(path, LARGEST_TABLE) as stream:
            line = stream.readline()
    except FileNotFoundError:
        return []
    if not line.endswith(b"\n"):
        return []
    try:
        header = next(csv.reader([line.decode("utf-8-sig", "replace")]), [])
    except csv.Error as error:
        raise InvalidHistory(f"{path}: {error}") from None
    if missing := [name for name in _NEEDED if name not in header]:
        raise InvalidHistory(
            f"{path}: no column {', '.join(missing)}: it is no history of records; move it elsewhere"
        )
    return header


def _rows(path: Path) -> Iterator[tuple[int, int, Record | str]]:
    """Each whole row of a file with the byte and the line where it begins: its record, or why it is none."""
    header, end = _header(path), 0

    def whole_lines() -> Iterator[str]:
        nonlocal end
        with open_regular(path, LARGEST_TABLE) as stream:
            for line in stream:
                if line.endswith(b"\n"):
                    end += len(line)
                    yield line.decode("utf-8", "replace")

    reader = csv.reader(whole_lines())
    next(reader, None)
    while True:
        start, line = end, reader.line_num + 1
        try:
            cells = next(reader, None)
            if cells is None:
                return
            if cells:
                yield start, line, _record(path, header, cells)
        except (ValueError, csv.Error) as error:
            yield start, line, str(error)


def _record(path: Path, header: Sequence[str], cells: Sequence[str]) -> Record:
    """The record of a row, whatever columns the file has. Raises `npc.records.record.InvalidRecord`."""
    if any(cells[len(header) :]):
        raise InvalidRecord(f"{len(cells)} cells, but {len(header)} columns")
    row = {**DEFAULTS, **{name: cell for name, cell in zip(header, cells, strict=False) if cell}}
    if not row["unit"] and row["metric"] in METRICS:
        row["unit"] = METRICS[row["metric"]].unit
    row["platform"] = row["platform"] or path.parent.name
    row["run"] = row["run"] or row["time"][:10]
    return from_row(row)


def _open_cache(path: Path | None) -> sqlite3.Connection:
    """A cache in a file, or in memory. Raises sqlite3.Error for one that cannot be used."""
    cache = sqlite3.connect(path or ":memory:", timeout=30)
    try:
        version = cache.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _SCHEMA):
            raise sqlite3.DatabaseError("of another version")
        cache.execute("PRAGMA synchronous = NORMAL")
        if version == 0:
            cache.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_SCHEMA}; COMMIT;")
    except sqlite3.Error:
        cache.close()
        raise
    return cache


def _numbers(cache: sqlite3.Connection) -> dict[Series, int]:
    """The series of a cache with their numbers."""
    return {Series(*cells): number for number, *cells in cache.execute("SELECT * FROM series")}
