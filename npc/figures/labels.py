"""Where words stand in a printed chart: along their lines, and beside the x axis.

Lines of one kind are parallel in log-log axes. In a frame turned by their slope their labels are upright
rectangles and the lines horizontal, which makes placing labels simple.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from npc.figures.chart import COLOURS, Drop, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

_POINTS: Final = 9.5
_GAP_POINTS: Final = 2.0
#: Places that are tried along a line.
_STEPS: Final = 24
#: What words stand on, so that a line below does not strike them out.
_GROUND: Final[dict[str, Any]] = {"facecolor": "white", "alpha": 0.9, "lw": 0, "pad": 0.3}


@dataclass(frozen=True, slots=True)
class _Box:
    """A rectangle in a turned frame, in pixels: u along the lines, v across them."""

    left: float
    right: float
    bottom: float
    top: float

    def meets(self, other: _Box) -> bool:
        """Whether the two overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def covers(self, run: _Run) -> bool:
        """Whether it lies on a part of the line."""
        return self.bottom < run.height < self.top and run.left < self.right and self.left < run.right


@dataclass(frozen=True, slots=True)
class _Run:
    """A visible stretch of a line that wants a label: from u = left to right, at v = height (pixels)."""

    trace: Trace
    left: float
    right: float
    height: float


def label_along(axes: Axes, traces: Sequence[Trace]) -> list[Trace]:
    """Write each name beside its straight line: of flat lines at the right end, of slopes at the left end and
    below all flat lines. Gives back those whose name finds no room.
    """
    ends = [(trace, *axes.transData.transform([trace.lines[0][0], trace.lines[0][-1]])) for trace in traces]
    flat = [each for each in ends if each[1][1] == each[2][1]]
    lowest = min((start[1] for _, start, _ in flat), default=math.inf)
    sloped = []
    for trace, start, end in ends:
        if start[1] != end[1]:
            share = min(1.0, (lowest - start[1]) / (end[1] - start[1]))
            sloped.append((trace, start, start + share * (end - start)))
    return [*_label(axes, sloped, at_end=False), *_label(axes, flat, at_end=True)]


def _label(axes: Axes, lines: Sequence[tuple[Trace, Any, Any]], at_end: bool) -> list[Trace]:
    """Write the names of parallel lines (pixels); give back those that find no room."""
    if not lines:
        return []
    (x0, y0), (x1, y1) = lines[0][1:]
    angle = math.atan2(y1 - y0, x1 - x0)
    cosine, sine = math.cos(angle), math.sin(angle)
    runs = [
        _Run(trace, x0 * cosine + y0 * sine, x1 * cosine + y1 * sine, y0 * cosine - x0 * sine)
        for trace, (x0, y0), (x1, y1) in lines
    ]
    gap = _GAP_POINTS * axes.figure.dpi / 72
    taken: list[_Box] = []
    left_out = []
    for run in sorted(runs, key=lambda run: -run.height):
        text = axes.text(
            1, 1, run.trace.name, fontsize=_POINTS, ha="center", va="center", zorder=6,
            color=darker(COLOURS[run.trace.colour]),
        )  # fmt: skip
        extent = text.get_window_extent()
        box = _roomiest(run, extent.width, extent.height, gap, taken, runs, at_end)
        if box is None:
            text.remove()
            left_out.append(run.trace)
            continue
        taken.append(box)
        u, v = (box.left + box.right) / 2, (box.bottom + box.top) / 2
        place = axes.transData.inverted().transform((u * cosine - v * sine, u * sine + v * cosine))
        text.set(position=place, rotation=math.degrees(angle), bbox=_GROUND)
    return left_out


def _roomiest(
    run: _Run,
    width: float,
    height: float,
    gap: float,
    taken: Sequence[_Box],
    runs: Sequence[_Run],
    at_end: bool,
) -> _Box | None:
    """The place for a label that crosses the fewest other lines, as near to the preferred end as may be."""
    free = [
        (cost + sum(box.covers(other) for other in runs if other is not run), box)
        for cost, box in _places(run, width, height, gap, at_end)
        if not any(box.meets(other) for other in taken)  # boxes have their margins in them
    ]
    return min(free, key=lambda each: each[0])[1] if free else None


