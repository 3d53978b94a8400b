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
from itertools import chain, repeat
from typing import Final, NamedTuple

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import complete_lines
from parsers.text.options import option

_RUN: Final = re.compile(r"\nThis is the DARPA/DOE HPC Challenge Benchmark version ([\w.]+)[^\n]*(?=\n)")
_NUMBER: Final = re.compile(r"(?:[-+]|)[0-9]{1,18}(?:\.[0-9]{1,18}|)(?:e[-+]?[0-9]{1,3}|)")
_NO_NUMBER: Final = re.compile(rf"\n(?!{_NUMBER.pattern}$)", re.MULTILINE)
#: All but what stands in every line of a summary.
_NO_MARKS: Final = bytes(set(range(256)) - set(b"=\n"))
_HPL_RESIDUAL: Final = re.compile(r"\n\|\|Ax-b\|\|[^\n]*\.{3,} (PASSED|FAILED)(?=\n)")
_NODES_WITH_ERROR: Final = re.compile(r"\nNode\(s\) with error ([0-9]{1,18})(?=\n)")
_TICKS: Final = re.compile(r"\n +\(= ([0-9]{1,18}) clock ticks\)(?=\n)")
_PTRANS_FAILED: Final = re.compile(r"\n *([0-9]{1,18}) tests completed and failed residual checks\.(?=\n)")
_LEAST_TICKS: Final = 20
#: RandomAccess may lose one update in a hundred to races between processes.
_WRONG_UPDATES: Final = 0.01
_FFT_THRESHOLD: Final = 16.0
_EPS: Final = 2.0**-53


class _Test(NamedTuple):
    """A number of the summary: its key, its case, what one printed unit is, and where its size stands."""

    key: str
    case: str
    metric: str
    unit: float
    length: str = ""
    element_bytes: int = 1
    power: int = 1
    statistic: str = ""


def _star_and_single(
    suffix: str, name: str, metric: str, length: str, element: int, power: int = 1
) -> list[_Test]:
    return [
        _Test(f"{kind}{name}{suffix}", f"{kind}{name}", metric, 1e9, length, element, power)
        for kind in ("Star", "Single")
    ]


_TESTS: Final = (
    _Test("HPL_Tflops", "HPL", "flops", 1e12, "HPL_N", 8, 2),
    _Test("HPL_time", "HPL", "time", 1.0, "HPL_N", 8, 2),
    *_star_and_single("_Gflops", "DGEMM", "flops", "DGEMM_N", 24, 2),
    _Test("PTRANS_GBs", "PTRANS", "bandwidth", 1e9, "PTRANS_n", 8, 2),
    *(
        test
        for name in ("RandomAccess_LCG", "RandomAccess")
        for test in (
            _Test(f"MPI{name}_GUPs", f"MPI{name}", "update_rate", 1e9, f"MPI{name}_N", 8),
            *_star_and_single("_GUPs", name, "update_rate", f"{name}_N", 8),
        )
    ),
    *(
        test
        for kernel in ("Copy", "Scale", "Add", "Triad")
        for test in _star_and_single("", f"STREAM_{kernel}", "bandwidth", "STREAM_VectorSize", 24)
    ),
    *_star_and_single("_Gflops", "FFT", "flops", "FFT_N", 16),
    _Test("MPIFFT_Gflops", "MPIFFT", "flops", 1e9, "MPIFFT_N", 16),
    *(
        _Test(f"{prefix}PingPong{name}", "PingPong", metric, unit, "", size, 1, statistic)
        for name, metric, unit, size in (
            ("Latency_usec", "latency", 1e-6, 8),
            ("Bandwidth_GBytes", "bandwidth", 1e9, 2_000_000),
        )
        for prefix, statistic in (("Avg", ""), ("Min", "min"), ("Max", "max"))
    ),
    *(
        _Test(f"{order}OrderedRing{name}", f"{order}OrderedRing", metric, unit, "", size)
        for name, metric, unit, size in (
            ("Latency_usec", "latency", 1e-6, 8),
            ("Bandwidth_GBytes", "bandwidth", 1e9, 2_000_000),
        )
        for order in ("Naturally", "Randomly")
    ),
)


