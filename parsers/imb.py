"""Intel MPI Benchmarks: IMB-MPI1, IMB-RMA, IMB-NBC and IMB-P2P, under whichever MPI they were started.

A title names the benchmark, the lines below it the processes, a heading the columns, one row a message size.
MB is 10^6 bytes, times are µs. Columns count by their headings:

- ``t`` is half the round trip of PingPong, elsewhere the time of one call; of ``t_min t_max t_avg`` over the
  ranks the mean is the headline. Of non-blocking collectives (``t_ovrl t_pure t_CPU overlap``) the latency
  is the pure communication.
- ``Mbytes/sec`` is bytes by t (by t_max where there is one); Sendrecv counts what goes in and out
  (2 · bytes), Exchange four messages. At size 0 it says nothing.
- ``ranks`` are the processes that took part, ``waiting`` those that looked on (without ``-npmin``).

A table counts where its title stands between rule and processes as IMB prints it and its sizes ascend, one
row each: rows of another table would not. Rows that went where they fit, nobody can tell from its own.

An unknown name runs all benchmarks and exits 0, too few processes or too little time or memory as well:
each is a failure here.

Source: Intel MPI Benchmarks User Guide, "MPI-1 Benchmarks", "Output Data Format".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, compress, repeat, takewhile
from operator import lt, truediv
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from npc.record import Reading
from parsers import NUMBER, WHOLE, Column, columns_of_rows, complete_lines, failed

_TITLE: Final = re.compile(r"\n# Benchmarking (\S+)(?: \([^)\n]*\))?[ \t]*(?=\n)")
_HEADING: Final = re.compile(r"\n[ \t]*((?:Group +)?(?:#bytes +)?#repetitions [^\n]+)(?=\n)")
#: What the line above a title and the one below it begin with.
_RULE: Final = ("#-------", "-------")  # ranks that are each a run of their own write over each other
_BELOW_TITLE: Final = ("\n# #processes", "\n# (")
_PROGRAM_TITLE: Final = re.compile(r"MPI Benchmarks (\S+), (?:IMB|MPI)-(\w+) part[ \t]*\n")
_PROGRAM_TITLE_BEGINS: Final = "MPI Benchmarks "
_RANKS: Final = re.compile(
    rf"\n# #processes = ({WHOLE})[ \t]*\n(?:# \( ({WHOLE}) additional processes waiting)?"
)
_GROUPS: Final = re.compile(rf"\n# \( ({WHOLE}) groups of ({WHOLE}) processes each")
_FAILED_ROW: Final = re.compile(rf"\n[ \t]*({WHOLE}) ((?:time-out|out-of-mem)\.[^\n]*)(?=\n)")
_FAILED_ROW_HAS: Final = "-o"  # both; a plain search is cheaper than the pattern's on every row
_REFUSED: Final = re.compile(
    r"\n(?:# !! Benchmark (\S+) (invalid for \d+ processes) !!|(Invalid benchmark name) (\S+)(?=\n))"
)
_REFUSED_HAS: Final = "nvalid "  # both, once; a plain search over the text is cheaper
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
#: Heading → pattern of a cell, if it is no decimal number; a group's number is its name.
_CELLS: Final = {"Group": rf"(?:{WHOLE})", "#bytes": WHOLE, "#repetitions": WHOLE}


class _Measured(NamedTuple):
    """A measured column: its place, what its numbers are divided by into SI, whether zeros count."""

    place: int
    printed: Iterator[float]
    zeros: bool
    column: Column


class _Layout(NamedTuple):
    """A table: the patterns of a row's cells, the measured columns, what they share, where sizes stand."""

    name: str
    cells: tuple[str, ...]
    measured: list[_Measured]
    params: dict[str, str]
    sizes: int | None
    grouped: bool


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every benchmark that was refused, and of every table, column by column."""
    text = complete_lines(text)
    readings = list(_refused(text))
    parts = _TITLE.split(text)
    if len(parts) > 1:
        return chain(readings, chain.from_iterable(chain.from_iterable(_tables(parts))))
    if not readings:
        readings = [failed(name, "latency", "no table was printed") for name in _asked(argv)]
    return iter(readings)


def _refused(text: str) -> Iterator[Reading]:
    """The failure of every benchmark that IMB did not run."""
    place = text.find(_REFUSED_HAS)
    while place >= 0:
        refused = _REFUSED.match(text, text.rfind("\n", 0, place))
        if refused:
            name, reason, invalid, unknown = refused.groups()
            yield failed(name or unknown, "latency", reason or invalid)
        place = text.find(_REFUSED_HAS, refused.end() if refused else place + 1)


def _asked(argv: Sequence[str]) -> Sequence[str]:
    """The benchmarks that the command line names, before IMB's options; the program where it names none and
    runs them all; nothing where there is no IMB in it."""
    for place, word in enumerate(argv):
        program = PurePath(word).name
        if _PROGRAM.fullmatch(program):
            return list(takewhile(lambda word: not word.startswith("-"), argv[place + 1 :])) or [program]
    return []


def _tables(parts: list[str]) -> Iterator[Iterable[Iterable[Reading]]]:
    """The readings of each table, column by column.

    `parts`: what precedes the first title, then titles and bodies in turn.
    """
    program, version = "", ""
    above = ""
    for name, body in zip(["", *parts[1::2]], parts[::2], strict=True):
        if name and above.startswith(_RULE, above.rfind("\n") + 1) and body.startswith(_BELOW_TITLE):
            yield _table(name, body, program, version)
        elif name:
            yield [[failed(name, "latency", "the lines around its title are not IMB's")]]
        above = body
        place = body.find(_PROGRAM_TITLE_BEGINS)
        told = _PROGRAM_TITLE.search(body, place) if place >= 0 else None
        if told:  # of the run that begins behind this table
            version, program = told[1], f"IMB-{told[2].replace('1', 'MPI1')}"


def _table(name: str, body: str, program: str, version: str) -> Iterable[Iterable[Reading]]:
    """Readings of what stands between one title and the next; `body` begins with the title's line end."""
    heading = _HEADING.search(body)
    if heading is None:
        return [[failed(name, "latency", "the table has no heading")]]
    head = (name, heading[1], body[: heading.start() + 1], program, version)
    layout = _layout(*head)
    end = body.find("\n#", heading.end())
    rows = body[heading.end() : end + 1 if end >= 0 else len(body)]
    failures = [
        failed(name, "latency", reason, int(size), layout.params)
        for size, reason in (_FAILED_ROW.findall(rows) if _FAILED_ROW_HAS in rows else ())
    ]
    columns = columns_of_rows(rows, layout.cells)
    if not columns[0]:
        return [failures, [failed(name, "latency", "the table has no row", params=layout.params)]]
    if not layout.grouped:
        return [failures, *_columns(layout, columns)]
    readings: list[Iterable[Reading]] = [failures]
    for group in sorted(set(columns[0]), key=int):
        chosen = [of_row == group for of_row in columns[0]]
        readings += _columns(_layout(*head, group), [list(compress(cells, chosen)) for cells in columns])
    return readings


