"""Figures by Matplotlib, for print and slides: ``.png`` and ``.svg`` files (and ``.pdf``)."""

from __future__ import annotations

import contextlib
import logging
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from npc.figures.chart import COLOURS, Axis, Chart, Grid, Trace, short
from npc.figures.labels import darker, label_along, move_apart, name_drops, name_ends, pad_drops

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

#: Else it tells each time where its cache stands, if nobody may write into the home.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

INCHES: Final = (12.0, 8.0)
DPI: Final = 160
#: Marks in the order of `Trace.shape`.
_SHAPES: Final = "os^DXvP"
_MARK_POINTS: Final = 7.0
_SMALL_POINTS: Final = 3.6
_NOTE_POINTS: Final = 8.5
#: More marks than this are one image in the SVG, not an element each.
_MANY: Final = 100
_TITLE_POINTS: Final = 15.0
_SUBTITLE_POINTS: Final = 10.5
_LEGEND_POINTS: Final = 9.5
_SOURCE_POINTS: Final = 8.0
#: Rows of a legend in ordinary size that find room; of more, each is smaller.
_LEGEND_ROWS: Final = 14
#: Titles wider than their axes are made smaller, down to this size.
_LEAST_TITLE_POINTS: Final = 8.5
#: Inches around everything, and grey for what is beside the point.
_EDGE: Final = 0.1
_FAINT: Final = "#555555"

#: Where names stand: below the picture; along slopes and at the ends of flat lines; or at the ends of lines
#: that are followed. What finds no room there stands below.
Legend = Literal["below", "along", "ends"]

_STYLE: Final[dict[str, Any]] = {
    "font.family": "sans-serif",
    "font.size": 11,
    "text.parse_math": False,  # a "$" in a host's name is a "$"
    "svg.fonttype": "none",  # text stays text: searchable, and small
    "svg.hashsalt": "npc",  # the same records make the same file
    "axes.spines.top": False,
    "axes.spines.right": False,
}


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
    with _figure(inches, layout="constrained") as figure:
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
        _page(figure, title or (panels[0].title if single else ""), subtitle, source, _handles(below))
        for _, heading in headings:  # a wide one would push its axes aside
            heading.set_text(heading.get_text()[:1])
        _lay_out(figure)
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
            _write(figure, path)


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


def _page(figure: Figure, title: str, subtitle: str, source: str, handles: Sequence[Line2D] = ()) -> None:
    """Title at the head, legend and source at the foot; what is between is left to the axes."""
    wide, high = figure.get_size_inches()
    room = wide - 2 * _EDGE
    top = bottom = _EDGE
    for text, points, weight, colour in (
        (title, _TITLE_POINTS, "bold", "black"), (subtitle, _SUBTITLE_POINTS, "normal", _FAINT)
    ):  # fmt: skip
        if text:
            lines = figure.text(
                _EDGE / wide, 1 - top / high, _wrapped(text, room, points), fontsize=points, va="top",
                fontweight=weight, color=colour,
            )  # fmt: skip
            top += _height(lines) + 0.05
    if source:
        words = figure.text(
            _EDGE / wide, bottom / high, _wrapped(source, room, _SOURCE_POINTS), fontsize=_SOURCE_POINTS,
            va="bottom", color=_FAINT,
        )  # fmt: skip
        bottom += _height(words) + 0.05
    if handles:
        widest = max(len(str(handle.get_label())) for handle in handles)
        columns = max(1, int(room / (0.56 * _LEGEND_POINTS * widest / 72 + 0.65)))
        rows = -(-len(handles) // columns)
        size = _LEGEND_POINTS * min(1.0, _LEGEND_ROWS / rows)
        below = figure.legend(
            handles=handles, loc="lower left", bbox_to_anchor=(0.0, bottom / high), ncols=columns,
            fontsize=size, frameon=False,
        )  # fmt: skip
        below.set_in_layout(False)
        bottom += _height(below) + _EDGE
    engine: Any = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0.0, bottom / high, 1 - _EDGE / wide, 1 - (top + bottom) / high))


def _height(drawn: Artist) -> float:
    """In inches."""
    figure = drawn.get_figure()
    assert figure is not None
    return float(drawn.get_window_extent().height / figure.dpi)


