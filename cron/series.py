"""A history night by night: the value of each series in every night, or what went wrong.

The value of a night is the median of its usable samples; of its re-measurement, likewise. All series stand
side by side over the same nights (a panel, as statistics calls it), so that they are judged together.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npc.records.history import Point
from npc.records.record import OK
from npc.records.series import Series
from npc.records.units import METRICS, format_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Metrics that may well be zero are compared as logarithms of what they exceed this by, in SI units: below it
#: a difference is nobody's business.
NEGLIGIBLE: Final[Mapping[str, float]] = {
    "loss": 0.01,
    "retransmits": 10.0,
    "cpu": 0.02,
    "overlap": 0.05,
    "jitter": 1e-7,
}


class Placed(NamedTuple):
    """The median of one series in one night on some hosts; whether it was measured again."""

    hosts: tuple[str, ...]
    value: float
    again: bool


class Attempt(NamedTuple):
    """Whether a benchmark worked in a night on some hosts: in none of its samples counts as failed."""

    run: str
    benchmark: str
    hosts: tuple[str, ...]
    failed: bool
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Series × nights.

    keys: the S series. runs, times: the T nights, the oldest first, and when each began. value, again: S ×
    T medians of the samples, in the metric's unit, NaN where nothing usable was measured; `again` of the
    night's re-measurement. samples: S × T usable samples of the first measurement. statuses: by (series,
    night) those that are not ``ok``, each once. hosts: by (series, night) whom it was measured on, in the
    order of their appearance. failures: by night, benchmark and status of all that is not ``ok``, those of
    benchmarks that broke before they measured anything, too. places: by (series, night), the medians by
    hosts. attempts: what was tried where.
    """

    keys: tuple[Series, ...]
    runs: tuple[str, ...]
    times: tuple[str, ...]
    value: Floats
    again: Floats
    samples: NDArray[np.intp]
    statuses: Mapping[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)
    hosts: Mapping[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)
    failures: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    places: Mapping[tuple[int, int], tuple[Placed, ...]] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()

    def logarithms(self, values: Floats) -> Floats:
        """S × T logarithms, turned so that worse is smaller (as they are where neither is better)."""
        sense = np.array([direction(key) or 1.0 for key in self.keys])[:, None]
        floor = np.array([NEGLIGIBLE.get(key.metric, 0.0) for key in self.keys])[:, None]
        with np.errstate(divide="ignore"):
            found: Floats = sense * np.log(values + floor)
        # A bandwidth of 0 has no logarithm; as bad as can be is what it means.
        return np.where(np.isneginf(found), -50.0, np.where(np.isposinf(found), 50.0, found))

    def logarithm(self, s: int, value: float) -> float:
        """The logarithm of one value of series `s`, as `logarithms` has it."""
        key = self.keys[s]
        shifted = value + NEGLIGIBLE.get(key.metric, 0.0)
        sense = direction(key) or 1.0
        return sense * math.log(shifted) if shifted > 0 else -50.0 * sense

    def from_logarithm(self, s: int, logarithm: float) -> float:
        """The value, in the metric's unit, of one logarithm of series `s`."""
        key = self.keys[s]
        sense = direction(key) or 1.0
        return max(math.exp(min(sense * float(logarithm), 700.0)) - NEGLIGIBLE.get(key.metric, 0.0), 0.0)

    def relative(self, s: int, shift: float) -> float:
        """The relative change, negative for less, of a shift between logarithms of series `s`."""
        return math.expm1(min((direction(self.keys[s]) or 1.0) * float(shift), 700.0))


def direction(key: Series) -> float:
    """1 where a larger value is better, -1 where a smaller one is, 0 where neither."""
    return {"higher": 1.0, "lower": -1.0, "neither": 0.0}[METRICS[key.metric].better]


def case_of(key: Series) -> str:
    """What is measured, whatever the size and the parameters: ``qperf tcp_bw bandwidth``."""
    return " ".join(filter(None, (key.benchmark, key.case, key.metric)))


def label(key: Series) -> str:
    """A series for people, in the words of `matches`: ``qperf tcp_bw bandwidth 64K``, parameters behind."""
    words = [key.benchmark, key.case, key.metric]
    if key.size is not None:
        words.append(format_size(key.size))
    if key.nodes > 1:
        words.append(f"nodes={key.nodes}")
    words += [f"{name}={value}" for name, value in sorted(json.loads(key.params).items())]
    return " ".join(filter(None, words))


