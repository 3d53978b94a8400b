"""Who is to blame: from the measurements of pairs to a node, a link, an uplink, a switch or a rack.

A bad node is slow in every pair it is in, or in every one in which it is the client (or the server), so a
few random rounds show it; a bad uplink in every pair that crosses it; a bad link in one pair only, again and
again. The explanation that raises the likelihood most is taken (`npc.statistics.mixture`), its readings are
set aside, and the rest is judged again, until what is left could be healthy. The thresholds are the constants
below; every verdict names them. Slow is a small value, or a large one where ``better="lower"`` (latency).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npc.machine.fabric import Group, Kind, Topology, natural
from npc.npb.suspects import Better, Localisation, PairResult, PairSuspect
from npc.npb.unreachable import FALSE_DEAD, unreachable
from npc.records.units import plural, several
from npc.statistics.distributions import at_least, upper_tail
from npc.statistics.localiser import (
    MAX_SHARE,
    MIN_PARTNERS,
    MIN_READINGS,
    ONE_ROLE,
    Effect,
    Explanation,
    Hypotheses,
    Localiser,
    most_explained,
    one_ended,
    slow_partners,
)
from npc.statistics.mixture import (
    FEW_READINGS,
    MIN_NOISE,
    OUTLIERS,
    SCATTERED,
    NoiseModel,
    cautious_noise,
    fit_noise,
    quantile_by,
)
from npc.statistics.suspect import Role, whom

if TYPE_CHECKING:
    from npc.catalogue.row import Sender
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

#: Two node numbers, the server's first.
Pair = tuple[int, int]
#: A node at one end of its pairs, 0 as server, 1 as client; None: at either.
_Place = tuple[int, int | None]
#: What is said of server and client, by which of them sends.
_ROLES: Final[dict[str, tuple[Role, Role]]] = {
    "": ("server", "client"),
    "client": ("receiver", "sender"),
    "server": ("sender", "receiver"),
}


class _Label(NamedTuple):
    """A hypothesis: what is slow, and of a node the end of its pairs, 0 where it is server, 1 client."""

    kind: Kind
    name: str
    end: int | None = None


#: A distance with fewer readings has no normal that could be known.
_MIN_LEVELLED: Final = 8
#: Measurements kept with a suspect.
_SHOWN: Final = 64

_RULE: Final = (
    f"the first suspect: such evidence in less than {FALSE_ALARM:.1%} of healthy runs, all nodes and "
    f"switches together; further ones: at most {FALSE_SHARE:.0%} of the names wrong; {FALSE_AGAIN:.1%} for "
    "both once the worst pairs were measured again",
    f"slower than the rest by at least {MIN_SLOWDOWN:.1%} (in one role only {2 * MIN_SLOWDOWN:.0%}), "
    f"in at least {MIN_READINGS} measurements; "
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
    sender: Sender = "",
) -> Localisation:
    """What all measurements of one pattern tell, repeated ones among them.

    All values must be of one metric and one message size. `nodes` names those that were never measured
    too; `sender` is who sends the bytes, where one of both does. Measurements made again (`worst_pairs`)
    stand beside the first ones and count the same: a disturbance that has passed is outvoted, a lasting fault
    is confirmed.
    """
    localiser = PairLocaliser(results, better, topology, nodes, sender)
    gone = unreachable(results, localiser.failures)
    suspects = [*gone.suspects, *localiser.slow_groups(), *localiser.slow_links()]
    undecided = localiser.undecided
    if gone.unexplained:
        failed = [f"{result.a}–{result.b} ({result.status})" for result in gone.unexplained]
        undecided.append(
            f"{plural(len(failed), 'pair')} failed too seldom to blame anybody: {several(failed, 3)}"
        )
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

    The pairs of the nodes with the highest scores (`CANDIDATES`, `PAIRS_PER_CANDIDATE`), in the role in which
    they are suspicious; single pairs that were slow (`SLOW_PAIRS`), twice as they were, once the other way;
    and pairs that failed although both nodes answer others. Server first. Give the results of both passes to
    `judge`.
    """
    localiser = PairLocaliser(results, better, topology, (), partners=LINK_READINGS)
    localiser.slow_groups()
    failed = [(result.a, result.b) for result in unreachable(results, localiser.failures).unexplained]
    return [*localiser.suspicious_pairs(), *failed][:most]


