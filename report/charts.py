"""Charts as SVG inside the page: lines with bands and marks over two axes, and grids of coloured cells.

Plain SVG, because Plotly's JavaScript alone (4.8 MB) is as large as a page may be, and because elements can
follow the page's light and dark colours, be printed sharply, and name the record that they show: a mark has
``data-record``, the id of a row of the page's table of records. Colours and sizes stand in ``page.css``.

Every text that comes from records is escaped. A chart is one image to a screen reader, with its title and a
description; the numbers themselves stand in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from markupsafe import Markup, escape

from npc.records.units import format_quantity, format_size
from roofline.scene import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY_BLUE, VERMILLION

#: Colours have names here, so that the style sheet can give each a light and a dark shade.
COLOURS: Final = {
    BLUE: "blue",
    VERMILLION: "vermillion",
    GREEN: "green",
    PURPLE: "purple",
    ORANGE: "orange",
    SKY_BLUE: "sky",
    BLACK: "ink",
    GREY: "grey",
}
CYCLE: Final = ("blue", "vermillion", "green", "purple", "orange", "sky", "ink")
DASHES: Final[tuple[tuple[float, ...], ...]] = ((), (7.0, 3.0), (1.5, 2.5), (7.0, 2.5, 1.5, 2.5))
#: Marks about (0, 0), told apart in print: circle, square, triangle, diamond, cross, triangle down, plus.
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
HEIGHT: Final = 420
_LEFT: Final = 104
_RIGHT: Final = 16
_TOP: Final = 12
_BOTTOM: Final = 48
#: At most so many labels fit along an axis.
_MOST_TICKS: Final = 9
_DAY_S: Final = 86400
#: From tick to tick of a time axis.
_TIME_STEPS_S: Final = (
    60, 300, 900, 3600, 7200, *(days * _DAY_S for days in (1, 2, 7, 14, 30, 61, 91, 182, 365))
)  # fmt: skip

Place = tuple[float, float]


class Tick(NamedTuple):
    """A labelled place on an axis."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high`, linear or logarithmic; all in data coordinates."""

    title: str
    low: float
    high: float
    log: bool
    ticks: tuple[Tick, ...]

    def share(self, value: float) -> float:
        """Where `value` lies: 0 at `low`, 1 at `high`; values outside lie outside."""
        if self.log:
            if value <= 0:
                return -1.0
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


