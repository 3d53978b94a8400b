"""The roofline as PNG and SVG, for print and slides: log-log, a label with its interval at every line.

All bandwidth ceilings have slope 1 in log-log axes, hence are parallel. In a frame turned by that slope
their labels are upright rectangles and the lines horizontal, which makes placing labels simple.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from npc.records.units import format_quantity
from roofline.result import Roofline
from roofline.scene import GREY, INTENSITIES, Line, Mark, Scene, Stroke, compose
from roofline.table import application_text, date_text, host_text, intensity_text, interval_text, value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INCHES: Final = (12.0, 8.0)
#: Left, bottom, width and height of the axes on the page: a layout engine would draw everything once more.
_PLACE: Final = (0.12, 0.105, 0.87, 0.785)
DPI: Final = 160
_LABEL_POINTS: Final = 9.5
_GAP_POINTS: Final = 2.0
#: Marks of applications.
SHAPES: Final = "osD^vPX"
_MARK_POINTS: Final = 9.0
#: More runs than this are one image in the SVG, not an element each.
_MANY: Final = 100
#: zlib's level in PNG files: its usual one takes half as long again for half a percent.
_COMPRESSION: Final = 3
#: Rows of a legend in labels' size that fit below the roof.
_LEGEND_ROWS: Final = 20
#: From one of its rows to the next, in em.
_LEGEND_PITCH: Final = 1.446

#: What a label stands on, so that a line below it does not strike it out.
_GROUND: Final[dict[str, Any]] = {"facecolor": "white", "alpha": 0.9, "lw": 0, "pad": 0.3}

STYLE: Final[dict[str, Any]] = {
    "font.family": "sans-serif",
    "font.size": 11,
    "text.parse_math": False,  # a "$" in a host's name is a "$"
    "svg.fonttype": "none",  # text stays text: searchable, and small
    "svg.hashsalt": "npc",  # the same records make the same file
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(roofline: Roofline, paths: Sequence[Path]) -> bool:
    """Write the picture to `paths`, each in the format of its suffix (``.png``: 1920 × 1280, ``.svg``).

    False, and nothing written, where there is no compute ceiling and so no roof. Raises OSError.
    """
    scene = compose(roofline)
    if scene is None:
        return False
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=INCHES, dpi=DPI)
        FigureCanvasAgg(figure)  # not pyplot: no window, no display, no global state
        _paint(figure, scene, roofline)
        save(figure, paths)
    return True


def save(figure: Figure, paths: Iterable[Path]) -> None:
    """Write a figure to `paths`, each in the format of its suffix: ``.png``, ``.svg``. Raises OSError."""
    for path in paths:
        if path.suffix == ".svg":
            figure.savefig(path, metadata={"Date": None})
        else:
            figure.savefig(path, pil_kwargs={"compress_level": _COMPRESSION})


def _paint(figure: Figure, scene: Scene, roofline: Roofline) -> None:
    axes = figure.add_axes(_PLACE)
    _frame(axes, scene, roofline)
    for line in scene.lines:
        _line(axes, line)
    for words, peak in scene.theoretical:
        axes.plot([scene.flat_start(peak), scene.x[1]], [peak, peak], color=GREY, lw=1.2, ls=(0, (1, 2)))
    for ridge, stroke in scene.ridges:
        axes.plot(
            ridge.intensity, ridge.performance, "o", ms=5.5, mec=stroke.colour, mfc="white", mew=1.6, zorder=5
        )
    _marks(axes, scene.marks)
    _label(axes, scene)
    _name_ridges(axes, scene)


def log_log(axes: Axes, unit: str) -> None:
    """Two logarithmic axes, the upright one in `unit`, with a grid behind what is drawn."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: format_quantity(value, unit))
    axes.grid(which="major", color="#DDDDDD", lw=0.7)
    axes.set_axisbelow(True)


