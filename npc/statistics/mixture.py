"""A mixture model of readings: normal noise with a few outliers, and how well a shift explains some of them.

A reading is the logarithm of a measured value, turned so that slower is smaller. Healthy readings are normal
about the location with a few outliers anywhere in a width W:

    f(r) = (1-ε)·N(r; 0, σ²) + ε/W

Location, σ and ε are found by EM (Dempster, Laird and Rubin, 1977), and so is the slowdown δ of readings that
are all slower by the same: the one with the highest likelihood ratio Σ log f(r+δ) - log f(r). One reading
adds at most log((1-ε)W/(εσ√2π)) to it, so no single reading can accuse anybody.

Everything is computed for many groups at once: `member` says for each reading which group it belongs to.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from npc.statistics.arrays import Floats, Integers

#: Width of the outliers' uniform density in log units: a factor e, low or high.
OUTLIER_WIDTH: Final = 1.0
#: With fewer readings the tails of the noise are unknown (`cautious_noise`).
FEW_READINGS: Final = 200
#: The least σ: no benchmark repeats better, and readings that rounding makes equal would have σ = 0.
MIN_NOISE: Final = 0.002
#: Slow readings scatter where their quartiles are more than so many σ apart, and that far below the usual.
SCATTERED: Final = 4.0

_SQRT_2PI: Final = math.sqrt(2 * math.pi)


#: Outliers are as likely above as below the usual. Before any reading one in fifty is expected, with the
#: weight of fifty readings; at most one in five is. It matters for small clusters only.
OUTLIERS: Final = 1 / 50
OUTLIERS_SEEN_IN: Final = 50.0
MOST_OUTLIERS: Final = 0.2


class NoiseModel(NamedTuple):
    """How the healthy readings of one group are distributed."""

    #: Their centre: the mean without outliers, in log units.
    location: float
    #: Their standard deviation σ without outliers, in log units.
    sigma: float
    #: Share ε of outliers among the readings, of 1.
    outliers: float
    #: Effective number of readings: the sum of the probabilities that each is no outlier.
    readings: float

    @property
    def alone(self) -> SeriesNoise:
        """As the noise of a single group."""
        return SeriesNoise(*(np.array([value]) for value in self))


class SeriesNoise(NamedTuple):
    """The `NoiseModel` of many groups, or series, of readings; all arrays are by group."""

    #: Centres, in log units.
    location: Floats
    #: Standard deviations σ, in log units.
    sigma: Floats
    #: Shares ε of outliers, of 1.
    outliers: Floats
    #: Effective numbers of readings.
    readings: Floats

    def of(self, group: int) -> NoiseModel:
        """The noise of one group."""
        return NoiseModel(*(float(field[group]) for field in self))

    def by(self, groups: Integers) -> SeriesNoise:
        """The noise of the group that each number names."""
        return SeriesNoise(*(field[groups] for field in self))


def _parts(residual: Floats, member: Integers, noise: SeriesNoise) -> tuple[Floats, Floats]:
    """The normal and the outliers' part of f(r)."""
    sigma, fraction = noise.sigma[member], noise.outliers[member]
    normal = (1 - fraction) / (_SQRT_2PI * sigma) * np.exp(-0.5 * (residual / sigma) ** 2)
    return normal, fraction / OUTLIER_WIDTH


def improved(readings: Floats, member: Integers, noise: SeriesNoise) -> SeriesNoise:
    """The noise of each group after one step of EM; a group without healthy readings keeps what it had."""
    groups = len(noise.location)
    normal, outlier = _parts(readings - noise.location[member], member, noise)
    weight = normal / (normal + outlier)
    total = np.bincount(member, weight, groups)
    enough = total >= 1.5
    total = np.maximum(total, 1.5)
    location = np.bincount(member, weight * readings, groups) / total
    # One degree of freedom went into the location.
    variance = np.bincount(member, weight * (readings - location[member]) ** 2, groups) / (total - 1)
    count = np.bincount(member, minlength=groups)
    fraction = (count - total + OUTLIERS * OUTLIERS_SEEN_IN) / (count + OUTLIERS_SEEN_IN)
    fitted = (
        location,
        np.maximum(np.sqrt(variance), MIN_NOISE),
        np.clip(fraction, 0.0, MOST_OUTLIERS),
        total,
    )
    return SeriesNoise(*(np.where(enough, now, before) for now, before in zip(fitted, noise, strict=True)))


def fit_noises(readings: Floats, member: Integers, start: SeriesNoise, steps: int = 20) -> SeriesNoise:
    """Location, scale and outlier fraction of each group's healthy readings, by EM from `start`."""
    noise = start
    for _ in range(steps):
        before, noise = noise, improved(readings, member, noise)
        moved = np.maximum(abs(noise.sigma - before.sigma), abs(noise.location - before.location))
        moving = (moved >= 1e-4 * noise.sigma)[member]
        if not moving.any():
            break
        readings, member = readings[moving], member[moving]  # a group without readings stays as it is
    return noise


def fit_noise(readings: Floats, start: NoiseModel) -> NoiseModel:
    """`fit_noises` of one group."""
    return fit_noises(readings, np.zeros(len(readings), dtype=np.intp), start.alone).of(0)


