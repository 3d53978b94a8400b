"""Who is to blame: the search for what explains slow readings, of one night's pairs or of many nights.

A hypothesis h (a node, a node in one of its roles, an uplink, a switch, a rack) says that its readings S_h,
and only they, are slower by δ_h. The one that raises the likelihood of the mixture model
(`npc.statistics.mixture`) most is tested against the rest, its readings are set aside, and the next one is
looked for, until what is left could be healthy. Many sets of readings that have nothing to do with each other
(cases) are searched at once.
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

#: A node with fewer readings is not judged, and what remains without a suspect must be as many.
MIN_READINGS: Final = 3
#: A hypothesis that covers more than this share of the readings has nothing left to be compared with.
MAX_SHARE: Final = 2 / 3
#: Explanations whose likelihoods differ by less than this factor are equally good.
EQUALLY_GOOD: Final = 3.0
#: By how much likelier one role alone must be than both: a node that is slow in both alike is called slow in
#: one of them in at most 1 of 100 cases (a likelihood ratio exceeds k with probability 1/k at most).
ONE_ROLE: Final = 100.0
#: With fewer partners in a role, the links to them explain as much.
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
        """δ and its interval as people say it: the share of bandwidth that is missing, or of latency that is
        too much where `better` is ``lower``."""
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
        """From the incidence list in any order, and by hypothesis whether it is of one role alone, and its
        case, if there are several; `values` are all readings."""
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
    """For either end of the pairs, which nodes may be judged by it alone: where that is not all of a node's
    readings and has enough partners.

    ends: by reading of a pair the node at end 0, and that at end 1. total: by node, in how many of all
    `readings` (of its case, where there are several) it is. least: partners.
    """
    count = len(total)
    for own, other in (ends, ends[::-1]):
        mine = np.bincount(own, minlength=count)
        partners = np.bincount(np.unique(own * count + other) // count, minlength=count)
        # Who cannot be compared with a rest as a whole cannot be judged by half.
        yield (mine < total) & (partners >= least) & (total <= MAX_SHARE * np.asarray(readings))


def slow_partners(values: Floats, partners: Integers, limit: float) -> int:
    """With how many partners a node is as slow as `limit`, whatever the number of readings with each."""
    return sum(float(np.median(values[partners == partner])) <= limit for partner in np.unique(partners))


class Localiser:
    """The greedy search. `active` are the readings that no suspect explains yet; clear what is explained.
    `allowed` are the hypotheses that may explain it; clear what turns out to be none.

    case: by reading, which case it is of. noises: of each case. least: readings that a hypothesis needs.
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
        """Of each case the hypothesis that explains most, against the rest; none of a case where none can be
        compared with a rest."""
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
        # The first of those that are equal but for rounding: the simplest one.
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
        """How much hypotheses of the same sort differ on a healthy machine: nodes, or nodes in one role."""
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
        """By case the readings `inside` against the `rest`, whose noise is estimated anew without them.

        The score is the lesser of Student's t on the slowdown and the signed root of the log-likelihood
        ratio: the first knows how little the noise is known and how much nodes differ (`spread`), the second
        that outliers may coincide.
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
    """Of these active readings the most that one hypothesis may explain: the others tell what is usual."""
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

    The nodes' own spread, by the median absolute deviation, where it exceeds σ²/m by three standard
    errors: identical nodes differ by more than noise on most machines, and that is nobody's fault.
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
