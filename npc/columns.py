"""Tables of plain text: columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], keep_empty: bool = True) -> list[str]:
    """A line for each row. Without `keep_empty` a column is left out that only the first row fills."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = [at for at in range(len(widths)) if keep_empty or any(row[at] for row in rows[1:])]
    return ["  ".join(row[at].ljust(widths[at]) for at in shown).rstrip() for row in rows]
