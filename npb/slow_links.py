"""Links that are slow: pairs that are slow every time although their nodes are not slow with others."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from npc.npb.pair_readings import NodeEnd, NodePair, PairReadings, partners_of
from npc.npb.slow_groups import GroupSearch
from npc.npb.suspects import pair_suspect
from npc.records.pair_verdicts import PairSuspect
from npc.records.units import plural, several
from npc.statistics.distributions import at_least
from npc.statistics.localiser import MIN_READINGS, ONE_ROLE, Effect
from npc.statistics.mixture import FEW_READINGS, NoiseModel, cautious_noise

if TYPE_CHECKING:
    from npc.statistics.arrays import Booleans, Floats

#: A link is slow in every one of at least two measurements…
LINK_READINGS: Final = 2
#: …each by four standard deviations of the noise, and by 5 %.
LINK_SIGMAS: Final = 4.0
LINK_SLOWDOWN: Final = 0.05
#: Chance, over all pairs, that disturbances which pass have hit one as often.
FALSE_LINK: Final = 0.001
#: Fraction of healthy measurements that are disturbed, as far as nothing is known.
PRIOR_DISTURBED: Final = 1 / 300


@dataclass(slots=True)
class _Undecided:
    """Pairs that are slow every time and yet no suspects, by the reason; in words."""

    #: Slow in the only measurement.
    measured_once: list[str] = field(default_factory=list)
    #: Chance among the many measurements that are disturbed.
    by_chance: list[str] = field(default_factory=list)
    #: A node of theirs was measured with nobody else.
    no_other_partner: list[str] = field(default_factory=list)
    #: Nodes that are slow with most others, too.
    slow_ends: set[NodeEnd] = field(default_factory=set)

    def sentences(self, readings: PairReadings) -> list[str]:
        """For people."""
        sentences = []
        if self.measured_once:
            pairs = plural(len(self.measured_once), "pair")
            sentences.append(
                f"{pairs} slow in the only measurement there is, a bad link or a disturbance that has "
                f"passed: {several(self.measured_once, 6)}"
            )
        if self.by_chance:
            pairs = plural(len(self.by_chance), "pair")
            sentences.append(
                f"{pairs} slow every time, which may be chance among the many disturbed measurements: "
                f"{several(self.by_chance, 6)}"
            )
        if self.no_other_partner:
            pairs = plural(len(self.no_other_partner), "pair")
            sentences.append(f"{pairs} slow every time: {several(self.no_other_partner, 3)}")
        if self.slow_ends:
            ends = sorted(self.slow_ends, key=lambda node_end: (node_end.node, node_end.end or 0))
            names = list(dict.fromkeys(map(readings.in_words, ends)))
            sentences.append(f"slow in most of its pairs, but in too few to be sure: {several(names, 6)}")
        return sentences


class LinkSearch:
    """The search among the readings that no node, uplink, switch or rack explains."""

    def __init__(self, readings: PairReadings, values: Floats, active: Booleans, noise: NoiseModel) -> None:
        """values: of all readings, logarithms. active: which of them nothing explains; noise: of these."""
        self._readings, self._values, self._active, self._noise = readings, values, active, noise
        #: By pair, its slow readings, the slowest first.
        self.slow: dict[NodePair, list[int]] = self._slow_pairs()
        self._slow_of_node: dict[int, list[NodePair]] = defaultdict(list)
        for pair in self.slow:
            for node in pair:
                self._slow_of_node[node].append(pair)
        #: By pair, how many readings nothing explains.
        self._count = Counter(compress(readings.pairs, active))

    def suspects(self) -> tuple[list[PairSuspect], list[str]]:
        """Pairs that are slow every time, or every time in one direction, although their nodes are not, the
        slowest first; and sentences about what cannot be decided."""
        suspects, undecided = [], _Undecided()
        partners = partners_of(self._count)
        for directions in self._always_slow():
            numbers = [number for pair in directions for number in self.slow[pair]]
            numbers.sort(key=lambda number: float(self._values[number]))
            one_way = len(directions) == 1 and directions[0][::-1] in self._count
            ends = [NodeEnd(node, end) for pair in directions for end, node in enumerate(pair)]
            if slow_ends := self.slow_with_others(ends, numbers, partners):
                undecided.slow_ends |= slow_ends
                continue
            name = self._readings.link_name(directions[0], one_way)
            if len(numbers) < LINK_READINGS:
                undecided.measured_once.append(name)
                continue
            noise = self._noise_without(numbers)
            if not all(_is_slow(self._values[numbers], noise)):
                continue
            disturbed = self._share_disturbed(directions)
            chance = len(self._count) * at_least(len(numbers), len(numbers), disturbed)
            chance *= ONE_ROLE if one_way else 1
            if chance > FALSE_LINK:
                undecided.by_chance.append(name)
            elif alone := [node_end for node_end in ends if len(partners[node_end]) == 1]:
                ends_in_words = ", ".join(map(self._readings.in_words, alone))
                undecided.no_other_partner.append(f"{name} (or {ends_in_words}, measured with nobody else)")
            else:
                suspects.append(self._suspect(directions[0], one_way, numbers, chance, noise))
        return suspects, undecided.sentences(self._readings)

    def slow_with_others(
        self, ends: Iterable[NodeEnd], numbers: Sequence[int], partners: Mapping[NodeEnd, set[int]]
    ) -> set[NodeEnd]:
        """Ends of a link that are half as slow with most others: no single link is to blame for that.

        numbers: the link's slow readings. partners: by node and end, whom it was measured with.
        """
        half = float(np.mean(self._values[list(numbers)]) + self._noise.location) / 2
        ends = list(ends)
        near = {pair for node, _ in ends for pair in self._slow_of_node[node]}
        as_slow = partners_of(pair for pair in near if median(self._values[self.slow[pair]]) <= half)
        slow_ends: set[NodeEnd] = set()
        for node, end in ends:
            for node_end, least in ((NodeEnd(node, None), MIN_READINGS), (NodeEnd(node, end), LINK_READINGS)):
                count = len(as_slow[node_end])
                if count >= least and 2 * count > len(partners[node_end]):
                    slow_ends.add(node_end)
                    break
        return slow_ends

    def _slow_pairs(self) -> dict[NodePair, list[int]]:
        numbers = np.flatnonzero(self._active & _is_slow(self._values, self._noise))
        slow: dict[NodePair, list[int]] = defaultdict(list)
        for number in numbers[np.argsort(self._values[numbers], kind="stable")].tolist():
            slow[self._readings.pairs[number]].append(number)
        return slow

    def _always_slow(self) -> Iterable[tuple[NodePair, ...]]:
        """Pairs that are slow every time: both directions, as far as they were measured, or one of them."""
        always = [pair for pair, numbers in self.slow.items() if len(numbers) == self._count[pair]]
        done: set[NodePair] = set()
        for pair in always:
            if pair not in done:
                back = pair[::-1]
                directions = (pair, back) if back in always else (pair,)
                done.update(directions)
                yield directions

    def _share_disturbed(self, directions: Sequence[NodePair]) -> float:
        """How often a measurement of another pair is disturbed, for once, half as much as a link is slow."""
        mildest = max(self._values[number] for pair in directions for number in self.slow[pair])
        half = (mildest + self._noise.location) / 2
        passed = sum(
            int((self._values[numbers] <= half).sum())
            for pair, numbers in self.slow.items()
            if pair not in directions and len(numbers) < max(self._count[pair], LINK_READINGS)
        )
        # Two standard deviations above what was counted; the pairs measured again were picked as the worst.
        high = passed + 2 * math.sqrt(passed) + 1
        others = sum(self._count.values()) - sum(self._count[pair] for pair in directions)
        # What is known of other runs counts for less, the more this one contradicts it.
        known = 1 / PRIOR_DISTURBED / (1 + passed) ** 2
        return min(high / (others + known), 0.5)

    def _noise_without(self, numbers: Sequence[int]) -> NoiseModel:
        """The noise of the other readings; among many readings these few make no difference."""
        others = self._active.copy()
        others[numbers] = False
        if others.sum() >= FEW_READINGS:
            return self._noise
        return cautious_noise(self._values[others], self._noise)

    def _suspect(
        self, pair: NodePair, one_way: bool, numbers: Sequence[int], chance: float, noise: NoiseModel
    ) -> PairSuspect:
        readings = self._readings
        delta = noise.location - float(np.mean(self._values[list(numbers)]))
        error = noise.sigma / math.sqrt(len(numbers))
        which = "of this direction, not of the other" if one_way else "of it"
        text = f"slow in all {len(numbers)} measurements {which}, while its nodes are not slow with others"
        first, second = readings.ends_in_direction() if one_way else (0, 1)
        return pair_suspect(
            "link",
            readings.link_name(pair, one_way),
            (readings.names[pair[first]], readings.names[pair[second]]),
            evidence=text,
            chance=chance,
            measurements=[readings.results[number] for number in numbers],
            readings=len(numbers),
            role=readings.role(first) if one_way else "",
            effect=Effect(delta, error, delta / error, noise.readings - 1),
            better=readings.better,
        )


def link_search(readings: PairReadings, search: GroupSearch) -> LinkSearch | None:
    """Among what a search that is done leaves unexplained; None where it leaves nothing."""
    return LinkSearch(readings, search.values, search.active, search.noise) if search.noise else None


def _is_slow(values: Floats, noise: NoiseModel) -> Booleans:
    limit = max(LINK_SIGMAS * noise.sigma, -math.log1p(-LINK_SLOWDOWN))
    return values - noise.location < -limit
