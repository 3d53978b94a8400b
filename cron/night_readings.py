"""What the search for slow nodes looks at: how far below the usual a case was, by night and group of hosts.

A reading is one case of a benchmark on one group of hosts in one night, as a logarithm. What was measured
again in that night is no reading of its own, for what disturbs a night often lasts until then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from npc.cron.series import Panel, PlacedMedians, case_of, direction
from npc.statistics.arrays import Booleans, Floats, Integers
from npc.statistics.localiser import MIN_READINGS
from npc.statistics.mixture import MIN_NOISE, quantiles, robust_spreads

#: Nights that are looked at.
WINDOW: Final = 60
#: Two draws of one night that differ by more than this (σ) contradict each other.
DISAGREE: Final = 4.0
#: Of the sizes of one case the lower quartile is taken: a slow link shows at some of them only.
QUANTILE: Final = 0.25


@dataclass(frozen=True, slots=True)
class NightReadings:
    """The readings of all cases, by case and the oldest first."""

    #: What is measured, whatever the size: ``qperf tcp_bw bandwidth``.
    cases: tuple[str, ...]
    #: By reading, the number of its case.
    case: Integers
    #: By reading, its value: log units, 0 is usual, less is worse.
    values: Floats
    #: By reading, the number of its night in the panel.
    nights: Integers
    #: By reading, the number of its group of hosts in `placed.places`.
    place: Integers
    #: By reading, whether others used the CPUs meanwhile.
    disturbed: Booleans
    #: What the readings were made of.
    placed: PlacedMedians

    def hosts(self, reading: int) -> tuple[str, ...]:
        """On which hosts it was measured."""
        place: int = self.place[reading]
        return self.placed.places[place].hosts

    def of_cases(self, chosen: Booleans) -> NightReadings:
        """The readings of some cases. chosen: by case."""
        rows = chosen[self.case]
        return replace(
            self, case=self.case[rows], values=self.values[rows], nights=self.nights[rows],
            place=self.place[rows], disturbed=self.disturbed[rows],
        )  # fmt: skip

    @property
    def by_host(self) -> tuple[Integers, Integers]:
        """Every reading once for each of its hosts: its number, and the host's number in `placed.names`."""
        begins, numbers = self.placed.hosts
        first, count = begins[self.place], np.diff(begins)[self.place]
        reading = np.repeat(np.arange(len(self.place)), count)
        return reading, numbers[np.arange(len(reading)) + (first - np.cumsum(count) + count)[reading]]


def readings_of(panel: Panel) -> NightReadings:
    """Readings of every case whose metric has a better direction, and that was measured on several groups of
    hosts: what was always measured in one place cannot set one node apart from another."""
    cases: dict[str, int] = {}
    of_series = np.array(
        [cases.setdefault(case_of(key), len(cases)) if direction(key) else -1 for key in panel.keys],
        dtype=np.intp,
    )
    placed, nights = panel.placed, len(panel.runs)
    rows = np.arange(*placed.night.searchsorted([nights - WINDOW, nights]))
    count = np.bincount(placed.series[rows], minlength=len(of_series))
    often = (count >= 2 * MIN_READINGS) & (of_series >= 0)
    rows = rows[often[placed.series[rows]]]
    series, values = placed.series[rows], placed.logarithm[rows]
    middle, spread = robust_spreads(values, series, len(of_series))
    spread = np.maximum(spread, MIN_NOISE)
    # One value of a night's draws: their mean; the best where they contradict each other.
    where = placed.night[rows] * len(placed.places) + placed.place[rows]
    first, draw = group_equal(series, where)
    best, least = np.full((2, len(first)), [[-np.inf], [np.inf]])
    np.maximum.at(best, draw, values)
    np.minimum.at(least, draw, values)
    series = series[first]
    apart = best - least > DISAGREE * spread[series]
    value = np.where(apart, best, np.bincount(draw, values) / np.bincount(draw))
    of_case, size = group_equal(of_series[series], where[first])
    score = (value - middle[series]) / spread[series]
    (low,) = quantiles(score, size, len(of_case), QUANTILE)  # of all sizes
    chosen = rows[first[of_case]]
    case = of_series[placed.series[chosen]]
    (usual,) = quantiles(low, case, len(cases), 0.5)
    (unit,) = quantiles(spread[often], of_series[often], len(cases), 0.5)
    readings = NightReadings(
        cases=tuple(cases),
        case=case,
        values=(low - usual[case]) * unit[case],
        nights=placed.night[chosen],
        place=placed.place[chosen],
        disturbed=np.bincount(size[draw], placed.disturbed[rows]) > 0,
        placed=placed,
    )
    reading, host = readings.by_host
    begin, member = group_equal(case[reading], host)
    of_host = case[reading[begin]]
    also_without = np.bincount(member) < np.bincount(case)[of_host]
    return readings.of_cases(np.bincount(of_host, also_without, len(cases)) > 0)


def group_equal(*numbers: Integers) -> tuple[Integers, Integers]:
    """Elements with the same numbers are a group; the groups are ordered by them.

    Returns by group its first element, and by element its group.
    """
    code = numbers[0]
    for more in numbers[1:]:
        code = code * (more.max(initial=0) + 1) + more
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return first, group
