"""BabelStream 3 to 5 (C++, Fortran), table and CSV: memory bandwidth of five kernels, on CPUs and GPUs.

The rate is the best of the repetitions without the first; its unit stands in the heading (``MBytes/sec``
and ``MB/s`` are 10^6, ``MiBytes/sec`` 2^20), and the bytes are those that the kernel names: two arrays for
copy, mul and dot, three for add and triad, four for nstream. `case` is the kernel, size the bytes of all
three arrays; the table rounds it, and what ``-s`` asked for or the default is meant, if that fits.
``Init`` and ``Read`` are not read, because 5.0 prints the time of each as the other's; nor is the mean over
all repetitions, which is all that ``--triad-only`` prints.

BabelStream validates its arrays and says on stderr only what failed: then the rates are invalid (dot's alone
where the sum failed). So are rates that are not the kernel's bytes over the printed time, and a table with a
kernel twice, because several programs ran at once.

Source: BabelStream's src/main.cpp; https://github.com/UoB-HPC/BabelStream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import product
from typing import Final

from npc.parsers.text.lines import NUMBER, SCIENTIFIC, WHOLE, complete_lines, sections
from npc.parsers.text.options import option
from npc.parsers.text.runs import of_one_run
from npc.records.reading import OK, Reading, failed
from npc.records.units import PREFIXES
from npc.validity.arithmetic import last_digit, row_contradiction

_RUN: Final = re.compile(r"\nVersion: *([0-9.]{1,20})\n+Implementation: *([^\n]{1,100})(?=\n)")
_PRECISION: Final = re.compile(r"\nPrecision: *(?i:(float|single|real32)|double|real64)")
_ELEMENTS: Final = re.compile(rf"\nNumber of elements: *({WHOLE})(?=\n)")
_ARRAY: Final = re.compile(rf"\nArray size: *({NUMBER}) ?([KMGT]i?)B")
_DEVICE: Final = re.compile(r"\nUsing \w{1,20} device (?! *with index)([^\n]{1,80})(?=\n)")
_TABLE: Final = re.compile(
    r"\nFunction +([MGT]i?)B(?:ytes/sec|/s) +Min \(sec\) +Max(?: \(sec\))? +Average(?: \(sec\))? *(?=\n)"
)
_ROW: Final = re.compile(rf"\n([A-Z][a-z]{{1,9}}) +({NUMBER}) +({NUMBER}) +{NUMBER} +{NUMBER} *(?=\n)")
_CSV: Final = re.compile(
    r"\nfunction,num_times,n_elements,sizeof,max_([mgt])(i?)b(?:ytes)?_per_sec,min_runtime,[^\n]*(?=\n)"
)
_CSV_ROW: Final = re.compile(
    rf"\n([A-Z][a-z]{{1,9}}),{WHOLE},({WHOLE}),([48]),({SCIENTIFIC}),({SCIENTIFIC}),[^\n]*(?=\n)"
)
_INVALID: Final = re.compile(r"\nValidation failed on (a|b|c|sum)\b", re.IGNORECASE)
#: What a CUDA call says, and an exception that nobody has caught.
_ERROR: Final = re.compile(rf"\n(?:Error at [^\n:]{{1,200}}:{WHOLE}: | *what\(\): *)([^\n]+)(?=\n)")
#: Kernel → how many arrays it moves.
_KERNELS: Final = {"Copy": 2, "Mul": 2, "Add": 3, "Triad": 3, "Dot": 2, "Nstream": 4}
_ELEMENTS_BY_DEFAULT: Final = 2**25
PROGRAMS: Final = (
    r"(?:babel|cuda-?|gpu-|hip-|ocl-|omp-|sycl\d*-|std-\w+-|kokkos-|raja-|acc-|tbb-|thrust-)stream"
)
MARKS: Final = (
    r"(?:BabelStream|GPU-STREAM)\b|Function +[MGT]i?B(?:ytes/sec|/s) +Min \(sec\)|(?:function,num_times"
    r"|phase),n_elements,"
)
ROWS: Final = r"(?:Copy|Mul|Add|Triad|Dot)(?: +[0-9.]+){4} *$"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every table, kernel by kernel; the failure of a run without one."""
    text, array_size = complete_lines(text), option(argv, "-s", "--arraysize")
    for run, body in sections(_RUN, text):
        tables = list(sections(_TABLE, body))
        for heading, rows in tables:
            yield from of_one_run(_table(run, heading, body, rows, array_size or ""))
        if not any(_ROW.search(rows) for _, rows in tables):
            error = _ERROR.search(body)
            yield failed(
                "triad", "bandwidth", error[1] if error else "no table of several kernels was printed"
            )
    wrong = _failed_arrays(text)
    for heading, rows in sections(_CSV, text):
        unit = PREFIXES[heading[1].upper() + heading[2]]
        yield from of_one_run(_csv(rows, unit, wrong))