def matches(pattern: str, key: Series) -> bool:
    """Whether a pattern names the series: ``qperf tcp_* bandwidth 64K``, words from the left.

    Each word is a shell pattern for benchmark, case, metric and size, in this order; ``NAME=VALUE`` words,
    for the parameters and ``nodes``, may follow. ``*`` is every series.
    """
    named = [word.partition("=") for word in pattern.split() if "=" in word]
    words = [word for word in pattern.split() if "=" not in word]
    size = "" if key.size is None else format_size(key.size)
    fields = (key.benchmark, key.case, key.metric, size)
    params = {**json.loads(key.params), "nodes": str(key.nodes)}
    return (
        len(words) <= len(fields)
        and all(
            fnmatchcase(have, word) or (at == 3 and str(key.size) == word)
            for at, (word, have) in enumerate(zip(words, fields, strict=False))
        )
        and all(fnmatchcase(params.get(name, ""), value) for name, _, value in named)
    )


def panel(
    points: Iterable[Point], platform: str | None = None, night: tuple[str, str] | None = None
) -> Panel:
    """The panel of a history's points, of one platform or of all.

    night: the last one to look at, its name and when it began; one without records is a column without a
    value.

    Series without a single usable value are left out: where a benchmark breaks before it measures, its
    failure has no metric that could be compared with anything; it is in `Panel.failures`.
    """
    mine = [point for point in points if platform is None or point.key.platform == platform]
    begun: dict[str, str] = {}
    for point in mine:
        begun[point.run] = min(begun.get(point.run, point.time), point.time)
    if night:
        begun.setdefault(*night)
    runs = sorted(begun, key=lambda run: (begun[run], run))
    if night:
        runs = runs[: runs.index(night[0]) + 1]
    place = {run: number for number, run in enumerate(runs)}
    groups: dict[Series, dict[str, list[Point]]] = {}
    failed: dict[str, dict[tuple[str, str], None]] = {}
    worked: dict[tuple[str, str, tuple[str, ...], bool], bool] = {}
    for point in mine:
        if point.run not in place:
            continue
        groups.setdefault(point.key, {}).setdefault(point.run, []).append(point)
        if point.hosts:
            tried = point.run, point.key.benchmark, point.hosts, point.remeasured
            worked[tried] = worked.get(tried, False) or _worked(point)
        if point.status != OK:
            failed.setdefault(point.run, {})[point.key.benchmark, point.status] = None
    keys = [
        key for key, nights in groups.items() if any(_usable(p) for each in nights.values() for p in each)
    ]
    keys.sort(key=lambda key: key.order)
    shape = len(keys), len(runs)
    value, again = np.full(shape, np.nan), np.full(shape, np.nan)
    samples = np.zeros(shape, dtype=np.intp)
    statuses: dict[tuple[int, int], tuple[str, ...]] = {}
    hosts: dict[tuple[int, int], tuple[str, ...]] = {}
    places: dict[tuple[int, int], tuple[Placed, ...]] = {}
    for s, key in enumerate(keys):
        for run, found in groups[key].items():
            t = place[run]
            first = [p.value for p in found if not p.remeasured and _usable(p) and p.value is not None]
            second = [p.value for p in found if p.remeasured and _usable(p) and p.value is not None]
            if first:
                value[s, t], samples[s, t] = median(first), len(first)
            if second:
                again[s, t] = median(second)
            if bad := tuple(dict.fromkeys(p.status for p in found if p.status != OK)):
                statuses[s, t] = bad
            hosts[s, t] = tuple(dict.fromkeys(host for p in found for host in p.hosts))
            places[s, t] = _by_place(found)
    return Panel(
        keys=tuple(keys),
        runs=tuple(runs),
        times=tuple(begun[run] for run in runs),
        value=value,
        again=again,
        samples=samples,
        statuses=statuses,
        hosts=hosts,
        failures={run: tuple(pairs) for run, pairs in failed.items()},
        places=places,
        attempts=tuple(
            Attempt(run, benchmark, where, not well, second)
            for (run, benchmark, where, second), well in worked.items()
        ),
    )


def failures_of(panel: Panel) -> dict[str, tuple[str, ...]]:
    """By benchmark, the statuses of the panel's last night that are not ``ok``, each once."""
    found: dict[str, dict[str, None]] = {}
    for benchmark, status in panel.failures.get(panel.runs[-1], ()):
        found.setdefault(benchmark, {})[status] = None
    return {benchmark: tuple(statuses) for benchmark, statuses in found.items()}


def _worked(point: Point) -> bool:
    """An ``unavailable`` tool and an invalid number are nobody's failure to answer."""
    return not point.status.startswith(("failed", "timeout"))


def _by_place(points: Sequence[Point]) -> tuple[Placed, ...]:
    values: dict[tuple[tuple[str, ...], bool], list[float]] = {}
    for point in points:
        if point.hosts and _usable(point) and point.value is not None:
            values.setdefault((point.hosts, point.remeasured), []).append(point.value)
    return tuple(Placed(hosts, median(found), again) for (hosts, again), found in values.items())


def _usable(point: Point) -> bool:
    return point.status == OK and point.value is not None
