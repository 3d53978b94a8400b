"""Measured times and the fitted lines over them, as a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from npc.figures.axes import Axis, Tick, quantity_axis, size_axis
from npc.figures.chart import DASHES, Chart, Mark, Place, Trace, tool_colours
from npc.records.units import format_size
from npc.roofline.fit_table import short_source_text
from npc.roofline.fits import Fit
from npc.roofline.sweeps import SweepSource
from npc.roofline.table import quantity_texts

_LINE_POINTS: Final = 60


def draw(fits: Sequence[Fit], path: Path, source: str = "") -> bool:
    """Draw every model of times over sizes to `path` (its suffix is the format); False if there is none.
    source: whose measurements they are, and of when.

    Raises OSError, and ValueError for a suffix that Matplotlib does not know.
    """
    from npc.figures.printed import save

    shown = [fit for fit in fits if fit.lines]
    if not shown:
        return False
    where = ", ".join(dict.fromkeys(fit.source.platform for fit in shown))
    title = f"Time of a message on {where}: measured, and by its models"
    above = replace(describe(shown, "fit", "", ""), source=source)
    save(
        [above, _errors(shown, above.x)], [path], heights=(3, 1), title=title,
        subtitle="marks: medians of launches; lines: models; dotted upright: where the protocol switches",
    )  # fmt: skip
    return True


def describe(
    fits: Sequence[Fit],
    ident: str,
    title: str,
    text: str,
    record: Callable[[Fit, float], str] = lambda *_: "",
) -> Chart:
    """A chart of measured times and the lines fitted to them: a colour a sweep, dashes a model. record: the
    id of a size's record in a page."""
    styles, names = _styles(fits), _names(fits)
    traces = []
    for number, ((colour, shape, _), fit) in enumerate(zip(styles, fits, strict=True)):
        if fit.source not in [earlier.source for earlier in fits[:number]]:
            marks = tuple(_marks(fit, record))
            name = f"measured: {names[fit.source]}"
            traces.append(Trace(name, colour, marks=marks, shape=shape, hollow=True))
    low, high = (pick(point.time for fit in fits for point in fit.points) for pick in (min, max))
    traces += [
        _lines(fit, f"{fit.name}: {names[fit.source]}", *style, low, high)
        for fit, style in zip(fits, styles, strict=True)
    ]
    places = [y for trace in traces for line in trace.lines for _, y in line]
    y = quantity_axis("Time", [low, high, *places], "s")
    x = size_axis("Message size", [point.x for fit in fits for point in fit.points])
    return Chart(ident, title, text, x, y, tuple(traces))


def _names(fits: Sequence[Fit]) -> dict[SweepSource, str]:
    """What each sweep is called: its test, and all about it where others have the same."""
    sources = dict.fromkeys(fit.source for fit in fits)
    names = [source.name for source in sources]
    return {
        source: source.name if names.count(source.name) == 1 else short_source_text(source)
        for source in sources
    }


def _styles(fits: Sequence[Fit]) -> list[tuple[str, int, tuple[float, ...]]]:
    """Colour and mark of each fit's sweep, dashes of its model."""
    sources = list(dict.fromkeys(fit.source for fit in fits))
    models = list(dict.fromkeys(fit.name for fit in fits))
    colours = dict(zip(sources, tool_colours([source.benchmark for source in sources]), strict=True))
    return [
        (colours[fit.source], sources.index(fit.source), DASHES[models.index(fit.name) % len(DASHES)])
        for fit in fits
    ]


def error_text(logarithm: float) -> str:
    """ln(measured/predicted) as a signed error."""
    return f"{100 * math.expm1(logarithm):+.1f} %" if math.isfinite(logarithm) else "–"


def _marks(fit: Fit, record: Callable[[Fit, float], str]) -> Iterator[Mark]:
    for size, time, residual, held_out in fit.points:
        tip = f"{fit.name}: {short_source_text(fit.source)}\n"
        tip += f"{format_size(size)}: {quantity_texts(time, 's')[0]}"
        tip += f"\nresidual {100 * residual:.1f} %, held out {error_text(held_out)}"
        yield Mark(_x(size), time, tip, record(fit, size))


def _lines(
    fit: Fit, name: str, colour: str, shape: int, dashes: tuple[float, ...], low: float, high: float
) -> Trace:
    """A model's lines, and between them where the protocol switches, from `low` to `high` seconds."""
    pieces = fit.lines
    assert pieces
    ranges = [pieces.range(piece) for piece in range(len(pieces.splits))]
    lines = []
    for piece, (first, last) in enumerate(ranges):
        alpha, beta = (number.value for number in pieces.line(piece))
        lines.append(tuple(_line(alpha, beta, first, last)))
    edges = [math.sqrt(max(last, 1) * first) for (_, last), (first, _) in pairwise(ranges)]
    switches = tuple(((edge, low), (edge, high)) for edge in edges)
    protocols = Trace("", colour, lines=switches, dashes=(1.0, 1.5), width=0.9)
    under = (protocols,) if edges else ()
    return Trace(name, colour, lines=tuple(lines), dashes=dashes, width=1.5, under=under)


def _line(alpha: float, beta: float, first: float, last: float) -> Iterator[Place]:
    """α + β·m from the first to the last size of a piece."""
    first, last = _x(first), max(last, 1.0)
    for step in range(_LINE_POINTS):
        x = first * (last / first) ** (step / (_LINE_POINTS - 1))
        yield x, alpha + beta * (0 if x < 1 else x)


def _x(size: float) -> float:
    """A size of 0 is drawn left of one byte."""
    return max(size, 0.5)


def _errors(fits: Sequence[Fit], x: Axis) -> Chart:
    """The panel with the errors at sizes that the models were not shown."""
    traces = [Trace("", "ink", lines=(((x.low, 1.0), (x.high, 1.0)),), width=0.8)]
    for fit, (colour, shape, _) in zip(fits, _styles(fits), strict=True):
        ratios = [(_x(point.x), math.exp(point.held_out)) for point in fit.points]
        marks = tuple(Mark(size, ratio) for size, ratio in ratios if math.isfinite(ratio))
        traces.append(Trace("", colour, marks=marks, shape=shape, hollow=True, small=True))
    most = max([abs(math.log2(mark.y)) for trace in traces for mark in trace.marks] or [0.0])
    power = max(1, math.ceil(most + 0.2))
    step = max(1, power // 2)
    ticks = tuple(Tick(2.0**at, f"{2.0**at:g}") for at in range(-power // step * step, power + 1, step))
    y = Axis("measured over\nheld out", 2.0**-power, 2.0**power, True, ticks, 2)
    return Chart("errors", "", "Errors of the models at sizes that they were not shown.", x, y, tuple(traces))