#: Case → the section with its check, which is one for all STREAM tests; the entry with its wrong updates.
_CASES: Final = {
    test.case: ("StarSTREAM" if "STREAM" in test.case else test.case, f"{test.case}_ErrorsFraction")
    for test in _TESTS
}
#: The sections that are read.
_SECTIONS: Final = frozenset(("Summary", *(section for section, _ in _CASES.values())))
#: HPL's and PTRANS' order, block size and process grid.
_GRIDS: Final = {
    "HPL": (("n", "HPL_N"), ("nb", "HPL_NB"), ("p", "HPL_nprow"), ("q", "HPL_npcol")),
    "PTRANS": (("n", "PTRANS_n"), ("nb", "PTRANS_nb"), ("p", "PTRANS_nprow"), ("q", "PTRANS_npcol")),
}
#: The entries that are read.
_KEYS: Final = frozenset(
    (
        *("CommWorldProcs", "Success", "MPIFFT_N", "MPIFFT_maxErr"),
        *(key for test in _TESTS for key in (test.key, test.length)),
        *(errors for _, errors in _CASES.values()),
        *(key for grid in _GRIDS.values() for _, key in grid),
    )
)


class _Checks(NamedTuple):
    """What a section says of its own check, empty if it passed, and the least clock ticks of its test."""

    reason: str
    ticks: int


_NO_CHECKS: Final = _Checks("", _LEAST_TICKS)


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every run in the text, in the order of the summary's tests."""
    asked = option(argv, "-n", "-np")
    parts = _RUN.split(complete_lines(text))
    versions, bodies = parts[1::2] or [""], parts[2::2] or parts
    return chain.from_iterable(map(_run, versions, bodies, repeat(asked)))


def _run(version: str, body: str, asked: str | None) -> list[Reading]:
    """Readings of one run; nothing if it shows neither HPCC's banner nor its summary."""
    sections = _sections(body)
    if "Summary" not in sections:
        return [failed("HPL", "flops", "the run ended before HPCC's summary")] if version else []
    entries = _entries(sections.pop("Summary"))
    processes = entries.get("CommWorldProcs", 0)
    params = {"processes": f"{processes:.0f}"} if processes else {}
    if asked is None or asked == params.get("processes"):
        statuses = _statuses(entries, {name: _checks(section) for name, section in sections.items()})
    else:
        singletons = f"invalid: HPCC ran with {processes:.0f} processes, the starter was told {asked}"
        statuses = dict.fromkeys(_CASES, singletons)
    by_statistic = {"": params, **{name: {**params, "statistic": name} for name in ("min", "max", "sum")}}
    grids = {
        case: {**params, **{name: f"{entries[key]:.0f}" for name, key in grid if key in entries}}
        for case, grid in _GRIDS.items()
    }
    found = []
    for key, case, metric, unit, length_key, element_bytes, power, statistic in _TESTS:
        value = entries.get(key)
        if value is None or (value <= 0 and processes == 1):  # ping-pong and rings need two
            continue
        if value <= 0:
            found.append(failed(case, metric, f"HPCC did not run it: {key}={value:g}", params=params))
            continue
        length = entries.get(length_key) if length_key else 1.0
        size = None if length is None else int(length) ** power * element_bytes
        own = grids[case] if case in grids else by_statistic[statistic]
        value *= unit
        found.append(Reading(case, metric, value, size, statuses[case], own, version))
        if processes and case.startswith("Star"):
            sums = by_statistic["sum"]
            found.append(Reading(case, metric, value * processes, size, statuses[case], sums, version))
    return found


