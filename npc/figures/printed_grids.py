"""Grids of coloured cells by Matplotlib, for print and slides: ``.png`` and ``.svg`` files (and ``.pdf``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from npc.figures import paper, printed
from npc.figures.chart import COLOURS, Chart
from npc.figures.grid import Grid, GridCell, short
from npc.figures.scale import CROSSED, DARK, NONE, SHADES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: All in inches. The width of a page, at least and at most, and the height of all rows of a grid at most.
_NARROW: Final = 6.5
_PAGE: Final = 13.0
_TALL: Final = 9.5
#: The least side of a cell in which letters find room.
_LETTERED: Final = 0.16
#: What a letter takes along a line, and a line's height.
_LETTER: Final = 0.075
_LINE: Final = 0.13
#: The title of an axis with its gap, that of one of several grids, and the room around a grid.
_AXIS_TITLE: Final = 0.3
_TITLE: Final = 0.3
_GAP: Final = 0.15
#: The chart below: its height, and the room left of it and below it for its labels.
_STRIP: Final = 1.6
_STRIP_LEFT: Final = 0.9
_STRIP_BELOW: Final = 0.75
#: Points.
_NAME_POINTS: Final = 7.5
_LABEL_POINTS: Final = 6.5
_AXIS_POINTS: Final = 9.0
_TITLE_POINTS: Final = 10.0


class _Layout:
    """How large cells are, and where each of several grids stands, which are all as large as the largest.

    All in inches.
    """

    def __init__(self, grids: Sequence[Grid], tall: float) -> None:
        """tall: what all rows of a grid take at most."""
        rows = max(len(grid.rows) for grid in grids)
        columns = max(len(grid.columns) for grid in grids)
        self.left = _GAP + _AXIS_TITLE + _longest(grid.rows for grid in grids)
        self._below = _AXIS_TITLE + _longest(grid.columns for grid in grids)
        first = grids[0]
        #: A cell.
        self.wide = min((first.wide or first.side) / 100, (_PAGE - self.left - _GAP) / columns)
        self.high = min(first.side / 100, tall / rows)
        if not first.wide:
            self.wide = self.high = min(self.wide, self.high)
        #: Whether letters find room in a cell.
        self.lettered = min(self.wide, self.high) >= _LETTERED
        self._several = len(grids) > 1
        titles = _LETTER * max(len(grid.title) for grid in grids) * self._several
        # the title of the rows may be longer than they are high
        title = _LETTER * _AXIS_POINTS / _NAME_POINTS * max(len(grid.row_title) for grid in grids)
        self._above = _TITLE * self._several + max(0.0, (title - self.high * rows) / 2)
        #: A grid with its names and its title.
        self.width = self.left + max(self.wide * columns, titles) + _GAP
        self.height = self._above + self.high * rows + self._below + _GAP
        self.across = min(len(grids), max(1, int(_PAGE / self.width)))
        self.down = -(-len(grids) // self.across)

    def place(self, number: int, grid: Grid) -> tuple[float, float, float, float]:
        """Left and upper edge of the cells of the grid of that number, and their width and height."""
        row, column = divmod(number, self.across)
        left, top = column * self.width + self.left, row * self.height + self._above
        return left, top, self.wide * len(grid.columns), self.high * len(grid.rows)


def _longest(names: Iterable[Sequence[str]]) -> float:
    """What the longest name of several grids takes in inches."""
    return _LETTER * max(len(short(name)) for of_grid in names for name in of_grid)


def save_grids(
    grids: Sequence[Grid],
    path: Path,
    *,
    title: str = "",
    subtitle: str = "",
    source: str = "",
    below: Chart | None = None,
) -> None:
    """Write grids with one scale as a picture, in the format of the path's suffix.

    title: above several grids; subtitle: below it; source: whose measurements, and when; below: a chart below
    the grids. Raises OSError, and ValueError for a suffix that Matplotlib does not know.
    """
    strip = _STRIP + _STRIP_BELOW + _TITLE if below else 0.0
    layout = _Layout(grids, _TALL - strip)
    width = max(layout.across * layout.width, _NARROW)
    with paper.new_figure((width, 1.0)) as figure:
        margins = paper.head_and_foot(
            figure, title or grids[0].title, subtitle, source, list(_legend(grids)), grids[0].scale.title
        )
        height = margins.top + layout.down * layout.height + strip + margins.bottom + _GAP
        figure.set_size_inches(width, height)

        def place(left: float, top: float, wide: float, high: float) -> Axes:
            bottom = height - margins.top - _GAP - top - high
            return figure.add_axes((left / width, bottom / height, wide / width, high / height))

        for number, grid in enumerate(grids):
            axes = place(*layout.place(number, grid))
            _cells(axes, grid, layout)
            _names(axes, grid, layout)
            axes.set_title(grid.title if len(grids) > 1 else "", loc="left", fontsize=_TITLE_POINTS)
        if below:
            top = layout.down * layout.height + _TITLE
            printed.draw(place(_STRIP_LEFT, top, width - _STRIP_LEFT - 2 * _GAP, _STRIP), below)
        paper.write(figure, path)


def _legend(grids: Sequence[Grid]) -> Iterator[Any]:
    """A handle for each colour of the scale; for missing values only where there are some."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    cells = [cell for grid in grids for cell in grid.cells]
    empty = any(grid.filled for grid in grids) or any(cell.value is None for cell in cells)
    for shade, words in grids[0].scale.words():
        if shade == CROSSED:
            if any(cell.failed for cell in cells):
                yield Line2D([], [], marker="x", ls="", color="black", label=words)
        elif shade != NONE or empty:
            yield Patch(facecolor=SHADES[shade], edgecolor="0.6", lw=0.5, label=words)


