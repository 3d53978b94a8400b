"""Tails and quantiles against sums, tables and SciPy's own; importing them loads no library."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri, stdtr

from npc.statistics.distributions import (
    MEAN_BINS,
    at_least,
    chance_of_failures,
    mean_as_low,
    normal_quantile,
    normal_score,
    student_quantile,
    student_two_sided,
    upper_tail,
)


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.001, 0.9))
def test_at_least_is_the_sum_of_the_binomial_tail(count: int, trials: int, p: float) -> None:
    tail = sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(count, trials + 1))
    if count <= trials:
        assert at_least(count, trials, p) == pytest.approx(tail, rel=1e-6)


def test_failures_are_as_rare_as_those_of_the_others() -> None:
    assert chance_of_failures(2, 2, 0, 0) == pytest.approx(1 / 50**2)
    assert chance_of_failures(2, 2, 9, 50) == pytest.approx(0.1**2)
    assert chance_of_failures(3, 3, 400, 400) == pytest.approx(0.5**3), "half of all at most"


@given(st.integers(0, 2**32 - 1), st.sampled_from(["normal", "log-normal", "lottery"]), st.integers(1, 6))
def test_a_mean_as_low_is_as_rare_as_in_all_that_can_be_drawn(seed: int, noise: str, count: int) -> None:
    rng = np.random.default_rng(seed)
    others = 0.02 * rng.standard_normal(400)
    if noise == "log-normal":
        others = -0.02 * rng.lognormal(size=400)
    if noise == "lottery":
        others = np.where(rng.random(400) < 0.05, -0.3, others)
    own = rng.choice(others, count) - rng.choice([0.0, 0.01, 0.03])
    most = 0.05
    draws = rng.choice(np.append(others, -most), (20_000, count)).clip(-most, most).sum(axis=1)
    limit = own.clip(-most, most).sum()
    step = count * most / (MEAN_BINS // 2)  # each draw is rounded by less than a step
    least, highest = (float((draws <= limit + shift).mean()) for shift in (-1e-9, 2 * step))
    chance = mean_as_low(own, others, most)
    error = 5 * math.sqrt((highest + 1e-4) / 20_000) + 0.5 / 400
    assert least - error <= chance <= highest + error


def test_no_mean_is_rarer_than_what_nobody_has_seen_yet() -> None:
    others = np.linspace(-0.01, 0.01, 100)
    half = 0.5 / 100.5
    assert mean_as_low(np.full(3, -0.9), others, 0.05) == pytest.approx(half**3, rel=1e-6)
    assert mean_as_low(np.full(3, 0.9), others, 0.05) == pytest.approx(1.0)


def test_the_normal_tail_and_its_quantile_belong_together() -> None:
    assert upper_tail(1.959964) == pytest.approx(0.025, rel=1e-5)
    for z in (-9.0, -1.0, 0.0, 1.0, 5.0, 37.0):
        assert upper_tail(z) == pytest.approx(ndtr(-z), rel=1e-12)
    assert normal_quantile(upper_tail(4.0)) == pytest.approx(4.0)
    assert normal_quantile(0.0) == pytest.approx(8.0, abs=0.1)


def test_student_s_tail_and_quantile_belong_together() -> None:
    assert student_two_sided(student_quantile(0.975, 3.5), 3.5) == pytest.approx(0.05)


def test_the_normal_score_is_as_improbable_as_student_s_t() -> None:
    for dof in (7, 20, 365):
        for t in (1.0, 3.0, 5.0):
            assert normal_score(t, dof) == pytest.approx(-ndtri(stdtr(dof, -t)), rel=0.005)
    assert normal_score(200.0, 1e6) == pytest.approx(200.0, rel=0.02), "where SciPy's tail is zero"
    assert normal_score(np.array([-2.0, 2.0]), 30).tolist() == [-normal_score(2.0, 30), normal_score(2.0, 30)]


def test_importing_loads_no_library() -> None:
    code = (
        "import sys, npc.statistics.distributions, npc.statistics.medians, npc.statistics.suspect\n"
        "print([name for name in ('numpy', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
