"""Tables of numbers: a line is a row, blanks part its cells; and what people do to tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

#: A line of numbers and nothing else.
_NUMBERS: Final = re.compile(r"[ \t]*-?[0-9.]+(?:[ \t]+-?[0-9.]+)*[ \t]*")
#: What a heading's rest looks like on the next line: names and units, behind which nothing stands.
_REST_OF_HEADING: Final = re.compile(
    r"\n?[^\n#]{0,200}[(\[](?:us|usec|MB/s|Mi?B/sec|Gb/sec|Mpps|%)[)\]][ \t]*(?=\n)"
)
_CELL: Final = re.compile(r"\S+")


def rows_of(lines: str, cells: Iterable[str]) -> list[list[str]]:
    """The cells of every row, whose patterns `cells` are; a line that is no such row is passed over."""
    row = _row(cells)
    return [line.split() for line in lines.split("\n") if row.fullmatch(line)]


def whole_rows(
    lines: str, cells: Sequence[str], keys: Sequence[int] = (0,), heading: str = ""
) -> tuple[list[list[str]], str]:
    """The rows of one table, and what is wrong with it.

    `keys` are the columns whose numbers ascend, the first before the others. A table in which they do not is
    that of two runs, or its lines are mixed: it has no row. A row whose rest stands on the next line is none,
    nor is a last one that was cut: one with too few cells or decimals, or, where its cells end below those of
    the `heading`, one that ends before it.
    """
    if _REST_OF_HEADING.match(lines):
        return [], "its heading was wrapped"
    row = _row(cells)
    rows, cut = [], False
    written = [line for line in lines.split("\n") if row.fullmatch(line) or _NUMBERS.fullmatch(line)]
    for line, rest in zip(written, [*written, ""][1:], strict=True):
        cut = not row.fullmatch(line)
        if not cut and not 0 < len(rest.split()) < len(cells):
            rows.append(line.split())
    if keys and not ascending([int(row[key]) for key in keys] for row in rows):
        return [], "rows of several tables: sizes do not ascend"
    if rows and not cut:
        *ends, end = [cell.end() for cell in _CELL.finditer(written[-1])]
        *heads, head = [cell.end() for cell in _CELL.finditer(heading)] or [0]
        if ends == heads and end < head:
            return rows[:-1], "its last row is cut"
    return rows, "its last row is cut" if cut else ""


def ascending(sizes: Iterable[Any]) -> bool:
    """Whether each is larger than the one before it."""
    return all(one < other for one, other in pairwise(sizes))


def _row(cells: Iterable[str]) -> re.Pattern[str]:
    return re.compile(r"[ \t]*" + r"[ \t]+".join(f"(?:{cell})" for cell in cells) + r"[ \t]*")
