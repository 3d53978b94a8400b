"""The nodes of a platform as members of one fleet, night by night: the readings of `npc.statistics.fleet`.

A case is what is measured, whatever the size. A member is a node, or one device of it where a series names
the device: one bad GPU of eight is hidden in its node's median. What several nodes measured together is what
is usual for them and the sum of what each adds to it, so that the levels of nodes are known from pairs, too:
`localise_nights` looks at what is left of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from npc.cron.night_readings import NightReadings, PlacedCases, group_equal, placed_cases
from npc.cron.series import Panel
from npc.statistics.arrays import Booleans, Floats, Integers
from npc.statistics.fleet import FleetNight, FleetWatch

#: Fewer hosts that measured a case are no fleet.
MIN_HOSTS: Final = 3


class Member(NamedTuple):
    """A node, or one device of it."""

    #: Name of the node.
    host: str
    #: Which device of it (``gpu 3``); empty: the node itself.
    device: str


class FleetNights:
    """What is known of a platform's nodes, after each night of a panel."""

    def __init__(
        self, panel: Panel, begins: Integers | None = None, accepted: Mapping[str, str] | None = None
    ) -> None:
        """begins: by series, the night that its accepted baseline counts from, -1 for none. accepted: by host
        the name of the night from which on its state was accepted."""
        self.placed: PlacedCases = placed_cases(panel)
        placed = self.placed
        first_host, hosts = placed.first_host, placed.host_count
        single = hosts[placed.place] == 1
        #: By row of one host, its member; -1 for the others.
        member = np.full(len(placed.case), -1, dtype=np.intp)
        device = placed.device
        begin, of_member = group_equal(first_host[placed.place[single]], device[single])
        member[single] = of_member
        names = placed.medians.names
        rows = np.flatnonzero(single)[begin]
        #: All members, in the order of their numbers.
        self.members: Sequence[Member] = [
            Member(names[first_host[placed.place[row]]], placed.devices[device[row]]) for row in rows.tolist()
        ]
        self.member: Integers = member
        self._alone = FleetWatch(len(placed.cases), len(self.members))
        self._together = FleetWatch(len(placed.cases), len(names))
        self._hosts_of_case = np.zeros((len(placed.cases), len(names)), dtype=bool)
        self._begin_case = np.full(len(placed.cases), -1, dtype=np.intp)
        if begins is not None:
            known = placed.case_of_series >= 0
            np.maximum.at(self._begin_case, placed.case_of_series[known], begins[known])
        number = {run: t for t, run in enumerate(panel.runs)}
        since = {host: number.get(run, -1) for host, run in (accepted or {}).items()}
        of_members = [since.get(member.host, -1) for member in self.members]
        self._begin_member = np.array(of_members, dtype=np.intp)
        self._begin_host = np.array([since.get(name, -1) for name in names], dtype=np.intp)
        #: After the last night: members, and hosts by what they measured with others.
        self.alone: FleetNight | None = None
        self.together: FleetNight | None = None
        #: In which night a member was first unlike its fleet, -1 for never; cases × members, cases × hosts.
        self.unlike_alone: Integers = np.full((len(placed.cases), len(self.members)), -1)
        self.unlike_together: Integers = np.full((len(placed.cases), len(names)), -1)
        #: nights × cases: what each night was for all, by what hosts measured with others.
        self._common: list[Floats] = []
        self._nothing = np.zeros(len(placed.cases))

    def night(self, number: int) -> None:
        """Go on to a night; all before it were gone through."""
        placed = self.placed
        rows = np.arange(*placed.night.searchsorted([number, number + 1]))
        for watch, begin, unlike in (
            (self._alone, self._begin_member, self.unlike_alone),
            (self._together, self._begin_host, self.unlike_together),
        ):
            anew = (self._begin_case == number)[:, None] | (begin == number)
            if anew.any():
                watch.begin_anew(anew)
                unlike[anew] = -1
        alone = rows[self.member[rows] >= 0]
        case, host = placed.case[alone], placed.first_host[placed.place[alone]]
        self._hosts_of_case[case, host] = True
        usable = alone[~self._often_disturbed(alone)]
        usable = usable[(self._hosts_of_case.sum(axis=1) >= MIN_HOSTS)[placed.case[usable]]]
        if len(usable):
            readings = np.full(self.unlike_alone.shape, np.nan)
            readings[placed.case[usable], self.member[usable]] = placed.value[usable]
            self.alone = self._alone.night(number, readings)
            self.unlike_alone[self.alone.unlike & (self.unlike_alone < 0)] = number
        together = rows[self.member[rows] < 0]
        self._common.append(self._night_together(number, together) if len(together) else self._nothing)

    def _night_together(self, number: int, rows: Integers) -> Floats:
        """What several hosts measured together: each host's reading is what is left to it by the others.

        Returns by case what the night was for all.
        """
        placed = self.placed
        shape = len(placed.cases), len(placed.medians.names)
        row, host = placed.hosts_of(rows)
        case = placed.case[rows][row]
        expected = self._expected(case, host)
        total = np.bincount(row, expected, len(rows))
        left = placed.value[rows][row] - (total[row] - expected)
        count, summed = np.zeros((2, *shape))
        np.add.at(count, (case, host), 1)
        np.add.at(summed, (case, host), left)
        readings = np.where(count > 0, summed / np.maximum(count, 1), np.nan)
        self.together = self._together.night(number, readings)
        self.unlike_together[self.together.unlike & (self.unlike_together < 0)] = number
        return self.together.common

    def _expected(self, case: Integers, host: Integers) -> Floats:
        """What hosts add to what is usual, those that are worse with their loss."""
        if self.together is None:
            return np.zeros(len(case))
        level = np.nan_to_num(self.together.level) - np.where(self.together.worse, self.together.step, 0.0)
        floats: Floats = level[case, host]
        return floats

    def _often_disturbed(self, rows: Integers) -> Booleans:
        """Rows that others on the CPUs disturbed, where the case has others tonight."""
        case, disturbed = self.placed.case[rows], self.placed.disturbed[rows]
        cases = len(self.placed.cases)
        few = 2 * np.bincount(case, disturbed, cases) < np.bincount(case, minlength=cases)
        chosen: Booleans = disturbed & few[case]
        return chosen

    def rows_of(self, case: int, member: int) -> Integers:
        """The rows of `placed` of one member and case, up to the last night, the oldest first."""
        chosen = (self.member == member) & (self.placed.case == case)
        return np.flatnonzero(chosen & (self.placed.night < len(self._common)))

    def left(self, since: int) -> NightReadings:
        """Of what several hosts measured together from a night on, what their levels do not explain."""
        placed, together = self.placed, self.together
        rows = np.arange(*placed.night.searchsorted([since, len(self._common)]))
        rows = rows[self.member[rows] < 0]
        row, host = placed.hosts_of(rows)
        case = placed.case[rows]
        value = placed.value[rows]
        if together is not None and len(rows):
            level = np.nan_to_num(together.level)[case[row], host]
            value = value - np.bincount(row, level, len(rows)) - together.centre[case]
            value -= np.array(self._common)[placed.night[rows], case]
        return placed.readings(rows, value)


def fleet_after(panel: Panel) -> FleetNights:
    """What is known after all nights of a panel, where nobody accepted anything."""
    fleet = FleetNights(panel)
    for number in range(len(panel.runs)):
        fleet.night(number)
    return fleet
