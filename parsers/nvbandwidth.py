"""nvbandwidth (NVIDIA, 0.1 to 0.10), text and JSON (``-j``): copies between host and GPUs, and among GPUs.

Each test prints a matrix in GB/s (10^9 bytes), or of latencies in ns; ``N/A`` is a pair that was not
measured. `case` is the test's name. A column is a GPU, and so is a row where the heading says so: of
``GPU(row) -> GPU(column)`` {"gpu": row, "to_gpu": column}, of ``<-`` the other way round, of ``<->`` each
with the other; of host and GPU, and of one GPU's own memory, {"gpu": column}. The number is the median of
three trials of many copies; size is what ``-b`` asked for (MiB).

A matrix whose sum is not the one that is printed below it with the test's name, or that has none, is invalid:
several programs wrote at once, or lines are lost; versions before 0.3 print none. A test that was waived (too
few GPUs, no access between them) is not there.

Source: nvbandwidth's README, ``output.cpp``, ``json_output.cpp``; https://github.com/NVIDIA/nvbandwidth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from npc.document import below, entries
from npc.parsers.text.documents import object_of
from npc.parsers.text.lines import NUMBER, WHOLE, complete_lines, sections
from npc.parsers.text.options import option
from npc.parsers.text.runs import of_one_run
from npc.records.reading import OK, Reading, failed

_VERSION: Final = re.compile(r"\nnvbandwidth Version: v?([0-9.]{1,20})(?=\n)")
_TEST: Final = re.compile(r"\nRunning (\w{1,80})\.(?=\n)")
_HEADING: Final = re.compile(r"\n(mem[^\n]{1,100} \((?:GB/s|ns)\))\n[ 0-9]+(?=\n)")
_ROW: Final = re.compile(rf"\n *({WHOLE})((?: +(?:{NUMBER}|N/A))+) *(?=\n)")
_SUM: Final = re.compile(rf"\nSUM (\w{{1,80}}) ({NUMBER})(?=\n)")
_ERROR: Final = re.compile(
    r"\n ?(?:(?:ERROR|Error|\[[A-Z_]*ERROR[A-Z_]*\]):? ?([^\n]+)"
    r"|(Invalid value when checking the pattern|ASSERT in [^\n]+))"
)
#: GPU(row) and GPU(column) of a heading, and what stands between them.
_BETWEEN: Final = re.compile(r"GPU\(row\) (->|<-|<->) GPU\(column\)")
#: A test that the GPUs cannot do; up to 0.2 its name stands there.
_WAIVED: Final = re.compile(r"\n(?:Waived:|Waiving (\w{1,80})\.)")
_NOTHING: Final = "no matrix was printed"
MARKS: Final = r'nvbandwidth Version: |\{?\s{0,9}"nvbandwidth" ?:|Running \w+\.\n'
ROWS: Final = r"mem[^\n]{1,100}(?:GPU|CPU)\((?:row|column)\)[^\n]* \((?:GB/s|ns)\)$|SUM \w+ [0-9.]+$"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every test; the failure of one without a matrix, or of a run without a test."""
    text = complete_lines(text)
    buffer_size = option(argv, "-b", "--bufferSize") or ""
    size = int(buffer_size) * 2**20 if buffer_size.isdecimal() else None
    version = _VERSION.search(text)
    tests = list(sections(_TEST, text))
    for test, lines in tests:
        heading, sums = _HEADING.search(lines), dict(_SUM.findall(lines))
        pairs = [(row[1], row[2].split()) for row in _ROW.finditer(lines, heading.end())] if heading else []
        rows = dict(pairs)
        if len(rows) < len(pairs):
            yield failed(test[1], "bandwidth", "rows of several matrices below one heading", size)
            continue
        if not heading or not rows:
            yield failed(test[1], "bandwidth", _reason(lines), size)
            continue
        printed = sums.get(test[1], "")
        matrix = _matrix(test[1], heading[1], rows, printed, size, version[1] if version else "")
        yield from of_one_run(matrix)
    document = object_of(text[text.find("{") : text.rfind("}") + 1]).get("nvbandwidth") if not tests else None
    yield from _document(document, size)
    waived = _WAIVED.search(text)
    if (argv or waived) and not tests and not document:
        reason = _reason(text)
        name = (waived[1] if waived else "") or option(argv, "-t", "--testcase") or "nvbandwidth"
        yield failed(name, "bandwidth", reason, size)


def _reason(lines: str) -> str:
    """Why there is no matrix among the lines of a test."""
    if _WAIVED.search(lines):
        return "unavailable: the test was waived"
    error = _ERROR.search(lines)
    return error[1] or error[2] if error else _NOTHING


def _document(document: Any, size: int | None) -> Iterator[Reading]:
    version = str(below(document, "version") or "").removeprefix("v")
    for test in entries(document, "testcases"):
        name, matrix = str(test.get("name")), test.get("bandwidth_matrix")
        if isinstance(matrix, list) and all(isinstance(row, list) for row in matrix):
            rows = {str(number): [str(value) for value in row] for number, row in enumerate(matrix)}
            heading = str(test.get("bandwidth_description"))
            yield from _matrix(name, heading, rows, str(test.get("sum", "")), size, version)
        elif test.get("status") not in ("Waived", "Not Found"):
            yield failed(name, "bandwidth", str(test.get("error") or _NOTHING), size)


def _matrix(
    case: str, heading: str, rows: Mapping[str, Sequence[str]], printed: str, size: int | None, version: str
) -> Iterator[Reading]:
    metric, unit = ("latency", "e-9") if "(ns)" in heading else ("bandwidth", "e9")
    between = _BETWEEN.search(heading)
    cells = [
        (row, str(column), value)
        for row, values in rows.items()
        for column, value in enumerate(values)
        if re.fullmatch(NUMBER, value) and float(value)
    ]
    total, step = sum(float(value) for *_, value in cells), 0.01 * (len(cells) + 1)
    status = OK
    if not printed:
        status = "invalid: its sum is lacking, as of a matrix that was not ended"
    elif re.fullmatch(NUMBER, printed) and abs(total - float(printed)) > step + 1e-5 * total:
        status = f"invalid: the sum is {total:.2f}, and {printed} is printed"
    for row, column, value in cells:
        if between is None:
            params = {"gpu": column}
        else:
            params = {"gpu": row, "to_gpu": column}
            if between[1] == "<-":
                params = {"gpu": column, "to_gpu": row}
        of = size if metric == "bandwidth" else None
        yield Reading(case, metric, float(f"{value}{unit}"), of, status, params, version)
