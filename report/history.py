"""A history as the page shows it: every series night by night, how the nodes compare, and what was judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from npc.figures.allocation import NodeAllocation
from npc.places import workplace
from npc.records.history import History, InvalidHistory
from npc.records.journal import Journal
from npc.records.nights import series_nights
from npc.records.nodes import Hosts
from npc.records.record import OK, Record, moment
from npc.records.series import Series, test_name
from npc.records.units import METRICS, format_size
from npc.records.verdicts import VERDICT, VERDICTS, JudgedSeries, NightDocument, Verdict, read_night
from npc.report.nodes import NodeHistory, Nodes

USUAL: Final = "history"
#: Number of last nights of which verdicts and names of raw files are read.
_LAST_NIGHTS: Final = 60


class NoHistory(ValueError):
    """There is no history where one was asked for; the message says what would make it."""


def usual_history() -> Path:
    """``history/`` here; where there is none, that of the workplace, where npc night run keeps it."""
    here = Path(USUAL)
    return here if here.is_dir() else workplace() / USUAL


class NightValue(NamedTuple):
    """A series in one night."""

    #: The night's name.
    run: str
    #: When it began, in seconds since 1970.
    time: float
    #: Median of the usable samples, in the metric's unit; NaN where there is none.
    median: float
    #: The lowest of the usable samples, in the metric's unit; NaN where there is none.
    low: float
    #: The highest of the usable samples, in the metric's unit; NaN where there is none.
    high: float
    #: How many samples are usable.
    n: int
    #: The first status of its records that is not ``ok``; empty where all are.
    status: str
    #: The CSV file that holds its rows.
    file: Path
    #: What that night said of the series; empty where it is PASS or not known.
    verdict: str


class RawRuns:
    """Where the raw files of a history's nights are: `npc night run` prunes those of good nights after a
    while."""

    def __init__(self, history: Path) -> None:
        self._folders = {entry.name: entry.folder for entry in Journal(history).entries()}
        self._there = {run for run, folder in self._folders.items() if folder.is_dir()}
        #: The last nights, whose raw files are shown one by one.
        self.last = self._there.intersection(list(self._folders)[-_LAST_NIGHTS:])

    def folder(self, run: str) -> Path | None:
        """The folder of a night's raw runs; None if it is not there."""
        return self._folders[run] if run in self._there else None

    def why_none(self, run: str) -> str:
        """Why a folder is not there."""
        return "raw runs pruned" if run in self._folders else "where: not known"

    def path(self, record: Record) -> Path | None:
        """The raw file of a night's record, None if it is not there."""
        path = self._folders[record.run] / record.raw if record.raw else None
        return path if path and path.name in _names(path.parent) else None


@cache
def _names(folder: Path) -> frozenset[str]:
    """What is in a folder; a file system that is far away is asked once, and not for each file."""
    try:
        return frozenset(path.name for path in folder.iterdir())
    except OSError:
        return frozenset()


@dataclass(frozen=True, slots=True)
class HistorySeries:
    """A series over its nights."""

    #: The id of its row in the page, with which those of its nights begin.
    ident: str
    #: What tells it from other series: platform, benchmark, case, metric, …
    key: Series
    #: Its nights, the oldest first.
    nights: tuple[NightValue, ...]
    #: Its entry in ``verdict.json``; None if there is none.
    judged: JudgedSeries | None = None

    @property
    def unit(self) -> str:
        """The metric's."""
        return METRICS[self.key.metric].unit

    @property
    def name(self) -> str:
        """In words: benchmark, case, size, parameters."""
        words = [test_name(self.key.benchmark, self.key.case)]
        if self.key.size is not None:
            words.append(format_size(self.key.size))
        if self.key.nodes != 1:
            words.append(f"{self.key.nodes} nodes")
        return ", ".join([*words, *(f"{name} {text}" for name, text in sorted(self.key.by_name.items()))])

    @property
    def measured(self) -> list[NightValue]:
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
        """``PASS``, ``DEGRADED``, …; empty where it was not judged."""
        return self.judged.verdict.name if self.judged else ""


@dataclass(frozen=True, slots=True)
class HistoryView:
    """All that the page shows of one or several histories."""

    #: The folder that was named.
    folder: Path
    #: Names of the platforms that were measured, sorted.
    platforms: tuple[str, ...]
    #: How many rows the history has, those that cannot be read included.
    rows: int
    #: How many rows cannot be read.
    problems: int
    #: How many nights there are.
    nights: int
    #: When the first night began (ISO 8601).
    first: str
    #: When the last night began (ISO 8601).
    last: str
    #: Everything that was measured, with its values night by night.
    series: tuple[HistorySeries, ...]
    #: Platform → how its nodes compare with each other.
    nodes: Mapping[str, list[NodeHistory]]
    #: Platform → which nodes the benchmarks had.
    allocations: Mapping[str, NodeAllocation]
    #: Platform → its ``verdict.json``; only platforms that have one.
    verdicts: Mapping[str, NightDocument]
    #: Verdicts that cannot be read, and why; empty where there is none.
    unread: tuple[str, ...]
    #: Folder of a platform's history → the history itself.
    pasts: Mapping[Path, History]
    #: Folder of a platform's history → where the raw files of its nights are.
    raw_runs: Mapping[Path, RawRuns]

    @property
    def words(self) -> str:
        """What it is, in a line."""
        return (
            f"a history of {self.nights} nights of {', '.join(self.platforms)}, {self.first[:10]} to "
            f"{self.last[:10]}, {self.rows} rows"
        )

    def records(self, series: HistorySeries, night: NightValue) -> list[Record]:
        """What was measured of a series in one of the last nights whose raw files are there."""
        if night.run not in self.raw_runs[night.file.parent].last:
            return []
        return list(self.pasts[night.file.parent].records(series.key, night.run))


