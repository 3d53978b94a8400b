"""Who is to blame: from the measurements of pairs to a node, a link, an uplink, a switch or a rack.

A bad node is slow in every pair it is in, so a few random rounds show it; a bad uplink in every pair that
crosses it; a bad link in one pair only, again and again. The explanation that raises the likelihood most
is taken (`npc.statistics.mixture`), its readings are set aside, and the rest is judged again, until what is
left could be healthy. The thresholds are the constants below; every verdict names them. Slow is a small
value, or a large one where ``better="lower"`` (latency).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from npb.suspects import Better, Localisation, PairResult, PairSuspect, some
from npb.unreachable import FALSE_DEAD, unreachable
from npc.machine.fabric import Group, Kind, Topology, natural
from npc.statistics.distributions import at_least, upper_tail
from npc.statistics.localiser import MAX_SHARE, MIN_READINGS, Effect, Finding, Hypotheses, Localiser, test
from npc.statistics.mixture import (
    FEW_READINGS,
    MIN_NOISE,
    UNIFORM,
    NoiseModel,
    cautious_noise,
    fit_noise,
    quantile_by,
)

if TYPE_CHECKING:
    from npc.statistics.arrays import Booleans, Floats, Integers

#: Share of healthy runs in which anybody is named, however many nodes and switches there are.
FALSE_ALARM: Final = 0.005
#: Expected share of wrong names among the suspects that come after the first.
FALSE_SHARE: Final = 0.02
#: Both, once the worst pairs have been measured again: a lasting fault is then far above any threshold.
FALSE_AGAIN: Final = 0.002
#: Nobody is named for less: healthy nodes differ by as much.
MIN_SLOWDOWN: Final = 0.015

#: A bad node is slow in every pair it is in: in a run of fewer than `FEW_READINGS` readings at most one in
#: eight of a suspect's measurements is not below the usual.
EXCEPTIONS: Final = 8

#: A link is slow in every one of at least two measurements…
LINK_READINGS: Final = 2
#: …each by four standard deviations of the noise, and by 5 %.
LINK_SIGMAS: Final = 4.0
LINK_SLOWDOWN: Final = 0.05
#: Chance, over all pairs, that disturbances which pass have hit one as often.
FALSE_LINK: Final = 0.001
#: Fraction of healthy measurements that are disturbed, as far as nothing is known.
PRIOR_DISTURBED: Final = 1 / 300

#: Measured again before judging: nodes with at least this score, how many of them at most, and in how many of
#: their pairs.
CANDIDATE_SCORE: Final = 2.5
CANDIDATES: Final = 16
PAIRS_PER_CANDIDATE: Final = 16
#: Nodes with this score or more are no part of the rest that another suspect is compared with.
SUSPICIOUS: Final = 4.0
#: Slow pairs measured again.
SLOW_PAIRS: Final = 16

#: Two node numbers, the smaller first.
Pair = tuple[int, int]
#: A suspect's kind and name, and the nodes that it affects.
_Whom = tuple[Kind, str, tuple[str, ...]]

#: A distance with fewer readings has no normal that could be known.
_MIN_LEVELLED: Final = 8
#: Measurements kept with a suspect.
_SHOWN: Final = 64

_RULE: Final = (
    f"the first suspect: such evidence in less than {FALSE_ALARM:.1%} of healthy runs, all nodes and "
    f"switches together; further ones: at most {FALSE_SHARE:.0%} of the names wrong; {FALSE_AGAIN:.1%} for "
    "both once the worst pairs were measured again",
    f"slower than the rest by at least {MIN_SLOWDOWN:.1%}, in at least {MIN_READINGS} measurements; "
    f"among fewer than {FEW_READINGS} in all, with one exception in {EXCEPTIONS} at most",
    f"a link: in every one of at least {LINK_READINGS} measurements slower by {LINK_SIGMAS:g} σ and "
    f"{LINK_SLOWDOWN:.0%}, by chance in less than {FALSE_LINK:.1%} of runs",
    f"dead: fails as often by accident in less than {FALSE_DEAD:.0%} of runs",
)


def judge(
    results: Sequence[PairResult],
    *,
    better: Better = "higher",
    topology: Topology | None = None,
    nodes: Iterable[str] = (),
) -> Localisation:
    """What all measurements of one pattern tell, repeated ones among them.

    All values must be of one metric and one message size. `nodes` names those that were never measured
    too. Measurements made again (`worst_pairs`) stand beside the first ones and count the same: a
    disturbance that has passed is outvoted, a lasting fault is confirmed.
    """
    localiser = PairLocaliser(results, better, topology, nodes)
    gone = unreachable(results, localiser.failures)
    suspects = [*gone.suspects, *localiser.slow_groups(), *localiser.slow_links()]
    undecided = localiser.undecided
    if gone.unexplained:
        failed = [f"{result.a}–{result.b} ({result.status})" for result in gone.unexplained]
        undecided.append(f"{_count(failed, 'pair')} failed too seldom to blame anybody: {some(failed, 3)}")
    judged = localiser.judged({suspect.name for suspect in gone.suspects})
    values = [result.value for result in localiser.results if result.value is not None]
    return Localisation(
        better=better,
        nodes=len(localiser.names),
        judged=judged,
        measurements=len(results),
        failed=len(localiser.failures),
        typical=median(values) if values else None,
        noise=localiser.noise.sigma if localiser.noise else None,
        disturbed=localiser.noise.outliers if localiser.noise else None,
        suspects=tuple(suspects),
        undecided=tuple(undecided),
        rule=_RULE,
    )


def worst_pairs(
    results: Sequence[PairResult],
    *,
    better: Better = "higher",
    topology: Topology | None = None,
    most: int = 512,
) -> list[tuple[str, str]]:
    """Pairs to measure once more before judging, at most `most`, the most suspicious first.

    The pairs of the nodes with the highest scores (`CANDIDATES`, `PAIRS_PER_CANDIDATE`), single pairs that
    were slow (`SLOW_PAIRS`), and pairs that failed although both nodes answer others. Roles stay as they
    were. Give the results of both passes to `judge`.
    """
    localiser = PairLocaliser(results, better, topology, ())
    localiser.slow_groups()
    failed = [(result.a, result.b) for result in unreachable(results, localiser.failures).unexplained]
    return list(dict.fromkeys([*localiser.suspicious_pairs(), *failed]))[:most]


class PairLocaliser(Localiser):
    """The search among the usable results of one run; its values are their logarithms, slow is small."""

    def __init__(
        self,
        results: Sequence[PairResult],
        better: Better,
        topology: Topology | None,
        nodes: Iterable[str],
    ) -> None:
        hosts = {result.a for result in results} | {result.b for result in results} | set(nodes)
        self.names = sorted(hosts, key=natural)
        self.results: list[PairResult] = []
        self.failures: list[PairResult] = []
        for result in results:
            (self.results if result.usable else self.failures).append(result)
        self.undecided: list[str] = []
        self._better = better
        self._topology = topology
        self._repeated = any(result.attempt for result in results)
        number = {name: i for i, name in enumerate(self.names)}
        self._a: Integers = np.array([number[result.a] for result in self.results], np.intp)
        self._b: Integers = np.array([number[result.b] for result in self.results], np.intp)
        ends = np.sort([self._a, self._b], axis=0)
        self._pairs: list[Pair] = list(zip(*ends.tolist(), strict=True))
        sense = 1.0 if better == "higher" else -1.0
        self._logarithms: Floats = sense * np.log(np.array([result.value for result in self.results], float))
        self._distance = self._distances()
        self._labels: list[tuple[Kind, str]] = []
        super().__init__(self._logarithms, Hypotheses.of([], self._logarithms), None)
        self._level()
        if not self.active.all():
            odd = int((~self.active).sum())
            self.undecided.append(f"{odd} measurements over a distance that few pairs have are not judged")

    def _level(self) -> None:
        """Free the readings of what is normal for their distance, by the active ones; estimate their noise.

        A distance with too few readings to know its normal is not judged. Rounds are not levelled: every node
        is in every one of them, so a slow round is unfair to none, and a round's median moves with the
        suspects in it.
        """
        distances = np.unique(self._distance)
        self.values = self._logarithms.copy()
        for distance in distances if len(distances) > 1 else ():
            mine = self._distance == distance
            if (self.active & mine).sum() < _MIN_LEVELLED:
                self.active &= ~mine
            else:
                self.values[mine] -= self._first_noise(self.active & mine).location
        self.hypotheses = self._make_hypotheses()
        self.noise = self._first_noise(self.active) if self.active.any() else None

    def _first_noise(self, chosen: Booleans) -> NoiseModel:
        """The noise of some readings although many pairs may be slow.

        EM starts from a location that is the median over the nodes of the upper tercile of each node's
        readings, since a bad node spoils all of its own and few of anybody else's, and a half-normal scale
        from the readings above, since faults only slow.
        """
        readings = self.values[chosen]
        node, both = np.concatenate([self._a[chosen], self._b[chosen]]), np.concatenate([readings, readings])
        order = np.lexsort((both, node))
        upper = quantile_by(node[order], both[order], len(self.names), 2 / 3)
        location = float(np.nanmedian(upper))
        above = readings[readings >= location] - location
        sigma = 1.4826 * float(np.median(above)) if len(above) else 0.0
        start = NoiseModel(location, max(sigma, MIN_NOISE), UNIFORM.prior, float(len(readings)))
        return fit_noise(readings, start)

    # Nodes, uplinks, switches, racks

    def slow_groups(self) -> list[PairSuspect]:
        """Nodes, uplinks, switches and racks that are slow, the strongest evidence first."""
        found: list[Finding] = []
        count = np.bincount(self.hypotheses.member, minlength=len(self._labels))
        tested = int((count >= MIN_READINGS).sum())
        while finding := self.best():
            chance = upper_tail(finding.effect.z) * tested
            mild = -math.expm1(-finding.effect.delta) < MIN_SLOWDOWN
            if chance > self._limit(len(found)) or mild or not self._is_consistent(finding.inside):
                break
            found.append(finding)
            self.active = self.active & ~finding.inside
            if len(np.unique(self._distance)) > 1:
                # What is normal for a distance may have been estimated from the suspect's own readings.
                self._level()
        found.sort(key=lambda finding: -finding.effect.z)
        return [self._suspect(finding, tested) for finding in map(self._measured_again, found)]

    def _measured_again(self, finding: Finding) -> Finding:
        """How slow a suspect is, by the rest that is left when all suspects are known."""
        if self.noise is None or self.active.sum() < MIN_READINGS:
            return finding
        effect = test(self.values, finding.inside, self.active, self.noise)
        return finding._replace(effect=finding.effect._replace(delta=effect.delta, error=effect.error))

    def _limit(self, found: int) -> float:
        """Step-down (Benjamini and Hochberg, 1995): how improbable the next suspect must be."""
        if self._repeated:
            return FALSE_AGAIN * (found + 1)
        return FALSE_SHARE * (found + 1) if found else FALSE_ALARM

    def _is_consistent(self, inside: Booleans) -> bool:
        """Whether a suspect is slow nearly always; asked only where the noise's shape is hardly known."""
        assert self.noise is not None
        readings = self.values[inside]
        exceptions = int((readings >= self.noise.location).sum())
        return bool(self.active.sum() >= FEW_READINGS) or exceptions <= len(readings) // EXCEPTIONS

    def rest(self, inside: Booleans) -> Booleans:
        """What a suspect is compared with: active readings of others that are above suspicion."""
        assert self.scores is not None
        rest = super().rest(inside)
        suspicious = np.sqrt(2 * self.scores.ratio[: len(self.names)]) >= SUSPICIOUS
        clean = rest & ~suspicious[self._a] & ~suspicious[self._b]
        return clean if clean.sum() >= MIN_READINGS else rest

    def _suspect(self, finding: Finding, tested: int) -> PairSuspect:
        kind, name = self._labels[finding.hypothesis]
        mine = np.flatnonzero(finding.inside)
        mine = mine[np.argsort(self.values[mine], kind="stable")]
        assert self.noise is not None
        below = int((self.values[mine] < self.noise.location).sum())
        text = f"slower than usual in {below} of {len(mine)} measurements"
        if kind == "node":
            text += f", with {len({*self._a[mine], *self._b[mine]}) - 1} nodes"
        text += f", {finding.effect.z:.1f} σ"
        if finding.rivals:
            text += f"; as well explained by {some([' '.join(self._labels[i]) for i in finding.rivals], 3)}"
        topology = None if kind == "node" else self._topology
        nodes = topology.below(name, self.names) if topology else (name,)
        chance = upper_tail(finding.effect.z) * tested
        return self._slow((kind, name, nodes), text, chance, finding.effect, mine.tolist())

    def _slow(self, whom: _Whom, text: str, chance: float, effect: Effect, mine: list[int]) -> PairSuspect:
        """A suspect with its effect; `mine` are its readings, the slowest first."""
        kind, name, nodes = whom
        slowdown, low, high = effect.slowdowns(self._better)
        return PairSuspect(
            kind=kind,
            name=name,
            nodes=nodes,
            evidence=text,
            chance=min(chance, 1.0),
            slowdown=slowdown,
            low=low,
            high=high,
            score=effect.z,
            readings=len(mine),
            measurements=tuple(self.results[i] for i in mine[:_SHOWN]),
        )

    # Links

    def slow_links(self) -> list[PairSuspect]:
        """Pairs that are slow every time although their nodes are not, the slowest first."""
        if self.noise is None:
            return []
        slow, readings = self._slow_pairs(self.noise), Counter(compress(self._pairs, self.active))
        suspects, once, doubtful = [], [], []
        ill = self._ill_nodes(slow, readings)
        for pair, bad in slow.items():
            name = f"{self.results[bad[0]].a}–{self.results[bad[0]].b}"
            if ill.intersection(pair) or len(bad) < readings[pair]:
                continue
            if len(bad) < LINK_READINGS:
                once.append(name)
                continue
            noise = self._noise_without(bad)
            if not all(self._is_slow(self.values[bad], noise)):
                continue
            chance = len(readings) * at_least(len(bad), len(bad), self._disturbed(pair, slow, readings))
            if chance <= FALSE_LINK:
                suspects.append(self._link(name, bad, chance, noise))
            else:
                doubtful.append(name)
        if once:
            self.undecided.append(
                f"{_count(once, 'pair')} slow in the only measurement there is, a bad link or a disturbance "
                f"that has passed: {some(once)}"
            )
        if doubtful:
            self.undecided.append(
                f"{_count(doubtful, 'pair')} slow every time, which may be chance among so many disturbed "
                f"measurements: {some(doubtful)}"
            )
        if ill:
            names = [self.names[node] for node in sorted(ill)]
            self.undecided.append(f"slow in most of its pairs, but in too few to be sure: {some(names)}")
        return suspects

    def _ill_nodes(self, slow: Mapping[Pair, Sequence[int]], readings: Mapping[Pair, int]) -> set[int]:
        """Nodes with most of their pairs slow: no single link is to blame for that."""
        bad = Counter(node for pair in slow for node in pair)
        every = Counter(node for pair in readings for node in pair)
        return {node for node, count in bad.items() if count >= MIN_READINGS and 2 * count > every[node]}

    def _disturbed(
        self, pair: Pair, slow: Mapping[Pair, Sequence[int]], readings: Mapping[Pair, int]
    ) -> float:
        """How often a measurement of another pair is disturbed, for once, as much as `pair` is slow."""
        mildest = max(self.values[i] for i in slow[pair])
        passed = sum(
            int((self.values[bad] <= mildest).sum())
            for other, bad in slow.items()
            if other != pair and len(bad) < max(readings[other], LINK_READINGS)
        )
        # Two standard deviations above what was seen; the pairs measured again were picked as the worst.
        high = passed + 2 * math.sqrt(passed) + 1
        return min(high / (sum(readings.values()) - readings[pair] + 1 / PRIOR_DISTURBED), 0.5)

    def _slow_pairs(self, noise: NoiseModel) -> dict[Pair, list[int]]:
        """Slow readings by pair among the active ones, the slowest first."""
        bad = np.flatnonzero(self.active & self._is_slow(self.values, noise))
        slow: dict[Pair, list[int]] = defaultdict(list)
        for i in bad[np.argsort(self.values[bad], kind="stable")].tolist():
            slow[self._pairs[i]].append(i)
        return slow

    def _is_slow(self, readings: Floats, noise: NoiseModel) -> Booleans:
        limit = max(LINK_SIGMAS * noise.sigma, -math.log1p(-LINK_SLOWDOWN))
        return readings - noise.location < -limit

    def _noise_without(self, bad: Sequence[int]) -> NoiseModel:
        """The noise of the others; among many readings these few make no difference."""
        assert self.noise is not None
        others = self.active.copy()
        others[bad] = False
        if others.sum() >= FEW_READINGS:
            return self.noise
        return cautious_noise(self.values[others], self.noise)

    def _link(self, name: str, bad: list[int], chance: float, noise: NoiseModel) -> PairSuspect:
        delta = noise.location - float(np.mean(self.values[list(bad)]))
        error = noise.sigma / math.sqrt(len(bad))
        text = f"slow in all of its {len(bad)} measurements, while its nodes are not slow with others"
        ends = (self.results[bad[0]].a, self.results[bad[0]].b)
        effect = Effect(delta, error, delta / error, noise.readings - 1)
        return self._slow(("link", name, ends), text, chance, effect, bad)

    # What to measure again, and what cannot be judged

    def suspicious_pairs(self) -> list[tuple[str, str]]:
        """Pairs of suspicious nodes, then slow pairs; each once, in the roles they were first measured in."""
        if self.noise is None:
            return []
        n = len(self.names)
        suspicion = np.zeros(n)
        if self.scores is not None:
            suspicion = np.sqrt(2 * self.scores.ratio[:n])
            ends = np.concatenate([self._a[~self.active], self._b[~self.active]])
            # Who is already named: its readings are set aside, and nobody is more suspicious.
            suspicion[np.bincount(ends, minlength=n) > self.scores.count[:n]] = math.inf
        order = np.argsort(-suspicion, kind="stable")[: min(CANDIDATES, max(n // 2, 1))]
        chosen: list[int] = []
        for node in order[suspicion[order] >= CANDIDATE_SCORE]:
            chosen += np.flatnonzero((self._a == node) | (self._b == node))[:PAIRS_PER_CANDIDATE].tolist()
        chosen += [bad[0] for bad in list(self._slow_pairs(self.noise).values())[:SLOW_PAIRS]]
        first: dict[Pair, tuple[str, str]] = {}
        for i in chosen:
            first.setdefault(self._pairs[i], (self.results[i].a, self.results[i].b))
        return list(first.values())

    def judged(self, dead: set[str]) -> int:
        """Number of nodes with enough readings for a verdict; the others are undecided, unless dead."""
        count = np.bincount(np.concatenate([self._a, self._b]), minlength=len(self.names))
        most = min(MAX_SHARE * len(self._a), len(self._a) - MIN_READINGS)
        readings = dict(zip(self.names, count.tolist(), strict=True))
        few = [name for name, mine in readings.items() if mine < MIN_READINGS and name not in dead]
        all_over = [name for name, mine in readings.items() if mine >= MIN_READINGS and mine > most]
        if few:
            self.undecided.append(
                f"{_count(few, 'node')} with fewer than {MIN_READINGS} good measurements cannot be "
                f"judged (more rounds, or --pairs all): {some(few)}"
            )
        if all_over:
            self.undecided.append(
                f"in most pairs, so that there is no rest to compare with: {some(all_over)}"
            )
        return len(self.names) - len(few) - len(all_over)

    # What could be to blame

    def _distances(self) -> Integers:
        """By reading, the level of the lowest switch above both nodes; -1 where the topology knows none."""
        distance = np.full(len(self._a), -1, dtype=np.intp)
        for group, below in sorted(self._groups(), key=lambda each: -each[0].level):  # the lowest last
            if group.kind == "switch":
                distance[below[self._a] & below[self._b]] = group.level
        return distance

    def _groups(self) -> Iterable[tuple[Group, Booleans]]:
        """Each switch and rack with a boolean array of the nodes below it."""
        topology = self._topology or Topology(())
        known = {topology.name(name): i for i, name in enumerate(self.names)}
        for group in topology.groups:
            below = np.zeros(len(self.names), dtype=bool)
            below[[known[node] for node in group.nodes if node in known]] = True
            yield group, below

    def _make_hypotheses(self) -> Hypotheses:
        """Nodes, then what the topology adds; of two that explain the same the simpler one comes first."""
        order = np.argsort(np.concatenate([self._a, self._b]), kind="stable") % max(len(self._a), 1)
        ends = np.cumsum(np.bincount(np.concatenate([self._a, self._b]), minlength=len(self.names)))
        found: list[tuple[Kind, str, Integers]] = [
            ("node", name, mine) for name, mine in zip(self.names, np.split(order, ends), strict=False)
        ]
        for group, below in self._groups():
            # One node alone is that node; all nodes together leave nothing to compare with.
            if not 1 < below.sum() < len(self.names):
                continue
            a, b = below[self._a], below[self._b]
            found.append((group.kind, group.name, np.flatnonzero(a | b)))
            if group.kind == "switch":
                found.append(("uplink", group.name, np.flatnonzero(a ^ b)))
        found.sort(key=lambda each: ("node", "uplink", "switch", "rack").index(each[0]))
        self._labels = [(kind, name) for kind, name, _ in found]
        return Hypotheses.of([mine for *_, mine in found], self.values, len(self.names))


def _count(items: Sequence[str], what: str) -> str:
    return f"{len(items)} {what}{'' if len(items) == 1 else 's'}"