def _csv(rows: str, unit: float, wrong: Set[str]) -> Iterator[Reading]:
    """Readings of the rows below a heading of the CSV, whose rates are in `unit`."""
    for kernel, elements, element, rate, best in _CSV_ROW.findall(rows):
        params = {"array_size": elements, **({"precision": "single"} if element == "4" else {})}
        yield from _row(kernel, rate, unit, best, int(elements) * int(element), params, "", wrong)


def _failed_arrays(text: str) -> set[str]:
    """The arrays that did not validate, and ``sum``."""
    return {name.lower() for name in _INVALID.findall(text)}


def _table(
    run: re.Match[str], heading: re.Match[str], body: str, rows: str, array_size: str
) -> Iterator[Reading]:
    """Readings of the rows below a heading; `body` is the whole run."""
    precision, elements, printed, device = (
        pattern.search(body) for pattern in (_PRECISION, _ELEMENTS, _ARRAY, _DEVICE)
    )
    element = 4 if precision and precision[1] else 8
    params = {"implementation": run[2].strip()}
    if element == 4:
        params["precision"] = "single"
    if device:
        params["device"] = device[1].strip()
    array = 0.0
    if printed:
        unit = PREFIXES[printed[2]]
        if run[1].startswith(
            ("0.", "1.")
        ):  # GPU-STREAM, which writes MB for 2^20 bytes here, not of its rates
            unit = PREFIXES[f"{printed[2][0]}i"]
        array = float(printed[1]) * unit
        counts = (elements[1],) if elements else (array_size, f"{_ELEMENTS_BY_DEFAULT}")
        for count, of in product(counts, (element,) if precision else (8, 4)):
            if count.isdecimal() and abs(int(count) * of - array) < last_digit(printed[1]) * unit:
                array, params["array_size"] = int(count) * of, count
                break
    unit, wrong, results = PREFIXES[heading[1]], _failed_arrays(body), _ROW.findall(rows)
    for kernel, rate, best in results:
        yield from _row(kernel, rate, unit, best, array, params, run[1], wrong)


def _row(
    kernel: str,
    rate: str,
    unit: float,
    best: str,
    array: float,
    params: Mapping[str, str],
    version: str,
    wrong: Set[str],
) -> Iterator[Reading]:
    """The reading of a row; `array` is the bytes of one array, 0 if it is not printed."""
    if kernel not in _KERNELS:
        return
    if wrong - {"sum"} or (wrong and kernel == "Dot"):
        reason = f"BabelStream's validation failed on {', '.join(sorted(wrong))}"
    elif not array:
        reason = "the array size is not printed"
    else:
        reason = row_contradiction(rate, unit, _KERNELS[kernel] * array, best, 1.0)
    status, size = f"invalid: {reason}" if reason else OK, round(3 * array) if array else None
    yield Reading(kernel.lower(), "bandwidth", float(rate) * unit, size, status, params, version)
