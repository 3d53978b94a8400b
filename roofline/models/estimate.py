"""A fitted number and what is known of its error.

Two kinds of evidence give an interval, and each fit says which of them it has:

- ``launches``: six or more launches were measured at every size. The model is fitted to each launch alone,
  and the interval is that of order statistics among these estimates (`npc.statistics.medians`). No
  distribution is assumed, and effects on all sizes of one launch, such as its placement, are included.
- ``residuals``: fewer launches. The interval is θ ± t·s(θ) with the covariance of weighted least squares
  and Student's quantile. It assumes that errors of different points are independent of each other.

Both are intervals of the model's parameter at the sizes measured. They do not say whether the model is right:
its residuals do, and its error on sizes it was not shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from npc.statistics.arrays import Booleans, Floats
from npc.statistics.distributions import student_quantile
from npc.statistics.medians import LEVEL, order_statistic_rank


class Interval(NamedTuple):
    """The bounds of an estimate; all None where nothing can be said."""

    #: Lower bound, in the unit of the estimate.
    low: float | None
    #: Upper bound, likewise.
    high: float | None
    #: Probability with which the bounds hold.
    coverage: float | None


NO_INTERVAL: Final = Interval(None, None, None)


@dataclass(frozen=True, slots=True)
class EstimatedNumber:
    """A fitted number, with what its interval follows from."""

    #: The estimate from all launches.
    value: float
    #: The estimate from each launch alone, in the unit of `value`; empty where fewer than six were measured.
    launches: tuple[float, ...] = ()
    #: Variance of `value`, in its unit squared; NaN where it is not known.
    variance: float = math.nan
    #: Degrees of freedom of `variance`; 0 where it is not known.
    dof: float = 0.0

    def __add__(self, other: EstimatedNumber) -> EstimatedNumber:
        """The sum of two numbers that share launches, or else are independent (Welch–Satterthwaite)."""
        variance = self.variance + other.variance
        parts = [(estimate.variance, estimate.dof) for estimate in (self, other) if estimate.variance > 0]
        spread = sum(part**2 / dof for part, dof in parts if dof > 0)
        return EstimatedNumber(
            self.value + other.value,
            tuple(a + b for a, b in zip(self.launches, other.launches, strict=False)),
            variance,
            variance**2 / spread if spread > 0 else min(self.dof, other.dof),
        )

    def __mul__(self, factor: float) -> EstimatedNumber:
        return EstimatedNumber(
            self.value * factor,
            tuple(launch * factor for launch in self.launches),
            self.variance * factor**2,
            self.dof,
        )

    def along(self, other: EstimatedNumber) -> EstimatedNumber:
        """The sum of two numbers that were fitted to the same measurements: launch by launch. Without
        launches it has the largest error that is possible, the sum of both errors."""
        error = math.sqrt(self.variance) + math.sqrt(other.variance)
        launches = tuple(a + b for a, b in zip(self.launches, other.launches, strict=True))
        return EstimatedNumber(self.value + other.value, launches, error**2, min(self.dof, other.dof))

    def __sub__(self, other: EstimatedNumber) -> EstimatedNumber:
        return self + other * -1.0

    def interval(self, level: float = LEVEL) -> Interval:
        """The interval that covers the truth with at least `level`.

        Where the estimate from all launches lies outside of the interval of single launches, that is widened
        to it.
        """
        rank = order_statistic_rank(len(self.launches), level)
        if rank is not None:
            k, coverage = rank
            ordered = sorted(self.launches)
            return Interval(min(ordered[k - 1], self.value), max(ordered[-k], self.value), coverage)
        if self.dof >= 1 and math.isfinite(self.variance):
            half = student_quantile((1 + level) / 2, self.dof) * math.sqrt(self.variance)
            return Interval(self.value - half, self.value + half, level)
        return NO_INTERVAL


@dataclass(frozen=True, slots=True)
class Linear:
    """Coefficients θ that were fitted together."""

    #: The p coefficients; of lines α in s and β in s/B.
    values: Floats
    #: Their covariance, p × p.
    covariance: Floats
    #: Degrees of freedom of `covariance`.
    dof: float
    #: J × p: the coefficients of each of J launches alone; no row where fewer than six were measured.
    launches: Floats
    #: Where coefficients would be negative and are set to zero here, the fit without that bound; None: there
    #: are none.
    free: Linear | None = None

    def placed(self, at: Booleans, free: Linear) -> Linear:
        """These coefficients at the places where `at` is True, and zero at the others. free: the fit without
        that bound."""
        into = np.eye(len(at))[at]
        return Linear(
            self.values @ into, into.T @ self.covariance @ into, self.dof, self.launches @ into, free
        )

    def number(self, place: int) -> EstimatedNumber:
        """The estimate of one coefficient. One that is zero because it would be negative has the error that
        it had without that bound."""
        weights = [0.0] * len(self.values)
        weights[place] = 1.0
        if self.free is None or self.values[place] != 0:
            return self.combine(weights)
        return replace(self.free.combine(weights), value=0.0)

    def combine(self, weights: Sequence[float]) -> EstimatedNumber:
        """The estimate of Σ weights·θ, with the errors' correlation."""
        a = np.asarray(weights, dtype=float)
        return EstimatedNumber(
            float(a @ self.values),
            tuple((self.launches @ a).tolist()),
            float(a @ self.covariance @ a),
            self.dof,
        )


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a model, with its interval."""

    #: As the paper calls it: ``α``.
    name: str
    #: In `unit`; NaN where the measurements do not determine it.
    value: float
    #: ``s``, ``s/B``, ``B/s``, ``B`` or ``1``.
    unit: str
    #: Lower end of its interval, in `unit`; None where there is no interval.
    low: float | None
    #: Upper end of its interval, likewise.
    high: float | None
    #: Probability with which the interval covers the true value; None where that is not known.
    coverage: float | None
    #: What the parameter is, in words.
    meaning: str
    #: Smallest size that it holds for, in bytes; of LogfP a number of messages.
    first: float
    #: Largest size that it holds for, likewise.
    last: float

    @classmethod
    def of(
        cls,
        name: str,
        number: EstimatedNumber,
        unit: str,
        meaning: str,
        valid: tuple[float, float],
        most: float = math.inf,
    ) -> Parameter:
        """A parameter that is a cost: it cannot lie below zero or above `most`, so its interval is cut there.

        Where nothing is left of the interval, or all from zero to a finite `most`, the measurements do not
        identify the parameter: it has no value (NaN) and no interval.
        """
        low, high, coverage = number.interval()
        if low is None or high is None:
            identified = not number.value < 0
        else:
            low, high = max(low, 0.0), min(high, most)
            identified = low <= high and not (low == 0 and high == most < math.inf)
        if not identified:
            meaning += " (not identified: the measurements leave every possible value, or none)"
            return cls(name, math.nan, unit, *NO_INTERVAL, meaning, *valid)
        value = min(max(number.value, 0.0), most)
        if low == 0 or value == 0:
            meaning += " (not told apart from 0)"
        return cls(name, value, unit, low, high, coverage, meaning, *valid)

    @classmethod
    def inverse(
        cls, name: str, number: EstimatedNumber, unit: str, meaning: str, valid: tuple[float, float]
    ) -> Parameter:
        """One over `number`, which is not negative; infinite at zero, as is the end of an interval there."""
        low, high, coverage = number.interval()
        value = 1 / number.value if number.value > 0 else math.inf
        if low is None or high is None or high <= 0:
            return cls(name, value, unit, *NO_INTERVAL, meaning, *valid)
        return cls(name, value, unit, 1 / high, 1 / low if low > 0 else math.inf, coverage, meaning, *valid)
