"""The arithmetic behind a verdict: readings as arrays, what could explain them, and how well it does.

A reading is the logarithm of a measured value, turned so that slower is smaller, and freed of what is
normal for its distance. Healthy readings are normal about 0 with a few outliers:

    f(r) = (1-ε)·N(r; 0, σ²) + ε/W

A hypothesis h (a node, an uplink, a switch, a rack) says that its readings S_h, and only they, are lower
by δ_h. Its log-likelihood ratio is Σ_{S_h} log f(r+δ_h) - log f(r), δ_h the maximum-likelihood estimate
from the mixture (EM; Dempster, Laird and Rubin, 1977). An outlier weighs at most log((1-ε)W/(εσ√2π)), so
no single reading can accuse anybody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npc.machine.fabric import Kind
from npc.statistics.distributions import normal_score, student_quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.intp]
    Booleans = NDArray[np.bool_]

#: Width of the outliers' uniform density in log units: a factor e, low or high.
OUTLIER_WIDTH: Final = 1.0
#: Prior weight of the outlier fraction: one outlier in fifty readings. It matters for small clusters only.
PRIOR_OUTLIERS: Final = 1.0
PRIOR_READINGS: Final = 50.0
MAX_OUTLIER_FRACTION: Final = 0.2
#: With fewer readings the tails of the noise are unknown (`cautious_noise`).
FEW_READINGS: Final = 200
#: No benchmark repeats better than this; keeps quantised readings (all equal) from making σ = 0.
MIN_NOISE: Final = 0.002
#: A node with fewer readings is not judged, and what remains without a suspect must be as many.
MIN_READINGS: Final = 3
#: A hypothesis that covers more than this share of the readings has nothing left to be compared with.
MAX_SHARE: Final = 2 / 3
#: Readings scatter where their quartiles, all far below the usual, are so many σ apart.
SCATTERED: Final = 4.0
#: A distance with fewer readings has no normal that could be known.
MIN_LEVELLED: Final = 8

_SQRT_2PI: Final = math.sqrt(2 * math.pi)


class Noise(NamedTuple):
    """Healthy readings: location, scale σ (log units), fraction of outliers ε, effective number."""

    location: float
    sigma: float
    outliers: float
    readings: float


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


def density(residuals: Floats, noise: Noise) -> tuple[Floats, float]:
    """The two parts of f(r): the normal one by reading, and the outliers' constant one."""
    z = residuals / noise.sigma
    scale = (1 - noise.outliers) / (_SQRT_2PI * noise.sigma)
    return scale * np.exp(-0.5 * z * z), noise.outliers / OUTLIER_WIDTH


def fit_noise(readings: Floats, start: Noise, steps: int = 20) -> Noise:
    """Location, scale and outlier fraction of healthy readings, by EM from `start`."""
    noise = start
    for _ in range(steps):
        normal, outlier = density(readings - noise.location, noise)
        weight = normal / (normal + outlier)
        total = float(weight.sum())
        if total < 1.5:
            break
        location = float(weight @ readings) / total
        # One degree of freedom went into the location.
        variance = float(weight @ (readings - location) ** 2) / max(total - 1.0, 0.5)
        outliers = (len(readings) - total + PRIOR_OUTLIERS) / (len(readings) + PRIOR_READINGS)
        previous, noise = (
            noise,
            Noise(
                location,
                max(math.sqrt(variance), MIN_NOISE),
                min(outliers, MAX_OUTLIER_FRACTION),
                total,
            ),
        )
        if (
            abs(noise.sigma - previous.sigma) < 1e-4 * noise.sigma
            and abs(noise.location - previous.location) < 1e-4 * noise.sigma
        ):
            break
    return noise


def cautious_noise(readings: Floats, noise: Noise) -> Noise:
    """`fit_noise` of readings that nobody is suspected for, not narrower than their lower half is wide.

    The mixture takes a few readings that lie close together for the noise and the others for outliers;
    among few readings that is a mistake, and disturbances are one-sided: they slow down. So with fewer
    than `FEW_READINGS` the scale is at least that of a normal distribution with the same lower quartile.
    """
    if len(readings) >= FEW_READINGS or len(readings) < 2:
        return fit_noise(readings, noise)
    quartile, middle = np.quantile(readings, [0.25, 0.5])
    width = max(float(middle - quartile) / 0.6745, MIN_NOISE)
    fitted = fit_noise(readings, Noise(float(middle), width, noise.outliers, float(len(readings))))
    return fitted._replace(sigma=max(fitted.sigma, width))


