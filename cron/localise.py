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

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from cron.series import Attempt, Panel, case_of, direction
from cron.verdict import NightSuspect
from npc.machine.fabric import natural
from npc.statistics import localiser
from npc.statistics.distributions import chance_of_failures, normal_quantile, upper_tail
from npc.statistics.localiser import MIN_PARTNERS, Hypotheses, Localiser, one_ended, slow_partners
from npc.statistics.mixture import MIN_NOISE, robust_noise
from npc.statistics.suspect import Role, whom

if TYPE_CHECKING:
    from npc.machine.fabric import Topology
    from npc.statistics.arrays import Booleans, Floats, Integers
    from npc.statistics.localiser import Effect, Finding

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

    label: Label
    effect: Effect
    readings: Integers
    rivals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Readings:
    """One case's readings, the oldest first: by reading its value (log units, 0 is usual), its night, its
    hosts, whether these are the sender and the receiver, and whether others used the CPUs meanwhile."""

    case: str
    values: Floats
    nights: Integers
    hosts: tuple[tuple[str, ...], ...]
    directed: Booleans
    disturbed: Booleans


def suspects(panel: Panel, topology: Topology | None = None) -> tuple[NightSuspect, ...]:
    """Whom the last nights accuse, the strongest evidence first; nobody where nothing is slow.

    Who is accused in several cases of benchmarks is one suspect.
    """
    cases = list(_cases(panel))
    localisers = [NightLocaliser(readings, topology) for readings in cases]
    tested = max(sum(search.hypotheses.count for search in localisers), 1)
    found: dict[tuple[str, str], list[tuple[Readings, Accusation]]] = defaultdict(list)
    for readings, search in zip(cases, localisers, strict=True):
        for accusation in search.accusations():
            found[accusation.label.kind, accusation.label.name].append((readings, accusation))
    slow = [_suspect(panel, accused, tested, topology) for accused in found.values()]
    slow.sort(key=lambda each: -each.score)
    for place, each in enumerate(slow):
        grave = each.grave and each.chance <= FALSE_NAME * (place + 1)
        slow[place] = replace(each, grave=grave, named=each.named and grave)
    return tuple(sorted([*failing(panel), *slow], key=lambda each: (not each.named, -each.score))[:MOST])


def failing(panel: Panel) -> list[NightSuspect]:
    """Nodes whose measurements fail more often than by accident, at the rate at which the others' do."""
    recent = set(panel.runs[-FAILING_NIGHTS:])
    attempts = [attempt for attempt in panel.attempts if attempt.run in recent]
    bad = [attempt for attempt in attempts if attempt.failed]
    names = sorted({host for attempt in attempts for host in attempt.hosts}, key=natural)
    found = []
    for name in names:
        mine = [attempt for attempt in bad if name in attempt.hosts]
        total = sum(name in attempt.hosts for attempt in attempts)
        others = len(attempts) - total
        if len(mine) < MIN_READINGS or not others:
            continue
        chance = chance_of_failures(len(mine), total, len(bad) - len(mine), others)
        chance = min(chance * len(names), 1.0)
        score = normal_quantile(chance / len(names))
        if score >= SHOWN_SCORE:
            found.append(_failing_node(name, mine, total, chance, score, bad))
    return found


def _failing_node(
    name: str, mine: Sequence[Attempt], total: int, chance: float, score: float, bad: Sequence[Attempt]
) -> NightSuspect:
    everywhere = {host for attempt in mine for host in attempt.hosts if host != name}
    rivals = sorted((host for host in everywhere if all(host in each.hosts for each in mine)), key=natural)
    runs = tuple(dict.fromkeys(attempt.run for attempt in mine))
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


