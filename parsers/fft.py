"""NPC's driver of FFT libraries (``benchmarks/fft/fft.c``): complex transforms, one row each.

`case` is ``fft_1d`` or ``fft_3d``, size the bytes of the numbers, ``n`` those of a dimension. The rate is
nominal: 5 P log2 P FLOP for P points, benchFFT's convention, by the median of the launch's calls; what the
algorithm really does is less. {"place": "in"} or ``out``; ``planner`` what was asked of FFTW, whose own
time is not in the rate. {"library": "FFTW"}, ``threads`` and ``thread_cpus`` are as in `npc.parsers.blas`,
and so is what makes a row invalid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import log2
from typing import Final

from npc.parsers.text.kernels import ERROR, readings_of, status_of
from npc.parsers.text.lines import NUMBER, WHOLE
from npc.parsers.text.tables import rows_of
from npc.records.reading import Reading

_PLANNER: Final = re.compile(r"\nPlanner = ([a-z]{1,20})(?=\n)")
_TRANSFORM: Final = rf"[13]d:{WHOLE}(?::in)?"
_ROW: Final = (_TRANSFORM, WHOLE, WHOLE, NUMBER, WHOLE, NUMBER, NUMBER, NUMBER, NUMBER, ERROR)
MARKS: Final = r"FFT driver of NPC: "


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several launches; the failure of one that was not ended, or of none."""
    yield from readings_of(text, "fft", "fft_1d", _rows)


def _rows(lines: str, params: dict[str, str], version: str, wrong: str) -> Iterator[Reading]:
    planner, threads = _PLANNER.search(lines), int(params.get("threads", 0))
    if planner:
        params["planner"] = planner[1]
    for word, points, size, _, _, median, least, rate, busy, error in rows_of(lines, _ROW):
        kind, n, *place = word.split(":")
        nominal = 5 * int(points) * log2(max(int(points), 2))
        own = status_of(rate, nominal, median, least, busy, error, threads)
        status = f"invalid: {wrong}" if wrong else own
        more = {**params, "n": n, "place": "in" if place else "out"}
        yield Reading(f"fft_{kind}", "flops", float(f"{rate}e9"), int(size), status, more, version)