def cautious_noises(readings: Floats, member: Integers, noise: SeriesNoise) -> SeriesNoise:
    """`fit_noises` of readings without a suspect, with a σ that is not too small.

    Among few readings the mixture may take those that lie close together for the noise, and all others for
    outliers. Disturbances only slow down, so the lower half of the readings shows how wide the noise is: with
    fewer than `FEW_READINGS` readings σ is at least that of a normal distribution with the same lower
    quartile.
    """
    groups = len(noise.location)
    count = np.bincount(member, minlength=groups)
    few = (count >= 2) & (count < FEW_READINGS)
    quartile, middle = quantiles(readings, member, groups, 0.25, 0.5)
    width = np.where(few, np.maximum((middle - quartile) / 0.6745, MIN_NOISE), 0.0)
    start = noise._replace(
        location=np.where(few, middle, noise.location),
        sigma=np.where(few, width, noise.sigma),
        readings=np.where(few, count, noise.readings),
    )
    fitted = fit_noises(readings, member, start)
    return fitted._replace(sigma=np.maximum(fitted.sigma, width))


def cautious_noise(readings: Floats, noise: NoiseModel) -> NoiseModel:
    """`cautious_noises` of one group."""
    return cautious_noises(readings, np.zeros(len(readings), dtype=np.intp), noise.alone).of(0)


def robust_spread(values: Floats) -> tuple[float, float]:
    """The median, and the standard deviation that a normal distribution of the same MAD has."""
    middle = float(np.median(values))
    return middle, 1.4826 * float(np.median(np.abs(values - middle)))


def robust_spreads(values: Floats, member: Integers, groups: int) -> tuple[Floats, Floats]:
    """`robust_spread` of each group; NaN of one without a value."""
    (middle,) = quantiles(values, member, groups, 0.5)
    (apart,) = quantiles(np.abs(values - middle[member]), member, groups, 0.5)
    return middle, 1.4826 * apart


def robust_noises(readings: Floats, member: Integers, groups: int) -> SeriesNoise:
    """`fit_noises` of readings most of which are healthy: from their median and median absolute deviation."""
    location, spread = robust_spreads(readings, member, groups)
    count = np.bincount(member, minlength=groups).astype(np.float64)
    start = SeriesNoise(location, np.maximum(spread, MIN_NOISE), np.full(groups, OUTLIERS), count)
    return fit_noises(readings, member, start)


class Shifts(NamedTuple):
    """The slowdown that fits the readings of each group best; all arrays are by group."""

    #: Slowdown δ, in log units.
    delta: Floats
    #: Log-likelihood ratio of that slowdown to none.
    ratio: Floats
    #: Effective number of the readings that are slower by δ and no outliers.
    readings: Floats


def shifts(residual: Floats, member: Integers, delta: Floats, noise: SeriesNoise, steps: int) -> Shifts:
    """The slowdown of each group that fits its residuals best near `delta`, by EM."""
    groups = len(delta)
    healthy = np.add(*_parts(residual, member, noise))
    for step in range(steps + 1):
        normal, outlier = _parts(residual + delta[member], member, noise)
        weight = normal / (normal + outlier)
        total = np.maximum(np.bincount(member, weight, groups), 0.5)
        if step < steps:
            moment = np.bincount(member, weight * residual, groups)
            delta = np.where(total > 0.5, -moment / total, delta)
    ratio = np.bincount(member, np.log((normal + outlier) / healthy), groups)
    return Shifts(delta, ratio.astype(np.float64), total)


def slowdowns(residual: Floats, member: Integers, noise: SeriesNoise, steps: int) -> Shifts:
    """The slowdown that fits each group best, by the noise of the group.

    residual, member: sorted by group, then by residual.
    """
    groups = len(noise.sigma)
    # EM starts at the median: all readings of a very slow node lie where the mixture gives them no weight.
    lower, middle, upper = (
        np.nan_to_num(quantile_by(member, residual, groups, q)) for q in (0.25, 0.5, 0.75)
    )
    best = shifts(residual, member, -middle, noise, steps)
    # Very slow readings may scatter more than healthy ones, and their median may lie between them. So EM
    # starts at the upper quartile, too: there only the fault itself shows.
    scattered = (upper - lower > SCATTERED * noise.sigma) & (upper < -SCATTERED * noise.sigma)
    if scattered.any():
        mine = scattered[member]
        other = shifts(residual[mine], member[mine], -upper, noise, steps)
        better = scattered & (other.ratio > best.ratio)
        best = Shifts(*(np.where(better, new, old) for new, old in zip(other, best, strict=True)))
    return best


def quantiles(values: Floats, member: Integers, groups: int, *shares: float) -> list[Floats]:
    """`quantile_by` of values in any order, for each of the shares."""
    order = np.lexsort((values, member))
    return [quantile_by(member[order], values[order], groups, q) for q in shares]


def quantile_by(group: Integers, ordered: Floats, groups: int, q: float) -> Floats:
    """The q-quantile (interpolated) of values sorted by group and value; NaN for groups without a value."""
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
