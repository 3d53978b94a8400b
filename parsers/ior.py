"""IOR (3.x and 4.x): bandwidth and operations a second of each test, of its text and its JSON.

What counts is the summary of all tests, in text a row an operation, in JSON (``-O summaryFormat=JSON``) the
list ``summary``: the mean over the repetitions of a test, and with more than one of them their extremes,
{"statistic": "max"} and "min". A bandwidth is in MiB/s of all processes together, the bytes of all over the
time from the first open to the last close.

`case` is ``write`` or ``read``; size is that of a transfer (``-t``). {"files": "process"} has a file each
(``-F``), {"files": "shared"} one of all; ``api`` is POSIX, MPIIO, …; ``tasks`` are all processes,
``processes`` those of a node; ``block`` (``-b``) and ``segments`` (``-s``) say how the file is divided.
IO500's ior-easy is {"files": "process"} with large transfers, its ior-hard {"files": "shared"} with 47008 B.

A run with an error has failed; one that found wrong data when it read is invalid. So is a row that the rest
of the text contradicts: the lines ``Max Write`` and ``Max Read``, the repetitions in the table ``Results``,
its own extremes, its operations a second, which are its bytes a second by the transfer size; and a table with
an operation twice. A table without the head of its run, or a run by a script (``-f``), has no ``direct``.

Source: src/ior-output.c of IOR, https://ior.readthedocs.io.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from npc.parsers.text.documents import number_below, object_of
from npc.parsers.text.endings import why_ended
from npc.parsers.text.files import place_of_files
from npc.parsers.text.lines import NUMBER, complete_lines, sections
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import last_digit

_RUN: Final = re.compile(r"\n(?:IOR-(\d[\w.+-]{0,40}): MPI Coordinated Test of Parallel I/O|(?=\{[ \t]*\n))")
_SUMMARY: Final = re.compile(r"\n(Operation +Max\(MiB\) [^\n]{1,500})(?=\n)")
_ROW: Final = re.compile(r"\n(write|read) ([^\n]{20,1000})(?=\n)")
#: One repetition: the operation, its bandwidth.
_REPETITION: Final = re.compile(rf"\n(write|read) +({NUMBER})(?: +[0-9.e+-]{{1,20}}){{6,12}} *(?=\n)")
_MOST: Final = re.compile(rf"\nMax (Write|Read): +({NUMBER}) MiB/sec[^\n]*(?=\n)")
#: What begins the options of each test of a script, and its number.
_TEST: Final = re.compile(r"\nTest(?:ID +: ([0-9]{1,6})| ([0-9]{1,6}) started: [^\n]*)(?=\n)")
_COMMAND: Final = re.compile(r"\nCommand line(?: used)? *: ([^\n]{1,4000})(?=\n)")
#: Of 3.0 and 3.1 ``access = …, collective`` and ``random offsets``.
_COLLECTIVE: Final = re.compile(r"\n\s*(?:type +: |access += [^\n,]*, |\"type\": \")collective\b")
_RANDOM: Final = re.compile(r"\n\s*(?:ordering in a file +[:=] ?|\"ordering in a file\": \")random\b")
_OLD_SUMMARY: Final = "\nOperation  Max (MiB)  Min (MiB)"
#: A part of a text whose head and summary are not there.
_EXCERPT: Final = re.compile(
    rf"\naccess +bw\(MiB/s\) |{_MOST.pattern}|\n(?:write|read)(?: +(?:{NUMBER}|NA)){{19}} "
)
_ERROR: Final = re.compile(r"\n(?:ior )?ERROR: ([^\n]+)(?=\n)")
_WRONG: Final = re.compile(r"[Ii]ncorrect data on (?:read|write)")
#: Past the page cache, as 4.x has it, as 3.x had it, and as both take it.
_DIRECT: Final = re.compile(r"(?:^| )(?:--posix\.odirect|-B)(?: |$)|\b(?i:useO_DIRECT)=1\b")
_SCRIPT: Final = re.compile(r" -f(?: |$)")
_PROGRAM: Final = re.compile(r"(?:^|[\s/])ior(?:\s|$)", re.IGNORECASE)
_MIB: Final = 2.0**20
#: Rates are printed with two digits after the point.
_ROUNDING: Final = 0.0101
#: Column of the text → field of the JSON.
_FIELDS: Final[Mapping[str, str]] = {
    "Max(MiB)": "bwMaxMIB", "Min(MiB)": "bwMinMIB", "Mean(MiB)": "bwMeanMIB", "Max(OPs)": "OPsMax",
    "Min(OPs)": "OPsMin", "Mean(OPs)": "OPsMean", "#Tasks": "numTasks", "tPN": "tasksPerNode",
    "reps": "repetitions", "fPP": "filePerProc", "segcnt": "segmentCount", "blksiz": "blockSize",
    "xsize": "transferSize", "API": "API", "Test#": "TestID",
}  # fmt: skip
_PRINTED: Final = ("Mean(MiB)", "#Tasks", "tPN", "reps", "fPP", "xsize", "API")
_NO_HEADING: Final = "looks like IOR, but its heading is missing: size and units cannot be known"

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
    above = text[: runs[0][0].start() + 1] if runs else text
    for lines, rows in _tables(above):
        yield from _table(rows, lines, place, "")
    for run, lines in runs:
        yield from _run(run[1] or "", lines, place)
    if not runs and not _SUMMARY.search(text):
        error = _ERROR.search(text)
        if not error and _EXCERPT.search(text):
            yield failed("write", "bandwidth", _NO_HEADING)
        elif error or any(_PROGRAM.search(word) for word in argv):
            reason = error[1] if error else why_ended(text) or "no result was printed"
            yield failed("write", "bandwidth", reason)


def _run(version: str, lines: str, place: Mapping[str, str]) -> Iterator[Reading]:
    document = {} if version else object_of(lines[lines.find("{") : lines.rfind("\n}") + 2])
    if not version and not (isinstance(document.get("summary"), list) or "Command line" in document):
        return  # somebody else's
    command = _COMMAND.search(lines)
    version = version or str(document.get("Version", ""))
    words = str(document.get("Command line", command[1] if command else ""))
    summary = document.get("summary")
    rows: list[Row] = [row for row in summary if isinstance(row, dict)] if isinstance(summary, list) else []
    tables = [(lines, rows)] if rows else list(_tables(lines))
    params = dict(place)
    if len(tables) < 2 and not _SCRIPT.search(words):  # of several nobody knows whose options these are
        params["direct"] = "1" if _DIRECT.search(words) else "0"
    error = _ERROR.search(lines)
    if error or not any(rows for _, rows in tables):
        for operation in dict.fromkeys(name for name, _ in _REPETITION.findall(lines)) or ("write",):
            yield failed(operation, "bandwidth", error[1] if error else _why(lines), params=params)
    for own_lines, rows in tables if not error else ():
        yield from _table(rows, own_lines, params, version)


def _why(lines: str) -> str:
    """Why a run has no row of a summary."""
    if _SUMMARY.search(lines):
        return "neither heading nor rows of the summary are whole"
    if _OLD_SUMMARY in lines:
        return "the summary of IOR 2 is not read"
    return why_ended(lines) or "no summary was printed"


def _tables(lines: str) -> Iterator[tuple[str, list[Row]]]:
    """The rows below each heading of a summary, with the lines since the heading before it. The names in a
    row are the JSON's; one that is not whole has its operation alone."""
    begun = 0
    for heading, below in sections(_SUMMARY, lines):
        columns = heading[1].split()
        rows: list[Row] = []
        for row in _ROW.finditer(below) if set(_PRINTED) <= set(columns) else ():
            cells = [row[1], *row[2].split()]
            named = {}
            if len(cells) == len(columns):
                named = dict(reversed(list(zip(columns, cells, strict=True))))  # of two StdDev the first
            fields = {field: named[name] for name, field in _FIELDS.items() if name in named}
            rows.append({"operation": row[1], **fields})
        yield lines[begun : heading.end() + len(below)], rows
        begun = heading.end()


