"""Reads a file of a history: its rows as records, or all of it as an index.

The file is read by Python's `csv`, as records are. What makes a record true is asked of each cell, and of a
few together (``metric`` and ``unit``, ``value`` and ``status``). So a row whose cells were all seen in rows
that hold is not made a record again, which takes a tenth of the time. All others are, so that an index says
nothing that records do not.
"""

from __future__ import annotations

import csv
import hashlib
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, repeat
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from npc.files import LARGEST_TABLE, open_regular, replacing
from npc.records.history_index import (
    TABLES,
    TYPES,
    VERSION,
    DamagedIndex,
    FileIndex,
    InvalidHistory,
    NightOfFile,
    Problem,
    RowCondition,
    Tables,
    index_path,
    load_index,
    microseconds,
)
from npc.records.reading import is_plain
from npc.records.record import (
    COLUMNS,
    OK,
    InvalidRecord,
    Record,
    checked_hosts,
    from_row,
    read_hosts,
    read_params,
)
from npc.records.series import REMEASURED, Series, share_of
from npc.records.units import METRICS

T = TypeVar("T")
#: What an empty cell means, or a column that a file does not have; ``unit`` follows from the metric.
DEFAULTS: Final[Mapping[str, str]] = {**dict.fromkeys(COLUMNS, ""), "nodes": "1", "sample": "0", "status": OK}

_NEEDED: Final = ("time", "metric", "value")
#: Cells that tell, but for ``params``, what series a row is of, and all but ``value`` of what makes it true.
_SHAPE: Final = ("platform", "benchmark", "case", "metric", "unit", "size", "nodes", "sample", "status")
#: Bytes of lines that are read at a time.
_BLOCK: Final = 2**20


def make_index(path: Path, state: str, before: FileIndex | None = None) -> FileIndex:
    """The index of a file by reading it; it is kept on the disk where that can be written.

    state: of the file before it is read. before: an index of an earlier state: where the file has only grown
    since, its rows are not read again. Raises `InvalidHistory` and OSError.
    """
    try:
        index = _read(path, state, before)
    except DamagedIndex:
        index = _read(path, state, None)
    stored = index_path(path)
    try:
        stored.parent.mkdir(exist_ok=True)
        with replacing(stored) as partial, partial.open("xb") as stream:
            tables = np.frombuffer(msgspec.json.encode(index.tables), dtype=np.uint8)
            arrays: dict[str, Any] = {TABLES: tables, **{name: index.column(name) for name in TYPES}}
            np.savez(stream, **arrays)
    except OSError:
        pass  # a history that only others may write, or no room: the index stays in memory
    return index


def keep_index(path: Path, state: str) -> FileIndex | None:
    """`make_index` for another process than that which needs it: None where it was kept on the disk."""
    index, stored = make_index(path, state, load_index(path)), load_index(path)
    return None if stored and stored.tables.state == state else index


def header_of(path: Path) -> list[str]:
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


def record_of(path: Path, header: Sequence[str], cells: Sequence[str]) -> Record:
    """The record of a row, whatever columns the file has. Raises `npc.records.record.InvalidRecord`."""
    if any(cells[len(header) :]):
        raise InvalidRecord(f"{len(cells)} cells, but {len(header)} columns")
    row = {**DEFAULTS, **{name: cell for name, cell in zip(header, cells, strict=False) if cell}}
    if not row["unit"] and row["metric"] in METRICS:
        row["unit"] = METRICS[row["metric"]].unit
    row["platform"] = row["platform"] or path.parent.name
    row["run"] = row["run"] or row["time"][:10]
    return from_row(row)


def _read(path: Path, state: str, before: FileIndex | None) -> FileIndex:
    builder = _Builder(path)
    with open_regular(path, LARGEST_TABLE) as stream:
        digest = hashlib.blake2b(digest_size=16)
        start, line = before.tables.last if before else (0, 1)
        if before and _digest_on(stream, digest, start) and digest.hexdigest() == before.tables.digest:
            builder.begin_with(before)
        else:  # read for the first time, or rewritten, or cut
            start, line, digest = 0, 1, hashlib.blake2b(digest_size=16)
        stream.seek(start)
        rows = np.fromiter(builder.rows(stream, start, line), dtype=list(TYPES.items()))
        stream.seek(start)
        _digest_on(stream, digest, builder.last[0] - start)
    return builder.index(rows, state, digest.hexdigest())