def _cases(panel: Panel) -> Iterable[Readings]:
    """Readings of every case whose metric has a better direction."""
    members: dict[str, list[int]] = defaultdict(list)
    for s, key in enumerate(panel.keys):
        if direction(key):
            members[case_of(key)].append(s)
    last = len(panel.runs)
    nights = range(max(last - WINDOW, 0), last)
    for case, series in members.items():
        # What was always measured in one place tells nobody from anybody.
        where = {placed.hosts for s in series for t in nights for placed in panel.at(s, t).places}
        if len(set(map(frozenset, where))) < 2:
            continue
        scores: dict[tuple[int, tuple[str, ...], bool], list[float]] = defaultdict(list)
        beside_others = set()
        spreads = []
        for s in series:
            found: dict[tuple[int, tuple[str, ...], bool], list[float]] = defaultdict(list)
            for t in nights:
                for placed in panel.at(s, t).places:
                    found[t, placed.hosts, placed.directed].append(placed.logarithm)
                    if placed.disturbed:
                        beside_others.add((t, placed.hosts, placed.directed))
            values = [value for draws in found.values() for value in draws]
            if len(values) < 2 * localiser.MIN_READINGS:
                continue
            middle = median(values)
            spread = max(1.4826 * median(abs(value - middle) for value in values), MIN_NOISE)
            spreads.append(spread)
            for place, draws in found.items():
                scores[place].append((_of_draws(draws, spread) - middle) / spread)
        read = dict(sorted(scores.items(), key=lambda each: each[0][0]))
        if len({frozenset(hosts) for _, hosts, _ in read}) > 1:
            low = np.array([_lower_quartile(of_place) for of_place in read.values()])
            low = (low - np.median(low)) * float(np.median(spreads))
            when = np.array([t for t, *_ in read], dtype=np.intp)
            sent = np.array([directed for *_, directed in read], dtype=bool)
            disturbed = np.array([place in beside_others for place in read], dtype=bool)
            yield Readings(case, low, when, tuple(hosts for _, hosts, _ in read), sent, disturbed)


def _lower_quartile(values: Sequence[float]) -> float:
    """`QUANTILE` of a few values, between its neighbours (Hyndman and Fan's seventh)."""
    ordered = sorted(values)
    place, part = divmod(QUANTILE * (len(ordered) - 1), 1.0)
    below = ordered[int(place)]
    return below + part * (ordered[int(place) + 1] - below) if part else below


def _of_draws(draws: Sequence[float], spread: float) -> float:
    """One value of a night's draws: their mean; the best where they contradict each other."""
    best = max(draws)
    return best if best - min(draws) > DISAGREE * spread else sum(draws) / len(draws)


class NightLocaliser(Localiser):
    """The search among the readings of one case; hypotheses are what there is, from each onset on."""

    def __init__(self, readings: Readings, topology: Topology | None) -> None:
        self._nights = readings.nights
        things = list(_things(readings, topology))
        last = int(readings.nights.max())
        found: list[tuple[Label, Integers]] = []
        onsets = sorted({max(last + 1 - nights, 0) for nights in ONSETS})
        for onset in onsets:
            found += _one_role(readings, onset)
        for kind, name, mine in things:
            nights = readings.nights[mine]  # ascending, as readings are
            for onset, start in zip(onsets, nights.searchsorted(onsets).tolist(), strict=True):
                # Of many pairs some are disturbed in one night twice; no node is told from its link by that.
                if len(mine) - start >= MIN_READINGS and (kind != "link" or nights[start] < nights[-1]):
                    found.append((Label(kind, name, onset), mine[start:]))
        found.sort(key=lambda each: (_KINDS.index(each[0].kind), each[0].role, each[0].onset))
        self._labels = [label for label, _ in found]
        self._everywhen = {(kind, name, ""): mine for kind, name, mine in things}
        for label, mine in found:
            self._everywhen.setdefault((label.kind, label.name, label.role), mine)
        self._hosts, self._directed = readings.hosts, readings.directed
        hypotheses = Hypotheses.of(
            [chosen for _, chosen in found],
            readings.values,
            one_role=[bool(label.role) for label in self._labels],
        )
        super().__init__(readings.values, hypotheses, robust_noise(readings.values), MIN_READINGS)

    def accusations(self) -> Iterable[Accusation]:
        """Whom these readings accuse, the strongest first; everything being slow accuses nobody."""
        for _ in range(MOST):
            finding = self.best()
            if finding is None or finding.effect.z < SHOWN_SCORE:
                return
            label = self._labels[finding.hypothesis]
            if label.role and not self._with_several(label, finding):
                self.allowed[finding.hypothesis] = False
                continue
            ends = self._slow_ends(finding) if label.kind == "link" else ()
            self.active &= ~finding.inside
            if label.kind != _KINDS[-1]:
                others = (self._labels[i] for i in finding.rivals)
                rivals = dict.fromkeys((*(str(other) for other in others if other[:2] != label[:2]), *ends))
                yield Accusation(label, finding.effect, np.flatnonzero(finding.inside), tuple(rivals))

    def _slow_ends(self, finding: Finding) -> Iterable[str]:
        """Ends of a link that are half as slow with most others too, in the role that they have in it."""
        mine = np.flatnonzero(finding.inside)
        since, limit = self._nights[mine].min(), -finding.effect.delta / 2
        now = np.flatnonzero(self.active & ~finding.inside & (self._nights >= since))
        places = {place for i in mine if self._directed[i] for place in enumerate(self._hosts[i])}
        for end, host in sorted(places):
            others = [i for i in now if self._directed[i] and self._hosts[i][end] == host]
            if 2 * sum(self.values[others] <= limit) > len(others):
                yield whom("node", host, _ROLES[end])

    def _with_several(self, label: Label, finding: Finding) -> bool:
        """Whether a node in one role is at least half as slow with enough partners; else it is a link."""
        mine = np.flatnonzero(finding.inside)
        others = [host for i in mine for host in self._hosts[i] if host != label.name]
        partners = np.unique(others, return_inverse=True)[1]
        return slow_partners(self.values[mine], partners, -finding.effect.delta / 2) >= MIN_PARTNERS

    def readings_of(self, index: int) -> Integers:
        """The readings of a hypothesis, with those of the nights just before that are low as well."""
        assert self.scores is not None
        label, delta = self._labels[index], float(self.scores.delta[index])
        chosen = super().readings_of(index)
        every = self._everywhen[label.kind, label.name, label.role]
        before = np.unique(self._nights[every][self._nights[every] < label.onset])
        for night in before[::-1]:
            mine = every[self._nights[every] == night]
            if np.median(self.values[mine]) > -delta / 2:
                break
            chosen = np.concatenate([chosen, mine])
        return chosen


