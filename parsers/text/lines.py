"""The lines of a tool's text, and the numbers in them."""

from __future__ import annotations

from typing import Final

#: Patterns of a printed number. Their length is bounded: an endless row of digits is no measurement.
WHOLE: Final = r"[0-9]{1,18}"
NUMBER: Final = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"


def complete_lines(text: str) -> str:
    """`text` up to its last line end, led by one more, with ``\\n`` as the only line end.

    So every line that is there stands between two line ends and was written to its end.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "\n" + text[: text.rfind("\n") + 1]
