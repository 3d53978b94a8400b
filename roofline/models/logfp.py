"""LogfP: of a burst of small messages the first f cost no gap.

T. Hoefler, T. Mehlan, F. Mietke, W. Rehm, LogfP – a model for small messages in InfiniBand, IPDPS 2006: the
adapter takes f messages as fast as the processor can give them, each for an overhead o; only those beyond
wait for the gap g. Measured as the parametrised round trip time of n messages of one byte,

    PRTT(n,0,1) = R + (n − 1)·o + max(0, n − f)·(g − o),

two lines that meet at n = f. Each measured n between is tried for f, the least relative squares count; f is
kept if the second line earns its penalty (`roofline.models.piecewise`) and is the steeper one. Without it
every message costs the gap from the first on: f = 1. Intervals of o, g and R are those at the f found; f
itself lies between its two neighbours among the n measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from npc.statistics import MIN_SAMPLES
from roofline.models.estimate import Linear, Number, Parameter
from roofline.models.fitted import Fitted
from roofline.models.piecewise import LEAST, PENALTY, Sweep, fit_linear

if TYPE_CHECKING:
    from roofline.models.piecewise import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class LogfP(Fitted):
    """R, o, g and f; x counts messages."""

    model: ClassVar[str] = "LogfP"
    equation: ClassVar[str] = "PRTT(n,0,1) = R + (n − 1)·o + max(0, n − f)·(g − o)"
    source: ClassVar[str] = "Hoefler et al., IPDPS 2006"


def fit(sweep: Sweep) -> LogfP:
    """The model of bursts over their number of messages."""
    x, middle = sweep.x, sweep.middle
    knee = _knee(x, middle)
    linear = _fit(sweep, _design(x, knee))
    fitted = _design(x, knee) @ linear.values
    return LogfP(
        parameters=_parameters(x, knee, linear),
        x=tuple(x.tolist()),
        residuals=tuple(((middle - fitted) / fitted).tolist()),
        held_out=tuple(_held_out(x, middle)),
        launches=sweep.whole_launches.shape[1],
        note="" if knee else "every message costs the gap: none is free",
    )


def _design(x: Array, knee: float | None) -> Array:
    import numpy as np

    columns = [np.ones(len(x)), x - 1]
    return np.column_stack([*columns, np.maximum(0, x - knee)] if knee else columns)


def _knee(x: Array, y: Array) -> float | None:
    """The f that fits best, or None where one line does."""
    import numpy as np

    def rss(knee: float | None) -> float:
        design = _design(x, knee)
        theta = np.linalg.lstsq(design / y[:, None], np.ones(len(y)), rcond=None)[0]
        if knee and theta[2] <= 0:
            return math.inf
        return float((((y - design @ theta) / y) ** 2).sum())

    n = len(x)
    candidates = [float(each) for each in x[1 : n - LEAST + 1]]
    if n < 2 * LEAST or not candidates:
        return None
    best = min(candidates, key=rss)
    floor = n * 1e-10
    one, two = max(rss(None), floor) / (n - 2), max(rss(best), floor) / (n - 4)
    return best if n * math.log(two / one) + PENALTY * math.log(n) < 0 else None


def _fit(sweep: Sweep, design: Array) -> Linear:
    import numpy as np

    launches = sweep.whole_launches
    if launches.shape[1] >= MIN_SAMPLES:
        return fit_linear(design, sweep.middle, launches)
    known = ~np.isnan(sweep.times)
    rows = np.repeat(np.arange(len(sweep.x)), known.sum(axis=1))
    return fit_linear(design[rows], sweep.times[known])


def _parameters(x: Array, knee: float | None, linear: Linear) -> tuple[Parameter, ...]:
    valid = (float(x[0]), float(x[-1]))
    if knee is None:
        first = Number(1.0)
        start, gap = linear.combine((1, 0)), linear.combine((0, 1))
        overhead = None
    else:
        first = Number(knee)
        start, overhead, gap = linear.combine((1, 0, 0)), linear.combine((0, 1, 0)), linear.combine((0, 1, 1))
    found = [Parameter.of("R", start, "s", "round trip of one message", valid)]
    if overhead:
        found.append(Parameter.of("o", overhead, "s", "cost of a message that needs no gap", valid))
    found.append(Parameter.of("g", gap, "s", "gap: cost of each message beyond f", valid))
    place = x.tolist().index(first.value) if knee else 0
    around = (x[place - 1], x[place + 1]) if knee else (None, None)
    low, high = (None if each is None else float(each) for each in around)
    free = Parameter("f", first.value, "1", low, high, None, "messages that cost no gap", *valid)
    return (*found, free)


def _held_out(x: Array, y: Array) -> list[float]:
    """ln(measured/predicted) of each n, its knee searched and fitted without it."""
    import numpy as np

    errors = []
    for left_out in range(len(x)):
        kept = np.arange(len(x)) != left_out
        knee = _knee(x[kept], y[kept])
        theta = fit_linear(_design(x[kept], knee), y[kept]).values
        predicted = float((_design(x, knee) @ theta)[left_out])
        errors.append(math.log(y[left_out] / predicted) if predicted > 0 else math.inf)
    return errors
