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
from itertools import chain, repeat
from operator import truediv
from typing import Final

from npc.record import Reading
from parsers import NUMBER, WHOLE, Column, columns_of_rows, complete_lines, failed

_TITLE: Final = re.compile(rf"\n# NPC ([A-Za-z][A-Za-z -]{{0,40}}) Test, ({WHOLE}) ranks(?=\n)")
_HEADING: Final = re.compile(r"\A\n# Size \[B\]([^\n]{1,4000})(?=\n)")
_COLUMN: Final = re.compile(r"(\S{1,40}) \[us\]")
_ERROR: Final = re.compile(r"\n(This test requires[^\n]*)")
_REFUSED: Final = "\nThis test requires"
_MICROSECONDS: Final = repeat(1e6)
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
    parts = _TITLE.split(text)
    if len(parts) == 1 and (error := _ERROR.search(text)):
        return iter((failed("models", "time", error[1]),))
    tables = map(_table, parts[1::3], parts[2::3], parts[3::3])
    return chain.from_iterable(chain.from_iterable(tables))


def _table(title: str, ranks: str, body: str) -> Iterable[Iterable[Reading]]:
    """Readings of what stands between one title and the next, column by column."""
    heading = _HEADING.match(body)
    if heading:
        cells, measured = _layout(heading[1], ranks)
        lines, _, _ = body[heading.end() :].partition(_REFUSED)  # the next run's, which has no title
        sizes, *columns = columns_of_rows(lines, cells)
        if columns and sizes:
            return [
                column.readings(map(truediv, columns[place], _MICROSECONDS), sizes)
                for place, column in measured
            ]
    return [[failed(title.lower().replace(" ", "_").replace("-", "_"), "time", "the table has no row")]]


@lru_cache
def _layout(heading: str, ranks: str) -> tuple[tuple[str, ...], list[tuple[int, Column]]]:
    """The patterns of a row's cells; the measured columns' places behind the size."""
    names = _COLUMN.findall(heading)
    cases = [_case(name) for name in names]
    measured = [
        (place, Column(case, "time", {"ranks": ranks, **params}))
        for place, (case, params) in enumerate(cases)
        if case
    ]
    return (WHOLE, *[NUMBER] * len(names)), measured


def _case(heading: str) -> tuple[str, dict[str, str]]:
    """The case of a column and its params; no case for a heading that is not known."""
    for pattern, case in _CASES:
        match = pattern.fullmatch(heading)
        if match:
            return match.expand(case), match.groupdict()
    return "", {}
