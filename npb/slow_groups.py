"""Nodes, uplinks, switches and racks that are slow, by the pairs of one run.

First the levels of all nodes are fitted, and what nodes of this fleet differ by for good is taken off
(`npc.npb.fleet_spread`). Then the explanation that raises the likelihood most is taken
(`npc.statistics.localiser`), its readings are set aside, and the rest is judged again, until what is left
could be healthy. Only what lies beyond the spread of its like is named, and only if readings that were dealt
out to the nodes at random would not look like it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container
from typing import TYPE_CHECKING, Final

import numpy as np

from npc.machine.fabric import Topology
from npc.npb.fleet_spread import FleetSpread, slow_by_chance
from npc.npb.hypotheses import PairHypotheses, PairHypothesis
from npc.npb.pair_readings import PairReadings
from npc.npb.suspects import pair_suspect
from npc.records.pair_verdicts import PairSuspect, SlowNode
from npc.records.units import several
from npc.statistics.distributions import normal_quantile, upper_tail
from npc.statistics.localiser import (
    MIN_PARTNERS,
    MIN_READINGS,
    Explanation,
    Localiser,
    most_explained,
    slow_partners,
)
from npc.statistics.mixture import (
    FEW_READINGS,
    MIN_NOISE,
    OUTLIERS,
    SCATTERED,
    NoiseModel,
    cautious_noises,
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
#: Chance that readings that are dealt out to the nodes at random show anybody as slow; and once the worst
#: pairs, picked as the slowest, have been measured again.
FALSE_EXCHANGE: Final = 0.01
FALSE_EXCHANGE_AGAIN: Final = 0.002
#: So many suspects, none of which is sure alone, may be sure together: nodes of a small cluster.
_MOST_UNSURE: Final = 4
#: Nobody is named for less: healthy nodes differ by as much.
MIN_SLOWDOWN: Final = 0.015

#: A bad node is slow in every pair it is in: in a run of fewer than `FEW_READINGS` readings at most one in
#: eight of a suspect's measurements is not below the usual.
EXCEPTIONS: Final = 8

#: Nodes with this score or more are no part of the rest that another suspect is compared with.
SUSPICIOUS: Final = 4.0
#: A distance with fewer readings has no usual value that could be known.
_MIN_LEVELLED: Final = 8


class GroupSearch(Localiser):
    """The search among the readings of one run; their values are logarithms, slow is small."""

    def __init__(
        self, readings: PairReadings, topology: Topology | None, partners: int = MIN_PARTNERS
    ) -> None:
        """partners: a node, or a node in one role, that has fewer is no hypothesis."""
        self._readings, self._topology, self._partners = readings, topology, partners
        self._most_exchange = FALSE_EXCHANGE_AGAIN if readings.repeated else FALSE_EXCHANGE
        self._number = {name: number for number, name in enumerate(readings.names)}
        self._hypotheses = PairHypotheses(readings, topology, partners)
        self._distance: Integers = self._hypotheses.distances(readings)
        #: Hypotheses that were named, in their order.
        self._named: list[int] = []
        #: Sentences about what the measurements cannot decide.
        self.undecided: list[str] = []
        case = np.zeros(readings.count, np.intp)
        super().__init__(readings.logarithms, case, self._hypotheses.of_values(readings.logarithms), None)
        self._fleet: FleetSpread | None = None
        self._level()
        if not self.active.all():
            odd = int((~self.active).sum())
            self.undecided.append(f"{odd} measurements over a distance that few pairs have are not judged")

    @property
    def noise(self) -> NoiseModel | None:
        """Of the readings that no suspect explains; None without any."""
        return self.noises.of(0) if self.noises else None

    def suspects(self) -> list[PairSuspect]:
        """Nodes, uplinks, switches and racks that are slow, the strongest evidence first."""
        unsure = 0
        count = np.bincount(self.hypotheses.member, minlength=self.hypotheses.count)
        tested = int((count >= MIN_READINGS).sum())
        accepted = self._bad_together(tested)
        while best := self.best():
            explanation = self._group_instead(*best)
            is_beyond = self._may_be_beyond(self._label(explanation), explanation.effect.delta)
            if not is_beyond or not self._is_slow_with_several(explanation):
                self.allowed[explanation.hypothesis] = False
                continue
            chance = upper_tail(explanation.effect.z) * tested
            # In one role alone by twice as much, which on average over both is the same.
            least = MIN_SLOWDOWN * (1 if self._label(explanation).end is None else 2)
            mild = -math.expm1(-explanation.effect.delta) < least
            if (
                chance > self._most_chance(len(accepted))
                or mild
                or not self._is_consistent(explanation.inside)
            ):
                break
            alone = self._chance(explanation.inside, self.active) * len(self._readings.names)
            unsure += alone > self._most_exchange
            if unsure > _MOST_UNSURE:
                break
            accepted.append(explanation)
            self._named.append(explanation.hypothesis)
            self.active = self.active & ~explanation.inside
            if len(np.unique(self._distance)) > 1:
                # What is usual for a distance may have been estimated from the suspect's own readings.
                self._level()
        accepted = self._not_by_chance(accepted)
        accepted.sort(key=lambda explanation: -explanation.effect.z)
        return [self._suspect(self._against_the_rest(explanation), tested) for explanation in accepted]

    def _bad_together(self, tested: int) -> list[Explanation]:
        """Several bad nodes of a small cluster, each against the pairs of none of them. tested: how many
        hypotheses are. One after the other they would hide each other: two of six are in 9 of 15 pairs."""
        readings, fleet = self._readings, self._fleet
        if fleet is None or self.noises is None or readings.count >= FEW_READINGS or fleet.has_slow_groups:
            return []
        bad = np.flatnonzero(fleet.nodes.beyond & self.allowed[: self.hypotheses.nodes])
        clean = self.active & ~np.isin(readings.server, bad) & ~np.isin(readings.client, bad)
        if len(bad) < 2 or clean.sum() < MIN_READINGS:
            return []
        healthy = cautious_noises(self.values[clean], self.case[clean], self.noises)
        accepted: list[Explanation] = []
        for node in bad[np.argsort(-fleet.slowness()[bad])].tolist():
            inside = self.explained_by(node)
            (effect,) = self.effects(inside, clean)
            explanation = Explanation(node, inside, effect, ())
            exceptions = int((self.values[inside] >= healthy.of(0).location).sum())
            if (
                inside.sum() >= MIN_READINGS
                and upper_tail(effect.z) * tested <= self._most_chance(len(accepted))
                and -math.expm1(-effect.delta) >= MIN_SLOWDOWN
                and exceptions <= inside.sum() // EXCEPTIONS
            ):
                accepted.append(explanation)
                self._named.append(node)
                self.active = self.active & ~inside
        if accepted:
            self.noises = healthy
        return accepted

    def slow_as_its_fleet(self, blamed: Container[str]) -> list[SlowNode]:
        """Nodes that are slower than the median node, surely and by `MIN_SLOWDOWN`, and yet as nodes of this
        fleet are; the slowest first. blamed: names of nodes that are suspects already, or below one."""
        fleet, names = self._fleet, self._readings.names
        if fleet is None:
            return []
        slowness, score = fleet.slowness(), fleet.score()
        order = [int(node) for node in np.argsort(-slowness) if not math.isnan(slowness[node])]
        surely = normal_quantile(FALSE_ALARM / max(len(order), 1))
        slow = []
        for rank, node in enumerate(order, start=1):
            share = -math.expm1(-slowness[node])
            if share < MIN_SLOWDOWN:
                break
            is_blamed = names[node] in blamed or fleet.nodes.beyond[node]
            if not is_blamed and score[node] >= surely and self._chance_of_node(node) <= self._most_exchange:
                change = slowness[node] if self._readings.better == "higher" else -slowness[node]
                slow.append(SlowNode(names[node], abs(math.expm1(-change)), rank, len(order)))
        return slow

    def suspicion(self) -> list[tuple[PairHypothesis, float]]:
        """Each node, and each node in one role, with its score; infinite for those that are named.

        Empty before the search.
        """
        if self.scores is None:
            return []
        n = len(self._readings.names)
        suspicion = self._node_scores()
        suspicion[~self.allowed[: len(suspicion)]] = 0.0
        named_in_role = [index for index in self._named if n <= index < len(suspicion)]
        aside = ~self.active
        for index in named_in_role:
            aside[self.readings_of(index)] = False
        # Who is already named: its readings are set aside, and nobody is more suspicious.
        ends = np.concatenate([self._readings.server[aside], self._readings.client[aside]])
        suspicion[:n][np.bincount(ends, minlength=n) > self.scores.count[:n]] = math.inf
        suspicion[named_in_role] = math.inf
        return list(zip(self._hypotheses.labels, suspicion.tolist(), strict=False))  # groups have none

    def rest(self, inside: Booleans) -> Booleans:
        """What a suspect is compared with: active readings of others that are above suspicion."""
        rest = super().rest(inside)
        clean = rest.copy()
        for node in np.flatnonzero(self._node_scores() >= SUSPICIOUS):
            clean[self.readings_of(int(node))] = False
        return clean if clean.sum() >= MIN_READINGS else rest

    def _node_scores(self) -> Floats:
        """The score of each node, then of each node in one role."""
        assert self.scores is not None
        first = slice(0, self.hypotheses.nodes + self.hypotheses.roles)
        scores: Floats = np.sqrt(2 * np.maximum(self.scores.ratio[first] + self.hypotheses.prior[first], 0.0))
        return scores

    def _level(self) -> None:
        """Free the readings of what is usual for their distance, by the active ones; estimate their noise.

        A distance with too few readings to know what is usual is not judged. Rounds are not levelled: every
        node is in every one of them, so a slow round is unfair to none, and a round's median moves with the
        suspects in it.
        """
        distances = np.unique(self._distance)
        self.values = self._readings.logarithms.copy()
        for distance in distances if len(distances) > 1 else ():
            of_distance = self._distance == distance
            if (self.active & of_distance).sum() < _MIN_LEVELLED:
                self.active &= ~of_distance
            else:
                self.values[of_distance] -= self._first_noise(self.active & of_distance).location
        if self._fleet is None and self.active.any():
            groups = self._hypotheses.groups
            self._fleet = FleetSpread(self._readings, groups, self.values, self.active)
        if self._fleet is not None:
            self.values = self.values - self._fleet.of_readings
        self.hypotheses = self._hypotheses.of_values(self.values)
        self.allowed = np.ones(self.hypotheses.count, dtype=bool)
        self.allowed[: self.hypotheses.nodes] = self._readings.partners_by_node >= self._partners
        self.allowed &= np.array([self._may_be_beyond(label) for label in self._hypotheses.labels], bool)
        self.noises = self._first_noise(self.active).alone if self.active.any() else None

    def _first_noise(self, chosen: Booleans) -> NoiseModel:
        """The noise of some readings although many pairs may be slow.

        EM starts from a location that is the median over the nodes of the upper tercile of each node's
        readings, since a bad node spoils all of its own and few of anybody else's, and a half-normal scale
        from the readings above, since faults only slow.
        """
        values = self.values[chosen]
        node = np.concatenate([self._readings.server[chosen], self._readings.client[chosen]])
        twice = np.concatenate([values, values])
        order = np.lexsort((twice, node))
        upper = quantile_by(node[order], twice[order], len(self._readings.names), 2 / 3)
        location = float(np.nanmedian(upper))
        above = values[values >= location] - location
        sigma = 1.4826 * float(np.median(above)) if len(above) else 0.0
        start = NoiseModel(location, max(sigma, MIN_NOISE), OUTLIERS, float(len(values)))
        return fit_noise(values, start)

    def _group_instead(self, explanation: Explanation) -> Explanation:
        """The uplink, switch or rack around a suspect, where all of it is far too slow.

        What pairs share is slow by how many of them use it at the time. A shift by one factor explains no
        more of its readings than of those of one node below it, and at that node's shift it explains as much.
        """
        assert self.noise is not None
        limit = self.noise.location - SCATTERED * self.noise.sigma
        most = most_explained(self.active.sum())
        for group in range(self.hypotheses.nodes + self.hypotheses.roles, self.hypotheses.count):
            inside = self.explained_by(group)
            is_wider = inside[explanation.inside].all() and explanation.inside.sum() < inside.sum() <= most
            if is_wider and self.allowed[group] and (self.values[inside] < limit).all():
                (effect,) = self.effects(inside, self.rest(inside))
                explaining = (explanation.hypothesis, *explanation.rivals)
                rivals = tuple(rival for rival in explaining if rival != group)
                return Explanation(group, inside, effect, rivals)
        return explanation

    def _against_the_rest(self, explanation: Explanation) -> Explanation:
        """An explanation with its slowdown against the rest that is left when all suspects are known."""
        if self.noise is None or self.active.sum() < MIN_READINGS:
            return explanation
        (effect,) = self.effects(explanation.inside, self.active)
        final = explanation.effect._replace(delta=effect.delta, error=effect.error)
        return explanation._replace(effect=final)

    def _most_chance(self, accepted: int) -> float:
        """Step-down (Benjamini and Hochberg, 1995): how improbable the next suspect must be."""
        if self._readings.repeated:
            return FALSE_AGAIN * (accepted + 1)
        return FALSE_SHARE * (accepted + 1) if accepted else FALSE_ALARM

    def _is_consistent(self, inside: Booleans) -> bool:
        """Whether a suspect is slow nearly always; it must be where the noise's shape is hardly known."""
        assert self.noise is not None
        values = self.values[inside]
        exceptions = int((values >= self.noise.location).sum())
        return bool(self.active.sum() >= FEW_READINGS) or exceptions <= len(values) // EXCEPTIONS

    def _may_be_beyond(self, label: PairHypothesis, delta: float = math.inf) -> bool:
        """Whether a suspect that is slower by `delta` is slower than its like are on this machine."""
        if self._fleet is None:
            return True
        if label.kind == "node":
            return self._fleet.is_beyond(self._number[label.name], label.end, delta)
        return self._fleet.is_group_beyond(label.kind, label.name)

    def _not_by_chance(self, accepted: list[Explanation]) -> list[Explanation]:
        """The explanations that readings dealt out at random would not give: each alone, or if none is sure
        alone, all of them together.

        This needs no model of the noise: if nobody is to blame, every reading could as well be anybody's.
        """
        together = np.any([self.active, *(explanation.inside for explanation in accepted)], axis=0)
        choices = math.comb(self.hypotheses.nodes, len(accepted))
        all_chance = choices * self._chance(together & ~self.active, together)
        labels = [self._label(explanation) for explanation in accepted]
        alike = Counter(label.kind for label in self._hypotheses.labels)
        alone = [
            alike[label.kind] * self._chance(explanation.inside, self.active | explanation.inside)
            for label, explanation in zip(labels, accepted, strict=True)
        ]
        if all_chance <= self._most_exchange < min(alone, default=1.0):
            return accepted
        self.undecided += [
            f"{label.whom} is slow, but chance among such readings makes as slow ones"
            for label, chance in zip(labels, alone, strict=True)
            if chance > self._most_exchange
        ]
        return [
            explanation
            for explanation, chance in zip(accepted, alone, strict=True)
            if chance <= self._most_exchange
        ]

    def _chance_of_node(self, node: int) -> float:
        """How improbable a node's readings are among all, all nodes together."""
        values = self._readings.logarithms
        inside = np.zeros(len(values), dtype=bool)
        inside[self.readings_of(node)] = True
        return self.hypotheses.nodes * slow_by_chance(values[inside], values[~inside])

    def _chance(self, inside: Booleans, among: Booleans) -> float:
        """How improbable it is that the readings `inside` are so slow, drawn from those `among` them."""
        return slow_by_chance(self.values[inside], self.values[among & ~inside])

    def _is_slow_with_several(self, explanation: Explanation) -> bool:
        """Whether a node in one role is at least half as slow with enough partners; else it is a link."""
        end = self._label(explanation).end
        if end is None:
            return True
        assert self.noise is not None
        partners = (self._readings.client, self._readings.server)[end][explanation.inside]
        limit = self.noise.location - explanation.effect.delta / 2
        return slow_partners(self.values[explanation.inside], partners, limit) >= self._partners

    def _label(self, explanation: Explanation) -> PairHypothesis:
        return self._hypotheses.labels[explanation.hypothesis]

    def _suspect(self, explanation: Explanation, tested: int) -> PairSuspect:
        """tested: how many hypotheses were."""
        assert self.noise is not None
        label, readings = self._label(explanation), self._readings
        numbers = np.flatnonzero(explanation.inside)
        numbers = numbers[np.argsort(self.values[numbers], kind="stable")]
        below = int((self.values[numbers] < self.noise.location).sum())
        text = f"slower than usual in {below} of {len(numbers)} measurements"
        text += f" as {label.role}" if label.role else ""
        if label.kind == "node":
            text += f", with {len({*readings.server[numbers], *readings.client[numbers]}) - 1} nodes"
        text += f", {explanation.effect.z:.1f} σ"
        if explanation.rivals:
            rivals = [self._hypotheses.labels[rival].whom for rival in explanation.rivals]
            text += f"; as well explained by {several(rivals, 3)}"
        topology = None if label.kind == "node" else self._topology
        return pair_suspect(
            label.kind,
            label.name,
            topology.below(label.name, readings.names) if topology else (label.name,),
            evidence=text,
            chance=upper_tail(explanation.effect.z) * tested,
            measurements=[readings.results[number] for number in numbers],
            readings=len(numbers),
            role=label.role,
            effect=explanation.effect,
            better=readings.better,
        )
