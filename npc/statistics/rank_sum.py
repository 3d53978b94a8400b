"""The rank sum test of two samples, and the interval of the shift between them that belongs to it.

The only assumption is that one distribution is the other one, shifted; of logarithms, the shift is a ratio
(Hodges, Lehmann 1963; Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, 3rd ed., chapter 4).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist, median
from typing import Final

from npc.statistics.medians import LEVEL

#: For up to so many values of both samples the ranks are counted; beyond, their sum is normal to three
#: digits.
_EXACT: Final = 40


def shift_interval(
    a: Sequence[float], b: Sequence[float], level: float = LEVEL
) -> tuple[float, float, float]:
    """(low, middle, high) of what has to be added to `a` to become `b`: exact, by ranks.

    The whole range of pairwise differences where even that does not reach `level`.
    """
    differences = sorted(y - x for x in a for y in b)
    k = _rank_for(len(a), len(b), level)
    return differences[k], median(differences), differences[-1 - k]


@lru_cache(maxsize=256)
def _rank_for(n: int, m: int, level: float) -> int:
    """How many pairwise differences to leave out at each end: the largest k with P(U ≤ k) ≤ (1 − level)/2."""
    if n + m > _EXACT:
        sigma = math.sqrt(n * m * (n + m + 1) / 12)
        return math.floor(n * m / 2 - NormalDist().inv_cdf((1 + level) / 2) * sigma - 0.5)
    counts = _rank_sum_counts(tuple(range(2, 2 * (n + m) + 1, 2)), n)
    total, tail, k = math.comb(n + m, n), 0, 0
    least = n * (n + 1)  # doubled ranks
    while (tail := tail + counts.get(least + 2 * k, 0)) / total <= (1 - level) / 2:
        k += 1
    return max(0, k - 1)


@lru_cache(maxsize=4096)
def _rank_sum_counts(doubled_ranks: tuple[int, ...], n: int) -> dict[int, int]:
    """Sum of `n` of the doubled ranks → in how many choices."""
    chosen: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(n)]
    for rank in doubled_ranks:
        for size in range(n, 0, -1):
            into = chosen[size]
            for total, count in chosen[size - 1].items():
                into[total + rank] = into.get(total + rank, 0) + count
    return chosen[n]


def rank_test(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p of the rank sum test, ties by mean rank: exact, or normal above `_EXACT` values."""
    together = sorted((*a, *b))
    if together[0] == together[-1]:
        return 1.0
    doubled = {value: bisect_left(together, value) + bisect_right(together, value) + 1 for value in together}
    observed = sum(doubled[value] for value in a)
    expected = len(a) * (len(together) + 1)
    if len(together) > _EXACT:
        from scipy.stats import mannwhitneyu

        return float(mannwhitneyu(a, b, use_continuity=False, method="asymptotic").pvalue)
    counts = _rank_sum_counts(tuple(doubled[value] for value in together), len(a))
    extreme = sum(c for total, c in counts.items() if abs(total - expected) >= abs(observed - expected))
    return extreme / math.comb(len(together), len(a))


def tells_apart(n: int, m: int, level: float = LEVEL) -> bool:
    """Whether samples of these sizes have an interval of this level at all: 1 − 2/C(n + m, n) at most."""
    return n > 0 and m > 0 and 2 / math.comb(n + m, n) <= 1 - level


def ratio_interval(
    a: Sequence[float], b: Sequence[float], level: float = LEVEL
) -> tuple[float | None, float, float | None]:
    """(low, ratio, high) of the factor from `a` to `b`: the median of all pairwise ratios, with its interval.

    low and high are None where the samples are too small for one. Raises ValueError for values that are not
    positive, and for none.
    """
    if not a or not b or min(*a, *b) <= 0:
        raise ValueError("a ratio needs values on both sides, and positive ones")
    logs_a, logs_b = [math.log(value) for value in a], [math.log(value) for value in b]
    low, middle, high = map(math.exp, shift_interval(logs_a, logs_b, level))
    return (low, middle, high) if tells_apart(len(a), len(b), level) else (None, middle, None)
