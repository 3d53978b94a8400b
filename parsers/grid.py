"""Tables in long texts, several times as fast as a pattern for each row reads them.

The rows of a table that a program printed with one format are a grid of characters: cells are parted by
columns of blanks that go through all rows. What is between these is copied into the text of a JSON array,
which is read without an object for each cell's text. What is no such grid is left to `parsers.tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from parsers import NUMBER, WHOLE
from parsers.tables import NUMERIC, OPTIONAL, Cell, Rows, numbered, row_pattern

_Cut: TypeAlias = NDArray[np.uint8]
_LINE_END: Final = ord("\n")
_BLANK: Final = ord(" ")
_DASH: Final = ord("-")
_ZERO: Final = ord("0")
#: Numbers of so many characters have no more digits than their patterns allow.
_WIDEST: Final = 18
#: The patterns of numbers that are read together, what reads them, and the characters that they have.
_KINDS_OF_NUMBERS: Final = (
    ((WHOLE,), msgspec.json.Decoder(list[int]).decode, b"0123456789 "),
    ((NUMBER, OPTIONAL), msgspec.json.Decoder(list[float]).decode, b"0123456789. "),
)


class NoGrid(ValueError):
    """The lines are not all rows of one format."""


def rows_of_grid(tables: Sequence[str], length: int, cells: tuple[Cell, ...]) -> Rows:
    """What `parsers.tables.rows_of_tables` gives for tables whose lines are all rows. Raises `NoGrid`.

    Each of their lines begins with a line end and has `length` characters with it.
    """
    lines = "".join(tables)
    if not lines.isascii() or "\0" in lines:  # at which NumPy ends words
        raise NoGrid
    rows = np.frombuffer(lines.encode("ascii"), np.uint8).reshape(-1, length)
    cut = [rows[:, start:end] for start, end in _spans(rows)]
    if len(cut) != len(cells) or (rows[:, 0] != _LINE_END).any() or lines.count("\n") != len(rows):
        raise NoGrid
    columns: list[Any] = [()] * len(cells)
    for patterns, decode, allowed in _KINDS_OF_NUMBERS:
        places = [place for place, cell in enumerate(cells) if cell.pattern in patterns]
        nothing = {place: _dashes(cut[place]) for place in places if cells[place].pattern == OPTIONAL}
        for place, dashes in nothing.items():
            cut[place] = np.where(dashes, _ZERO, cut[place])
        try:
            values = decode(_json([(cut[place], cells[place].power) for place in places], allowed))
        except msgspec.DecodeError:
            raise NoGrid from None
        for index, place in enumerate(places):
            columns[place] = values[index :: len(places)]
        for place, dashes in nothing.items():
            for row in np.flatnonzero(dashes.any(axis=1)).tolist():
                columns[place][row] = None
    of_words = [place for place, cell in enumerate(cells) if cell.pattern not in NUMERIC]
    words, kinds = _words([cut[place] for place in of_words], [cells[place] for place in of_words])
    return Rows(columns, [len(table) // length for table in tables], words, kinds)


def _dashes(column: _Cut) -> NDArray[np.bool_]:
    """Where dashes are, each of which is alone in its row."""
    dashes: NDArray[np.bool_] = column == _DASH
    if dashes.any() and ((column[dashes.any(axis=1)] != _BLANK).sum(axis=1) != 1).any():
        raise NoGrid
    return dashes


def _words(columns: Sequence[_Cut], cells: Sequence[Cell]) -> tuple[list[tuple[str, ...]], list[int]]:
    """What columns of words hold, each combination once, and which of these each row has."""
    if not columns:
        return [], []
    blanks = np.full((len(columns[0]), 1), _BLANK, np.uint8)
    padded = np.hstack([part for column in columns for part in (blanks, column)])
    found, kinds = numbered(padded.view(f"S{padded.shape[1]}").ravel().tolist())
    texts = [text.decode() for text in found]
    if not all(map(row_pattern(cells).fullmatch, texts)):
        raise NoGrid
    return [tuple(text.split()) for text in texts], kinds


def _json(columns: Sequence[tuple[_Cut, str]], allowed: bytes) -> memoryview:
    """A JSON array of what stands in columns, row by row, with their powers of ten. It can be read where and
    only where each cell is one number of `allowed` characters."""
    if not columns:
        return memoryview(b"[]")
    widths = [1 + column.shape[1] + len(power) for column, power in columns]
    ends = np.cumsum(widths).tolist()
    text = np.full(2 + len(columns[0][0]) * sum(widths), _BLANK, np.uint8)
    grid = text[1:-1].reshape(-1, sum(widths))
    for (column, power), end in zip(columns, ends, strict=True):
        if column.shape[1] > _WIDEST:
            raise NoGrid
        grid[:, end - len(power) - column.shape[1] : end - len(power)] = column
    if text.tobytes().translate(None, allowed):
        raise NoGrid
    for (_, power), end, width in zip(columns, ends, widths, strict=True):
        grid[:, end - width] = ord(",")
        grid[:, end - len(power) : end] = np.frombuffer(power.encode(), np.uint8)
    text[1] = _BLANK  # before the first cell there is no comma
    text[0], text[-1] = ord("["), ord("]")
    return text.data


def _spans(rows: _Cut) -> list[tuple[int, int]]:
    """Where cells begin and end: what stands between columns of blanks that go through all rows."""
    used = np.zeros(rows.shape[1] + 1, np.bool_)
    used[1:-1] = np.bitwise_or.reduce(rows[:, 1:], axis=0) != _BLANK  # there are no zeros
    edges = np.flatnonzero(used[1:] != used[:-1]) + 1
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
