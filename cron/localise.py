"""Who is to blame, by the history: which node, pair, switch or rack was there whenever it was slow.

A night measures on the nodes that the scheduler gave it; over the nights it tells the nodes apart (the
published prototype of NPC found its four bad nodes so, by hand). A reading is one case of a benchmark on
one group of hosts in one night: how far its values lie below the usual, as a logarithm. What was measured
again in that night is no reading of its own, for what disturbs a night often lasts until then. Each node,
node as sender or as receiver, pair, switch and rack, each from several nights on, is a hypothesis: its
readings, and only they, are lower. So is everything together from some night on, for which no node is to
blame. The search is that of `npc.statistics.localiser`. What fails is counted instead.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from npc.cron.series import BenchmarkAttempt, Panel, PlacedMedians, case_of, direction
from npc.machine.fabric import Topology, natural
from npc.records.units import plural
from npc.records.verdicts import NightSuspect
from npc.statistics import localiser
from npc.statistics.arrays import Booleans, Floats, Integers
from npc.statistics.distributions import chance_of_failures, normal_quantile, upper_tail
from npc.statistics.localiser import (
    MIN_PARTNERS,
    Effect,
    Explanation,
    Hypotheses,
    Localiser,
    one_ended,
    slow_partners,
)
from npc.statistics.mixture import MIN_NOISE, quantiles, robust_noises, robust_spreads
from npc.statistics.suspect import Role, whom

#: Nights that are looked at, and from which nights on, counted from the last one, somebody may be slow.
WINDOW: Final = 60
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
MOST: Final = 8
#: Two draws of one night that differ by more than this (σ) contradict each other.
DISAGREE: Final = 4.0
#: Of the sizes of one case the lower quartile is taken: a slow link shows at some of them only.
QUANTILE: Final = 0.25
#: Nights in which failures are counted.
FAILING_NIGHTS: Final = 7

#: In which role a node is alone slow, the sender first.
_ROLES: Final[tuple[Role, Role]] = ("sender", "receiver")
#: What may be to blame, the simplest first.
_KINDS: Final = ("node", "link", "switch", "rack", "everything")


class Label(NamedTuple):
    """A hypothesis: what is slow, from which night on, and of a node in which role alone."""

    kind: str
    name: str
    onset: int
    role: Role = ""

    def __str__(self) -> str:
        return self.name if self.kind == _KINDS[-1] else whom(self.kind, self.name, self.role)


class Accusation(NamedTuple):
    """A hypothesis that was taken, with its evidence."""

    case: int
    label: Label
    effect: Effect
    readings: Integers
    rivals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Readings:
    """The readings of all cases, by case and the oldest first: which case, the value (log units, 0 is usual),
    the night, the place, and whether others used the CPUs meanwhile. placed: what they were made of."""

    cases: tuple[str, ...]
    case: Integers
    values: Floats
    nights: Integers
    place: Integers
    disturbed: Booleans
    placed: PlacedMedians

    def hosts(self, reading: int) -> tuple[str, ...]:
        """On which hosts it was measured."""
        place: int = self.place[reading]
        return self.placed.places[place].hosts

    def of(self, cases: Booleans) -> Readings:
        """The readings of some cases."""
        mine = cases[self.case]
        return replace(
            self, case=self.case[mine], values=self.values[mine], nights=self.nights[mine],
            place=self.place[mine], disturbed=self.disturbed[mine],
        )  # fmt: skip

    @property
    def parts(self) -> tuple[Integers, Integers]:
        """Every reading once for each of its hosts, and the host's number."""
        begins, numbers = self.placed.hosts
        first, count = begins[self.place], np.diff(begins)[self.place]
        reading = np.repeat(np.arange(len(self.place)), count)
        return reading, numbers[np.arange(len(reading)) + (first - np.cumsum(count) + count)[reading]]


def suspects(panel: Panel, topology: Topology | None = None) -> tuple[NightSuspect, ...]:
    """Whom the last nights accuse, the strongest evidence first; nobody where nothing is slow.

    Who is accused in several cases of benchmarks is one suspect.
    """
    readings = _readings(panel)
    search = NightLocaliser(readings, topology)
    found: dict[tuple[str, str], list[Accusation]] = defaultdict(list)
    for accusation in sorted(search.accusations(), key=attrgetter("case")):
        found[accusation.label.kind, accusation.label.name].append(accusation)
    tested = max(search.hypotheses.count, 1)
    slow = [_suspect(panel, readings, accused, tested, topology) for accused in found.values()]
    slow.sort(key=lambda each: -each.score)
    for place, each in enumerate(slow):
        grave = each.grave and each.chance <= FALSE_NAME * (place + 1)
        slow[place] = replace(each, grave=grave, named=each.named and grave)
    return tuple(sorted([*failing(panel), *slow], key=lambda each: (not each.named, -each.score))[:MOST])