def _entries(summary: str) -> dict[str, float]:
    """The entries of a summary without those that it has twice with different numbers: nobody knows which."""
    marks = summary.encode("ascii", "replace").translate(None, _NO_MARKS)
    if marks == b"\n" + b"=\n" * (len(marks) // 2 - 1) + b"\n":  # one entry a line, and the title at the end
        words = summary.replace("=", "\n").split("\n")
        shown = dict(zip(words[1::2], words[2::2], strict=True))
        keys = [key for key in shown if key in _KEYS]
        numbers = [shown[key] for key in keys]
        if len(shown) == len(words) // 2 and not _NO_NUMBER.search("\n".join(["", *numbers])):
            return dict(zip(keys, map(float, numbers), strict=True))
    lines = [line.split("=", 1) for line in summary.split("\n") if "=" in line]
    entries = [(key, value) for key, value in lines if key in _KEYS and _NUMBER.fullmatch(value)]
    numbers_of = Counter(key for key, _ in set(entries))
    return {key: float(value) for key, value in entries if numbers_of[key] == 1}


def _sections(body: str) -> dict[str, str]:
    """What stands between the two titles of each section that is read, with the line end before it."""
    sections: dict[str, str] = {}
    for part in body.split("\nBegin of ")[1:]:
        name = part[: part.find(" section.\n")]
        if name in _SECTIONS:
            last_line = f"\nEnd of {name} section.\n"
            end = (part + "\n").rfind(last_line)
            if end >= 0:
                sections[name] = part[part.index("\n") : end] + last_line
    return sections


def _checks(section: str) -> _Checks:
    """What a section says of its own check, and the clock ticks that its test took."""
    # What says that nothing failed needs no pattern, which takes several times as long as a plain search.
    with_error = section.partition("\nNode(s) with error ")[2][:2]
    nodes = _NODES_WITH_ERROR.search(section) if with_error not in ("", "0\n") else None
    before, told, _ = section.partition(" tests completed and failed residual checks.\n")
    nothing_failed = not told or before.rpartition("\n")[2].strip(" ") == "0"
    failures = None if nothing_failed else _PTRANS_FAILED.search(section)
    ticks = _TICKS.search(section) if "clock ticks" in section else None
    reason = ""
    if nodes and int(nodes[1]):
        reason = f"{nodes[1]} nodes failed HPCC's check"
    elif "FAILED" in section and "FAILED" in _HPL_RESIDUAL.findall(section):
        reason = "the scaled residual failed HPL's check"
    elif failures and int(failures[1]):
        reason = f"{failures[1]} transpositions failed the residual check"
    return _Checks(reason, int(ticks[1]) if ticks else _LEAST_TICKS) if reason or ticks else _NO_CHECKS


def _statuses(entries: Mapping[str, float], checks: Mapping[str, _Checks]) -> dict[str, str]:
    """The statuses that HPCC's own checks give the tests."""
    statuses = {}
    for case, (section, errors) in _CASES.items():
        reason, ticks = checks.get(section, _NO_CHECKS)
        if reason:
            pass
        elif entries.get(errors, 0) > _WRONG_UPDATES:
            reason = f"more than {_WRONG_UPDATES:.0%} of the table is wrong"
        elif case == "MPIFFT" and _fft_error(entries) > _FFT_THRESHOLD:
            reason = f"the error is {_fft_error(entries):.3g} eps log2 n, HPCC allows {_FFT_THRESHOLD:g}"
        elif ticks < _LEAST_TICKS:
            reason = f"a test takes {ticks} clock ticks, STREAM asks for at least {_LEAST_TICKS}"
        elif entries.get("Success") != 1:
            reason = "HPCC reports that not all tests succeeded"
        statuses[case] = f"invalid: {reason}" if reason else OK
    return statuses


def _fft_error(entries: Mapping[str, float]) -> float:
    """The largest error of the forward and inverse transform in units of eps log2 n."""
    length = entries.get("MPIFFT_N", 0)
    return entries.get("MPIFFT_maxErr", 0) / (_EPS * math.log2(length)) if length > 1 else 0.0
