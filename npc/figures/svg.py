"""Figures as SVG inside a page: lines with bands and marks over two axes, and grids of coloured cells.

Plain SVG, because its elements can follow the page's light and dark colours, be printed sharply, and name the
record that they show: a mark has ``data-record``, the id of a row of the page's table of records. Colours and
sizes stand in ``page.css``.

``templates/figures.svg`` says how figures look, and escapes every text; this module computes the places. To a
screen reader a chart is one image with a title and a description; the numbers are in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from npc.figures.chart import Chart, Mark, Place, Trace
from npc.figures.grid import Grid, short
from npc.figures.scale import DARK

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
#: A circle among very many marks.
DOT: Final = "M-1.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0-3 0Z"
WIDTH: Final = 760
LEFT: Final = 124
RIGHT: Final = 22
_TOP: Final = 30
BOTTOM: Final = 48
#: Half a letter's width of a label along an axis, on large screens and on small ones.
_HALF_LETTERS: Final = (3.6, 5.8)
#: A note's width of a letter and height of a line, in pixels.
_NOTE_LETTER: Final = 5.9
NOTE_HEIGHT: Final = 12.0


# --- drawing -------------------------------------------------------------------------------------------


_TEMPLATE: Final = Path(__file__).parent / "templates/figures.svg"


@cache
def macros(template: Path = _TEMPLATE) -> Any:
    """The macros of a template, which escape every text; one of a figure that is drawn elsewhere may import
    ``figures.svg``."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([template.parent, _TEMPLATE.parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"px": "{:.1f}".format, "g": "{:g}".format, "short": short}
    environment.globals |= {"shapes": SHAPES, "dot": DOT, "dark": DARK}
    return environment.get_template(template.name).module


def draw(chart: Chart) -> Markup:
    """The chart as an ``<svg>`` element."""
    return Markup(macros().chart(chart, _Frame(chart)))


class _Frame:
    """The rectangle of the plot, and where everything in it stands, in the picture's coordinates."""

    width = WIDTH

    def __init__(self, chart: Chart) -> None:
        self.left, self.right = LEFT, WIDTH - RIGHT
        self.top, self.bottom = _TOP, chart.height - BOTTOM
        self._x, self._y = chart.x, chart.y
        self._noted: list[tuple[float, float, float]] = []

    def x(self, value: float) -> float:
        return self.left + (self.right - self.left) * _bounded(self._x.share(value))

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * _bounded(self._y.share(value))

    def path(self, places: Iterable[Place]) -> str:
        return "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in places)

    def pieces(self, lines: Iterable[Sequence[Place]]) -> str:
        return "".join(self.path(line) for line in lines if len(line) > 1)

    def marks(self, trace: Trace) -> Iterator[tuple[Mark, str]]:
        """The marks within the plot, and where they stand."""
        for mark in trace.marks:
            x, y = self.x(mark.x), self.y(mark.y)
            if self.left - 1 <= x <= self.right + 1 and self.top - 1 <= y <= self.bottom + 1:
                yield mark, f"{x:.1f} {y:.1f}"

    def notes(self, trace: Trace) -> Iterator[tuple[str, float, float]]:
        """The words above and below places, and where they stand; none that would lie on earlier ones."""
        for note in trace.notes:
            x, y = self.x(note.x), self.y(note.y) + (-9 if note.above else 19)
            half = _NOTE_LETTER * len(note.text) / 2
            if all(
                abs(x - other) > half + wide or abs(y - at) > NOTE_HEIGHT for other, at, wide in self._noted
            ):
                self._noted.append((x, y, half))
                yield note.text, x, y

    def whiskers(self, trace: Trace) -> str:
        """Uprights through the intervals of marks that no band shows."""
        places = [(mark.x, mark.low, mark.high) for mark in trace.marks]
        return "".join(
            f"M{self.x(x):.1f} {self.y(low):.1f}V{self.y(high):.1f}"
            for x, low, high in places
            if low is not None and high is not None and not trace.interval
        )

    def x_labels(self) -> Iterator[tuple[float, str, bool]]:
        """Those labels that do not run into the one before, and which find room on a small screen, too."""
        ends = [-math.inf, -math.inf]
        for value, label in self._x.ticks:
            place = self.x(value)
            fits = [place - half * len(label) > end for half, end in zip(_HALF_LETTERS, ends, strict=True)]
            ends = [
                place + half * len(label) + 4 if fit else end
                for half, end, fit in zip(_HALF_LETTERS, ends, fits, strict=True)
            ]
            if fits[0]:
                yield place, label, fits[1]


