"""HPCG 3.x: the result file ``HPCG-Benchmark_*.txt``, lines ``Section::Key=value``.

G is 10^9. `case` HPCG has the rating (FLOP/s with the overheads of convergence and optimisation), the memory
bandwidth that goes with it, the FLOP, the total and the set-up time; HPCG_raw the rate and the bytes/s
read and written without overheads; HPCG_DDOT, HPCG_WAXPBY, HPCG_SpMV and HPCG_MG the parts. size is the
memory of the problem's data. Params: processes, threads, cells of a process, ``official`` (``no``: HPCG
accepts runs of 1800 s and more), ``kernels`` (``reference``: HPCG calls such a build most likely suboptimal).

HPCG verifies itself (spectral convergence, symmetry, iteration counts, reproducible residual): where it does
not say VALID, every number is invalid; so are they where the printed FLOP over the printed time are not the
printed rate. A file that ends before its last line has failed.

Source: HPCG's src/ReportResults.cpp; https://www.hpcg-benchmark.org.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import SCIENTIFIC, complete_lines, sections

_RUN: Final = re.compile(r"\nHPCG-Benchmark\nversion=(\S{1,40})(?=\n)")
_RATING: Final = "Final Summary::HPCG result is VALID with a GFLOP/s rating of"
_SHORT: Final = "Final Summary::Official results execution time (sec) must be at least"
_REFERENCE: Final = "Final Summary::Reference version of"
_LAST_LINES: Final = (_SHORT, "Final Summary::Please upload results from the YAML file contents to")
_PARTS: Final = ("DDOT", "WAXPBY", "SpMV", "MG")
_WITH_OVERHEAD: Final = "Total with convergence and optimization phase overhead"
#: case, metric, key, what one printed unit is, qualifiers.
_QUANTITIES: Final[tuple[tuple[str, str, str, float, Mapping[str, str]], ...]] = (
    ("HPCG", "flops", _RATING, 1e9, {}),
    ("HPCG", "bandwidth", f"GB/s Summary::{_WITH_OVERHEAD}", 1e9, {}),
    ("HPCG", "flop", "Floating Point Operations Summary::Total", 1.0, {}),
    ("HPCG", "time", "Benchmark Time Summary::Total", 1.0, {}),
    ("HPCG", "time", "Setup Information::Setup Time", 1.0, {"part": "setup"}),
    ("HPCG", "time", "Benchmark Time Summary::Optimization phase", 1.0, {"part": "optimisation"}),
    ("HPCG_raw", "flops", "GFLOP/s Summary::Raw Total", 1e9, {}),
    ("HPCG_raw", "bandwidth", "GB/s Summary::Raw Total B/W", 1e9, {}),
    ("HPCG_raw", "bandwidth", "GB/s Summary::Raw Read B/W", 1e9, {"direction": "read"}),
    ("HPCG_raw", "bandwidth", "GB/s Summary::Raw Write B/W", 1e9, {"direction": "write"}),
    *((f"HPCG_{part}", "flops", f"GFLOP/s Summary::Raw {part}", 1e9, {}) for part in _PARTS),
    *((f"HPCG_{part}", "time", f"Benchmark Time Summary::{part}", 1.0, {}) for part in _PARTS),
    ("HPCG_DDOT", "time", "DDOT Timing Variations::Avg DDOT MPI_Allreduce time", 1.0, {"part": "allreduce"}),
)
_PARAMS: Final = {
    "processes": "Machine Summary::Distributed Processes",
    "threads": "Machine Summary::Threads per processes",
    "nx": "Local Domain Dimensions::nx",
    "ny": "Local Domain Dimensions::ny",
    "nz": "Local Domain Dimensions::nz",
}
_MEMORY: Final = "Memory Use Information::Total memory used for data (Gbytes)"
#: Both are printed with six digits.
_TOLERANCE: Final = 1e-4


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every result file in the text; nothing of a text without one."""
    for title, body in sections(_RUN, complete_lines(text)):
        yield from _run(title[1], dict(line.split("=", 1) for line in body.split("\n") if "=" in line))


def _run(version: str, entries: Mapping[str, str]) -> Iterator[Reading]:
    """Readings of one result file; of entries that it has twice, the last counts."""
    invalid = "Final Summary::HPCG result is" in entries
    if not invalid and not (_RATING in entries and any(line in entries for line in _LAST_LINES)):
        yield failed("HPCG", "flops", "the result file ends before its summary does")
        return
    reference = any(key.startswith(_REFERENCE) for key in entries)
    params = {
        **{name: entries[key] for name, key in _PARAMS.items() if key in entries},
        "official": "no" if invalid or _SHORT in entries else "yes",
        "kernels": "reference" if reference else "optimised",
    }
    numbers = {key: float(value) for key, value in entries.items() if re.fullmatch(SCIENTIFIC, value)}
    size = round(numbers[_MEMORY] * 1e9) if _MEMORY in numbers else None
    failure = "HPCG's own checks failed: its result is INVALID"
    status = f"invalid: {failure}" if invalid else _arithmetic(numbers)
    for case, metric, key, unit, qualifiers in _QUANTITIES:
        if key in numbers:
            yield Reading(case, metric, numbers[key] * unit, size, status, {**params, **qualifiers}, version)
    if invalid and "GFLOP/s Summary::Raw Total" not in numbers:
        yield failed("HPCG", "flops", failure, size, params)


def _arithmetic(numbers: Mapping[str, float]) -> str:
    """The status that follows from the printed FLOP, time and rate."""
    flop = numbers.get("Floating Point Operations Summary::Total")
    seconds = numbers.get("Benchmark Time Summary::Total")
    rate = numbers.get("GFLOP/s Summary::Raw Total")
    if flop is None or seconds is None or rate is None or seconds == 0:
        return "invalid: the FLOP, the time or the rate is missing"
    if not math.isclose(flop / seconds, rate * 1e9, rel_tol=_TOLERANCE):
        return "invalid: the rate is not the FLOP over the time"
    return OK
