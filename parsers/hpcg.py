"""HPCG: the result file, ``HPCG-Benchmark_*.txt`` of 3.1, ``*.yaml`` before.

3.1 writes lines ``Section::Key=value``, 2.x and 3.0 indented lines ``Key: value``. AMD's, Arm's, Intel's and
NVIDIA's builds write the same file; some write it to the terminal as well. What they print while they run,
AMD's closing lines and a rating alone among it, is not read.

G is 10^9. `case` HPCG has the rating (FLOP/s with the overheads of convergence and optimisation), the memory
bandwidth that goes with it, the FLOP, the total and the set-up time; HPCG_raw the rate and the bytes/s
read and written without overheads; HPCG_DDOT, HPCG_WAXPBY, HPCG_SpMV and HPCG_MG the parts. size is the
memory of the problem's data. Params: processes, threads, cells of a process, ``official`` (``no``: HPCG
accepts runs of 1800 s and more; the QuickPath option only if HPCG's makers confirm it), ``kernels``
(``reference``: HPCG calls such a build most likely suboptimal).

HPCG verifies itself (spectral convergence, symmetry, iteration counts, reproducible residual): where it does
not say VALID, every number is invalid; so are they where the printed FLOP over the printed time are not the
printed rate, in all or in a part. A file that ends before its last line has failed.

Source: HPCG's src/ReportResults.cpp; https://www.hpcg-benchmark.org.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from npc.parsers.text.lines import SCIENTIFIC, complete_lines, sections
from npc.records.reading import OK, Reading, failed

#: The first lines of 3.1's file and of those before.
_RUN: Final = re.compile(
    r"\n(?:HPCG-Benchmark\nversion=(\S{1,40})|\S{1,80} version: V?([0-9.]{1,20})\nRelease date: [^\n]*)(?=\n)"
)
#: What every result file has, whatever its title lines; and its own form since 3.1.
_MACHINE: Final = re.compile(r"\nMachine Summary(?:=|:[ \t]*)(?=\n)")
_VERSION: Final = re.compile(r"\n[^\n]{0,80}\bversion ?[:=] ?V?([0-9][0-9.]{0,19})[^\n]*(?=\n)")
_EQUATION: Final = "Machine Summary::Distributed Processes="
_TERMINAL: Final = re.compile(r"\n(?:rocHPCG version: |HPCG result is VALID with |Start of application \()")
_RESULT: Final = "Final Summary::HPCG result is"
_RATING: Final = f"{_RESULT} VALID with a GFLOP/s rating of"
_UPLOAD: Final = "Final Summary::Please upload results from the YAML file contents to"
_LAST_LINES: Final = (
    _UPLOAD,
    "Final Summary::Official results execution time (sec) must be at least",
    "Final Summary::After confirmation please upload results from the YAML file contents to",
)
_REFERENCE: Final = "Final Summary::Reference version of"
_PARTS: Final = ("DDOT", "WAXPBY", "SpMV", "MG")
_BANDWIDTH: Final = "GB/s Summary::Total with convergence and optimization phase overhead"
#: case, metric, key, what one printed unit is, qualifiers.
_QUANTITIES: Final[tuple[tuple[str, str, str, float, Mapping[str, str]], ...]] = (
    ("HPCG", "flops", _RATING, 1e9, {}),
    ("HPCG", "bandwidth", _BANDWIDTH, 1e9, {}),
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
_COUNTED: Final = {key for _, _, key, _, _ in _QUANTITIES}
_PARAMS: Final = {
    "processes": "Machine Summary::Distributed Processes",
    "threads": "Machine Summary::Threads per processes",
    "nx": "Local Domain Dimensions::nx",
    "ny": "Local Domain Dimensions::ny",
    "nz": "Local Domain Dimensions::nz",
}
_MEMORY: Final = "Memory Use Information::Total memory used for data (Gbytes)"
#: They are printed with six digits.
_TOLERANCE: Final = 1e-4
PROGRAMS: Final = r"x?hpcg|rochpcg"
MARKS: Final = (
    r"HPCG-Benchmark$|\S+ version: V?[0-9.]+\nRelease date: |rocHPCG version: |HPCG result is VALID"
    r"|Start of application \("
)
ROWS: Final = r"(?:Final Summary|GFLOP/s Summary|Benchmark Time Summary)\b"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every result file in the text; the failure of a text with nothing but what HPCG prints."""
    text = complete_lines(text)
    runs = [(title[1] or title[2], body) for title, body in sections(_RUN, text)]
    if not runs and _MACHINE.search(text):  # below other lines than those
        version = _VERSION.search(text)
        runs = [(version[1] if version else "", text)]
    for version_of_run, body in runs:
        lines = body.split("\n")
        entries = _equations(lines) if _EQUATION in body else _indented(lines)
        if several := {key for key, values in entries.items() if key in _COUNTED and len(set(values)) > 1}:
            yield failed("HPCG", "flops", f"several results in one: {min(several)} stands twice")
            continue
        yield from _run(version_of_run, {key: values[-1] for key, values in entries.items()})
    if not runs and _TERMINAL.search(text):
        yield failed("HPCG", "flops", "only HPCG's result file (HPCG-Benchmark_*.txt, *.yaml) is read")


