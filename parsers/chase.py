"""NPC's pointer chase (``benchmarks/chase/chase.c``): the memory latency ladder, one row a working set.

`case` is ``load``, one dependent load after another; size is the working set. The value is the median of the
launch's rounds, in ns. {"pages": "huge"} is what was asked for, {"huge_pages": "0.998"} the part of the
memory that lay in some; {"level": "L2"} where the set is the one that stands for a cache or main memory;
``cpus`` how many the process might use, ``thread_cpus`` the one it ran on, ``line`` the bytes that a load
moves.

A row is invalid whose median is below its least time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import NUMBER, WHOLE, complete_lines, sections
from parsers.text.tables import rows_of

_TITLE: Final = re.compile(r"\nPointer chase of NPC:[^\n]*(?=\n)")
_CPU: Final = re.compile(rf"\nCPU = ({WHOLE}), of ({WHOLE}) that may be used(?=\n)")
_LINE: Final = re.compile(rf"\nLine = ({WHOLE}) bytes(?=\n)")
_PAGES: Final = re.compile(rf"\nPages = (huge|small), ({NUMBER}) of the memory in huge ones(?=\n)")
_ROW: Final = (WHOLE, WHOLE, NUMBER, NUMBER, r"-|L[1-9]|MEM")
_ERROR: Final = re.compile(r"\n((?:chase|usage): [^\n]+)(?=\n)")
_END: Final = "\nComplete\n"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several ladders; the failure of a ladder that was not ended, or of none."""
    text = complete_lines(text)
    ladders = [lines for _, lines in sections(_TITLE, text)]
    for lines in ladders:
        yield from _ladder(lines)
    error = _ERROR.search(text)
    if error and not ladders:
        yield failed("load", "latency", error[1].removeprefix("chase: "))


def _ladder(lines: str) -> Iterator[Reading]:
    cpu, line, pages = (pattern.search(lines) for pattern in (_CPU, _LINE, _PAGES))
    params = {
        "pages": pages[1] if pages else "",
        "huge_pages": pages[2] if pages else "",
        "thread_cpus": cpu[1] if cpu else "",
        "cpus": cpu[2] if cpu else "",
        "line": line[1] if line else "",
    }
    params = {name: value for name, value in params.items() if value}
    for size, _, median, least, level in rows_of(lines, _ROW):
        of = params if level == "-" else {**params, "level": level}
        status = OK if float(median) >= float(least) else f"invalid: the least time is {least} ns"
        if float(median):
            yield Reading("load", "latency", float(median + "e-9"), int(size), status, of)
        else:
            yield failed("load", "latency", "no time was printed", int(size), of)
    if _END not in lines:
        yield failed("load", "latency", "the ladder was not ended", params=params)
