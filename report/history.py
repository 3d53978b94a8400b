"""A history night by night, read in one pass: monthly CSV files of records become medians of nights.

``history/PLATFORM/2026-11.csv`` holds rows as in ``records.csv``; ``run`` is the night. A million rows are
read as plain cells and never become records: only nights, and how nodes compare, are kept.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from npc.records.history_files import REMEASURED, completed, months, raw_folders
from npc.records.record import COLUMNS, OK
from npc.records.units import METRICS, format_size

#: Of a row in the order of `COLUMNS` what tells its series, then hosts, run and status: everything but time,
#: value, sample and what nobody looks at.
_ALIKE: Final = itemgetter(1, 2, 3, 4, 7, 8, 15, 9, 11, 13)
_SERIES: Final = 7
_RUN: Final = 8
_PARAMS: Final = COLUMNS.index("params")
_RAW: Final = COLUMNS.index("raw")
_FLOAT: Final = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
VERDICT: Final = "verdict.json"
#: Below the folder of a platform: the verdicts of every night.
VERDICTS: Final = "verdicts"
#: Of so many nights, the last ones, verdicts and names of raw files are read.
_LAST_NIGHTS: Final = 60
#: The version of ``verdict.json`` that is understood (docs/files.md).
_SCHEMA: Final = 1


class NoHistory(ValueError):
    """There is no history where one was asked for; the message says what would make it."""


class Key(NamedTuple):
    """What the values of one series share; cells as in the files. params: sorted JSON, or empty."""

    platform: str
    benchmark: str
    case: str
    metric: str
    size: str
    nodes: str
    params: str


class Rows(NamedTuple):
    """Rows of a series and a night that share hosts and status, in the order of the file.

    again: whether the night measured them a second time. values: NaN where there is none. raw: the raw file
    of each, relative to the folder of the night's raw runs; empty where that is gone, or the night long ago.
    """

    hosts: str
    status: str
    again: bool
    values: Sequence[float]
    raw: Sequence[str]


class Night(NamedTuple):
    """A series in one night. time: seconds since 1970; median, low and high of `n` usable samples, NaN of
    none.

    status: the first that is not ``ok``. file: the CSV file that holds its rows. verdict: what that night
    said of the series, where it is known and not PASS. rows: what was measured.
    """

    run: str
    time: float
    median: float
    low: float
    high: float
    n: int
    status: str
    file: str
    verdict: str
    rows: Sequence[Rows]


class RawFiles:
    """Where the raw files of nights are: `npc nightly` prunes those of good nights after a while."""

    def __init__(self) -> None:
        self._folders: dict[Path, Mapping[str, Path]] = {}
        self._there: dict[Path, frozenset[str]] = {}
        self._names: dict[Path, frozenset[str]] = {}

    def add(self, history: Path) -> frozenset[str]:
        """Read a history's journal, once; those of the last nights whose raw runs are there."""
        if history not in self._folders:
            folders = self._folders[history] = raw_folders(history)
            self._there[history] = frozenset(night for night in folders if folders[night].is_dir())
        last = list(self._folders[history])[-_LAST_NIGHTS:]
        return self._there[history].intersection(last)

    def folder(self, night: Night) -> Path | None:
        """The folder of the night's raw runs; None if it is not there."""
        history = Path(night.file).parent
        return self._folders[history][night.run] if night.run in self._there[history] else None

    def why_none(self, night: Night) -> str:
        """Why a folder is not there."""
        known = night.run in self._folders[Path(night.file).parent]
        return "raw runs pruned" if known else "where: not known"

    def path(self, night: Night, raw: str) -> Path | None:
        """A raw file of the night, None if it is not there."""
        folder = self.folder(night)
        path = folder / raw if folder and raw else None
        return path if path and path.name in self._listed(path.parent) else None

    def _listed(self, folder: Path) -> frozenset[str]:
        """What is in a folder; a file system that is far away is asked once, and not for each file."""
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(path.name for path in folder.iterdir())
            except OSError:
                self._names[folder] = frozenset()
        return self._names[folder]


