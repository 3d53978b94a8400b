"""Medians with the nonparametric interval of order statistics, which may be looked at after every sample.

No distribution is assumed: the interval between the k-th smallest and the k-th largest of n independent
samples misses the median where fewer than k of them, or more than n − k, lie below it (David and Nagaraja,
Order Statistics, 3rd ed., section 7.1; Hoefler and Belli, SC'15, rule 5). How many lie below is a walk of
fair steps. Whoever looks after each sample and stops when it pleases him misses the median no more often
than this walk ever leaves the band of the k; so the k of n = 1, 2, … are the largest whose band is left
with at most 5 % (a confidence sequence for a quantile: Howard and Ramdas, Bernoulli 28(3), 2022; here by
counting all walks, since the looks are few: Armitage, McPherson, Rowe, J. R. Statist. Soc. A 132, 1969).
k is 1 from six samples on, which costs 3.1 %; 2 from ten, 3 from fourteen, 4 from eighteen. One look at
nine would allow 2, at twelve 3: that is what looking costs.

Fewer than six samples reach no 95 % interval, and then there is none. More than `MOST_LOOKS` were taken
without looking (`npc.statistics.precision`), and their k is that of a single look, by the binomial tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import median
from typing import Final, NamedTuple

LEVEL: Final = 0.95
#: The smallest sample whose full range covers the median with at least 95 %: 1 − 2^(1−6) = 96.9 %.
MIN_SAMPLES: Final = 6
#: Most samples after each of which somebody may have looked, and have stopped for what he saw.
MOST_LOOKS: Final = 20


class Summary(NamedTuple):
    """The median of some samples, with its interval."""

    #: Number of samples.
    n: int
    #: In the unit of the samples, as are `low` and `high`.
    median: float
    #: Lower end of the interval; None where so few samples have no interval of the level asked for.
    low: float | None
    #: Upper end of the interval; None where there is none.
    high: float | None
    #: Probability with which the interval covers the true median; None where there is none.
    coverage: float | None


def order_statistic_rank(n: int, level: float = LEVEL) -> tuple[int, float] | None:
    """(k, coverage): the largest k whose interval [x_(k), x_(n+1−k)] covers the median with ≥ `level`,
    whenever one has stopped looking. None if even the full range does not.
    """
    if n <= MOST_LOOKS:
        return _looked_at(level)[n]
    best: tuple[int, float] | None = None
    tail = 0.0  # P(B < k), B ~ Binomial(n, 1/2), summed up as k grows
    ways, all_ways = 1, 2**n  # n choose k − 1, exactly: floats end at n = 1030
    for k in range(1, n // 2 + 1):
        tail += ways / all_ways
        ways = ways * (n - k + 1) // k
        coverage = 1 - 2 * tail
        if coverage < level:
            break
        best = (k, coverage)
    return best


@cache
def _looked_at(level: float) -> tuple[tuple[int, float] | None, ...]:
    """By n the rank under looking and what the sequence up to there covers, of n = 0 … `MOST_LOOKS`."""
    looks: list[tuple[int, float] | None] = [None]
    walks = [1]  # by the number of samples below the median: walks that have never left the band, of 2^n
    k = 0
    for n in range(1, MOST_LOOKS + 1):
        walks = [a + b for a, b in zip([*walks, 0], [0, *walks], strict=True)]
        while k < n // 2 and sum(walks[k + 1 : n - k]) >= level * 2**n:
            k += 1
        walks = [ways if k <= below <= n - k else 0 for below, ways in enumerate(walks)]
        looks.append((k, sum(walks) / 2**n) if k else None)
    return tuple(looks)


def summarise(values: Sequence[float]) -> Summary:
    """Median and its interval. Raises ValueError on no values or on one that is not finite."""
    if not values or not all(map(math.isfinite, values)):
        raise ValueError("a median needs at least one value, and finite ones")
    ordered = sorted(values)
    rank = order_statistic_rank(len(ordered), LEVEL)
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
