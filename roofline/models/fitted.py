"""What every fitted model has: parameters with intervals, residuals, range, error on held-out sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, Final, TypeVar

from npc.statistics import MIN_SAMPLES
from roofline.models.estimate import Parameter
from roofline.models.piecewise import Pieces, Sweep

#: The error of a prediction is bounded with this probability where there are sizes enough.
HELD_OUT_LEVEL: Final = 0.95

M = TypeVar("M", bound="PiecewiseLinear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A model fitted to one sweep or to a set of sweeps.

    x: sizes in bytes (of LogfP: numbers of messages). residuals: (measured − fitted)/fitted at each x.
    held_out: ln(measured/predicted) at each x by the model fitted without it. launches: how many were
    measured at every x. set_aside: those x whose measurement was disturbed, not fitted. note: what to know
    before believing it.
    """

    model: ClassVar[str]
    equation: ClassVar[str]
    source: ClassVar[str]

    parameters: tuple[Parameter, ...]
    x: tuple[float, ...]
    residuals: tuple[float, ...]
    held_out: tuple[float, ...]
    launches: int
    set_aside: tuple[float, ...] = ()
    note: str = ""

    @property
    def evidence(self) -> str:
        """What the intervals rest on: ``launches`` or ``residuals`` (`roofline.models.estimate`)."""
        return "launches" if self.launches >= MIN_SAMPLES else "residuals"

    @property
    def residual_rms(self) -> float:
        """Root of the mean squared relative residual of what was fitted."""
        used = [error for x, error in zip(self.x, self.residuals, strict=True) if x not in self.set_aside]
        return math.sqrt(sum(error**2 for error in used) / len(used))

    @property
    def held_out_median(self) -> float:
        """Median relative error on sizes not shown: |measured/predicted − 1|."""
        return median(relative_errors(self.held_out))


@dataclass(frozen=True, slots=True, kw_only=True)
class PiecewiseLinear(Fitted):
    """A model whose parameters are those of the lines of `pieces`, which predict."""

    pieces: Pieces

    @classmethod
    def of(cls: type[M], sweep: Sweep, pieces: Pieces, parameters: tuple[Parameter, ...]) -> M:
        """The model of a sweep by its pieces."""
        return cls(
            parameters=parameters,
            x=tuple(pieces.x.tolist()),
            residuals=tuple(pieces.residuals.tolist()),
            held_out=tuple(pieces.held_out.tolist()),
            launches=sweep.whole_launches.shape[1],
            set_aside=tuple(pieces.x[pieces.set_aside].tolist()),
            pieces=pieces,
        )


def relative_errors(logarithms: Sequence[float]) -> list[float]:
    """|measured/predicted − 1| of ln(measured/predicted)."""
    return [math.expm1(error) if error > 0 else -math.expm1(error) for error in logarithms]


def held_out_bound(logarithms: Sequence[float], level: float = HELD_OUT_LEVEL) -> tuple[float, float]:
    """(bound, coverage): |ln(measured/predicted)| of one more size is within the bound so often.

    The errors at sizes that were left out are taken as exchangeable with the next one; then the k-th
    smallest of n bounds it with probability k/(n + 1) (split conformal prediction: Vovk, Gammerman, Shafer,
    Algorithmic Learning in a Random World, 2005; leave-one-out: Barber et al., Annals of Statistics 49(1),
    2021). Where n is too small for `level` it is the largest, with n/(n + 1).
    """
    ordered = sorted(abs(error) for error in logarithms)
    n = len(ordered)
    k = min(n, math.ceil(level * (n + 1)))
    return ordered[k - 1], k / (n + 1)


def line_parameters(
    pieces: Pieces, alpha: tuple[str, str], beta: tuple[str, str], rate: tuple[str, str]
) -> tuple[Parameter, ...]:
    """(name, meaning) of α, β and 1/β become the parameters of each piece, with the switches between."""
    found = []
    for piece in range(len(pieces.splits)):
        valid = pieces.range(piece)
        intercept, slope = pieces.line(piece)
        if piece:
            below = pieces.range(piece - 1)[1]
            middle = math.sqrt(max(below, 1.0) * valid[0])
            said = "the protocol switches between these sizes"
            found.append(Parameter("switch", middle, "B", below, valid[0], None, said, below, valid[0]))
        found.append(Parameter.of(alpha[0], intercept, "s", alpha[1], valid))
        found.append(Parameter.of(beta[0], slope, "s/B", beta[1], valid))
        found.append(Parameter.inverse(rate[0], slope, "B/s", rate[1], valid))
    return tuple(found)
