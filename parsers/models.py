"""The ``models`` benchmark (``benchmarks/models/patterns.py``): times of communication patterns.

A title names the test (``# NPC Burst Test, 2 ranks``), the next line heads the columns, one row a size in
bytes, times in µs. Every column is a case of its own, so that each is a sweep: ``prtt`` is PRTT(1,0,s), a
whole round trip; ``prtt_burst`` and ``prtt_delayed`` are PRTT(n,0,s) and PRTT(n,d,s), n being the param
``messages``; ``prtt_delay`` is d; ``ring_3`` is one of three concurrent transfers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from npc.parsers.text.lines import DECIMAL_3, WHOLE, complete_lines, sections
from npc.parsers.text.runs import of_one_run
from npc.parsers.text.tables import rows_of
from npc.records.reading import Reading, failed

#: A title and the heading below it; or the line of a run that was refused, which ends the table before it.
_TITLE: Final = re.compile(
    rf"\n# NPC ([A-Za-z][A-Za-z -]{{0,40}}) Test, ({WHOLE}) ranks(?:\n# Size \[B\]([^\n]{{0,400}}))?(?=\n)"
    r"|\n(This test requires[^\n]*)"
)
_COLUMN: Final = re.compile(r"(\S{1,40}) \[us\]")
#: A column's heading → its case, with what the heading's number stands for.
_CASES: Final = (
    (re.compile(r"PRTT\(1,0,s\)"), "prtt"),
    (re.compile(rf"PRTT\((?P<messages>{WHOLE}),0,s\)"), "prtt_burst"),
    (re.compile(rf"PRTT\((?P<messages>{WHOLE}),d,s\)"), "prtt_delayed"),
    (re.compile(r"d"), "prtt_delay"),
    (re.compile(r"PRTT\(n,0,1\)"), "burst"),
    (re.compile(r"contiguous"), "middleware"),
    (re.compile(r"strided"), "middleware_strided"),
    (re.compile(r"(pack|pack_strided)"), r"\1"),
    (re.compile(r"T\(h\)"), "h_relation"),
    (re.compile(rf"T\(({WHOLE})\)"), r"ring_\1"),
)
PROGRAMS: Final = r"patterns\.py"
MARKS: Final = r"# NPC [A-Za-z][A-Za-z -]* Test, [0-9]+ ranks"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several tables, column by column; the failure of a run without a table."""
    parts = list(sections(_TITLE, complete_lines(text)))
    tables = [(title, lines) for title, lines in parts if title[1]]
    for title, lines in tables:
        yield from of_one_run(_table(title, lines))
    if parts and not tables:
        yield failed("models", "time", parts[0][0][4])


def _table(title: re.Match[str], lines: str) -> Iterator[Reading]:
    """Readings of the rows below a title and its heading."""
    names = _COLUMN.findall(title[3] or "")
    rows = rows_of(lines, [WHOLE, *[DECIMAL_3] * len(names)])
    if not rows or not names:
        test = title[1].lower().replace(" ", "_").replace("-", "_")
        yield failed(test, "time", "the table has no row")
        return
    for place, (case, params) in enumerate(map(_case, names), start=1):
        for row in rows if case else ():
            seconds = float(row[place] + "e-6")
            yield Reading(case, "time", seconds, int(row[0]), params={"ranks": title[2], **params})


def _case(heading: str) -> tuple[str, dict[str, str]]:
    """The case of a column and its params; no case for a heading that is not known."""
    for pattern, case in _CASES:
        match = pattern.fullmatch(heading)
        if match:
            return match.expand(case), match.groupdict()
    return "", {}
