"""The record: one measurement, typed, in SI base units, with where it came from.

A parser yields `Reading`s: what the tool's text says, nothing more. A `Record` is a reading with its
provenance (when, where, which run, which raw file) and is one row of ``records.csv``.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as replace  # changed records are checked again
from datetime import datetime, timezone
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, Final

from npc.files import LARGEST_TABLE, InvalidFile, open_regular, parse_json, write_whole
from npc.records.reading import OK as OK  # whoever reads records imports it from here
from npc.records.reading import Reading, is_plain, plain
from npc.records.units import METRICS

#: Fields with texts of tools or files. `plain` cleans them for terminals and for readers of CSV.
_TEXTS: Final = ("platform", "benchmark", "case", "job", "run", "status", "tool_version", "raw")
#: A time in UTC, to any fraction of a second.
_UTC: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")


class InvalidRecord(InvalidFile):
    """A row that breaks the record's contract; the message names the field."""


@lru_cache(maxsize=4096)  # all rows of a launch have the same one
def moment(time: str) -> datetime:
    """The moment of a time in ISO 8601, in UTC if it has an offset. Raises ValueError for what is none."""
    try:
        given = datetime.fromisoformat(time.replace("Z", "+00:00"))  # Python 3.10 knows no Z
    except ValueError:
        raise ValueError(f"{time!r} is not ISO 8601") from None
    try:
        return given if given.tzinfo is None else given.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError(f"{time!r} lies beyond the calendar") from None


@lru_cache(maxsize=4096)
def utc(time: str) -> str:
    """A time as text in UTC: such texts sort as their moments do.

    Raises ValueError for what is no time in ISO 8601, or has no offset.
    """
    given = moment(time)
    if given.tzinfo is None:
        raise ValueError(f"{time!r} has no UTC offset")
    text = time.replace("Z", "+00:00")
    return text if _UTC.fullmatch(text) else given.isoformat()


def checked_hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    """A record's hosts as they are stored. Raises `InvalidRecord` for what are no names."""
    if not all(map(is_plain, hosts)):
        hosts = tuple(map(plain, hosts))
    if not all(hosts) or ";" in "".join(hosts):
        raise InvalidRecord(f"hosts: {hosts} are no host names")
    return hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One row of ``records.csv``. Raises `InvalidRecord` for a row that cannot be true.

    Texts are stored as `npc.records.reading.plain` makes them.
    """

    #: When it was measured, ISO 8601 in UTC, whatever offset it is given with (`utc`).
    time: str
    #: Name of the platform that it was measured on.
    platform: str
    #: Name of the benchmark's folder.
    benchmark: str
    #: What the tool measured, in its own words: ``tcp_bw``, ``triad``.
    case: str
    #: A key of `npc.records.units.METRICS`.
    metric: str
    #: In `unit`; None only where `status` is not ``ok`` and nothing was measured.
    value: float | None
    #: SI base unit, which follows from `metric`.
    unit: str
    #: Bytes of the message or the working set; None where the test has none.
    size: int | None = None
    #: How many nodes it was measured on.
    nodes: int = 1
    #: The nodes' hosts in the order of their roles, the server first; empty if not known.
    hosts: tuple[str, ...] = ()
    #: The batch system's name for the job; empty outside of one.
    job: str = ""
    #: Name of the folder of the run; in a history, name of the night.
    run: str = ""
    #: Which launch of the case it was, from 0.
    sample: int = 0
    #: `OK`, or why the value must not be used; it begins with ``failed``, ``invalid``, ``timeout`` or
    #: ``unavailable``.
    status: str = OK
    #: As the tool tells it; empty if it does not.
    tool_version: str = ""
    #: Settings, qualifiers and circumstances (`npc.records.series.role`) by their names.
    params: Mapping[str, str] = field(default_factory=dict)
    #: Path of the tool's own output, relative to the run's folder; empty where there is none.
    raw: str = ""

    def __post_init__(self) -> None:
        for name in _TEXTS:
            if not is_plain(text := getattr(self, name)):
                object.__setattr__(self, name, plain(text))
        object.__setattr__(self, "hosts", checked_hosts(self.hosts))
        if not all(map(is_plain, self.params.values())) or not all(map(is_plain, self.params)):
            cleaned = {plain(name): plain(text) for name, text in self.params.items()}
            object.__setattr__(self, "params", cleaned)
        metric = METRICS.get(self.metric)
        if metric is None:
            raise InvalidRecord(f"metric: {self.metric!r} is none that records have (docs/files.md)")
        if self.unit != metric.unit:
            raise InvalidRecord(f"unit: {self.metric} is in {metric.unit}, not {self.unit!r}")
        if not self.status:
            raise InvalidRecord("status: empty")
        if self.value is None and self.status == OK:
            raise InvalidRecord("value: missing although the status is ok")
        if self.value is not None and not 0 <= self.value < math.inf:
            raise InvalidRecord(f"value: {self.value} is no measurement")
        if self.size is not None and not 0 <= self.size < _MOST:
            raise InvalidRecord(f"size: {self.size} bytes")
        if not 1 <= self.nodes < _MOST or not 0 <= self.sample < _MOST:
            raise InvalidRecord(f"nodes {self.nodes}, sample {self.sample}: out of range")
        try:
            object.__setattr__(self, "time", utc(self.time))
        except ValueError as error:
            raise InvalidRecord(f"time: {error}") from None

    @classmethod
    def of(cls, reading: Reading, **provenance: Any) -> Record:
        """The record of `reading` with its provenance; `params` of both are merged, the reading's win."""
        fields = {**provenance, **vars(reading)}
        fields["params"] = {**provenance.get("params", {}), **reading.params}
        fields["tool_version"] = reading.tool_version or provenance.get("tool_version", "")
        unit = METRICS[reading.metric].unit if reading.metric in METRICS else ""
        return cls(unit=unit, **fields)

    @property
    def ok(self) -> bool:
        """Whether the value may be used."""
        return self.status == OK


