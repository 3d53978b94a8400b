"""mdtest (1.9 to 4.x, of IOR): operations a second on names, from the table ``SUMMARY rate``.

One reading an operation: the mean over the iterations, and with more than one of them the extremes,
{"statistic": "max"} and "min". `case` is mdtest's own name in lower case: ``file creation``, ``file stat``,
``file read``, ``file removal``, the same of ``directory``, ``tree creation``, ``tree removal``. A rate of 0
is one that was not measured. Size is the bytes that are written to each file (``-w``), or read (``-e``).

``tasks`` are all processes that took part, ``processes`` those of a node; ``items`` those of each process
(``-n``); {"directory": "unique"} gives each a folder of its own (``-u``, IO500's mdtest-easy), {"directory":
"shared"} is one of all (IO500's mdtest-hard). Source: src/mdtest.c of IOR, mdtest(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from npc.parsers.text.endings import why_ended
from npc.parsers.text.files import place_of_files
from npc.parsers.text.lines import DECIMAL_3, WHOLE, complete_lines, sections
from npc.parsers.text.options import bytes_of, option
from npc.records.reading import OK, Reading, failed

_RUN: Final = re.compile(
    rf"\nmdtest-(\d[\w.+-]{{0,40}}) was launched with ({WHOLE}) total task\(s\) on ({WHOLE}) node"
)
_COMMAND: Final = re.compile(r"\nCommand line used *: ([^\n]{1,4000})(?=\n)")
#: What -f and -l repeat for every number of tasks, above its table.
_TASKS: Final = re.compile(rf"\n({WHOLE}) tasks, {WHOLE} [^\n]{{1,40}}(?=\n)")
#: The heading names the columns: Max, Min and Mean, where each rank's are printed as well those first.
_SUMMARY: Final = re.compile(
    rf"\nSUMMARY(?: rate)?(?: \(in ops/sec\))?: \(of ({WHOLE}) iterations\)[ \t]*"
    r"\n[ \t]*Operation[ \t]+([^\n]{10,300})(?=\n)"
)
_COLUMN: Final = re.compile(r"Max|Min|Mean|Std Dev")
_TIMES: Final = "\nSUMMARY time"
_OTHER: Final = re.compile(r"\n(?:SUMMARY|-- finished at|[ \t]*\n)")
_ROW: Final = re.compile(
    r"\n *((?:File|Directory|Tree) (?:creation|stat|read|removal|rename))"
    rf" *:?((?: +{DECIMAL_3}){{4,8}})[ \t]*(?=\n)"
)
#: A table of which the lines above are not there.
_EXCERPT: Final = re.compile(rf"{_SUMMARY.pattern}|{_ROW.pattern}")
#: Rates are printed with three digits after the point.
_ROUNDING: Final = 0.001
_ERROR: Final = re.compile(r"\n[^\n]{0,120}ERROR:? ([^\n]+)(?=\n)")
MARKS: Final = r"mdtest-[0-9][^\n]* was launched with |SUMMARY rate"
ROWS: Final = r" *(?:File|Directory|Tree) (?:creation|stat|read|removal|rename) *:? +[0-9]"
_NO_HEADING: Final = (
    "looks like mdtest, but its heading is missing: tasks and bytes of a file cannot be known"
)


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every operation of each run; the failure of a run without a rate."""
    text = complete_lines(text)
    runs = list(sections(_RUN, text))
    place = place_of_files(text)
    for run, lines in runs:
        yield from _run(run, lines, place)
    if not runs:
        error = _ERROR.search(text)
        called = any(word.rpartition("/")[2] == "mdtest" for word in argv)
        if not error and _EXCERPT.search(text):
            yield failed("file creation", "operation_rate", _NO_HEADING)
        elif error or called:
            reason = error[1] if error else why_ended(text) or "no result was printed"
            yield failed("file creation", "operation_rate", reason)


def _run(run: re.Match[str], lines: str, place: Mapping[str, str]) -> Iterator[Reading]:
    version, total, nodes = run[1], int(run[2]), int(run[3])
    command = _COMMAND.search(lines)
    given, size = _settings_of(command[1] if command else "")
    error = _ERROR.search(lines)
    done = False
    parts = [(total, lines), *((int(part[1]), below) for part, below in sections(_TASKS, lines))]
    for tasks, below in (parts[1:] or parts) if not error else ():
        params = _with_tasks({**place, **given}, tasks, nodes if tasks == total else 0)
        for reading in _tables(below):
            done = True
            moved = size if reading.case in ("file creation", "file read") else None
            yield replace(reading, size=moved, params={**params, **reading.params}, tool_version=version)
    if not done:
        params = _with_tasks({**place, **given}, total, nodes)
        yield failed("file creation", "operation_rate", error[1] if error else _why(lines), params=params)


def _with_tasks(params: dict[str, str], tasks: int, nodes: int) -> dict[str, str]:
    """`params` with the processes of all nodes and of one; on how many some of them ran is not printed."""
    if tasks:
        params["tasks"] = str(tasks)
    if tasks and nodes and tasks % nodes == 0:
        params["processes"] = str(tasks // nodes)
    return params


def _tables(lines: str) -> Iterator[Reading]:
    """The readings of the table of rates below a number of tasks: of one alone, unless lines were lost."""
    summaries = list(_SUMMARY.finditer(lines))
    for summary in summaries:
        columns = _COLUMN.findall(summary[2])
        end = _OTHER.search(lines, summary.end())
        table = lines[summary.end() : end.start() + 1 if end else None]
        rows = [(row[1].lower(), row[2].split()) for row in _ROW.finditer(table)]
        status = OK
        if len(summaries) > 1:
            status = "invalid: of several tables nobody knows which belongs to the lines above"
        elif len({case for case, _ in rows}) < len(rows):
            status = "invalid: several programs wrote this table"
        for case, cells in rows:
            if len(cells) == len(columns):  # of two columns of a name the last is that of the iterations
                named = dict(zip(columns, cells, strict=True))
                yield from _operation(case, named, int(summary[1]), status)


def _operation(case: str, row: Mapping[str, str], iterations: int, status: str) -> Iterator[Reading]:
    """Mean and extremes of an operation."""
    if not {"Max", "Min", "Mean"} <= row.keys() or not float(row["Max"]):
        return
    least, mean, most = (float(row[name]) for name in ("Min", "Mean", "Max"))
    if status == OK and not least - _ROUNDING <= mean <= most + _ROUNDING:
        status = f"invalid: the mean {row['Mean']} is not between {row['Min']} and {row['Max']}"
    for name, statistic in (("Mean", ""), ("Max", "max"), ("Min", "min")):
        if float(row[name]) and (iterations > 1 or not statistic):
            params = {"statistic": statistic} if statistic else {}
            yield Reading(case, "operation_rate", float(row[name]), None, status, params)


def _why(lines: str) -> str:
    """Why a run has no rate."""
    if ended := why_ended(lines):
        return ended
    return "only times were printed (-Z); rates are read" if _TIMES in lines else "no rate was printed"


def _settings_of(command: str) -> tuple[dict[str, str], int | None]:
    """(params, bytes of a file) by the command line, whose words mdtest prints in quotes."""
    words = [word.strip("'\"") for word in command.split()]
    params: Mapping[str, str | None] = {
        "items": option(words, "-n"),
        "items_per_directory": option(words, "-I"),
    }
    given = {name: value for name, value in params.items() if value and value.isdecimal()}
    if words:
        given["directory"] = "unique" if "-u" in words else "shared"
    return given, bytes_of(option(words, "-w")) or bytes_of(option(words, "-e")) or None