class PairLocaliser(Localiser):
    """The search among the usable results of one run; its values are their logarithms, slow is small.

    partners: a node, or a node in one role, that has fewer is no hypothesis.
    """

    def __init__(
        self,
        results: Sequence[PairResult],
        better: Better,
        topology: Topology | None,
        nodes: Iterable[str],
        sender: Sender = "",
        partners: int = MIN_PARTNERS,
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
        self._roles = _ROLES[sender]
        self._partners = partners
        self._repeated = any(result.attempt for result in results)
        number = {name: i for i, name in enumerate(self.names)}
        self._a: Integers = np.array([number[result.a] for result in self.results], np.intp)
        self._b: Integers = np.array([number[result.b] for result in self.results], np.intp)
        self._pairs: list[Pair] = list(zip(self._a.tolist(), self._b.tolist(), strict=True))
        sense = 1.0 if better == "higher" else -1.0
        self._logarithms: Floats = sense * np.log(np.array([result.value for result in self.results], float))
        self._distance = self._distances()
        self._labels: list[_Label] = []
        self._named: list[int] = []
        none = np.zeros(0, dtype=np.intp)
        hypotheses = Hypotheses.of(none, none, self._logarithms, one_role=none.astype(bool))
        super().__init__(self._logarithms, np.zeros(len(self.results), np.intp), hypotheses, None)
        self._level()
        if not self.active.all():
            odd = int((~self.active).sum())
            self.undecided.append(f"{odd} measurements over a distance that few pairs have are not judged")

    @property
    def noise(self) -> NoiseModel | None:
        """Of the readings that no suspect explains; None without any."""
        return self.noises.of(0) if self.noises else None

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
        self.allowed = np.ones(self.hypotheses.count, dtype=bool)
        n = len(self.names)
        met = np.unique(np.concatenate([self._a * n + self._b, self._b * n + self._a])) // max(n, 1)
        self.allowed[:n] = np.bincount(met, minlength=n) >= self._partners
        self.noises = self._first_noise(self.active).alone if self.active.any() else None

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
        start = NoiseModel(location, max(sigma, MIN_NOISE), OUTLIERS, float(len(readings)))
        return fit_noise(readings, start)

    # Nodes, uplinks, switches, racks

    def slow_groups(self) -> list[PairSuspect]:
        """Nodes, uplinks, switches and racks that are slow, the strongest evidence first."""
        found: list[Explanation] = []
        count = np.bincount(self.hypotheses.member, minlength=len(self._labels))
        tested = int((count >= MIN_READINGS).sum())
        while findings := self.best():
            finding = self._group_instead(*findings)
            if not self._with_several(finding):
                self.allowed[finding.hypothesis] = False
                continue
            chance = upper_tail(finding.effect.z) * tested
            # In one role alone by twice as much, which on average over both is the same.
            least = MIN_SLOWDOWN * (1 if self._labels[finding.hypothesis].end is None else 2)
            mild = -math.expm1(-finding.effect.delta) < least
            if chance > self._limit(len(found)) or mild or not self._is_consistent(finding.inside):
                break
            found.append(finding)
            self._named.append(finding.hypothesis)
            self.active = self.active & ~finding.inside
            if len(np.unique(self._distance)) > 1:
                # What is normal for a distance may have been estimated from the suspect's own readings.
                self._level()
        found.sort(key=lambda finding: -finding.effect.z)
        return [self._suspect(finding, tested) for finding in map(self._measured_again, found)]

    def _group_instead(self, finding: Explanation) -> Explanation:
        """The uplink, switch or rack around a suspect, where all of it is far too slow.

        What pairs share is slow by how many of them use it at the time. A shift by one factor explains no
        more of its readings than of those of one node below it, and at that node's shift it explains as much.
        """
        assert self.noise is not None
        limit = self.noise.location - SCATTERED * self.noise.sigma
        most = most_explained(self.active.sum())
        for group in range(self.hypotheses.nodes + self.hypotheses.roles, self.hypotheses.count):
            inside = self.explained_by(group)
            is_wider = inside[finding.inside].all() and finding.inside.sum() < inside.sum() <= most
            if is_wider and self.allowed[group] and (self.values[inside] < limit).all():
                (effect,) = self.effects(inside, self.rest(inside))
                others = tuple(each for each in (finding.hypothesis, *finding.rivals) if each != group)
                return Explanation(group, inside, effect, others)
        return finding

    def _measured_again(self, finding: Explanation) -> Explanation:
        """How slow a suspect is, by the rest that is left when all suspects are known."""
        if self.noise is None or self.active.sum() < MIN_READINGS:
            return finding
        (effect,) = self.effects(finding.inside, self.active)
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

    def _with_several(self, finding: Explanation) -> bool:
        """Whether a node in one role is at least half as slow with enough partners; else it is a link."""
        end = self._labels[finding.hypothesis].end
        if end is None:
            return True
        assert self.noise is not None
        partners = (self._b, self._a)[end][finding.inside]
        limit = self.noise.location - finding.effect.delta / 2
        return slow_partners(self.values[finding.inside], partners, limit) >= self._partners

    def rest(self, inside: Booleans) -> Booleans:
        """What a suspect is compared with: active readings of others that are above suspicion."""
        rest = super().rest(inside)
        clean = rest.copy()
        for node in np.flatnonzero(self._suspicion() >= SUSPICIOUS):
            clean[self.readings_of(int(node))] = False
        return clean if clean.sum() >= MIN_READINGS else rest

    def _suspicion(self) -> Floats:
        """The score of each node, then of each node in one role."""
        assert self.scores is not None
        first = slice(0, self.hypotheses.nodes + self.hypotheses.roles)
        found: Floats = np.sqrt(2 * np.maximum(self.scores.ratio[first] + self.hypotheses.prior[first], 0.0))
        return found

    def _suspect(self, finding: Explanation, tested: int) -> PairSuspect:
        label = self._labels[finding.hypothesis]
        kind, name, end = label
        role: Role = "" if end is None else self._roles[end]
        mine = np.flatnonzero(finding.inside)
        mine = mine[np.argsort(self.values[mine], kind="stable")]
        assert self.noise is not None
        below = int((self.values[mine] < self.noise.location).sum())
        text = f"slower than usual in {below} of {len(mine)} measurements" + (f" as {role}" if role else "")
        if kind == "node":
            text += f", with {len({*self._a[mine], *self._b[mine]}) - 1} nodes"
        text += f", {finding.effect.z:.1f} σ"
        if finding.rivals:
            rivals = [self._in_words(self._labels[i]) for i in finding.rivals]
            text += f"; as well explained by {several(rivals, 3)}"
        topology = None if kind == "node" else self._topology
        nodes = topology.below(name, self.names) if topology else (name,)
        chance = upper_tail(finding.effect.z) * tested
        suspect = PairSuspect(kind=kind, name=name, nodes=nodes, evidence=text, chance=chance, role=role)
        return self._slow(suspect, finding.effect, mine.tolist())

    def _in_words(self, label: _Label) -> str:
        return whom(label.kind, label.name, "" if label.end is None else self._roles[label.end])

    def _place_in_words(self, place: _Place) -> str:
        return self._in_words(_Label("node", self.names[place[0]], place[1])).removeprefix("node ")

    def _slow(self, suspect: PairSuspect, effect: Effect, mine: list[int]) -> PairSuspect:
        """A suspect with its effect; `mine` are its readings, the slowest first."""
        slowdown, low, high = effect.slowdowns(self._better)
        return replace(
            suspect,
            chance=min(suspect.chance, 1.0),
            slowdown=slowdown,
            low=low,
            high=high,
            score=effect.z,
            readings=len(mine),
            measurements=tuple(self.results[i] for i in mine[:_SHOWN]),
        )

    # Links

    def slow_links(self) -> list[PairSuspect]:
        """Pairs that are slow every time, or every time in one direction, although their nodes are not, the
        slowest first."""
        if self.noise is None:
            return []
        slow, readings = self._slow_pairs(self.noise), Counter(compress(self._pairs, self.active))
        suspects, once, doubtful, alone, ill = [], [], [], [], set()
        partners = self._partners_of(readings)
        for ways in self._links(slow, readings):
            bad = [i for way in ways for i in slow[way]]
            bad.sort(key=lambda i: float(self.values[i]))
            one_way = len(ways) == 1 and ways[0][::-1] in readings
            ends = [(node, end) for way in ways for end, node in enumerate(way)]
            if bad_ends := self._ill_ends(ends, bad, slow, partners):
                ill |= bad_ends
                continue
            name = self._link_name(ways[0], one_way)
            if len(bad) < LINK_READINGS:
                once.append(name)
                continue
            noise = self._noise_without(bad)
            if not all(self._is_slow(self.values[bad], noise)):
                continue
            disturbed = self._disturbed(ways, slow, readings)
            chance = len(readings) * at_least(len(bad), len(bad), disturbed) * (ONE_ROLE if one_way else 1)
            if chance > FALSE_LINK:
                doubtful.append(name)
            elif lonely := [place for place in ends if len(partners[place]) == 1]:
                who = ", ".join(map(self._place_in_words, lonely))
                alone.append(f"{name} (or {who}, measured with nobody else)")
            else:
                suspects.append(self._link(ways[0], one_way, bad, chance, noise))
        if once:
            self.undecided.append(
                f"{plural(len(once), 'pair')} slow in the only measurement there is, a bad link or a "
                f"disturbance that has passed: {several(once, 6)}"
            )
        if doubtful:
            self.undecided.append(
                f"{plural(len(doubtful), 'pair')} slow every time, which may be chance among the many "
                f"disturbed measurements: {several(doubtful, 6)}"
            )
        if alone:
            self.undecided.append(f"{plural(len(alone), 'pair')} slow every time: {several(alone, 3)}")
        if ill:
            places = sorted(ill, key=lambda place: (place[0], place[1] or 0))
            names = list(dict.fromkeys(self._place_in_words(place) for place in places))
            self.undecided.append(
                f"slow in most of its pairs, but in too few to be sure: {several(names, 6)}"
            )
        return suspects

    def _links(
        self, slow: Mapping[Pair, Sequence[int]], readings: Mapping[Pair, int]
    ) -> Iterable[tuple[Pair, ...]]:
        """Pairs that are slow every time: both directions, as far as they were measured, or one of them."""
        always = {way for way, bad in slow.items() if len(bad) == readings[way]}
        for way in slow:
            back = way[::-1]
            if way in always and not (back in always and list(slow).index(back) < list(slow).index(way)):
                yield (way, back) if back in always else (way,)

    def _partners_of(self, pairs: Iterable[Pair]) -> dict[_Place, set[int]]:
        """By node and end, and by node (end None), the nodes at the other end."""
        found: dict[_Place, set[int]] = defaultdict(set)
        for a, b in pairs:
            for place, other in (((a, 0), b), ((b, 1), a), ((a, None), b), ((b, None), a)):
                found[place].add(other)
        return found

    def _ill_ends(
        self,
        ends: Sequence[_Place],
        bad: Sequence[int],
        slow: Mapping[Pair, Sequence[int]],
        partners: Mapping[_Place, set[int]],
    ) -> set[_Place]:
        """Ends of a link that are half as slow with most others: no single link is to blame for that."""
        assert self.noise is not None
        half = float(np.mean(self.values[list(bad)]) + self.noise.location) / 2
        as_slow = self._partners_of(way for way, mine in slow.items() if median(self.values[mine]) <= half)
        found: set[_Place] = set()
        for node, end in ends:
            for place, least in (((node, None), MIN_READINGS), ((node, end), LINK_READINGS)):
                count = len(as_slow[place])
                if count >= least and 2 * count > len(partners[place]):
                    found.add(place)
                    break
        return found

    def _disturbed(
        self, ways: Sequence[Pair], slow: Mapping[Pair, Sequence[int]], readings: Mapping[Pair, int]
    ) -> float:
        """How often a measurement of another pair is disturbed, for once, as much as a link is slow."""
        mildest = max(self.values[i] for way in ways for i in slow[way])
        passed = sum(
            int((self.values[bad] <= mildest).sum())
            for other, bad in slow.items()
            if other not in ways and len(bad) < max(readings[other], LINK_READINGS)
        )
        # Two standard deviations above what was seen; the pairs measured again were picked as the worst.
        high = passed + 2 * math.sqrt(passed) + 1
        others = sum(readings.values()) - sum(readings[way] for way in ways)
        return min(high / (others + 1 / PRIOR_DISTURBED), 0.5)

    def _slow_pairs(self, noise: NoiseModel) -> dict[Pair, list[int]]:
        """Slow readings by server and client among the active ones, the slowest first."""
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

    def _link(
        self, way: Pair, one_way: bool, bad: list[int], chance: float, noise: NoiseModel
    ) -> PairSuspect:
        delta = noise.location - float(np.mean(self.values[list(bad)]))
        error = noise.sigma / math.sqrt(len(bad))
        which = "of this direction, not of the other" if one_way else "of it"
        text = f"slow in all {len(bad)} measurements {which}, while its nodes are not slow with others"
        name = self._link_name(way, one_way)
        first = self._first_end() if one_way else 0
        suspect = PairSuspect(
            kind="link",
            name=name,
            nodes=(self.names[way[first]], self.names[way[1 - first]]),
            evidence=text,
            chance=chance,
            role=self._roles[first] if one_way else "",
        )
        return self._slow(suspect, Effect(delta, error, delta / error, noise.readings - 1), bad)

    def _link_name(self, way: Pair, one_way: bool) -> str:
        """``server–client``; of one direction ``sender→receiver``, or ``client→server`` if unknown."""
        if not one_way:
            return "–".join(self.names[node] for node in way)
        first = self._first_end()
        return f"{self.names[way[first]]}→{self.names[way[1 - first]]}"

    def _first_end(self) -> int:
        return 0 if self._roles[0] == "sender" else 1

    # What to measure again, and what cannot be judged

    def suspicious_pairs(self) -> list[tuple[str, str]]:
        """Pairs of suspicious nodes, in the role in which they are; then slow pairs, both ways, and what
        tells whether an end of them is slow with others.

        Server first; slow pairs twice in the direction in which they were.
        """
        if self.noise is None:
            return []
        slow_pairs = self._slow_pairs(self.noise)
        slow, known = list(slow_pairs)[:SLOW_PAIRS], self._partners_of(self._pairs)
        candidates = self._candidates()
        for way in slow:
            # What is grossly slow may scatter so much that no single slowdown fits it.
            for node, end in self._ill_ends([(way[0], 0), (way[1], 1)], slow_pairs[way], slow_pairs, known):
                candidates.setdefault(node, end)
        chosen: dict[Pair, int] = {}
        for node, end in candidates.items():
            mine = np.flatnonzero((self._a == node) | (self._b == node))[: 2 * PAIRS_PER_CANDIDATE]
            partners: dict[int, Pair] = {}
            for way in (self._pairs[i] for i in mine.tolist()):
                other = way[way[0] == node]
                turned = way if end is None else (node, other) if end == 0 else (other, node)
                partners.setdefault(other, turned)
            for way in list(partners.values())[:PAIRS_PER_CANDIDATE]:
                if end is not None or way[::-1] not in chosen:
                    chosen[way] = 1
        for way in slow:
            if way in chosen or way[::-1] in chosen:
                continue
            chosen |= {way: 2, way[::-1]: 1}
            for end, node in enumerate(way):
                others = known[node, None].difference(way) or set(range(len(self.names))).difference(way)
                if len(known[node, end]) == 1 and others:
                    other = min(others)
                    chosen[(node, other) if end == 0 else (other, node)] = 1
        return [(self.names[a], self.names[b]) for (a, b), times in chosen.items() for _ in range(times)]

    def _candidates(self) -> dict[int, int | None]:
        """Nodes to measure again, each as a whole or at one end, the most suspicious first."""
        if self.scores is None:
            return {}
        n = len(self.names)
        suspicion = self._suspicion()
        suspicion[~self.allowed[: len(suspicion)]] = 0.0
        named = [index for index in self._named if n <= index < len(suspicion)]
        aside = ~self.active
        for index in named:
            aside[self.readings_of(index)] = False
        # Who is already named: its readings are set aside, and nobody is more suspicious.
        ends = np.concatenate([self._a[aside], self._b[aside]])
        suspicion[:n][np.bincount(ends, minlength=n) > self.scores.count[:n]] = math.inf
        suspicion[named] = math.inf
        found: dict[int, int | None] = {}
        for index in np.argsort(-suspicion, kind="stable"):
            if suspicion[index] < CANDIDATE_SCORE or len(found) >= min(CANDIDATES, max(n // 2, 1)):
                break
            _, name, end = self._labels[index]
            found.setdefault(self.names.index(name), end)
        return found

    def judged(self, dead: set[str]) -> int:
        """Number of nodes with enough readings for a verdict; the others are undecided, unless dead."""
        count = np.bincount(np.concatenate([self._a, self._b]), minlength=len(self.names))
        most = min(MAX_SHARE * len(self._a), len(self._a) - MIN_READINGS)
        readings = dict(zip(self.names, count.tolist(), strict=True))
        few = [name for name, mine in readings.items() if mine < MIN_READINGS and name not in dead]
        all_over = [name for name, mine in readings.items() if mine >= MIN_READINGS and mine > most]
        if few:
            # of so few nodes all pairs are no more measurements than that
            enough = (
                "more rounds, or --pairs all" if len(self.names) > MIN_READINGS else "it takes more nodes"
            )
            self.undecided.append(
                f"{plural(len(few), 'node')} with fewer than {MIN_READINGS} good measurements cannot be "
                f"judged ({enough}): {several(few, 6)}"
            )
        if all_over:
            self.undecided.append(
                f"in most pairs, so that there is no rest to compare with: {several(all_over, 6)}"
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
        """Nodes, nodes in one role, then what the topology adds; of two that explain the same the simpler one
        comes first."""
        ends, count = (self._a, self._b), len(self._a)
        total = np.bincount(np.concatenate(ends), minlength=len(self.names))

        def by_node(end: int | None, of: Integers) -> list[tuple[_Label, Integers]]:
            order = np.argsort(of, kind="stable") % max(count, 1)
            found = np.split(order, np.cumsum(np.bincount(of, minlength=len(self.names))))
            return [(_Label("node", name, end), mine) for name, mine in zip(self.names, found, strict=False)]

        nodes = by_node(None, np.concatenate(ends))
        told = one_ended(ends, total, count, self._partners)
        roles = [each for end, mine in enumerate(told) for each in compress(by_node(end, ends[end]), mine)]
        found: list[tuple[_Label, Integers]] = []
        for group, below in self._groups():
            # One node alone is that node; all nodes together leave nothing to compare with.
            if not 1 < below.sum() < len(self.names):
                continue
            a, b = below[self._a], below[self._b]
            found.append((_Label(group.kind, group.name), np.flatnonzero(a | b)))
            if group.kind == "switch":
                found.append((_Label("uplink", group.name), np.flatnonzero(a ^ b)))
        found.sort(key=lambda each: ("uplink", "switch", "rack").index(each[0].kind))
        found = [*nodes, *roles, *found]
        self._labels = [label for label, _ in found]
        readings = [mine for _, mine in found]
        return Hypotheses.of(
            np.concatenate([np.zeros(0, dtype=np.intp), *readings]),
            np.repeat(np.arange(len(readings)), [len(mine) for mine in readings]),
            self.values,
            one_role=np.array([label.end is not None for label in self._labels], dtype=bool),
            nodes=len(nodes),
            roles=len(roles),
        )
