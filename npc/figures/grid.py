"""A grid of coloured cells, described once; drawn for the screen by `npc.figures.svg`, for print by
`npc.figures.printed_grids`."""

from __future__ import annotations

from dataclasses import dataclass

from npc.figures.scale import Scale

#: Letters of a name beside a grid at most.
_MOST_LETTERS = 22


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell: its value, what it says, and how it stands out."""

    #: Number of its row, from 0 at the top.
    row: int
    #: Number of its column, from 0 on the left.
    column: int
    #: Its value on the grid's scale, in SI units; None where it is not known.
    value: float | None
    #: Lines of text for who points at it.
    tip: str
    #: The id of its record in a page; empty where it has none.
    record: str = ""
    #: Whether it was measured and has no usable number: it is crossed out.
    failed: bool = False
    #: Whether a frame is around it.
    blamed: bool = False
    #: Letters in it, where there is room; empty for none.
    label: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """Coloured cells with names of rows and columns."""

    #: Its id in a page.
    ident: str
    #: What stands above it.
    title: str
    #: What it shows, in words, for those who do not see it.
    text: str
    #: Names of the rows, from the top down.
    rows: tuple[str, ...]
    #: Names of the columns, from left to right.
    columns: tuple[str, ...]
    #: What is drawn, in any order; a place may have no cell.
    cells: tuple[GridCell, ...]
    #: The colours of the cells' values.
    scale: Scale
    #: What the rows are, in words; empty where nothing is to be said.
    row_title: str = ""
    #: What the columns are, in words; empty where nothing is to be said.
    column_title: str = ""
    #: Names of rows and columns that stand out.
    blamed: frozenset[str] = frozenset()
    #: Whether places without a cell are something that was not measured.
    filled: bool = False
    #: The height of a cell in pixels, at most (a hundredth of an inch in print).
    side: float = 26.0
    #: The width of a cell in the same unit, at most; 0 for square cells.
    wide: float = 0.0
    #: (name, number of its rows) of what rows belong to, from the first row on, each drawn apart from the
    #: next with its name on the left; empty where they belong to nothing.
    groups: tuple[tuple[str, int], ...] = ()


def short(name: str) -> str:
    """A name that finds room beside a grid."""
    return name if len(name) <= _MOST_LETTERS else f"{name[:10]}…{name[-10:]}"
