"""Who stops when the interval is narrow enough still covers the median as often as is said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from npc.statistics.medians import MIN_SAMPLES, MOST_LOOKS, order_statistic_rank, summarise
from npc.statistics.precision import STEPS, USUAL, Goal, half_width

RUNS = 2000
Array = NDArray[np.float64]


def drawn(noise: str, lot: np.random.Generator, spread: float) -> tuple[Array, Array]:
    """(RUNS × `MOST_LOOKS` samples, the median of what was drawn from until each), about 1, `spread` wide."""
    shape = (RUNS, MOST_LOOKS)
    plain = lot.standard_normal(shape)
    at = np.ones(MOST_LOOKS)
    match noise:
        case "normal":
            samples = 1 + spread * plain
        case "skewed":  # latencies: a bound below, a tail above
            samples = 1 + spread * (lot.lognormal(0, 1, shape) - 1)
        case "bimodal":  # two placements, the slower one in two launches of five
            slow = lot.random(shape) < 0.4
            samples = 1 + spread * (0.3 * plain + 4 * slow)
            at[:] = 1 + spread * 0.3 * NORMAL_AT_5_6
        case "outliers":  # one launch of ten is far too slow
            samples = 1 + spread * (0.3 * plain + 20 * (lot.random(shape) < 0.1))
            at[:] = 1 + spread * 0.3 * NORMAL_AT_5_9
        case "drifting":  # by two spreads over all launches: the median of the times that were measured
            drift = np.linspace(0, 2, MOST_LOOKS)
            samples = 1 + spread * (plain + drift)
            at = 1 + spread * np.cumsum(drift) / np.arange(1, MOST_LOOKS + 1)
        case _:  # t with two degrees of freedom: no variance at all
            samples = 1 + spread * lot.standard_t(2, shape)
    return samples, at


#: Quantiles of the normal distribution at 5/6 (0.4 of all are slow) and 5/9.
NORMAL_AT_5_6, NORMAL_AT_5_9 = 0.967422, 0.139710


@pytest.mark.parametrize("spread", [0.004, 0.015, 0.03, 0.1])
@pytest.mark.parametrize("noise", ["normal", "skewed", "bimodal", "outliers", "drifting", "heavy"])
def test_the_interval_at_the_stop_covers_the_median_in_94_of_100_runs(noise: str, spread: float) -> None:
    samples, at = drawn(noise, np.random.default_rng(23), spread)
    stopped = [stop(run) for run in samples.tolist()]
    intervals = [summarise(run[:n]) for run, n in zip(samples.tolist(), stopped, strict=True)]
    covered = [
        each.low is not None and each.high is not None and each.low <= at[each.n - 1] <= each.high
        for each in intervals
    ]
    assert np.mean(covered) >= 0.94
    assert min(stopped) == MIN_SAMPLES
    if noise in ("normal", "skewed") and spread == 0.1:
        assert np.mean(stopped) < 6.5, "what is always wide is not waited for"
    if noise == "outliers" and spread == 0.03:
        assert np.mean(stopped) > 7, "an outlier is worth four more launches"


def stop(run: list[float]) -> int:
    """After how many launches a case stops that is looked at after each."""
    n = 0
    while not USUAL.enough(n, 0.1 * n, [run[:n]]):
        n += 1
    return n


def test_a_worst_looker_who_stops_where_the_median_is_missed_is_covered_too() -> None:
    """He knows the median, and stops at the first look that misses it: nobody can do worse."""
    samples = np.random.default_rng(24).random((20_000, MOST_LOOKS))
    missed = np.zeros(len(samples), dtype=bool)
    for n in range(MIN_SAMPLES, MOST_LOOKS + 1):
        below = (samples[:, :n] < 0.5).sum(axis=1)
        rank = order_statistic_rank(n)
        assert rank is not None
        missed |= (below < rank[0]) | (below > n - rank[0])
    expected = order_statistic_rank(MOST_LOOKS)
    assert expected is not None
    assert 1 - missed.mean() == pytest.approx(expected[1], abs=0.006)


def test_one_width_is_that_of_the_farther_end() -> None:
    assert half_width([97.0, 99.0, 100.0, 100.0, 101.0, 104.0]) == pytest.approx(0.04)
    assert half_width([1.0] * 5) == math.inf  # too few
    assert half_width([0.0] * 6) == 0.0
    assert half_width([0.0] * 5 + [1.0]) == math.inf


def test_the_width_without_the_farthest_samples() -> None:
    assert half_width([97.0, 99.0, 100.0, 100.0, 101.0, 104.0], without=1) == pytest.approx(0.01)
    assert half_width([1.0] * 5, without=1) == 0.0
    assert half_width([1.0], without=1) == math.inf


#: Six samples: known, with one outlier, spread as launches always are.
KNOWN, OUTLIER, WIDE = [1.0] * 6, [1.0] * 5 + [1.5], [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]


def test_what_is_enough() -> None:
    goal = Goal(precision=0.03, most=14, case_s=12)
    assert not goal.enough(5, 100.0, [KNOWN[:5]])
    assert goal.enough(6, 1.0, [KNOWN])
    assert not goal.enough(6, 1.0, [OUTLIER])
    assert goal.enough(6, 1.0, [WIDE]), "four more launches would leave it too wide"
    assert not goal.enough(6, 1.0, [KNOWN, WIDE, OUTLIER]), "one number that can be known is enough to go on"
    assert not goal.enough(6, 1.0, [WIDE[:5]]), "a launch has failed: no interval yet"
    assert not goal.enough(8, 1.0, [KNOWN[:4] + [1.5] * 4]), "a round is not left half done"
    assert goal.enough(10, 1.0, [KNOWN + [1.0] * 3 + [1.5]])
    assert not goal.enough(10, 1.0, [KNOWN + [1.0] * 2 + [1.5] * 2])
    assert goal.enough(14, 1.0, [KNOWN + [1.5] * 8])


def test_only_launches_that_can_narrow_the_interval_are_made_and_only_if_they_are_paid_for() -> None:
    assert STEPS == (6, 10, 14, 18)
    goal = Goal(most=14, case_s=12)
    assert [goal.at_most(seconds) for seconds in (0.1, 0.85, 0.87, 1.2, 1.21, 60.0)] == [14, 14, 10, 10, 6, 6]
    assert Goal(most=12).at_most(0.1) == 10
    assert goal.enough(6, 7.3, [OUTLIER]), "the tenth would end after 12.2 s, and no earlier one helps"


@pytest.mark.parametrize(
    "wrong", [{"precision": 0.0}, {"precision": 1.0}, {"most": 5}, {"most": MOST_LOOKS + 1}]
)
def test_a_goal_that_no_interval_can_have_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"precision|samples at most"):
        Goal(**wrong)  # type: ignore[arg-type]
