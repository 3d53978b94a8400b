"""HPC Challenge 1.x: the summary at the end of ``hpccoutf.txt``, ``key=value`` lines between its two titles.

HPCC appends to the file, so a text may hold several runs. G is 10^9 and T 10^12; GUP/s are 10^9 updates of
a random word. `case` is the name of the test in the summary. Of the ``Star`` tests (every process by itself,
all at once) the number is the mean over the processes; a second reading with {"statistic": "sum"} is that
times the number of processes. ``Single`` is one process while the others wait. Ping-pong has {"statistic":
"min"} and "max" beside the mean. size: the bytes of the matrix (HPL, PTRANS), of the three matrices or arrays
(DGEMM, STREAM), of the table (RandomAccess), of the vector of complex numbers (FFT), of the message; none
where the summary lacks the length.

A test is invalid where the text says so: HPL's residual FAILED, RandomAccess has errors, PTRANS failed
checks, DGEMM or STREAM failed on a node, the FFT's error is above 16 eps log2 n, or STREAM took less
than 20 ticks of the clock. A starter (``mpirun -n 2``) of another MPI than HPCC's own starts single
processes, and HPCC then runs a problem of its own choice: all is invalid. ``Success`` other than 1 makes
every test invalid that has no reason of its own.
Where a run ends before its summary does, HPL has failed and there is no other reading.

Source: HPCC's README (sections "Output" and "Summary"); https://hpcchallenge.org; HPL's threshold is 16.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from npc.parsers.stream import too_few_ticks
from npc.parsers.text.lines import SCIENTIFIC, WHOLE, complete_lines, sections
from npc.parsers.text.options import option
from npc.records.reading import OK, Reading, failed

_RUN: Final = re.compile(r"\nThis is the DARPA/DOE HPC Challenge Benchmark version ([\w.]+)[^\n]*(?=\n)")
_SECTION: Final = re.compile(r"\nBegin of (\w+) section\.(?=\n)")
_ENTRY: Final = re.compile(rf"\n(\w+)=([-+]?{SCIENTIFIC})(?=\n)")
_HPL_FAILED: Final = re.compile(r"\n\|\|Ax-b\|\|[^\n]*\.{3,} FAILED(?=\n)")
_NODES_WITH_ERROR: Final = re.compile(rf"\nNode\(s\) with error ({WHOLE})(?=\n)")
_PTRANS_FAILED: Final = re.compile(rf"\n *({WHOLE}) tests completed and failed residual checks\.(?=\n)")
#: RandomAccess may lose one update in a hundred to races between processes.
_WRONG_UPDATES: Final = 0.01
_FFT_THRESHOLD: Final = 16.0
_EPS: Final = 2.0**-53
#: Kinds, name and suffix of the summary's keys (``StarDGEMM_Gflops``), the metric, what one printed unit is,
#: and the size: the key of its length (none: 1), the bytes of an element, the power of the length.
_TESTS: Final = (
    ("", "HPL", "_Tflops", "flops", 1e12, "HPL_N", 8, 2),
    ("", "HPL", "_time", "time", 1.0, "HPL_N", 8, 2),
    ("Star Single", "DGEMM", "_Gflops", "flops", 1e9, "DGEMM_N", 24, 2),
    ("", "PTRANS", "_GBs", "bandwidth", 1e9, "PTRANS_n", 8, 2),
    ("MPI", "RandomAccess_LCG", "_GUPs", "update_rate", 1e9, "MPIRandomAccess_LCG_N", 8, 1),
    ("Star Single", "RandomAccess_LCG", "_GUPs", "update_rate", 1e9, "RandomAccess_LCG_N", 8, 1),
    ("MPI", "RandomAccess", "_GUPs", "update_rate", 1e9, "MPIRandomAccess_N", 8, 1),
    ("Star Single", "RandomAccess", "_GUPs", "update_rate", 1e9, "RandomAccess_N", 8, 1),
    ("Star Single", "STREAM_Copy", "", "bandwidth", 1e9, "STREAM_VectorSize", 24, 1),
    ("Star Single", "STREAM_Scale", "", "bandwidth", 1e9, "STREAM_VectorSize", 24, 1),
    ("Star Single", "STREAM_Add", "", "bandwidth", 1e9, "STREAM_VectorSize", 24, 1),
    ("Star Single", "STREAM_Triad", "", "bandwidth", 1e9, "STREAM_VectorSize", 24, 1),
    ("Star Single", "FFT", "_Gflops", "flops", 1e9, "FFT_N", 16, 1),
    ("MPI", "FFT", "_Gflops", "flops", 1e9, "MPIFFT_N", 16, 1),
    ("Avg Min Max", "PingPong", "Latency_usec", "latency", 1e-6, "", 8, 1),
    ("Avg Min Max", "PingPong", "Bandwidth_GBytes", "bandwidth", 1e9, "", 2_000_000, 1),
    ("Naturally Randomly", "OrderedRing", "Latency_usec", "latency", 1e-6, "", 8, 1),
    ("Naturally Randomly", "OrderedRing", "Bandwidth_GBytes", "bandwidth", 1e9, "", 2_000_000, 1),
)
#: HPL's and PTRANS' order, block size and process grid.
_GRIDS: Final = {
    "HPL": {"n": "HPL_N", "nb": "HPL_NB", "p": "HPL_nprow", "q": "HPL_npcol"},
    "PTRANS": {"n": "PTRANS_n", "nb": "PTRANS_nb", "p": "PTRANS_nprow", "q": "PTRANS_npcol"},
}
MARKS: Final = r"This is the DARPA/DOE HPC Challenge Benchmark|Begin of \w+ section\.$"
ROWS: Final = r"(?:HPL_Tflops|StarSTREAM_Triad|MPIRandomAccess_GUPs)="
END: Final = r"End of HPC Challenge tests\."
INSIDE: Final = ("hpl", "stream")


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every run in the text, in the order of the summary's tests."""
    text, ranks = complete_lines(text), option(argv, "-n", "-np")
    runs = [(title[1], body) for title, body in sections(_RUN, text)]
    for version, body in runs or [("", text)]:
        parts = {title[1]: part for title, part in sections(_SECTION, body)}
        whole = {
            name: part[: end + 1]
            for name, part in parts.items()
            if (end := part.rfind(f"\nEnd of {name} section.\n")) >= 0
        }
        if "Summary" in whole:
            yield from _run(version, whole, ranks)
        elif version:
            yield failed("HPL", "flops", "the run ended before HPCC's summary")


