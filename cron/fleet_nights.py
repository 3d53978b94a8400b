"""The nodes of a platform as members of one fleet, night by night: the readings of `npc.statistics.fleet`.

A case is what is measured, whatever the size. A member is a node, or one device of it where a series names
the device: one bad GPU of eight is hidden in its node's median. What several nodes measured together is what
is usual for them and the sum of what each adds to it, so that the levels of nodes are known from pairs, too:
`localise_nights` looks at what is left of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Final, NamedTuple

import numpy as np

from npc.cron.night_readings import NightReadings, NightValues, PlacedCases
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


class MemberNights:
    """Members of the fleet in the cases that they measure, and what is known of them after each night."""

    def __init__(
        self,
        members: Sequence[Member],
        cases: Sequence[str],
        measured: Booleans,
        begin_case: Integers,
        begin_host: Mapping[str, int],
    ) -> None:
        """cases: of the panel; measured: which of them these members measure. begin_case: by case, the night
        that its accepted baseline counts from, -1 for none; begin_host: by host, the night from which on its
        state was accepted."""
        #: All of them, in the order of their numbers.
        self.members = members
        #: What they measure, in the order of its numbers: ``stream triad bandwidth``.
        self.cases: Sequence[str] = tuple(compress(cases, measured.tolist()))
        #: By case of the panel, whether these measure it, and its number in `cases` if so.
        self.measured: Booleans = measured
        self.number: Integers = np.cumsum(measured) - 1
        shape = len(self.cases), len(members)
        self._watch = FleetWatch(*shape)
        self._begin_case = begin_case[measured][:, None]
        self._begin_member = np.array([begin_host.get(member.host, -1) for member in members], dtype=np.intp)
        #: After the last night that measured any of this; None before.
        self.known: FleetNight | None = None
        #: In which night a member was first unlike its fleet, -1 for never; cases × members.
        self.unlike_since: Integers = np.full(shape, -1)

    def begin_anew(self, number: int) -> None:
        """Forget the past of those whose state somebody accepted from this night on."""
        anew = (self._begin_case == number) | (self._begin_member == number)
        if anew.any():
            self._watch.begin_anew(anew)
            self.unlike_since[anew] = -1

    def night(self, number: int, case: Integers, member: Integers, value: Floats) -> FleetNight:
        """Judge a night by values, each of a case of the panel and a member; of several of both the mean."""
        shape = self.unlike_since.shape
        place = self.number[case] * shape[1] + member
        count = np.bincount(place, minlength=self.unlike_since.size)
        summed = np.bincount(place, value, self.unlike_since.size)
        readings = np.where(count > 0, summed / np.maximum(count, 1), np.nan).reshape(shape)
        self.known = self._watch.night(number, readings)
        self.unlike_since[self.known.unlike & (self.unlike_since < 0)] = number
        return self.known

    def expected(self, case: Integers, member: Integers) -> Floats:
        """What members add to what is usual in cases of the panel, those that are worse with their loss."""
        if self.known is None:
            return np.zeros(len(case))
        level = np.nan_to_num(self.known.level) - np.where(self.known.worse, self.known.step, 0.0)
        floats: Floats = level[self.number[case], member]
        return floats


class FleetNights:
    """What is known of a platform's nodes, after each night of a panel."""

    def __init__(
        self, panel: Panel, begins: Integers | None = None, accepted: Mapping[str, str] | None = None
    ) -> None:
        """begins: by series, the night that its accepted baseline counts from, -1 for none. accepted: by host
        the name of the night from which on its state was accepted."""
        self._placed = placed = PlacedCases(panel)
        #: What is measured, whatever the size, alone or together.
        self.cases: Sequence[str] = placed.names
        begin_case = np.full(len(placed.names), -1, dtype=np.intp)
        if begins is not None:
            judged = placed.case_of_series >= 0
            np.maximum.at(begin_case, placed.case_of_series[judged], begins[judged])
        number = {run: t for t, run in enumerate(panel.runs)}
        begin_host = {host: number.get(run, -1) for host, run in (accepted or {}).items()}
        hosts = placed.medians.names
        there = placed.alone.any(axis=0)
        #: Hosts × devices: the number of the member, where there is one.
        self._member = np.cumsum(there).reshape(there.shape) - 1
        members = [Member(hosts[h], placed.devices[device]) for h, device in np.argwhere(there).tolist()]
        alone = np.array(placed.alone.any(axis=(1, 2)))
        #: Nodes and devices by what they measured by themselves.
        self.alone = MemberNights(members, placed.names, alone, begin_case, begin_host)
        members = [Member(host, "") for host in hosts]
        #: Nodes by what they measured with others.
        self.together = MemberNights(members, placed.names, placed.together, begin_case, begin_host)
        #: Cases of the panel × hosts: who has measured it alone.
        self._hosts_of_case = np.zeros((len(placed.names), len(hosts)), dtype=bool)
        #: By night, of all values of one member: case and member as one number, and whether disturbed.
        self._alone: list[tuple[Integers, Booleans]] = []
        #: By night, the other values; and by case of `together` what the night was for all.
        self._together: list[NightValues] = []
        self._common: list[Floats] = []

    def night(self, number: int) -> None:
        """Go on to a night; all before it were gone through."""
        for members in (self.alone, self.together):
            members.begin_anew(number)
        sigma = np.zeros(len(self.cases))
        for members in (self.alone, self.together):
            if members.known is not None:
                own = np.flatnonzero(members.measured)
                sigma[own] = np.maximum(sigma[own], members.known.sigma)
        values = self._placed.of_night(number, sigma)
        alone = self._placed.host_count[values.place] == 1
        self._night_alone(number, values.take(alone))
        self._night_together(number, values.take(~alone))

    def _night_alone(self, number: int, values: NightValues) -> None:
        case, host = values.case, self._placed.first_host[values.place]
        member = self._member[host, values.device]
        self._alone.append((self._place(self.alone.number[case], member), values.disturbed))
        self._hosts_of_case[case, host] = True
        usable = ~_often_disturbed(values, len(self.cases))
        usable &= (self._hosts_of_case.sum(axis=1) >= MIN_HOSTS)[case]
        if usable.any():
            self.alone.night(number, case[usable], member[usable], values.value[usable])

    def _night_together(self, number: int, values: NightValues) -> None:
        """What several hosts measured together: each host's reading is what is left to it by the others."""
        self._together.append(values)
        if not len(values.case):
            self._common.append(np.zeros(len(self.together.cases)))
            return
        row, host = self._placed.hosts_of(values.place)
        case = values.case[row]
        expected = self.together.expected(case, host)
        total = np.bincount(row, expected, len(values.case))
        left = values.value[row] - (total[row] - expected)
        self._common.append(self.together.night(number, case, host, left).common)

    def _place(self, case: Integers, member: Integers) -> Integers:
        """Cases and members of `alone` as one number."""
        return case * len(self.alone.members) + member

    def nights_of(self, case: int, member: int) -> tuple[Integers, Booleans]:
        """In which nights a member was measured alone, and in which of these others used its CPUs.

        case, member: numbers in `alone`.
        """
        place = case * len(self.alone.members) + member
        nights = [
            (t, disturbed[row])
            for t, (places, disturbed) in enumerate(self._alone)
            for row in np.flatnonzero(places == place).tolist()
        ]
        return np.array([t for t, _ in nights], dtype=np.intp), np.array(
            [is_so for _, is_so in nights], dtype=bool
        )

    def left(self, since: int) -> NightReadings:
        """Of what several hosts measured together from a night on, what their levels do not explain."""
        since, known = max(since, 0), self.together.known
        of_nights = self._together[since:]
        values = NightValues(*map(np.concatenate, zip(*of_nights, strict=True)))
        nights = since + np.repeat(np.arange(len(of_nights)), [len(values.case) for values in of_nights])
        if known is not None and len(nights):
            row, host = self._placed.hosts_of(values.place)
            case = self.together.number[values.case]
            level = np.nan_to_num(known.level)[case[row], host]
            left = values.value - np.bincount(row, level, len(nights)) - known.centre[case]
            values = values._replace(value=left - np.array(self._common)[nights, case])
        return self._placed.readings(values, nights)


def fleet_after(panel: Panel) -> FleetNights:
    """What is known after all nights of a panel, where nobody accepted anything."""
    fleet = FleetNights(panel)
    for number in range(len(panel.runs)):
        fleet.night(number)
    return fleet


def _often_disturbed(values: NightValues, cases: int) -> Booleans:
    """Which of a night's values others on the CPUs disturbed, where the case has others. cases: of all."""
    few = 2 * np.bincount(values.case, values.disturbed, cases) < np.bincount(values.case, minlength=cases)
    chosen: Booleans = values.disturbed & few[values.case]
    return chosen
