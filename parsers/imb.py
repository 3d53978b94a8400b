"""Intel MPI Benchmarks: IMB-MPI1, IMB-RMA, IMB-NBC and IMB-P2P, under whichever MPI they were started.

A title names the benchmark, the lines below it the processes, a heading the columns, one row a message size.
MB is 10^6 bytes, times are µs. Columns count by their headings:

- ``t`` is half the round trip of PingPong, elsewhere the time of one call; of ``t_min t_max t_avg`` over the
  ranks the mean is the headline. Of non-blocking collectives (``t_ovrl t_pure t_CPU overlap``) the latency
  is the pure communication.
- ``Mbytes/sec`` is bytes by t (by t_max where there is one); Sendrecv counts what goes in and out
  (2 · bytes), Exchange four messages. At size 0 it says nothing.
- ``ranks`` are the processes that took part, ``waiting`` those that looked on (without ``-npmin``).

A table counts only if its title stands between a rule and the line of processes, as IMB prints it, and if its
sizes ascend: processes that started as single ones, or damage, mix the lines of several tables. A row that
moved to a place where it fits cannot be found out.

IMB exits 0 when a name is unknown (it then runs all benchmarks), and when processes, time or memory do not
suffice: each is a failure here.

Source: Intel MPI Benchmarks User Guide, "MPI-1 Benchmarks", "Output Data Format".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import PurePath
from typing import Final

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import NUMBER, WHOLE, complete_lines, sections
from parsers.text.tables import rows_of

#: The title of a program; or that of a table, with the rule above it and the beginning of the line below.
_TITLE: Final = re.compile(
    r"\n[^\n]*MPI Benchmarks (?P<version>\S+), (?:IMB|MPI)-(?P<program>\w+) part[ \t]*(?=\n)"
    r"|(?P<above>\n#?-------[^\n]*)?\n# Benchmarking (?P<name>\S+)(?: \([^)\n]*\))?[ \t]*"
    r"(?=\n(?P<below># (?:#processes|\())?)"
)
_HEADING: Final = re.compile(r"\n[ \t]*((?:Group +)?(?:#bytes +)?#repetitions [^\n]+)(?=\n)")
_RANKS: Final = re.compile(
    rf"\n# #processes = ({WHOLE})[ \t]*\n(?:# \( ({WHOLE}) additional processes waiting)?"
)
_GROUPS: Final = re.compile(rf"\n# \( ({WHOLE}) groups of ({WHOLE}) processes each")
_FAILED_ROW: Final = re.compile(rf"\n[ \t]*({WHOLE}) ((?:time-out|out-of-mem)\.[^\n]*)(?=\n)")
_REFUSED: Final = re.compile(
    r"\n(?:# !! Benchmark (\S+) (invalid for \d+ processes) !!|(Invalid benchmark name) (\S+)(?=\n))"
)
_PROGRAM: Final = re.compile(r"IMB-[A-Z0-9]+(?:-GPU)?")
_WHOLE_COLUMNS: Final = ("Group", "#bytes", "#repetitions")
#: Heading → metric, the power of ten that makes SI units, qualifiers.
_QUANTITIES: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "t[usec]": ("latency", "e-6", {}),
    "t_avg[usec]": ("latency", "e-6", {}),
    "t_min[usec]": ("latency", "e-6", {"statistic": "min"}),
    "t_max[usec]": ("latency", "e-6", {"statistic": "max"}),
    "t_pure[usec]": ("latency", "e-6", {}),
    "t_ovrl[usec]": ("time", "e-6", {"part": "overall"}),
    "t_CPU[usec]": ("time", "e-6", {"part": "compute"}),
    "overlap[%]": ("overlap", "e-2", {}),
    "Mbytes/sec": ("bandwidth", "e6", {}),
    "Msg/sec": ("message_rate", "", {}),
}


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """The failure of every benchmark that was refused, and readings of every table, column by column."""
    text = complete_lines(text)
    refused, parts = _REFUSED.findall(text), list(sections(_TITLE, text))
    for name, reason, invalid, unknown in refused:
        yield failed(name or unknown, "latency", reason or invalid)
    program, version = "", ""
    for title, body in parts:
        if title["name"]:
            yield from _table(title, body, program, version)
        else:
            version, program = title["version"], f"IMB-{title['program'].replace('1', 'MPI1')}"
    if not refused and not any(title["name"] for title, _ in parts):
        yield from (failed(name, "latency", "no table was printed") for name in _asked(argv))


def _asked(argv: Sequence[str]) -> Sequence[str]:
    """The benchmarks that the command line names, before IMB's options; the program where it names none and
    runs them all; nothing where there is no IMB in it."""
    for place, word in enumerate(argv):
        program = PurePath(word).name
        if _PROGRAM.fullmatch(program):
            return list(takewhile(lambda word: not word.startswith("-"), argv[place + 1 :])) or [program]
    return []


def _table(title: re.Match[str], body: str, program: str, version: str) -> Iterator[Reading]:
    """Readings of one table, group by group."""
    case, heading = title["name"], _HEADING.search(body)
    if not (title["above"] and title["below"]):
        yield failed(case, "latency", "the lines around its title are not IMB's")
        return
    if heading is None:
        yield failed(case, "latency", "the table has no heading")
        return
    params = _params(body[: heading.start() + 1], program)
    lines = body[heading.end() :].partition("\n#")[0] + "\n"
    for size, reason in _FAILED_ROW.findall(lines):
        yield failed(case, "latency", reason, int(size), params)
    names = heading[1].split()
    rows = rows_of(lines, [WHOLE if name in _WHOLE_COLUMNS else NUMBER for name in names])
    if not rows:
        yield failed(case, "latency", "the table has no row", params=params)
    elif names[0] == "Group":
        for group in sorted({row[0] for row in rows}, key=int):
            of_group = [row for row in rows if row[0] == group]
            yield from _columns(case, names, of_group, {**params, "group": group}, version)
    else:
        yield from _columns(case, names, rows, params, version)


def _columns(
    case: str, names: list[str], rows: list[list[str]], params: dict[str, str], version: str
) -> Iterator[Reading]:
    """Readings column by column. A zero is a number too small to be printed."""
    sized = "#bytes" in names
    sizes = [int(row[names.index("#bytes")]) if sized else None for row in rows]
    if any(size is None or following is None or size >= following for size, following in pairwise(sizes)):
        yield failed(case, "latency", "rows of several tables: sizes do not ascend", params=params)
        return
    for place, name in enumerate(names):
        metric, power, own = _QUANTITIES.get(name, ("", "", {}))
        for row, size in zip(rows, sizes, strict=True) if metric else ():
            value = float(row[place] + power)
            if value or metric == "overlap":
                yield Reading(case, metric, value, size, OK, {**params, **own}, version)


def _params(header: str, program: str) -> dict[str, str]:
    """What the lines between title and heading say: processes, groups, mode."""
    params = {"program": program} if program else {}
    ranks, groups = _RANKS.search(header), _GROUPS.search(header)
    if ranks:
        params["ranks"] = ranks[1]
        if ranks[2]:
            params["waiting"] = ranks[2]
    if groups:
        params |= {"groups": groups[1], "ranks": str(int(groups[1]) * int(groups[2]))}
    if "\n#    MODE: " in header:
        params["mode"] = "non-aggregate" if "MODE: NON-AGGREGATE" in header else "aggregate"
    return params
