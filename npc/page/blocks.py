"""What a section is made of: texts, tables, figures, each drawn by a macro of ``templates/blocks.html``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, Generic, Literal, NamedTuple, TypeVar

from markupsafe import Markup

from npc.figures.chart import Chart
from npc.figures.grid import Grid
from npc.figures.svg import Legend, draw, draw_grid, legend
from npc.records.record import Record
from npc.records.series import share_taken
from npc.records.units import format_quantity, format_size
from npc.statistics.medians import Summary
from npc.validity.disturbance import taken

#: More records of one number are not named one by one.
_MOST_RECORDS: Final = 6
_DIGITS: Final = 4
#: Ends the description of a picture whose numbers stand in a table.
BELOW: Final = "The table below has the numbers."
#: Rows beyond which a table has a filter.
LONG: Final = 16
#: What a row of a table is about. A column about something stands in a table about a kind of it, too.
Subject = TypeVar("Subject", contravariant=True)
Other = TypeVar("Other")


class Sample(NamedTuple):
    """A measurement in a table."""

    #: Its value, or why it has none.
    text: str
    #: A link to its raw file; empty if that is gone.
    href: str = ""
    #: What else there is to know of it; empty for nothing.
    title: str = ""
    #: Whether its value must not be used.
    bad: bool = False


class Cell(NamedTuple):
    """A cell of a table."""

    #: What stands in it.
    text: str
    #: Ids of the series that the number comes from; empty for none.
    records: Sequence[str] = ()
    #: What to sort it by; None where that is its text.
    sort: float | str | None = None
    #: A link to a file; empty for none.
    href: str = ""
    #: A class of the style sheet; empty for none.
    kind: str = ""
    #: What stands behind the text; empty for nothing.
    picture: Markup = Markup()
    #: Measurements; they stand before the text.
    samples: Sequence[Sample] = ()

    @property
    def more_records(self) -> Sequence[str]:
        """The records that are shown beside the first one."""
        return self.records[1:_MOST_RECORDS]

    @property
    def sort_key(self) -> str:
        """As an attribute; a number in full."""
        return (
            "" if self.sort is None else f"{self.sort!r}" if isinstance(self.sort, float) else f"{self.sort}"
        )


#: In the place of a number that there is not.
NOTHING: Final = Cell("", sort="", kind="number")


@dataclass(frozen=True)
class Column(Generic[Subject]):
    """A column of a table."""

    #: What stands at its head.
    name: str
    #: Gives what stands in the row of a subject: a cell, or a text alone.
    get: Callable[[Subject], Cell | str]

    def cell(self, subject: Subject) -> Cell:
        """The cell in the row of a subject."""
        value = self.get(subject)
        return Cell(value) if isinstance(value, str) else value

    def of(self, part: Callable[[Other], Subject]) -> Column[Other]:
        """The column of a table whose rows are about something of which the subject is a part."""
        return Column(self.name, lambda whole: self.get(part(whole)))


@dataclass(frozen=True, slots=True)
class Table:
    """A table that can be sorted."""

    kind: ClassVar[str] = "table"
    #: What stands above it.
    caption: str
    #: What stands at the head of each column.
    columns: tuple[str, ...]
    #: Its rows, from the top down; each has one cell for every column.
    rows: tuple[tuple[Cell, ...], ...]
    #: Whether it is shown on request only.
    folded: bool = False
    #: Whether there is a field to filter its rows.
    filtered: bool = False
    #: What stands below it; empty for nothing.
    note: str = ""
    #: Ids of its rows, where numbers lead to them; empty where none do.
    idents: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        caption: str,
        subjects: Iterable[Subject],
        columns: Sequence[Column[Subject]],
        *,
        folded: bool = False,
        filtered: bool = False,
        note: str = "",
        idents: tuple[str, ...] = (),
        most: int | None = None,
        rest: str = "",
    ) -> Table:
        """A row for each of the subjects, of `most` at most; `rest`, with the number of the others in the
        place of its ``{}``, stands in the note where there are others."""
        subjects = list(subjects)
        names = tuple(column.name for column in columns)
        rows = tuple(tuple(column.cell(subject) for column in columns) for subject in subjects[:most])
        left = len(subjects) - len(rows)
        note = " ".join(filter(None, (note, rest.format(left) if left else "")))
        return cls(caption, names, rows, folded, filtered, note, idents)

    def texts(self) -> list[tuple[str, ...]]:
        """The names of its columns, then what stands in each row: for a terminal."""
        return [self.columns, *(tuple(cell.text for cell in row) for row in self.rows)]

    def filled(self) -> Table:
        """Without the columns in which nothing stands."""
        places = [at for at, _ in enumerate(self.columns) if any(row[at].text for row in self.rows)]
        rows = tuple(tuple(row[at] for at in places) for row in self.rows)
        return replace(self, columns=tuple(self.columns[at] for at in places), rows=rows)


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    #: The words of the paragraph.
    text: str
    #: A class of the style sheet; empty for ordinary text.
    tone: Literal["", "good", "bad", "note"] = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a section; text of the third level."""

    kind: ClassVar[str] = "heading"
    #: The words of the heading.
    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Points one below the other."""

    kind: ClassVar[str] = "listing"
    #: What the points are.
    title: str
    #: One cell a point.
    items: tuple[Cell, ...]
    #: A class of the style sheet; empty for ordinary text.
    tone: Literal["", "good", "bad", "note"] = ""


@dataclass(frozen=True, slots=True)
class Preformatted:
    """A text as it is, folded."""

    kind: ClassVar[str] = "preformatted"
    #: What stands there while it is folded.
    title: str
    #: What is seen when it is unfolded, with its spaces and line ends.
    text: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture with its words and its numbers."""

    kind: ClassVar[str] = "figure"
    #: Its id in the page; no two figures have the same.
    ident: str
    #: What stands above it.
    title: str
    #: In words, for those who do not see it.
    shows: str
    #: How to read it.
    reading: str
    #: An ``<svg>`` element, and what belongs to it.
    picture: Markup
    #: Switches of its traces; empty where it has none.
    legend: tuple[Legend, ...] = ()
    #: (class, meaning) of its colours.
    shades: tuple[tuple[str, str], ...] = ()
    #: What its colours are of; empty where it has no colours.
    scale: str = ""
    #: Its numbers.
    tables: tuple[Table, ...] = ()
    #: File with a style sheet of its own, which the page has once; None without one.
    style: Path | None = None
    #: File with a script of its own, which the page has once; None without one.
    script: Path | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """Blocks of several runs beside each other, where there is room."""

    kind: ClassVar[str] = "columns"
    #: Blocks of each run, from the left to the right.
    columns: tuple[tuple[Block, ...], ...]


