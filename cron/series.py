"""A history night by night: the value of each series in every night, or what went wrong.

What a night's value is, and that of its second measurement, says `npc.records.nights`. All series stand side
by side over the same nights (a panel, as statistics calls it), so that they are judged together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from itertools import compress
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npc.cron.measurements import (
    ENDS,
    BenchmarkAttempt,
    HostGroup,
    NightAttempts,
    NightMeasurement,
    NightMeasurements,
    broken_benchmarks,
    sending_end,
)
from npc.machine.fabric import natural
from npc.records.history import HistoryRow
from npc.records.history_columns import HistoryColumns
from npc.records.journal import NightPlan
from npc.records.nights import counting
from npc.records.series import CORE, Series, is_size
from npc.records.units import METRICS, format_size
from npc.statistics.arrays import Booleans, Floats, Integers
from npc.statistics.groups import GroupMedians, stable_order

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


class PlacedOfSeries(NamedTuple):
    """What was measured where, of one series; by median."""

    #: The number of its night.
    night: NDArray[np.int32]
    #: The number of its group of hosts, as records have them.
    place: NDArray[np.int32]
    #: Its logarithm (`Panel.logarithms`).
    logarithm: Floats
    #: Whether others used the CPUs during all of its samples.
    disturbed: Booleans

    @classmethod
    def of(
        cls, key: Series, rows: HistoryColumns, night: NDArray[np.int32], again: Booleans
    ) -> PlacedOfSeries:
        """Of the rows of a series that count. night, again: by row, the number of its night, and whether it
        counts for that night's second measurement."""
        known = np.array([bool(hosts) for hosts in rows.places], dtype=bool)[rows.place]
        rows, night, again = rows.where(known), night[known], again[known]
        code = night.astype(np.int64) * 2 + again
        groups = GroupMedians.of(code * len(rows.places) + rows.place, rows.value)
        # A row that others disturbed counts only where they disturbed all rows of its hosts.
        disturbed = rows.disturbed[groups.first] > 0
        values = logarithms([key], groups.median, np.zeros(len(groups.median), dtype=np.intp))
        return cls(night[groups.first], rows.place[groups.first], values, disturbed)


