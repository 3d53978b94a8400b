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
_DIGIT: Final = re.compile("[0-9]")

#: Colours and titles of a terminal, the mark of an encoding, the time of day that a log puts before a line.
_DECORATION: Final = re.compile(
    r"\ufeff|\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\n]{0,200}\x07"
    r"|^[A-Z][a-z]{2} (?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4}|[ 0-9][0-9] [0-9:]{8})(?:[ \t]|$)"
    r"|^\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9:]{4,5})?\]?[ \t]",
    re.MULTILINE,
)
#: What Open MPI puts before a line (--tag-output, --timestamp-output), with a blank behind it since 5.0.
_TAG: Final = re.compile(r"^[^<>\n]{0,120}<std(?:out|err|diag)>:", re.MULTILINE)
_TAG_AND_BLANK: Final = re.compile(_TAG.pattern + "(?: |$)", re.MULTILINE)
#: The rank before the lines, and the least share of lines that have it: srun --label, among lines of the job
#: script and of srun; Hydra's -prepend-rank and Intel MPI's -l, which look like the streams of iperf3.
_RANKS: Final = (
    (re.compile(r"^[0-9]{1,7}: ?", re.MULTILINE), 0.75),
    (re.compile(r"^\[[0-9]{1,7}\] ?", re.MULTILINE), 1.0),
)
_LINE: Final = re.compile(r"^.", re.MULTILINE)


def complete_lines(text: str) -> str:
    """`text` up to its last line end, led by one more, with ``\\n`` as the only line end.

    So every line that is there stands between two line ends and was written to its end; a last line without a
    digit (``iperf Done.``) needs no line end of its own, as no number in it can be cut. Colours, and what a
    launcher or a log put before the lines, are gone.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    whole, end, last = text.rpartition("\n")
    closing = bool(last.strip()) and not _DIGIT.search(last)
    return "\n" + undecorated(text + "\n" if closing else whole + end)


def undecorated(text: str) -> str:
    """`text` without colours, times of day, and tags of ranks; a bare rank only where most lines have one."""
    text = _DECORATION.sub("", text)
    if tags := len(_TAG.findall(text)):
        text = (_TAG_AND_BLANK if len(_TAG_AND_BLANK.findall(text)) == tags else _TAG).sub("", text)
    for rank, share in _RANKS:
        labelled = len(rank.findall(text))
        if labelled and labelled >= share * len(_LINE.findall(text)):
            return rank.sub("", text)
    return text


def sections(title: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each title, a pattern that begins with a line end, and the lines below it up to the next."""
    titles = list(title.finditer(text))
    ends = [match.start() + 1 for match in titles[1:]] + [len(text)]
    for match, end in zip(titles, ends, strict=False):
        yield match, text[match.end() : end]