@dataclass(frozen=True, slots=True)
class HistorySeries:
    """A series over its nights, the oldest first. judged: its entry in ``verdict.json``, if there is one.

    ident: the id of its row in the page, with which those of its nights begin.
    """

    ident: str
    key: Key
    nights: tuple[Night, ...]
    judged: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """The metric's."""
        return METRICS[self.key.metric].unit

    @property
    def name(self) -> str:
        """In words: benchmark, case, size, parameters."""
        key = self.key
        words = [key.case if key.case.startswith(key.benchmark) else f"{key.benchmark} {key.case}"]
        if key.size:
            words.append(format_size(int(key.size)))
        if key.nodes != "1":
            words.append(f"{key.nodes} nodes")
        words += [f"{name} {text}" for name, text in sorted(_params(key.params).items())]
        return ", ".join(words)

    @property
    def measured(self) -> list[Night]:
        """The nights that have a value."""
        return [night for night in self.nights if night.n]

    @property
    def last(self) -> int:
        """The place among `nights` of the last one with a value; of the last one where none has."""
        places = range(len(self.nights) - 1, -1, -1)
        return next((place for place in places if self.nights[place].n), places[0])

    def anchor(self, place: int) -> str:
        """The id in the page of the row of the night at that place."""
        return f"{self.ident}n{place}"

    @property
    def verdict(self) -> str:
        """``PASS``, ``DEGRADED``, …; empty if nobody judged it."""
        return str(self.judged.get("verdict", ""))


@dataclass(frozen=True, slots=True)
class Node:
    """How a node compares: how many rows name it, how many of them failed, and the median of the ratios of
    its own medians to everybody's, over `series` series that others measured as well; below 1 is worse.
    worst: the series with the least of these ratios, and that ratio."""

    name: str
    platform: str
    rows: int
    failed: int
    ratio: float | None
    series: int
    by_month: Mapping[str, int]
    worst: tuple[float, HistorySeries] | None = None


@dataclass(frozen=True, slots=True)
class History:
    """All that the page shows of a history. verdicts: ``verdict.json`` of each platform that has one."""

    folder: Path
    platforms: tuple[str, ...]
    rows: int
    nights: int
    first: str
    last: str
    series: tuple[HistorySeries, ...]
    nodes: tuple[Node, ...]
    verdicts: Mapping[str, Mapping[str, Any]]
    raw_files: RawFiles
    #: Rows that could not be read.
    problems: int = 0

    @property
    def words(self) -> str:
        """What it is, in a line."""
        return (
            f"a history of {self.nights} nights of {', '.join(self.platforms)}, {self.first[:10]} to "
            f"{self.last[:10]}, {self.rows} rows"
        )


def read_history(
    folder: Path, platforms: Sequence[str] = (), say: Callable[[str], None] = lambda _: None
) -> History:
    """The history in `folder`: one platform's, or all those below it; of `platforms` alone where it has them.

    say: is told what is being read. Raises `NoHistory`, and OSError.
    """
    files = _files(folder, platforms)
    if not files:
        raise NoHistory(f"{folder} holds no history (no YYYY-MM.csv, no PLATFORM/YYYY-MM.csv)")
    reading = _Reading()
    folders = {folder, *(path.parent for path in files)}
    for number, path in enumerate(files, 1):
        say(f"reading {path.parent.name}/{path.name}, {number} of {len(files)}")
        reading.read(path)
    if not reading.series:
        raise NoHistory(f"{folder}: no file of it holds a row")
    return reading.history(folder, _verdicts(folders), _by_night(folders))


def _files(folder: Path, platforms: Sequence[str]) -> list[Path]:
    """Monthly files, the oldest first."""
    folders = [folder] if months(folder) else []
    if not folders and folder.is_dir():
        below = sorted(path for path in folder.iterdir() if months(path))
        folders = [path for path in below if path.name in platforms] or below
    return [path for each in folders for path in months(each)]


class _Gathered:
    """What is gathered of one series: its rows by night; values by hosts."""

    __slots__ = ("by_hosts", "by_night")

    def __init__(self) -> None:
        self.by_night: defaultdict[str, list[Rows]] = defaultdict(list)
        self.by_hosts: defaultdict[str, list[float]] = defaultdict(list)


