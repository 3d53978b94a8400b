"""The interval of order statistics covers the median as often as it says."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.statistics.medians import MIN_SAMPLES, MOST_LOOKS, order_statistic_rank, summarise


def walks_inside(bands: Sequence[tuple[int, int]]) -> Fraction:
    """P(the samples below the median are as many as a band allows after each of 1, 2, …), by recursion."""

    @cache
    def ways(n: int, below: int) -> int:
        if n and not bands[n - 1][0] <= below <= bands[n - 1][1]:
            return 0
        return 1 if n == len(bands) else ways(n + 1, below) + ways(n + 1, below + 1)

    return Fraction(ways(0, 0), 2 ** len(bands))


def bands_of(n: int, level: float) -> list[tuple[int, int]]:
    """What has to lie below the median after each of 1 … n samples."""
    ranks = [rank[0] if (rank := order_statistic_rank(each, level)) else 0 for each in range(1, n + 1)]
    return [(k, each - k) for each, k in enumerate(ranks, 1)]


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", range(1, MOST_LOOKS + 1))
def test_who_looks_after_every_sample_misses_no_more_often_than_is_said(n: int, level: float) -> None:
    rank = order_statistic_rank(n, level)
    bands = bands_of(n, level)
    if rank is None:
        assert 1 - Fraction(1, 2 ** (n - 1)) < level
        return
    k, coverage = rank
    assert math.isclose(coverage, walks_inside(bands), rel_tol=1e-12)
    assert coverage >= level
    wider = [*bands[:-1], (k + 1, n - k - 1)]
    assert 2 * (k + 1) > n or walks_inside(wider) < level  # no larger rank would do


@given(n=st.integers(MOST_LOOKS + 1, 300), level=st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999]))
def test_of_many_samples_the_rank_is_the_largest_that_one_look_allows(n: int, level: float) -> None:
    def covered(k: int) -> Fraction:
        return Fraction(sum(math.comb(n, below) for below in range(k, n - k + 1)), 2**n)

    rank = order_statistic_rank(n, level)
    assert rank is not None
    k, coverage = rank
    assert math.isclose(coverage, covered(k), rel_tol=1e-9)
    assert coverage >= level
    assert 2 * (k + 1) > n or covered(k + 1) < level


@pytest.mark.parametrize("n", range(1, MIN_SAMPLES))
def test_fewer_than_six_samples_have_no_interval(n: int) -> None:
    summary = summarise([float(value) for value in range(n)])
    assert (summary.low, summary.high, summary.coverage) == (None, None, None)
    assert summary.n == n
    assert summary.median == (n - 1) / 2


def test_six_samples_reach_from_smallest_to_largest() -> None:
    summary = summarise([5.0, 1.0, 4.0, 2.0, 6.0, 3.0])
    assert (summary.low, summary.median, summary.high) == (1.0, 3.5, 6.0)
    assert summary.coverage == 1 - 2 ** (1 - 6) == 0.96875


def test_the_ranks_of_looking_grow_at_ten_fourteen_and_eighteen() -> None:
    ranks = [rank[0] for n in range(MIN_SAMPLES, MOST_LOOKS + 1) if (rank := order_statistic_rank(n))]
    assert ranks == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4]
    assert order_statistic_rank(8) == (1, 1 - 2 ** (1 - 6))


@given(st.lists(st.floats(min_value=0, max_value=1e18), min_size=1, max_size=60), st.randoms())
def test_the_order_of_samples_does_not_matter(values: list[float], shuffler: random.Random) -> None:
    shuffled = values.copy()
    shuffler.shuffle(shuffled)
    summary = summarise(values)
    assert summarise(shuffled) == summary
    if summary.low is not None and summary.high is not None:
        assert min(values) <= summary.low <= summary.median <= summary.high <= max(values)


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.inf], [1.0, -math.inf, 2.0]])
def test_nothing_is_made_of_no_or_bad_values(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        summarise(values)
