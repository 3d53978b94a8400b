"""Text that fits a terminal, folded between words: tables with columns as wide as their widest cell, and
sentences."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Container, Iterator, Sequence
from itertools import zip_longest
from typing import Final

#: Characters of a line at most: wider is hard to read, and mails and issues cut it.
MOST: Final = 100
_GAP: Final = "  "
#: A last column that is narrower stands below its row instead.
_LEAST_LAST: Final = 22
#: Lines of a cell of the last column; a longer one has its own lines below the row.
_MOST_LINES: Final = 3
#: What a sentence is continued behind: ``  why: ``, ``1. ``, or spaces.
_LABEL: Final = re.compile(r" *(?:\w+: +|\d+\. )?")
_TYPED: Final = re.compile(r" +(?:npc|npb|jube|mpirun|scontrol|srun|make|[A-Z]\w+=)")
#: Between words; a number stays with its unit, and an interval whole.
_BETWEEN: Final = re.compile(r"(?<!\d)(?<!\d,) +|(?<=\d) +(?=[a-z]{3}|[\[(…–])")


def columns(
    rows: Sequence[Sequence[str]], keep_empty: bool = True, right: Container[int] = (), indent: str = ""
) -> list[str]:
    """The text of each row, of several lines where it is folded, none wider than the terminal and `MOST`.

    The first row has the names. Without `keep_empty` a column is left out that only the first row fills.
    right: places of columns that are aligned on their right. indent: before every line. Where it is easier
    to read, the last columns stand below their row, a line each with its name; so do long cells of the last.
    """
    shown = [
        (at in right, [" ".join(cell.split("\n")) for cell in column])
        for at, column in enumerate(zip(*rows, strict=True))
        if keep_empty or any(column[1:])
    ]
    cells, to_right = [column for _, column in shown], [aligned for aligned, _ in shown]
    room = _room() - len(indent)
    tables = [
        [*_rows(cells, to_right, beside, room)]
        for beside in range(len(cells), 0, -1)
        if beside == 1 or _width(_leasts(cells[:beside])) <= room
    ]
    best = min(tables, key=_breaks, default=[])
    return ["\n".join(f"{indent}{line}".rstrip() for line in [*row, *below]) for row, below in best]


def sentences(text: str) -> str:
    """A text whose lines fit the terminal: what continues a line stands below what follows its label. Lines
    that fit, as those of `columns`, and lines to be typed stay as they are, and so does all of it where
    stdout is no terminal: programs read it."""
    if not sys.stdout.isatty():
        return text
    room = _room()
    return "\n".join(
        line if len(line) <= room or _TYPED.match(line) else _sentence(line) for line in text.split("\n")
    )


def _sentence(line: str) -> str:
    label = _LABEL.match(line)
    hang = label.end() if label and label.end() <= _LEAST_LAST else len(line) - len(line.lstrip(" ")) + 2
    return line[:hang] + ("\n" + " " * hang).join(_fold(line[hang:], _room() - hang))


def _room() -> int:
    return min(MOST, shutil.get_terminal_size((MOST, 24)).columns)


def _breaks(table: Sequence[tuple[list[str], list[str]]]) -> int:
    """How hard it is to read: its lines, and once more those that leave the columns."""
    return sum(len(row) + 2 * len(below) for row, below in table)


def _rows(
    cells: Sequence[Sequence[str]], to_right: Sequence[bool], beside: int, room: int
) -> Iterator[tuple[list[str], list[str]]]:
    """The lines of each row: of its first `beside` cells beside each other, and of the others below."""
    widths = _widths(cells[:beside], room)
    names = [column[0] for column in cells]
    for place, row in enumerate(zip(*cells, strict=True)):
        folded = [_fold(cell, width) for cell, width in zip(row, widths, strict=False)]
        below = list(zip(names, row, strict=True))[beside:]
        if beside > 1 and (len(folded[-1]) > _MOST_LINES or max(map(len, folded[-1])) > widths[-1]):
            below[:0], folded[-1] = [(names[beside - 1], row[beside - 1])], [""]
        lines = [
            _GAP.join(
                part.rjust(width) if aligned else part.ljust(width)
                for part, width, aligned in zip(parts, widths, to_right, strict=False)
            )
            for parts in zip_longest(*folded, fillvalue="")
        ]
        texts = [": ".join(filter(None, (name, cell))) for name, cell in below if cell and place]
        yield lines, [f"    {line}" for text in texts for line in _fold(text, room - 4)]


def _width(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _leasts(cells: Sequence[Sequence[str]]) -> list[int]:
    """The widths below which a word would be cut; of the last column, below which little would stay in it."""
    least = [max(len(line) for cell in column for line in _fold(cell, 0)) for column in cells[:-1]]
    return [*least, min(max(map(len, cells[-1])), _LEAST_LAST)]


def _widths(cells: Sequence[Sequence[str]], room: int) -> list[int]:
    """Those of the widest cells, the widest made narrower until all have room."""
    widths = [max(map(len, column)) for column in cells]
    least = _leasts(cells)
    while _width(widths) > room:
        spare = [(width, at) for at, width in enumerate(widths) if width > least[at]]
        if not spare:
            break
        widths[max(spare)[1]] -= 1
    return widths


def _fold(cell: str, width: int) -> list[str]:
    """Its lines, all of them as far to the right as its first word."""
    text = cell.lstrip(" ")
    inset = cell[: len(cell) - len(text)]
    lines = [""]
    for word in _BETWEEN.split(text):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and len(inset + longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [inset + line for line in lines]
