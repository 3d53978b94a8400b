"""mdtest (1.9 to 4.x, of IOR): operations a second on names, from the table ``SUMMARY rate``.

One reading an operation: the mean over the iterations, and with more than one of them the extremes,
{"statistic": "max"} and "min". `case` is mdtest's own name in lower case: ``file creation``, ``file stat``,
``file read``, ``file removal``, the same of ``directory``, ``tree creation``, ``tree removal``. A rate of 0
is one that was not measured. Size is the bytes that are written to each file (``-w``), or read (``-e``).

``tasks`` are all processes, ``processes`` those of a node; ``items`` those of each process (``-n``);
{"directory": "unique"} gives each a folder of its own (``-u``, IO500's mdtest-easy), {"directory": "shared"}
is one of all (IO500's mdtest-hard). Source: src/mdtest.c of IOR, mdtest(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from npc.parsers.text.files import place_of_files
from npc.parsers.text.lines import NUMBER, WHOLE, complete_lines, sections
from npc.parsers.text.options import bytes_of, option
from npc.records.reading import OK, Reading, failed

_RUN: Final = re.compile(
    rf"\nmdtest-(\d[\w.+-]{{0,40}}) was launched with ({WHOLE}) total task\(s\) on ({WHOLE}) node"
)
_COMMAND: Final = re.compile(r"\nCommand line used *: ([^\n]{1,4000})(?=\n)")
_SUMMARY: Final = re.compile(rf"\nSUMMARY(?: rate)?: \(of ({WHOLE}) iterations\)(?=\n)")
_OTHER: Final = re.compile(r"\n(?:SUMMARY|-- finished at|[ \t]*\n)")
_ROW: Final = re.compile(
    r"\n *((?:File|Directory|Tree) (?:creation|stat|read|removal|rename))"
    rf" *:? +({NUMBER}) +({NUMBER}) +({NUMBER}) +{NUMBER} *(?=\n)"
)
_ERROR: Final = re.compile(r"\n[^\n]{0,120}ERROR:? ([^\n]+)(?=\n)")
MARKS: Final = r"mdtest-[0-9][^\n]* was launched with |SUMMARY rate"
ROWS: Final = r" *(?:File|Directory|Tree) (?:creation|stat|read|removal|rename) *:? +[0-9]"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every operation of each run; the failure of a run without a rate."""
    text = complete_lines(text)
    runs = list(sections(_RUN, text))
    place = place_of_files(text)
    for run, lines in runs:
        yield from _run(run, lines, place)
    if not runs:
        error = _ERROR.search(text)
        if error or any(word.rpartition("/")[2] == "mdtest" for word in argv):
            yield failed("file creation", "operation_rate", error[1] if error else "no result was printed")


def _run(run: re.Match[str], lines: str, place: Mapping[str, str]) -> Iterator[Reading]:
    version, tasks, nodes = run[1], int(run[2]), int(run[3])
    command = _COMMAND.search(lines)
    given, size = _settings_of(command[1] if command else "")
    params = {**place, **given}
    if tasks:
        params["tasks"] = str(tasks)
    if tasks and nodes and tasks % nodes == 0:
        params["processes"] = str(tasks // nodes)
    done = False
    error = _ERROR.search(lines)
    for summary in _SUMMARY.finditer(lines) if not error else ():
        end = _OTHER.search(lines, summary.end())
        for row in _ROW.finditer(lines[summary.end() : end.start() + 1 if end else None]):
            rates = dict(zip(("max", "min", ""), map(float, row.groups()[1:]), strict=True))
            if not rates["max"]:
                continue
            done = True
            for statistic in ("", "max", "min") if int(summary[1]) > 1 else ("",):
                if not rates[statistic]:
                    continue
                of = {**params, "statistic": statistic} if statistic else params
                moved = size if row[1] in ("File creation", "File read") else None
                yield Reading(row[1].lower(), "operation_rate", rates[statistic], moved, OK, of, version)
    if not done:
        reason = error[1] if error else "no rate was printed"
        yield failed("file creation", "operation_rate", reason, params=params)


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
