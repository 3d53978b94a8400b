"""Medians with the nonparametric interval of order statistics.

No distribution is assumed: the interval between the k-th smallest and the k-th largest of n
independent samples covers the median with probability 1 − 2·P(B < k), B ~ Binomial(n, 1/2)
(David and Nagaraja, Order Statistics, 3rd ed., section 7.1; Hoefler and Belli, SC'15, rule 5).
Fewer than six samples reach no 95 % interval, and then there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

LEVEL: Final = 0.95
#: The smallest sample whose full range covers the median with at least 95 %: 1 − 2^(1−6) = 96.9 %.
MIN_SAMPLES: Final = 6


class Summary(NamedTuple):
    """A median of `n` samples; `low` and `high` are None where no interval of the asked level exists."""

    n: int
    median: float
    low: float | None
    high: float | None
    coverage: float | None


def order_statistic_rank(n: int, level: float = LEVEL) -> tuple[int, float] | None:
    """(k, coverage): the largest k whose interval [x_(k), x_(n+1−k)] covers the median with ≥ `level`.

    None if even the full range does not.
    """
    best: tuple[int, float] | None = None
    tail = 0.0  # P(B < k), summed up as k grows
    ways, all_ways = 1, 2**n  # n choose k − 1, exactly: floats end at n = 1030
    for k in range(1, n // 2 + 1):
        tail += ways / all_ways
        ways = ways * (n - k + 1) // k
        coverage = 1 - 2 * tail
        if coverage < level:
            break
        best = (k, coverage)
    return best


def summarise(values: Sequence[float], level: float = LEVEL) -> Summary:
    """Median and its interval. Raises ValueError on no values or on one that is not finite."""
    if not values or not all(map(math.isfinite, values)):
        raise ValueError("a median needs at least one value, and finite ones")
    ordered = sorted(values)
    rank = order_statistic_rank(len(ordered), level)
    middle = median(ordered)
    if rank is None:
        return Summary(len(ordered), middle, None, None, None)
    k, coverage = rank
    return Summary(len(ordered), middle, ordered[k - 1], ordered[-k], coverage)


def false_discovery(p: Sequence[float]) -> list[float]:
    """Adjusted p-values (Benjamini, Hochberg, J. R. Statist. Soc. B 57(1), 1995), in the order given.

    Rejecting those of at most q makes an expected share of at most q of the rejections wrong. Not by
    `scipy.stats.false_discovery_control`: to load `scipy.stats` takes most of a second, for these lines.
    """
    adjusted, least = [0.0] * len(p), 1.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__, reverse=True)):
        least = min(least, p[place] * len(p) / (len(p) - rank))
        adjusted[place] = least
    return adjusted
