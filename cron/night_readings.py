"""What the search for slow nodes looks at: the value of a case, by night and group of hosts.

A reading is one case of a benchmark on one group of hosts in one night, as a logarithm. What was measured
again in that night is no reading of its own, for what disturbs a night often lasts until then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from npc.cron.series import Panel, PlacedMedians, case_of, direction
from npc.statistics.arrays import Booleans, Floats, Integers
from npc.statistics.localiser import MIN_READINGS
from npc.statistics.mixture import quantiles

#: Nights that are looked at.
WINDOW: Final = 60
#: Of the sizes of one case the lower quartile is taken: a slow link shows at some of them only.
QUANTILE: Final = 0.25
#: Two draws of one night that differ by more than this (σ) contradict each other.
DISAGREE: Final = 4.0


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


class NightValues(NamedTuple):
    """What one night measured: one value a case, device and group of hosts; all arrays are by value."""

    #: The number of its case.
    case: Integers
    #: The number of its device.
    device: Integers
    #: The number of its group of hosts in `PlacedMedians.places`.
    place: Integers
    #: Log units; 0 is about what was usual in the first night; less is worse.
    value: Floats
    #: Whether others used the CPUs meanwhile.
    disturbed: Booleans

    def take(self, rows: Integers | Booleans) -> NightValues:
        """Some of them."""
        return NightValues._make(of_value[rows] for of_value in self)


class PlacedCases:
    """The cases of a panel whose metric has a better direction, and what each night has of them."""

    def __init__(self, panel: Panel) -> None:
        cases: dict[str, int] = {}
        devices: dict[str, int] = {"": 0}
        #: By series of the panel, its case; -1 for what is not judged.
        self.case_of_series: Integers = np.full(len(panel.keys), -1, dtype=np.intp)
        self._device_of_series = np.zeros(len(panel.keys), dtype=np.intp)
        for s, key in enumerate(panel.keys):
            if direction(key):
                self.case_of_series[s] = cases.setdefault(case_of(key), len(cases))
                self._device_of_series[s] = devices.setdefault(key.device, len(devices))
        #: What is measured, whatever the size: ``qperf tcp_bw bandwidth``.
        self.names: tuple[str, ...] = tuple(cases)
        #: Devices that series name, by number; the first is none.
        self.devices: tuple[str, ...] = tuple(devices)
        #: What the values are made of.
        self.medians: PlacedMedians = panel.placed
        begins, numbers = self.medians.hosts
        #: By group of hosts, the number of its only or first one in `medians.names`.
        self.first_host: Integers = numbers[begins[:-1]]
        #: By group of hosts, how many it has.
        self.host_count: Integers = np.diff(begins)
        # Of its type, for else all nights would be copied to be searched.
        nights = np.arange(len(panel.runs) + 1, dtype=self.medians.night.dtype)
        #: By night, where its medians begin; then their end.
        self._begins = self.medians.night.searchsorted(nights)
        #: Cases × hosts × devices: whether a night measured that by itself.
        self.alone: Booleans = np.zeros((len(cases), len(self.medians.names), len(devices)), dtype=bool)
        #: By case, whether a night measured it on several hosts together.
        self.together: Booleans = np.zeros(len(cases), dtype=bool)
        #: By series, the median of the first night that has it, in log units.
        self._usual = np.full(len(panel.keys), np.nan)
        for number in range(len(panel.runs)):
            self._learn(number)

    def _learn(self, number: int) -> None:
        """Take in what a night measured where, and what is usual of series that are new."""
        series, place, values, _ = self._of_night(number)
        case, single = self.case_of_series[series], self.host_count[place] == 1
        self.alone[case[single], self.first_host[place[single]], self._device_of_series[series[single]]] = (
            True
        )
        self.together[case[~single]] = True
        new = np.isnan(self._usual[series])
        if new.any():
            (first,) = quantiles(values[new], series[new], len(self._usual), 0.5)
            self._usual = np.where(np.isnan(self._usual), first, self._usual)

    def _of_night(self, number: int) -> tuple[Integers, Integers, Floats, Booleans]:
        """Of the medians of a night that are judged: series, place, logarithm, and whether disturbed."""
        medians = self.medians
        rows = slice(self._begins[number], self._begins[number + 1])
        series, place = (numbers[rows].astype(np.intp) for numbers in (medians.series, medians.place))
        judged = self.case_of_series[series] >= 0
        values, disturbed = medians.logarithm[rows][judged], medians.disturbed[rows][judged]
        return series[judged], place[judged], values, disturbed

    def of_night(self, number: int, sigma: Floats) -> NightValues:
        """The values of a night, by case, device and place; nothing in them depends on later nights.

        Of the sizes of a case the lower quartile is taken, for a slow link shows at some of them only. The
        draws of one night count with their mean, or with the better one where they contradict each other.

        sigma: by case, the standard deviation of a value (log units), as far as the nights before tell it.
        """
        series, place, values, disturbed = self._of_night(number)
        first, draw = group_equal(series, place)
        case, device = self.case_of_series[series[first]], self._device_of_series[series[first]]
        best, least = np.full((2, len(first)), [[-np.inf], [np.inf]])
        np.maximum.at(best, draw, values)
        np.minimum.at(least, draw, values)
        apart = best - least > DISAGREE * sigma[case]
        of_draws = np.where(apart, best, np.bincount(draw, values) / np.bincount(draw))
        of_draws -= self._usual[series[first]]
        of_case, size = group_equal(case, device, place[first])
        (low,) = quantiles(of_draws, size, len(of_case), QUANTILE)
        return NightValues(
            case[of_case], device[of_case], place[first[of_case]], low,
            np.bincount(size[draw], disturbed, len(of_case)) > 0,
        )  # fmt: skip

    def hosts_of(self, place: Integers) -> tuple[Integers, Integers]:
        """Each of some groups once for each of its hosts: which of them it is, and the host's number."""
        begins, numbers = self.medians.hosts
        first, count = begins[place], self.host_count[place]
        row = np.repeat(np.arange(len(place)), count)
        return row, numbers[np.arange(len(row)) + (first - np.cumsum(count) + count)[row]]

    def readings(self, values: NightValues, nights: Integers) -> NightReadings:
        """Values of some nights for the search: of cases that were measured on several groups of hosts.

        What was always measured in one place cannot set one node apart from another. nights: by value.
        """
        readings = NightReadings(
            cases=self.names, case=values.case, values=values.value, nights=nights, place=values.place,
            disturbed=values.disturbed, placed=self.medians,
        )  # fmt: skip
        case, cases = readings.case, len(self.names)
        reading, host = readings.by_host
        begin, member = group_equal(case[reading], host)
        of_host = case[reading[begin]]
        count = np.bincount(case, minlength=cases)
        also_without = np.bincount(member) < count[of_host]
        chosen = np.bincount(of_host, also_without, cases) > 0
        return readings.of_cases(chosen & (count >= 2 * MIN_READINGS))


def group_equal(*numbers: Integers) -> tuple[Integers, Integers]:
    """Elements with the same numbers are a group; the groups are ordered by them.

    Returns by group its first element, and by element its group.
    """
    code = numbers[0].astype(np.intp)
    for more in numbers[1:]:
        code = code * (more.max(initial=0) + 1) + more
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return first, group
