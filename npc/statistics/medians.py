"""Medians with the nonparametric interval of order statistics, which may be looked at after every sample.

No distribution is assumed: the interval between the k-th smallest and the k-th largest of n independent
samples misses the median only where fewer than k of them, or more than n − k, lie below it (David and
Nagaraja, Order Statistics, 3rd ed., section 7.1; Hoefler and Belli, SC'15, rule 5). The number of samples
below the median is a random walk of fair steps. Somebody who looks after each sample and stops at any time
misses the median no more often than this walk ever leaves the band from k to n − k. So the k of n = 1, 2, …
are the largest for which the walk leaves the band with a probability of at most 5 % (a confidence sequence
for a quantile: Howard and Ramdas, Bernoulli 28(3), 2022; here by counting all walks, since the looks are few:
Armitage, McPherson, Rowe, J. R. Statist. Soc. A 132, 1969). k is 1 from six samples on (the walk leaves the
band with a probability of 3.1 %), 2 from ten, 3 from fourteen, 4 from eighteen. That is the price of looking:
a single look would allow k = 2 at nine samples and 3 at twelve.

Fewer than six samples have no 95 % interval. More than `MOST_LOOKS` samples are taken without looking in
between (`npc.statistics.precision`), so their k is that of a single look, by the binomial tail.
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
#: Up to so many samples somebody may look after each one, and stop because of what he sees.
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
    whenever sampling is stopped. None if even the full range does not."""
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
    """For n = 0 … `MOST_LOOKS` samples, looked at after each: (k, coverage of all intervals up to n
    together), or None without a k."""
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

    If every hypothesis with at most q is rejected, the expected share of wrong rejections is at most q.
    `scipy.stats.false_discovery_control` does the same, but loading `scipy.stats` takes most of a second.
    """
    adjusted, least = [0.0] * len(p), 1.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__, reverse=True)):
        least = min(least, p[place] * len(p) / (len(p) - rank))
        adjusted[place] = least
    return adjusted