def _table(rows: Sequence[Row], lines: str, params: Mapping[str, str], version: str) -> Iterator[Reading]:
    """Readings of the rows of a summary, and what the lines of its run say of them."""
    keys = [(row.get("operation"), row.get("TestID")) for row in rows]
    tests = {test[1] or test[2]: below for test, below in sections(_TEST, lines)}
    for row, key in zip(rows, keys, strict=True):
        options = tests.get(str(key[1]), lines)
        of = dict(params)
        if _COLLECTIVE.search(options):
            of["type"] = "collective"
        if _RANDOM.search(options):
            of["ordering"] = "random"
        if _WRONG.search(lines):
            reason = "other data was read than had been written"
        elif keys.count(key) > 1:
            reason = "several programs wrote this table"
        else:
            reason = _contradiction(row, options)
        yield from _operation(row, of, f"invalid: {reason}" if reason else OK, version)


def _contradiction(row: Row, lines: str) -> str:
    """What of a row contradicts itself or the lines of its test; empty if nothing does."""
    operation, size = str(row.get("operation")), _number(row, "transferSize") / _MIB
    most, least, mean, rate = (
        _number(row, name) for name in ("bwMaxMIB", "bwMinMIB", "bwMeanMIB", "OPsMean")
    )
    if most and not least - _ROUNDING <= mean <= most + _ROUNDING:
        return f"the mean {mean} MiB/s is not between {least} and {most}"
    if rate and size and abs(rate * size - mean) > _ROUNDING * (1 + size):
        return f"{rate} operations a second of {size:g} MiB are not {mean} MiB/s"
    printed = [rate for name, rate in _MOST.findall(lines) if name.lower() == operation]
    if printed and most and not any(abs(float(rate) - most) <= _ROUNDING for rate in printed):
        return f"{operation}'s maximum is {most} MiB/s, but: Max {operation.title()} {printed[-1]}"
    repetitions = [rate for name, rate in _REPETITION.findall(lines) if name == operation]
    if repetitions and len(repetitions) == _number(row, "repetitions"):
        rates = [float(rate) for rate in repetitions]
        step = max(map(last_digit, repetitions)) + _ROUNDING
        for name, value, of_rows in (
            ("maximum", most, max(rates)), ("minimum", least, min(rates)), ("mean", mean, fmean(rates)),
        ):  # fmt: skip
            if value and abs(value - of_rows) > step:
                return f"the {name} is {value} MiB/s, that of the repetitions {of_rows:g} MiB/s"
    return ""


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
    if not _number(row, "bwMeanMIB"):
        yield failed(case, "bandwidth", "its row of the summary is not whole", params=params)
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