#: Whole numbers must be below this: the history's cache stores 63 bits.
_MOST: Final = 2**63
#: Params that must be numbers, because whoever reads them takes them as such, and how they are read.
_NUMBERS: Final[Mapping[str, Callable[[str], float]]] = {
    **dict.fromkeys(
        ("ranks", "waiting", "communicator", "processes", "writers", "largest_size", "line"), int
    ),
    **dict.fromkeys(
        ("disturbed", "received", "highest_clock", "huge_pages", "steal", "period", "share"), float
    ),
}

COLUMNS: Final = tuple(field.name for field in dataclasses.fields(Record))


def to_row(record: Record) -> dict[str, str]:
    """The record as CSV cells in the order of `COLUMNS`; None is empty, floats round-trip exactly."""
    row = {name: str(getattr(record, name)) for name in COLUMNS}
    row["value"] = "" if record.value is None else repr(float(record.value))
    row["size"] = "" if record.size is None else str(record.size)
    row["hosts"] = ";".join(record.hosts)
    row["params"] = json.dumps(dict(record.params), sort_keys=True) if record.params else ""
    return row


def from_row(row: Mapping[str, str]) -> Record:
    """The record of CSV cells. Raises `InvalidRecord`, naming the field, if they make none."""
    try:
        fields: dict[str, Any] = {name: row[name] for name in COLUMNS}
    except KeyError as error:
        raise InvalidRecord(f"column {error.args[0]} is missing") from None
    for name, (read, expected) in _READ.items():
        try:
            fields[name] = read(row[name])
        except InvalidRecord:
            raise
        except ValueError:
            raise InvalidRecord(f"column {name}: {row[name]!r} is not {expected}") from None
    return Record(**fields)


def read_hosts(cell: str) -> tuple[str, ...]:
    """The hosts of a CSV cell."""
    return tuple(cell.split(";")) if cell else ()


@lru_cache(maxsize=4096)  # a file has few different ones
def read_params(cell: str) -> Mapping[str, str]:
    """The params of a CSV cell. Raises ValueError."""
    params = parse_json(cell) if cell else {}
    if not isinstance(params, dict):
        raise ValueError("not a JSON object")
    texts = {str(key): str(value) for key, value in params.items()}
    for name in _NUMBERS.keys() & texts.keys():
        if name == "communicator" and "layer" not in texts:
            continue  # of threads in ``patterns``: shared, or one each
        try:
            if not 0 <= _NUMBERS[name](texts[name]) < _MOST:
                raise ValueError
        except ValueError:
            raise InvalidRecord(f"column params: {name}: {texts[name]!r} is no such number") from None
    return texts


#: How the cells that are no text are read, and what has to be in them.
_READ: Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    "value": (lambda cell: float(cell) if cell else None, "a number like 1.5e9, or empty"),
    "size": (lambda cell: int(cell) if cell else None, "a whole number of bytes, or empty"),
    "nodes": (int, "a whole number"),
    "hosts": (read_hosts, "host names with ; between"),
    "sample": (int, "a whole number"),
    "params": (read_params, 'a JSON object like {"mpi": "openmpi"}, or empty'),
}


def write_csv(records: Iterable[Record], stream: IO[str], header: bool = True) -> None:
    """Write records as RFC 4180 CSV (``\\n`` line ends) with the columns of `COLUMNS`, a line each."""
    writer = csv.writer(stream, lineterminator="\n")
    if header:
        writer.writerow(COLUMNS)
    writer.writerows(to_row(record).values() for record in records)


def save_csv(records: Iterable[Record], path: Path) -> None:
    """Write a whole file or nothing: a crash half-way leaves the old file as it was."""
    text = io.StringIO(newline="")
    write_csv(records, text)
    write_whole(path, text.getvalue())


#: Records can always be made again, as the raw outputs lie beside them.
_MEND: Final = "a damaged file: npc records collect RUN makes the records of a run again"


def read_csv(path: Path) -> Iterator[Record]:
    """Records of a file, in order. Raises `InvalidRecord` with file and line at the first bad row."""
    with io.TextIOWrapper(open_regular(path, LARGEST_TABLE), "utf-8", newline="") as stream:
        reader = csv.reader(stream)
        try:
            header = next(reader, [])
            if not header:
                raise InvalidRecord("no header: the file is empty, or no file of records")
            for cells in reader:
                if cells:
                    yield from_row(dict(zip_longest(header, cells[: len(header)], fillvalue="")))
        except (InvalidRecord, csv.Error, UnicodeDecodeError) as error:
            problem = "no text in UTF-8" if isinstance(error, UnicodeDecodeError) else error
            line = f":{reader.line_num}" if reader.line_num else ""
            raise InvalidRecord(f"{path}{line}: {problem} ({_MEND})") from None