def failing(panel: Panel) -> list[NightSuspect]:
    """Nodes whose measurements fail more often than by accident, at the rate at which the others' do."""
    runs = panel.runs[-FAILING_NIGHTS:]
    attempts = [attempt for run in runs for attempt in panel.attempts.get(run, ())]
    bad = [(run, attempt) for run in runs for attempt in panel.attempts.get(run, ()) if attempt.failed]
    in_all = Counter(host for attempt in attempts for host in set(attempt.hosts))
    in_bad = Counter(host for _, attempt in bad for host in set(attempt.hosts))
    found = []
    for name in sorted(in_bad, key=natural):
        failed, total = in_bad[name], in_all[name]
        others = len(attempts) - total
        if failed < MIN_READINGS or not others:
            continue
        chance = chance_of_failures(failed, total, len(bad) - failed, others)
        chance = min(chance * len(in_all), 1.0)
        score = normal_quantile(chance / len(in_all))
        if score >= SHOWN_SCORE:
            found.append(_failing_node(name, total, chance, score, bad))
    return found


def _failing_node(
    name: str, total: int, chance: float, score: float, bad: Sequence[tuple[str, BenchmarkAttempt]]
) -> NightSuspect:
    mine = [attempt for _, attempt in bad if name in attempt.hosts]
    everywhere = {host for attempt in mine for host in attempt.hosts if host != name}
    rivals = sorted((host for host in everywhere if all(host in each.hosts for each in mine)), key=natural)
    runs = tuple(dict.fromkeys(run for run, attempt in bad if name in attempt.hosts))
    return NightSuspect(
        kind="node",
        name=name,
        nodes=(name,),
        benchmarks=tuple(dict.fromkeys(attempt.benchmark for attempt in mine)),
        since=runs[0],
        evidence=f"there in {len(mine)} of {len(bad)} failures, failed in {len(mine)} of {total} attempts",
        chance=chance,
        score=score,
        named=chance <= FALSE_NAME and not rivals,
        rivals=tuple(f"node {host}" for host in rivals),
        runs=runs,
    )


def _readings(panel: Panel) -> Readings:
    """Readings of every case whose metric has a better direction, and that was measured on several groups of
    hosts: what was always measured in one place tells nobody from anybody."""
    cases: dict[str, int] = {}
    of_series = np.array(
        [cases.setdefault(case_of(key), len(cases)) if direction(key) else -1 for key in panel.keys],
        dtype=np.intp,
    )
    placed, last = panel.placed, len(panel.runs)
    rows = np.arange(*placed.night.searchsorted([last - WINDOW, last]))
    count = np.bincount(placed.series[rows], minlength=len(of_series))
    often = (count >= 2 * localiser.MIN_READINGS) & (of_series >= 0)
    rows = rows[often[placed.series[rows]]]
    series, values = placed.series[rows], placed.logarithm[rows]
    middle, spread = robust_spreads(values, series, len(of_series))
    spread = np.maximum(spread, MIN_NOISE)
    # One value of a night's draws: their mean; the best where they contradict each other.
    where = placed.night[rows] * len(placed.places) + placed.place[rows]
    first, draw = _groups(series, where)
    best, least = np.full((2, len(first)), [[-np.inf], [np.inf]])
    np.maximum.at(best, draw, values)
    np.minimum.at(least, draw, values)
    series = series[first]
    apart = best - least > DISAGREE * spread[series]
    value = np.where(apart, best, np.bincount(draw, values) / np.bincount(draw))
    of_one, size = _groups(of_series[series], where[first])
    score = (value - middle[series]) / spread[series]
    (low,) = quantiles(score, size, len(of_one), QUANTILE)  # of all sizes
    chosen = rows[first[of_one]]
    case = of_series[placed.series[chosen]]
    (usual,) = quantiles(low, case, len(cases), 0.5)
    (unit,) = quantiles(spread[often], of_series[often], len(cases), 0.5)
    found = Readings(
        tuple(cases),
        case,
        (low - usual[case]) * unit[case],
        placed.night[chosen],
        placed.place[chosen],
        np.bincount(size[draw], placed.disturbed[rows]) > 0,
        placed,
    )
    reading, host = found.parts
    begin, member = _groups(case[reading], host)
    of_host = case[reading[begin]]
    also_without = np.bincount(member) < np.bincount(case)[of_host]
    return found.of(np.bincount(of_host, also_without, len(cases)) > 0)


def _groups(*numbers: Integers) -> tuple[Integers, Integers]:
    """Of elements with several numbers: the first one of each group that has the same, and each one's group;
    ordered by them."""
    code = numbers[0]
    for more in numbers[1:]:
        code = code * (more.max(initial=0) + 1) + more
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return first, group


