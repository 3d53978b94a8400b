"""The record: one measurement, typed, in SI base units, with where it came from.

A parser yields `Reading`s: what the tool's text says, nothing more. A `Record` is a reading with its
provenance (when, where, which run, which raw file) and is one row of ``records.csv``.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from npc.files import replacing
from npc.records.status import OK as OK  # who has records wants this name, too
from npc.records.units import METRICS

if TYPE_CHECKING:
    from npc.records.reading import Reading

_as_json: Final = json.JSONEncoder(sort_keys=True).encode


class InvalidRecord(ValueError):
    """A row that breaks the record's contract; the message names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One row of ``records.csv``. Raises `InvalidRecord` for a row that cannot be true.

    time: ISO 8601 with offset (UTC). benchmark: the folder's name. case: the tool's test. value: in
    `unit`, which follows from `metric`. size: bytes. hosts: in the order of their roles (server first).
    status: ``ok``, or the reason why `value` must not be used (``failed: …``, ``invalid: …``,
    ``timeout: …``, ``unavailable: …``). raw: the tool's own output, relative to the run's folder.
    """

    time: str
    platform: str
    benchmark: str
    case: str
    metric: str
    value: float | None
    unit: str
    size: int | None = None
    nodes: int = 1
    hosts: tuple[str, ...] = ()
    job: str = ""
    run: str = ""
    sample: int = 0
    status: str = OK
    tool_version: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    raw: str = ""

    def __post_init__(self) -> None:
        _check_metric(self.metric, self.unit)
        _check_numbers(self.value, self.status, self.size, self.nodes, self.sample)
        _check_hosts(tuple(self.hosts))
        _check_time(self.time)

    @classmethod
    def of(cls, reading: Reading, **provenance: Any) -> Record:
        """The record of `reading` with its provenance; `params` of both are merged, the reading's win."""
        params = {**provenance.pop("params", {}), **reading.params}
        tool_version = provenance.pop("tool_version", "")
        return cls(
            case=reading.case,
            metric=reading.metric,
            value=reading.value,
            unit=METRICS[reading.metric].unit if reading.metric in METRICS else "",
            size=reading.size,
            status=reading.status,
            params=params,
            tool_version=reading.tool_version or tool_version,
            **provenance,
        )

    @property
    def ok(self) -> bool:
        """Whether the value may be used."""
        return self.status == OK

    @property
    def series(self) -> tuple[str, str, str, str, int | None, int, str]:
        """What repeats of one measurement share: everything but time, sample and value."""
        return (
            self.platform,
            self.benchmark,
            self.case,
            self.metric,
            self.size,
            self.nodes,
            _as_json(dict(self.params)),
        )


@lru_cache  # these three: a file has few different ones
def _check_metric(name: str, unit: str) -> None:
    metric = METRICS.get(name)
    if metric is None:
        raise InvalidRecord(f"metric: {name!r} is none of {', '.join(METRICS)}")
    if unit != metric.unit:
        raise InvalidRecord(f"unit: {name} is in {metric.unit}, not {unit!r}")


@lru_cache
def _check_hosts(hosts: tuple[str, ...]) -> None:
    if not all(hosts) or ";" in "".join(hosts):
        raise InvalidRecord(f"hosts: {hosts} are no host names")


@lru_cache
def _check_time(text: str) -> None:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise InvalidRecord(f"time: {text!r} is not ISO 8601") from None
    if moment.tzinfo is None:
        raise InvalidRecord(f"time: {text!r} has no UTC offset")


def _check_numbers(value: float | None, status: str, size: int | None, nodes: int, sample: int) -> None:
    if not status:
        raise InvalidRecord("status: empty")
    if value is None:
        if status == OK:
            raise InvalidRecord("value: missing although the status is ok")
    elif not 0 <= value < math.inf:
        raise InvalidRecord(f"value: {value} is no measurement")
    if size is not None and size < 0:
        raise InvalidRecord(f"size: {size} bytes")
    if nodes < 1 or sample < 0:
        raise InvalidRecord(f"nodes {nodes}, sample {sample}: out of range")


COLUMNS: Final = (
    "time", "platform", "benchmark", "case", "metric", "value", "unit", "size", "nodes", "hosts", "job",
    "run", "sample", "status", "tool_version", "params", "raw",
)  # fmt: skip


def to_row(record: Record) -> dict[str, str]:
    """The record as CSV cells; None is the empty cell, floats round-trip exactly."""
    return dict(zip(COLUMNS, to_cells(record), strict=True))


def to_cells(record: Record) -> list[str]:
    """The same in the order of `COLUMNS`."""
    return [
        record.time,
        record.platform,
        record.benchmark,
        record.case,
        record.metric,
        "" if record.value is None else repr(float(record.value)),
        record.unit,
        "" if record.size is None else str(record.size),
        str(record.nodes),
        ";".join(record.hosts),
        str(record.job),  # whoever makes a record by hand writes numbers here
        str(record.run),
        str(record.sample),
        record.status,
        record.tool_version,
        _as_json(dict(record.params)) if record.params else "",
        record.raw,
    ]


