"""A history night by night: the value of each series in every night, or what went wrong.

What a night's value is, and that of its second measurement, says `npc.records.nights`. All series stand side
by side over the same nights (a panel, as statistics calls it), so that they are judged together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property, lru_cache
from operator import itemgetter
from statistics import median
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from npc.catalogue import sender
from npc.machine.fabric import natural
from npc.records.history import HistoryRow
from npc.records.journal import NightPlan
from npc.records.nights import SeriesNight, begun, invalid_by_others, samples_of, series_nights
from npc.records.record import OK
from npc.records.series import CORE, Series, is_size
from npc.records.units import METRICS, format_size
from npc.statistics.arrays import Booleans, Floats, Integers

#: Metrics that may well be zero: this is added to their values (SI units) before the logarithm is taken, so
#: that differences that are much smaller than it do not count.
NEGLIGIBLE: Final[Mapping[str, float]] = {
    "loss": 0.01,
    "retransmits": 10.0,
    "cpu": 0.02,
    "overlap": 0.05,
    "jitter": 1e-7,
    "noise": 0.005,
    "detour": 1e-3,
    "detour_rate": 100.0,
}

#: What a launch took besides its result. It depends on the room's temperature and on all that runs on the
#: node, so it is not judged.
_BESIDE: Final = ("energy", "power")


class HostGroup(NamedTuple):
    """Some hosts that were measured together."""

    #: Of two, the sender first where `directed`; else sorted.
    hosts: tuple[str, ...]
    #: Whether the first of two hosts sent to the other one.
    directed: bool


@dataclass(frozen=True, eq=False)
class PlacedMedians:
    """What was measured where, the oldest first: medians of one series in one night on some hosts."""

    #: By median, the number of its series in the panel.
    series: Integers
    #: By median, the number of its night in the panel.
    night: Integers
    #: By median, the number of its group of hosts in `places`.
    place: Integers
    #: By median, its logarithm (`Panel.logarithms`).
    logarithm: Floats
    #: By median, whether others used the CPUs during all of its samples.
    disturbed: Booleans
    #: The groups of hosts that `place` counts from 0.
    places: tuple[HostGroup, ...]

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, HostGroup, float, bool]]) -> PlacedMedians:
        """From rows in any order."""
        number: dict[HostGroup, int] = {}
        rows = sorted(rows, key=itemgetter(1))
        numbers = [(s, t, number.setdefault(place, len(number))) for s, t, place, *_ in rows]
        series, night, at = np.array(numbers, dtype=np.intp).reshape(-1, 3).T.copy()
        return cls(
            series,
            night,
            at,
            np.array([row[3] for row in rows], dtype=np.float64),
            np.array([row[4] for row in rows], dtype=bool),
            tuple(number),
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All hosts, in their natural order."""
        return tuple(sorted({host for place in self.places for host in place.hosts}, key=natural))

    @cached_property
    def hosts(self) -> tuple[Integers, Integers]:
        """By place where its hosts begin among the numbers (of `names`) that follow; then the end."""
        number = {name: i for i, name in enumerate(self.names)}
        begins = np.cumsum([0, *(len(place.hosts) for place in self.places)])
        return begins, np.array([number[h] for place in self.places for h in place.hosts], dtype=np.intp)

    @cached_property
    def directed(self) -> Booleans:
        """By place, whether the first of two hosts sent."""
        return np.array([place.directed for place in self.places], dtype=bool)

    @cached_property
    def links(self) -> tuple[tuple[tuple[str, str], ...], Integers]:
        """Pairs of hosts in either order, and by place the number of its pair; -1 for what is none."""
        pairs = [(min(hosts), max(hosts)) if len(hosts) == 2 else None for hosts, _ in self.places]
        links = sorted({pair for pair in pairs if pair})
        number = {pair: i for i, pair in enumerate(links)}
        return tuple(links), np.array([number[pair] if pair else -1 for pair in pairs], dtype=np.intp)


class NightMeasurement(NamedTuple):
    """What one night has of one series besides its values."""

    #: Those that are not ``ok``, each once.
    statuses: tuple[str, ...] = ()
    #: Where it was measured, in the order of their appearance.
    hosts: tuple[str, ...] = ()
    #: Share of the CPUs that others took during all samples that count; 0 if any was without them.
    disturbed: float = 0.0
    #: Groups of hosts on which others did so, each once; or took so much that nothing is valid there.
    disturbed_on: tuple[tuple[str, ...], ...] = ()


