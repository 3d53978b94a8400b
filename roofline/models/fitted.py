"""What every fitted model has: parameters with intervals, residuals, range, error on held-out sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import ClassVar, Final, NamedTuple, TypeVar

from npc.roofline.models.estimate import Parameter
from npc.roofline.models.piecewise import PiecewiseFit, Splits, Sweep
from npc.statistics.medians import MIN_SAMPLES

#: The error of a prediction is bounded with this probability where there are sizes enough.
_HELD_OUT_LEVEL: Final = 0.95

M = TypeVar("M", bound="PiecewiseLinear")


class FittedRange(NamedTuple):
    """A range of a model's x in which it is compared with other models."""

    #: What the models predict there: ``half round trip``, …
    observable: str
    #: Index of the range's first x.
    first: int
    #: Index of the range's last x, which is part of it.
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModel:
    """A model that was fitted to one sweep, or to a set of sweeps."""

    #: What its paper calls the model.
    model: ClassVar[str]
    #: Its time as a formula.
    equation: ClassVar[str]
    #: The paper that it is from.
    source: ClassVar[str]

    #: Its parameters with their intervals.
    parameters: tuple[Parameter, ...]
    #: Sizes in bytes; of LogfP numbers of messages.
    x: tuple[float, ...]
    #: (measured − fitted)/fitted at each x.
    residuals: tuple[float, ...]
    #: ln(measured/predicted) at each x, by the model fitted without it; infinite where that predicts nothing.
    held_out: tuple[float, ...]
    #: Number of launches that were measured at every x.
    launches: int
    #: Those x that were not fitted, because something disturbed their measurement.
    set_aside: tuple[float, ...] = ()
    #: What to know before believing it; empty if there is nothing.
    note: str = ""
    #: Where it is compared with other models of the same observable; empty: nowhere.
    parts: tuple[FittedRange, ...] = ()
    #: By name of a model that predicts the same without parameters of its own, the simplest first, its
    #: `held_out`.
    rivals: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def evidence(self) -> str:
        """What the intervals rest on: ``launches`` or ``residuals`` (`npc.roofline.models.estimate`)."""
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
class PiecewiseLinear(FittedModel):
    """A model whose parameters are those of straight lines."""

    #: What the model predicts: ``half round trip``, …
    observable: ClassVar[str]

    #: The lines, which predict times.
    pieces: PiecewiseFit

    @classmethod
    def of(cls: type[M], sweep: Sweep, pieces: PiecewiseFit, parameters: tuple[Parameter, ...]) -> M:
        """The model of a sweep by its pieces."""
        return cls(
            parameters=parameters,
            x=tuple(pieces.x.tolist()),
            residuals=tuple(pieces.residuals.tolist()),
            held_out=tuple(pieces.held_out.tolist()),
            launches=sweep.whole_launches.shape[1],
            set_aside=tuple(pieces.x[pieces.set_aside].tolist()),
            parts=parts_of(cls.observable, pieces.splits),
            pieces=pieces,
        )


def parts_of(observable: str, splits: Splits, start: int = 0) -> tuple[FittedRange, ...]:
    """A part for each piece of a sweep that begins at index `start` of x."""
    return tuple(FittedRange(observable, start + first, start + last) for first, last in splits)


def relative_errors(logarithms: Sequence[float]) -> list[float]:
    """|measured/predicted − 1| of ln(measured/predicted)."""
    return [math.expm1(error) if error > 0 else -math.expm1(error) for error in logarithms]


def held_out_bound(logarithms: Sequence[float]) -> tuple[float, float]:
    """(bound, coverage): |ln(measured/predicted)| of one more size is below the bound with that probability.

    The errors at sizes that were left out are taken as exchangeable with the next one; then the k-th
    smallest of n bounds it with probability k/(n + 1) (split conformal prediction: Vovk, Gammerman, Shafer,
    Algorithmic Learning in a Random World, 2005; leave-one-out: Barber et al., Annals of Statistics 49(1),
    2021). Where n is too small for such a bound it is the largest, with n/(n + 1).
    """
    ordered = sorted(abs(error) for error in logarithms)
    n = len(ordered)
    k = min(n, math.ceil(_HELD_OUT_LEVEL * (n + 1)))
    return ordered[k - 1], k / (n + 1)


def line_parameters(
    pieces: PiecewiseFit, alpha: tuple[str, str], beta: tuple[str, str], rate: tuple[str, str]
) -> tuple[Parameter, ...]:
    """The parameters of each piece, with the switches between pieces.

    alpha, beta, rate: (name, meaning) of α, β and 1/β.
    """
    parameters = []
    for piece in range(len(pieces.splits)):
        valid = pieces.range(piece)
        intercept, slope = pieces.line(piece)
        if piece:
            below = pieces.range(piece - 1)[1]
            middle = math.sqrt(max(below, 1.0) * valid[0])
            meaning = "the protocol switches between these sizes"
            parameters.append(
                Parameter("switch", middle, "B", below, valid[0], None, meaning, below, valid[0])
            )
        parameters.append(Parameter.of(alpha[0], intercept, "s", alpha[1], valid))
        parameters.append(Parameter.of(beta[0], slope, "s/B", beta[1], valid))
        parameters.append(Parameter.inverse(rate[0], slope, "B/s", rate[1], valid))
    return tuple(parameters)