Block = Table | Text | Heading | Listing | Preformatted | Figure | Columns


def beside(columns: Sequence[Iterable[Block]]) -> Iterator[Block]:
    """Blocks of several runs as columns; those of one run as they are."""
    if len(columns) == 1:
        yield from columns[0]
    else:
        yield Columns(tuple(map(tuple, columns)))


def figures(blocks: Iterable[Block]) -> Iterator[Figure]:
    """The figures among blocks, those in columns included."""
    for block in blocks:
        if isinstance(block, Columns):
            for column in block.columns:
                yield from figures(column)
        elif isinstance(block, Figure):
            yield block


def chart_figure(chart: Chart, shows: str, reading: str, *tables: Table) -> Figure:
    """The figure of a chart, with its legend."""
    return Figure(chart.ident, chart.title, shows, reading, draw(chart), legend(chart), tables=tables)


def grid_figure(grid: Grid, shows: str, reading: str, *tables: Table) -> Figure:
    """The figure of a grid, with its colours."""
    shades, scale = tuple(grid.scale.words()), grid.scale.title
    return Figure(grid.ident, grid.title, shows, reading, draw_grid(grid), (), shades, scale, tables)


def number(value: float | None, form: str, records: Sequence[str] = ()) -> Cell:
    """A number as ``{value:form}``, which sorts by its value and leads to its records; empty for None."""
    return NOTHING if value is None else Cell(f"{value:{form}}", records, float(value), kind="number")


def percent(share: float | None, digits: int = 3) -> Cell:
    """A share as a percentage; empty for None."""
    return NOTHING if share is None else number(share, "")._replace(text=f"{100 * share:.{digits}g} %")


def quantity(value: float | None, unit: str, records: Sequence[str] = ()) -> Cell:
    """A number in its unit, which sorts by its value and leads to its records; empty for None."""
    if value is None:
        return NOTHING
    return number(value, "", records)._replace(text=format_quantity(value, unit, _DIGITS))


def size_cell(size_bytes: float | None) -> Cell:
    """A message or a working set; empty for None."""
    return Cell(format_size(size_bytes), sort=size_bytes or 0, kind="number")


def interval(summary: Summary, unit: str) -> Cell:
    """The 95 % interval of a median; ``n = 3`` where there are too few samples for one."""
    if summary.low is None or summary.high is None:
        return Cell(f"none, n = {summary.n}", kind="faint")
    low, high = (format_quantity(value, unit, _DIGITS) for value in (summary.low, summary.high))
    return Cell(f"{low} – {high}", sort=float(summary.high - summary.low), kind="number")


def sample(record: Record, href: str, *remarks: str) -> Sample:
    """A measurement with its raw file; remarks: what else there is to know of it."""
    if record.value is None:
        text = record.status.partition(":")[0]
    else:
        text = format_quantity(record.value, record.unit, 3)
    status = "" if record.ok else record.status
    disturbed = taken([share]) if (share := share_taken(record)) else ""
    text += " (disturbed)" if disturbed else ""
    return Sample(text, href, "; ".join(filter(None, (*remarks, disturbed, status))), not record.ok)


def count(number: int) -> Cell:
    """A number of things."""
    return Cell(str(number), sort=float(number), kind="number")