def _frame(axes: Axes, scene: Scene, roofline: Roofline) -> None:
    """Axes, grid and title."""
    log_log(axes, "FLOP/s")
    axes.set_xlim(*scene.x)
    axes.set_ylim(*scene.y)
    _minor_ticks(axes)
    axes.set_ylabel("Attainable performance")
    axes.set_xlabel(f"Operational intensity [FLOP/byte]\n{INTENSITIES}")
    axes.set_title(roofline.title, loc="left", fontsize=17, fontweight="bold", pad=26, y=1)
    axes.text(
        0,
        1.012,
        f"{host_text(roofline.hosts)}  ·  {date_text(roofline)}  ·  "
        "median of repeated runs, in brackets and shaded its 95 % interval  ·  ○ ridge point",
        transform=axes.transAxes,
        color="#444444",
        va="bottom",
    )


def _minor_ticks(axes: Axes) -> None:
    """The minor ticks of both axes within their limits, without labels: one line of markers an axis.

    They look like Matplotlib's, each of which is six artists that are laid out anew for every file.
    """
    from matplotlib import rcParams
    from matplotlib.markers import TICKDOWN, TICKLEFT
    from matplotlib.ticker import NullLocator

    for axis, marker, transform, name in (
        (axes.xaxis, TICKDOWN, axes.get_xaxis_transform(), "xtick"),
        (axes.yaxis, TICKLEFT, axes.get_yaxis_transform(), "ytick"),
    ):
        low, high = axis.get_view_interval()
        places = [place for place in axis.get_minorticklocs() if low <= place <= high]
        nowhere = [0.0] * len(places)
        axes.plot(
            *((places, nowhere) if axis is axes.xaxis else (nowhere, places)),
            ls="",
            marker=marker,
            ms=rcParams[f"{name}.minor.size"],
            mew=rcParams[f"{name}.minor.width"],
            color=rcParams[f"{name}.color"],
            transform=transform,
            clip_on=False,
            zorder=2.01,
        )
        axis.set_minor_locator(NullLocator())


def _line(axes: Axes, line: Line) -> None:
    """A ceiling and the band of its interval, which ends where it meets the roof."""
    ends = [line.start, line.end]
    axes.plot(
        ends,
        [line.height(x) for x in ends],
        color=line.stroke.colour,
        lw=line.stroke.width,
        ls=_linestyle(line.stroke),
        zorder=3,
    )
    axes.fill(*zip(*line.band(), strict=True), color=line.stroke.colour, alpha=0.13, lw=0)


def _marks(axes: Axes, marks: Sequence[Mark]) -> None:
    """Applications: their runs as dots, their days as trails over them, their medians as filled marks.

    All dots come first, because a file has one image of what is drawn in succession as an image.
    """
    for mark in marks:
        if len(mark.runs) > 1:
            axes.plot(
                *zip(*mark.runs, strict=True),
                ".",
                ms=3,
                color=mark.colour,
                alpha=0.35,
                zorder=7,
                rasterized=len(mark.runs) > _MANY,
            )
    _trails(axes, [mark for mark in marks if mark.trail])
    _bars(axes, marks)
    for mark in marks:
        axes.plot(
            mark.x,
            mark.y,
            SHAPES[mark.shape % len(SHAPES)],
            ms=_MARK_POINTS,
            mec="white",
            mew=1.2,
            color=mark.colour,
            zorder=8,
        )


def _trails(axes: Axes, marks: Sequence[Mark]) -> None:
    """The medians of applications' days, from hollow to filled, with the first and the last day's date.

    One artist for all lines and one for all days, because each takes its time in each file.
    """
    import numpy as np
    from matplotlib.colors import to_rgb

    _lines(axes, [(mark.trail, mark.colour) for mark in marks], lw=1.0, alpha=0.8, zorder=7)
    days = []
    for mark in marks:
        if len(mark.trail) <= _MANY:
            last = len(mark.trail) - 1
            colour = to_rgb(mark.colour)
            for place, (x, y) in enumerate(mark.trail):
                days.append((x, y, [1 - (1 - part) * place / last for part in colour], colour))
    if days:
        xs, ys, filled, edges = zip(*days, strict=True)
        many = len(days) > _MANY
        # As arrays: lists would be looked through for what is missing, one colour after the other.
        colours: dict[str, Any] = {"c": np.array(filled), "edgecolors": np.array(edges)}
        axes.scatter(xs, ys, s=14, linewidths=0.7, zorder=7.2, rasterized=many, **colours)
    if marks:
        _dates(axes, marks)