@dataclass(frozen=True, eq=False)
class PlacedMedians:
    """What was measured where, the oldest first: medians of one series in one night on some hosts."""

    #: By median, the number of its series in the panel.
    series: NDArray[np.int32]
    #: By median, the number of its night in the panel.
    night: NDArray[np.int32]
    #: By median, the number of its group of hosts in `places`.
    place: NDArray[np.int32]
    #: By median, its logarithm (`Panel.logarithms`).
    logarithm: Floats
    #: By median, whether others used the CPUs during all of its samples.
    disturbed: Booleans
    #: The groups of hosts that `place` counts from 0.
    places: tuple[HostGroup, ...]

    @classmethod
    def of(
        cls, keys: Sequence[Series], places: Sequence[tuple[str, ...]], of_series: Sequence[PlacedOfSeries]
    ) -> PlacedMedians:
        """Of all series, by their numbers. places: what their places are numbers of."""
        number: dict[HostGroup, int] = {}
        #: By end that sends, and place, the number of the group of hosts.
        groups = {end: np.full(len(places), -1, dtype=np.int32) for end in ENDS}
        at = []
        for key, placed in zip(keys, of_series, strict=True):
            end = sending_end(key)
            group = groups[end]
            for place in np.unique(placed.place[group[placed.place] < 0]).tolist():
                group[place] = number.setdefault(HostGroup.of(places[place], end), len(number))
            at.append(group[placed.place])
        if not at:
            return cls.nowhere()
        night = np.concatenate([placed.night for placed in of_series])
        order = stable_order(night)
        series = np.arange(len(keys), dtype=np.int32).repeat([len(placed.night) for placed in of_series])
        # The largest first, while the others are not there yet.
        logarithm = np.concatenate([placed.logarithm for placed in of_series])[order]
        return cls(
            series[order],
            night[order],
            np.concatenate(at)[order],
            logarithm,
            np.concatenate([placed.disturbed for placed in of_series])[order],
            tuple(number),
        )

    @classmethod
    def nowhere(cls) -> PlacedMedians:
        """Of no rows."""
        none = np.zeros(0, dtype=np.int32)
        return cls(none, none, none, np.zeros(0), np.zeros(0, dtype=bool), ())

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
        begins, numbers = self.hosts
        pairs = np.flatnonzero(np.diff(begins) == 2)
        # As texts sort, by which the first of two is told.
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        rank = np.empty(len(order), dtype=np.intp)
        rank[order] = np.arange(len(order))
        ends = rank[numbers[begins[pairs][:, None] + np.arange(2)]]
        codes, number = np.unique(ends.min(axis=1) * len(order) + ends.max(axis=1), return_inverse=True)
        link = np.full(len(self.places), -1, dtype=np.intp)
        link[pairs] = number
        texts = [self.names[place] for place in order]
        return tuple((texts[code // len(order)], texts[code % len(order)]) for code in codes.tolist()), link


_NOTHING: Final = NightMeasurement()


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
    placed: PlacedMedians = field(default_factory=PlacedMedians.nowhere)

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
        return logarithms(self.keys, values, np.arange(len(self.keys))[:, None])

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


def logarithms(keys: Sequence[Series], values: Floats, series: Integers) -> Floats:
    """The logarithms of values, as `Panel.logarithms` has them. series: by value, the number of its key."""
    sense = np.array([direction(key) or 1.0 for key in keys])[series]
    floor = np.array([NEGLIGIBLE.get(key.metric, 0.0) for key in keys])[series]
    with np.errstate(divide="ignore"):
        turned: Floats = sense * np.log(values + floor)
    # A bandwidth of 0 has no logarithm; -50 stands for it, and 50 for the best there can be.
    return np.where(np.isneginf(turned), -50.0, np.where(np.isposinf(turned), 50.0, turned))


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
    rows = HistoryColumns.of(points)
    del points  # millions of rows are not to be there twice
    times = rows.begun(dict([night] if night else []))
    runs = list(times)
    if night:
        runs = runs[: runs.index(night[0]) + 1]
    night_of = {run: number for number, run in enumerate(runs)}
    by_run = np.array([night_of.get(run, -1) for run in rows.runs], dtype=np.int32)
    is_judged = np.array([key.metric not in _BESIDE and not _of_core(key) for key in rows.keys], dtype=bool)
    rows = rows.where(is_judged[rows.series] & (by_run[rows.run] >= 0))
    broken, attempts = broken_benchmarks(rows), NightAttempts(rows)

    with_value = np.bincount(rows.series, ~np.isnan(rows.value), len(rows.keys)) > 0
    keys = sorted(compress(rows.keys, with_value.tolist()), key=lambda key: key.order)
    number_of = {key: number for number, key in enumerate(keys)}
    by_series = np.array([number_of.get(key, -1) for key in rows.keys], dtype=np.int64)
    rows = rows.where(with_value[rows.series])
    codes = by_series[rows.series] * max(len(runs), 1) + by_run[rows.run]
    if np.any(codes[1:] < codes[:-1]):
        order = stable_order(codes)
        rows, codes = rows.take(order), codes[order]
    value, again = np.full((2, len(keys), len(runs)), np.nan)
    placed = []
    begins = np.searchsorted(codes, np.arange(len(keys) + 1) * len(runs)).tolist()
    for s, key in enumerate(keys):
        of_series = rows.take(slice(begins[s], begins[s + 1]))
        of_night, counts = by_run[of_series.run], counting(of_series)
        for medians, chosen in zip((value[s], again[s]), counts, strict=True):
            groups = GroupMedians.of(of_night[chosen], of_series.value[chosen])
            medians[groups.code] = groups.median
        either = counts[0] | counts[1]
        placed.append(PlacedOfSeries.of(key, of_series.where(either), of_night[either], counts[1][either]))
    measured = NightMeasurements(rows, codes, len(runs))
    del codes  # it is as large as a column of values
    return Panel(
        keys=tuple(keys),
        runs=tuple(runs),
        times=tuple(times[run] for run in runs),
        value=value,
        again=again,
        measured=measured,
        broken=broken,
        attempts=attempts,
        plans=plans,
        placed=PlacedMedians.of(keys, rows.places, placed),
    )


@cache
def _of_core(key: Series) -> bool:
    """Whether it is of one core: a node has hundreds, and their losses are part of the node's own value."""
    return CORE in key.by_name
