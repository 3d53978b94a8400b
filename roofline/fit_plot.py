"""Measured times and the fitted lines over them, as a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from npc.figures.chart import CYCLE, Axis, Chart, Mark, Place, Tick, Trace, quantity_axis, size_axis
from roofline.fit_document import read_pieces
from roofline.fit_table import quantity_texts
from roofline.table import size_text

Entry = Mapping[str, Any]
_LINE_POINTS: Final = 60
#: Errors held out are drawn up to this, in per cent.
_MOST_ERROR: Final = 60.0


def draw(entries: Sequence[Entry], name: Callable[[Entry], str], path: Path) -> bool:
    """Draw every model of times over sizes to `path` (its suffix is the format); False if there is none.

    entries: of ``fits`` in fit.json. name: what each is called in the legend. Raises OSError, and ValueError
    for a suffix that Matplotlib does not know.
    """
    from npc.figures.printed import save

    shown = [entry for entry in entries if entry.get("lines")]
    if not shown:
        return False
    above = describe(shown, name, "fit", "Time of a message and its models", "")
    save([above, _errors(shown, above.x)], [path], heights=(3, 1))
    return True


def describe(
    entries: Sequence[Entry],
    name: Callable[[Entry], str],
    ident: str,
    title: str,
    text: str,
    record: Callable[[Entry, float], str] = lambda *_: "",
) -> Chart:
    """A chart of measured times and the lines fitted to them. record: the id of a size's record in a page."""
    points = [point for entry in entries for point in entry["points"]]
    y = quantity_axis("Time [s]", [point["time"] for point in points], "s")
    return Chart(
        ident=ident,
        title=title,
        text=text,
        x=size_axis("Message size [bytes]", [point["x"] for point in points]),
        y=y,
        traces=tuple(_trace(entry, number, name(entry), y, record) for number, entry in enumerate(entries)),
    )


def error_text(logarithm: float | None) -> str:
    """ln(measured/predicted) as a signed error."""
    if logarithm is None or not math.isfinite(logarithm):
        return "–"
    return f"{100 * math.expm1(logarithm):+.1f} %"


def _trace(entry: Entry, number: int, name: str, y: Axis, record: Callable[[Entry, float], str]) -> Trace:
    pieces = read_pieces(entry)
    colour = CYCLE[number % len(CYCLE)]
    ranges = [pieces.range(piece) for piece in range(len(pieces.splits))]
    lines = []
    for piece, (first, last) in enumerate(ranges):
        alpha, beta = (number.value for number in pieces.line(piece))
        lines.append(tuple(_line(alpha, beta, first, last)))
    edges = [math.sqrt(max(last, 1) * first) for (_, last), (first, _) in pairwise(ranges)]
    marks = []
    for point in entry["points"]:
        tip = f"{name}\n{size_text(round(point['x']))}: {quantity_texts(point['time'], 's', None, None)[0]}"
        tip += f"\nresidual {100 * point['residual']:.1f} %, held out {error_text(point['held_out'])}"
        marks.append(Mark(_x(point["x"]), point["time"], tip, record(entry, point["x"])))
    protocols = Trace(
        "",
        colour,
        lines=tuple(((edge, y.low), (edge, y.high)) for edge in edges),
        dashes=(1.0, 1.5),
        width=0.9,
    )
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


def _errors(entries: Sequence[Entry], x: Axis) -> Chart:
    """The panel of errors held out."""
    traces = [Trace("", "ink", lines=(((x.low, 0.0), (x.high, 0.0)),), width=0.8)]
    for number, entry in enumerate(entries):
        errors = [
            (_x(point["x"]), 100 * math.expm1(math.inf if point["held_out"] is None else point["held_out"]))
            for point in entry["points"]
        ]
        marks = tuple(Mark(size, min(max(error, -_MOST_ERROR), _MOST_ERROR)) for size, error in errors)
        traces.append(Trace("", CYCLE[number % len(CYCLE)], marks=marks, shape=number, hollow=True))
    ticks = tuple(Tick(error, f"{error:g}") for error in (-50.0, -25.0, 0.0, 25.0, 50.0))
    y = Axis("Error held out [%]", -_MOST_ERROR, _MOST_ERROR, False, ticks)
    return Chart("errors", "", "Errors of the models at sizes that they were not shown.", x, y, tuple(traces))
