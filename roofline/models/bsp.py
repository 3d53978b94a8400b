"""BSP: a superstep in which no process sends or receives more than h bytes takes T(h) = h·g + l.

L. G. Valiant, A bridging model for parallel computation, CACM 33(8), 1990; measured as an h-relation with its
barrier (Hill et al., BSPlib, Parallel Computing 24(14), 1998, section 5). g counts bytes here, not words.

BSP has one g and one l for all sizes by definition, so there are no pieces. The residuals and the error on
held-out sizes show how much precision that costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from npc.roofline.models.estimate import Parameter
from npc.roofline.models.fitted import PiecewiseLinear
from npc.roofline.models.piecewise import Sweep, fit_pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Bsp(PiecewiseLinear):
    """g and l of one number of processes."""

    model: ClassVar[str] = "BSP"
    equation: ClassVar[str] = "T(h) = h·g + l"
    source: ClassVar[str] = "Valiant, CACM 33(8), 1990"
    observable: ClassVar[str] = "superstep"


def fit(sweep: Sweep) -> Bsp:
    """The model of supersteps over h."""
    pieces = fit_pieces(sweep, most=1)
    synchronisation, gap = pieces.line(0)
    valid = pieces.range(0)
    return Bsp.of(
        sweep,
        pieces,
        (
            Parameter.of("l", synchronisation, "s", "synchronisation: a superstep that moves nothing", valid),
            Parameter.of("g", gap, "s/B", "time of one more byte in and out of every process", valid),
            Parameter.inverse("1/g", gap, "B/s", "bandwidth of a process while all communicate", valid),
        ),
    )