_NOTHING: Final = NightMeasurement()


class BenchmarkAttempt(NamedTuple):
    """Whether a benchmark worked in a night on some hosts."""

    #: Name of what was run.
    benchmark: str
    #: Where it was run: names of hosts.
    hosts: tuple[str, ...]
    #: Whether none of its samples worked.
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """S series × T nights."""

    #: The S series.
    keys: tuple[Series, ...]
    #: Names of the T nights, the oldest first.
    runs: tuple[str, ...]
    #: When each night began, ISO 8601.
    times: tuple[str, ...]
    #: S × T medians of the samples, in the metric's unit; NaN where nothing usable was measured.
    value: Floats
    #: The same of what the night measured again.
    again: Floats
    #: By numbers of series and night.
    measured: Mapping[tuple[int, int], NightMeasurement] = field(default_factory=dict)
    #: By night and benchmark, the statuses that are not ``ok``, each once; those of benchmarks that broke
    #: before they measured anything, too.
    broken: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    #: By night, what was tried where.
    attempts: Mapping[str, Sequence[BenchmarkAttempt]] = field(default_factory=dict)
    #: By night, what it was to measure, where that is known.
    plans: Mapping[str, NightPlan] = field(default_factory=dict)
    #: The values by hosts.
    placed: PlacedMedians = field(default_factory=lambda: PlacedMedians.of(()))

    def until(self, night: int) -> Panel:
        """The panel that ends with an earlier night. Series that had no value yet are still there
        (`has_values`), and so is what was noted of later nights: it is only ever asked for by night."""
        nights = slice(night + 1)
        return replace(
            self,
            runs=self.runs[nights],
            times=self.times[nights],
            value=self.value[:, nights],
            again=self.again[:, nights],
        )

    def has_values(self) -> Booleans:
        """By series, whether there is a value in any of the nights, or an invalid one in the last."""
        lies = np.array([bool(self.lies(s)) for s in range(len(self.keys))], dtype=bool)
        measured: Booleans = np.any(~np.isnan(self.value) | ~np.isnan(self.again), axis=1) | lies
        return measured

    def at(self, s: int, t: int | None = None) -> NightMeasurement:
        """What night `t`, by default the last one, has of series `s`."""
        return self.measured.get((s, len(self.runs) - 1 if t is None else t), _NOTHING)

    def has_record(self, s: int) -> bool:
        """Whether the last night has any record of series `s`, of a failure too."""
        t = len(self.runs) - 1
        return (s, t) in self.measured or not np.isnan(self.value[s, t])

    def lies(self, s: int) -> tuple[str, ...]:
        """Why the values of series `s` in the last night are invalid; nothing where none is."""
        return tuple(status for status in self.at(s).statuses if status.startswith("invalid"))

    def disturbed_on(self, s: int) -> tuple[tuple[str, ...], ...]:
        """Groups of hosts on which others used the CPUs during all that counts of series `s` last night.

        None where they did so everywhere the night before, too: then this machine is always used like that.
        """
        before = np.flatnonzero(~np.isnan(self.value[s, :-1])).tolist()
        lately = self.at(s, len(self.runs) - 2)
        invalid = bool(lately.disturbed_on) and np.isnan(self.value[s, -2])
        if invalid or (before and self.at(s, before[-1]).disturbed):
            return ()
        return self.at(s).disturbed_on

    @property
    def failures(self) -> Mapping[str, tuple[str, ...]]:
        """By benchmark, what went wrong in the last night."""
        return self.broken.get(self.runs[-1], {})

    def logarithms(self, values: Floats) -> Floats:
        """S × T logarithms, turned so that worse is smaller (as they are where neither is better)."""
        sense = np.array([direction(key) or 1.0 for key in self.keys])[:, None]
        floor = np.array([NEGLIGIBLE.get(key.metric, 0.0) for key in self.keys])[:, None]
        with np.errstate(divide="ignore"):
            logarithms: Floats = sense * np.log(values + floor)
        # A bandwidth of 0 has no logarithm; -50 stands for it, and 50 for the best there can be.
        return np.where(np.isneginf(logarithms), -50.0, np.where(np.isposinf(logarithms), 50.0, logarithms))

    def from_logarithm(self, s: int, logarithm: float) -> float:
        """The value, in the metric's unit, of one logarithm of series `s`."""
        key = self.keys[s]
        exponent = min((direction(key) or 1.0) * float(logarithm), 700.0)
        floor = NEGLIGIBLE.get(key.metric, 0.0)
        # So that the logarithm of nothing gives exactly nothing.
        return max(floor * math.expm1(exponent - math.log(floor)), 0.0) if floor else math.exp(exponent)

    def relative(self, s: int, before: float, after: float) -> float | None:
        """The relative change, negative for less, of the values of two logarithms of series `s`; None from
        nothing."""
        usual = self.from_logarithm(s, before)
        return self.from_logarithm(s, after) / usual - 1 if usual > 0 else None


