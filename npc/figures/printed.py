"""Charts by Matplotlib, for print and slides: ``.png`` and ``.svg`` files (and ``.pdf``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from npc.figures import paper
from npc.figures.axes import Axis
from npc.figures.chart import COLOURS, Chart, Trace
from npc.figures.labels import darker, label_along, move_apart, name_drops, name_ends, pad_drops

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

INCHES: Final = (12.0, 8.0)
#: Marks in the order of `Trace.shape`.
_SHAPES: Final = "os^DXvP"
_MARK_POINTS: Final = 7.0
_SMALL_POINTS: Final = 3.6
_NOTE_POINTS: Final = 8.5
#: More marks than this are one image in the SVG, not an element each.
_MANY: Final = 100
#: Titles wider than their axes are made smaller, down to this size.
_LEAST_TITLE_POINTS: Final = 8.5

#: Where names stand: below the picture; along slopes and at the ends of flat lines; or at the ends of lines
#: that are followed. What finds no room there stands below.
Legend = Literal["below", "along", "ends"]


def save(
    panels: Sequence[Chart],
    paths: Iterable[Path],
    *,
    title: str = "",
    subtitle: str = "",
    legend: Legend = "below",
    heights: Sequence[float] = (),
    columns: int = 0,
    inches: tuple[float, float] = INCHES,
    upper: Axis | None = None,
) -> None:
    """Write a figure of one or more charts to `paths`, each in the format of its suffix (PNG: 1920 × 1280).

    title: above several panels; subtitle: below it. heights: of panels one below the other, as ratios;
    columns: of panels of equal height, which fill one after the other; by default they stand side by side.
    upper: a second x axis, at the top. Raises OSError, and ValueError for a suffix that Matplotlib does not
    know.
    """
    single = len(panels) == 1
    with paper.new_figure(inches, layout="constrained") as figure:
        every = _panels(figure, len(panels), heights, columns)
        ends: list[tuple[Axes, list[Text]]] = []
        headings: list[tuple[Axes, Text]] = []
        below: list[Trace] = []
        for axes, chart in zip(every, panels, strict=True):
            headings.append((axes, _frame(axes, chart, "" if single else chart.title)))
            for trace in chart.traces:
                _trace(axes, trace, chart.crowded)
            if upper:
                _axis(axes.twiny(), "x", upper)
            if heights:
                axes.label_outer()
            there = [trace for trace in chart.traces if _named_at_end(trace, legend)]
            ends.append((axes, name_ends(axes, there)))
            along = [trace for trace in chart.traces if legend == "along" and not trace.marks]
            below += [trace for trace in chart.traces if trace not in (*there, *along)]
            pad_drops(axes, chart.drops)
        source = next((chart.source for chart in panels if chart.source), "")
        title = title or (panels[0].title if single else "")
        margins = paper.head_and_foot(figure, title, subtitle, source, _handles(below))
        for _, heading in headings:  # a wide one would push its axes aside
            heading.set_text(heading.get_text()[:1])
        paper.lay_out(figure, margins)
        for (axes, heading), chart in zip(headings, panels, strict=True):
            heading.set_text("" if single else chart.title)
            _fit(heading, axes)
        for (axes, names), chart in zip(ends, panels, strict=True):
            move_apart(axes, names)
            if legend == "along":
                sloped = [trace for trace in chart.traces if trace.lines and trace not in below]
                label_along(axes, [trace for trace in sloped if not _flat(trace)])
            name_drops(axes, chart.drops)
            _notes(axes, chart.traces)
        for path in paths:
            paper.write(figure, path)


def _panels(figure: Figure, count: int, heights: Sequence[float], columns: int) -> list[Axes]:
    """Axes, one below the other in columns."""
    if heights:
        return list(figure.subplots(count, 1, sharex=True, height_ratios=heights))
    across = columns or count
    every = list(figure.subplots(-(-count // across), across, squeeze=False).T.ravel())
    for axes in every[count:]:
        axes.remove()
    return every[:count]


def _flat(trace: Trace) -> bool:
    (_, start), (_, end) = trace.lines[0][0], trace.lines[0][-1]
    return start == end


def _named_at_end(trace: Trace, legend: Legend) -> bool:
    """Whether its name stands where its line ends."""
    if legend == "along":
        return bool(trace.lines and not trace.marks and _flat(trace))
    return legend == "ends" and bool(trace.hover and trace.lines and trace.name)


def draw(axes: Axes, chart: Chart) -> None:
    """A chart on axes that stand where they stay."""
    _frame(axes, chart, chart.title)
    for trace in chart.traces:
        _trace(axes, trace)
    _notes(axes, chart.traces)


def _fit(heading: Text, axes: Axes) -> None:
    """Make a title that is wider than its axes smaller; one that is much wider is cut."""
    size, text = float(heading.get_fontsize()), heading.get_text()
    fitting = size * axes.get_window_extent().width / max(heading.get_window_extent().width, 1.0)
    heading.set_fontsize(min(size, max(fitting, _LEAST_TITLE_POINTS)))
    if fitting < _LEAST_TITLE_POINTS:
        heading.set_text(f"{text[: int(len(text) * fitting / _LEAST_TITLE_POINTS) - 1]}…")


def _frame(axes: Axes, chart: Chart, title: str) -> Text:
    """Axes, grid and title, which is given back."""
    _axis(axes, "x", chart.x)
    _axis(axes, "y", chart.y)
    axes.grid(which="major", color="#DDDDDD", lw=0.7)
    axes.set_axisbelow(True)
    return axes.set_title(title, loc="left", fontsize=12, fontweight="bold")


def _axis(axes: Axes, which: Literal["x", "y"], axis: Axis) -> None:
    axes.set(**{f"{which}label": axis.title})
    if axis.log:
        getattr(axes, f"set_{which}scale")("log", base=axis.base)
    axes.set(**{f"{which}lim": (axis.low, axis.high)})
    drawn = axes.xaxis if which == "x" else axes.yaxis
    drawn.set_ticks([tick.value for tick in axis.ticks], [tick.label for tick in axis.ticks])
    drawn.set_ticks([], minor=True)


def _trace(axes: Axes, trace: Trace, crowded: bool = False) -> None:
    """crowded: intervals are whiskers."""
    for part in trace.under:
        _trace(axes, part)
    colour = COLOURS[trace.colour]
    bands = [*trace.bands, *([trace.interval] if trace.interval and not crowded else [])]
    for line in trace.lines:
        axes.plot(*zip(*line, strict=True), color=colour, lw=trace.width, ls=_dashes(trace), zorder=3)
    for band in bands:
        axes.fill(*zip(*band, strict=True), color=colour, alpha=0.9 if trace.solid else 0.13, lw=0)
    if crowded or not trace.interval:
        for mark in trace.marks:
            if mark.low is not None and mark.high is not None:
                axes.plot([mark.x] * 2, [mark.low, mark.high], color=colour, lw=0.9, alpha=0.6, zorder=2)
    if trace.marks and not trace.hover:
        _marks(axes, trace, colour)
    for part in trace.over:
        _trace(axes, part)


def _marks(axes: Axes, trace: Trace, colour: str) -> None:
    import numpy as np
    from matplotlib.colors import to_rgb

    full = np.array(to_rgb(colour))
    fills = np.array([[0.0 if trace.hollow else mark.fill] for mark in trace.marks])
    edged = bool((fills < 1).any())
    axes.scatter(
        [mark.x for mark in trace.marks],
        [mark.y for mark in trace.marks],
        s=(_SMALL_POINTS if trace.small else _MARK_POINTS) ** 2,
        c=1 - (1 - full) * fills,
        edgecolors=colour if edged else "none" if trace.small else "white",
        linewidths=0.7 if trace.small else 1.2,
        marker=_SHAPES[trace.shape % len(_SHAPES)],
        alpha=0.35 if trace.faint else None,
        zorder=7 if trace.small else 8,
        clip_on=False,  # one on an axis is whole
        rasterized=len(trace.marks) > _MANY,
    )


def _dashes(trace: Trace) -> Any:
    """Matplotlib's line style; it counts dashes in line widths, traces count them in points."""
    return (0, tuple(length / trace.width for length in trace.dashes)) if trace.dashes else "-"