def first_guess(readings: Floats, a: Integers, b: Integers, nodes: int) -> Noise:
    """Where to start `fit_noise` although many pairs may be slow.

    Location: the median over the nodes of the upper tercile of each node's readings: a bad node spoils all
    of its own and few of anybody else's. Scale: half-normal, from the readings above, since faults only slow.
    """
    upper = quantile_by(np.concatenate([a, b]), np.concatenate([readings, readings]), nodes, 2 / 3)
    location = float(np.nanmedian(upper))
    above = readings[readings >= location] - location
    sigma = 1.4826 * float(np.median(above)) if len(above) else 0.0
    return Noise(location, max(sigma, MIN_NOISE), PRIOR_OUTLIERS / PRIOR_READINGS, float(len(readings)))


def quantile_by(group: Integers, values: Floats, groups: int, q: float) -> Floats:
    """The q-quantile (interpolated) of `values` by group number; NaN for groups without a value."""
    order = np.lexsort((values, group))
    return _sorted_quantile(group[order], values[order], groups, q)


def _sorted_quantile(group: Integers, ordered: Floats, groups: int, q: float) -> Floats:
    """`quantile_by` of what is already sorted by group and value."""
    count = np.bincount(group, minlength=groups)
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    position = q * np.maximum(count - 1, 0)
    low = np.floor(position).astype(np.intp)
    high = np.minimum(low + 1, np.maximum(count - 1, 0))
    result = np.full(groups, np.nan)
    some = count > 0
    start, share = first[some], (position - low)[some]
    result[some] = (1 - share) * ordered[start + low[some]] + share * ordered[start + high[some]]
    return result


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """What could be to blame, as an incidence list: reading `reading[i]` belongs to hypothesis `member[i]`.

    labels: kind and name. The nodes come first, in their order, so hypothesis i < nodes is node i. Where
    two explain the same readings the earlier one is preferred. Sorted by hypothesis, then by reading's value.
    """

    labels: Sequence[tuple[Kind, str]]
    nodes: int
    reading: Integers
    member: Integers

    @classmethod
    def of(
        cls,
        labels: Sequence[tuple[Kind, str]],
        nodes: int,
        reading: Integers,
        member: Integers,
        values: Floats,
    ) -> Hypotheses:
        """Hypotheses of an incidence list in any order; `values` are the readings."""
        rank = np.empty(len(values), dtype=np.intp)
        rank[np.argsort(values, kind="stable")] = np.arange(len(values))
        order = np.argsort(member * len(values) + rank[reading])
        return cls(labels, nodes, reading[order], member[order])

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


def score(readings: Floats, active: Booleans, hypotheses: Hypotheses, noise: Noise, steps: int = 5) -> Scores:
    """Every hypothesis by itself, on the active readings."""
    keep = active[hypotheses.reading]
    member = hypotheses.member[keep]
    residual = readings[hypotheses.reading[keep]] - noise.location
    groups = len(hypotheses.labels)
    count = np.bincount(member, minlength=groups)
    delta, ratio = _slowdowns(residual, member, groups, noise, steps)
    return Scores(count, delta, np.where(delta > 0, np.maximum(ratio, 0.0), 0.0))


def _slowdowns(
    residual: Floats, member: Integers, groups: int, noise: Noise, steps: int
) -> tuple[Floats, Floats]:
    """By group the slowdown that fits best, and its log-likelihood ratio; sorted by group and residual."""
    # From the median: a grossly slow node's readings all lie where the mixture gives no weight.
    lower, middle, upper = (
        np.nan_to_num(_sorted_quantile(member, residual, groups, q)) for q in (0.25, 0.5, 0.75)
    )
    delta, ratio = _shifts(residual, member, -middle, noise, steps)
    # What is grossly slow may scatter more than what is healthy, and the median then lies between its
    # values: from the upper quartile too, where the fault alone shows.
    scattered = (upper - lower > SCATTERED * noise.sigma) & (upper < -SCATTERED * noise.sigma)
    if scattered.any():
        mine = scattered[member]
        other, higher = _shifts(residual[mine], member[mine], -upper, noise, steps)
        better = scattered & (higher > ratio)
        delta, ratio = np.where(better, other, delta), np.where(better, higher, ratio)
    return delta, ratio