def _cells(axes: Axes, grid: Grid, layout: _Layout) -> None:
    """The coloured cells, with crosses on what failed, frames around what is to blame, and their labels."""
    import numpy as np
    from matplotlib.colors import to_rgb

    pixels = np.ones((len(grid.rows), len(grid.columns), 3))
    if grid.filled:
        pixels[:] = to_rgb(SHADES[NONE])
    for cell in grid.cells:
        pixels[cell.row, cell.column] = to_rgb(SHADES[grid.scale.shade(cell.value)])
    axes.imshow(pixels, aspect="auto", interpolation="nearest")
    axes.spines[:].set_visible(grid.filled)
    if not grid.filled:
        apart: dict[str, Any] = {"color": "white", "lw": 0.8 if layout.lettered else 0.3}
        axes.hlines(np.arange(0.5, len(grid.rows) - 1), -0.5, len(grid.columns) - 0.5, **apart)
        axes.vlines(np.arange(0.5, len(grid.columns) - 1), -0.5, len(grid.rows) - 0.5, **apart)
    side = 72 * min(layout.wide, layout.high)
    _marks(axes, [cell for cell in grid.cells if cell.failed], "x", max(2.0, 0.5 * side))
    _marks(axes, [cell for cell in grid.cells if cell.blamed], "s", max(3.0, side))
    for cell in grid.cells if layout.lettered else ():
        axes.text(
            cell.column, cell.row, cell.label, ha="center", va="center_baseline", fontsize=_LABEL_POINTS,
            color="white" if grid.scale.shade(cell.value) in DARK else "black",
        )  # fmt: skip


def _marks(axes: Axes, cells: Sequence[GridCell], marker: str, points: float) -> None:
    places = [cell.column for cell in cells], [cell.row for cell in cells]
    axes.plot(*places, marker, ms=points, mec=COLOURS["ink"], mfc="none", mew=1.2)


def _names(axes: Axes, grid: Grid, layout: _Layout) -> None:
    """Titles, and as many names of rows and columns as find room; one that is blamed takes that of those
    beside it."""
    for axis, names, size in ((axes.xaxis, grid.columns, layout.wide), (axes.yaxis, grid.rows, layout.high)):
        step = math.ceil(_LINE / size)
        blamed = [place for place, name in enumerate(names) if name in grid.blamed]
        clear = [at for at in range(0, len(names), step) if all(abs(at - other) >= step for other in blamed)]
        places = sorted({*blamed, *clear})
        axis.set_ticks(places, [short(names[at]) for at in places], fontsize=_NAME_POINTS)
        for at, label in zip(places, axis.get_ticklabels(), strict=True):
            if at in blamed:
                label.set(color=COLOURS["bad"], fontweight="bold")
    axes.tick_params(length=0)
    axes.tick_params(axis="x", labelrotation=90)
    axes.set_xlabel(grid.column_title, fontsize=_AXIS_POINTS)
    axes.set_ylabel(grid.row_title, fontsize=_AXIS_POINTS)
