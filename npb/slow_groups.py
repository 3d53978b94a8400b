"""Nodes, uplinks, switches and racks that are slow, by the pairs of one run.

The explanation that raises the likelihood most is taken (`npc.statistics.localiser`), its readings are set
aside, and the rest is judged again, until what is left could be healthy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from npc.machine.fabric import Topology
from npc.npb.hypotheses import PairHypotheses, PairHypothesis
from npc.npb.pair_readings import PairReadings
from npc.npb.suspects import pair_suspect
from npc.records.pair_verdicts import PairSuspect
from npc.records.units import several
from npc.statistics.distributions import upper_tail
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
        self._hypotheses = PairHypotheses(readings, topology, partners)
        self._distance: Integers = self._hypotheses.distances(readings)
        #: Hypotheses that were named, in their order.
        self._named: list[int] = []
        #: Sentences about what the measurements cannot decide.
        self.undecided: list[str] = []
        case = np.zeros(readings.count, np.intp)
        super().__init__(readings.logarithms, case, self._hypotheses.of_values(readings.logarithms), None)
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
        accepted: list[Explanation] = []
        count = np.bincount(self.hypotheses.member, minlength=self.hypotheses.count)
        tested = int((count >= MIN_READINGS).sum())
        while best := self.best():
            explanation = self._group_instead(*best)
            if not self._is_slow_with_several(explanation):
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
            accepted.append(explanation)
            self._named.append(explanation.hypothesis)
            self.active = self.active & ~explanation.inside
            if len(np.unique(self._distance)) > 1:
                # What is usual for a distance may have been estimated from the suspect's own readings.
                self._level()
        accepted.sort(key=lambda explanation: -explanation.effect.z)
        return [self._suspect(self._against_the_rest(explanation), tested) for explanation in accepted]

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
        self.hypotheses = self._hypotheses.of_values(self.values)
        self.allowed = np.ones(self.hypotheses.count, dtype=bool)
        self.allowed[: self.hypotheses.nodes] = self._readings.partners_by_node >= self._partners
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