def _digest_on(stream: IO[bytes], digest: hashlib.blake2b, size: int) -> bool:
    """Add the next bytes of a stream to a checksum; whether there are as many."""
    while size > 0:
        block = stream.read(min(size, 2**22))
        if not block:
            return False
        digest.update(block)
        size -= len(block)
    return True


class _Shape(NamedTuple):
    """Cells of `_SHAPE` that a row had which holds."""

    #: The record of that row.
    record: Record
    #: Cell of ``params`` → the numbers of its series and its condition.
    by_params: dict[str, tuple[int, int]]


class _Builder:
    """Makes an index of a file, row by row."""

    def __init__(self, path: Path) -> None:
        self._path, self._header = path, header_of(path)
        #: Byte and line where the last row begins.
        self.last = 0, 1
        self._before: FileIndex | None = None
        self._problems: list[Problem] = []
        self._series: dict[Series, int] = {}
        self._nights: dict[str, int] = {}
        self._places: dict[tuple[str, ...], int] = {}
        self._conditions: dict[RowCondition, int] = {}
        # Cells of rows that hold → what they stand for; a row without a night is of its day.
        self._shapes: dict[tuple[str, ...], _Shape] = {}
        self._run_cells: dict[str, int] = {}
        self._days: dict[str, int] = {}
        self._hosts_cells: dict[str, int] = {}

    def begin_with(self, before: FileIndex) -> None:
        """Take over what an earlier index has of the rows before its last one."""
        self._before, tables = before, before.tables
        self._series = {series: number for number, series in enumerate(tables.series)}
        self._nights = {night: number for number, night in enumerate(tables.nights)}
        self._places = {place: number for number, place in enumerate(tables.places)}
        self._conditions = {condition: number for number, condition in enumerate(tables.conditions)}
        self._problems = [problem for problem in tables.problems if problem.line < tables.last[1]]

    def rows(self, stream: IO[bytes], start: int, line: int) -> Iterator[tuple[int | float, ...]]:
        """The numbers of each row that holds, as `TYPES` has them, of a stream that stands at byte `start`,
        where line `line` begins: the header if that is the first.

        What follows the last line end is half a row.
        """
        begins = array("q")  # by line, its first byte
        end = start

        def whole_lines() -> Iterator[Iterator[str]]:
            nonlocal end
            while lines := stream.readlines(_BLOCK):
                if not lines[-1].endswith(b"\n"):
                    lines.pop()
                if not lines:
                    return
                begins.extend(accumulate(map(len, lines[:-1]), initial=end))
                end += sum(map(len, lines))
                yield map(bytes.decode, lines, repeat("utf-8"), repeat("replace"))

        reader = csv.reader(chain.from_iterable(whole_lines()))
        known = self._known_rows()
        if not start:
            next(reader, None)
        while True:
            number = reader.line_num
            try:
                cells = next(reader, None)
                if cells is None:
                    return
                if cells:
                    self.last = begins[number], line + number
                    yield known(cells, begins[number]) or self._row_of_record(cells, begins[number])
            except (ValueError, csv.Error) as error:
                self.last = begins[number], line + number
                self._problems.append(Problem(line + number, str(error)))

    def _known_rows(self) -> Callable[[list[str], int], tuple[int | float, ...] | None]:
        """What gives the numbers of a row that certainly holds, by its cells and its first byte.

        It gives None for a row of which that is not known.
        """
        width = len(self._header)
        if len({*self._header}) < width:
            return lambda *_: None
        # A column that the file does not have is the empty cell behind the others.
        at = {name: self._header.index(name) if name in self._header else width for name in COLUMNS}
        value_at, time_at, run_at, hosts_at, params_at = (
            at[name] for name in ("value", "time", "run", "hosts", "params")
        )
        shape_cells = itemgetter(*(at[name] for name in _SHAPE))
        shapes, run_cells, days, hosts_cells = self._shapes, self._run_cells, self._days, self._hosts_cells
        last_time, time = "", 0

        def numbers(cells: list[str], start: int) -> tuple[int | float, ...] | None:
            nonlocal last_time, time
            if len(cells) != width:
                return None
            cells.append("")
            shape, run, text, moment = (
                shapes.get(shape_cells(cells)),
                cells[run_at],
                cells[value_at],
                cells[time_at],
            )
            night = run_cells.get(run) if run else days.get(moment[:10])
            if shape is None or night is None:
                return None
            try:
                value = float(text) if text else math.nan
                if not 0 <= value < math.inf and (text or shape.record.status == OK):
                    return None
                if moment != last_time:
                    last_time, time = moment, microseconds(moment)
                params, hosts = cells[params_at], cells[hosts_at]
                series, condition = shape.by_params.get(params) or self._by_params(shape, params)
                place = hosts_cells.get(hosts)
                if place is None:
                    place = self._place(hosts)
            except ValueError:
                return None
            return series, night, place, condition, time, value, start

        return numbers

    def _row_of_record(self, cells: list[str], start: int) -> tuple[int | float, ...]:
        """The numbers of a row that begins at byte `start`, as its record has them.

        Raises ValueError for one that cannot be true.
        """
        record = record_of(self._path, self._header, cells)
        series = _number(self._series, Series.of(record))
        condition = RowCondition(record.status, REMEASURED in record.params, share_of(record.params))
        numbers = series, _number(self._conditions, condition)
        night = _number(self._nights, record.run)
        if len(cells) == len(self._header) + 1:
            row = dict(zip(self._header, cells, strict=False))
            shape_cells = tuple(row.get(name, "") for name in _SHAPE)
            shape = self._shapes.setdefault(shape_cells, _Shape(record, {}))
            shape.by_params[row.get("params", "")] = numbers
            if run := row.get("run"):
                self._run_cells[run] = night
            else:
                self._days[row["time"][:10]] = night
        value = math.nan if record.value is None else record.value
        place = _number(self._places, record.hosts)
        return numbers[0], night, place, numbers[1], microseconds(record.time), value, start

    def _by_params(self, shape: _Shape, cell: str) -> tuple[int, int]:
        """The numbers of series and condition of a row of this shape.

        Raises ValueError for params that cannot be, or are stored otherwise.
        """
        params = read_params(cell)
        if not all(map(is_plain, (*params, *params.values()))):
            raise ValueError(cell)
        like = shape.record
        series = Series.of_fields(
            like.platform, like.benchmark, like.case, like.metric, like.size, like.nodes, params
        )
        condition = RowCondition(like.status, REMEASURED in params, share_of(params))
        numbers = _number(self._series, series), _number(self._conditions, condition)
        shape.by_params[cell] = numbers
        return numbers

    def _place(self, cell: str) -> int:
        """The number of a group of hosts. Raises ValueError for what are none."""
        number = _number(self._places, checked_hosts(read_hosts(cell)))
        self._hosts_cells[cell] = number
        return number

    def index(self, rows: NDArray[Any], state: str, digest: str) -> FileIndex:
        """The index with these rows. state: of the file; digest: of its bytes before `last`."""
        columns: dict[str, NDArray[Any]] = {name: rows[name].copy() for name in TYPES}
        if self._before is not None:
            earlier = self._before.column("start") < self._before.tables.last[0]
            columns = {
                name: np.concatenate([self._before.column(name)[earlier], column])
                for name, column in columns.items()
            }
        tables = Tables(
            version=VERSION,
            state=state,
            series=list(self._series),
            nights=list(self._nights),
            places=list(self._places),
            conditions=list(self._conditions),
            summary=_summary(columns, list(self._series)),
            problems=self._problems,
            last=self.last,
            digest=digest,
        )
        return FileIndex(self._path.name, tables, columns)


def _number(numbers: dict[T, int], entry: T) -> int:
    """The number of an entry, a new one if need be."""
    return numbers.setdefault(entry, len(numbers))


def _summary(columns: Mapping[str, NDArray[Any]], series: Sequence[Series]) -> list[NightOfFile]:
    platforms: dict[str, int] = {}
    of_series = np.array([_number(platforms, key.platform) for key in series], dtype=np.intp)
    names = list(platforms)
    code = columns["night"].astype(np.intp) * max(len(names), 1) + of_series[columns["series"]]
    codes, member = np.unique(code, return_inverse=True)
    begun, ended = np.full((2, len(codes)), [[np.iinfo(np.int64).max], [np.iinfo(np.int64).min]])
    np.minimum.at(begun, member, columns["time"])
    np.maximum.at(ended, member, columns["time"])
    count = np.bincount(member, minlength=len(codes))
    return [
        NightOfFile(number // len(names), names[number % len(names)], first, last, rows)
        for number, first, last, rows in zip(
            codes.tolist(), begun.tolist(), ended.tolist(), count.tolist(), strict=True
        )
    ]
