"""Figures as SVG inside a page: lines with bands and marks over two axes, and grids of coloured cells.

Plain SVG, because its elements can follow the page's light and dark colours, be printed sharply, and name the
record that they show: a mark has ``data-record``, the id of a row of the page's table of records. Colours and
sizes stand in ``page.css``.

Every text that comes from records is escaped. A chart is one image to a screen reader, with its title and a
description; the numbers themselves stand in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from markupsafe import Markup, escape

from npc.figures.chart import Cell, Chart, Grid, Mark, Place, Trace

#: Marks about (0, 0), in the order of `npc.figures.chart.Trace`.
SHAPES: Final = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0Z",
    "M-3-3H3V3H-3Z",
    "M0-4L4 3H-4Z",
    "M0-4.5L4 0L0 4.5L-4 0Z",
    "M-3.5-2L-2-3.5L0-1.5L2-3.5L3.5-2L1.5 0L3.5 2L2 3.5L0 1.5L-2 3.5L-3.5 2L-1.5 0Z",
    "M0 4L4-3H-4Z",
    "M-1-4H1V-1H4V1H1V4H-1V1H-4V-1H-1Z",
)
#: A mark among very many: a small circle.
DOT: Final = "M-1.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0-3 0Z"
WIDTH: Final = 760
_LEFT: Final = 118
_RIGHT: Final = 22
_TOP: Final = 12
_BOTTOM: Final = 48


# --- drawing -------------------------------------------------------------------------------------------


def draw(chart: Chart) -> Markup:
    """The chart as an ``<svg>`` element."""
    return _markup(_chart(chart))


def _chart(chart: Chart) -> Iterator[str]:
    frame = _Frame(chart)
    yield from _opening(chart.ident, WIDTH, chart.height, chart.title, chart.text)
    yield (
        f'<clipPath id="{chart.ident}-clip"><rect x="{frame.left}" y="{frame.top}" '
        f'width="{frame.right - frame.left}" height="{frame.bottom - frame.top}"/></clipPath>'
    )
    yield from _axes(chart, frame)
    for number, trace in enumerate(chart.traces):
        for part in (*trace.under, trace, *trace.over):
            yield from _trace(part, number, frame, f"{chart.ident}-clip")
    yield "</svg>"


class _Frame:
    """The rectangle of the plot in the picture's coordinates."""

    def __init__(self, chart: Chart) -> None:
        self.left, self.right = _LEFT, WIDTH - _RIGHT
        self.top, self.bottom = _TOP, chart.height - _BOTTOM
        self._x, self._y = chart.x, chart.y

    def x(self, value: float) -> float:
        return self.left + (self.right - self.left) * _bounded(self._x.share(value))

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * _bounded(self._y.share(value))

    def path(self, places: Iterable[Place]) -> str:
        return "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in places)

    def holds(self, mark: Mark) -> bool:
        return (
            self.left - 1 <= self.x(mark.x) <= self.right + 1
            and self.top - 1 <= self.y(mark.y) <= self.bottom + 1
        )


def _bounded(share: float) -> float:
    """Far outside of the picture is far enough: browsers draw badly at a million pixels."""
    return min(max(share, -9.0), 10.0)


def _opening(
    ident: str, width: float, height: float, title: str, text: str, kind: str = "chart"
) -> Iterator[str]:
    yield (
        f'<svg id="{ident}" class="{kind}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" '
        f'aria-labelledby="{ident}-title" aria-describedby="{ident}-text">'
        f'<title id="{ident}-title">{escape(title)}</title><desc id="{ident}-text">{escape(text)}</desc>'
    )


def _axes(chart: Chart, frame: _Frame) -> Iterator[str]:
    xs = [(frame.x(tick.value), tick.label) for tick in chart.x.ticks]
    ys = [(frame.y(tick.value), tick.label) for tick in chart.y.ticks]
    grid = [f"M{x:.1f} {frame.top}V{frame.bottom}" for x, _ in xs]
    grid += [f"M{frame.left} {y:.1f}H{frame.right}" for y, _ in ys]
    if grid:
        yield f'<path class="grid" d="{"".join(grid)}"/>'
    yield f'<path class="axis" d="M{frame.left} {frame.top}V{frame.bottom}H{frame.right}"/>'
    yield '<g class="xlabels">'
    for x, label in _apart(xs):
        yield f'<text x="{x:.1f}" y="{frame.bottom + 17}">{escape(label)}</text>'
    yield '</g><g class="ylabels">'
    for y, label in ys:
        yield f'<text x="{frame.left - 7}" y="{y + 4:.1f}">{escape(label)}</text>'
    yield "</g>"
    middle = (frame.left + frame.right) / 2
    title = chart.x.title.partition("\n")[0]
    yield f'<text class="title" x="{middle:.0f}" y="{chart.height - 8}">{escape(title)}</text>'
    up = (frame.top + frame.bottom) / 2
    yield (
        f'<text class="title" transform="translate(14 {up:.0f}) rotate(-90)">{escape(chart.y.title)}</text>'
    )


