"""The index of one file of a history: what judging needs of its rows, by column, and where each row begins.

Reading a million rows as records takes half a minute, loading their index less than a tenth of a second.

An index lies in a file of its own, ``.index/2026-11.csv.npz``, numpy's format for arrays. It is written whole
or not at all, so processes need no lock: the last one wins, and all write the same. One that is damaged, of
another version, or of another state of its file is made anew, whenever that is noticed; deleting it costs
nothing but time. Where a file has only grown, the rows behind its last one are read.
"""

from __future__ import annotations

import weakref
import zipfile
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from npc.files import LARGEST_TABLE, InvalidFile, open_regular
from npc.records.record import moment
from npc.records.series import Series
from npc.statistics.arrays import Integers

#: The folder of the indexes, in that of the history.
INDEXES: Final = ".index"
#: Version of the index: raised when its columns change, or what identifies a series.
VERSION: Final = 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND: Final = timedelta(microseconds=1)
#: The columns, and what their numbers are in the file: rows of the tables, microseconds, values, bytes.
TYPES: Final = {
    "series": "i4", "night": "i4", "place": "i4", "condition": "i4", "time": "i8", "value": "f8",
    "start": "i8",
}  # fmt: skip
TABLES: Final = "tables"
#: What may be wrong with a file that is no index.
_DAMAGED: Final = (
    OSError, ValueError, KeyError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile,
    msgspec.MsgspecError,
)  # fmt: skip


class InvalidHistory(InvalidFile):
    """A file in a history's folder that does not belong there; the message names it and what to do."""


class DamagedIndex(InvalidHistory):
    """An index whose columns cannot be read, and that could not be made anew."""


class RowCondition(NamedTuple):
    """Whether and how the value of a row counts."""

    #: ``ok``, or why the value must not be used.
    status: str
    #: Whether it belongs to the night's second measurement.
    remeasured: bool
    #: Share of the CPUs (of 1) that others took during the launch; 0 where none is known.
    disturbed: float


class Problem(NamedTuple):
    """A row that cannot be true."""

    #: Its first line, from 1.
    line: int
    #: Why.
    reason: str


class NightOfFile(NamedTuple):
    """The rows of one night and platform in a file."""

    #: Number of the night in `Tables.nights`.
    night: int
    #: Name of the platform that was measured.
    platform: str
    #: Time of its first row, microseconds since 1970.
    begun: int
    #: Time of its last row, microseconds since 1970.
    ended: int
    #: How many rows it has.
    rows: int


class Tables(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What the numbers in an index's columns stand for, and what it is an index of."""

    #: `VERSION` of who wrote it.
    version: int
    #: Size and time of the file when it was read.
    state: str
    #: By number, a series.
    series: list[Series]
    #: By number, the name of a night.
    nights: list[str]
    #: By number, a group of hosts in the order of their roles.
    places: list[tuple[str, ...]]
    #: By number, whether and how a row counts.
    conditions: list[RowCondition]
    #: Nights by platform.
    summary: list[NightOfFile]
    #: Rows that are left out.
    problems: list[Problem]
    #: Byte and line where the last row begins: where reading goes on when the file has grown.
    last: tuple[int, int]
    #: Checksum of the file's bytes before `last`.
    digest: str


class FileIndex:
    """The index of one file. Its columns are loaded when they are asked for.

    make_anew: makes the same index of the file itself where the columns are damaged, and is given the reason;
    without it `column` raises `DamagedIndex`.
    """

    def __init__(
        self,
        name: str,
        tables: Tables,
        columns: Mapping[str, NDArray[Any]],
        make_anew: Callable[[str], FileIndex] | None = None,
    ) -> None:
        #: Name of the file: ``2026-11.csv``.
        self.name = name
        self.tables = tables
        self._columns = columns
        self._make_anew = make_anew
        self._loaded: dict[str, NDArray[Any]] = {}

    def column(self, name: str) -> NDArray[Any]:
        """One of ``series``, ``night``, ``place``, ``condition`` (numbers in the tables), ``time``
        (microseconds since 1970), ``value`` (NaN for none) and ``start`` (the row's first byte), by row."""
        if name not in self._loaded:
            try:
                self._loaded[name] = self._columns[name]
            except _DAMAGED as error:
                self._columns, self._loaded = self._columns_anew(str(error) or type(error).__name__), {}
                self._loaded[name] = self._columns[name]
        return self._loaded[name]

    def _columns_anew(self, why: str) -> Mapping[str, NDArray[Any]]:
        anew = self._make_anew(why) if self._make_anew else None
        if anew is None or anew.tables != self.tables:
            raise DamagedIndex(
                f"the index of {self.name} was damaged ({why}), and the file changes: try again"
            )
        return anew._columns

    def forget(self) -> None:
        """Let go of the columns that were loaded; they are loaded again when asked for."""
        self._loaded.clear()

    def rows_of(self, series: Series | None = None, night: str | None = None) -> Integers:
        """Numbers of the rows of a series, of a night, of both, or of all."""
        tables: tuple[tuple[str, list[Any], object], ...] = (
            ("series", self.tables.series, series), ("night", self.tables.nights, night)
        )  # fmt: skip
        if any(wanted is not None and wanted not in table for _, table, wanted in tables):
            return np.zeros(0, dtype=np.intp)
        chosen = np.arange(sum(night.rows for night in self.tables.summary), dtype=np.intp)
        for name, table, wanted in tables:
            if wanted is not None:
                chosen = chosen[self.column(name)[chosen] == table.index(wanted)]
        return chosen


def file_state(path: Path) -> str:
    """What an index belongs to: size and time of a file. Raises OSError."""
    state = path.stat()
    return f"{state.st_size} {state.st_mtime_ns}"


def load_index(path: Path, make_anew: Callable[[str], FileIndex] | None = None) -> FileIndex | None:
    """The index of a history's file as it lies on the disk, of whatever state of that file; None where there
    is none that can be used. make_anew: as `FileIndex` has it."""
    stream = None
    try:
        # Held open: another process may put a newer index in its place before the columns are loaded.
        stream = open_regular(index_path(path), LARGEST_TABLE)
        columns = NpzFile(stream, allow_pickle=False)
        tables = msgspec.json.decode(columns[TABLES].tobytes(), type=Tables)
        if tables.version != VERSION:
            raise ValueError(tables.version)
    except _DAMAGED:
        if stream:
            stream.close()
        return None
    index = FileIndex(path.name, tables, columns, make_anew)
    weakref.finalize(index, stream.close)
    return index


def index_path(path: Path) -> Path:
    """Where the index of a history's file lies."""
    return path.parent / INDEXES / f"{path.name}.npz"


def microseconds(time: str) -> int:
    """A record's time, in microseconds since 1970. Raises ValueError for what is none, or has no offset."""
    given = moment(time)
    if given.tzinfo is None:
        raise ValueError(f"{time!r} has no UTC offset")
    return (given - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=2**12)
def time_text(time: int) -> str:
    """The time of so many microseconds since 1970: ISO 8601, UTC. These texts sort as times do."""
    moment = _EPOCH + time * _MICROSECOND
    return moment.isoformat(timespec="auto" if time % 1000 else "milliseconds" if time % 10**6 else "seconds")
