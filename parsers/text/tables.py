"""Tables of numbers: a text's tables of one layout at once, as columns.

Programs that measure over message sizes print table after table; most of the time that a short table takes is
spent on what does not depend on its rows. In long texts those of one layout are therefore read together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from parsers.text.lines import NUMBER, WHOLE

#: Pattern of a cell in a column of numbers that has a dash where there is none.
OPTIONAL: Final = rf"(?:{NUMBER}|-)"
_Layout = TypeVar("_Layout", bound=Hashable)
_Key = TypeVar("_Key", bound=Hashable)
#: So many characters take as long to read row by row as NumPy takes to load.
_LONG: Final = 2_000_000
#: So many tables are read together, lest one that is damaged slows down all others.
_TOGETHER: Final = 64
#: What a row of numbers begins like, and any other line.
_ROW: Final = re.compile(r"\n[ \t]*[0-9]")
_NO_ROW: Final = re.compile(r"\n(?![ \t]*[0-9])")
_COMMENT: Final = re.compile(r"\n#[^\n]*")


class Cell(NamedTuple):
    """What the cells of a column are like: of numbers if the pattern is `NUMERIC`, else of words.

    power: the power of ten to append to the digits (``e-6`` for µs), so that a value is the float nearest to
    what was printed; not of `WHOLE` ones.
    """

    pattern: str
    power: str = ""


class Rows(NamedTuple):
    """Rows of one or several tables.

    columns: the numbers of each column, nothing of one of words. of_tables: how many rows each of the tables
    has. words: what the columns of words hold, each combination once; kinds: which of these each row has.
    """

    columns: list[Sequence[Any]]
    of_tables: Sequence[int]
    words: Sequence[tuple[str, ...]] = ()
    kinds: Sequence[int] = ()

    def apart(self) -> Iterator[Rows]:
        """Those of each table."""
        end = 0
        for count in self.of_tables:
            start, end = end, end + count
            columns = [column[start:end] for column in self.columns]
            yield Rows(columns, (count,), self.words, self.kinds[start:end])


def is_long(text: str) -> bool:
    """Whether tables of one layout in `text` are worth being read together."""
    return len(text) > _LONG


def by_layout(tables: Iterable[tuple[_Layout, str]]) -> dict[_Layout, list[str]]:
    """The lines of the tables of each layout, in the order in which layouts come."""
    found: dict[_Layout, list[str]] = {}
    for layout, lines in tables:
        found.setdefault(layout, []).append(lines)
    return found


def rows_of_tables(tables: Sequence[str], cells: tuple[Cell, ...], together: bool) -> Iterator[Rows]:
    """The rows of tables of one layout; if `together`, of some at once where these have nothing but rows.

    tables: the lines of each, which begin with a line end; those that are no row are left out.
    """
    tables = [_COMMENT.sub("", lines) if "#" in lines else lines for lines in tables]
    for lines in tables:
        yield _rows(lines, cells)


def _rows(lines: str, cells: tuple[Cell, ...]) -> Rows:
    """The rows of one table; any other line is left out."""
    row, no_usual_row, no_row = _row_patterns(cells)
    # One search over the whole text is cheaper than a match for each line, and cheaper still without options.
    if no_usual_row.search(lines) and no_row.search(lines):
        lines = "\n".join(filter(row.fullmatch, lines.split("\n")))
    found = lines.split()
    width = len(cells)
    columns = [
        NUMERIC[pattern](found[place::width], power) if pattern in NUMERIC else ()
        for place, (pattern, power) in enumerate(cells)
    ]
    of_words = [found[place::width] for place, cell in enumerate(cells) if cell.pattern not in NUMERIC]
    words, kinds = numbered(list(zip(*of_words, strict=True)))
    return Rows(columns, (len(found) // width,), words, kinds)


def numbered(keys: Sequence[_Key]) -> tuple[list[_Key], list[int]]:
    """The different keys, and which of them each one is."""
    number_of = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return list(number_of), list(map(number_of.__getitem__, keys))


def row_pattern(cells: Iterable[Cell]) -> re.Pattern[str]:
    """What matches cells with blanks between them."""
    return re.compile(r"[ \t]*" + r"[ \t]+".join(cell.pattern for cell in cells) + r"[ \t]*")


@lru_cache
def _row_patterns(cells: tuple[Cell, ...]) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """What matches one row; what finds a line that is no row as tools usually print it, with decimals and
    without a blank at its end; what finds a line that is neither row nor empty."""
    row = row_pattern(cells)
    usual = " *" + " +".join(rf"{WHOLE}\.{WHOLE}" if pattern == NUMBER else pattern for pattern, _ in cells)
    return (
        row,
        re.compile(rf"\n(?!{usual}$)[^\n]", re.MULTILINE),
        re.compile(rf"\n(?!(?:{row.pattern})?$)", re.MULTILINE),
    )


#: How a column of numbers is read, by its cells' pattern; a dash as None.
NUMERIC: Final[Mapping[str, Callable[[list[str], str], Sequence[Any]]]] = {
    WHOLE: lambda cells, _: list(map(int, cells)),
    NUMBER: lambda cells, power: [float(cell + power) for cell in cells],
    OPTIONAL: lambda cells, power: [None if cell == "-" else float(cell + power) for cell in cells],
}
