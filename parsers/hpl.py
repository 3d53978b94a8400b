"""HPL (``xhpl``) 2.x: rows of the table below ``T/V N NB P Q Time Gflops``, and the residual below each.

A row is one solution of a dense system of order N in blocks of NB on P × Q processes; its rate counts
2/3 N³ + 3/2 N² operations in double precision. `size` is the matrix in bytes, 8 N². The order, the block
size, the grid and the encoded variant are params, because one run measures all combinations of ``HPL.dat``.

- A row whose scaled residual FAILED is invalid, and so is one without a residual (a threshold below zero
  switches the check off, and a run may end before it).
- A rate that the printed time does not allow, beyond its rounding, is invalid.
- NVIDIA's build prints the rate of one GPU in parentheses behind that of all: the first counts.

Source: HPL's ``testing/ptest/HPL_pdtest.c``; https://netlib.org/benchmark/hpl.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import SCIENTIFIC, WHOLE, complete_lines, sections

_VERSION: Final = re.compile(r"\nHPLinpack ([0-9.]{1,20}) ")
_ROW: Final = re.compile(
    rf"\n(W[A-Z0-9]{{4,20}})((?: +{WHOLE}){{4}}) +({SCIENTIFIC}) +({SCIENTIFIC})"
    rf"(?: +\( *{SCIENTIFIC}\))?[ \t]*(?=\n)"
)
_RESIDUAL: Final = re.compile(r"\n\|\|Ax-b\|\|_oo/[^\n]*\.{3,} (PASSED|FAILED)(?=\n)")
_ERROR: Final = re.compile(r"\nHPL ERROR[^\n]*\n>>> ([^\n]*?) <<<")
#: Residuals by their word; none was printed for any other.
_STATUS: Final = {"PASSED": OK, "FAILED": "invalid: the scaled residual failed HPL's check"}
_UNCHECKED: Final = "invalid: no residual was checked"
#: How far the time may be from operations over rate: its last digit, and the rate's four.
_ROUNDING_S: Final = 0.01
_ROUNDING: Final = 1e-3


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """FLOP/s, seconds and FLOP of each row; the failure of a run that says why it has none."""
    text = complete_lines(text)
    version = _VERSION.search(text)
    rows = list(sections(_ROW, text))
    for row, below in rows:
        variant, integers, time, rate = row.group(1, 2, 3, 4)
        n, *grid = integers.split()
        params = dict(zip(("n", "nb", "p", "q"), (n, *grid), strict=True), variant=variant)
        residual = _RESIDUAL.search(below)
        status = _STATUS[residual[1]] if residual else _UNCHECKED
        order = int(n)
        flop, flops, seconds = order**2 * (2 / 3 * order + 1.5), float(rate) * 1e9, float(time)
        if status == OK and abs(flop - seconds * flops) > (_ROUNDING_S + _ROUNDING * seconds) * flops:
            status = f"invalid: {rate} Gflops and {time} s contradict each other"
        for metric, value in (("flops", flops), ("time", seconds), ("flop", flop)):
            yield Reading("HPL", metric, value, 8 * order**2, status, params, version[1] if version else "")
    error = _ERROR.search(text)
    if not rows and (error or version):
        yield failed("HPL", "flops", error[1] if error else "the run ended before its first result")
