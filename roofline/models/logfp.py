"""LogfP: of a burst of small messages the first f cost no gap.

T. Hoefler, T. Mehlan, F. Mietke, W. Rehm, LogfP – a model for small messages in InfiniBand, IPDPS 2006: the
adapter takes f messages as fast as the processor can give them, each for an overhead o; only those beyond
wait for the gap g. Measured as the parametrised round trip time of n messages of one byte,

    PRTT(n,0,1) = R + (n − 1)·o + max(0, n − f)·(g − o),

two lines that meet at n = f. Each measured n between is tried for f, and the one with the least sum of
relative squares is taken; f is kept if the second line earns its penalty
(`npc.roofline.models.piecewise`) and is the steeper one. Without it every message costs the gap from the
first on: f = 1. Intervals of o, g and R are those at the f found; f itself lies between its two neighbours
among the n measured.

In LogGP every message costs the gap, R + (n − 1)·g, and in Hockney's model, which has no gap, each of the n
and the answer are sent one after the other, (n + 1)·T: both are fitted to the same bursts, for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npc.roofline.cross_validation import BURST
from npc.roofline.models.estimate import EstimatedNumber, Linear, Parameter
from npc.roofline.models.fitted import FittedModel, FittedRange
from npc.roofline.models.piecewise import LEAST, PENALTY, Sweep, fit_times, reweighted_fit, weighted_fit
from npc.statistics.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class LogfP(FittedModel):
    """R, o, g and f; x counts messages."""

    model: ClassVar[str] = "LogfP"
    equation: ClassVar[str] = "PRTT(n,0,1) = R + (n − 1)·o + max(0, n − f)·(g − o)"
    source: ClassVar[str] = "Hoefler et al., IPDPS 2006"


def fit(sweep: Sweep) -> LogfP:
    """The model of bursts over their number of messages."""
    x, middle = sweep.x, sweep.middle
    knee = _knee(x, middle)
    linear = fit_times(_design(x, knee), sweep.times)
    fitted = _design(x, knee) @ linear.values
    others = ~np.eye(len(x), dtype=bool)
    return LogfP(
        parameters=_parameters(x, knee, linear),
        x=tuple(x.tolist()),
        residuals=tuple(((middle - fitted) / fitted).tolist()),
        held_out=_held_out([_design(x, _knee(x[shown], middle[shown])) for shown in others], middle),
        launches=sweep.whole_launches.shape[1],
        note="" if knee else "every message costs the gap: none is free",
        parts=(FittedRange(BURST, 0, len(x) - 1),),
        rivals={
            "Hockney": _held_out([(x + 1)[:, None]] * len(x), middle),
            "LogGP": _held_out([_design(x, None)] * len(x), middle),
        },
    )


def _design(x: Floats, knee: float | None) -> Floats:
    """Columns of R, o and, with a knee, of g − o."""
    beyond = [] if knee is None else [np.maximum(0, x - knee)]
    return np.column_stack([np.ones_like(x), x - 1, *beyond])


def _knee(x: Floats, y: Floats) -> float | None:
    """The f that fits best, or None where one line does."""
    n = len(x)
    candidates = x[1 : n - LEAST + 1].tolist()
    if n < 2 * LEAST:
        return None

    def squares(knee: float | None) -> float:
        theta, fitted = weighted_fit(_design(x, knee), y, y)
        rises = knee is None or theta[2] > 0
        return max(float((((y - fitted) / y) ** 2).sum()), n * 1e-10) if rises else math.inf

    best = min(candidates, key=squares)
    one, two = squares(None) / (n - 2), squares(best) / (n - 4)
    return float(best) if n * math.log(two / one) + PENALTY * math.log(n) < 0 else None


def _parameters(x: Floats, knee: float | None, linear: Linear) -> tuple[Parameter, ...]:
    valid = (float(x[0]), float(x[-1]))
    if knee is None:
        first = EstimatedNumber(1.0)
        start, gap = linear.combine((1, 0)), linear.combine((0, 1))
        overhead = None
    else:
        first = EstimatedNumber(knee)
        start, overhead, gap = linear.combine((1, 0, 0)), linear.combine((0, 1, 0)), linear.combine((0, 1, 1))
    parameters = [Parameter.of("R", start, "s", "round trip of one message", valid)]
    if overhead:
        parameters.append(Parameter.of("o", overhead, "s", "cost of a message that needs no gap", valid))
    parameters.append(Parameter.of("g", gap, "s", "gap: cost of each message beyond f", valid))
    place = x.tolist().index(first.value) if knee else 0
    around = (x[place - 1], x[place + 1]) if knee else (None, None)
    low, high = (None if neighbour is None else float(neighbour) for neighbour in around)
    free = Parameter("f", first.value, "1", low, high, None, "messages that cost no gap", *valid)
    return (*parameters, free)


def _held_out(designs: Sequence[Floats], y: Floats) -> tuple[float, ...]:
    """ln(measured/predicted) of each n, fitted without it by the design in its place."""
    errors = []
    for place, design in enumerate(designs):
        shown = np.arange(len(y)) != place
        predicted = float(design[place] @ reweighted_fit(design[shown], y[shown])[0])
        errors.append(math.log(y[place] / predicted) if predicted > 0 else math.inf)
    return tuple(errors)
