"""HPL (``xhpl``): rows of the table below ``T/V N NB P Q Time Gflops``, and the residual below each.

A row is one solution of a dense system of order N in blocks of NB on P × Q processes; its rate counts
2/3 N³ + 3/2 N² operations in double precision. `size` is the matrix in bytes, 8 N². The order, the block
size, the grid and the encoded variant are params, because one run measures all combinations of ``HPL.dat``.

- A row whose scaled residual FAILED (of the three of HPL 1: one of them) is invalid, and so is one without a
  residual (a threshold below zero switches the check off, and a run may end before it).
- A rate that the printed time does not allow, beyond its rounding, is invalid.
- NVIDIA's build prints the rate of one GPU in parentheses behind that of all: the first counts.
- HPL-MxP and HPL-AI compute in mixed precision and are not read, although AMD's has HPL's banner and rows;
  nor is Intel's LINPACK for shared memory.

Source: HPL's ``testing/ptest/HPL_pdtest.c``; https://netlib.org/benchmark/hpl.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from npc.parsers.text.endings import why_ended
from npc.parsers.text.lines import SCIENTIFIC, WHOLE, complete_lines, sections
from npc.parsers.text.runs import of_one_run
from npc.records.reading import OK, Reading, failed

#: The banner; NVIDIA's has a line of its own above HPL's.
_RUN: Final = re.compile(
    r"\n(?:HPL-(NVIDIA [0-9.]{1,20})[^\n]*(?:\n=+)?(?:\nHPLinpack [^\n]*)?"
    r"|HPLinpack ([0-9][0-9a-z.]{0,19}) [^\n]*)(?=\n)"
)
_ROW: Final = re.compile(
    rf"\n(W[A-Z0-9o]{{2,20}})(?: +[0-9]{{3}})?((?: +{WHOLE}){{4}}) +({SCIENTIFIC}) +({SCIENTIFIC})"
    rf"(?: +\( *{SCIENTIFIC}\))?[ \t]*(?=\n)"
)
_RESIDUAL: Final = re.compile(r"\n\|\|Ax-b\|\|_oo ?/[^\n]*\.{3,} (PASSED|FAILED)(?=\n)")
_ERROR: Final = re.compile(r"\nHPL ERROR[^\n]*\n>>> ([^\n]*?) <<<")
#: Mixed precision: what AMD's prints below its rows, which are like HPL's; its names; what others print.
_MIXED: Final = "\nHPLMXP_"
_MIXED_NAME: Final = re.compile(r"\bx?hpl[-_ ](?:ai|mxp)(?![a-z])", re.IGNORECASE)
_MIXED_REFUSED: Final = "HPL-MxP, in mixed precision, is not read"
_OTHERS: Final = (
    (re.compile(r"\nHPL_AI +W|HPL[ -]MxP|hpl-harness"), _MIXED_REFUSED),
    (re.compile(r"\nIntel\(R\) Optimized LINPACK Benchmark data"), "Intel's LINPACK is not read"),
)
_FINISHED: Final = re.compile(rf"\nFinished +{WHOLE} tests")
_UNCHECKED: Final = "invalid: no residual was checked"
_FAILED: Final = "invalid: the scaled residual failed HPL's check"
#: How far the time may be from operations over rate: its last digit, and the rate's four.
_ROUNDING_S: Final = 0.01
_ROUNDING: Final = 1e-3
PROGRAMS: Final = r"xhpl\w*|hpl[-_](?:ai|mxp)|xlinpack_\w+"
MARKS: Final = (
    r"HPLinpack |HPL-(?:NVIDIA|MxP|AI)|HPL ERROR |HPLMXP_|HPL_AI +W|hpl-harness"
    r"|Intel\(R\) Optimized LINPACK|T/V +N +NB +P +Q "
)
ROWS: Final = r"W[A-Z0-9]{4,20}(?: +[0-9]+){4,5} +[0-9.]+ "


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """FLOP/s, seconds and FLOP of each row; the failure of a run that has none."""
    text = complete_lines(text)
    if any(_MIXED_NAME.search(word) for word in argv):
        yield failed("HPL", "flops", _MIXED_REFUSED)
        return
    runs = list(sections(_RUN, text))
    above = text[: runs[0][0].start() + 1] if runs else text
    if not runs or _ROW.search(above) or _ERROR.search(above):
        yield from _run("", above)
    for banner, body in runs:
        yield from _run(banner[1] or banner[2], body)


def _run(version: str, body: str) -> Iterator[Reading]:
    """Readings of what stands below a banner, or above all."""
    first = _ROW.search(body)
    mixed = _MIXED in body or (first and _MIXED_NAME.search(body, 0, first.start()))
    rows = [] if mixed else list(sections(_ROW, body))
    yield from of_one_run(_rows(rows, version))
    if rows:
        return
    error, others = _ERROR.search(body), [why for pattern, why in _OTHERS if pattern.search(body)]
    if mixed:
        yield failed("HPL", "flops", _MIXED_REFUSED)
    elif others:
        yield failed("HPL", "flops", others[0])
    elif error or version:
        early = why_ended(body) or "the run ended before its first result"
        reason = "it finished, and none of its rows is known" if _FINISHED.search(body) else early
        yield failed("HPL", "flops", error[1] if error else reason)


def _rows(rows: Sequence[tuple[re.Match[str], str]], version: str) -> Iterator[Reading]:
    """Readings of each row, which has its residuals below it."""
    for row, below in rows:
        variant, integers, time, rate = row.group(1, 2, 3, 4)
        n, *grid = integers.split()
        params = dict(zip(("n", "nb", "p", "q"), (n, *grid), strict=True), variant=variant)
        residuals = set(_RESIDUAL.findall(below))
        status = OK if residuals == {"PASSED"} else _FAILED if residuals else _UNCHECKED
        order = int(n)
        flop, flops, seconds = order**2 * (2 / 3 * order + 1.5), float(rate) * 1e9, float(time)
        if status == OK and abs(flop - seconds * flops) > (_ROUNDING_S + _ROUNDING * seconds) * flops:
            status = f"invalid: {rate} Gflops and {time} s contradict each other"
        for metric, value in (("flops", flops), ("time", seconds), ("flop", flop)):
            if not value:  # a time that is rounded to nothing
                continue
            yield Reading("HPL", metric, value, 8 * order**2, status, params, version)
