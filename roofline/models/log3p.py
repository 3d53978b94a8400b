"""log_nP and log_3P: what the middleware adds to a transfer.

K. W. Cameron, R. Ge, X.-H. Sun, lognP and log3P: accurate analytical models of point-to-point communication
in distributed systems, IEEE Transactions on Computers 56(3), 2007. A message passes n implicit transfers,
each with an overhead o_i for contiguous data and an extra l_i for strided data: T = Σ (o_i + l_i). Three
are enough for MPI (log_3P): the sender's memory to the library's buffer, the network, the buffer to the
receiver's memory,

    T(s) = 2·(o_mw(s) + l_mw(s)) + o_net(s).

o_mw is what it takes to pack contiguous data, l_mw how much longer strided data take, both on one node;
o_net is the rest of half a round trip of contiguous data. The half round trip of strided data is not used
for the fit: it is what the model must predict, so its error there is the error on data not shown. Hockney's
model, for which the layout of data does not matter, predicts that of contiguous data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from npc.roofline.models.estimate import EstimatedNumber, Parameter
from npc.roofline.models.fitted import FittedModel, parts_of
from npc.roofline.models.piecewise import PiecewiseFit, Sweep, fit_on, fit_pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Log3P(FittedModel):
    """o_mw, l_mw, o_net of each protocol; residuals of contiguous data, held_out of strided data."""

    model: ClassVar[str] = "log_3P"
    equation: ClassVar[str] = "T(s) = 2·(o_mw + l_mw) + o_net"
    source: ClassVar[str] = "Cameron, Ge, Sun, IEEE Trans. Computers 56(3), 2007"


def fit(contiguous: Sweep, strided: Sweep, pack: Sweep, pack_strided: Sweep) -> Log3P:
    """The model of half round trips and of packing, both of contiguous and of strided data."""
    transfer = fit_pieces(contiguous)
    copy, gather = fit_on(pack, transfer.splits), fit_on(pack_strided, transfer.splits)
    parameters: list[Parameter] = []
    held_out: list[float] = []
    contiguous_only: list[float] = []
    for piece, (first, last) in enumerate(transfer.splits):
        parameters += _parameters(transfer, copy, gather, piece)
        for place in range(first, last + 1):
            size = float(transfer.x[place])
            whole, once, strides = (_at(pieces, piece, size).value for pieces in (transfer, copy, gather))
            predicted = whole + 2 * (strides - once)
            held_out.append(math.log(strided.middle[place] / predicted) if predicted > 0 else math.inf)
            contiguous_only.append(math.log(strided.middle[place] / whole))
    return Log3P(
        parameters=tuple(parameters),
        x=tuple(transfer.x.tolist()),
        residuals=tuple(transfer.residuals.tolist()),
        held_out=tuple(held_out),
        launches=contiguous.whole_launches.shape[1],
        parts=parts_of("half round trip of strided data", transfer.splits),
        rivals={"Hockney": tuple(contiguous_only)},
    )


def _at(pieces: PiecewiseFit, piece: int, size: float) -> EstimatedNumber:
    return pieces.combine({piece: (1.0, size)})


def _parameters(
    transfer: PiecewiseFit, copy: PiecewiseFit, gather: PiecewiseFit, piece: int
) -> list[Parameter]:
    """Fixed cost and cost of a byte of each of the three, for one protocol."""
    valid = transfer.range(piece)
    (fixed, byte), (copy_fixed, copy_byte), (gather_fixed, gather_byte) = (
        pieces.line(piece) for pieces in (transfer, copy, gather)
    )
    return [
        Parameter.of("o_mw", copy_fixed, "s", "middleware at each end, before the first byte", valid),
        Parameter.of("o_mw/s", copy_byte, "s/B", "middleware at each end, one more byte", valid),
        Parameter.of(
            "l_mw", gather_fixed - copy_fixed, "s", "strided data: more before the first byte", valid
        ),
        Parameter.of("l_mw/s", gather_byte - copy_byte, "s/B", "strided data: more for each byte", valid),
        Parameter.of(
            "o_net", fixed - copy_fixed * 2.0, "s", "the rest: network, before the first byte", valid
        ),
        Parameter.of("o_net/s", byte - copy_byte * 2.0, "s/B", "the rest: network, one more byte", valid),
    ]
