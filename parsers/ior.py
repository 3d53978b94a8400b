"""IOR (3.x and 4.x): bandwidth and operations a second of each test, of its text and its JSON.

What counts is the summary of all tests, in text a row an operation, in JSON (``-O summaryFormat=JSON``) the
list ``summary``: the mean over the repetitions of a test, and with more than one of them their extremes,
{"statistic": "max"} and "min". A bandwidth is in MiB/s of all processes together, the bytes of all over the
time from the first open to the last close.

`case` is ``write`` or ``read``; size is that of a transfer (``-t``). {"files": "process"} has a file each
(``-F``), {"files": "shared"} one of all; ``api`` is POSIX, MPIIO, …; ``tasks`` are all processes,
``processes`` those of a node; ``block`` (``-b``) and ``segments`` (``-s``) say how the file is divided.
IO500's ior-easy is {"files": "process"} with large transfers, its ior-hard {"files": "shared"} with 47008 B.

A run with an error has failed; one that found wrong data when it read is invalid. Source: src/ior-output.c of
IOR, https://ior.readthedocs.io.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from npc.parsers.text.documents import number_below, object_of
from npc.parsers.text.files import place_of_files
from npc.parsers.text.lines import NUMBER, complete_lines, sections
from npc.records.reading import OK, Reading, failed

_RUN: Final = re.compile(r"\n(?:IOR-(\d[\w.+-]{0,40}): MPI Coordinated Test of Parallel I/O|(?=\{[ \t]*\n))")
_SUMMARY: Final = re.compile(r"\nSummary of all tests:[^\n]*\n(Operation +Max\(MiB\) [^\n]{1,500})(?=\n)")
_ROW: Final = re.compile(r"\n(write|read) ([^\n]{20,1000})(?=\n)")
_COMMAND: Final = re.compile(r"\nCommand line(?: used)? *: ([^\n]{1,4000})(?=\n)")
_KIND: Final = re.compile(r"\n(type|ordering in a file) +: (\w+)[^\n]*(?=\n)")
_ERROR: Final = re.compile(r"\n(?:ior )?ERROR: ([^\n]+)(?=\n)")
_WRONG: Final = re.compile(r"[Ii]ncorrect data on (?:read|write)")
#: Past the page cache, as 4.x has it, as 3.x had it, and as both take it.
_DIRECT: Final = re.compile(r"(?:^| )(?:--posix\.odirect|-B)(?: |$)|\b(?i:useO_DIRECT)=1\b")
_PROGRAM: Final = re.compile(r"(?:^|[\s/])ior(?:\s|$)", re.IGNORECASE)
_MIB: Final = 2.0**20
#: Column of the text → field of the JSON.
_FIELDS: Final[Mapping[str, str]] = {
    "Max(MiB)": "bwMaxMIB", "Min(MiB)": "bwMinMIB", "Mean(MiB)": "bwMeanMIB", "Max(OPs)": "OPsMax",
    "Min(OPs)": "OPsMin", "Mean(OPs)": "OPsMean", "#Tasks": "numTasks", "tPN": "tasksPerNode",
    "reps": "repetitions", "fPP": "filePerProc", "segcnt": "segmentCount", "blksiz": "blockSize",
    "xsize": "transferSize", "API": "API",
}  # fmt: skip
_PRINTED: Final = ("Mean(MiB)", "#Tasks", "tPN", "reps", "fPP", "xsize", "API")

Row = Mapping[str, Any]
PROGRAMS: Final = r"(?i:ior)"
MARKS: Final = (
    r'IOR-[0-9][^\n]*: MPI Coordinated Test|\{\s{0,9}"Version": "[^"\n]*",\s{0,9}"Began": "|ior ERROR: '
)
ROWS: Final = (
    r"access(?: +|,)bw\(MiB/s\)|Max (?:Write|Read): +[0-9.]+ MiB/sec|(?:write|read)(?: +[0-9.]+){7,} *$"
    r"|Operation +Max\(MiB\)|Summary of all tests:"
)


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every operation of each run; the failure of a run without a summary."""
    text = complete_lines(text)
    runs = list(sections(_RUN, text))
    place = place_of_files(text)
    for run, lines in runs:
        yield from _run(run[1] or "", lines, place)
    if not runs:
        error = _ERROR.search(text)
        if error or any(_PROGRAM.search(word) for word in argv):
            yield failed("write", "bandwidth", error[1] if error else "no result was printed")


