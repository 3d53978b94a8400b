"""Who is to blame: the search for what explains slow readings, of one night's pairs or of many nights.

A hypothesis h (a node, a node in one of its roles, an uplink, a switch, a rack) says that its readings S_h,
and only they, are slower by δ_h. The hypothesis that raises the likelihood of the mixture model
(`npc.statistics.mixture`) most is tested against the rest. Then its readings are set aside and the next
hypothesis is searched for, until the readings that are left could be healthy. Many independent sets of
readings (cases) are searched at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npc.statistics.distributions import normal_score, student_quantile
from npc.statistics.mixture import (
    NoiseModel,
    SeriesNoise,
    cautious_noises,
    fit_noises,
    robust_spread,
    slowdowns,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from npc.statistics.arrays import Booleans, Floats, Integers

#: A node with fewer readings is not judged, and at least so many must remain without a suspect.
MIN_READINGS: Final = 3
#: A hypothesis with more than this share of the readings leaves too few to be compared with.
MAX_SHARE: Final = 2 / 3
#: Explanations whose likelihoods differ by less than this factor are equally good.
EQUALLY_GOOD: Final = 3.0
#: A node is called slow in one role alone where that is so many times likelier than in both. A node that is
#: equally slow in both is called so in at most 1 of 100 cases: a likelihood ratio exceeds k with probability
#: 1/k at most.
ONE_ROLE: Final = 100.0
#: With fewer partners in a role, slow links to them explain the readings as well as a slow node does.
MIN_PARTNERS: Final = 3


class Effect(NamedTuple):
    """How much slower the readings of a hypothesis are than the rest, and how sure that is."""

    #: The slowdown δ, in log units: 0.05 is about 5 %.
    delta: float
    #: Standard error of `delta`, in log units.
    error: float
    #: Standard normal score of the evidence.
    z: float
    #: Degrees of freedom of the estimate of the noise; they may be fractional.
    freedom: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of δ by Student's t."""
        margin = self.error * student_quantile((1 + level) / 2, max(self.freedom, 0.5))
        return self.delta - margin, self.delta + margin

    def slowdowns(self, better: str = "higher") -> tuple[float, float, float]:
        """δ and the ends of its interval as shares: of bandwidth that is missing, or where `better` is
        ``lower`` of latency that is too much."""
        deltas = (self.delta, *self.interval())
        if better == "lower":
            slow, low, high = (math.expm1(min(delta, 700.0)) for delta in deltas)
        else:
            slow, low, high = (-math.expm1(-delta) for delta in deltas)
        return slow, low, high


class Explanation(NamedTuple):
    """The hypothesis that explains most readings of one case."""

    #: Its number among the `Hypotheses`.
    hypothesis: int
    #: By reading, whether it explains this one; readings that were explained before are False.
    inside: Booleans
    #: Its readings compared with the rest.
    effect: Effect
    #: Numbers of other hypotheses that are equally good (`EQUALLY_GOOD`); empty if there are none.
    rivals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """What could be to blame, as an incidence list: reading `reading[i]` belongs to hypothesis `member[i]`.

    The list is sorted by hypothesis, then by the reading's value. Of two hypotheses that explain the same
    readings the earlier one is preferred.
    """

    #: Number of hypotheses.
    count: int
    #: So many hypotheses, the first ones, are nodes that differ a little even if they are healthy; 0: that is
    #: not allowed for.
    nodes: int
    #: So many hypotheses after these are nodes in one role, likewise.
    roles: int
    #: By hypothesis, the logarithm of its prior odds.
    prior: Floats
    #: By entry of the list, the number of a reading.
    reading: Integers
    #: By entry of the list, the number of the hypothesis that the reading belongs to; ascending.
    member: Integers
    #: By hypothesis, the case whose readings it is about.
    case: Integers

    @classmethod
    def of(
        cls,
        reading: Integers,
        member: Integers,
        values: Floats,
        *,
        one_role: Booleans,
        case: Integers | None = None,
        nodes: int = 0,
        roles: int = 0,
    ) -> Hypotheses:
        """From an incidence list in any order.

        values: all readings. one_role: by hypothesis, whether it is about one role alone. case: by
        hypothesis, its case; None if there is only one.
        """
        count = len(one_role)
        case = np.zeros(count, dtype=np.intp) if case is None else case
        order = np.lexsort((values[reading], member))
        prior = np.where(one_role, -math.log(ONE_ROLE), 0.0)
        return cls(count, nodes, roles, prior, reading[order], member[order], case)

    def readings_of(self, index: int) -> Integers:
        """Numbers of the readings that belong to one hypothesis."""
        first, last = np.searchsorted(self.member, [index, index + 1])
        return self.reading[first:last]