def _equations(lines: Sequence[str]) -> dict[str, list[str]]:
    """The values of each key."""
    entries: defaultdict[str, list[str]] = defaultdict(list)
    for key, value in (line.split("=", 1) for line in lines if "=" in line):
        entries[key].append(value)
    return entries


def _indented(lines: Sequence[str]) -> dict[str, list[str]]:
    """The values of an indented file by the keys that 3.1 gives them."""
    section, entries = "", defaultdict(list)
    for line in lines:
        key, _, value = line.partition(":")
        if line.startswith(" "):
            entries[f"{section}::{key.strip()}"].append(value.strip())
        else:
            section = key.strip("_ ")
    return entries


def _run(version: str, entries: Mapping[str, str]) -> Iterator[Reading]:
    """Readings of one result file; of entries that it has twice, the last counts."""
    verdicts = {key: value for key, value in entries.items() if key.startswith(_RESULT)}
    refusal = next((key for key, value in verdicts.items() if "INVALID" in key + value), "")
    if not refusal and not (_RATING in entries and any(line in entries for line in _LAST_LINES)):
        yield failed("HPCG", "flops", "the result file ends before its summary does")
        return
    reference = any(key.startswith(_REFERENCE) for key in entries)
    params = {
        **{name: entries[key] for name, key in _PARAMS.items() if key in entries},
        "official": "yes" if _UPLOAD in entries and not refusal else "no",
        "kernels": "reference" if reference else "optimised",
    }
    numbers = {key: float(value) for key, value in entries.items() if re.fullmatch(SCIENTIFIC, value)}
    size = round(numbers[_MEMORY] * 1e9) if _MEMORY in numbers else None
    failure = f"{refusal.rpartition('::')[2]} {entries.get(refusal, '')}"
    whole = f"invalid: {failure}" if refusal else _arithmetic(numbers, "Total", "Total")
    status = {f"HPCG_{part}": _arithmetic(numbers, f"Raw {part}", part) for part in _PARTS}
    overhead = _overhead(numbers)
    for case, metric, key, unit, qualifiers in _QUANTITIES:
        if key in numbers:
            own = whole if whole != OK else overhead if key == _BANDWIDTH else status.get(case, OK)
            yield Reading(case, metric, numbers[key] * unit, size, own, {**params, **qualifiers}, version)
    if refusal and "GFLOP/s Summary::Raw Total" not in numbers:
        yield failed("HPCG", "flops", failure, size, params)


def _overhead(numbers: Mapping[str, float]) -> str:
    """The status of the bandwidth with overheads: they take the same share of it as of the rate."""
    keys = (_BANDWIDTH, "GB/s Summary::Raw Total B/W", _RATING, "GFLOP/s Summary::Raw Total")
    bandwidth, raw_bandwidth, rate, raw_rate = (numbers.get(key, 0.0) for key in keys)
    same = math.isclose(bandwidth * raw_rate, rate * raw_bandwidth, rel_tol=_TOLERANCE)
    return OK if same else "invalid: other overheads than the rate's"


def _arithmetic(numbers: Mapping[str, float], operations: str, part: str) -> str:
    """The status that follows from the printed FLOP, time and rate of a part or of all."""
    flop = numbers.get(f"Floating Point Operations Summary::{operations}")
    seconds = numbers.get(f"Benchmark Time Summary::{part}")
    rate = numbers.get(f"GFLOP/s Summary::Raw {part}")
    if flop is None or seconds is None or rate is None or seconds == 0:
        return "invalid: the FLOP, the time or the rate is missing"
    if not math.isclose(flop / seconds, rate * 1e9, rel_tol=_TOLERANCE):
        return "invalid: the rate is not the FLOP over the time"
    return OK
