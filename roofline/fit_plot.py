"""Measured times and the fitted lines over them, as a picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.fit_table import source_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from roofline.fits import Fit, Fits

#: Okabe and Ito's colours, which colour-blind people tell apart, and marks for print.
_STYLES = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#56B4E9", "v"),
    ("#000000", "P"),
)
_LINE_POINTS = 60


def draw(fits: Fits, path: Path) -> bool:
    """Draw every model of times over sizes to `path` (its suffix is the format); False if there is none.

    Raises OSError, and ValueError for a suffix that matplotlib does not know.
    """
    from roofline.models.piecewise import Pieces

    shown = [fit for fit in fits.fits if isinstance(getattr(fit.fitted, "pieces", None), Pieces)]
    if not shown:
        return False
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    for number, fit in enumerate(shown):
        _draw_fit(above, below, fit, *_STYLES[number % len(_STYLES)])
    above.set(xscale="log", yscale="log", ylabel="time [s]")
    above.grid(True, which="major", alpha=0.3)
    above.legend(fontsize=8, loc="upper left")
    below.axhline(0, color="black", linewidth=0.8)
    below.set(xlabel="message size [bytes]", ylabel="error held out [%]", ylim=(-60, 60))
    below.grid(True, which="major", alpha=0.3)
    figure.savefig(path, dpi=120)
    return True


def _draw_fit(above: Axes, below: Axes, fit: Fit, colour: str, mark: str) -> None:
    import numpy as np

    pieces = fit.fitted.pieces  # type: ignore[attr-defined]
    x = np.maximum(pieces.x, 0.5)  # no bytes at all stand left of one
    above.plot(x, pieces.middle, mark, color=colour, markersize=5, markerfacecolor="none")
    label = f"{fit.name}: {source_text(fit.source)}"
    for piece in range(len(pieces.splits)):
        first, last = pieces.range(piece)
        sizes = np.geomspace(max(first, 0.5), max(last, 1.0), _LINE_POINTS)
        alpha, beta = (number.value for number in pieces.line(piece))
        above.plot(sizes, alpha + beta * np.where(sizes < 1, 0, sizes), "-", color=colour, label=label)
        label = "_nolegend_"
        if piece:
            edge = math.sqrt(max(pieces.range(piece - 1)[1], 1) * first)
            above.axvline(edge, color=colour, linestyle=":", linewidth=0.9)
    below.plot(
        x,
        np.clip(100 * np.expm1(pieces.held_out), -60, 60),
        mark,
        color=colour,
        markersize=4,
        markerfacecolor="none",
    )
