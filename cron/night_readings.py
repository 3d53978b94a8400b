"""What the search for slow nodes looks at: the value of a case, by night and group of hosts.

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
from npc.statistics.mixture import quantiles

#: Nights that are looked at.
WINDOW: Final = 60
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


@dataclass(frozen=True, slots=True)
class PlacedCases:
    """One value a case, night and group of hosts, the oldest first. All arrays without another word are by
    such a value, or row."""

    #: What is measured, whatever the size: ``qperf tcp_bw bandwidth``.
    cases: tuple[str, ...]
    #: Devices that series name, by number; the first is none.
    devices: tuple[str, ...]
    #: The number of its case.
    case: Integers
    #: The number of its night in the panel.
    night: Integers
    #: The number of its group of hosts in `medians.places`.
    place: Integers
    #: Log units; 0 is about what was usual in the first night; less is worse.
    value: Floats
    #: Whether others used the CPUs meanwhile.
    disturbed: Booleans
    #: By series of the panel, its case; -1 for what is not judged.
    case_of_series: Integers
    #: The number of its device.
    device: Integers
    #: By place, the number of its only or first host in `medians.names`.
    first_host: Integers
    #: By place, how many hosts it has.
    host_count: Integers
    #: What the values were made of.
    medians: PlacedMedians

    def hosts_of(self, rows: Integers) -> tuple[Integers, Integers]:
        """Each of some rows once for each of its hosts: its place among these rows, and the host's number."""
        begins, numbers = self.medians.hosts
        first, count = begins[self.place[rows]], self.host_count[self.place[rows]]
        row = np.repeat(np.arange(len(rows)), count)
        return row, numbers[np.arange(len(row)) + (first - np.cumsum(count) + count)[row]]

    def readings(self, rows: Integers, values: Floats) -> NightReadings:
        """Some rows, with other values, for the search: of cases that were measured on several groups of
        hosts. What was always measured in one place cannot set one node apart from another."""
        readings = NightReadings(
            cases=self.cases, case=self.case[rows], values=values, nights=self.night[rows],
            place=self.place[rows], disturbed=self.disturbed[rows], placed=self.medians,
        )  # fmt: skip
        case, cases = readings.case, len(self.cases)
        reading, host = readings.by_host
        begin, member = group_equal(case[reading], host)
        of_host = case[reading[begin]]
        count = np.bincount(case, minlength=cases)
        also_without = np.bincount(member) < count[of_host]
        chosen = np.bincount(of_host, also_without, cases) > 0
        return readings.of_cases(chosen & (count >= 2 * MIN_READINGS))


def placed_cases(panel: Panel) -> PlacedCases:
    """The values of every case whose metric has a better direction.

    Nothing in them depends on later nights. Of the sizes of a case the lower quartile is taken, for a slow
    link shows at some of them only; of the draws of one night the better one.
    """
    medians = panel.placed
    cases: dict[str, int] = {}
    devices: dict[str, int] = {"": 0}
    of_series = np.full(len(panel.keys), -1, dtype=np.intp)
    device_of_series = np.zeros(len(panel.keys), dtype=np.intp)
    for s, key in enumerate(panel.keys):
        if direction(key):
            of_series[s] = cases.setdefault(case_of(key), len(cases))
            device_of_series[s] = devices.setdefault(key.device, len(devices))
    rows = np.arange(medians.night.searchsorted(len(panel.runs)))
    rows = rows[of_series[medians.series[rows]] >= 0]
    series, night, place = medians.series[rows], medians.night[rows], medians.place[rows]
    values = medians.logarithm[rows]
    begin = np.full(len(panel.keys), len(panel.runs), dtype=np.intp)
    np.minimum.at(begin, series, night)
    early = night == begin[series]
    (usual,) = quantiles(values[early], series[early], len(panel.keys), 0.5)
    first, draw = group_equal(night, series, place)
    best = np.full(len(first), -np.inf)
    np.maximum.at(best, draw, values)
    best -= usual[series[first]]
    case, device = of_series[series[first]], device_of_series[series[first]]
    of_case, size = group_equal(night[first], case, device, place[first])
    (low,) = quantiles(best, size, len(of_case), QUANTILE)
    chosen = first[of_case]
    begins, numbers = medians.hosts
    return PlacedCases(
        cases=tuple(cases),
        devices=tuple(devices),
        case=of_series[series[chosen]],
        night=night[chosen],
        place=place[chosen],
        value=low,
        disturbed=np.bincount(size[draw], medians.disturbed[rows], len(of_case)) > 0,
        case_of_series=of_series,
        device=device_of_series[series[chosen]],
        first_host=numbers[begins[:-1]],
        host_count=np.diff(begins),
        medians=medians,
    )


def group_equal(*numbers: Integers) -> tuple[Integers, Integers]:
    """Elements with the same numbers are a group; the groups are ordered by them.

    Returns by group its first element, and by element its group.
    """
    code = numbers[0]
    for more in numbers[1:]:
        code = code * (more.max(initial=0) + 1) + more
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return first, group
