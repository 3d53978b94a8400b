"""A chart, described once: lines, bands and marks over two axes.

`npc.figures.svg` draws it for the screen, `npc.figures.printed` by Matplotlib for print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from npc.figures.axes import Axis

#: Told apart by colour-blind people: Okabe, Ito, Color Universal Design, 2008; navy, wine, olive of Tol's
#: muted scheme (SRON/EPS/TN/09-002, 2021). The last three have a meaning of their own.
COLOURS: Final = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "wine": "#882255",
    "navy": "#332288",
    "olive": "#999933",
    "ink": "#000000",
    "grey": "#6E6E6E",
    "bad": "#A61B1B",
    "good": "#0B6B3A",
}
#: One after the other for what is of one kind.
CYCLE: Final = (
    "blue", "vermillion", "green", "purple", "orange", "sky", "wine", "navy", "olive", "ink"
)  # fmt: skip
#: A tool looks the same in every picture, whatever else is in it.
_TOOLS: Final = {
    "osu": "vermillion", "osu-mpi4py": "vermillion", "imb": "orange", "qperf": "purple", "iperf3": "olive",
    "sockperf": "wine", "nuttcp": "navy", "netpipe": "sky", "perftest": "ink", "nccl": "green",
    "hpcc": "blue",
}  # fmt: skip
#: Lengths of dashes and gaps in points.
DASHES: Final[tuple[tuple[float, ...], ...]] = ((), (7.0, 3.0), (1.5, 2.5), (7.0, 2.5, 1.5, 2.5))
#: Fewer places joined by a line would look like a sweep.
_LEAST_LINE: Final = 4
#: More bands cover each other: intervals are then whiskers in print, and shown one by one on the screen.
_MOST_BANDS: Final = 3

#: x and y in data coordinates.
Place = tuple[float, float]


class Mark(NamedTuple):
    """A point that can be pointed at."""

    #: Where it is along the x axis, in the axis's unit.
    x: float
    #: Where it is along the y axis, in the axis's unit.
    y: float
    #: Lines of text for who points at it; empty for none.
    tip: str = ""
    #: The id of its record in a page; empty where it has none.
    record: str = ""
    #: How much of its colour fills it; 1 is all.
    fill: float = 1.0
    #: Lower end of the interval of y; None where it has no interval.
    low: float | None = None
    #: Upper end of the interval of y; None where it has no interval.
    high: float | None = None


class Note(NamedTuple):
    """Words above or below a place."""

    #: Place along the x axis, in the axis's unit.
    x: float
    #: Place along the y axis, in the axis's unit.
    y: float
    #: What to write there.
    text: str
    #: Whether they stand above it.
    above: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """What is switched on and off together: lines, filled bands and marks of one colour."""

    #: What the legend calls it; the printed legend leaves out those without a name.
    name: str
    #: A key of `COLOURS`.
    colour: str
    #: Its lines, each by the places that it joins; several are pieces that do not touch.
    lines: tuple[tuple[Place, ...], ...] = ()
    #: Filled areas: the corners of each, in order.
    bands: tuple[tuple[Place, ...], ...] = ()
    #: Its points.
    marks: tuple[Mark, ...] = ()
    #: Lengths of dashes and gaps of its lines in points, in turn; empty for unbroken lines.
    dashes: tuple[float, ...] = ()
    #: How thick its lines are, in points.
    width: float = 1.8
    #: Shape of its marks: circle, square, triangle, diamond, cross, triangle down, plus, from 0 on.
    shape: int = 0
    #: Whether only the outline of its marks is drawn.
    hollow: bool = False
    #: Whether its marks are smaller than usual.
    small: bool = False
    #: Whether its marks are pale, so that others stand out.
    faint: bool = False
    #: Words above or below places.
    notes: tuple[Note, ...] = ()
    #: Traces that are drawn before it, and switched with it.
    under: tuple[Trace, ...] = ()
    #: Traces that are drawn after it, and switched with it.
    over: tuple[Trace, ...] = ()
    #: Whether its marks are only there to be pointed at, and hence not printed.
    hover: bool = False
    #: Whether its bands hide what is behind them.
    solid: bool = False
    #: Lines of text for who points at its lines; empty for none.
    tip: str = ""
    #: Traces of one group have their names beside each other in print; empty for no group.
    group: str = ""

    @property
    def interval(self) -> tuple[Place, ...]:
        """The band of its marks' intervals: along the lower edge and back along the upper one; empty of fewer
        than two."""
        known = [(mark.x, mark.low, mark.high) for mark in self.marks]
        edges = [(x, low, high) for x, low, high in known if low is not None and high is not None]
        band = (*((x, low) for x, low, _ in edges), *((x, high) for x, _, high in reversed(edges)))
        return band if len(edges) > 1 and self.lines else ()


def swept(name: str, colour: str, marks: Sequence[Mark], **how: Any) -> Trace:
    """Marks over something that was varied, joined by a line where they are enough for one."""
    line = tuple((mark.x, mark.y) for mark in marks)
    return Trace(name, colour, (line,) if len(line) >= _LEAST_LINE else (), marks=tuple(marks), **how)


def tool_colours(tools: Sequence[str]) -> list[str]:
    """The colour of each test by its tool, where there are several; of one tool that of each test, from the
    tool's own on."""
    own = [_TOOLS.get(tool) or CYCLE[sum(tool.encode()) % len(CYCLE)] for tool in tools]
    if len(set(tools)) > 1:
        return own
    return [CYCLE[(CYCLE.index(colour) + number) % len(CYCLE)] for number, colour in enumerate(own)]


class DropLine(NamedTuple):
    """A line from a place down to the x axis; for print."""

    #: Place along the x axis, in the axis's unit.
    x: float
    #: Height in which it begins, in the y axis's unit.
    y: float
    #: Words beside it at the axis.
    text: str
    #: A key of `COLOURS`.
    colour: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Traces over two axes."""

    #: Its id in a page.
    ident: str
    #: What stands above it.
    title: str
    #: What it shows, in words, for those who do not see it.
    text: str
    #: The axis from left to right.
    x: Axis
    #: The axis from the bottom up.
    y: Axis
    #: What it shows; each can be switched off.
    traces: tuple[Trace, ...]
    #: Height on the screen, in pixels; it is 760 pixels wide.
    height: int = 420
    #: Lines down to the x axis; only in print.
    drops: tuple[DropLine, ...] = ()
    #: Whose measurements, and when; only in print, empty for none.
    source: str = ""

    @property
    def crowded(self) -> bool:
        """Whether the bands of its marks' intervals would cover each other."""
        return sum(bool(trace.interval) for trace in self.traces) > _MOST_BANDS