class NightLocaliser(Localiser):
    """The search among the readings of all cases; hypotheses are what there is, from each onset on."""

    def __init__(self, readings: Readings, topology: Topology | None) -> None:
        self._readings, self._topology = readings, topology
        nights, of_case, parts = readings.nights, readings.case, readings.parts
        last = np.zeros(len(readings.cases), dtype=np.intp)
        np.maximum.at(last, of_case, nights)
        self._onsets = np.maximum(last[:, None] + 1 - np.array(ONSETS)[::-1], 0)
        new = np.diff(self._onsets, prepend=-1) > 0
        things = [np.concatenate(each) for each in zip(*_things(readings, parts, topology), strict=True)]
        found: list[tuple[ArrayLike, ...]] = []
        for onset in range(len(ONSETS)):
            since = new[of_case, onset] & (nights >= self._onsets[of_case, onset])
            reading, kind, number = (each[since[things[0]]] for each in things)
            found += [(reading, kind, 0, onset, number)]
            found += [(mine, 0, role, onset, node) for role, mine, node in _one_role(readings, parts, since)]
        entries = zip(*(np.broadcast_arrays(*each) for each in found), strict=True)
        reading, *what = (np.concatenate(each) for each in entries)
        what = [of_case[reading], *what]
        first, member = _groups(*what)
        told = np.bincount(member) >= MIN_READINGS
        # Of many pairs some are disturbed in one night twice; no node is told from its link by that.
        later = np.bincount(member, nights[reading] > nights[reading[first]][member]) > 0
        told &= (what[1][first] != _KINDS.index("link")) | later
        case, *self._what = (each[first[told]] for each in what)
        kind, role, _, numbers = self._what
        longest, thing = _groups(case, kind, role, numbers)
        self._longest = longest[thing]  # the earliest onset comes first
        mine = told[member]
        hypotheses = Hypotheses.of(
            reading[mine], (np.cumsum(told) - 1)[member[mine]], readings.values, one_role=role > 0, case=case
        )
        noises = robust_noises(readings.values, of_case, len(readings.cases))
        super().__init__(readings.values, of_case, hypotheses, noises, MIN_READINGS)

    def accusations(self) -> Iterable[Accusation]:
        """Whom these readings accuse, of a case the strongest first; everything being slow accuses nobody."""
        for _ in range(MOST):
            findings, healthy = self.best(), []
            if not findings:
                return
            for finding in findings:
                case, label = int(self.hypotheses.case[finding.hypothesis]), self._label(finding.hypothesis)
                if finding.effect.z < SHOWN_SCORE:
                    healthy.append(case)
                    continue
                if label.role and not self._with_several(label, finding):
                    self.allowed[finding.hypothesis] = False
                    continue
                ends = self._slow_ends(finding) if label.kind == "link" else ()
                self.active &= ~finding.inside
                if label.kind != _KINDS[-1]:
                    others = map(self._label, finding.rivals)
                    rivals = dict.fromkeys(
                        (*(str(other) for other in others if other[:2] != label[:2]), *ends)
                    )
                    mine = np.flatnonzero(finding.inside)
                    yield Accusation(case, label, finding.effect, mine, tuple(rivals))
            self.active &= ~np.isin(self.case, healthy)

    def _label(self, index: int) -> Label:
        kind, role, onset, number = (int(each[index]) for each in self._what)
        placed = self._readings.placed
        if kind == 0:
            name = placed.names[number]
        elif kind == 1:
            name = "–".join(placed.links[0][number])
        elif self._topology and _KINDS[kind] != _KINDS[-1]:
            name = self._topology.groups[number].name
        else:
            name = _KINDS[-1]
        since = int(self._onsets[self.hypotheses.case[index], onset])
        return Label(_KINDS[kind], name, since, ("", *_ROLES[::-1])[role])

    def _slow_ends(self, finding: Explanation) -> Iterable[str]:
        """Ends of a link that are half as slow with most others too, in the role that they have in it."""
        told = self._readings.placed.directed[self._readings.place]
        mine = np.flatnonzero(finding.inside)
        since, limit = self._readings.nights[mine].min(), -finding.effect.delta / 2
        alike = self.active & told & (self.case == self.case[mine[0]])
        now = np.flatnonzero(alike & ~finding.inside & (self._readings.nights >= since))
        places = {place for i in mine[told[mine]].tolist() for place in enumerate(self._readings.hosts(i))}
        for end, host in sorted(places):
            others = [i for i in now.tolist() if self._readings.hosts(i)[end] == host]
            if 2 * sum(self.values[others] <= limit) > len(others):
                yield whom("node", host, _ROLES[end])

    def _with_several(self, label: Label, finding: Explanation) -> bool:
        """Whether a node in one role is at least half as slow with enough partners; else it is a link."""
        mine = np.flatnonzero(finding.inside)
        others = [host for i in mine.tolist() for host in self._readings.hosts(i) if host != label.name]
        partners = np.unique(others, return_inverse=True)[1]
        return slow_partners(self.values[mine], partners, -finding.effect.delta / 2) >= MIN_PARTNERS

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
            mine = every[nights[every] == night]
            if np.median(self.values[mine]) > -delta / 2:
                break
            chosen = np.concatenate([chosen, mine])
        return chosen


