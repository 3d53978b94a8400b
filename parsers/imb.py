"""Intel MPI Benchmarks: IMB-MPI1, IMB-RMA, IMB-NBC and IMB-P2P, under whichever MPI they were started.

A title names the benchmark, the lines below it the processes, a heading the columns, one row a message size.
Times are µs; MB is 10^6 bytes since IMB 2018 and 2^20 before (3.x, 4.x, 2017). The rows decide which: bytes,
time and rate fit one of the two; where they are too small for that, the version does, and where that is
missing there is no bandwidth. Columns count by their headings:

- ``t`` is half the round trip of PingPong, elsewhere the time of one call; of ``t_min t_max t_avg`` over the
  ranks the mean is the headline. Of non-blocking collectives (``t_ovrl t_pure t_CPU overlap``) the latency
  is the pure communication.
- ``Mbytes/sec`` is bytes by t (by t_max where there is one); Sendrecv counts what goes in and out
  (2 · bytes), Exchange four messages. At size 0 it says nothing.
- ``ranks`` are the processes that took part, ``waiting`` those that looked on (without ``-npmin``).

A table counts only if its title stands between a rule and the line of processes, as IMB prints it, and if its
sizes ascend: processes that started as single ones, or damage, mix the lines of several tables. A row whose
rate is not its bytes by its time is invalid; one that moved to a place where it fits cannot be found out.

IMB exits 0 when a name is unknown (it then runs all benchmarks), and when processes, time or memory do not
suffice: each is a failure here.

Source: Intel MPI Benchmarks User Guide 2021, and 4.1, where throughput is X/1.048576/t; "MPI-1 Benchmarks",
"Output Data Format".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import takewhile
from pathlib import PurePath
from typing import Final

from npc import catalogue
from npc.parsers.text.lines import DECIMAL_2, WHOLE, complete_lines, sections
from npc.parsers.text.runs import of_one_run
from npc.parsers.text.tables import ascending, whole_rows
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import message_contradiction, row_contradiction

#: The title of a program; or that of a table, with the rule above it and the beginning of the line below.
_TITLE: Final = re.compile(
    r"\n[^\n]*MPI Benchmark(?:s| Suite) V?(?P<version>[^,\n]{1,60}), (?:IMB|MPI)-(?P<program>\S+) part"
    r"[ \t]*(?=\n)"
    r"|(?P<above>\n#?-------[^\n]*)?\n# Benchmarking (?P<name>\S+)(?: \([^)\n]*\))?[ \t]*"
    r"(?=\n(?P<below># (?:#processes|\())?)"
)
_HEADING: Final = re.compile(r"\n[ \t]*((?:Group +)?(?:#bytes +)?#repetitions [^\n]+)(?=\n)")
_RANKS: Final = re.compile(
    rf"\n# (?:\( )?#processes = ({WHOLE})[ \t)]*\n(?:# \( ({WHOLE}) additional process(?:es)? waiting)?"
)
_GROUPS: Final = re.compile(rf"\n# \( ({WHOLE}) groups of ({WHOLE}) processes each")
_FAILED_ROW: Final = re.compile(rf"\n[ \t]*({WHOLE}) ((?:time-out|out-of-mem)\.[^\n]*)(?=\n)")
_REFUSED: Final = re.compile(
    r"\n(?:# !! Benchmark (\S+) (invalid for \d+ processes) !!|(Invalid benchmark name) (\S+)(?=\n))"
)
_PROGRAM: Final = re.compile(r"IMB-[A-Z0-9]+(?:-GPU)?")
#: The programs of banners that do not name theirs; EXT and IO of 3.x and 4.x are both "MPI-2 part".
_PROGRAMS: Final = {"1": "IMB-MPI1", "2": ""}
_WHOLE_COLUMNS: Final = ("Group", "#bytes", "#repetitions", "Msg/sec")
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
    "Mbytes/sec": ("bandwidth", "", {}),
    "Msg/sec": ("message_rate", "", {}),
}
_RATE: Final = "Mbytes/sec"
#: What a MB may be, in bytes, and the first version in which it is the first of them.
_MEGABYTES: Final = (10**6, 2**20)
_DECIMAL_SINCE: Final = 2018
PROGRAMS: Final = r"(?i:imb-\w+(?:-gpu)?)"
MARKS: Final = (
    r"[^\n]*MPI Benchmark(?:s| Suite) [^\n]* part *$|# Benchmarking \S+[^\n]*\n# ?(?:\( )?#processes"
    r"|# !! Benchmark \S+ invalid for |Invalid benchmark name "
)
ROWS: Final = r"[ \t]*(?:Group +)?(?:#bytes +)?#repetitions +t"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """The failure of every benchmark that was refused, and readings of every table, column by column."""
    text = complete_lines(text)
    refused, parts = _REFUSED.findall(text), list(sections(_TITLE, text))
    for name, reason, invalid, unknown in refused:
        yield failed(name or unknown, "latency", reason or invalid)
    program, version = "", ""
    for title, body in parts:
        if title["name"]:
            yield from of_one_run(_table(title, body, program, version))
        else:
            version, program = title["version"], title["program"]
            program = _PROGRAMS.get(program, f"IMB-{program}")
    if not refused and not any(title["name"] for title, _ in parts):
        yield from (failed(name, "latency", "no table was printed") for name in _named_benchmarks(argv))


def _named_benchmarks(argv: Sequence[str]) -> Sequence[str]:
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
    cells = [WHOLE if name in _WHOLE_COLUMNS else DECIMAL_2 for name in names]
    rows, wrong = whole_rows(lines, cells, (), heading[0].strip("\n"))
    if wrong or not rows:
        yield failed(case, "latency", wrong or "the table has no row", params=params)
    if names[0] == "Group":
        for group in sorted({row[0] for row in rows}, key=int):
            of_group = [row for row in rows if row[0] == group]
            yield from _columns(case, names, of_group, {**params, "group": group}, version)
    elif rows:
        yield from _columns(case, names, rows, params, version)


def _columns(
    case: str, names: list[str], rows: list[list[str]], params: dict[str, str], version: str
) -> Iterator[Reading]:
    """Readings column by column. A zero is a number too small to be printed."""
    ascend = [int(row[names.index("#bytes")]) for row in rows if "#bytes" in names]
    if len(rows) > 1 and not (ascend and ascending(ascend)):
        yield failed(case, "latency", "rows of several tables: sizes do not ascend", params=params)
        return
    sizes: list[int | None] = [*ascend] or [None] * len(rows)
    megabyte, statuses = _megabyte(case, names, rows, version), [OK] * len(rows)
    if megabyte and (counted := _counted(case)) and "Msg/sec" not in names:
        reasons = [_contradiction(names, row, megabyte, counted) for row in rows]
        statuses = [f"invalid: {reason}" if reason else OK for reason in reasons]
    for place, name in enumerate(names):
        metric, power, own = _QUANTITIES.get(name, ("", "", {}))
        if name == _RATE and not megabyte and any(float(row[place]) for row in rows):
            reason = "MB are 10^6 or 2^20 bytes: neither a row nor a version tells"
            yield failed(case, metric, reason, params=params)
            continue
        for row, size, status in zip(rows, sizes, statuses, strict=True) if metric else ():
            value = float(Decimal(row[place]) * megabyte) if name == _RATE else float(row[place] + power)
            if value or metric == "overlap":
                yield Reading(case, metric, value, size, status, {**params, **own}, version)


def _megabyte(case: str, names: list[str], rows: list[list[str]], version: str) -> int:
    """The bytes of a MB: those that more rows agree with; where none decides, the version's; else 0."""
    counts = [_counted(case)] if _counted(case) and "Msg/sec" not in names else [1, 2, 4]
    fits = [
        [
            megabyte
            for megabyte in _MEGABYTES
            if not all(_contradiction(names, row, megabyte, n) for n in counts)
        ]
        for row in rows
        if _RATE in names and float(row[names.index(_RATE)])
    ]
    if votes := Counter(fit[0] for fit in fits if len(fit) == 1):
        return votes.most_common(1)[0][0]
    number = re.match(WHOLE, version)
    if not number and len(counts) == 1 and not any(fits):  # all are wrong, whichever it is
        return _MEGABYTES[0]
    return _MEGABYTES[int(number[0]) < _DECIMAL_SINCE] if number else 0


def _contradiction(names: list[str], row: list[str], megabyte: int, counted: int) -> str:
    """Why the rate is not `counted` messages by the slowest rank's time, or messages a second; empty where
    one is missing."""
    cells = dict(zip(names, row, strict=True))
    time, size = cells.get("t_max[usec]", cells.get("t[usec]")), int(cells.get("#bytes", 0))
    if _RATE not in cells or not size:
        return ""
    if "Msg/sec" in cells:
        return message_contradiction(cells[_RATE], megabyte, counted * size, cells["Msg/sec"])
    return "" if time is None else row_contradiction(cells[_RATE], megabyte, counted * size, time, 1e-6)


def _counted(case: str) -> int:
    """How many of a row's messages its rate counts; 0 where that is not known."""
    return catalogue.find("imb", case.removeprefix("Multi-"), "bandwidth").counted


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
