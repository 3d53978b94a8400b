"""Himeno benchmark: FLOP/s of a Jacobi solver, from its customary closing lines.

``MFLOPS measured`` is 34 FLOP for each inner cell and loop over the slowest process' time, M is 10^6;
the rehearsal's rate (``MFLOPS: … time(s): …``) is no result. `case` is ``himeno``, size the bytes of the 14
single-precision arrays; the grid of cells and that of processes are params where they are printed
(``imax = …``, ``I-decomp = …``). Metric flop counts the rehearsal's loops with the others, because counters
read around the program count it too; there is none where their number is neither printed nor 0, as the
option ``-n`` of this project's variant makes it.

Metric bandwidth follows from the rate: for a cell and loop the kernel loads 13 floats and stores one, and the
copy after it loads and stores one, so 34 FLOP go with 64 bytes; lines that a store loads first are not
counted, as STREAM does not count them.

The rate is invalid where it is not the printed loops' FLOP over the printed time, and where the residual
(``Gosa``) is no number or is not below the rehearsal's: Jacobi's method reduces it with every loop.

Source: R. Himeno, RIKEN, https://i.riken.jp/en/supercom/documents/himenobmt/.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import NUMBER, WHOLE, complete_lines
from parsers.text.options import option, words_after
from parsers.text.shapes import by_shape

_FLOAT: Final = rf"{NUMBER}(?:[eE][-+]?[0-9]{{1,3}})?|nan|-nan|inf"
_CELLS: Final = re.compile(rf"\n *(imax *= *{WHOLE} +jmax *= *{WHOLE} +kmax *= *{WHOLE}) *(?=\n)")
_PROCESSES: Final = re.compile(
    rf"\n *(I-decomp *= *{WHOLE} +J-decomp *= *{WHOLE} +K-decomp *= *{WHOLE}) *(?=\n)"
)
_REHEARSAL: Final = re.compile(rf"\n *MFLOPS: *(?:{_FLOAT}) +time\(s\): *(?:{_FLOAT}) +({_FLOAT}) *(?=\n)")
_REHEARSAL_LOOPS: Final = re.compile(rf"\n *Measure the performance in ({WHOLE}) times\. *(?=\n)")
_RESULT: Final = re.compile(
    rf"\n *cpu *: *({_FLOAT}) sec\. *\n *Loop executed for *({WHOLE}) times *\n *Gosa *: *({_FLOAT}) *"
    rf"\n *MFLOPS measured *: *({_FLOAT}) *(?=\n)"
)
_STARTED: Final = re.compile(r"\n *(?:Start rehearsal|Now, start the actual) measurement process")
_ERROR: Final = re.compile(r"\n(himeno: [^\n]*)")
_FLOP_PER_CELL: Final = 34
_BYTES_PER_CELL: Final = 4 * 16
_ARRAYS: Final = 14
#: Times are printed to a microsecond, rates in the original to six digits.
_TOLERANCE: Final = 1e-3


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """A reading for each result; the failure of a run that began or was asked for and has none."""
    text = complete_lines(text)
    alone = option(words_after(argv, "himeno"), "-n") is not None
    end = 0
    for result in _RESULT.finditer(text):
        yield from _result(text[end : result.start() + 1], result, alone)
        end = result.end()
    rest = text[end:]
    error = _ERROR.search(rest)
    if error or _STARTED.search(rest):
        yield failed("himeno", "flops", error[1] if error else "it ended before its result")


def _result(before: str, result: re.Match[str], alone: bool) -> list[Reading]:
    """The readings of the closing lines; `before` is what the run printed above them.

    alone: the number of loops was asked for, so that none rehearse them.
    """
    cells, processes, residual, number = _lines(before)
    rehearsal, rehearsed = before[residual], before[number]
    seconds, loops, gosa, mflops = map(float, result.groups())
    size, a_loop, params = _grid(before[cells], before[processes])
    flop = None if a_loop is None else a_loop * loops
    if not 0 < mflops < math.inf:
        return [failed("himeno", "flops", "the printed rate is no number", size, params)]
    status = OK
    if not math.isfinite(gosa):
        status = "invalid: the residual is no number"
    elif rehearsal and float(rehearsal) <= gosa:
        status = "invalid: the residual is not below the rehearsal's"
    elif flop is None:
        status = "invalid: the grid is not printed"
    elif not math.isclose(flop, mflops * 1e6 * seconds, rel_tol=_TOLERANCE, abs_tol=mflops):
        status = "invalid: the rate is not the loops' FLOP over the time"
    flops = mflops * 1e6
    bandwidth = flops / _FLOP_PER_CELL * _BYTES_PER_CELL
    readings = [
        Reading("himeno", "flops", flops, size, status, params, ""),
        Reading("himeno", "bandwidth", bandwidth, size, status, params, ""),
        Reading("himeno", "time", seconds, size, status, params, ""),
    ]
    if a_loop is not None and (rehearsed or (alone and not rehearsal)):
        flop = a_loop * (loops + int(rehearsed or 0))
        readings.append(Reading("himeno", "flop", flop, size, status, params, ""))
    return readings


@by_shape
def _lines(text: str) -> tuple[slice, ...]:
    """Where the grids of cells and of processes, the rehearsal's residual and loops are; empty where there
    are none."""
    patterns = (_CELLS, _PROCESSES, _REHEARSAL, _REHEARSAL_LOOPS)
    found = [[match.span(1) for match in pattern.finditer(text)] for pattern in patterns]
    return tuple(slice(*spans[-1]) if spans else slice(0) for spans in found)


@lru_cache
def _grid(cells: str, processes: str) -> tuple[int | None, int | None, dict[str, str]]:
    """Bytes of the arrays, FLOP of a loop, and the params of a grid; None where its cells are not printed."""
    params = {"precision": "single"}
    size = a_loop = None
    if cells:
        extent = re.findall(WHOLE, cells)
        params["cells"] = "x".join(extent)
        size = 4 * _ARRAYS * math.prod(map(int, extent))
        a_loop = _FLOP_PER_CELL * math.prod(int(number) - 2 for number in extent)
    if processes:
        extent = re.findall(WHOLE, processes)
        params["decomposition"] = "x".join(extent)
        params["processes"] = str(math.prod(map(int, extent)))
    return size, a_loop, params