def _run(version: str, lines: str, place: Mapping[str, str]) -> Iterator[Reading]:
    document = {} if version else object_of(lines[lines.find("{") : lines.rfind("\n}") + 2])
    if not version and not (isinstance(document.get("summary"), list) or "Command line" in document):
        return  # somebody else's
    command = _COMMAND.search(lines)
    version = version or str(document.get("Version", ""))
    words = str(document.get("Command line", command[1] if command else ""))
    summary = document.get("summary")
    rows: list[Row] = [row for row in summary if isinstance(row, dict)] if isinstance(summary, list) else []
    rows = rows or list(_rows(lines))
    kinds = dict(_KIND.findall(lines))
    params = {**place, "direct": "1" if _DIRECT.search(words) else "0"}
    if kinds.get("type") == "collective" or '"type": "collective"' in lines:
        params["type"] = "collective"
    if kinds.get("ordering in a file") == "random" or '"ordering in a file": "random"' in lines:
        params["ordering"] = "random"
    error = _ERROR.search(lines)
    status = "invalid: other data was read than had been written" if _WRONG.search(lines) else OK
    whole = [row for row in rows if _number(row, "bwMeanMIB")]
    if error or not whole:
        yield failed("write", "bandwidth", error[1] if error else "no summary was printed", params=params)
    for row in whole if not error else ():
        yield from _operation(row, params, status, version)


def _rows(lines: str) -> Iterator[Row]:
    """The rows of the text's summary, by the names of its columns, as the JSON calls them."""
    heading = _SUMMARY.search(lines)
    if not heading:
        return
    columns = heading[1].split()
    if not set(_PRINTED) <= set(columns):
        return
    for row in _ROW.finditer(lines, heading.end()):
        cells = [row[1], *row[2].split()]
        if len(cells) == len(columns):
            named = dict(reversed(list(zip(columns, cells, strict=True))))  # of two StdDev the first
            yield {"operation": row[1], **{_FIELDS[name]: named[name] for name in _FIELDS if name in named}}


def _number(row: Row, name: str) -> float:
    """A number of the JSON or the text; 0 where there is none."""
    text = row.get(name)
    if isinstance(text, str):
        return float(text) if re.fullmatch(NUMBER, text) else 0.0
    return number_below(row, name) or 0.0


def _operation(row: Row, params: Mapping[str, str], status: str, version: str) -> Iterator[Reading]:
    case, shared = str(row.get("operation")), str(row.get("filePerProc")) == "0"
    if case not in ("write", "read"):
        return
    of = {"api": str(row.get("API")), "files": "shared" if shared else "process", **params}
    for name, field in (
        ("tasks", "numTasks"), ("processes", "tasksPerNode"),
        ("block", "blockSize"), ("segments", "segmentCount"),
    ):  # fmt: skip
        if _number(row, field):
            of[name] = f"{_number(row, field):.0f}"
    size = int(_number(row, "transferSize")) or None
    several = _number(row, "repetitions") > 1
    for metric, fields, unit in (
        ("bandwidth", ("bwMeanMIB", "bwMaxMIB", "bwMinMIB"), _MIB),
        ("operation_rate", ("OPsMean", "OPsMax", "OPsMin"), 1.0),
    ):
        for field, statistic in zip(fields, ("", "max", "min"), strict=True):
            value = _number(row, field)
            if value and (several or not statistic):
                more = {"statistic": statistic} if statistic else {}
                yield Reading(case, metric, value * unit, size, status, {**of, **more}, version)
