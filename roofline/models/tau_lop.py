"""τ-Lop: transfers that share a channel at the same time make each other slower.

J.-A. Rico-Gallego, J.-C. Díaz-Martín, τ-Lop: modeling performance of shared memory MPI, Parallel Computing
46, 2015. A message costs an overhead o and passes s transfers of the channel, T(m) = o + s·L(m,τ), where
L(m,τ) is the time of one transfer of m bytes while τ of them share the channel; a free channel has L(m,τ) =
L(m,1), one that is used up L(m,τ) = τ·L(m,1). Within a node s = 2 (into the shared buffer and out of it),
between nodes s = 1.

o is half a round trip before its first byte, L(m,τ) = m·λ(τ) a line through the origin beyond it, within the
pieces of the half round trip. λ(τ)/λ(1) is what τ concurrent transfers cost each of them; the largest sizes
tell it best, so the parameters are those of the last piece. In Hockney's model no transfer knows of others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npc.roofline.models.estimate import EstimatedNumber, Parameter
from npc.roofline.models.fitted import FittedModel, parts_of
from npc.roofline.models.piecewise import PiecewiseFit, Sweep, design_of, fit_on, fit_pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class TauLop(FittedModel):
    """o, and λ(τ) of every τ measured. `x` and what belongs to it repeat for each τ."""

    model: ClassVar[str] = "τ-Lop"
    equation: ClassVar[str] = "T(m) = o + s·L(m,τ), L(m,τ) = m·λ(τ)"
    source: ClassVar[str] = "Rico-Gallego, Díaz-Martín, Parallel Computing 46, 2015"

    #: By the number τ of concurrent transfers the lines of their times.
    pieces: Mapping[int, PiecewiseFit]


def fit(sweeps: Mapping[int, Sweep], nodes: int) -> TauLop:
    """The model of {τ: times of a transfer over its size}. Raises KeyError without τ = 1."""
    transfers = 2 if nodes == 1 else 1
    alone = fit_pieces(sweeps[1])
    pieces = {1: alone} | {
        count: fit_on(sweep, alone.splits) for count, sweep in sorted(sweeps.items()) if count > 1
    }
    last = len(alone.splits) - 1
    valid = alone.range(last)
    per_byte = {count: lines.line(last)[1] * (1 / transfers) for count, lines in pieces.items()}
    parameters = [Parameter.of("o", alone.line(0)[0], "s", "overhead of a message", alone.range(0))]
    for count, number in per_byte.items():
        meaning = f"time of a byte in each of s = {transfers} transfers, {count} at a time"
        parameters.append(Parameter.of(f"λ({count})", number, "s/B", meaning, valid))
    for count, number in per_byte.items():
        if count > 1:
            meaning = (
                f"how much slower {count} concurrent transfers are; {count} where the channel is used up"
            )
            parameters.append(
                Parameter.of(f"λ({count})/λ(1)", _ratio(number, per_byte[1]), "1", meaning, valid)
            )
    return TauLop(
        parameters=tuple(parameters),
        x=tuple(size for piece in pieces.values() for size in piece.x.tolist()),
        residuals=tuple(error for piece in pieces.values() for error in piece.residuals.tolist()),
        held_out=tuple(error for piece in pieces.values() for error in piece.held_out.tolist()),
        parts=tuple(
            part
            for place, count in enumerate(pieces)
            if count > 1
            for part in parts_of(f"{count} concurrent transfers", alone.splits, place * len(alone.x))
        ),
        rivals={"Hockney": tuple(error for piece in pieces.values() for error in _as_if_alone(piece, alone))},
        launches=min(sweep.whole_launches.shape[1] for sweep in sweeps.values()),
        pieces=pieces,
    )


def _as_if_alone(pieces: PiecewiseFit, alone: PiecewiseFit) -> list[float]:
    """ln(measured/predicted) by the lines of a transfer that has the channel for itself."""
    if pieces is alone:
        return list(alone.held_out.tolist())
    fitted = design_of(alone.x, alone.splits) @ alone.fit.values
    return list(np.log(pieces.middle / fitted).tolist())


def _ratio(above: EstimatedNumber, below: EstimatedNumber) -> EstimatedNumber:
    """above/below, launch by launch; the variance by error propagation to first order."""
    if below.value <= 0:
        return EstimatedNumber(math.nan)
    value = above.value / below.value
    difference = (above + below * -value) * (1 / below.value)
    launches = tuple(a / b for a, b in zip(above.launches, below.launches, strict=True) if b > 0)
    whole = len(launches) == len(above.launches)
    return EstimatedNumber(value, launches if whole else (), difference.variance, difference.dof)