def logarithm(key: Series, value: float) -> float:
    """The logarithm of one value of a series, as `Panel.logarithms` has it."""
    shifted = value + NEGLIGIBLE.get(key.metric, 0.0)
    sense = direction(key) or 1.0
    return sense * math.log(shifted) if shifted > 0 else -50.0 * sense


def direction(key: Series) -> float:
    """1 where a larger value is better, -1 where a smaller one is, 0 where neither."""
    return {"higher": 1.0, "lower": -1.0, "neither": 0.0}[METRICS[key.metric].better]


def case_of(key: Series) -> str:
    """What is measured, whatever the size and the parameters: ``qperf tcp_bw bandwidth``."""
    return " ".join(filter(None, (key.benchmark, key.case, key.metric)))


def label(key: Series, without: Collection[str] = ()) -> str:
    """A series for people, in the words of `matches`: ``qperf tcp_bw bandwidth 64 KiB``, parameters behind.

    without: names of parameters (and ``nodes``) that are left out.
    """
    words = [key.benchmark, key.case, key.metric, format_size(key.size)]
    words += [f"{name}={value}" for name, value in parameters(key).items() if name not in without]
    return " ".join(filter(None, words))


def parameters(key: Series) -> dict[str, str]:
    """Those of a series, by their names, behind its number of nodes if that is not one."""
    nodes = {"nodes": str(key.nodes)} if key.nodes > 1 else {}
    return nodes | dict(sorted(key.by_name.items()))


def matches(pattern: str, key: Series) -> bool:
    """Whether a pattern names the series: ``qperf tcp_* bandwidth 64 KiB``, words from the left.

    Each word is a shell pattern for benchmark, case, metric and size, in this order; ``NAME=VALUE`` words,
    for the parameters and ``nodes``, may follow. ``*`` is every series.
    """
    words, named = pattern_words(pattern)
    fields = (key.benchmark, key.case, key.metric, format_size(key.size).replace(" ", ""))
    params = {**key.by_name, "nodes": str(key.nodes)}
    return (
        len(words) <= len(fields)
        and all(
            fnmatchcase(have, word) or (at == 3 and is_size(word, key.size))
            for at, (word, have) in enumerate(zip(words, fields, strict=False))
        )
        and all(fnmatchcase(params.get(name, ""), value) for name, value in named.items())
    )


def pattern_words(pattern: str) -> tuple[list[str], dict[str, str]]:
    """The words of a pattern from the left, a size as one (``64KiB``); and its ``NAME=VALUE`` words."""
    every = re.sub(r"(?<=\d) (?=[KMGT]?i?B\b)", "", pattern).split()
    named = dict(word.split("=", 1) for word in every if "=" in word)
    return [word for word in every if "=" not in word], named