def _things(
    readings: Readings, parts: tuple[Integers, Integers], topology: Topology | None
) -> Iterable[tuple[Integers, Integers, Integers]]:
    """What may be to blame: readings, the kind, and the number of what of that kind has part in each; nodes,
    pairs, groups of the topology; everything."""

    def of_kind(kind: str, reading: Integers, number: ArrayLike) -> tuple[Integers, Integers, Integers]:
        which = np.full(len(reading), _KINDS.index(kind))
        return reading, which, np.broadcast_to(np.asarray(number, dtype=np.intp), reading.shape)

    reading, host = parts
    yield of_kind("node", reading, host)
    pair = readings.placed.links[1][readings.place]
    pairs = np.flatnonzero(pair >= 0)
    yield of_kind("link", pairs, pair[pairs])
    each, names = _groups(readings.case[reading], host)[0], readings.placed.names
    case, total = readings.case[reading[each]], len(readings.cases)
    for number, group in enumerate(topology.groups if topology else ()):
        below = np.array([topology is not None and topology.name(name) in group.nodes for name in names])
        count = np.bincount(case[below[host[each]]], minlength=total)
        told = (count > 1) & (count < np.bincount(case, minlength=total))
        mine = np.unique(reading[below[host]])
        yield of_kind(group.kind, mine[told[readings.case[mine]]], number)
    yield of_kind(_KINDS[-1], np.arange(len(readings.values)), 0)


def _one_role(
    readings: Readings, parts: tuple[Integers, Integers], since: Booleans
) -> Iterable[tuple[int, Integers, Integers]]:
    """Nodes as receiver (1) and as sender (2): readings, and the node's number."""
    pairs = np.flatnonzero(since & readings.placed.directed[readings.place])
    if not len(pairs):
        return
    reading, host = parts
    begins, numbers = readings.placed.hosts
    names, cases = len(readings.placed.names), len(readings.cases)
    nodes = [numbers[begins[readings.place[pairs]] + end] for end in range(2)]
    sender, receiver = (readings.case[pairs] * names + node for node in nodes)
    total = np.bincount((readings.case[reading] * names + host)[since[reading]], minlength=cases * names)
    every = np.repeat(np.bincount(readings.case[since], minlength=cases), names)
    ends = sender, receiver
    for end, told in enumerate(one_ended(ends, total, every)):
        mine = told[ends[end]]
        yield len(ends) - end, pairs[mine], nodes[end][mine]


def _suspect(
    panel: Panel, readings: Readings, accused: Sequence[Accusation], tested: int, topology: Topology | None
) -> NightSuspect:
    """One suspect of all that it is accused of."""
    main = max(accused, key=lambda each: each.effect.z)
    kind, name = main.label[:2]
    nodes = (name,) if kind == "node" else tuple(name.split("–"))
    if topology and kind in ("switch", "rack"):
        of_case = np.flatnonzero(readings.case == main.case).tolist()
        nodes = topology.below(
            name, sorted({host for i in of_case for host in readings.hosts(i)}, key=natural)
        )
    mine = readings.values[main.readings]
    nights = readings.nights[main.readings]
    slowdown, low, high = main.effect.slowdowns()
    runs = tuple(panel.runs[t] for t in sorted({int(t) for t in nights}))
    below = int((mine < 0).sum())
    slow = int((mine < -main.effect.delta / 2).sum())
    text = (
        f"{readings.cases[main.case]}: lower than usual in {below} of {len(mine)} measurements "
        f"in {plural(len(runs), 'night')}, {main.effect.z:.1f} σ"
    )
    if others := int(readings.disturbed[main.readings].sum()):
        text += f", others used the CPUs in {others} of them"
    return NightSuspect(
        kind=kind,  # type: ignore[arg-type]
        name=name,
        nodes=nodes,
        benchmarks=tuple(dict.fromkeys(readings.cases[each.case] for each in accused)),
        since=runs[0],
        evidence=text,
        chance=min(upper_tail(main.effect.z) * tested, 1.0),
        score=main.effect.z,
        grave=slowdown >= MIN_SLOWDOWN * (2 if main.label.role else 1),
        named=slow >= NAMED_READINGS and not main.rivals,
        slowdown=slowdown,
        low=low,
        high=high,
        rivals=main.rivals,
        runs=runs,
        role=main.label.role,
    )
