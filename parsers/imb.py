"""Intel MPI Benchmarks: IMB-MPI1, IMB-RMA, IMB-NBC and IMB-P2P, under whichever MPI they were started.

A title names the benchmark, the lines below it the processes, a heading the columns, one row a message size.
MB is 10^6 bytes, times are µs. Columns count by their headings:

- ``t`` is half the round trip of PingPong, elsewhere the time of one call; of ``t_min t_max t_avg`` over the
  ranks the mean is the headline. Of non-blocking collectives (``t_ovrl t_pure t_CPU overlap``) the latency
  is the pure communication.
- ``Mbytes/sec`` is bytes by t (by t_max where there is one); Sendrecv counts what goes in and out
  (2 · bytes), Exchange four messages. At size 0 it says nothing.
- ``ranks`` are the processes that took part, ``waiting`` those that looked on (without ``-npmin``).

An unknown name runs all benchmarks and exits 0, too few processes or too little time or memory as well:
each is a failure here.

Source: Intel MPI Benchmarks User Guide, "MPI-1 Benchmarks", "Output Data Format".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Final

from npc.record import Reading
from parsers import NUMBER, WHOLE, cells_of_rows, column, complete_lines, failed

_TITLE: Final = re.compile(r"\n# Benchmarking (\S+)(?: \([^)\n]*\))?[ \t]*(?=\n)")
_HEADING: Final = re.compile(r"\n[ \t]*((?:Group +)?(?:#bytes +)?#repetitions [^\n]+)(?=\n)")
_PROGRAM_TITLE: Final = re.compile(r"MPI Benchmarks (\S+), (?:IMB|MPI)-(\w+) part[ \t]*\n")
_RANKS: Final = re.compile(
    rf"\n# #processes = ({WHOLE})[ \t]*\n(?:# \( ({WHOLE}) additional processes waiting)?"
)
_GROUPS: Final = re.compile(rf"\n# \( ({WHOLE}) groups of ({WHOLE}) processes each")
_FAILED_ROW: Final = re.compile(rf"\n[ \t]*({WHOLE}) ((?:time-out|out-of-mem)\.[^\n]*)(?=\n)")
_REFUSED: Final = re.compile(
    r"\n# !! Benchmark (\S+) (invalid for \d+ processes) !!|\n(Invalid benchmark name) (\S+)(?=\n)"
)
_PROGRAM: Final = re.compile(r"IMB-[A-Z0-9]+(?:-GPU)?")

#: Heading → metric, what one printed unit is in SI, qualifiers.
_QUANTITIES: Final[dict[str, tuple[str, float, dict[str, str]]]] = {
    "t[usec]": ("latency", 1e6, {}),
    "t_avg[usec]": ("latency", 1e6, {}),
    "t_min[usec]": ("latency", 1e6, {"statistic": "min"}),
    "t_max[usec]": ("latency", 1e6, {"statistic": "max"}),
    "t_pure[usec]": ("latency", 1e6, {}),
    "t_ovrl[usec]": ("time", 1e6, {"part": "overall"}),
    "t_CPU[usec]": ("time", 1e6, {"part": "compute"}),
    "overlap[%]": ("overlap", 1e2, {}),
    "Mbytes/sec": ("bandwidth", 1e-6, {}),
    "Msg/sec": ("message_rate", 1.0, {}),
}


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every table, column by column, and of every benchmark that was refused."""
    text = complete_lines(text)
    for name, reason, invalid, unknown in _REFUSED.findall(text):
        yield failed(name or unknown, "latency", reason or invalid)
    start, program, version = "", "", ""
    parts = _TITLE.split(text)
    for place in range(0, len(parts), 2):
        body = parts[place]
        if start:
            yield from _table(start, body, program, version)
        told = _PROGRAM_TITLE.search(body)
        if told:  # of the run that begins behind this table
            version, program = told[1], f"IMB-{told[2].replace('1', 'MPI1')}"
        start = parts[place + 1] if place + 1 < len(parts) else ""
    if (
        len(parts) == 1
        and not _REFUSED.search(text)
        and any(_PROGRAM.fullmatch(PurePath(word).name) for word in argv)
    ):
        yield failed(argv[-1], "latency", "no table was printed")


def _table(name: str, body: str, program: str, version: str) -> list[Reading]:
    """Readings of what stands between one title and the next; `body` begins with the title's line end."""
    heading = _HEADING.search(body)
    if heading is None:
        return [failed(name, "latency", "the table has no heading")]
    params = _params(body[: heading.start() + 1], program)
    end = body.find("\n#", heading.end())
    rows = body[heading.end() : end + 1 if end >= 0 else len(body)]
    readings = [
        failed(name, "latency", reason, int(size), params) for size, reason in _FAILED_ROW.findall(rows)
    ]
    names, patterns = _layout(heading[1])
    cells = cells_of_rows(rows, patterns)
    width = len(names)
    if not cells:
        return [*readings, failed(name, "latency", "the table has no row", params=params)]
    columns = [cells[place::width] for place in range(width)]
    if names[0] != "Group":
        return readings + _columns(name, names, columns, params, version)
    for group in sorted(set(columns[0]), key=int):
        chosen = [at for at, of_row in enumerate(columns[0]) if of_row == group]
        of_group = [[cells[at] for at in chosen] for cells in columns]
        readings += _columns(name, names, of_group, {**params, "group": group}, version)
    return readings


def _columns(
    name: str, names: list[str], columns: list[list[str]], params: dict[str, str], version: str
) -> list[Reading]:
    """Readings of a table's columns. A zero is a number too small to be printed."""
    sizes: list[int | None] = [None] * len(columns[0])
    if "#bytes" in names:
        sizes = list(map(int, columns[names.index("#bytes")]))
    readings: list[Reading] = []
    for heading, cells in zip(names, columns, strict=True):
        if heading in _QUANTITIES:
            metric, printed, own = _QUANTITIES[heading]
            numbers, shown = list(map(float, cells)), sizes
            if metric != "overlap" and 0.0 in numbers:
                shown = [size for size, number in zip(sizes, numbers, strict=True) if number]
                numbers = list(filter(None, numbers))
            values = [number / printed for number in numbers]
            readings += column(name, metric, values, shown, None, {**params, **own}, version)
    return readings


@lru_cache
def _layout(heading: str) -> tuple[list[str], list[str]]:
    """Names of the columns, and the patterns of their cells."""
    names = heading.split()
    return names, [WHOLE if name in ("Group", "#bytes", "#repetitions") else NUMBER for name in names]


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
