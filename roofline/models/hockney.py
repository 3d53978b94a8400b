"""Hockney's α–β model, by pieces: T(m) = α + β·m for m bytes, with α and β of each protocol.

R. W. Hockney, The communication challenge for MPP: Intel Paragon and Meiko CS-2, Parallel Computing 20(3),
1994, equation 1: t = t₀ + n/r∞, so that α = t₀, β = 1/r∞; n½ = α/β is the size at half of r∞. One line
suits no MPI that switches from eager to rendezvous, hence the pieces (`npc.roofline.models.piecewise`).

T is the time of one message one way, which a ping-pong measures as half its round trip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from npc.roofline.models.fitted import PiecewiseLinear, line_parameters
from npc.roofline.models.piecewise import MOST_PIECES, Sweep, fit_pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Hockney(PiecewiseLinear):
    """α and β of each piece; `pieces` predicts."""

    model: ClassVar[str] = "Hockney"
    equation: ClassVar[str] = "T(m) = α + β·m"
    source: ClassVar[str] = "Hockney, Parallel Computing 20(3), 1994"
    observable: ClassVar[str] = "half round trip"


def fit(sweep: Sweep, most: int = MOST_PIECES) -> Hockney:
    """The model of half round trips over the message size, with at most `most` pieces."""
    pieces = fit_pieces(sweep, most)
    return Hockney.of(
        sweep,
        pieces,
        line_parameters(
            pieces,
            ("α", "latency: time before the first byte"),
            ("β", "time of one more byte"),
            ("1/β", "asymptotic bandwidth"),
        ),
    )
