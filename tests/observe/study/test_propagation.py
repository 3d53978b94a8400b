"""Means that an odd value has no say in, and the uncertainty of what is made of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from npc.observe.study.propagation import (
    Input,
    derivatives,
    effective_dof,
    f_upper_tail,
    half_width,
    pooled,
    trimmed_mean,
)
from npc.statistics.arrays import Floats
from npc.statistics.distributions import student_quantile


def test_an_odd_value_of_four_has_no_say() -> None:
    assert trimmed_mean([1.0, 1.2, 1.1, 9.0]) == pytest.approx((1.15, 0.005, 1))
    mean, variance, dof = trimmed_mean([1.0, 2.0, 3.0])
    assert (mean, dof) == (2.0, 2) and variance == pytest.approx(1 / 3)  # the plain mean's
    assert trimmed_mean([7.0])[::2] == (7.0, 0)
    with pytest.raises(ValueError, match="at least one value"):
        trimmed_mean([])


def test_the_interval_of_a_mean_covers() -> None:
    """Of heavy tails: Student's t with three degrees of freedom."""
    rng = np.random.default_rng(5)
    within = 0
    for _ in range(1000):
        mean, variance, dof = trimmed_mean(rng.standard_t(3, 8).tolist())
        within += abs(mean) <= half_width(variance, dof)
    assert 930 <= within <= 980


def test_one_value_has_the_error_of_the_others() -> None:
    one = pooled([Input(1.0, 0.02, 1), Input(5.0, math.nan, 0)])[1]
    assert one == Input(5.0, 0.04, 1)  # of one value: the others are means of two
    assert pooled([Input(1.0, math.nan, 0)]) == [Input(1.0, 0.0, 0.0)]


def test_derivatives_and_degrees_of_freedom() -> None:
    def products(rows: Floats) -> Floats:
        return np.stack([rows[:, 0] * rows[:, 1], rows[:, 1] ** 2], axis=1)

    found = derivatives(products, np.array([2.0, 3.0]))
    assert found == pytest.approx(np.array([[3.0, 2.0], [0.0, 6.0]]))
    # Welch-Satterthwaite of equal parts adds their degrees of freedom up
    assert effective_dof(np.array([0.5, 0.5]), np.array([4.0, 4.0])) == pytest.approx(8)
    assert effective_dof(np.array([0.5, 0.0]), np.array([4.0, 0.0])) == pytest.approx(4)
    assert effective_dof(np.zeros(2), np.ones(2)) == math.inf


def test_fisher_s_tail_is_that_of_tables() -> None:
    assert f_upper_tail(4.256495, 2, 9) == pytest.approx(0.05, abs=1e-6)
    assert f_upper_tail(student_quantile(0.975, 7) ** 2, 1, 7) == pytest.approx(0.05)
    assert f_upper_tail(3.841459, 1, math.inf) == pytest.approx(0.05, abs=1e-6)