def _bounded(share: float) -> float:
    """A share that is not far outside of the picture: browsers draw wrongly at a million pixels."""
    return min(max(share, -9.0), 10.0)


@dataclass(frozen=True, slots=True)
class Legend:
    """An entry of a legend: the switch of a trace."""

    #: Place of the trace among those of its chart, from 0.
    number: int
    #: What the trace is called.
    name: str
    #: The trace in small, an ``<svg>`` element.
    swatch: Markup


def legend(chart: Chart) -> tuple[Legend, ...]:
    """The legend of a chart, an entry for each trace."""
    return tuple(Legend(number, trace.name, swatch(trace)) for number, trace in enumerate(chart.traces))


#: Where on a swatch's line of 28, with a mark of 8 in its middle, the first gap of its dashes is.
_SWATCH_GAP: Final = 5.5


def swatch(trace: Trace) -> Markup:
    """A trace in small, for a legend."""
    # the first gap stands clear of the mark in the middle
    offset = trace.dashes[0] + trace.dashes[1] / 2 - _SWATCH_GAP if trace.dashes else None
    return Markup(macros().swatch(trace, offset))


def sparkline(places: Sequence[Place], words: str) -> Markup:
    """A small picture of a course, without axes; `words` say what it shows."""
    (left, right), (low, high) = (_span(place[axis] for place in places) for axis in (0, 1))
    width, height = right - left, high - low
    points = [f"{150 * (x - left) / width:.0f} {24 - 22 * (y - low) / height:.0f}" for x, y in places]
    return Markup(macros().sparkline(f"M{'L'.join(points)}", words))


def _span(values: Iterable[float]) -> tuple[float, float]:
    known = list(values)
    low, high = min(known), max(known)
    return (low, high) if high > low else (low - 1, high + 1)


# --- grids -----------------------------------------------------------------------------------------------

#: Pixels between the groups of a grid, and of a letter of a title on small screens.
_APART: Final = 8.0
_TITLE_LETTER: Final = 7.6


def draw_grid(grid: Grid) -> Markup:
    """The grid as an ``<svg>`` element."""
    return Markup(macros().grid(grid, _Places(grid)))


class _Places:
    """Where the cells of a grid stand, in the picture's coordinates: the left and upper edge of the first and
    of each column and row, and the line beside which the names of groups stand."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        # There must be room for bold names, and for larger ones on small screens.
        named = (9.0 if grid.groups else 8.2) * _longest(grid.rows)
        outer = 14 + 8.2 * _longest([name for name, _ in grid.groups]) if grid.groups else 0.0
        self.left = 30 + outer + named
        self.line = self.left - named - 14
        room = (WIDTH - self.left - 10) / max(len(grid.columns), 1)
        self.wide = min(grid.wide or grid.side, room)
        self.side = grid.side if grid.wide else self.wide
        self.columns = [self.left + self.wide * column for column in range(len(grid.columns))]
        groups = [number for number, (_, rows) in enumerate(grid.groups) for _ in range(rows)]
        groups = groups or [0] * len(grid.rows)
        # The title of the rows, in their middle, may be longer than they are high.
        overhang = max(0.0, 4 + (_TITLE_LETTER * len(grid.row_title) - self.side * len(grid.rows)) / 2)
        self.top = max(30 + 8.2 * _longest(grid.columns), overhang)
        self.rows = [self.top + self.side * row + _APART * group for row, group in enumerate(groups)]
        self.width = max(self.left + self.wide * len(grid.columns) + 10, 320)
        self.height = (self.rows[-1] + self.side if self.rows else self.top) + max(12.0, overhang)

    def names(
        self, names: Sequence[str], starts: Sequence[float], size: float
    ) -> Iterator[tuple[str, float]]:
        """As many names as find room, and all that are blamed, with the edge of their row or column, which
        is of that size."""
        every = max(1, math.ceil(11 / size))
        for number, (name, start) in enumerate(zip(names, starts, strict=True)):
            if number % every == 0 or name in self._grid.blamed:
                yield name, start

    def groups(self) -> Iterator[tuple[str, float, float]]:
        """The name of each group of rows, and from where to where it goes."""
        first = 0
        for name, rows in self._grid.groups:
            yield name, self.rows[first], self.rows[first] + self.side * rows - 0.6
            first += rows


def _longest(names: Iterable[str]) -> int:
    return max((len(short(name)) for name in names), default=0)