def _dates(axes: Axes, marks: Sequence[Mark]) -> None:
    """The dates of trails' ends below and above them; not those that would lie on a median or each other."""
    size, gap = _LABEL_POINTS - 1, 7.0
    sample = axes.text(1, 1, marks[0].days[0], fontsize=size)
    extent = sample.get_window_extent()
    sample.remove()
    half, pixels = _MARK_POINTS / 2 * DPI / 72, DPI / 72
    medians = axes.transData.transform([(mark.x, mark.y) for mark in marks])
    taken = [_Box(x - half, x + half, y - half, y + half) for x, y in medians]
    for mark in marks:
        lower, upper = sorted((0, -1), key=lambda end: mark.trail[end][1])
        for end, way in ((lower, -1), (upper, 1)):
            x, y = axes.transData.transform(mark.trail[end])
            bottom = y + gap * pixels if way > 0 else y - gap * pixels - extent.height
            box = _Box(x - extent.width / 2, x + extent.width / 2, bottom, bottom + extent.height)
            if any(box.meets(other) for other in taken):
                continue
            taken.append(box)
            axes.annotate(
                mark.days[end],
                mark.trail[end],
                xytext=(0, way * gap),
                textcoords="offset points",
                ha="center",
                va="bottom" if way > 0 else "top",
                fontsize=size,
                color=_darker(mark.colour),
                bbox=_GROUND,
                zorder=7.8,
            )


def _bars(axes: Axes, marks: Sequence[Mark]) -> None:
    """The intervals of applications' medians, with caps across their ends."""
    bars = [(ends, mark.colour) for mark in marks for ends in mark.bars]
    _lines(axes, bars, lw=1.2, zorder=7.5)
    for cap, level in (("|", True), ("_", False)):
        caps = [
            (*end, colour) for ends, colour in bars if (ends[0][1] == ends[1][1]) == level for end in ends
        ]
        if caps:
            xs, ys, colours = zip(*caps, strict=True)
            axes.scatter(xs, ys, s=49, c=colours, marker=cap, linewidths=1.0, zorder=7.5)


def _lines(axes: Axes, lines: Iterable[tuple[Sequence[tuple[float, float]], str]], **style: Any) -> None:
    """Lines of some colours as one artist."""
    from matplotlib.collections import LineCollection

    paths, colours = [], []
    for path, colour in lines:
        paths.append(path)
        colours.append(colour)
    axes.add_collection(
        LineCollection(paths, colors=colours, capstyle="projecting", joinstyle="round", **style),
        autolim=False,
    )


def _linestyle(stroke: Stroke) -> Any:
    """Matplotlib's line style; it counts dashes in line widths, strokes count them in points."""
    return (0, tuple(length / stroke.width for length in stroke.dashes)) if stroke.dashes else "-"


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

    words: str
    stroke: Stroke
    left: float
    right: float
    height: float


#: A label's words, the stroke of its line, and the line's ends in FLOP/byte and FLOP/s.
_Ends = tuple[str, Stroke, tuple[float, float], tuple[float, float]]


