"""The history of a platform: monthly CSV files of records, append-only, and a cache that makes them fast.

``history/PLATFORM/2026-11.csv`` holds the records measured in November 2026, UTC, one line each: a header and
rows as in ``records.csv``. Anything reads them; nothing is ever changed but the end of a file. A night is one
value of the column ``run`` (`night_name`); records of the nights' re-measurements carry the parameter
`REMEASURED`. Crashes and full disks leave whole rows only: what stands behind the last line end of a file is
half a row of a writer that was killed, readers pass over it, and the next append cuts it off.

Identical rows are appended once, so a night that was cut can simply be appended again, and two histories
merge. A file of another schema (an older version's) is read with the defaults of
`npc.records.history_files`, and left as it is; rows of its month then go into ``2026-11.2.csv``.

The cache ``.cache.sqlite`` knows where each row is, by series and by night. It is checked against size, time
and check sum of the files, read on where a file has grown, and made anew whenever it does not fit or cannot
be read; deleting it costs nothing but time.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import math
import os
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from npc.files import append_whole
from npc.locks import only_one
from npc.records.history_files import REMEASURED, completed, months
from npc.records.record import COLUMNS, OK, InvalidRecord, Record, from_cells, from_row, replace, to_cells
from npc.records.units import METRICS

CACHE: Final = ".cache.sqlite"
LOCK: Final = ".lock"
#: How long the lock may be held (s): where the holder was on another host and that died, it is free then.
_APPENDING_S: Final = 600.0

_NEEDED: Final = ("time", "metric", "value")

#: Characters that would make a row more than one line, and NUL; written as their symbols.
_ONE_LINE: Final = str.maketrans({"\n": "\u240a", "\r": "\u240d", "\0": "\u2400"})
_MORE_LINES: Final = re.compile("[\n\r\0]")
_SCHEMA: Final = 1
_BLOCK: Final = 1 << 20


class InvalidHistory(ValueError):
    """A file in a history's folder that is none of its files; the message names it and the mend."""


class SeriesKey(NamedTuple):
    """What the values of one series share. params: the remaining parameters as sorted JSON."""

    platform: str
    benchmark: str
    case: str
    metric: str
    size: int | None
    nodes: int
    params: str

    @classmethod
    def of(cls, record: Record) -> SeriesKey:
        """The series that a record belongs to, first measured or re-measured."""
        params = {name: value for name, value in record.params.items() if name != REMEASURED}
        return cls(*record.series[:-1], json.dumps(params, sort_keys=True))


class Point(NamedTuple):
    """One row of the history, as far as judging needs it.

    run: the night. value: in the metric's unit, None where nothing was measured. remeasured: whether it
    belongs to the night's second measurement.
    """

    key: SeriesKey
    run: str
    time: str
    value: float | None
    status: str
    hosts: tuple[str, ...]
    remeasured: bool


