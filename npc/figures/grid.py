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

    #: Numbers of its row and column.
    row: int
    column: int
    #: On the grid's scale, in SI units; None where it is not known.
    value: float | None
    #: Lines of text for who points at it.
    tip: str
    #: The id of its record in a page.
    record: str = ""
    #: Whether it was measured and has no usable number: it is crossed out.
    failed: bool = False
    #: Whether a frame is around it.
    blamed: bool = False
    #: Letters in it, where there is room.
    label: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """Coloured cells with names of rows and columns."""

    #: Its id in a page.
    ident: str
    title: str
    #: What it shows, in words, for those who do not see it.
    text: str
    #: Names, from the top down and from left to right.
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[GridCell, ...]
    #: The colours of the cells' values.
    scale: Scale
    #: What rows and columns are.
    row_title: str = ""
    column_title: str = ""
    #: Names that stand out.
    blamed: frozenset[str] = frozenset()
    #: Whether places without a cell are something that was not measured.
    filled: bool = False
    #: The longest side of a cell in pixels (a hundredth of an inch in print), and its width where it is no
    #: square.
    side: float = 26.0
    wide: float = 0.0
    #: (name, number of its rows) of what rows belong to, from the first row on, each drawn apart from the
    #: next with its name on the left; empty where they belong to nothing.
    groups: tuple[tuple[str, int], ...] = ()


def short(name: str) -> str:
    """A name that finds room beside a grid."""
    return name if len(name) <= _MOST_LETTERS else f"{name[:10]}…{name[-10:]}"