def _label(axes: Axes, scene: Scene) -> None:
    """Labels along the lines; what finds no room goes into a legend."""
    left, right = scene.x
    lowest = min([line.ceiling.value for line in scene.lines if not line.sloped], default=math.inf)
    sloped: list[_Ends] = []
    flat: list[_Ends] = []
    for line in scene.lines:
        words = f"{line.ceiling.name}  {value_text(line.ceiling)} {interval_text(line.ceiling)}"
        end = min(line.end, lowest / line.ceiling.value) if line.sloped else line.end
        (sloped if line.sloped else flat).append(
            (words, line.stroke, (line.start, line.height(line.start)), (end, line.height(end)))
        )
    for words, peak in scene.theoretical:
        start = scene.flat_start(peak)
        words = f"{words}  {format_quantity(peak, 'FLOP/s', 3)}"
        flat.append((words, Stroke(GREY, 1.0, (1.0, 2.0)), (start, peak), (right, peak)))

    corner, unit_slope = axes.transData.transform([(left, scene.y[0]), (left * 10, scene.y[0] * 10)])
    angle = math.atan2(unit_slope[1] - corner[1], unit_slope[0] - corner[0])
    left_out = _label_along(axes, sloped, angle, at_end=False) + _label_along(axes, flat, 0.0, at_end=True)
    entries: list[tuple[str, dict[str, Any]]] = [
        (
            application_text(mark.application),
            {"color": mark.colour, "marker": SHAPES[mark.shape % len(SHAPES)], "ls": ""},
        )
        for mark in scene.marks
    ] + [
        (
            run.words,
            {"color": run.stroke.colour, "lw": run.stroke.width, "ls": _linestyle(run.stroke)},
        )
        for run in left_out
    ]
    if entries:
        _legend(axes, entries)


