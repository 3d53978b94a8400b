"""Tables of plain text: columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Container, Sequence


def columns(rows: Sequence[Sequence[str]], keep_empty: bool = True, right: Container[int] = ()) -> list[str]:
    """A line for each row. Without `keep_empty` a column is left out that only the first row fills. right:
    places of columns that are aligned on their right."""
    cells = [
        [cell.rjust(width) if at in right else cell.ljust(width) for cell in column]
        for at, column in enumerate(zip(*rows, strict=True))
        if keep_empty or any(column[1:])
        for width in [max(map(len, column))]
    ]
    return ["  ".join(line).rstrip() for line in zip(*cells, strict=True)]
