"""The ``models`` benchmark (``benchmarks/models/patterns.py``): times of communication patterns.

A title names the test (``# NPC Burst Test, 2 ranks``), the next line heads the columns, one row a size in
bytes, times in µs. Every column is a case of its own, so that each is a sweep: ``prtt`` is PRTT(1,0,s), a
whole round trip; ``prtt_burst`` and ``prtt_delayed`` are PRTT(n,0,s) and PRTT(n,d,s), n being the param
``messages``; ``prtt_delay`` is d; ``ring_3`` is one of three concurrent transfers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from npc.records.reading import Reading, failed
from parsers.text.lines import NUMBER, WHOLE, complete_lines
from parsers.text.readings import Column
from parsers.text.tables import Cell, by_layout, is_long, rows_of_tables

#: A title with the heading below it; or the line of a run that was refused, which has no title.
_HEAD: Final = re.compile(
    rf"\n(?:# NPC ([A-Za-z][A-Za-z -]{{0,40}} Test, {WHOLE} ranks(?=\n)"
    r"(?:\n# Size \[B\][^\n]{1,4000}(?=\n)|))|This test requires)"
)
_TITLE: Final = re.compile(rf"(.*) Test, ({WHOLE}) ranks")
_COLUMN: Final = re.compile(r"(\S{1,40}) \[us\]")
_ERROR: Final = re.compile(r"\n(This test requires[^\n]*)")
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


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several tables, column by column; the failure of a run without a table."""
    text = complete_lines(text)
    parts = _HEAD.split(text)
    tables = by_layout(zip(parts[1::2], parts[2::2], strict=True))
    tables.pop(None, None)
    if not tables and (error := _ERROR.search(text)):
        return iter((failed("models", "time", error[1]),))
    long = is_long(text)
    readings = (_readings(head, lines, long) for head, lines in tables.items())
    return chain.from_iterable(chain.from_iterable(readings))


def _readings(head: str, tables: Sequence[str], together: bool) -> Iterator[Iterable[Reading]]:
    """Readings of tables with one title and heading, column by column."""
    test, cells, measured = _layout(head)
    for rows in rows_of_tables(tables, cells, together):
        sizes = rows.columns[0]
        if sizes and len(cells) > 1:
            for place, column in measured:
                yield column.readings(rows.columns[place], sizes)
        else:
            yield [failed(test, "time", "the table has no row")]


@lru_cache
def _layout(head: str) -> tuple[str, tuple[Cell, ...], list[tuple[int, Column]]]:
    """The test's name, a row's cells, the measured columns with their places."""
    title, ranks = _TITLE.findall(head)[0]
    names = _COLUMN.findall(head)
    cases = [_case(name) for name in names]
    measured = [
        (place, Column(case, "time", {"ranks": ranks, **params}))
        for place, (case, params) in enumerate(cases, start=1)
        if case
    ]
    test = title.lower().replace(" ", "_").replace("-", "_")
    return test, (Cell(WHOLE), *[Cell(NUMBER, "e-6")] * len(names)), measured


def _case(heading: str) -> tuple[str, dict[str, str]]:
    """The case of a column and its params; no case for a heading that is not known."""
    for pattern, case in _CASES:
        match = pattern.fullmatch(heading)
        if match:
            return match.expand(case), match.groupdict()
    return "", {}