def _things(readings: Readings, topology: Topology | None) -> Iterable[tuple[str, str, Integers]]:
    """What may be to blame, with the readings it has part in: nodes, pairs, groups; everything.

    Not who has too few: most pairs of a large cluster meet once.
    """
    of_node: dict[str, list[int]] = defaultdict(list)
    of_pair: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, hosts in enumerate(readings.hosts):
        for host in hosts:
            of_node[host].append(number)
        if len(hosts) == 2:
            of_pair[min(hosts), max(hosts)].append(number)
    for host in sorted(of_node, key=natural):
        if len(of_node[host]) >= MIN_READINGS:
            yield "node", host, np.array(of_node[host], dtype=np.intp)
    for pair in sorted(of_pair):
        if len(of_pair[pair]) >= MIN_READINGS:
            yield "link", "–".join(pair), np.array(of_pair[pair], dtype=np.intp)
    for group in topology.groups if topology else ():
        below = [host for host in of_node if topology and topology.name(host) in group.nodes]
        if 1 < len(below) < len(of_node):
            mine = sorted({number for host in below for number in of_node[host]})
            yield group.kind, group.name, np.array(mine, dtype=np.intp)
    yield _KINDS[-1], _KINDS[-1], np.arange(len(readings.values))


def _one_role(readings: Readings, onset: int) -> Iterable[tuple[Label, Integers]]:
    """Nodes as sender and as receiver from a night on, with their readings."""
    since = readings.nights >= onset
    pairs = np.flatnonzero(since & readings.directed)
    if not len(pairs):
        return
    names = sorted({host for i in pairs for host in readings.hosts[i]}, key=natural)
    number = {name: i for i, name in enumerate(names)}
    ends = (
        np.array([[number[host] for host in readings.hosts[i]] for i in pairs], dtype=np.intp)
        .reshape(-1, 2)
        .T
    )
    everywhere = [number[host] for i in np.flatnonzero(since) for host in readings.hosts[i] if host in number]
    total = np.bincount(np.array(everywhere, dtype=np.intp), minlength=len(names))
    for node, end, mine in one_ended((ends[0], ends[1]), total, int(since.sum())):
        yield Label("node", names[node], onset, _ROLES[end]), pairs[mine]


def _suspect(
    panel: Panel, accused: Sequence[tuple[Readings, Accusation]], tested: int, topology: Topology | None
) -> NightSuspect:
    """One suspect of all that it is accused of."""
    readings, main = max(accused, key=lambda each: each[1].effect.z)
    kind, name = main.label[:2]
    nodes = (name,) if kind == "node" else tuple(name.split("–"))
    if topology and kind in ("switch", "rack"):
        nodes = topology.below(name, sorted({host for each in readings.hosts for host in each}, key=natural))
    mine = readings.values[main.readings]
    nights = readings.nights[main.readings]
    slowdown, low, high = main.effect.slowdowns()
    runs = tuple(panel.runs[t] for t in sorted({int(t) for t in nights}))
    below = int((mine < 0).sum())
    slow = int((mine < -main.effect.delta / 2).sum())
    text = (
        f"{readings.case}: lower than usual in {below} of {len(mine)} measurements in {len(runs)} "
        f"night{'s' * (len(runs) > 1)}, {main.effect.z:.1f} σ"
    )
    if others := int(readings.disturbed[main.readings].sum()):
        text += f", others used the CPUs in {others} of them"
    return NightSuspect(
        kind=kind,  # type: ignore[arg-type]
        name=name,
        nodes=nodes,
        benchmarks=tuple(dict.fromkeys(each.case for each, _ in accused)),
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