class Night(NamedTuple):
    """A night: its name (``run``), its platform, the time of its first and of its last record."""

    run: str
    platform: str
    begun: str
    ended: str
    rows: int


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
    """The records of one folder, ``history/PLATFORM``. Raises OSError as the file system does.

    Several processes may use it at once: who appends holds a lock.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: Rows that cannot be true, each as ``file:byte: reason``; filled by reading, never hides the others.
        self.problems: list[str] = []
        self._cache: sqlite3.Connection | None = None

    def append(self, records: Iterable[Record]) -> int:
        """Append those records that are not in yet, and return how many they were.

        On return they are on the disk. Where that fails (OSError: a full disk), no row of the file being
        written is added, files of earlier months may have theirs; appending again does the rest.
        """
        by_month: dict[str, list[list[str]]] = {}
        for record in records:
            by_month.setdefault(_month(record.time), []).append(_cells(record))
        if not by_month:
            return 0
        self.folder.mkdir(parents=True, exist_ok=True)
        added = 0
        with self._locked():
            self._refresh()
            for month, rows in sorted(by_month.items()):
                new = self._without_known(rows)
                if new:
                    _append_rows(self._file_of(month), new)
                    added += len(new)
        return added

    def merge(self, other: History) -> int:
        """Append all that another history has and this one has not; how many rows that were."""
        return self.append(other.records())

    def records(self, key: SeriesKey | None = None, run: str | None = None) -> Iterator[Record]:
        """Records in the order of the files; of one series, of one night, or all."""
        cache = self._refreshed()
        where, values = _selection(cache, key, run)
        found = cache.execute(
            f"SELECT name, start, length FROM entry JOIN file ON file.id = file {where} ORDER BY name, start",
            values,
        ).fetchall()
        yield from self._read_rows(found)

    def points(self, since: str = "") -> Iterator[Point]:
        """What judging needs of all rows, by series and night, of nights that began at `since` or later."""
        cache = self._refreshed()
        keys = {number: SeriesKey(*cells) for number, *cells in cache.execute("SELECT * FROM series")}
        texts = dict(cache.execute("SELECT id, text FROM text"))
        hosts = {number: tuple(text.split(";")) if text else () for number, text in texts.items()}
        nights = {night.run for night in self.nights() if night.begun >= since}
        query = (
            "SELECT series, night, time, value, status, hosts, again FROM entry ORDER BY series, night, time"
        )
        for series, night, time, value, status, where, again in cache.execute(query):
            run = texts[night]
            if run in nights:
                yield Point(keys[series], run, time, value, texts[status], hosts[where], bool(again))

    def keys(self) -> list[SeriesKey]:
        """All series, sorted."""
        found = self._refreshed().execute(
            "SELECT platform, benchmark, case_, metric, size, nodes, params FROM series"
            " WHERE EXISTS (SELECT 1 FROM entry WHERE series = series.id)"
        )
        return sorted(map(SeriesKey._make, found), key=lambda key: (*key[:4], key.size or -1, *key[5:]))

    def nights(self) -> list[Night]:
        """All nights of all platforms in the folder, the oldest first."""
        found = self._refreshed().execute(
            "SELECT text, platform, MIN(time), MAX(time), COUNT(*) FROM entry JOIN text ON text.id = night"
            " JOIN series ON series.id = series GROUP BY night, platform"
        )
        return sorted(map(Night._make, found), key=lambda night: (night.begun, night.run))

    def files(self) -> list[Path]:
        """The files, the oldest month first."""
        return months(self.folder)

    def close(self) -> None:
        """Let go of the cache."""
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    def _file_of(self, month: str) -> Path:
        """The month's file that has this schema's header, or that may get it."""
        number = 1
        while True:
            path = self.folder / (f"{month}.csv" if number == 1 else f"{month}.{number}.csv")
            header = _header(path)
            if not header or header == list(COLUMNS):
                return path
            number += 1

    def _read_rows(self, places: Sequence[tuple[str, int, int]]) -> Iterator[Record]:
        for name, of_file in groupby(places, itemgetter(0)):
            path = self.folder / name
            header = _header(path)
            current = header == list(COLUMNS)
            with path.open("rb") as stream:
                number = stream.fileno()
                for _, start, length in of_file:
                    text = os.pread(number, length, start).decode("utf-8", "replace")
                    try:
                        cells = next(csv.reader((text,)))
                        yield (
                            from_cells(cells)
                            if current and len(cells) == len(COLUMNS)
                            else from_row(completed(header, cells))
                        )
                    except (InvalidRecord, csv.Error, StopIteration) as error:
                        self.problems.append(f"{path}:{start}: {error}")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with only_one(self.folder / LOCK, limit_s=_APPENDING_S, wait_s=math.inf):
            yield

    # The cache

    def _refreshed(self) -> sqlite3.Connection:
        """The cache, with everything in it that the files have."""
        with contextlib.ExitStack() as held:
            # Somebody else's history, or no room for anything: it is read without leaving anything behind.
            with contextlib.suppress(OSError):
                held.enter_context(self._locked())
            return self._refresh()

    def _refresh(self) -> sqlite3.Connection:
        try:
            if self._cache is None:
                self._cache = _open_cache(self.folder / CACHE)
            self._read_on(self._cache)
        except sqlite3.Error:
            # Damaged, of an older version, or no room for it: made anew, in memory if need be.
            self.close()
            with contextlib.suppress(OSError):
                (self.folder / CACHE).unlink()
            try:
                self._cache = _open_cache(self.folder / CACHE)
                self._read_on(self._cache)
            except sqlite3.Error:
                self.close()
                self._cache = _open_cache(None)
                self._read_on(self._cache)
        return self._cache

    def _read_on(self, cache: sqlite3.Connection) -> None:
        """Index what has been added since the last time; all of a file that was changed otherwise."""
        known = {row[1]: row for row in cache.execute("SELECT id, name, size, mtime, sum FROM file")}
        with cache:
            for path in self.files():
                status = path.stat()
                number, _, size, mtime, total = known.pop(path.name, (None, "", 0, -1, 0))
                if (size, mtime) == (status.st_size, status.st_mtime_ns):
                    continue
                if size and (status.st_size < size or _sum_of(path, size) != total):
                    cache.execute("DELETE FROM entry WHERE file = ?", (number,))
                    size, total = 0, 0
                if number is None:
                    number = cache.execute("INSERT INTO file (name) VALUES (?)", (path.name,)).lastrowid
                size, total = self._index(cache, path, int(number or 0), size, total)
                cache.execute(
                    "UPDATE file SET size = ?, mtime = ?, sum = ? WHERE id = ?",
                    # With half a row behind it the file is looked at again the next time.
                    (size, status.st_mtime_ns if size == status.st_size else -1, total, number),
                )
            for number, *_ in known.values():  # files that are gone
                cache.execute("DELETE FROM entry WHERE file = ?", (number,))
                cache.execute("DELETE FROM file WHERE id = ?", (number,))

    def _index(
        self, cache: sqlite3.Connection, path: Path, number: int, start: int, total: int
    ) -> tuple[int, int]:
        """Index a file's rows from byte `start`; the end of the last whole one, and the check sum so far."""
        header = _header(path)
        if not header:
            return 0, 0
        if missing := [name for name in _NEEDED if name not in header]:
            raise InvalidHistory(
                f"{path}: no column {', '.join(missing)}: it is no history of records; move it elsewhere"
            )
        texts, series = _Numbers(cache, "text", 1), _Numbers(cache, "series", len(SeriesKey._fields))
        current = header == list(COLUMNS)
        rows = []
        lines = _WholeLines(path, start, total)
        reader = csv.reader(lines)
        begin = start
        while True:
            try:
                cells = next(reader, None)
                if cells is None:
                    break
                if begin and cells:
                    if not current or len(cells) != len(COLUMNS):
                        cells = _cells(from_row(completed(header, cells)))
                    rows.append(_row_of_cache(cells, number, begin, lines.end - begin, texts, series))
            except (ValueError, csv.Error) as error:
                self.problems.append(f"{path}:{begin}: {error}")
            begin = lines.end
        cache.executemany("INSERT INTO entry VALUES (?,?,?,?,?,?,?,?,?,?,?)", rows)
        return lines.end, lines.sum

    def _without_known(self, rows: Sequence[list[str]]) -> list[list[str]]:
        """Those rows that the history does not have, each once."""
        assert self._cache is not None
        new = {_digest(cells): cells for cells in rows}
        for run in {cells[_PLACE["run"]] for cells in rows}:
            # A row that is the same is of the same night.
            query = "SELECT digest FROM entry WHERE night = (SELECT id FROM text WHERE text = ?)"
            for (digest,) in self._cache.execute(query, (run,)):
                new.pop(digest, None)
        return list(new.values())


