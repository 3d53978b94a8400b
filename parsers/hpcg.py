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
from itertools import chain
from typing import Final

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import complete_lines

_RUN: Final = re.compile(r"\nHPCG-Benchmark\nversion=(\S{1,40})(?=\n)")
_NUMBER: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18}|)(?:e[-+]?[0-9]{1,3}|)")
_NO_NUMBER: Final = re.compile(rf"\n(?!{_NUMBER.pattern}$)", re.MULTILINE)
#: All but what stands in every line of a result file.
_NO_MARKS: Final = bytes(set(range(256)) - set(b"=\n"))
_RATING: Final = "Final Summary::HPCG result is VALID with a GFLOP/s rating of"
_SHORT: Final = "Final Summary::Official results execution time (sec) must be at least"
_REFERENCE: Final = "\nFinal Summary::Reference version of"
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
_NUMBERS: Final = (_MEMORY, *(key for _, _, key, _, _ in _QUANTITIES))
#: Both are printed with six digits.
_TOLERANCE: Final = 1e-4


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every result file in the text; nothing of a text without one."""
    parts = _RUN.split(complete_lines(text))
    return chain.from_iterable(map(_run, parts[1::2], parts[2::2]))


def _run(version: str, body: str) -> list[Reading]:
    """Readings of one result file."""
    entries = _entries(body.strip("\n"))
    invalid = "Final Summary::HPCG result is" in entries
    if not invalid and not (_RATING in entries and any(line in entries for line in _LAST_LINES)):
        return [failed("HPCG", "flops", "the result file ends before its summary does")]
    params = {name: entries[key] for name, key in _PARAMS.items() if key in entries}
    params["official"] = "no" if invalid or _SHORT in entries else "yes"
    reference = any("=" in line.partition("\n")[0] for line in body.split(_REFERENCE)[1:])
    params["kernels"] = "reference" if reference else "optimised"
    numbers = _numbers(entries)
    memory = numbers.get(_MEMORY)
    size = None if memory is None else round(memory * 1e9)
    status = "invalid: HPCG's own checks failed: its result is INVALID" if invalid else _arithmetic(numbers)
    found = []
    for case, metric, key, unit, qualifiers in _QUANTITIES:
        value = numbers.get(key)
        if value is not None:
            own = {**params, **qualifiers} if qualifiers else params
            found.append(Reading(case, metric, value * unit, size, status, own, version))
    if invalid and "GFLOP/s Summary::Raw Total" not in numbers:
        found.append(failed("HPCG", "flops", "HPCG's own checks failed: its result is INVALID", size, params))
    return found


def _entries(lines: str) -> dict[str, str]:
    """The entries of a result file; of those that it has twice, the last."""
    marks = lines.encode("ascii", "replace").translate(None, _NO_MARKS)
    if marks == (b"=\n" * (len(marks) // 2 + 1))[:-1]:  # one entry a line: split in one pass
        words = lines.replace("=", "\n").split("\n")
        return dict(zip(words[::2], words[1::2], strict=True))
    return dict([line.split("=", 1) for line in lines.split("\n") if "=" in line])


def _numbers(entries: Mapping[str, str]) -> dict[str, float]:
    """The numbers among those entries that should have one."""
    printed = {key: entries[key] for key in _NUMBERS if key in entries}
    if _NO_NUMBER.search("\n".join(["", *printed.values()])):
        printed = {key: text for key, text in printed.items() if _NUMBER.fullmatch(text)}
    return dict(zip(printed, map(float, printed.values()), strict=True))


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
