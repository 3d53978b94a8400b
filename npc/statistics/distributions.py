"""Tails and quantiles of the normal, the binomial and Student's distribution, by `math` and `scipy.special`.

SciPy is loaded by the first call that needs it: a launcher, or a page without a statistical test, does not
wait for it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from npc.statistics.arrays import Floats

#: Steps into which the values of `mean_as_low` are rounded: an odd number, so that 0 is one of them.
MEAN_BINS: Final = 513


def upper_tail(z: float) -> float:
    """P(Z > z) of the standard normal distribution."""
    return math.erfc(z / math.sqrt(2)) / 2


def normal_quantile(chance: float) -> float:
    """The z with P(Z > z) = `chance`; 8 for anything less likely than that."""
    from scipy.special import ndtri

    return -float(ndtri(min(max(chance, 6e-16), 1 - 1e-9)))


def at_least(count: int, trials: int, probability: float) -> float:
    """P(B ≥ count), B ~ Binomial(trials, probability)."""
    from scipy.special import bdtrc

    return float(bdtrc(count - 1, trials, probability)) if count > 0 else 1.0


def events_at_least(count: int, expected: float) -> float:
    """P(N ≥ count), N ~ Poisson(expected)."""
    from scipy.special import pdtrc

    return float(pdtrc(count - 1, expected)) if count > 0 else 1.0


def drawn_at_least(count: int, drawn: int, marked: int, total: int) -> float:
    """P(H ≥ count): of `total`, `marked` ones among them, `drawn` are drawn, and H of these are marked
    (hypergeometric)."""
    import numpy as np
    from scipy.special import gammaln

    first, last = max(count, drawn + marked - total, 0), min(drawn, marked)
    if first > last:
        return 0.0
    hits = np.arange(first, last + 1)

    def ways(of: ArrayLike, chosen: ArrayLike) -> Floats:
        n, k = np.asarray(of, dtype=float), np.asarray(chosen, dtype=float)
        logarithm: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        return logarithm

    terms = ways(marked, hits) + ways(total - marked, drawn - hits) - ways(total, drawn)
    return min(float(np.exp(terms).sum()), 1.0)


def mean_as_low(own: Floats, others: Floats, most: float) -> float:
    """The chance that the mean of as many draws from `others` as `own` holds is as low as that of `own`.

    It is exact for draws with replacement, whatever the noise: the distribution of `others`, to which half a
    draw of -`most` is added for what has not been seen yet, convolved with itself. A value counts for `most`
    at most, on either side, so that few outliers do not decide.
    """
    import numpy as np

    middle = MEAN_BINS // 2

    def bins(values: Floats) -> Floats:
        return (values / most).clip(-1.0, 1.0) * middle + middle

    # rounded so that the draws come out lower, and what was measured higher
    weights = np.bincount(np.floor(bins(others)).astype(np.intp), minlength=MEAN_BINS).astype(float)
    weights[0] += 0.5
    reached = int(np.ceil(bins(own)).sum())
    length = len(own) * (MEAN_BINS - 1) + 1
    sums = np.fft.irfft(np.fft.rfft(weights / weights.sum(), length) ** len(own), length)
    return float(sums[: reached + 1].clip(0.0).sum().clip(0.0, 1.0))


def chance_of_failures(failed: int, made: int, others_failed: int, others: int) -> float:
    """The probability that `failed` or more of `made` measurements fail by accident, if they fail as often as
    the others.

    Without others, one in fifty is taken as their rate.
    """
    return at_least(failed, made, min((others_failed + 1) / (others + 50), 0.5))


def student_two_sided(t: float, dof: float) -> float:
    """P(|T| ≥ t) of Student's t for t ≥ 0; the degrees of freedom may be fractional."""
    from scipy.special import stdtr

    return 2 * float(stdtr(dof, -t))


def student_quantile(probability: float, dof: float) -> float:
    """The t that Student's T exceeds with probability 1 − `probability`; the degrees of freedom may be
    fractional."""
    from scipy.special import stdtrit

    return float(stdtrit(dof, probability))


def normal_score(t: ArrayLike, dof: ArrayLike) -> Floats:
    """The standard normal score that is as improbable as Student's `t`. `dof` below one half counts as one
    half.

    By Wallace's formula (Ann. Math. Stat. 30, 1959), which still works where the tails of `scipy.special` are
    zero: a very slow node of a large cluster is 60 σ away.
    """
    import numpy as np

    t, dof = np.asarray(t, dtype=float), np.maximum(dof, 0.5)
    scale = (8 * dof + 1) / (8 * dof + 3)
    score: Floats = np.copysign(scale * np.sqrt(dof * np.log1p(t * t / dof)), t)
    return score
