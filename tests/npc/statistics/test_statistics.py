"""The interval of order statistics covers the median as often as it says."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.statistics.medians import LEVEL, MIN_SAMPLES, order_statistic_rank, summarise


def exact_coverage(n: int, k: int) -> Fraction:
    """P(x_(k) ≤ median ≤ x_(n+1−k)) by counting: k ≤ #(samples below the median) ≤ n − k."""
    return Fraction(sum(math.comb(n, below) for below in range(k, n - k + 1)), 2**n)


@given(n=st.integers(min_value=1, max_value=300), level=st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999]))
def test_the_rank_is_the_largest_that_covers_enough(n: int, level: float) -> None:
    rank = order_statistic_rank(n, level)
    if rank is None:
        assert n == 1 or exact_coverage(n, 1) < level
        return
    k, coverage = rank
    assert 2 * k <= n
    assert math.isclose(coverage, exact_coverage(n, k), rel_tol=1e-9)
    assert coverage >= level
    assert 2 * (k + 1) > n or exact_coverage(n, k + 1) < level


def test_coverage_by_simulation() -> None:
    random_numbers = random.Random(20231107)
    trials = 4000
    for n in (6, 9, 20):
        rank = order_statistic_rank(n)
        assert rank is not None
        hits = 0
        for _ in range(trials):
            # A skewed distribution, as latencies are; its median is ln 2.
            summary = summarise([random_numbers.expovariate(1.0) for _ in range(n)])
            assert summary.low is not None and summary.high is not None
            hits += summary.low <= math.log(2) <= summary.high
        # Four standard deviations of the simulation itself.
        assert abs(hits / trials - rank[1]) < 4 * math.sqrt(rank[1] * (1 - rank[1]) / trials)


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


def test_eight_samples_reach_from_smallest_to_largest() -> None:
    assert order_statistic_rank(8) == (1, 1 - 2 ** (1 - 8))


def test_nine_samples_leave_out_the_extremes() -> None:
    rank = order_statistic_rank(9)
    assert rank is not None
    assert rank[0] == 2
    assert rank[1] >= LEVEL


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
