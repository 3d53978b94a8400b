"""Tables of numbers: long texts are read by another way than short ones, and to the same result."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from parsers import NUMBER, WHOLE
from parsers.tables import OPTIONAL, Cell, Rows, rows_of_tables

WORD = "[a-z_0-9]{1,9}"
#: What a damaged table may have anywhere.
ODD = [*" \n\t\v\0\u00e9\u0663.-,[e#x0", "00", "9" * 19]

cells_of = {
    WHOLE: st.integers(0, 10**12).map(str),
    NUMBER: st.floats(0, 1e9).map("{:.3f}".format) | st.integers(0, 10**9).map(str),
    OPTIONAL: st.floats(0, 1e9).map("{:.2f}".format) | st.just("-"),
    WORD: st.sampled_from(["ring_2", "random_16", "own", "shared", "7"]),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], tuple[Cell, ...]]:
    """Some tables as a program prints them, with the patterns of their cells."""
    cell = st.sampled_from([*map(Cell, cells_of), Cell(NUMBER, "e-6"), Cell(OPTIONAL, "e6")])
    cells = tuple(draw(st.lists(cell, min_size=1, max_size=5)))
    formats = [f"{{:{draw(st.sampled_from('<>'))}{draw(st.integers(5, 16))}}}" for _ in cells]
    stripped = draw(st.sampled_from(["", "", " "]))
    row = st.tuples(*(cells_of[cell.pattern] for cell in cells)).map(
        lambda words: "\n" + " ".join(map(str.format, formats, words)).rstrip(stripped)
    )
    ends = ["\n", "\n\n\n", "\n# a comment\n", "\nmpirun noticed that\n  Exit code: 1\n"]
    end = draw(st.sampled_from(ends))
    rows = draw(st.lists(st.lists(row, max_size=6).map("".join), min_size=1, max_size=4))
    return [lines + end for lines in rows], cells


def read(lines: list[str], cells: tuple[Cell, ...], *, together: bool) -> list[Rows]:
    return [table for rows in rows_of_tables(lines, cells, together) for table in rows.apart()]


def content(table: Rows) -> str:
    """A table's numbers and words, row by row, with their types."""
    columns = [column for column in table.columns if column]
    words = [table.words[kind] for kind in table.kinds]
    return repr((sum(table.of_tables), list(zip(*columns, strict=True)), words))


@settings(max_examples=400, deadline=None)
@given(given=tables(), data=st.data())
def test_tables_read_together_are_as_those_read_alone(
    given: tuple[list[str], tuple[Cell, ...]], data: st.DataObject
) -> None:
    lines, cells = given
    if data.draw(st.booleans()):  # a character of one of them changes
        which = data.draw(st.integers(0, len(lines) - 1))
        place = data.draw(st.integers(1, len(lines[which])))
        odd = data.draw(st.sampled_from(ODD))
        lines[which] = lines[which][:place] + odd + lines[which][place + 1 :] + "\n"
    alone, together = (Counter(map(content, read(lines, cells, together=way))) for way in (False, True))
    assert together == alone


def test_tables_of_one_format_are_read_together() -> None:
    """Else the way for long texts would never be gone, and the test above would show nothing."""
    lines = ["\nring  1024   1.50    -\nown      8  20.25  3.0\n", "\nring     8   0.07  1.0\n"]
    cells = Cell(WORD), Cell(WHOLE), Cell(NUMBER, "e-6"), Cell(OPTIONAL)
    (rows,) = rows_of_tables(lines, cells, together=True)
    assert rows.of_tables == [2, 1]
    assert rows.columns == [(), [1024, 8, 8], [1.5e-6, 20.25e-6, 0.07e-6], [None, 3.0, 1.0]]
    assert [rows.words[kind] for kind in rows.kinds] == [("ring",), ("own",), ("ring",)]
    assert all(isinstance(size, int) for size in rows.columns[1])
