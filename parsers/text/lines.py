"""The lines of a tool's text, and the numbers in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from npc.parsers.text.pasted import without_label

#: Patterns of a printed number. Their length is bounded: an endless row of digits is no measurement. No tool
#: prints a leading zero, which is the rest of a number that was broken in two: ``00`` of ``100``.
WHOLE: Final = r"(?:0|[1-9][0-9]{0,17})"
NUMBER: Final = rf"{WHOLE}(?:\.[0-9]{{1,18}})?"
#: Numbers that are always printed with so many decimals or more: one with fewer was cut.
DECIMAL_1: Final = rf"{WHOLE}\.[0-9]{{1,18}}"
DECIMAL_2: Final = rf"{WHOLE}\.[0-9]{{2,18}}"
DECIMAL_3: Final = rf"{WHOLE}\.[0-9]{{3,18}}"
DECIMAL_6: Final = rf"{WHOLE}\.[0-9]{{6,18}}"
#: A number that may have an exponent.
SCIENTIFIC: Final = rf"{NUMBER}(?:[eE][-+]?[0-9]{{1,3}})?"
_DIGIT: Final = re.compile("[0-9]")


def complete_lines(text: str) -> str:
    """`text` up to its last line end, led by one more, with ``\\n`` as the only line end.

    So every line that is there stands between two line ends and was written to its end; a last line without a
    digit behind its label (``0: iperf Done.``) needs no line end of its own, as no number in it can be cut.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    whole, end, last = text.rpartition("\n")
    closing = bool(last.strip()) and not _DIGIT.search(without_label(last))
    return "\n" + (text + "\n" if closing else whole + end)


def sections(title: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each title, a pattern that begins with a line end, and the lines below it up to the next."""
    titles = list(title.finditer(text))
    ends = [match.start() + 1 for match in titles[1:]] + [len(text)]
    for match, end in zip(titles, ends, strict=False):
        yield match, text[match.end() : end]