def _handles(traces: Iterable[Trace]) -> list[Line2D]:
    """What stands before the names in a legend, each name once."""
    from matplotlib.lines import Line2D

    once = {trace.name: trace for trace in traces}
    return [
        Line2D(
            [], [], label=trace.name, color=COLOURS[trace.colour], lw=trace.width,
            ls=_dashes(trace) if trace.lines else "",
            marker=_SHAPES[trace.shape % len(_SHAPES)] if trace.marks else "",
            ms=5, markerfacecolor="white" if trace.hollow else None,
        )
        for trace in once.values()
        if trace.name
    ]  # fmt: skip


def _notes(axes: Axes, traces: Sequence[Trace]) -> None:
    """Words above and below places; not those that would lie on a mark or on each other."""
    from matplotlib.transforms import Bbox

    marked = [mark for trace in traces if not trace.lines for mark in trace.marks]
    half = _MARK_POINTS / 2 * paper.DPI / 72
    taken = [
        Bbox.from_extents(x - half, y - half, x + half, y + half)
        for x, y in (axes.transData.transform((mark.x, mark.y)) for mark in marked)
    ]
    parts = [part for trace in traces for part in (*trace.under, trace, *trace.over)]
    for colour, note in [(COLOURS[part.colour], note) for part in parts for note in part.notes]:
        text = axes.annotate(
            note.text,
            (note.x, note.y),
            xytext=(0, 7 if note.above else -7),
            textcoords="offset points",
            ha="center",
            va="bottom" if note.above else "top",
            fontsize=_NOTE_POINTS,
            color=darker(colour),
            zorder=7.8,
        )
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)