def _legend(axes: Axes, entries: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """A frame in the lower right corner with words, each beside a line or marker of some properties.

    It looks like Matplotlib's, whose boxes in boxes take as long to lay out as all the rest of a picture.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyBboxPatch
    from matplotlib.transforms import Affine2D

    em = _LABEL_POINTS * min(1.0, _LEGEND_ROWS / len(entries))
    in_points = Affine2D().scale(1 / 72) + axes.figure.dpi_scale_trans
    shown: dict[str, Any] = {"transform": in_points, "zorder": 7.9}  # above all but the medians
    right = 72 * INCHES[0] * (_PLACE[0] + _PLACE[2]) - 0.5 * em
    bottom = 72 * INCHES[1] * _PLACE[1] + 0.5 * em
    height = 0.3 * em + _LEGEND_PITCH * em * len(entries)
    box = FancyBboxPatch(
        (0, bottom), 1, height, f"round,pad=0,rounding_size={0.2 * em}", fc="white", ec="0.8", lw=1, **shown
    )
    axes.add_patch(box)
    baselines = [bottom + 0.6 * em + _LEGEND_PITCH * em * row for row in reversed(range(len(entries)))]
    texts = [
        axes.text(0, y, words, fontsize=em, **shown) for y, (words, _) in zip(baselines, entries, strict=True)
    ]
    left = right - 0.4 * em - max(text.get_window_extent().width for text in texts) * 72 / DPI
    for text, y, (_, properties) in zip(texts, baselines, entries, strict=True):
        text.set_x(left)
        ends = [left - 1.8 * em] if "marker" in properties else [left - 2.8 * em, left - 0.8 * em]
        axes.add_artist(Line2D(ends, [y + 0.35 * em] * len(ends), **properties, **shown))
    box.set_x(left - 3.2 * em)
    box.set_width(right - left + 3.2 * em)


def _label_along(axes: Axes, lines: list[_Ends], angle: float, at_end: bool) -> list[_Run]:
    """Write each label beside its line, turned by `angle`; give back the runs whose label finds no room."""
    cosine, sine = math.cos(angle), math.sin(angle)
    runs = []
    for words, stroke, *ends in lines:
        (x0, y0), (x1, y1) = axes.transData.transform(ends)
        runs.append(
            _Run(words, stroke, x0 * cosine + y0 * sine, x1 * cosine + y1 * sine, y0 * cosine - x0 * sine)
        )
    taken: list[_Box] = []
    left_out = []
    for run in sorted(runs, key=lambda run: -run.height):
        text = axes.text(
            1,
            1,
            run.words,
            fontsize=_LABEL_POINTS,
            ha="center",
            va="center",
            color=_darker(run.stroke.colour),
        )
        extent = text.get_window_extent()
        box = _roomiest(run, extent.width, extent.height, taken, runs, at_end)
        if box is None:
            text.remove()
            left_out.append(run)
            continue
        taken.append(box)
        u, v = (box.left + box.right) / 2, (box.bottom + box.top) / 2
        place = axes.transData.inverted().transform((u * cosine - v * sine, u * sine + v * cosine))
        text.set_position((place[0], place[1]))
        text.set_rotation(math.degrees(angle))
        text.set_zorder(6)
        text.set_bbox(_GROUND)
    return left_out


def _roomiest(
    run: _Run, width: float, height: float, taken: list[_Box], runs: list[_Run], at_end: bool
) -> _Box | None:
    """The place for a label that crosses the fewest other lines, as near to the preferred end as may be."""
    best, best_cost = None, math.inf
    for step, box in _places(run, width, height, at_end):
        if any(box.meets(other) for other in taken):
            continue  # boxes have their margins in them
        crossed = sum(box.covers(other) for other in runs if other is not run)
        if crossed + step < best_cost:
            best, best_cost = box, crossed + step
    return best


def _places(run: _Run, width: float, height: float, at_end: bool) -> Iterator[tuple[float, _Box]]:
    """Places above, below and on a run, with a cost that grows away from the preferred end.

    On the line, which the label then interrupts, is for bundles: beside it would be on a neighbour.
    """
    gap = _GAP_POINTS * DPI / 72
    steps = 24
    slack = run.right - run.left - width - 4 * height
    if slack < 0:
        return
    for step in range(steps + 1):
        part = step / steps
        left = run.left + 2 * height + slack * (1 - part if at_end else part)
        for cost, bottom in (
            (0.0, run.height + gap),
            (0.01, run.height - gap - height),
            (0.3, run.height - height / 2),
        ):
            yield part + cost, _Box(left - gap, left + width + gap, bottom, bottom + height)


def _name_ridges(axes: Axes, scene: Scene) -> None:
    """Drop lines from the ridge points of the first peak to the axis, with their intensities there."""
    if not scene.ridges:
        return
    first = scene.ridges[0][0].compute
    shown = sorted(
        ((ridge, stroke) for ridge, stroke in scene.ridges if ridge.compute == first),
        key=lambda item: item[0].intensity,
    )
    to_pixels, to_data = axes.transData.transform, axes.transData.inverted().transform
    width = 1.35 * _LABEL_POINTS * DPI / 72
    wanted = [float(to_pixels((ridge.intensity, scene.y[0]))[0]) for ridge, _ in shown]
    for (ridge, stroke), own, place in zip(shown, wanted, _spread(wanted, width), strict=True):
        axes.plot(
            [ridge.intensity] * 2, [scene.y[0], ridge.performance], color=stroke.colour, lw=0.7, alpha=0.45
        )
        if abs(place - own) > 3 * width:
            continue  # too far from its line to be read as its name; the table has it
        axes.text(
            float(to_data((place, 0))[0]),
            scene.y[0] * 1.12,
            f"{ridge.bandwidth}: {intensity_text(ridge.intensity)}",
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=_LABEL_POINTS - 1,
            color=_darker(stroke.colour),
            bbox=_GROUND,
            zorder=6,
        )


def _spread(wanted: list[float], width: float) -> list[float]:
    """Ascending places at least `width` apart, each group of neighbours centred where it was wanted."""
    groups: list[list[float]] = []  # [sum of what was wanted less the offset in the group, members]
    for place in wanted:
        groups.append([place, 1])
        while len(groups) > 1 and _end(groups[-2], width) + width > _start(groups[-1], width):
            total, members = groups.pop()
            groups[-1][0] += total
            groups[-1][1] += members
    return [_start(group, width) + number * width for group in groups for number in range(round(group[1]))]


def _start(group: list[float], width: float) -> float:
    return group[0] / group[1] - (group[1] - 1) / 2 * width


def _end(group: list[float], width: float) -> float:
    return group[0] / group[1] + (group[1] - 1) / 2 * width


def _darker(colour: str) -> tuple[float, float, float]:
    """The colour for text, which needs more contrast than a line."""
    red, green, blue = (int(colour[place : place + 2], 16) / 255 * 0.72 for place in (1, 3, 5))
    return red, green, blue