@lru_cache(maxsize=2**12)
def _month(time: str) -> str:
    """The month, UTC, of a record's time."""
    moment = datetime.fromisoformat(time.replace("Z", "+00:00")).astimezone(timezone.utc)
    return f"{moment:%Y-%m}"


def _cells(record: Record) -> list[str]:
    """A record as cells of one line."""
    cells = to_cells(record)
    if _MORE_LINES.search("".join(cells)):
        cells = [cell.translate(_ONE_LINE) for cell in cells]
    return cells


def _digest(cells: Sequence[str]) -> bytes:
    joined = "\x1f".join(cells).encode("utf-8", "backslashreplace")
    return hashlib.blake2b(joined, digest_size=16).digest()


def _append_rows(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Append whole rows, or none on an OSError; half a row of an earlier writer is cut off."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    created = not path.exists()
    with path.open("ab+") as stream:
        whole = _last_line_end(stream, stream.seek(0, os.SEEK_END))
        if whole == 0:
            writer.writerow(COLUMNS)
        writer.writerows(rows)
        append_whole(stream, whole, text.getvalue().encode("utf-8", "backslashreplace"))
    if created:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a new file's name last, too."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _last_line_end(stream: BinaryIO, size: int) -> int:
    """The place behind the last line end of a file; 0 if there is none."""
    end = size
    while end:
        begin = max(end - _BLOCK, 0)
        stream.seek(begin)
        found = stream.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _header(path: Path) -> list[str]:
    """The columns of a file; none if it does not exist or has not one whole line."""
    try:
        with path.open("rb") as stream:
            line = stream.readline()
    except FileNotFoundError:
        return []
    if not line.endswith(b"\n"):
        return []
    return next(csv.reader([line.decode("utf-8-sig", "replace")]), [])


class _WholeLines:
    """The whole lines of a file from byte `start` on; knows how far it has got, and the check sum."""

    def __init__(self, path: Path, start: int, total: int) -> None:
        self.end = start
        self.sum = total
        self._stream = path.open("rb")
        self._stream.seek(start)

    def __iter__(self) -> Iterator[str]:
        with self._stream:
            for line in self._stream:
                if not line.endswith(b"\n"):
                    return
                self.end += len(line)
                self.sum = zlib.crc32(line, self.sum)
                yield line.decode("utf-8", "replace")


def _sum_of(path: Path, size: int) -> int:
    """Check sum of the first `size` bytes."""
    total = 0
    with path.open("rb") as stream:
        while size:
            block = stream.read(min(size, _BLOCK))
            if not block:
                break
            total = zlib.crc32(block, total)
            size -= len(block)
    return total


_TABLES: Final = """
CREATE TABLE IF NOT EXISTS file (id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INTEGER DEFAULT 0,
    mtime INTEGER DEFAULT -1, sum INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS text (id INTEGER PRIMARY KEY, text TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, platform TEXT, benchmark TEXT, case_ TEXT,
    metric TEXT, size INTEGER, nodes INTEGER, params TEXT);
CREATE TABLE IF NOT EXISTS entry (digest BLOB, file INTEGER, start INTEGER, length INTEGER, series INTEGER,
    night INTEGER, time TEXT, value REAL, status INTEGER, hosts INTEGER, again INTEGER);
CREATE INDEX IF NOT EXISTS entry_series ON entry (series, night);
CREATE INDEX IF NOT EXISTS entry_night ON entry (night, series, time);
"""


def _open_cache(path: Path | None) -> sqlite3.Connection:
    """A cache in a file, or in memory. Raises sqlite3.Error for one that cannot be used."""
    cache = sqlite3.connect(path or ":memory:", timeout=30)
    try:
        version = cache.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _SCHEMA):
            raise sqlite3.DatabaseError("of another version")
        cache.execute("PRAGMA synchronous = NORMAL")
        if version == 0:
            cache.executescript(_TABLES)
            cache.execute(f"PRAGMA user_version = {_SCHEMA}")
            cache.commit()
    except sqlite3.Error:
        cache.close()
        raise
    return cache