def _apart(labels: Sequence[tuple[float, str]]) -> Iterator[tuple[float, str]]:
    """Those labels that do not run into the one before."""
    end = -math.inf
    for place, label in labels:
        half = 3.6 * len(label)
        if place - half > end:
            yield place, label
            end = place + half + 4


def _trace(trace: Trace, number: int, frame: _Frame, clip: str) -> Iterator[str]:
    yield f'<g class="trace {trace.colour}" data-trace="{number}"><g clip-path="url(#{clip})">'
    for band in trace.bands:
        yield f'<path class="band" d="{frame.path(band)}Z"/>'
    pieces = "".join(frame.path(line) for line in trace.lines if len(line) > 1)
    if pieces:
        dashes = f' stroke-dasharray="{_numbers(trace.dashes)}"' if trace.dashes else ""
        tip = f' data-tip="{escape(trace.tip)}"' if trace.tip else ""
        yield f'<path class="line" stroke-width="{trace.width:g}"{dashes} d="{pieces}"{tip}/>'
    yield "</g>"
    shape = DOT if trace.small else SHAPES[trace.shape % len(SHAPES)]
    for mark in filter(frame.holds, trace.marks):
        kind = "mark" + (" hollow" if trace.hollow else " filling" if mark.fill < 1 else "")
        kind += " faint" if trace.faint else ""
        fill = "" if mark.fill == 1 else f' fill-opacity="{mark.fill:.2f}"'
        tip = f' data-tip="{escape(mark.tip)}"' if mark.tip else ""
        record = f' data-record="{mark.record}"' if mark.record else ""
        yield (
            f'<path class="{kind}" transform="translate({frame.x(mark.x):.1f} {frame.y(mark.y):.1f})" '
            f'd="{shape}"{fill}{tip}{record}/>'
        )
    for note in trace.notes:
        y = frame.y(note.y) + (-9 if note.above else 19)
        yield f'<text class="note" x="{frame.x(note.x):.1f}" y="{y:.1f}">{escape(note.text)}</text>'
    yield "</g>"


def _numbers(lengths: Sequence[float]) -> str:
    return " ".join(f"{each:g}" for each in lengths)


@dataclass(frozen=True, slots=True)
class Legend:
    """An entry of a legend: the switch of a trace."""

    number: int
    name: str
    swatch: Markup


def legend(chart: Chart) -> tuple[Legend, ...]:
    """The legend of a chart, an entry for each trace."""
    return tuple(Legend(number, trace.name, _swatch(trace)) for number, trace in enumerate(chart.traces))


#: Where on a swatch's line of 28, with a mark of 8 in its middle, the first gap of its dashes is.
_SWATCH_GAP: Final = 5.5


def _swatch(trace: Trace) -> Markup:
    dashes = ""
    if trace.dashes:
        # the first gap stands clear of the mark in the middle
        moved = trace.dashes[0] + trace.dashes[1] / 2 - _SWATCH_GAP
        dashes = f' stroke-dasharray="{_numbers(trace.dashes)}" stroke-dashoffset="{moved:g}"'
    parts = [f'<svg class="swatch trace {trace.colour}" viewBox="0 0 30 12" aria-hidden="true">']
    if trace.lines:
        parts.append(f'<path class="line" stroke-width="{trace.width:g}"{dashes} d="M1 6H29"/>')
    if trace.marks:
        hollow = " hollow" if trace.hollow else ""
        shape = SHAPES[trace.shape % len(SHAPES)]
        parts.append(f'<path class="mark{hollow}" transform="translate(15 6)" d="{shape}"/>')
    return _markup([*parts, "</svg>"])


def sparkline(places: Sequence[Place], words: str) -> Markup:
    """A small picture of a course, without axes; `words` say what it shows."""
    (left, right), (low, high) = (_span(place[axis] for place in places) for axis in (0, 1))
    width, height = right - left, high - low
    points = [f"{150 * (x - left) / width:.0f} {24 - 22 * (y - low) / height:.0f}" for x, y in places]
    return _markup(
        [
            f'<svg class="spark trace blue" viewBox="0 0 150 26" role="img" aria-label="{escape(words)}">',
            f'<path class="line" stroke-width="1.1" d="M{"L".join(points)}"/></svg>',
        ]
    )


def _span(values: Iterable[float]) -> tuple[float, float]:
    known = list(values)
    low, high = min(known), max(known)
    return (low, high) if high > low else (low - 1, high + 1)


# --- grids -----------------------------------------------------------------------------------------------

#: Pixels between the groups of a grid.
_APART: Final = 8.0
#: Edges of the colours of a ratio to what is normal; below 1 is slow.
EDGES: Final = (0.6, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 1.6)


def shade(ratio: float) -> int:
    """The number of a ratio's colour: 0 the slowest … 8 the fastest, 4 normal. A border counts as inner."""
    inner = ratio * (1 + 1e-12) if ratio < 1 else ratio * (1 - 1e-12)
    return sum(inner >= edge for edge in EDGES)


def draw_grid(grid: Grid) -> Markup:
    """The grid as an ``<svg>`` element."""
    return _markup(_grid(grid))