def _run(version: str, parts: Mapping[str, str], ranks: str | None) -> Iterator[Reading]:
    """Readings of a run's sections: the summary, which has the numbers, and those with the checks."""
    entries = _entries(parts["Summary"])
    processes = entries.get("CommWorldProcs", 0)
    params = {"processes": f"{processes:.0f}"} if processes else {}
    singletons = ""
    if ranks is not None and ranks != params.get("processes"):
        singletons = f"invalid: HPCC ran with {processes:.0f} processes, the starter was told {ranks}"
    for kinds, name, suffix, metric, unit, length, element_bytes, power in _TESTS:
        for kind in kinds.split(" "):
            key = f"{kind}{name}{suffix}"
            case = name if name == "PingPong" else f"{kind}{name}"
            value = entries.get(key)
            if value is None or (value <= 0 and processes == 1):  # ping-pong and rings need two
                continue
            if value <= 0:
                yield failed(case, metric, f"HPCC did not run it: {key}={value:g}", params=params)
                continue
            known = not length or length in entries
            size = int(entries.get(length, 1)) ** power * element_bytes if known else None
            status = singletons or _status(case, parts, entries)
            grid = _GRIDS.get(case, {})
            own = {key: f"{entries[entry]:.0f}" for key, entry in grid.items() if entry in entries}
            if kind in ("Min", "Max"):
                own["statistic"] = kind.lower()
            yield Reading(case, metric, value * unit, size, status, {**params, **own}, version)
            if processes and kind == "Star":
                total = {**params, "statistic": "sum"}
                yield Reading(case, metric, value * unit * processes, size, status, total, version)


def _entries(summary: str) -> dict[str, float]:
    """The entries of a summary without those that it has twice with different numbers: nobody knows which."""
    entries = set(_ENTRY.findall(summary))
    numbers_of = Counter(key for key, _ in entries)
    return {key: float(value) for key, value in entries if numbers_of[key] == 1}


def _status(case: str, parts: Mapping[str, str], entries: Mapping[str, float]) -> str:
    """The status that HPCC's own checks give a test; those of all STREAM tests stand in one section."""
    section = parts.get("StarSTREAM" if "STREAM" in case else case, "")
    nodes, failures = _NODES_WITH_ERROR.search(section), _PTRANS_FAILED.search(section)
    if nodes and int(nodes[1]):
        reason = f"{nodes[1]} nodes failed HPCC's check"
    elif _HPL_FAILED.search(section):
        reason = "the scaled residual failed HPL's check"
    elif failures and int(failures[1]):
        reason = f"{failures[1]} transpositions failed the residual check"
    elif entries.get(f"{case}_ErrorsFraction", 0) > _WRONG_UPDATES:
        reason = f"more than {_WRONG_UPDATES:.0%} of the table is wrong"
    elif case == "MPIFFT" and _fft_error(entries) > _FFT_THRESHOLD:
        reason = f"the error is {_fft_error(entries):.3g} eps log2 n, HPCC allows {_FFT_THRESHOLD:g}"
    elif few := too_few_ticks(section):
        reason = few
    elif entries.get("Success") != 1:
        reason = "HPCC reports that not all tests succeeded"
    else:
        return OK
    return f"invalid: {reason}"


def _fft_error(entries: Mapping[str, float]) -> float:
    """The largest error of the forward and inverse transform in units of eps log2 n."""
    length = entries.get("MPIFFT_N", 0)
    return entries.get("MPIFFT_maxErr", 0) / (_EPS * math.log2(length)) if length > 1 else 0.0