class _Numbers:
    """Numbers of the texts, or of the series, of a cache; new ones get one."""

    def __init__(self, cache: sqlite3.Connection, table: str, width: int) -> None:
        self._cache = cache
        self._insert = f"INSERT INTO {table} VALUES (NULL{', ?' * width})"
        self._known: dict[tuple[Any, ...], int] = {
            tuple(cells): number for number, *cells in cache.execute(f"SELECT * FROM {table}")
        }

    def __getitem__(self, cells: tuple[Any, ...]) -> int:
        number = self._known.get(cells)
        if number is None:
            number = self._known[cells] = int(self._cache.execute(self._insert, cells).lastrowid or 0)
        return number


_PLACE: Final = {name: place for place, name in enumerate(COLUMNS)}


def _row_of_cache(
    cells: Sequence[str], file: int, start: int, length: int, texts: _Numbers, series: _Numbers
) -> tuple[Any, ...]:
    """A row for the cache. Raises ValueError for one that cannot be used."""
    (
        time, platform, benchmark, case, metric, value, _, size, nodes, hosts, _, run, _, status, _, params, _
    ) = cells  # fmt: skip
    if metric not in METRICS:
        raise ValueError(f"metric: {metric!r} is none")
    number = float(value) if value else None
    if number is None and status == OK:
        raise ValueError("value: missing although the status is ok")
    if number is not None and not (math.isfinite(number) and number >= 0):
        raise ValueError(f"value: {value} is no measurement")
    known, again = _params_of_series(params)
    key = (platform, benchmark, case, metric, int(size) if size else None, int(nodes), known)
    return (
        _digest(cells), file, start, length, series[key], texts[(run,)], time, number,
        texts[(status,)], texts[(hosts,)], again,
    )  # fmt: skip


@lru_cache(maxsize=2**16)
def _params_of_series(cell: str) -> tuple[str, bool]:
    """The parameters that belong to the series, and whether it was measured again."""
    params = json.loads(cell) if cell else {}
    if not isinstance(params, dict):
        raise ValueError(f"params: {cell!r} is no JSON object")
    again = params.pop(REMEASURED, None) is not None
    return json.dumps({str(name): str(value) for name, value in params.items()}, sort_keys=True), again


def _selection(
    cache: sqlite3.Connection, key: SeriesKey | None, run: str | None
) -> tuple[str, tuple[Any, ...]]:
    """The WHERE clause for one series, one night, or both; what the cache does not know selects nothing."""
    parts: list[str] = []
    values: list[Any] = []
    if key is not None:
        parts.append(
            "series = (SELECT id FROM series WHERE platform = ? AND benchmark = ? AND case_ = ?"
            " AND metric = ? AND size IS ? AND nodes = ? AND params = ?)"
        )
        values += key
    if run is not None:
        parts.append("night = (SELECT id FROM text WHERE text = ?)")
        values.append(run)
    return (f"WHERE {' AND '.join(parts)}" if parts else "", tuple(values))