def _grid(grid: Grid) -> Iterator[str]:
    # Beside the line of a group there must be room for bold names, and for the larger ones of small screens.
    named = (9.0 if grid.groups else 6.6) * max((len(_short(name)) for name in grid.rows), default=0)
    outer = 14 + 8.2 * max(len(_short(name)) for name, _ in grid.groups) if grid.groups else 0.0
    left = 30 + outer + named
    top = 30 + 6.6 * max((len(_short(name)) for name in grid.columns), default=0)
    side = min(grid.side, (WIDTH - left - 10) / max(len(grid.columns), 1))
    width = max(left + side * len(grid.columns) + 10, 320)
    starts = _starts(grid, top, side)
    height = starts[-1] + 12
    yield from _opening(grid.ident, width, height, grid.title, grid.text, "chart cells")
    every = max(1, math.ceil(11 / side))
    yield '<g class="ylabels">'
    for number, name in enumerate(grid.rows):
        if number % every == 0 or name in grid.blamed:
            yield (
                f'<text x="{left - 5:.1f}" y="{starts[number] + side / 2 + 4:.1f}"{_blamed(name, grid)}>'
                f"{escape(_short(name))}</text>"
            )
    yield "</g>"
    if grid.groups:
        yield from _groups(grid, starts, side, left - named - 14)
    yield '<g class="clabels">'
    for number, name in enumerate(grid.columns):
        if number % every == 0 or name in grid.blamed:
            x = left + side * (number + 0.5) + 4
            yield (
                f'<text transform="translate({x:.1f} {top - 5:.1f}) rotate(-90)"{_blamed(name, grid)}>'
                f"{escape(_short(name))}</text>"
            )
    yield "</g>"
    if grid.column_title:
        yield (
            f'<text class="title" x="{left + side * len(grid.columns) / 2:.0f}" y="12">'
            f"{escape(grid.column_title)}</text>"
        )
    if grid.row_title:
        middle = top + side * len(grid.rows) / 2
        yield (
            f'<text class="title" transform="translate(12 {middle:.0f}) rotate(-90)">'
            f"{escape(grid.row_title)}</text>"
        )
    if grid.filled:
        yield (
            f'<rect class="cell none" x="{left:.1f}" y="{top:.1f}" width="{side * len(grid.columns):.1f}" '
            f'height="{side * len(grid.rows):.1f}"/>'
        )
    for cell in grid.cells:
        yield from _cell(cell, left + side * cell.column, starts[cell.row], side)
    yield "</svg>"


def _starts(grid: Grid, top: float, side: float) -> list[float]:
    """Where each row begins, and where the last one ends."""
    groups = [number for number, (_, rows) in enumerate(grid.groups) for _ in range(rows)]
    groups = groups or [0] * len(grid.rows)
    starts = [top + side * row + _APART * group for row, group in enumerate(groups)]
    return [*starts, top + side * len(groups) + _APART * (groups[-1] if groups else 0)]


def _groups(grid: Grid, starts: Sequence[float], side: float, right: float) -> Iterator[str]:
    """The names of groups, each with a line along its rows on its right."""
    first, pieces = 0, []
    yield '<g class="glabels">'
    for name, rows in grid.groups:
        begin, end = starts[first], starts[first] + side * rows - 0.6
        pieces.append(f"M{right:.1f} {begin:.1f}V{end:.1f}")
        first += rows
        yield (
            f'<text x="{right - 7:.1f}" y="{(begin + end) / 2 + 4:.1f}"{_blamed(name, grid)}>'
            f"{escape(_short(name))}</text>"
        )
    yield f'</g><path class="axis" d="{"".join(pieces)}"/>'


def _cell(cell: Cell, x: float, y: float, side: float) -> Iterator[str]:
    record = f' data-record="{cell.record}"' if cell.record else ""
    kind = ("none" if cell.ratio is None else f"h{shade(cell.ratio)}") + (" blamed" if cell.blamed else "")
    yield (
        f'<rect class="cell {kind}" x="{x:.1f}" y="{y:.1f}" width="{side - 0.6:.1f}" '
        f'height="{side - 0.6:.1f}" data-tip="{escape(cell.tip)}"{record}/>'
    )
    if cell.state == "failed":
        inner = side * 0.25
        a, b, c, d = x + inner, y + inner, x + side - inner, y + side - inner
        yield f'<path class="cross" d="M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}M{a:.1f} {d:.1f}L{c:.1f} {b:.1f}"/>'


def _short(name: str) -> str:
    return name if len(name) <= 22 else f"{name[:10]}…{name[-10:]}"


def _blamed(name: str, grid: Grid) -> str:
    return ' class="blamed"' if name in grid.blamed else ""


def shade_words() -> list[tuple[str, str]]:
    """(class, meaning) of every colour of a grid, for its legend."""
    named = [f"below {EDGES[0]:g}"]
    named += [f"{low:g} to {high:g}" for low, high in pairwise(EDGES)]
    named.append(f"above {EDGES[-1]:g}")
    return [(f"h{number}", words) for number, words in enumerate(named)]


def _markup(parts: Iterable[str]) -> Markup:
    """Joins what is markup already."""
    return Markup("".join(parts))
