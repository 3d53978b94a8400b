"""LogfP: of a burst of small messages the first f cost no gap.

T. Hoefler, T. Mehlan, F. Mietke, W. Rehm, LogfP – a model for small messages in InfiniBand, IPDPS 2006: the
adapter takes f messages as fast as the processor can give them, each for an overhead o; only those beyond
wait for the gap g. Measured as the parametrised round trip time of n messages of one byte,

    PRTT(n,0,1) = R + (n − 1)·o + max(0, n − f)·(g − o),

two lines that meet at n = f. Each measured n between is tried for f, the least relative squares count; f is
kept if the second line earns its penalty (`roofline.models.piecewise`) and is the steeper one. Without it
every message costs the gap from the first on: f = 1. Intervals of o, g and R are those at the f found; f
itself lies between its two neighbours among the n measured.

In LogGP every message costs the gap, R + (n − 1)·g, and in Hockney's model, which has no gap, each of the n
and the answer are sent one after the other, (n + 1)·T: both are fitted to the same bursts, for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from npc.statistics.medians import MIN_SAMPLES
from roofline.cross_validation import BURST
from roofline.models.estimate import Linear, Number, Parameter
from roofline.models.fitted import Fitted, Part
from roofline.models.piecewise import LEAST, PENALTY, Sweep, fit_linear, reweighted_fit, weighted_fit

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
    import numpy as np

    x, middle = sweep.x, sweep.middle
    knee = _knee(x, middle)
    linear = _fit(sweep, _design(x, knee))
    fitted = _design(x, knee) @ linear.values
    others = ~np.eye(len(x), dtype=bool)
    return LogfP(
        parameters=_parameters(x, knee, linear),
        x=tuple(x.tolist()),
        residuals=tuple(((middle - fitted) / fitted).tolist()),
        held_out=_held_out(_designs(x, [_knee(x[kept], middle[kept]) for kept in others]), middle),
        launches=sweep.whole_launches.shape[1],
        note="" if knee else "every message costs the gap: none is free",
        parts=(Part(BURST, 0, len(x) - 1),),
        rivals={
            "Hockney": _held_out((x + 1)[:, None], middle),
            "LogGP": _held_out(_design(x, None), middle),
        },
    )


def _design(x: Array, knee: float | None) -> Array:
    """The columns of a design that has them."""
    return _designs(x, [knee])[0, :, : 3 if knee else 2]


def _designs(x: Array, knees: Sequence[float | None]) -> Array:
    """Columns of R, o and g − o for each knee; the last is zero without one (knees × messages × 3)."""
    import numpy as np

    knee = np.array([np.inf if each is None else each for each in knees])[:, None]
    beyond = np.maximum(0, x - knee)
    return np.stack([np.ones_like(beyond), np.broadcast_to(x - 1, beyond.shape), beyond], axis=2)


def _knee(x: Array, y: Array) -> float | None:
    """The f that fits best, or None where one line does."""
    import numpy as np

    n = len(x)
    candidates = x[1 : n - LEAST + 1]
    if n < 2 * LEAST or not len(candidates):
        return None
    designs = _designs(x, [None, *candidates.tolist()])
    theta, fitted = weighted_fit(designs, y[None], y[None])
    rss = (((y - fitted) / y) ** 2).sum(axis=1)
    line, bent = float(rss[0]), np.where(theta[1:, 2] > 0, rss[1:], np.inf)
    best = int(bent.argmin())
    floor = n * 1e-10
    one, two = max(line, floor) / (n - 2), max(float(bent[best]), floor) / (n - 4)
    return float(candidates[best]) if n * math.log(two / one) + PENALTY * math.log(n) < 0 else None


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


def _held_out(designs: Array, y: Array) -> tuple[float, ...]:
    """ln(measured/predicted) of each n, fitted without it by the design in its place, or by that for all."""
    import numpy as np

    n = len(y)
    each = np.broadcast_to(designs, (n, *designs.shape[-2:]))
    _, fitted, _ = reweighted_fit(each, np.broadcast_to(y, (n, n)), ~np.eye(n, dtype=bool))
    predicted = fitted.diagonal()
    with np.errstate(divide="ignore", invalid="ignore"):
        return tuple(np.where(predicted > 0, np.log(y / predicted), np.inf).tolist())
