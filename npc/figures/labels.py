"""Where words stand in a printed chart: along their lines, and beside the x axis.

Lines of one kind are parallel in log-log axes. In a frame turned by their slope their labels are upright
rectangles and the lines horizontal, which makes placing labels simple.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from npc.figures.chart import COLOURS, DropLine, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

_POINTS: Final = 9.5
_DROP_POINTS: Final = 8.5
#: Height (points) of the names of ticks.
_BELOW_TICKS: Final = 21.0
_GAP_POINTS: Final = 2.0
#: Places that are tried along a line.
_STEPS: Final = 24
#: Members of a group that are named; what a place on another label costs, in lines that it would lie on.
_MOST_MEMBERS: Final = 4
_ON_LABEL: Final = 9.0
#: What words stand on, so that a line below does not strike them out.
_GROUND: Final[dict[str, Any]] = {"facecolor": "white", "alpha": 0.9, "lw": 0, "pad": 0.3}


@dataclass(frozen=True, slots=True)
class _Box:
    """A rectangle in a turned frame, in pixels: u along the lines, v across them."""

    #: The lowest u in it.
    left: float
    #: The highest u in it.
    right: float
    #: The lowest v in it.
    bottom: float
    #: The highest v in it.
    top: float

    def meets(self, other: _Box) -> bool:
        """Whether the two overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def covers(self, run: _Stretch) -> bool:
        """Whether it lies on a part of the line."""
        return self.bottom < run.height < self.top and run.left < self.right and self.left < run.right


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A visible stretch of a line, in the turned frame of `_Box`, in pixels."""

    #: What the line is of.
    trace: Trace
    #: u of its left end.
    left: float
    #: u of its right end.
    right: float
    #: v of all of it.
    height: float


def label_along(axes: Axes, traces: Sequence[Trace]) -> None:
    """Write the names of parallel straight lines beside them, near their left ends, those of a group together
    and below each other."""
    if not traces:
        return
    ends = [axes.transData.transform([trace.lines[0][0], trace.lines[0][-1]]) for trace in traces]
    (x0, y0), (x1, y1) = ends[0]
    angle = math.atan2(y1 - y0, x1 - x0)
    cosine, sine = math.cos(angle), math.sin(angle)
    runs = [
        _Stretch(trace, x0 * cosine + y0 * sine, x1 * cosine + y1 * sine, y0 * cosine - x0 * sine)
        for trace, ((x0, y0), (x1, y1)) in zip(traces, ends, strict=True)
    ]
    groups: dict[str, list[_Stretch]] = {}
    for run in sorted(runs, key=lambda run: -run.height):
        groups.setdefault(run.trace.group or run.trace.name, []).append(run)
    gap = _GAP_POINTS * axes.figure.dpi / 72
    frame = axes.get_window_extent()

    def inside(box: _Box) -> bool:
        corners = [(u, v) for u in (box.left, box.right) for v in (box.bottom, box.top)]
        return all(frame.contains(u * cosine - v * sine, u * sine + v * cosine) for u, v in corners)

    taken: list[_Box] = []
    for members in groups.values():
        texts = [
            axes.text(1, 1, words, fontsize=_POINTS, ha="center", va="center", zorder=6, color=darker(colour))
            for words, colour in _names(members)
        ]
        extents = [text.get_window_extent() for text in texts]
        height = max(extent.height for extent in extents)
        wide = max(extent.width for extent in extents)
        places = _places(members, wide, height * len(texts), height, gap)
        box = _roomiest([place for place in places if inside(place[1])] or places, taken, runs)
        taken.append(box)
        for row, (text, extent) in enumerate(zip(texts, extents, strict=True)):
            u, v = box.left + gap + extent.width / 2, box.top - (row + 0.5) * height
            place = (u * cosine - v * sine, u * sine + v * cosine)
            text.set(
                position=axes.transData.inverted().transform(place),
                rotation=math.degrees(angle),
                bbox=_GROUND,
            )


def _names(members: Sequence[_Stretch]) -> Iterator[tuple[str, str]]:
    """The lines of a label, each with its colour."""
    most = _MOST_MEMBERS if len(members) > _MOST_MEMBERS + 1 else len(members)
    for run in members[:most]:
        yield run.trace.name, COLOURS[run.trace.colour]
    if len(members) > most:
        yield f"and {len(members) - most} more", COLOURS["grey"]


def _roomiest(places: Sequence[tuple[float, _Box]], taken: Sequence[_Box], runs: Sequence[_Stretch]) -> _Box:
    """The place for a label that lies on the fewest labels and lines, as near to the left end as may be."""

    def cost(placed: tuple[float, _Box]) -> float:
        own, box = placed
        return own + sum(map(box.covers, runs)) + _ON_LABEL * sum(map(box.meets, taken))

    return min(places, key=cost)[1]


def _places(
    members: Sequence[_Stretch], width: float, height: float, line: float, gap: float
) -> list[tuple[float, _Box]]:
    """Places above and below the lines of a group, and on them, with a cost that grows with the distance from
    the left end. On the lines, which the label then interrupts, is for bundles: beside them would be on a
    neighbour."""
    left = max(run.left for run in members) + 1.5 * line
    slack = max(0.0, min(run.right for run in members) - left - width - 1.5 * line)
    high, low = members[0].height, members[-1].height
    beside = (0.0, high + gap), (0.01, low - gap - height), (0.3, (high + low - height) / 2)
    return [
        (part + cost, _Box(start - gap, start + width + gap, bottom, bottom + height))
        for part in (step / _STEPS for step in range(_STEPS + 1))
        for start in (left + slack * part,)
        for cost, bottom in beside
    ]


def name_ends(axes: Axes, traces: Sequence[Trace]) -> list[Text]:
    """The names of lines right of the axes, each as high as its line ends."""
    return [
        axes.text(
            1.006, trace.lines[-1][-1][1], trace.name.replace("  ", "\n"), va="center", fontsize=_POINTS,
            transform=axes.get_yaxis_transform(), color=darker(COLOURS[trace.colour]),
        )
        for trace in traces
    ]  # fmt: skip


def move_apart(axes: Axes, names: Sequence[Text]) -> None:
    """Move names at the ends of lines up and down until none lies on another."""
    if not names:
        return
    ordered = sorted(names, key=lambda name: float(name.get_position()[1]))
    wanted = [float(axes.transData.transform((0, name.get_position()[1]))[1]) for name in ordered]
    high = max(name.get_window_extent().height for name in names) * 1.1
    for name, place in zip(ordered, spread(wanted, high), strict=True):
        name.set_y(float(axes.transData.inverted().transform((0, place))[1]))


def pad_drops(axes: Axes, drops: Sequence[DropLine]) -> None:
    """Leave room between the names of the x axis' ticks and its title for what drops say."""
    if drops:
        axes.xaxis.labelpad = 0.62 * _DROP_POINTS * max(len(drop.text) for drop in drops) + 8


def name_drops(axes: Axes, drops: Sequence[DropLine]) -> None:
    """Lines from places down to the x axis, with their words below its ticks."""
    to_pixels, to_data = axes.transData.transform, axes.transData.inverted().transform
    floor = axes.get_ylim()[0]
    width = 1.25 * _DROP_POINTS * axes.figure.dpi / 72
    shown = sorted(drops, key=lambda drop: drop.x)
    wanted = [float(to_pixels((drop.x, drop.y))[0]) for drop in shown]
    for drop, place in zip(shown, spread(wanted, width), strict=True):
        colour = COLOURS[drop.colour]
        axes.plot([drop.x] * 2, [floor, drop.y], color=colour, lw=0.7, alpha=0.45)
        axes.annotate(
            drop.text, (float(to_data((place, 0))[0]), floor), xytext=(0, -_BELOW_TICKS),
            textcoords="offset points", rotation=90, ha="center", va="top", fontsize=_DROP_POINTS,
            color=darker(colour),
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
