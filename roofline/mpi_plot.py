"""The MPI roofline as PNG and SVG: operations a second over operations per byte, log-log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npc.records.units import format_size
from roofline.plot import DPI, INCHES, SHAPES, STYLE, log_log, save
from roofline.result import MpiCeiling, Roofline
from roofline.scene import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY_BLUE, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS: Final = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY_BLUE, BLACK)
_DASHES: Final = ("-", "--", "-.", ":")


def draw_mpi(roofline: Roofline, paths: Sequence[Path]) -> bool:
    """Write the picture to `paths`, in the format of their suffixes. Raises OSError.

    False, and nothing written, where no MPI operation was measured.
    """
    if not roofline.mpi:
        return False
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=INCHES, dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for number, ceiling in enumerate(roofline.mpi):
            _curve(
                axes,
                ceiling,
                _COLOURS[number % len(_COLOURS)],
                _DASHES[number // len(_COLOURS) % len(_DASHES)],
            )
        for number, caller in enumerate(roofline.callers):
            if caller.point is None:
                continue
            axes.plot(
                *caller.point,
                SHAPES[number % len(SHAPES)],
                ms=10,
                mec="white",
                color=BLACK,
                ls="",
                zorder=5,
                label=f"{caller.name}, {caller.ranks} ranks, a rank",
            )
        _frame(axes, f"MPI roofline of {roofline.platform}")
        save(figure, paths)
    return True


def _curve(axes: Axes, ceiling: MpiCeiling, colour: str, dashes: str) -> None:
    inverse = [1 / rate.size for rate in ceiling.rates]
    axes.plot(
        inverse,
        [rate.rate for rate in ceiling.rates],
        ls=dashes,
        marker=".",
        ms=5,
        color=colour,
        label=ceiling.name,
    )
    banded = [(1 / rate.size, rate.low, rate.high) for rate in ceiling.rates if rate.low and rate.high]
    if banded:
        x, low, high = zip(*banded, strict=True)
        axes.fill_between(x, low, high, color=colour, alpha=0.13, lw=0)


def _frame(axes: Axes, title: str) -> None:
    log_log(axes, "1/s")
    axes.set_xlabel("Operations per byte (left: large messages)")
    axes.set_ylabel("MPI operations a second")
    axes.set_title(title, loc="left", fontsize=17, fontweight="bold", pad=40)
    upper = axes.twiny()
    upper.set_xscale("log")
    upper.set_xlim(axes.get_xlim())
    left, right = axes.get_xlim()
    sizes = [2**power for power in range(0, 41, 2) if left <= 1 / 2**power <= right]
    upper.set_xticks([1 / size for size in sizes], [format_size(size) for size in sizes])
    upper.minorticks_off()
    upper.set_xlabel("message size")
    axes.legend(loc="upper left", fontsize=9.5, framealpha=0.9)
