"""The lines of a tool's text, and the numbers in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

#: Patterns of a printed number. Their length is bounded: an endless row of digits is no measurement.
WHOLE: Final = r"[0-9]{1,18}"
NUMBER: Final = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
#: A number that may have an exponent.
SCIENTIFIC: Final = rf"{NUMBER}(?:[eE][-+]?[0-9]{{1,3}})?"


def complete_lines(text: str) -> str:
    """`text` up to its last line end, led by one more, with ``\\n`` as the only line end.

    So every line that is there stands between two line ends and was written to its end.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "\n" + text[: text.rfind("\n") + 1]


def sections(title: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each title, a pattern that begins with a line end, and the lines below it up to the next."""
    titles = list(title.finditer(text))
    ends = [match.start() + 1 for match in titles[1:]] + [len(text)]
    for match, end in zip(titles, ends, strict=False):
        yield match, text[match.end() : end]
