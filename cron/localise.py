"""Who is to blame, by the history: which node, pair, switch or rack was there whenever it was slow.

What a node measures alone is held against its own past and its fleet (`npc.cron.worse_nodes`). What several
measure together sets them apart over the nights (the published prototype of NPC found its four bad nodes so,
by hand): each node, node as sender or as receiver, pair, switch and rack, each from several nights on, is a
hypothesis that its readings, and only they, are lower, beyond what the levels of its nodes explain. So is
everything together from some night on, for which no node is to blame. The search is that of
`npc.statistics.localiser`. What fails is counted instead (`npc.cron.failing_nodes`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from npc.cron.failing_nodes import failing_nodes
from npc.cron.fleet_nights import FleetNights, fleet_after
from npc.cron.night_readings import WINDOW, NightReadings, group_equal
from npc.cron.series import Panel
from npc.cron.worse_nodes import worse_nodes
from npc.machine.fabric import Topology, group_members, natural
from npc.records.units import plural
from npc.records.verdicts import NightSuspect
from npc.statistics.arrays import Booleans, Integers
from npc.statistics.distributions import mean_as_low, upper_tail
from npc.statistics.localiser import (
    MIN_PARTNERS,
    Effect,
    Explanation,
    Hypotheses,
    Localiser,
    one_ended,
    slow_partners,
)
from npc.statistics.mixture import robust_noises
from npc.statistics.suspect import Kind, Role, whom

#: From which nights on, counted from the last one, somebody may be slow.
ONSETS: Final = (1, 2, 3, 7, 14, WINDOW)
#: Named is who has such evidence in fewer healthy nights than this, all hypotheses together; for the second
#: one twice as much, and so on (Benjamini and Hochberg, 1995).
FALSE_NAME: Final = 0.002
#: Nobody is named for less (in one role alone twice as much, which is the same on average over both), or for
#: fewer readings that are nearer to it than to what is usual.
MIN_SLOWDOWN: Final = 0.015
NAMED_READINGS: Final = 3
#: Fewer readings accuse nobody, and so does a lower score.
MIN_READINGS: Final = 2
SHOWN_SCORE: Final = 3.0
#: Suspects of a night at most.
MOST: Final = 8

#: In which role a node is alone slow, by number; 0: in both.
_ROLES: Final[tuple[Role, ...]] = ("", "receiver", "sender")
#: What may be to blame, by number, the simplest first.
_KINDS: Final = ("node", "link", "switch", "rack", "everything")
_LINK: Final = _KINDS.index("link")
_EVERYTHING: Final = "everything"


class NightHypothesis(NamedTuple):
    """What a hypothesis says is slow."""

    #: One of `_KINDS`.
    kind: str
    #: Which one of this kind is slow.
    name: str
    #: The number of the night from which on it is slow.
    onset: int
    #: In which role alone a node is slow; empty: in both.
    role: Role = ""

    def __str__(self) -> str:
        return self.name if self.kind == _EVERYTHING else whom(self.kind, self.name, self.role)


class Accusation(NamedTuple):
    """A hypothesis that was accepted, with its evidence."""

    #: The number of the case whose readings accuse.
    case: int
    #: What is blamed, and since when.
    hypothesis: NightHypothesis
    #: How large the change is, and how sure it is.
    effect: Effect
    #: Numbers of the readings that it explains.
    readings: Integers
    #: What explains them as well, in words.
    rivals: tuple[str, ...]


class _Memberships(NamedTuple):
    """Which readings a component of the machine has part in: an element for each reading of each of them."""

    #: Number of the reading.
    reading: Integers
    #: What it is, by its number in `_KINDS`.
    kind: Integers
    #: Which one of that kind: a host, a pair of hosts, a group of the topology.
    number: Integers


def localise_nights(
    panel: Panel, topology: Topology | None = None, fleet: FleetNights | None = None
) -> tuple[NightSuspect, ...]:
    """Whom the last nights accuse: what became worse than it was, the surest and gravest first; nobody where
    nothing did.

    fleet: of all nights of the panel; None: it is made here. Who is accused in several cases of benchmarks is
    one suspect.
    """
    fleet = fleet or fleet_after(panel)
    alone = worse_nodes(panel, fleet, topology)
    readings = fleet.left(len(panel.runs) - WINDOW)
    search = NightLocaliser(readings, topology)
    accusations: dict[tuple[str, str], list[Accusation]] = defaultdict(list)
    for accusation in sorted(search.accusations(), key=attrgetter("case")):
        accusations[accusation.hypothesis.kind, accusation.hypothesis.name].append(accusation)
    tested = max(search.hypotheses.count, 1)
    slow = [_suspect(panel, readings, of_one, tested, topology) for of_one in accusations.values()]
    slow.sort(key=lambda suspect: -suspect.score)
    for rank, suspect in enumerate(slow):
        grave = suspect.grave and suspect.chance <= FALSE_NAME * (rank + 1)
        slow[rank] = replace(suspect, grave=grave, named=suspect.named and grave)
    suspects = [*failing_nodes(panel, SHOWN_SCORE, FALSE_NAME), *alone]
    known = {(suspect.kind, suspect.name) for suspect in alone if suspect.named}
    suspects += [suspect for suspect in slow if (suspect.kind, suspect.name) not in known]
    return tuple(sorted(suspects, key=lambda suspect: (not suspect.named, -suspect.score))[:MOST])


class NightLocaliser(Localiser):
    """The search among the readings of all cases; hypotheses are all components, from each onset on."""

    def __init__(self, readings: NightReadings, topology: Topology | None) -> None:
        self._readings, self._topology = readings, topology
        nights, of_case, by_host = readings.nights, readings.case, readings.by_host
        last = np.zeros(len(readings.cases), dtype=np.intp)
        np.maximum.at(last, of_case, nights)
        #: By case and onset, the number of the night.
        self._onsets = np.maximum(last[:, None] + 1 - np.array(ONSETS)[::-1], 0)
        new = np.diff(self._onsets, prepend=-1) > 0
        components = _components(readings, by_host, topology)
        columns: list[tuple[ArrayLike, ...]] = []  # reading, kind, role, onset, number
        for onset in range(len(ONSETS)):
            since = new[of_case, onset] & (nights >= self._onsets[of_case, onset])
            reading, kind, number = (column[since[components.reading]] for column in components)
            columns.append((reading, kind, 0, onset, number))
            in_one_role = _in_one_role(readings, by_host, since)
            columns += [(own, 0, role, onset, node) for role, own, node in in_one_role]
        broadcast = zip(*(np.broadcast_arrays(*part) for part in columns), strict=True)
        reading, *names = (np.concatenate(column) for column in broadcast)
        # Elements with the same case, kind, role, onset and number are one hypothesis.
        names = [of_case[reading], *names]
        first, member = group_equal(*names)
        enough = np.bincount(member) >= MIN_READINGS
        # Of many pairs some are disturbed in one night twice; that does not set a node apart from its link.
        in_later_nights = np.bincount(member, nights[reading] > nights[reading[first]][member]) > 0
        enough &= (names[1][first] != _LINK) | in_later_nights
        case, *names = (column[first[enough]] for column in names)
        #: By hypothesis, the numbers of its kind, role and onset, and of what it is about.
        self._kind, self._role, self._onset, self._number = names
        longest, component = group_equal(case, self._kind, self._role, self._number)
        #: By hypothesis, the one about the same with the earliest onset.
        self._longest = longest[component]  # the earliest onset comes first
        member_enough = enough[member]
        hypotheses = Hypotheses.of(
            reading[member_enough],
            (np.cumsum(enough) - 1)[member[member_enough]],
            readings.values,
            one_role=self._role > 0,
            case=case,
        )
        noises = robust_noises(readings.values, of_case, len(readings.cases))
        super().__init__(readings.values, of_case, hypotheses, noises, MIN_READINGS)

    def accusations(self) -> Iterable[Accusation]:
        """Whom these readings accuse, of a case the strongest first; everything being slow accuses nobody."""
        for _ in range(MOST):
            explanations, healthy_cases = self.best(), []
            if not explanations:
                return
            for explanation in explanations:
                case = int(self.hypotheses.case[explanation.hypothesis])
                hypothesis = self._hypothesis(explanation.hypothesis)
                if explanation.effect.z < SHOWN_SCORE:
                    healthy_cases.append(case)
                    continue
                if hypothesis.role and not self._is_slow_with_several(hypothesis, explanation):
                    self.allowed[explanation.hypothesis] = False
                    continue
                slow_ends = self._slow_ends(explanation) if hypothesis.kind == "link" else ()
                self.active &= ~explanation.inside
                if hypothesis.kind != _EVERYTHING:
                    others = map(self._hypothesis, explanation.rivals)
                    rivals = [str(other) for other in others if other[:2] != hypothesis[:2]]
                    yield Accusation(
                        case,
                        hypothesis,
                        explanation.effect,
                        np.flatnonzero(explanation.inside),
                        tuple(dict.fromkeys((*rivals, *slow_ends))),
                    )
            self.active &= ~np.isin(self.case, healthy_cases)

    def _hypothesis(self, index: int) -> NightHypothesis:
        kind, number = _KINDS[self._kind[index]], int(self._number[index])
        placed = self._readings.placed
        if kind == "node":
            name = placed.names[number]
        elif kind == "link":
            name = "–".join(placed.links[0][number])
        elif self._topology and kind != _EVERYTHING:
            name = self._topology.groups[number].name
        else:
            name = _EVERYTHING
        since = int(self._onsets[self.hypotheses.case[index], self._onset[index]])
        return NightHypothesis(kind, name, since, _ROLES[self._role[index]])

    def _slow_ends(self, explanation: Explanation) -> Iterable[str]:
        """Ends of a link that are half as slow with most others too, in the role that they have in it."""
        directed = self._readings.placed.directed[self._readings.place]
        own = np.flatnonzero(explanation.inside)
        since, limit = self._readings.nights[own].min(), -explanation.effect.delta / 2
        alike = self.active & directed & (self.case == self.case[own[0]])
        compared = np.flatnonzero(alike & ~explanation.inside & (self._readings.nights >= since))
        ends = {end for i in own[directed[own]].tolist() for end in enumerate(self._readings.hosts(i))}
        for end, host in sorted(ends):
            others = [i for i in compared.tolist() if self._readings.hosts(i)[end] == host]
            if 2 * sum(self.values[others] <= limit) > len(others):
                yield whom("node", host, ("sender", "receiver")[end])

    def _is_slow_with_several(self, hypothesis: NightHypothesis, explanation: Explanation) -> bool:
        """Whether a node in one role is at least half as slow with enough partners; else it is a link."""
        own = np.flatnonzero(explanation.inside)
        others = [host for i in own.tolist() for host in self._readings.hosts(i) if host != hypothesis.name]
        partners = np.unique(others, return_inverse=True)[1]
        return slow_partners(self.values[own], partners, -explanation.effect.delta / 2) >= MIN_PARTNERS

    def readings_of(self, index: int) -> Integers:
        """The readings of a hypothesis, with those of the nights just before that are low as well."""
        assert self.scores is not None
        chosen = super().readings_of(index)
        longest = int(self._longest[index])
        if longest == index:
            return chosen
        nights, delta = self._readings.nights, float(self.scores.delta[index])
        every = super().readings_of(longest)
        before = np.unique(nights[every][nights[every] < nights[chosen].min()])
        for night in before[::-1]:
            of_night = every[nights[every] == night]
            if np.median(self.values[of_night]) > -delta / 2:
                break
            chosen = np.concatenate([chosen, of_night])
        return chosen


def _components(
    readings: NightReadings, by_host: tuple[Integers, Integers], topology: Topology | None
) -> _Memberships:
    """What may be to blame: nodes, pairs, groups of the topology; everything."""
    # kind, numbers of the readings, and by reading the component's number
    parts: list[tuple[str, Integers, Integers]] = []
    reading, host = by_host
    parts.append(("node", reading, host))
    pair = readings.placed.links[1][readings.place]
    pairs = np.flatnonzero(pair >= 0)
    parts.append(("link", pairs, pair[pairs]))
    first = group_equal(readings.case[reading], host)[0]  # each host of a case once
    case, cases = readings.case[reading[first]], len(readings.cases)
    for number, (group, below) in enumerate(group_members(topology, readings.placed.names)):
        count = np.bincount(case[below[host[first]]], minlength=cases)
        # One node alone is that node; all nodes together leave nothing to compare with.
        comparable = (count > 1) & (count < np.bincount(case, minlength=cases))
        own = np.unique(reading[below[host]])
        parts.append((group.kind, own[comparable[readings.case[own]]], np.array(number)))
    parts.append((_EVERYTHING, np.arange(len(readings.values)), np.array(0)))
    return _Memberships(
        np.concatenate([own for _, own, _ in parts]),
        np.concatenate([np.full(len(own), _KINDS.index(kind)) for kind, own, _ in parts]),
        np.concatenate([np.broadcast_to(numbers, own.shape) for _, own, numbers in parts]),
    )


def _in_one_role(
    readings: NightReadings, by_host: tuple[Integers, Integers], since: Booleans
) -> Iterable[tuple[int, Integers, Integers]]:
    """Nodes as sender and as receiver: the role's number in `_ROLES`, readings, and by reading the node's.

    since: by reading, whether it is looked at.
    """
    pairs = np.flatnonzero(since & readings.placed.directed[readings.place])
    if not len(pairs):
        return
    reading, host = by_host
    begins, numbers = readings.placed.hosts
    names, cases = len(readings.placed.names), len(readings.cases)
    nodes = [numbers[begins[readings.place[pairs]] + end] for end in range(2)]
    # A node of one case has a number of its own.
    ends = [readings.case[pairs] * names + node for node in nodes]
    total = np.bincount((readings.case[reading] * names + host)[since[reading]], minlength=cases * names)
    in_case = np.repeat(np.bincount(readings.case[since], minlength=cases), names)
    for role, node, end, judged in zip(
        ("sender", "receiver"), nodes, ends, one_ended(ends, total, in_case), strict=True
    ):
        own = judged[end]
        yield _ROLES.index(cast(Role, role)), pairs[own], node[own]


def _suspect(
    panel: Panel,
    readings: NightReadings,
    accusations: Sequence[Accusation],
    tested: int,
    topology: Topology | None,
) -> NightSuspect:
    """One suspect of all accusations of it. tested: how many hypotheses were."""
    main = max(accusations, key=lambda accusation: accusation.effect.z)
    kind, name = main.hypothesis[:2]
    nodes = (name,) if kind == "node" else tuple(name.split("–"))
    if topology and kind in ("switch", "rack"):
        of_case = np.flatnonzero(readings.case == main.case).tolist()
        hosts = sorted({host for i in of_case for host in readings.hosts(i)}, key=natural)
        nodes = topology.below(name, hosts)
    values, nights = readings.values[main.readings], readings.nights[main.readings]
    slowdown, low, high = main.effect.slowdowns()
    runs = tuple(panel.runs[night] for night in sorted(set(nights.tolist())))
    below = int((values < 0).sum())
    slow = int((values < -main.effect.delta / 2).sum())
    # Healthy readings are anybody's, whatever the noise: the chance to draw ones as low from the others.
    others = np.setdiff1d(np.flatnonzero(readings.case == main.case), main.readings)
    drawn = mean_as_low(values, readings.values[others], main.effect.delta)
    text = (
        f"{readings.cases[main.case]}: lower than usual in {below} of {len(values)} measurements "
        f"in {plural(len(runs), 'night')}, {main.effect.z:.1f} σ"
    )
    if disturbed := int(readings.disturbed[main.readings].sum()):
        text += f", others used the CPUs in {disturbed} of them"
    cases = (readings.cases[accusation.case] for accusation in accusations)
    return NightSuspect(
        kind=cast(Kind, kind),
        name=name,
        nodes=nodes,
        benchmarks=tuple(dict.fromkeys(cases)),
        since=runs[0],
        evidence=text,
        chance=min(max(upper_tail(main.effect.z), drawn) * tested, 1.0),
        score=main.effect.z,
        grave=slowdown >= MIN_SLOWDOWN * (2 if main.hypothesis.role else 1),
        named=slow >= NAMED_READINGS and not main.rivals,
        slowdown=slowdown,
        low=low,
        high=high,
        rivals=main.rivals,
        runs=runs,
        role=main.hypothesis.role,
    )