@contextlib.contextmanager
def _figure(
    inches: tuple[float, float], *, style: Mapping[str, Any] = _STYLE, **settings: Any
) -> Iterator[Figure]:
    """An empty figure, drawn in a style; not by pyplot: no window, no display, no global state."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(dict(style)):
        figure = Figure(figsize=inches, **{"dpi": DPI, **settings})
        FigureCanvasAgg(figure)
        yield figure


def _lay_out(figure: Figure) -> None:
    """From here on it is known where the axes stand on the page."""
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.execute(figure)
    figure.set_layout_engine("none")


def _write(figure: Figure, path: Path) -> None:
    """As ``figure.savefig``, which draws everything once more than it needs to."""
    from matplotlib.backend_bases import get_registered_canvas_class

    form = path.suffix[1:].lower()
    backend = get_registered_canvas_class(form)
    if backend is None:
        raise ValueError(f"a picture is .png, .svg or .pdf, not .{form}")
    write = getattr(backend(figure), f"print_{form}")
    write(path, **({"metadata": {"Date": None}} if form == "svg" else {}))


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
    half = _MARK_POINTS / 2 * DPI / 72
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


# --- grids ---------------------------------------------------------------------------------------------

#: Names fit beside the axes up to this number of rows.
_MOST_NAMES: Final = 64
#: The colours of a grid span this share of its ratios, and these factors either way at least and at most: a
#: few very bad cells must not make everything else look the same.
_IN_RANGE: Final = 0.99
_LEAST_FACTOR: Final = 1.02
_MOST_FACTOR: Final = 2.0
_FACTORS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.4, 1.6, 2.0)
#: The same where the colours span less than 1.1 either way.
_FINE_FACTORS: Final = (0.92, 0.94, 0.96, 0.98, 0.99, 1.0, 1.01, 1.02, 1.04, 1.06, 1.08)


def save_grid(
    grid: Grid, path: Path, *, subtitle: str = "", below: Chart | None = None, least: float = _LEAST_FACTOR
) -> None:
    """Write a grid as a PNG, with a chart below it. Raises OSError.

    White is normal, red worse, blue better (ColorBrewer's RdBu, which people with any common colour blindness
    tell apart); grey has no ratio. least: the colours span this factor either way at least.
    """
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    ratios = np.full((len(grid.rows), len(grid.columns)), np.nan)
    for cell in grid.cells:
        ratios[cell.row, cell.column] = np.nan if cell.ratio is None else cell.ratio
    known = ratios[ratios > 0]
    factor = float(np.exp(np.quantile(np.abs(np.log(known)), _IN_RANGE))) if len(known) else 1.0
    factor = min(max(factor, least), _MOST_FACTOR)
    width, height = (min(max(5.0, 0.14 * len(side) + 3.0), 13.0) for side in (grid.columns, grid.rows))
    inches = (10.5, 12.0) if below else (max(width + 1.2, 8.0), height + 1.0)
    style = {**_STYLE, "axes.spines.top": True, "axes.spines.right": True}
    with _figure(inches, style=style, dpi=130, layout="constrained") as figure:
        axes, *strip = (
            figure.subplots(2, 1, height_ratios=(4, 1)).tolist() if below else [figure.add_subplot()]
        )
        image = axes.imshow(
            ratios, norm=LogNorm(1 / factor, factor), cmap=colormaps["RdBu"].with_extremes(bad="0.85"),
            aspect="equal" if grid.rows == grid.columns else "auto", interpolation="nearest",
        )  # fmt: skip
        _outlines(axes, grid)
        _names(axes, grid)
        axes.set(xlabel=grid.column_title, ylabel=grid.row_title)
        factors = _FACTORS if factor >= 1.1 else _FINE_FACTORS
        ticks = [each for each in factors if image.norm.vmin <= each <= image.norm.vmax]
        bar = figure.colorbar(image, ax=axes, extend="both", shrink=0.8, ticks=ticks, format="%g")
        bar.minorticks_off()
        bar.set_label("ratio to normal; red is worse")
        if below:
            _frame(strip[0], below, below.title)
            for trace in below.traces:
                _trace(strip[0], trace)
        states = "grey was not measured"
        states += ", × failed" if any(cell.state == "failed" for cell in grid.cells) else ""
        _page(figure, grid.title, subtitle, " · ".join(filter(None, (grid.source, states))))
        _lay_out(figure)
        if below:
            _notes(strip[0], below.traces)
        _write(figure, path)


def _wrapped(text: str, inches: float, points: float) -> str:
    """Lines that fit a width in inches, each letter half as wide as it is high, or a little more."""
    width = max(1, int(inches * 72 / (0.6 * points)))
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())


# --- counts ---------------------------------------------------------------------------------------------

#: In inches: the largest side of a cell, the least in which a number finds room, and the width of a page.
_CELL: Final = 0.26
_NUMBERED: Final = 0.16
_PAGE: Final = 13.0
#: In inches: room left of the cells and above them, for the titles and the colours, and what a letter takes.
_LEFT: Final = 0.65
_ABOVE: Final = 0.35
_TITLE: Final = 0.65
_COLOURS: Final = 1.1
_LETTER: Final = 0.075
#: The least height below a title, for what the colours mean, and that of the source.
_LEAST: Final = 1.4
_SOURCE: Final = 0.25
#: A name's height in inches.
_NAME: Final = 0.13
#: From this share of the most on a cell is so dark that its number is white.
_DARK: Final = 0.6


def save_counts(
    maps: Sequence[Grid], path: Path, *, title: str, subtitle: str, source: str, unit: str
) -> None:
    """Write maps of counts as a PNG, all in the same colours: dark is often, grey never, white nothing.

    The colours are cividis, which people with any common colour blindness and a print in grey keep in order
    (Nuñez, Anderton, Renslow, PLOS ONE 13(7), 2018). unit: of the counts. Raises OSError.
    """
    import numpy as np
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.ticker import MaxNLocator

    rows, columns = max(len(each.rows) for each in maps), max(len(each.columns) for each in maps)
    side = min(_CELL, (_PAGE - _LEFT) / columns)
    below = 0.4 + _LETTER * max(len(name) for each in maps for name in each.columns)
    named = _LETTER * max(len(each.title) for each in maps)
    width = _LEFT + max(side * columns, named) + 0.2
    height = _ABOVE + max(side * rows + below, _LEAST)
    across = min(len(maps), max(1, int(_PAGE / width)))
    down = -(-len(maps) // across)
    page = max(across * width, _LETTER * 1.8 * len(title)) + _COLOURS, _TITLE + down * height + _SOURCE
    most = max(each.most or 1 for each in maps)
    shades = colormaps["cividis_r"](np.linspace(0.0, 1.0, most)) if most > 1 else [COLOURS["ink"]]
    colours = ScalarMappable(
        BoundaryNorm(np.arange(-0.5, most + 1), most + 1),
        ListedColormap(["0.88", *shades]).with_extremes(bad="white"),
    )
    with _figure(page) as figure:

        def place(left: float, top: float, wide: float, high: float) -> Axes:
            return figure.add_axes(
                (left / page[0], 1 - (top + high) / page[1], wide / page[0], high / page[1])
            )

        for number, each in enumerate(maps):
            row, column = divmod(number, across)
            axes = place(
                column * width + _LEFT, _TITLE + row * height + _ABOVE,
                side * len(each.columns), side * len(each.rows),
            )  # fmt: skip
            _count_cells(axes, each, side, colours, most)
        tall = min(4.0, page[1] - _TITLE - _ABOVE - _SOURCE - 0.1)
        bar = figure.colorbar(colours, cax=place(page[0] - _COLOURS + 0.25, _TITLE + _ABOVE, 0.2, tall))
        ticks = MaxNLocator(6, integer=True).tick_values(0, most)
        bar.set_ticks([tick for tick in ticks if 0 <= tick <= most])
        bar.minorticks_off()
        bar.ax.tick_params(labelsize=8)
        bar.set_label(f"{unit}; grey: none", fontsize=9)
        _page(figure, title, subtitle, source)
        _write(figure, path)


def _count_cells(axes: Axes, of: Grid, side: float, colours: ScalarMappable, most: int) -> None:
    """The cells of a map, with their numbers where there is room, and its names."""
    import numpy as np

    values = np.full((len(of.rows), len(of.columns)), np.nan)
    for cell in of.cells:
        values[cell.row, cell.column] = cell.count
    axes.pcolormesh(
        np.ma.masked_invalid(values), cmap=colours.cmap, norm=colours.norm, edgecolors="white",
        linewidth=0.8 if side >= _NUMBERED else 0.3,
    )  # fmt: skip
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    _count_names(axes, of, side)
    for cell in of.cells if side >= _NUMBERED else ():
        axes.text(
            cell.column + 0.5, cell.row + 0.5, str(cell.count or ""), ha="center", va="center", fontsize=6.5,
            color="white" if (cell.count or 0) > _DARK * most else "black",
        )  # fmt: skip


def _count_names(axes: Axes, of: Grid, side: float) -> None:
    """As many names of rows and columns as find room."""
    for axis, names in ((axes.xaxis, of.columns), (axes.yaxis, of.rows)):
        step = math.ceil(_NAME / side)
        places = range(0, len(names), step)
        axis.set_ticks([at + 0.5 for at in places], [names[at] for at in places], fontsize=7.5)
    axes.tick_params(axis="x", labelrotation=90)
    axes.set_xlabel(of.column_title, fontsize=9)
    axes.set_ylabel(of.row_title, fontsize=9)
    axes.set_title(of.title, loc="left", fontsize=10)


def _outlines(axes: Axes, grid: Grid) -> None:
    """Crosses on what failed, and frames around what is to blame."""
    size = max(2.0, 90 / len(grid.rows))
    for cells, marker, scale in (
        ([cell for cell in grid.cells if cell.state == "failed"], "x", 1.0),
        ([cell for cell in grid.cells if cell.blamed], "s", 2.2),
    ):
        axes.plot(
            [cell.column for cell in cells], [cell.row for cell in cells], marker, ms=scale * size,
            mec="black", mfc="none", mew=1.2,
        )  # fmt: skip


def _names(axes: Axes, grid: Grid) -> None:
    """Names of rows and columns as far as there is room; a blamed one pushes out those beside it."""
    for axis, names in ((axes.yaxis, grid.rows), (axes.xaxis, grid.columns)):
        step = -(-len(names) // _MOST_NAMES)
        ill = [place for place, name in enumerate(names) if name in grid.blamed]
        clear = [at for at in range(0, len(names), step) if all(abs(at - other) >= step for other in ill)]
        places = sorted({*ill, *clear})
        axis.set_ticks(places, [short(names[at]) for at in places], fontsize=9.0 if len(names) <= 32 else 6.0)
        for at, label in zip(places, axis.get_ticklabels(), strict=True):
            if at in ill:
                label.set(color="firebrick", fontweight="bold")
    axes.tick_params(axis="x", labelrotation=90)
