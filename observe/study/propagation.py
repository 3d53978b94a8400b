"""How the uncertainty of what was measured becomes that of a number made of it.

The law of propagation: u² = Σ (∂f/∂x_i)² u²(x_i), with the effective degrees of freedom of Welch and
Satterthwaite (Guide to the Expression of Uncertainty in Measurement, JCGM 100:2008, 5.1.2 and G.4.1). It
takes f as linear within the uncertainties, and the inputs as independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from npc.statistics.distributions import student_quantile
from npc.statistics.medians import LEVEL

if TYPE_CHECKING:
    from npc.statistics.arrays import Floats

#: The part of the sample that is cut off at each end.
_TRIMMED: Final = 0.25
#: The step of a derivative, of inputs that are logarithms or about 1.
_STEP: Final = 1e-5


class Input(NamedTuple):
    """A measured value, and how uncertain it is."""

    #: Mean of the samples, in their unit.
    value: float
    #: Variance of that mean, in the unit squared; NaN of a single sample.
    variance: float
    #: Degrees of freedom of `variance`; 0 where it is not known.
    dof: float


def trimmed_mean(values: Sequence[float]) -> Input:
    """The mean without the largest and the smallest quarter, rounded down (none of three values).

    Its variance is that of the winsorised sample (Tukey, McLaughlin, Sankhyā A 25, 1963; Yuen, Biometrika 61,
    1974). One value has none: NaN, with no degree of freedom. Raises ValueError on no values.
    """
    if not values:
        raise ValueError("a mean needs at least one value")
    ordered = sorted(values)
    n = len(ordered)
    cut = int(_TRIMMED * n)
    middle_part = ordered[cut : n - cut]
    mean = sum(middle_part) / len(middle_part)
    if n == 1:
        return Input(mean, math.nan, 0)
    winsorised = [middle_part[0]] * cut + middle_part + [middle_part[-1]] * cut
    middle = sum(winsorised) / n
    squares = sum((value - middle) ** 2 for value in winsorised)
    return Input(mean, squares / (len(middle_part) * (len(middle_part) - 1)), len(middle_part) - 1)


def pooled(inputs: Sequence[Input]) -> list[Input]:
    """The inputs. Those without a variance get the mean one of the others, or 0 where no input has one."""
    known = [measured for measured in inputs if measured.dof > 0]
    dof = sum(measured.dof for measured in known)
    # that of a single value: the variances of the others are of means
    variance = (
        sum(measured.dof * measured.variance * (measured.dof + 1) for measured in known) / dof
        if known
        else 0.0
    )
    return [measured if measured.dof > 0 else Input(measured.value, variance, dof) for measured in inputs]


def derivatives(function: Callable[[Floats], Floats], at: Floats) -> Floats:
    """∂f_j/∂x_i as an array of (outputs, inputs). function: (n, inputs) to (n, outputs)."""
    import numpy as np

    steps = _STEP * np.eye(len(at))
    slopes: Floats = (function(at + steps) - function(at - steps)).T / (2 * _STEP)
    return slopes


def effective_dof(parts: Floats, dof: Floats) -> float:
    """Degrees of freedom of the sum of variances `parts` that have `dof` each (JCGM 100:2008, G.2b); infinite
    where none of them is uncertain."""
    import numpy as np

    used = parts > 0
    below = float(np.sum(parts[used] ** 2 / np.maximum(dof[used], 1e-9)))
    return float(np.sum(parts)) ** 2 / below if below > 0 else math.inf


def half_width(variance: float, dof: float, level: float = LEVEL) -> float:
    """Half the width of the interval that covers with probability `level`, by Student's t."""
    return student_quantile((1 + level) / 2, dof) * math.sqrt(variance)


def f_upper_tail(ratio: float, above: float, below: float) -> float:
    """P(F > ratio) of Fisher's F; the degrees of freedom may be fractional, those below infinite."""
    from scipy.special import chdtrc, fdtrc

    return float(fdtrc(above, below, ratio) if math.isfinite(below) else chdtrc(above, ratio * above))
