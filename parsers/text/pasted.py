"""What people and launchers put around a tool's lines: taken away once, before any parser reads the text.

Terminals add colours, logs the time of day, mail ``> ``, forums an indentation and bold marks, launchers the
label of a rank or a host. Lines belong to the text of their label: two labels are two texts.
"""

from __future__ import annotations

import html
import re
from itertools import groupby
from textwrap import dedent
from typing import Final

#: Colours and titles of a terminal, the mark of an encoding, characters that nobody sees.
_INVISIBLE: Final = re.compile(
    r"[\ufeff\u200b\u2060\u00ad]|\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\n]{0,200}\x07"
)
#: The time of day that a log puts before a line.
_TIME: Final = re.compile(
    r"^[A-Z][a-z]{2} (?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4}|[ 0-9][0-9] [0-9:]{8})(?:[ \t]|$)"
    r"|^\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9:]{4,5})?\]?[ \t]",
    re.MULTILINE,
)
#: Marks of quotes in mail (HPL has ``>>> [ERROR] … <<<``), and bold marks around a line or a number in it.
_QUOTE: Final = re.compile(r"^ ?>(?:[ \t]?>){0,9}(?![^\n]{0,200}<<<)(?: |(?=\t)|$)", re.MULTILINE)
_BOLD: Final = re.compile(r"(?<!\*)\*\*(?=[^\s*])([^*\n]{1,400}?)\*\*(?!\*)")
_HTML_MARK: Final = re.compile(
    r"</?(?:b|strong|em|code|pre|tt|span|font|br|p)(?: [^<>\n]{0,99})?/?>", re.IGNORECASE
)
_HTML_CHARACTER: Final = re.compile(r"&(?:lt|gt|amp|quot|nbsp|#39);")
#: Before every line at least this many blanks are no part of a tool's own layout; before some lines only, if
#: these are a block that Markdown shows as it is: so many lines between empty ones.
_LEAST_INDENTATION: Final = 2
_INDENTED: Final = ("    ", "\t")
_LEAST_BLOCK: Final = 2

#: A label before a line, and the least share of lines that have it. Open MPI's --tag-output and
#: --timestamp-output; srun --label, among lines of the job script and of srun; Hydra's -prepend-rank and
#: Intel MPI's -l, which look like the streams of iperf3; journalctl; pdsh and clush, whose hosts have a digit
#: in their names (``sockperf: `` and ``iperf3: `` stand before lines as well).
_LABELS: Final = (
    (re.compile(r"[^<>\n]{0,120}?(\[[^\]<>\n]{1,99}\])?<std(?:out|err|diag)>:"), 0.01),
    (re.compile(r" {0,6}([0-9]{1,7}):(?= |$)"), 0.75),
    (re.compile(r"\[([0-9]{1,7})\](?= |$)"), 1.0),
    (re.compile(r"([\w.-]{1,64} [\w./@-]{1,64}\[[0-9]{1,10}\]):(?= |$)"), 0.75),
    (re.compile(r"((?!iperf3:)(?=[^:\n]{0,63}[0-9])[A-Za-z][\w.-]{0,62}):(?= |$)"), 1.0),
)
#: Of a label's lines: fewer a label are rows of a table that begin alike; a document may be one line.
_LEAST_LINES: Final = 2


def texts_of(text: str) -> dict[str, str]:
    """The texts that `text` holds by the label of their lines; one below an empty label if lines have none.

    Lines without a label, as those of a job script among those of its ranks, stand in every text.
    """
    lines = undecorated(text).split("\n")
    written = [line for line in lines if line]
    for pattern, share in _LABELS:
        matches = [pattern.match(line) for line in written]
        labelled = [match for match in matches if match]
        labels = dict.fromkeys(match[1] or "" for match in labelled)
        if not labelled or len(labelled) < share * len(written):
            continue
        documents = all(match.string[match.end() :].lstrip()[:1] == "{" for match in labelled)
        if len(labels) > 1 and len(labelled) < _LEAST_LINES * len(labels) and not documents:
            continue
        of_label: dict[str, list[str]] = {label: [] for label in labels}
        blank = all(match.string[match.end() :][:1] in ("", " ") for match in labelled)
        for line in lines:
            match = pattern.match(line) if line else None
            if match:
                of_label[match[1] or ""].append(line[match.end() + blank :])
            else:
                for others in of_label.values():
                    others.append(line)
        texts = {label: _without_indentation("\n".join(own)) for label, own in of_label.items()}
        return texts if len(texts) > 1 else {"": texts.popitem()[1]}
    return {"": "\n".join(lines)}


def without_label(line: str) -> str:
    """A line without the label of a rank or host before it."""
    for pattern, _ in _LABELS:
        if match := pattern.match(line):
            return line[match.end() :]
    return line


def undecorated(text: str) -> str:
    """`text` without colours, times of day, quotes, bold marks, indentation and blanks at line ends."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ")
    text = _TIME.sub("", _INVISIBLE.sub("", text))
    text = _BOLD.sub(r"\1", _QUOTE.sub("", text))
    if _HTML_CHARACTER.search(text):
        text = html.unescape(text).replace("\u00a0", " ")
    text = _HTML_MARK.sub("", text)
    return _without_indentation("\n".join(line.rstrip(" \t") for line in text.split("\n")))


def _without_indentation(text: str) -> str:
    """`text` without the blanks that stand before all its lines, or before all lines of a Markdown block."""
    lines = text.split("\n")
    if not any(line[:_LEAST_INDENTATION].strip() for line in lines):
        return dedent(text)
    whole: list[str] = []
    for indented, run in groupby(lines, lambda line: not line or line.startswith(_INDENTED)):
        block = list(run)
        stands_alone = not (block[0] and whole) and (not block[-1] or len(whole) + len(block) == len(lines))
        if indented and stands_alone and sum(map(bool, block)) >= _LEAST_BLOCK:
            block = dedent("\n".join(block)).split("\n")
        whole += block
    return "\n".join(whole)