def read_history(
    folder: Path, platforms: Sequence[str] = (), say: Callable[[str], None] = lambda _: None
) -> HistoryView:
    """The history in `folder`: one platform's, or all those below it; of `platforms` alone where it has them.

    say: is told what is being read. Raises `NoHistory`, and OSError.
    """
    pasts = {place: History(place, say) for place in _folders(folder, platforms)}
    if not pasts:
        raise NoHistory(f"{folder} holds no history (no YYYY-MM.csv, no PLATFORM/YYYY-MM.csv)")
    try:
        return _view(folder, pasts, say)
    except InvalidHistory as error:
        raise NoHistory(str(error)) from None


def _folders(folder: Path, platforms: Sequence[str]) -> list[Path]:
    if History(folder).files():
        return [folder]
    below = [path for path in sorted(folder.iterdir()) if History(path).files()] if folder.is_dir() else []
    return [path for path in below if path.name in platforms] or below


def _view(folder: Path, pasts: Mapping[Path, History], say: Callable[[str], None]) -> HistoryView:
    begun: dict[str, str] = {}
    files: dict[tuple[str, str], Path] = {}
    rows = problems = 0
    for place, past in pasts.items():
        for night in past.nights():
            begun[night.run] = min(begun.get(night.run, night.begun), night.begun)
            files.setdefault((night.platform, night.run), place / night.file)
            rows += night.rows
        problems += len(past.problems)
    if not begun:
        raise NoHistory(f"{folder}: no file of it holds a row")
    unread: list[str] = []
    by_night = _by_night({folder, *pasts}, unread)
    nodes: defaultdict[str, Nodes] = defaultdict(Nodes)
    allocations: defaultdict[str, NodeAllocation] = defaultdict(NodeAllocation)
    nights: defaultdict[Series, list[NightValue]] = defaultdict(list)
    for place, past in pasts.items():
        say(f"going through {place.name}")
        for key, of_series in past.points().by_series():
            for run, of_night in series_nights(of_series)[key].items():
                nodes[key.platform].add(key, of_night.rows, of_night.by_hosts)
                allocations[key.platform].add(
                    key.benchmark, run, {host for row in of_night.rows for host in row.hosts}
                )
                status = next((row.status for row in of_night.rows if row.status != OK), "")
                value = NightValue(
                    run, _seconds(begun[run]), *of_night.levels, len(of_night.first), status,
                    files[key.platform, run], by_night.get((key, run), ""),
                )  # fmt: skip
                nights[key].append(value)
    verdicts = _verdicts({folder, *pasts}, unread)
    judged = {entry.key: entry for document in verdicts.values() for entry in document.series}
    series = {
        key: HistorySeries(
            f"h{number}", key, tuple(sorted(nights[key], key=lambda n: (n.time, n.run))), judged.get(key)
        )
        for number, key in enumerate(sorted(nights, key=lambda key: key.order))
    }

    def lead(key: Series, _: Hosts) -> tuple[str, str]:
        return series[key].ident, series[key].name

    return HistoryView(
        folder=folder,
        platforms=tuple(sorted({platform for platform, _ in files})),
        rows=rows + problems,
        problems=problems,
        nights=len(begun),
        first=min(begun.values()),
        last=max(begun.values()),
        series=tuple(series.values()),
        nodes={platform: list(of_platform.compared(lead)) for platform, of_platform in nodes.items()},
        allocations=allocations,
        verdicts=verdicts,
        unread=tuple(unread),
        pasts=pasts,
        raw_runs={place: RawRuns(place) for place in pasts},
    )


def _seconds(time: str) -> float:
    return moment(time).timestamp()


def _verdicts(folders: Iterable[Path], unread: list[str]) -> dict[str, NightDocument]:
    """The newest ``verdict.json`` of each platform among some folders; to `unread` why one is none."""
    newest: dict[str, NightDocument] = {}
    for folder in sorted(folders):
        night = _read(folder / VERDICT, unread)
        if night and (night.platform not in newest or night.time >= newest[night.platform].time):
            newest[night.platform] = night
    return newest


def _by_night(folders: Iterable[Path], unread: list[str]) -> Mapping[tuple[Series, str], str]:
    """(series, night) → verdict, of the last nights and where it is not PASS; to `unread` why one is none."""
    verdicts: dict[tuple[Series, str], str] = {}
    for folder in sorted(folders):
        for path in sorted((folder / VERDICTS).glob("*.json"))[-_LAST_NIGHTS:]:
            night = _read(path, unread)
            if night:
                not_pass = (entry for entry in night.series if entry.verdict is not Verdict.PASS)
                verdicts |= {(entry.key, night.run): entry.verdict.name for entry in not_pass}
    return verdicts


def _read(path: Path, unread: list[str]) -> NightDocument | None:
    """A night's verdict; None where there is none, or none that could be read."""
    try:
        return read_night(path) if path.exists() else None
    except (OSError, ValueError) as error:
        unread.append(str(error))
        return None