class _Reading:
    """What is gathered while files are read."""

    def __init__(self) -> None:
        self.series: defaultdict[Key, _Gathered] = defaultdict(_Gathered)
        #: What tells a series, as in the files → where it is gathered, whether it was measured again.
        self._told: dict[tuple[str, ...], tuple[_Gathered | None, bool]] = {}
        self.raw_files = RawFiles()
        self.begun: dict[str, str] = {}
        self.files: dict[tuple[str, str], str] = {}
        #: (platform, hosts, month, whether ok) → rows
        self.where: Counter[tuple[str, str, str, bool]] = Counter()
        self.rows = 0
        self.problems = 0

    def read(self, path: Path) -> None:
        """All whole rows of a file: what follows the last line end is half a row of a killed writer.

        Rows that only differ in time, sample and value are gathered first: looking at a million rows one
        by one takes longer than everything else.
        """
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = iter(text.split("\n")[:-1])
        header = next(_by_csv(lines), [])
        if not {"time", "metric", "value"} <= set(header):
            raise NoHistory(f"{path} is no file of a history: it has no columns time, metric, value")
        complete = tuple(header) == tuple(COLUMNS)
        rows = _rows(lines) if complete else (_completed(header, cells) for cells in _by_csv(lines))
        groups: dict[tuple[str, ...], list[str]] = {}
        kept = self.raw_files.add(path.parent)
        raw: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for row in rows:
            try:
                alike = _ALIKE(row)
                if alike[_RUN] in kept:
                    raw[alike].append(row[_RAW])
            except IndexError:
                self.problems += 1
                continue
            found = groups.get(alike)
            if found is None:
                groups[alike] = [row[0], row[5]]
            else:
                found.append(row[5])
        for alike, (time, *values) in groups.items():
            self._add(alike, time, values, raw.get(alike, ()), str(path))

    def _add(
        self, alike: tuple[str, ...], time: str, values: Sequence[str], raw: Sequence[str], file: str
    ) -> None:
        """Rows that share everything but sample, value and raw file; `time` is of the first."""
        told, (hosts, run, status) = alike[:_SERIES], alike[_SERIES:]
        if told not in self._told:
            self._told[told] = self._place(Key(*told))
        found, again = self._told[told]
        if found is None:
            self.problems += len(values)
            return
        self.rows += len(values)
        if run not in self.begun or time < self.begun[run]:
            self.begun[run] = time
        self.files.setdefault((told[0], run), file)
        self.where[told[0], hosts, time[:7], status == OK] += len(values)
        numbers = _numbers(values)
        if status == OK and not math.isfinite(sum(numbers)):
            usable = [place for place, number in enumerate(numbers) if math.isfinite(number)]
            self.problems += len(numbers) - len(usable)
            numbers, raw = [numbers[place] for place in usable], [raw[place] for place in usable if raw]
        if numbers:
            found.by_night[run].append(Rows(hosts, status, again, numbers, raw))
            if hosts and status == OK:
                found.by_hosts[hosts] += numbers

    def _place(self, key: Key) -> tuple[_Gathered | None, bool]:
        """Where the rows of a series are gathered, and whether a night measured them again; None of an
        unknown metric."""
        again = REMEASURED in key.params and REMEASURED in _params(key.params)
        if again:
            others = {name: text for name, text in _params(key.params).items() if name != REMEASURED}
            key = key._replace(params=json.dumps(others, sort_keys=True) if others else "")
        if key.metric not in METRICS:
            return None, again
        return self.series[key], again

    def history(
        self,
        folder: Path,
        verdicts: Mapping[str, Mapping[str, Any]],
        by_night: Mapping[tuple[str, ...], Mapping[str, str]],
    ) -> History:
        """Everything that was read, by nights. by_night: series → night → verdict."""
        moments = {run: _seconds(time) for run, time in self.begun.items()}
        order = sorted(moments, key=lambda run: (moments[run], run))
        places = {run: place for place, run in enumerate(order)}
        keys = sorted(
            self.series, key=lambda key: (*key[:4], int(key.size) if key.size.isdecimal() else -1, *key[5:])
        )
        judged = {key: entry for each in verdicts.values() for key, entry in _entries(each)}
        series = {}
        for number, key in enumerate(keys):
            nights = tuple(self._nights(key, moments, places, by_night))
            series[key] = HistorySeries(f"h{number}", key, nights, judged.get(_plain(key), {}))
        times = sorted(self.begun.values())
        return History(
            folder=folder,
            platforms=tuple(sorted({platform for platform, _ in self.files})),
            rows=self.rows,
            nights=len(self.begun),
            first=times[0],
            last=times[-1],
            series=tuple(series.values()),
            nodes=tuple(self._nodes(series)),
            verdicts=verdicts,
            raw_files=self.raw_files,
            problems=self.problems,
        )

    def _nights(
        self,
        key: Key,
        moments: Mapping[str, float],
        places: Mapping[str, int],
        by_night: Mapping[tuple[str, ...], Mapping[str, str]],
    ) -> Iterator[Night]:
        """The nights of a series, in the order of their `places`."""
        verdicts, gathered = by_night.get(_plain(key), {}), self.series[key].by_night
        for run in sorted(gathered, key=places.__getitem__):
            rows = gathered[run]
            usable = [each for each in rows if each.status == OK]
            bad = [each.status for each in rows if each.status != OK]
            first = [each for each in usable if not each.again] or usable
            found = sorted(chain.from_iterable([each.values for each in first]))
            low, high = (found[0], found[-1]) if found else (math.nan, math.nan)
            n = len(found)
            middle = (found[(n - 1) // 2] + found[n // 2]) / 2 if found else math.nan
            yield Night(
                run, moments[run], middle, low, high, n,
                bad[0] if bad else "",
                self.files[key.platform, run], verdicts.get(run, ""), rows,
            )  # fmt: skip

    def _nodes(self, series: Mapping[Key, HistorySeries]) -> Iterator[Node]:
        """Every node, with how it compares."""
        ratios = self._ratios()
        rows: Counter[tuple[str, str]] = Counter()
        failed: Counter[tuple[str, str]] = Counter()
        months: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for (platform, hosts, month, ok), number in self.where.items():
            for host in hosts.split(";") if hosts else ():
                node = (platform, host)
                rows[node] += number
                failed[node] += 0 if ok else number
                months[node][month] += number
        for node, number in sorted(rows.items()):
            own = ratios.get(node, [])
            ratio = median(ratio for ratio, _ in own) if own else None
            least, key = min(own, default=(0.0, None))
            worst = (least, series[key]) if key else None
            yield Node(node[1], node[0], number, failed[node], ratio, len(own), months[node], worst)

    def _ratios(self) -> Mapping[tuple[str, str], list[tuple[float, Key]]]:
        """(platform, host) → its medians against everybody's, each with its series, as far as others measured
        that as well."""
        found: defaultdict[tuple[str, str], list[tuple[float, Key]]] = defaultdict(list)
        for key, gathered in self.series.items():
            better = METRICS[key.metric].better
            if better == "neither" or len(gathered.by_hosts) < 2:
                continue
            normal = median(value for values in gathered.by_hosts.values() for value in values)
            for hosts, values in gathered.by_hosts.items():
                middle = median(values)
                if middle > 0 and normal > 0:
                    ratio = normal / middle if better == "lower" else middle / normal
                    for host in hosts.split(";"):
                        found[key.platform, host].append((ratio, key))
        return found


def _rows(lines: Iterator[str]) -> Iterator[list[str]]:
    """The cells of rows in the order of `COLUMNS`; lines without their ends.

    Where quotes are about the params alone or about nothing, as in nearly every row, cutting at the commas
    takes half the time of the csv module.
    """
    for line in lines:
        before, quote, after = line.partition('"')
        cells = before.split(",")
        if quote:
            params, _, raw = after.rpartition('",')
            if len(cells) == _PARAMS + 1 and not cells[_PARAMS] and '"' not in raw:
                cells[_PARAMS] = params.replace('""', '"')
                cells.append(raw)
            else:
                cells = next(_by_csv(chain((line,), lines)))
        yield cells


def _by_csv(lines: Iterable[str]) -> Iterator[list[str]]:
    return csv.reader(f"{line}\n" for line in lines)


def _completed(header: Sequence[str], cells: Sequence[str]) -> list[str]:
    """The cells of a file with fewer or other columns, in the present order; none of too short a row."""
    return list(completed(header, cells).values()) if len(cells) >= len(header) else []


def _params(cell: str) -> dict[str, str]:
    try:
        found = json.loads(cell) if cell else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _numbers(cells: Sequence[str]) -> list[float]:
    """The numbers of cells, NaN for one that is none."""
    try:
        return list(map(float, cells))
    except ValueError:
        return [float(cell) if _FLOAT.fullmatch(cell) else math.nan for cell in cells]


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def _verdicts(folders: Iterable[Path]) -> dict[str, Mapping[str, Any]]:
    """The newest ``verdict.json`` of each platform among some folders."""
    found: dict[str, Mapping[str, Any]] = {}
    for folder in sorted(folders):
        document = _read_verdict(folder / VERDICT)
        if document:
            platform = str(document.get("platform", ""))
            if str(document.get("time", "")) >= str(found.get(platform, {}).get("time", "")):
                found[platform] = document
    return found


def _by_night(folders: Iterable[Path]) -> Mapping[tuple[str, ...], Mapping[str, str]]:
    """Series → night → verdict, of the last nights and where it is not PASS."""
    found: defaultdict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for folder in folders:
        for path in sorted((folder / VERDICTS).glob("*.json"))[-_LAST_NIGHTS:]:
            document = _read_verdict(path)
            for key, entry in _entries(document) if document else ():
                if entry.get("verdict") != "PASS":
                    found[key][str(document.get("run"))] = str(entry.get("verdict"))
    return found


def _read_verdict(path: Path) -> Mapping[str, Any]:
    """A night's verdict; empty where there is none, or none that could be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    good = isinstance(document, dict) and document.get("schema") == _SCHEMA
    return document if good and isinstance(document.get("series"), list) else {}


def _entries(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """The entries of a ``verdict.json`` by what tells their series."""
    for entry in document["series"]:
        try:
            size = "" if entry["size"] is None else str(entry["size"])
            params = json.dumps(_params(entry["params"]), sort_keys=True)
            names = (str(entry[name]) for name in ("platform", "benchmark", "case", "metric"))
            yield (*names, size, str(entry["nodes"]), params), entry
        except (KeyError, TypeError):
            continue


def _plain(key: Key) -> tuple[str, ...]:
    return (*key[:6], json.dumps(_params(key.params), sort_keys=True))