def from_row(row: Mapping[str, str]) -> Record:
    """The record of CSV cells. Raises `InvalidRecord`, naming the field, if they make none."""
    try:
        cells = [row[name] for name in COLUMNS]
    except KeyError as error:
        raise InvalidRecord(f"column {error.args[0]} is missing") from None
    return from_cells(cells)


#: What sets each field of a record, in the order of `COLUMNS`.
_SETTERS: Final = tuple([vars(Record)[name].__set__ for name in COLUMNS])


def from_cells(cells: Sequence[str]) -> Record:
    """The same of as many cells as there are `COLUMNS`, in their order."""
    (
        time, platform, benchmark, case, metric, value, unit, size, nodes, hosts, job,
        run, sample, status, tool_version, params, raw,
    ) = cells  # fmt: skip
    try:
        _check_metric(metric, unit)
        number, bytes_, nodes_, sample_ = _number(value), _size(size), int(nodes), int(sample)
        _check_numbers(number, status, bytes_, nodes_, sample_)
        hosts_ = _hosts(hosts)
        _check_time(time)
        contents = (
            time, platform, benchmark, case, metric, number, unit, bytes_, nodes_, hosts_, job,
            run, sample_, status, tool_version, _params(params), raw,
        )  # fmt: skip
    except InvalidRecord:
        raise
    except ValueError:
        _blame_cell(dict(zip(COLUMNS, cells, strict=True)))
        raise
    # All is checked. `Record()` takes twice as long: a frozen class looks each of its fields up to set it.
    record = object.__new__(Record)
    for set_field, content in zip(_SETTERS, contents):  # noqa: B905 - as many
        set_field(record, content)
    return record


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def _size(cell: str) -> int | None:
    return int(cell) if cell else None


@lru_cache
def _hosts(cell: str) -> tuple[str, ...]:
    hosts = tuple(cell.split(";")) if cell else ()
    _check_hosts(hosts)
    return hosts


@lru_cache(maxsize=4096)  # a file has few different ones
def _params(cell: str) -> Mapping[str, str]:
    params = json.loads(cell) if cell else {}
    if not isinstance(params, dict):
        raise ValueError("not a JSON object")
    return {str(key): str(value) for key, value in params.items()}


#: The cells that are no text.
_CONVERTERS: Final[Mapping[str, Callable[[str], object]]] = {
    "value": _number, "size": _size, "nodes": int, "sample": int, "params": _params,
}  # fmt: skip


def _blame_cell(row: Mapping[str, str]) -> None:
    """Raise `InvalidRecord` for the first cell that cannot be read."""
    for column, convert in _CONVERTERS.items():
        try:
            convert(row[column])
        except ValueError as error:
            raise InvalidRecord(f"{column}: {row[column]!r}: {error}") from None


def write_csv(records: Iterable[Record], stream: IO[str], header: bool = True) -> None:
    """Write records as RFC 4180 CSV (``\\n`` line ends) with the columns of `COLUMNS`.

    A NUL, which no reader before Python 3.11 takes, is written as its symbol U+2400.
    """
    plain = csv.writer(stream, lineterminator="\n")
    # The csv module does not quote a lone carriage return (a tool's progress bar in a status), and
    # then takes it for the end of the row.
    quoted = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)
    if header:
        plain.writerow(COLUMNS)
    for record in records:
        cells = [cell.replace("\0", "\u2400") for cell in to_cells(record)]
        (quoted if any("\r" in cell for cell in cells) else plain).writerow(cells)


def save_csv(records: Iterable[Record], path: Path) -> None:
    """Write a whole file or nothing: a crash half-way leaves the old file as it was."""
    with (
        replacing(path) as partial,
        # What is no text (a lone surrogate from a file name) is written as its escape.
        partial.open("w", newline="", encoding="utf-8", errors="backslashreplace") as stream,
    ):
        write_csv(records, stream)
        stream.flush()
        os.fsync(stream.fileno())


def read_csv(path: Path) -> Iterator[Record]:
    """Records of a file, in order. Raises `InvalidRecord` with file and line at the first bad row."""
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.reader(stream)
        try:
            header = next(reader, [])
            if not header:
                raise InvalidRecord("no header: the file is empty, or no file of records")
            current = header == list(COLUMNS)
            for cells in reader:
                if current and len(cells) == len(COLUMNS):
                    yield from_cells(cells)
                elif cells:
                    yield from_row(dict(zip_longest(header, cells[: len(header)], fillvalue="")))
        except (InvalidRecord, csv.Error, UnicodeDecodeError) as error:
            raise InvalidRecord(f"{path}:{reader.line_num}: {error}") from None


def replace(record: Record, **changes: Any) -> Record:
    """A copy with some fields changed, checked again."""
    return dataclasses.replace(record, **changes)