class Mark(NamedTuple):
    """A point that can be pointed at: what it says (lines of text), and the id of its record."""

    x: float
    y: float
    tip: str
    record: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """What is switched on and off together: lines, filled bands (polygons) and marks of one colour.

    A line is a sequence of places; several lines are pieces that do not touch. shape: index into `SHAPES`.
    """

    name: str
    colour: str
    lines: tuple[tuple[Place, ...], ...] = ()
    bands: tuple[tuple[Place, ...], ...] = ()
    marks: tuple[Mark, ...] = ()
    dashes: tuple[float, ...] = ()
    shape: int = 0
    hollow: bool = False
    small: bool = False
    #: A trace without a name of its own in the legend goes with the one before it.
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart. text: what it shows, in words, for those who do not see it."""

    ident: str
    title: str
    text: str
    x: Axis
    y: Axis
    traces: tuple[Trace, ...]
    width: int = WIDTH
    height: int = HEIGHT
    legend: bool = True


# --- axes ----------------------------------------------------------------------------------------------


def quantity_axis(title: str, values: Iterable[float], unit: str, *, log: bool = True) -> Axis:
    """An axis of a quantity in its SI unit, from below the least to above the largest of `values`."""
    known = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    if log:
        low, high = (low / 1.25, high * 1.25) if high > low else (low / 2, high * 2)
        ticks = log_ticks(low, high)
    else:
        room = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
        low, high = (max(0.0, low - room) if low >= 0 else low - room), high + room
        ticks = linear_ticks(low, high)
    digits = _digits(ticks)
    return Axis(
        title, low, high, log, tuple(Tick(value, format_quantity(value, unit, digits)) for value in ticks)
    )


def size_axis(title: str, sizes: Iterable[float]) -> Axis:
    """A logarithmic axis of sizes in bytes, labelled at powers of two. No bytes at all stand at one half."""
    known = [max(size, 0.5) for size in sizes] or [1.0]
    low, high = min(known) / 1.3, max(known) * 1.3
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, math.ceil((last - first) / (_MOST_TICKS - 1)))
    powers = range(math.ceil(first / step) * step, last + 1, step)
    ticks = [Tick(2.0**power, format_size(2**power)) for power in powers if power >= 0]
    if low < 0.5:
        ticks = [Tick(0.5, "0"), *(tick for tick in ticks if tick.value > 1)]
    return Axis(title, low, high, True, tuple(ticks))


def time_axis(title: str, moments: Iterable[float]) -> Axis:
    """An axis of moments (seconds since 1970), labelled by days (UTC), or by times if half a day has all."""
    known = list(moments) or [0.0]
    low, high = min(known), max(known)
    within_a_day = 0 < high - low < _DAY_S / 2
    room = max(0.02 * (high - low), 60 if within_a_day else _DAY_S / 2)
    low, high = low - room, high + room
    steps = [step for step in _TIME_STEPS_S if within_a_day or step >= _DAY_S]
    step = next((step for step in steps if (high - low) / step <= _MOST_TICKS), 730 * _DAY_S)
    base, form = (step, "%m-%d %H:%M") if step < _DAY_S else (_DAY_S, "%Y-%m-%d")
    ticks = tuple(
        Tick(float(at), datetime.fromtimestamp(at, timezone.utc).strftime(form))
        for at in range(math.ceil(low / base) * base, math.floor(high) + 1, step)
    )
    return Axis(title, low, high, False, ticks)


def log_ticks(low: float, high: float) -> list[float]:
    """Round values between two positive ones: powers of ten, with 2 and 5 between where there is room."""
    decades = math.log10(high / low)
    steps: tuple[float, ...] = (1.0,)
    if decades < 1:
        return [value for value in linear_ticks(low, high) if value > 0]
    if decades < 3:
        steps = (1.0, 2.0, 5.0)
    every = max(1, math.ceil(decades / _MOST_TICKS))
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [
        step * 10.0**power
        for power in powers
        if power % every == 0
        for step in steps
        if low <= step * 10.0**power <= high
    ]


def linear_ticks(low: float, high: float) -> list[float]:
    """Up to nine multiples of 1, 2 or 5 times a power of ten between two values."""
    raw = (high - low) / (_MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def _digits(ticks: Sequence[float]) -> int:
    """Significant digits with which neighbouring labels differ."""
    for digits in range(1, 7):
        if all(f"{a:.{digits}g}" != f"{b:.{digits}g}" for a, b in pairwise(ticks)) and all(
            math.isclose(float(f"{tick:.{digits}g}"), tick, rel_tol=1e-9) for tick in ticks
        ):
            return max(digits, 3) if any(tick >= 100 for tick in ticks) else digits
    return 6


# --- drawing -------------------------------------------------------------------------------------------


def draw(chart: Chart) -> Markup:
    """The chart as an ``<svg>`` element."""
    return _markup(_chart(chart))


def _chart(chart: Chart) -> Iterator[str]:
    frame = _Frame(chart)
    yield from _opening(chart.ident, chart.width, chart.height, chart.title, chart.text)
    yield (
        f'<clipPath id="{chart.ident}-clip"><rect x="{frame.left}" y="{frame.top}" '
        f'width="{frame.right - frame.left}" height="{frame.bottom - frame.top}"/></clipPath>'
    )
    yield from _axes(chart, frame)
    number = -1
    for trace in chart.traces:
        number += 0 if trace.follows else 1
        yield from _trace(trace, max(number, 0), frame, f"{chart.ident}-clip")
    yield "</svg>"


class _Frame:
    """The rectangle of the plot in the picture's coordinates."""

    def __init__(self, chart: Chart) -> None:
        self.left, self.right = _LEFT, chart.width - _RIGHT
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
    yield f'<text class="title" x="{middle:.0f}" y="{chart.height - 8}">{escape(chart.x.title)}</text>'
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
    dashes = f' stroke-dasharray="{" ".join(f"{each:g}" for each in trace.dashes)}"' if trace.dashes else ""
    pieces = "".join(frame.path(line) for line in trace.lines if len(line) > 1)
    if pieces:
        yield f'<path class="line"{dashes} d="{pieces}"/>'
    yield "</g>"
    shape = DOT if trace.small else SHAPES[trace.shape % len(SHAPES)]
    for mark in filter(frame.holds, trace.marks):
        record = f' data-record="{mark.record}"' if mark.record else ""
        yield (
            f'<path class="{"mark hollow" if trace.hollow else "mark"}" '
            f'transform="translate({frame.x(mark.x):.1f} {frame.y(mark.y):.1f})" '
            f'd="{shape}" data-tip="{escape(mark.tip)}"{record}/>'
        )
    yield "</g>"


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a legend: the switch of a trace."""

    number: int
    name: str
    swatch: Markup


def keys(chart: Chart) -> list[Key]:
    """The legend of a chart, an entry for each trace with a name of its own."""
    found: list[Key] = []
    for trace in chart.traces:
        if not trace.follows:
            found.append(Key(len(found), trace.name, _swatch(trace)))
    return found


#: Where on a swatch's line of 28, with a mark of 8 in its middle, the first gap of its dashes is.
_SWATCH_GAP: Final = 5.5


def _swatch(trace: Trace) -> Markup:
    dashes = ""
    if trace.dashes:
        pattern = " ".join(f"{each:g}" for each in trace.dashes)
        # the first gap stands clear of the mark in the middle
        moved = trace.dashes[0] + trace.dashes[1] / 2 - _SWATCH_GAP
        dashes = f' stroke-dasharray="{pattern}" stroke-dashoffset="{moved:g}"'
    parts = [f'<svg class="swatch trace {trace.colour}" viewBox="0 0 30 12" aria-hidden="true">']
    if trace.lines:
        parts.append(f'<path class="line"{dashes} d="M1 6H29"/>')
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
            f'<path class="line" d="M{"L".join(points)}"/></svg>',
        ]
    )


def _span(values: Iterable[float]) -> tuple[float, float]:
    known = list(values)
    low, high = min(known), max(known)
    return (low, high) if high > low else (low - 1, high + 1)


# --- grids ---------------------------------------------------------------------------------------------

#: Pixels between the groups of a grid.
_APART: Final = 8.0
#: Edges of the colours of a ratio to what is normal; below 1 is slow.
EDGES: Final = (0.6, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 1.6)
State = Literal["", "failed", "missing"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its ratio to what is normal (above 1 is good), or why it has none."""

    row: int
    column: int
    ratio: float | None
    tip: str
    record: str = ""
    state: State = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """Coloured cells with names of rows and columns; `blamed` names stand out.

    groups: (name, number of its rows) of what rows belong to, from the first row on, each drawn apart from
    the next with its name on the left; none where they belong to nothing.
    """

    ident: str
    title: str
    text: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    row_title: str = ""
    column_title: str = ""
    blamed: frozenset[str] = field(default_factory=frozenset)
    #: Whether places without a cell are something that was not measured.
    filled: bool = False
    #: The longest side of a cell in pixels.
    side: float = 26.0
    groups: tuple[tuple[str, int], ...] = ()


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
    kind = "none" if cell.ratio is None else f"h{shade(cell.ratio)}"
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