def _shifts(
    residual: Floats, member: Integers, delta: Floats, noise: Noise, steps: int
) -> tuple[Floats, Floats]:
    """By group the slowdown that fits best near `delta`, by EM, and its log-likelihood ratio."""
    groups = len(delta)
    normal, outlier = density(residual, noise)
    healthy = np.log(normal + outlier)
    for _ in range(steps):
        normal, outlier = density(residual + delta[member], noise)
        weight = normal / (normal + outlier)
        total = np.bincount(member, weight, groups)
        moment = np.bincount(member, weight * residual, groups)
        delta = np.where(total > 0.5, -moment / np.maximum(total, 0.5), delta)
    normal, outlier = density(residual + delta[member], noise)
    ratio = np.bincount(member, np.log(normal + outlier) - healthy, groups)
    return delta, ratio.astype(np.float64, copy=False)


def node_spread(scores: Scores, nodes: int, noise: Noise) -> float:
    """Variance between healthy nodes beyond what the noise of the readings explains (log units squared).

    The nodes' own spread, by the median absolute deviation, where it exceeds σ²/m by three standard
    errors: identical nodes differ by more than noise on most machines, and that is nobody's fault.
    """
    judged = scores.count[:nodes] >= MIN_READINGS
    if judged.sum() < 2 * MIN_READINGS:
        return 0.0
    delta = scores.delta[:nodes][judged]
    spread = 1.4826 * float(np.median(np.abs(delta - np.median(delta))))
    expected = float(np.median(noise.sigma**2 / scores.count[:nodes][judged]))
    excess = spread**2 - expected
    # The standard error of a MAD-based variance is 2.33/√n of it.
    return excess if excess > 3 * 2.33 / math.sqrt(len(delta)) * expected else 0.0


def test(readings: Floats, inside: Booleans, rest: Booleans, noise: Noise, spread: float = 0.0) -> Effect:
    """The readings `inside` against the `rest`, whose noise is estimated anew without them.

    The score is the lesser of Student's t on the slowdown and the signed root of the log-likelihood
    ratio: the first knows how little the noise is known and how much nodes differ (`spread`), the second
    that outliers may coincide.
    """
    noise = cautious_noise(readings[rest], noise)
    residual = np.sort(readings[inside] - noise.location)
    deltas, ratios = _slowdowns(residual, np.zeros(len(residual), dtype=np.intp), 1, noise, 10)
    delta, ratio = float(deltas[0]), float(ratios[0])
    normal, outlier = density(residual + delta, noise)
    total = max(float((normal / (normal + outlier)).sum()), 0.5)
    freedom = noise.readings - 1
    error = math.sqrt(noise.sigma**2 * (1 / total + 1 / max(noise.readings, 1.0)) + spread)
    score = min(float(normal_score(delta / error, freedom)), math.sqrt(max(2 * ratio, 0.0)))
    return Effect(delta, error, score, freedom)


def level(
    values: Floats, active: Booleans, a: Integers, b: Integers, distance: Integers, nodes: int
) -> tuple[Floats, Booleans]:
    """Readings freed of what is normal for their distance, and which of them could be.

    The normal is estimated from the active readings, and taken from all. `distance` is a small number, the
    same for pairs that should be equally fast; one with too few readings to know its normal is left out.
    Rounds are not levelled: every node is in every one of them, so a slow round is unfair to none, and a
    round's median moves with the suspects in it.
    """
    readings = values.copy()
    known = np.ones(len(values), dtype=bool)
    kinds = np.unique(distance)
    for kind in kinds if len(kinds) > 1 else ():
        chosen = active & (distance == kind)
        if chosen.sum() < MIN_LEVELLED:
            known[distance == kind] = False
        else:
            guess = first_guess(readings[chosen], a[chosen], b[chosen], nodes)
            readings[distance == kind] -= fit_noise(readings[chosen], guess).location
    return readings, known
