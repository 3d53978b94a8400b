"""Who is to blame: the search for what explains slow readings, of one night's pairs or of many nights.

A hypothesis h (a node, a node in one of its roles, an uplink, a switch, a rack) says that its readings S_h,
and only they, are slower by δ_h. The one that raises the likelihood of the mixture model
(`npc.statistics.mixture`) most is tested against the rest, its readings are set aside, and the next one is
looked for, until what is left could be healthy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npc.statistics.distributions import normal_score, student_quantile
from npc.statistics.mixture import NoiseModel, cautious_noise, fit_noise, robust_spread, slowdowns

if TYPE_CHECKING:
    from npc.statistics.arrays import Booleans, Floats, Integers

#: A node with fewer readings is not judged, and what remains without a suspect must be as many.
MIN_READINGS: Final = 3
#: A hypothesis that covers more than this share of the readings has nothing left to be compared with.
MAX_SHARE: Final = 2 / 3
#: Explanations whose likelihoods differ by less than this factor are equally good.
EQUALLY_GOOD: Final = 3.0
#: By how much likelier one role alone must be than both: a node that is slow in both alike is called slow in
#: one of them in at most 1 of so many cases (a likelihood ratio exceeds k with probability 1/k at most).
ONE_ROLE: Final = 100.0
#: With fewer partners in a role, the links to them explain as much.
MIN_PARTNERS: Final = 3


class Effect(NamedTuple):
    """A hypothesis against the rest: slowdown δ and its standard error (log units), and the evidence.

    z: standard normal score of the evidence. freedom: degrees of freedom of the noise estimate.
    """

    delta: float
    error: float
    z: float
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


class Finding(NamedTuple):
    """A hypothesis that explains most: its number, its readings, the effect, and what explains as much."""

    hypothesis: int
    inside: Booleans
    effect: Effect
    rivals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """What could be to blame, as an incidence list: reading `reading[i]` belongs to hypothesis `member[i]`.

    count: number of hypotheses. nodes, roles: of these the first are the nodes and then nodes in one role,
    if the spread among them is to be allowed for. prior: logarithm of the prior odds of each. Of two that
    explain the same readings the earlier one is preferred. Sorted by hypothesis, then by the reading's value.
    """

    count: int
    nodes: int
    roles: int
    prior: Floats
    reading: Integers
    member: Integers

    @classmethod
    def of(
        cls,
        readings: Sequence[Integers],
        values: Floats,
        *,
        one_role: Sequence[bool] = (),
        nodes: int = 0,
        roles: int = 0,
    ) -> Hypotheses:
        """From the numbers of the readings of each hypothesis, and whether it is of one role alone; `values`
        are all readings."""
        member = np.repeat(np.arange(len(readings)), [len(each) for each in readings])
        reading = np.concatenate([np.zeros(0, dtype=np.intp), *readings])
        order = np.lexsort((values[reading], member))
        prior = np.zeros(len(readings))
        prior[np.flatnonzero(one_role)] = -math.log(ONE_ROLE)
        return cls(len(readings), nodes, roles, prior, reading[order], member[order])

    def readings_of(self, index: int) -> Integers:
        """Numbers of the readings that belong to one hypothesis."""
        first, last = np.searchsorted(self.member, [index, index + 1])
        return self.reading[first:last]


@dataclass(slots=True)
class Scores:
    """By hypothesis: readings, estimated slowdown (log units), log-likelihood ratio (0 if not slower)."""

    count: Integers
    delta: Floats
    ratio: Floats


class End(NamedTuple):
    """A node at one end of its pairs: end 0 or 1, and the numbers of the readings."""

    node: int
    end: int
    readings: Integers


def one_ended(
    ends: Sequence[Integers], total: Integers, readings: int, least: int = MIN_PARTNERS
) -> Iterator[End]:
    """Nodes at one end of their pairs, where that is not all of a node's readings and has enough partners.

    ends: by reading of a pair the node at end 0, and that at end 1. total: by node, in how many of all
    `readings` it is. least: partners.
    """
    count = len(total)
    for end, (own, other) in enumerate((ends, ends[::-1])):
        mine = np.bincount(own, minlength=count)
        partners = np.bincount(np.unique(own * count + other) // count, minlength=count)
        # Who cannot be compared with a rest as a whole cannot be judged by half.
        told = (mine < total) & (partners >= least) & (total <= MAX_SHARE * readings)
        of_node = np.split(np.argsort(own, kind="stable"), np.cumsum(mine)[:-1])
        yield from (End(node, end, of_node[node]) for node in np.flatnonzero(told).tolist())


def slow_partners(values: Floats, partners: Integers, limit: float) -> int:
    """With how many partners a node is as slow as `limit`, whatever the number of readings with each."""
    return sum(float(np.median(values[partners == each])) <= limit for each in np.unique(partners))


class Localiser:
    """The greedy search. `active` are the readings that no suspect explains yet; clear what is explained.
    `allowed` are the hypotheses that may explain it; clear what turns out to be none.

    least: readings that a hypothesis needs.
    """

    def __init__(
        self, values: Floats, hypotheses: Hypotheses, noise: NoiseModel | None, least: int = MIN_READINGS
    ) -> None:
        self.values = values
        self.active: Booleans = np.ones(len(values), dtype=bool)
        self.hypotheses = hypotheses
        self.allowed: Booleans = np.ones(hypotheses.count, dtype=bool)
        self.noise = noise
        self.scores: Scores | None = None
        self._least = least

    def best(self) -> Finding | None:
        """The hypothesis that explains most, against the rest; None if none can be compared with a rest."""
        active = int(self.active.sum())
        if self.noise is None or active < 2 * MIN_READINGS:
            return None
        self.noise = fit_noise(self.values[self.active], self.noise, steps=4)
        self.scores = scores = score(self.values, self.active, self.hypotheses, self.noise)
        most = min(MAX_SHARE * active, active - MIN_READINGS)
        judged = self.allowed & (scores.count >= self._least) & (scores.count <= most)
        ratio = np.where(judged, scores.ratio + self.hypotheses.prior, 0.0)
        if ratio.max(initial=0.0) <= 0:
            return None
        # The first of those that are equal but for rounding: the simplest one.
        index = int(np.flatnonzero(ratio >= ratio.max() - 1e-9)[0])
        inside = np.zeros(len(self.values), dtype=bool)
        inside[self.readings_of(index)] = True
        inside &= self.active
        effect = test(self.values, inside, self.rest(inside), self.noise, self._spread(index, scores))
        rivals = np.flatnonzero(ratio >= ratio[index] - math.log(EQUALLY_GOOD)).tolist()
        return Finding(index, inside, effect, tuple(rival for rival in rivals if rival != index))

    def _spread(self, index: int, scores: Scores) -> float:
        """How much hypotheses of the same sort differ on a healthy machine: nodes, or nodes in one role."""
        assert self.noise is not None
        nodes = self.hypotheses.nodes
        for alike in (slice(0, nodes), slice(nodes, nodes + self.hypotheses.roles)):
            if alike.start <= index < alike.stop:
                return node_spread(scores, alike, self.noise)
        return 0.0

    def readings_of(self, index: int) -> Integers:
        """Numbers of the readings that a hypothesis explains."""
        return self.hypotheses.readings_of(index)

    def rest(self, inside: Booleans) -> Booleans:
        """What a suspect is compared with."""
        return self.active & ~inside


def score(
    values: Floats, active: Booleans, hypotheses: Hypotheses, noise: NoiseModel, steps: int = 5
) -> Scores:
    """Every hypothesis by itself, on the active readings."""
    keep = active[hypotheses.reading]
    member = hypotheses.member[keep]
    residual = values[hypotheses.reading[keep]] - noise.location
    delta, ratio, _ = slowdowns(residual, member, hypotheses.count, noise, steps)
    count = np.bincount(member, minlength=hypotheses.count)
    return Scores(count, delta, np.where(delta > 0, np.maximum(ratio, 0.0), 0.0))


def node_spread(scores: Scores, nodes: slice, noise: NoiseModel) -> float:
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


def test(values: Floats, inside: Booleans, rest: Booleans, noise: NoiseModel, spread: float = 0.0) -> Effect:
    """The readings `inside` against the `rest`, whose noise is estimated anew without them.

    The score is the lesser of Student's t on the slowdown and the signed root of the log-likelihood
    ratio: the first knows how little the noise is known and how much nodes differ (`spread`), the second
    that outliers may coincide.
    """
    noise = cautious_noise(values[rest], noise)
    residual = np.sort(values[inside] - noise.location)
    found = slowdowns(residual, np.zeros(len(residual), dtype=np.intp), 1, noise, 10)
    delta, ratio, readings = (float(field[0]) for field in found)
    freedom = noise.readings - 1
    error = math.sqrt(noise.sigma**2 * (1 / readings + 1 / max(noise.readings, 1.0)) + spread)
    score = min(float(normal_score(delta / error, freedom)), math.sqrt(max(2 * ratio, 0.0)))
    return Effect(delta, error, score, freedom)
