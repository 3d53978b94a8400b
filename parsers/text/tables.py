"""Tables of numbers: a line is a row, blanks part its cells."""

from __future__ import annotations

import re
from collections.abc import Iterable


def rows_of(lines: str, cells: Iterable[str]) -> list[list[str]]:
    """The cells of every row, whose patterns `cells` are; a line that is no such row is passed over."""
    row = re.compile(r"[ \t]*" + r"[ \t]+".join(f"(?:{cell})" for cell in cells) + r"[ \t]*")
    return [line.split() for line in lines.split("\n") if row.fullmatch(line)]