@dataclass(slots=True)
class LikelihoodRatios:
    """How well each hypothesis explains its active readings; all arrays are by hypothesis."""

    #: Number of active readings.
    count: Integers
    #: Estimated slowdown, in log units; 0 without a reading.
    delta: Floats
    #: Log-likelihood ratio of that slowdown to none; 0 where the readings are not slower.
    ratio: Floats


def one_ended(
    ends: Sequence[Integers], total: Integers, readings: ArrayLike, least: int = MIN_PARTNERS
) -> Iterator[Booleans]:
    """For each end of the pairs, which nodes may be judged by their readings at this end alone: those that
    have readings at the other end too, and enough partners at this one.

    ends: by reading of a pair, the node at end 0 and the node at end 1. total: by node, how many of all
    `readings` (of its case, where there are several) it has. least: smallest number of partners.
    """
    count = len(total)
    for own, other in (ends, ends[::-1]):
        mine = np.bincount(own, minlength=count)
        partners = np.bincount(np.unique(own * count + other) // count, minlength=count)
        # A node with too many of the readings leaves no rest for either of its ends.
        yield (mine < total) & (partners >= least) & (total <= MAX_SHARE * np.asarray(readings))


def slow_partners(values: Floats, partners: Integers, limit: float) -> int:
    """With how many partners a node is as slow as `limit`, by the median of its readings with each of
    them."""
    return sum(float(np.median(values[partners == partner])) <= limit for partner in np.unique(partners))


class Localiser:
    """The greedy search.

    The caller clears two arrays: `active`, by reading, where a suspect explains the reading; `allowed`, by
    hypothesis, where the hypothesis turns out to be no suspect.

    case: by reading, its case. noises: by case. least: smallest number of readings of a hypothesis.
    """

    def __init__(
        self,
        values: Floats,
        case: Integers,
        hypotheses: Hypotheses,
        noises: SeriesNoise | None,
        least: int = MIN_READINGS,
    ) -> None:
        self.values = values
        self.case = case
        self.active: Booleans = np.ones(len(values), dtype=bool)
        self.hypotheses = hypotheses
        self.allowed: Booleans = np.ones(hypotheses.count, dtype=bool)
        self.noises = noises
        self.scores: LikelihoodRatios | None = None
        self._least = least

    def best(self) -> list[Explanation]:
        """The hypothesis of each case that explains most, compared with the rest of the case. A case where
        nothing can be compared with a rest has none."""
        if self.noises is None or not self.active.any():
            return []
        now = self.case[self.active]
        active = np.bincount(now, minlength=len(self.noises.location))
        self.noises = fit_noises(self.values[self.active], now, self.noises, steps=4)
        self.scores = scores = score(self.values, self.case, self.active, self.hypotheses, self.noises)
        case = self.hypotheses.case
        judged = self.allowed & (scores.count >= self._least) & (scores.count <= most_explained(active)[case])
        ratio = np.where(judged, scores.ratio + self.hypotheses.prior, 0.0)
        highest = np.zeros(len(active))
        np.maximum.at(highest, case, ratio)
        # Of those that differ by rounding only the first one, which is the simplest.
        equal = np.flatnonzero((ratio > 0) & (ratio >= highest[case] - 1e-9))
        chosen = equal[np.unique(case[equal], return_index=True)[1]].tolist()
        inside, spread = np.zeros(len(self.values), dtype=bool), np.zeros(len(active))
        for index in chosen:
            inside |= self.explained_by(index)
            spread[case[index]] = self._spread(index, scores)
        effects = self.effects(inside, self.rest(inside), spread)
        limit = np.full(len(active), np.inf)
        limit[case[chosen]] = ratio[chosen] - math.log(EQUALLY_GOOD)
        rivals = np.flatnonzero(ratio >= limit[case])
        return [
            Explanation(
                index,
                inside & (self.case == case[index]),
                effects[case[index]],
                tuple(rival for rival in rivals[case[rivals] == case[index]].tolist() if rival != index),
            )
            for index in chosen
        ]

    def _spread(self, index: int, scores: LikelihoodRatios) -> float:
        """Variance between healthy hypotheses of the same sort: nodes, or nodes in one role
        (`node_spread`)."""
        assert self.noises is not None
        nodes = self.hypotheses.nodes
        for alike in (slice(0, nodes), slice(nodes, nodes + self.hypotheses.roles)):
            if alike.start <= index < alike.stop:
                return node_spread(scores, alike, self.noises.of(self.hypotheses.case[index]))
        return 0.0

    def readings_of(self, index: int) -> Integers:
        """Numbers of the readings that a hypothesis explains."""
        return self.hypotheses.readings_of(index)

    def explained_by(self, index: int) -> Booleans:
        """The active readings that a hypothesis explains."""
        inside = np.zeros(len(self.values), dtype=bool)
        inside[self.readings_of(index)] = True
        return inside & self.active

    def rest(self, inside: Booleans) -> Booleans:
        """What a suspect is compared with."""
        return self.active & ~inside

    def effects(self, inside: Booleans, rest: Booleans, spread: Floats | float = 0.0) -> list[Effect]:
        """By case, the readings `inside` compared with the `rest`, whose noise is estimated again without
        them.

        The score is the smaller one of two: Student's t of the slowdown, which considers how well the noise
        is known and how much nodes differ (`spread`), and the signed root of the log-likelihood ratio, which
        considers that outliers may coincide.
        """
        assert self.noises is not None
        noise = cautious_noises(self.values[rest], self.case[rest], self.noises)
        member = self.case[inside]
        residual = self.values[inside] - noise.location[member]
        order = np.lexsort((residual, member))
        delta, ratio, readings = slowdowns(residual[order], member[order], noise, 10)
        freedom = noise.readings - 1
        error = np.sqrt(noise.sigma**2 * (1 / readings + 1 / np.maximum(noise.readings, 1.0)) + spread)
        z = np.minimum(normal_score(delta / error, freedom), np.sqrt(np.maximum(2 * ratio, 0.0)))
        fields = (field.tolist() for field in (delta, error, z, freedom))
        return [Effect(*row) for row in zip(*fields, strict=True)]


def most_explained(active: Integers) -> Floats:
    """By case, how many of its `active` readings one hypothesis may explain at most: the others show what is
    usual."""
    return np.where(active < 2 * MIN_READINGS, 0.0, np.minimum(MAX_SHARE * active, active - MIN_READINGS))


def score(
    values: Floats,
    case: Integers,
    active: Booleans,
    hypotheses: Hypotheses,
    noises: SeriesNoise,
    steps: int = 5,
) -> LikelihoodRatios:
    """Every hypothesis by itself, on the active readings."""
    keep = active[hypotheses.reading]
    member, reading = hypotheses.member[keep], hypotheses.reading[keep]
    residual = values[reading] - noises.location[case[reading]]
    count = np.bincount(member, minlength=hypotheses.count)
    left = count > 0
    delta, ratio = np.zeros((2, hypotheses.count))
    delta[left], ratio[left], _ = slowdowns(
        residual, (np.cumsum(left) - 1)[member], noises.by(hypotheses.case[left]), steps
    )
    return LikelihoodRatios(count, delta, np.where(delta > 0, np.maximum(ratio, 0.0), 0.0))


def node_spread(scores: LikelihoodRatios, nodes: slice, noise: NoiseModel) -> float:
    """Variance between healthy nodes beyond what the noise of the readings explains (log units squared).

    It is the variance of the nodes' slowdowns, by the median absolute deviation, less the σ²/m of noise; 0 if
    that is below three standard errors. On most machines identical nodes differ by more than noise, and that
    is no fault.
    """
    judged = scores.count[nodes] >= MIN_READINGS
    if judged.sum() < 2 * MIN_READINGS:
        return 0.0
    delta = scores.delta[nodes][judged]
    spread = robust_spread(delta)[1]
    expected = float(np.median(noise.sigma**2 / scores.count[nodes][judged]))
    excess = spread**2 - expected
    # The standard error of a MAD-based variance is 2.33/√n of it.
    return excess if excess > 3 * 2.33 / math.sqrt(len(delta)) * expected else 0.0
