"""Measured times and the fitted lines over them, as a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npc.figures.chart import CYCLE, Axis, Chart, Mark, Place, Tick, Trace, quantity_axis, size_axis
from npc.records.units import format_size
from roofline.fit_table import source_text
from roofline.table import quantity_texts

if TYPE_CHECKING:
    from roofline.fits import Fit

_LINE_POINTS: Final = 60
#: Errors held out are drawn up to this, in per cent.
_MOST_ERROR: Final = 60.0


def draw(fits: Sequence[Fit], path: Path) -> bool:
    """Draw every model of times over sizes to `path` (its suffix is the format); False if there is none.

    Raises OSError, and ValueError for a suffix that Matplotlib does not know.
    """
    from npc.figures.printed import save

    shown = [fit for fit in fits if fit.lines]
    if not shown:
        return False
    above = describe(shown, _named, "fit", "Time of a message and its models", "")
    save([above, _errors(shown, above.x)], [path], heights=(3, 1))
    return True


def _named(fit: Fit) -> str:
    return f"{fit.name}: {source_text(fit.source)}"


def describe(
    fits: Sequence[Fit],
    name: Callable[[Fit], str],
    ident: str,
    title: str,
    text: str,
    record: Callable[[Fit, float], str] = lambda *_: "",
) -> Chart:
    """A chart of measured times and the lines fitted to them. name: what each is called in the legend.
    record: the id of a size's record in a page."""
    points = [point for fit in fits for point in fit.points]
    y = quantity_axis("Time [s]", [point.time for point in points], "s")
    x = size_axis("Message size [bytes]", [point.x for point in points])
    traces = [_trace(fit, number, name(fit), y, record) for number, fit in enumerate(fits)]
    return Chart(ident, title, text, x, y, tuple(traces))


def error_text(logarithm: float) -> str:
    """ln(measured/predicted) as a signed error."""
    return f"{100 * math.expm1(logarithm):+.1f} %" if math.isfinite(logarithm) else "–"


def _trace(fit: Fit, number: int, name: str, y: Axis, record: Callable[[Fit, float], str]) -> Trace:
    pieces = fit.lines
    assert pieces
    colour = CYCLE[number % len(CYCLE)]
    ranges = [pieces.range(piece) for piece in range(len(pieces.splits))]
    lines = []
    for piece, (first, last) in enumerate(ranges):
        alpha, beta = (number.value for number in pieces.line(piece))
        lines.append(tuple(_line(alpha, beta, first, last)))
    edges = [math.sqrt(max(last, 1) * first) for (_, last), (first, _) in pairwise(ranges)]
    marks = []
    for size, time, residual, held_out in fit.points:
        tip = f"{name}\n{format_size(size)}: {quantity_texts(time, 's')[0]}"
        tip += f"\nresidual {100 * residual:.1f} %, held out {error_text(held_out)}"
        marks.append(Mark(_x(size), time, tip, record(fit, size)))
    switches = tuple(((edge, y.low), (edge, y.high)) for edge in edges)
    protocols = Trace("", colour, lines=switches, dashes=(1.0, 1.5), width=0.9)
    return Trace(
        name,
        colour,
        lines=tuple(lines),
        marks=tuple(marks),
        width=1.5,
        shape=number,
        hollow=True,
        under=(protocols,) if edges else (),
    )


def _line(alpha: float, beta: float, first: float, last: float) -> Iterator[Place]:
    """α + β·m from the first to the last size of a piece."""
    first, last = _x(first), max(last, 1.0)
    for step in range(_LINE_POINTS):
        x = first * (last / first) ** (step / (_LINE_POINTS - 1))
        yield x, alpha + beta * (0 if x < 1 else x)


def _x(size: float) -> float:
    """No bytes at all stand left of one."""
    return max(size, 0.5)


def _errors(fits: Sequence[Fit], x: Axis) -> Chart:
    """The panel of errors held out."""
    traces = [Trace("", "ink", lines=(((x.low, 0.0), (x.high, 0.0)),), width=0.8)]
    for number, fit in enumerate(fits):
        errors = [(_x(point.x), 100 * math.expm1(point.held_out)) for point in fit.points]
        marks = tuple(Mark(size, min(max(error, -_MOST_ERROR), _MOST_ERROR)) for size, error in errors)
        traces.append(Trace("", CYCLE[number % len(CYCLE)], marks=marks, shape=number, hollow=True))
    ticks = tuple(Tick(error, f"{error:g}") for error in (-50.0, -25.0, 0.0, 25.0, 50.0))
    y = Axis("Error held out [%]", -_MOST_ERROR, _MOST_ERROR, False, ticks)
    return Chart("errors", "", "Errors of the models at sizes that they were not shown.", x, y, tuple(traces))
