"""A history night by night: for each series its value in every night, and what went wrong where there is none.

The value of a night is the median of its usable samples; of its re-measurement, likewise. All series stand
side by side over the same nights (a panel, as statistics calls it), so that they are judged together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from cron.history import Point, SeriesKey
from npc.record import OK
from npc.units import METRICS

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Series × nights.

    keys: the S series. runs, times: the T nights, the oldest first, and when each began. value, again: S × T
    medians of the samples, in the metric's unit, NaN where nothing usable was measured; `again` of the night's
    re-measurement. samples: S × T usable samples of the first measurement. statuses: by (series, night) those
    that are not ``ok``, each once. hosts: by (series, night) whom it was measured on, in the order of their
    appearance.
    """

    keys: tuple[SeriesKey, ...]
    runs: tuple[str, ...]
    times: tuple[str, ...]
    value: Floats
    again: Floats
    samples: NDArray[np.intp]
    statuses: Mapping[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)
    hosts: Mapping[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)

    def logarithms(self, values: Floats) -> Floats:
        """S × T logarithms, turned so that worse is smaller (as they are where neither is better)."""
        sense = np.array([direction(key) or 1.0 for key in self.keys])[:, None]
        floor = np.array([NEGLIGIBLE.get(key.metric, 0.0) for key in self.keys])[:, None]
        with np.errstate(divide="ignore"):
            found: Floats = sense * np.log(values + floor)
        # A bandwidth of 0 has no logarithm; as bad as can be is what it means.
        return np.where(np.isneginf(found), -50.0, np.where(np.isposinf(found), 50.0, found))


def direction(key: SeriesKey) -> float:
    """1 where a larger value is better, -1 where a smaller one is, 0 where neither."""
    return {"higher": 1.0, "lower": -1.0, "neither": 0.0}[METRICS[key.metric].better]


def panel(points: Iterable[Point], platform: str | None = None) -> Panel:
    """The panel of a history's points, of one platform or of all.

    Series without a single usable value are left out: where a benchmark breaks before it measures, its
    failure has no metric that could be compared with anything (`failures`).
    """
    groups: dict[SeriesKey, dict[str, list[Point]]] = {}
    begun: dict[str, str] = {}
    for point in points:
        if platform is None or point.key.platform == platform:
            groups.setdefault(point.key, {}).setdefault(point.run, []).append(point)
            begun[point.run] = min(begun.get(point.run, point.time), point.time)
    runs = sorted(begun, key=lambda run: (begun[run], run))
    place = {run: number for number, run in enumerate(runs)}
    keys = [
        key for key, nights in groups.items() if any(_usable(p) for night in nights.values() for p in night)
    ]
    keys.sort(key=lambda key: (*key[:4], -1 if key.size is None else key.size, *key[5:]))
    shape = len(keys), len(runs)
    value, again = np.full(shape, np.nan), np.full(shape, np.nan)
    samples = np.zeros(shape, dtype=np.intp)
    statuses: dict[tuple[int, int], tuple[str, ...]] = {}
    hosts: dict[tuple[int, int], tuple[str, ...]] = {}
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
    return Panel(
        keys=tuple(keys),
        runs=tuple(runs),
        times=tuple(begun[run] for run in runs),
        value=value,
        again=again,
        samples=samples,
        statuses=statuses,
        hosts=hosts,
    )


def failures(points: Iterable[Point], run: str) -> Mapping[str, Sequence[str]]:
    """By benchmark, the statuses of one night that are not ``ok``, each once, with how often it occurs."""
    counts: dict[str, dict[str, int]] = {}
    for point in points:
        if point.run == run and point.status != OK:
            of_benchmark = counts.setdefault(point.key.benchmark, {})
            of_benchmark[point.status] = of_benchmark.get(point.status, 0) + 1
    return {
        benchmark: [status if n == 1 else f"{n} × {status}" for status, n in statuses.items()]
        for benchmark, statuses in counts.items()
    }


def _usable(point: Point) -> bool:
    return point.status == OK and point.value is not None
