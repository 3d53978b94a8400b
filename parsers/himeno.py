"""Himeno benchmark: FLOP/s of a Jacobi solver, from its customary closing lines, in C and in Fortran.

``MFLOPS measured`` is 34 FLOP for each inner cell and loop over the slowest process' time, M is 10^6;
the rehearsal's rate (``MFLOPS: … time(s): …`` with the residual behind it) is no result. `case` is
``himeno``, size the bytes of the 14 single-precision arrays; the grid of cells and that of processes are
params where they are printed (``imax = …``, ``I-decomp = …``; the originals for MPI print so the cells of
rank 0, and above them the whole grid with its margin). Metric flop counts the rehearsal's loops with the
others, because counters read around the program count it too; there is none where their number neither
follows from the rehearsal's rate and time nor is 0, as the option ``-n`` of this project's variant makes it.

Metric bandwidth follows from the rate: for a cell and loop the kernel loads 13 floats and stores one, and the
copy after it loads and stores one, so 34 FLOP go with 64 bytes; lines that a store loads first are not
counted, as STREAM does not count them.

The rate is invalid where it is not the printed loops' FLOP over the printed time, and where the residual
(``Gosa``) is no number or is not below the rehearsal's: Jacobi's method reduces it with every loop. It is a
sum in single precision, so that it says nothing of large grids.

Source: R. Himeno, RIKEN, https://i.riken.jp/en/supercom/documents/himenobmt/.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from npc.parsers.text.lines import DECIMAL_6, SCIENTIFIC, WHOLE, complete_lines
from npc.parsers.text.options import option, words_after
from npc.records.reading import OK, Reading, failed

_FLOAT: Final = rf"(?:{SCIENTIFIC}|-?(?i:nan|inf(?:inity)?))"
_CELLS: Final = re.compile(rf"\n *imax *= *({WHOLE}) +jmax *= *({WHOLE}) +kmax *= *({WHOLE}) *(?=\n)")
_GRID: Final = re.compile(
    rf"\n *Sequential version array size *"
    rf"\n *mimax *= *({WHOLE}) +mjmax *= *({WHOLE}) +mkmax *= *({WHOLE}) *(?=\n)"
)
_PROCESSES: Final = re.compile(
    rf"\n *I-decomp *= *({WHOLE}) +J-decomp *= *({WHOLE}) +K-decomp *= *({WHOLE}) *(?=\n)"
)
#: Fortran may break the line before the residual.
_REHEARSAL: Final = re.compile(rf"\n *MFLOPS: *({_FLOAT}) +time\(s\): *({_FLOAT})[ \n]+({_FLOAT}) *(?=\n)")
_RESULT: Final = re.compile(
    rf"\n(?: *cpu *: *(?P<cpu>{_FLOAT}) sec\.[^\n]*\n)? *Loop executed for *(?P<loops>{WHOLE}) +times *"
    rf"\n *Gosa *: *(?P<gosa>{_FLOAT}) *\n *MFLOPS(?: measured)? *: *(?P<rate>{DECIMAL_6})"
    rf"(?:[ \t]+(?:cpu *|time\(s\)): *(?P<time>{_FLOAT}))? *(?=\n)"
)
_STARTED: Final = re.compile(r"\n *(?:Start rehearsal|Now, start the actual) measurement process")
_ERROR: Final = re.compile(r"\n(himeno: [^\n]*)")
_FLOP_PER_CELL: Final = 34
_BYTES_PER_CELL: Final = 4 * 16
_ARRAYS: Final = 14
#: Times are printed to a microsecond, rates in the original to six digits.
_TOLERANCE: Final = 1e-3
#: The multiple of its terms at which a sum in single precision no longer grows.
_SATURATED: Final = 2**24
PROGRAMS: Final = r"himeno\w*|bmt"
MARKS: Final = r"Himeno benchmark| *mimax *= *[0-9]+ +mjmax *=| *Loop executed for +[0-9]+ +times"
ROWS: Final = r" *Gosa *: | *MFLOPS measured *: "


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of each result; the failure of a run that began or was asked for and has none."""
    text = complete_lines(text)
    alone = option(words_after(argv, "himeno"), "-n") is not None
    end = 0
    for result in _RESULT.finditer(text):
        yield from _result(text[end : result.start() + 1], result, alone)
        end = result.end()
    error = _ERROR.search(text, end)
    if error or _STARTED.search(text, end):
        yield failed("himeno", "flops", error[1] if error else "no result in a known form was printed")


def _result(before: str, result: re.Match[str], alone: bool) -> Iterator[Reading]:
    """Readings of the closing lines; `before` is what the run printed above them.

    alone: the number of loops was asked for, so that none rehearse them.
    """
    loops, gosa, mflops = (float(result[name]) for name in ("loops", "gosa", "rate"))
    seconds = float(result["cpu"] or result["time"] or math.nan)
    own, grid, processes, rehearsal = (
        _last(pattern, before) for pattern in (_CELLS, _GRID, _PROCESSES, _REHEARSAL)
    )
    cells = [int(number) - 1 for number in grid] or [int(number) for number in own]
    params = {"precision": "single"}
    size = flop_per_loop = None
    if min(cells, default=0) > 2:
        params["cells"] = "x".join(map(str, cells))
        size = 4 * _ARRAYS * math.prod(cells)
        flop_per_loop = _FLOP_PER_CELL * math.prod(number - 2 for number in cells)
    if processes:
        params |= {"decomposition": "x".join(processes), "processes": str(math.prod(map(int, processes)))}
    if not 0 < mflops < math.inf or not 0 <= seconds < math.inf:
        yield failed("himeno", "flops", "the printed rate or time is no number", size, params)
        return
    flops = mflops * 1e6
    status = OK
    if not math.isfinite(gosa):
        status = "invalid: the residual is no number"
    elif rehearsal and float(rehearsal[2]) <= gosa and math.prod(cells) < _SATURATED:
        status = "invalid: the residual is not below the rehearsal's"
    elif flop_per_loop is None:
        status = "invalid: the grid is not printed"
    elif not math.isclose(flop_per_loop * loops, flops * seconds, rel_tol=_TOLERANCE, abs_tol=mflops):
        status = "invalid: the rate is not the loops' FLOP over the time"
    values = {"flops": flops, "bandwidth": flops / _FLOP_PER_CELL * _BYTES_PER_CELL, "time": seconds}
    rehearsed = _loops(rehearsal, flop_per_loop) if rehearsal else 0 if alone else None
    if flop_per_loop is not None and rehearsed is not None:
        values["flop"] = flop_per_loop * (loops + rehearsed)
    for metric, value in values.items():
        yield Reading("himeno", metric, value, size, status, params)


def _loops(rehearsal: Sequence[str], flop_per_loop: int | None) -> int | None:
    """How many loops a rehearsal had, by its rate and time: there are sources that print another number."""
    loops = float(rehearsal[0]) * 1e6 * float(rehearsal[1]) / flop_per_loop if flop_per_loop else math.nan
    return round(loops) if loops > 0.5 and abs(math.remainder(loops, 1)) < 0.2 else None


def _last(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    """What the last match of `pattern` holds; nothing if there is none."""
    *_, last = None, *pattern.finditer(text)
    return last.groups() if last else ()