def panel(
    points: Iterable[HistoryRow],
    night: tuple[str, str] | None = None,
    plans: Mapping[str, NightPlan] = MappingProxyType({}),
) -> Panel:
    """The panel of a history's points. plans: by night, what it was to measure, as the journal has it.

    night: the last one to look at, its name and when it began; one without records is a column without a
    value.

    Series without a single value, usable or invalid, are left out: where a benchmark breaks before it
    measures, its failure has no metric that could be compared with anything; it is in `Panel.broken`.
    """
    every_point = list(points)
    times = begun(every_point, dict([night] if night else []))
    runs = list(times)
    if night:
        runs = runs[: runs.index(night[0]) + 1]
    place = {run: number for number, run in enumerate(runs)}
    compared: list[HistoryRow] = []
    broken: dict[str, dict[str, dict[str, None]]] = {}
    worked: dict[tuple[str, str, tuple[str, ...], bool], bool] = {}
    for point in every_point:
        if point.run not in place or point.key.metric in _BESIDE or _of_core(point.key):
            continue
        compared.append(point)
        if point.hosts:
            tried = point.run, point.key.benchmark, point.hosts, point.remeasured
            worked[tried] = worked.get(tried, False) or _worked(point)
        if point.status != OK:
            broken.setdefault(point.run, {}).setdefault(point.key.benchmark, {})[point.status] = None
    groups = series_nights(compared)
    keys = [
        key
        for key, nights in groups.items()
        if any(row.value is not None for of_series in nights.values() for row in of_series.rows)
    ]
    keys.sort(key=lambda key: key.order)
    shape = len(keys), len(runs)
    value, again = np.full(shape, np.nan), np.full(shape, np.nan)
    measured: dict[tuple[int, int], NightMeasurement] = {}
    placed: list[tuple[int, int, HostGroup, float, bool]] = []
    for s, key in enumerate(keys):
        for run, of_series in groups[key].items():
            at, rows = (s, place[run]), of_series.rows
            if (median_first := of_series.value) is not None:
                value[at] = median_first
            if (median_again := of_series.value_again) is not None:
                again[at] = median_again
            by_place = list(_by_place(key, of_series))
            placed += [(*at, *of_place) for of_place in by_place]
            measured[at] = NightMeasurement(
                statuses=tuple(dict.fromkeys(row.status for row in rows if row.status != OK)),
                hosts=tuple(dict.fromkeys(host for row in rows for host in row.hosts)),
                disturbed=_share((*of_series.first, *of_series.again)),
                disturbed_on=(
                    *{place.hosts: None for place, _, disturbed in by_place if disturbed},
                    *sorted(invalid_by_others(rows) - {tuple(sorted(place.hosts)) for place, *_ in by_place}),
                ),
            )
    attempts: dict[str, list[BenchmarkAttempt]] = {}
    for (run, benchmark, hosts, _), well in worked.items():
        attempts.setdefault(run, []).append(BenchmarkAttempt(benchmark, hosts, not well))
    return Panel(
        keys=tuple(keys),
        runs=tuple(runs),
        times=tuple(times[run] for run in runs),
        value=value,
        again=again,
        measured=measured,
        broken={
            run: {benchmark: tuple(statuses) for benchmark, statuses in of_night.items()}
            for run, of_night in broken.items()
        },
        attempts=attempts,
        plans=plans,
        placed=PlacedMedians.of(placed),
    )


@cache
def _of_core(key: Series) -> bool:
    """Whether it is of one core: a node has hundreds, and their losses are part of the node's own value."""
    return CORE in key.by_name


def _worked(point: HistoryRow) -> bool:
    """Whether the hosts answered: an ``unavailable`` tool and an invalid number are no failure of theirs."""
    return not point.status.startswith(("failed", "timeout"))


def _by_place(key: Series, night: SeriesNight) -> Iterator[tuple[HostGroup, float, bool]]:
    """One median of each measurement on some hosts, and whether others used the CPUs during all of it."""
    for measurement in (night.first, night.again):
        groups: dict[tuple[str, ...], list[HistoryRow]] = {}
        for row in measurement:
            if row.hosts:
                groups.setdefault(row.hosts, []).append(row)
        for hosts, rows in groups.items():
            value = median(samples_of(rows))
            yield _sender_first(key, hosts), logarithm(key, value), _share(rows) > 0


@lru_cache(maxsize=2**14)
def _sender_first(key: Series, hosts: tuple[str, ...]) -> HostGroup:
    """A record's hosts, the server first, as sender and receiver; sorted where that is not known."""
    end = sender(key.benchmark, key.case, key.metric, key.by_name) if len(hosts) == 2 else ""
    if not end:
        return HostGroup(tuple(sorted(hosts)), directed=False)
    return HostGroup(hosts if end == "server" else hosts[::-1], directed=True)


def _share(rows: Iterable[HistoryRow]) -> float:
    """The largest share of the CPUs that others took; 0 unless they did so during all of the rows."""
    shares = [row.disturbed for row in rows]
    return max(shares, default=0.0) if all(shares) else 0.0