def _places(run: _Run, width: float, height: float, gap: float, at_end: bool) -> Iterator[tuple[float, _Box]]:
    """Places above, below and on a run, with a cost that grows away from the preferred end.

    On the line, which the label then interrupts, is for bundles: beside it would be on a neighbour.
    """
    slack = run.right - run.left - width - 4 * height
    if slack < 0:
        return
    for step in range(_STEPS + 1):
        part = step / _STEPS
        left = run.left + 2 * height + slack * (1 - part if at_end else part)
        for cost, bottom in (
            (0.0, run.height + gap),
            (0.01, run.height - gap - height),
            (0.3, run.height - height / 2),
        ):
            yield part + cost, _Box(left - gap, left + width + gap, bottom, bottom + height)


def name_ends(axes: Axes, traces: Sequence[Trace]) -> list[Text]:
    """The names of lines that are there to be followed, right of the axes, each as high as its line ends."""
    followed = [trace for trace in traces if trace.hover and trace.lines and trace.name]
    return [
        axes.text(
            1.006, trace.lines[-1][-1][1], trace.name, transform=axes.get_yaxis_transform(), va="center",
            fontsize=_POINTS, color=darker(COLOURS[trace.colour]),
        )
        for trace in followed
    ]  # fmt: skip


def move_apart(axes: Axes, names: Sequence[Text]) -> None:
    """Move names at the ends of lines up and down until none lies on another."""
    ordered = sorted(names, key=lambda name: float(name.get_position()[1]))
    wanted = [float(axes.transData.transform((0, name.get_position()[1]))[1]) for name in ordered]
    for name, place in zip(ordered, spread(wanted, 1.25 * _POINTS * axes.figure.dpi / 72), strict=True):
        name.set_y(float(axes.transData.inverted().transform((0, place))[1]))


def name_drops(axes: Axes, drops: Sequence[Drop]) -> None:
    """Lines from places down to the x axis, with their words there."""
    to_pixels, to_data = axes.transData.transform, axes.transData.inverted().transform
    floor = axes.get_ylim()[0]
    width = 1.35 * _POINTS * axes.figure.dpi / 72
    shown = sorted(drops, key=lambda drop: drop.x)
    wanted = [float(to_pixels((drop.x, drop.y))[0]) for drop in shown]
    for drop, own, place in zip(shown, wanted, spread(wanted, width), strict=True):
        colour = COLOURS[drop.colour]
        axes.plot([drop.x] * 2, [floor, drop.y], color=colour, lw=0.7, alpha=0.45)
        if abs(place - own) > 3 * width:
            continue  # too far from its line to be read as its name; the table has it
        axes.text(
            float(to_data((place, 0))[0]), floor * 1.12, drop.text, rotation=90, ha="center", va="bottom",
            fontsize=_POINTS - 1, color=darker(colour), bbox=_GROUND, zorder=6,
        )  # fmt: skip


def spread(wanted: Sequence[float], width: float) -> list[float]:
    """Ascending places at least `width` apart, each group of neighbours centred where it was wanted."""
    groups: list[tuple[float, int]] = []  # (where its first place is wanted on average, members)
    for place in wanted:
        start, members = place, 1
        while groups and groups[-1][0] + groups[-1][1] * width > start:
            before, others = groups.pop()
            start = (before * others + (start - others * width) * members) / (others + members)
            members += others
        groups.append((start, members))
    return [start + number * width for start, members in groups for number in range(members)]


def darker(colour: str) -> tuple[float, float, float]:
    """The colour for text, which needs more contrast than a line."""
    red, green, blue = (int(colour[place : place + 2], 16) / 255 * 0.72 for place in (1, 3, 5))
    return red, green, blue