def _columns(layout: _Layout, columns: Sequence[Sequence[Any]]) -> list[Iterable[Reading]]:
    """Readings of a table's columns. A zero is a number too small to be printed."""
    sizes: Iterable[int | None] = repeat(None)
    if layout.sizes is not None:
        sizes = shown = columns[layout.sizes]
        mixed = not all(map(lt, shown, shown[1:]))
    else:
        mixed = len(columns[0]) > 1
    if mixed:
        return [
            [
                failed(
                    layout.name,
                    "latency",
                    "rows of several tables: sizes do not ascend",
                    params=layout.params,
                )
            ]
        ]
    found: list[Iterable[Reading]] = []
    for place, printed, zeros, column in layout.measured:
        numbers, measured = columns[place], sizes
        if not zeros and not all(numbers):
            numbers, measured = list(filter(None, numbers)), compress(sizes, numbers)
        found.append(column.readings(map(truediv, numbers, printed), measured))
    return found


@lru_cache(maxsize=1024)
def _layout(name: str, heading: str, header: str, program: str, version: str, group: str = "") -> _Layout:
    """The table's columns, for one of its groups; `header` holds the lines between title and heading."""
    names = heading.split()
    shared = _params(header, program)
    of_group = {"group": group} if group else {}
    measured = [
        _Measured(
            place,
            repeat(printed),
            metric == "overlap",
            Column(name, metric, {**shared, **own, **of_group}, version),
        )
        for place, title in enumerate(names)
        if title in _QUANTITIES
        for metric, printed, own in (_QUANTITIES[title],)
    ]
    cells = tuple(_CELLS.get(title, NUMBER) for title in names)
    sizes = names.index("#bytes") if "#bytes" in names else None
    return _Layout(name, cells, measured, shared, sizes, names[0] == "Group")


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
