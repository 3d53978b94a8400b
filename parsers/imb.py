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
from itertools import accumulate, chain, compress, count, islice, repeat, takewhile
from operator import ge
from pathlib import PurePath
from typing import Any, Final, NamedTuple, NewType

from npc.records.reading import Reading, failed
from parsers.text.lines import NUMBER, WHOLE, complete_lines
from parsers.text.readings import Column
from parsers.text.tables import Cell, Rows, by_layout, is_long, rows_of_tables

_TITLE: Final = re.compile(r"\n# Benchmarking (\S+)(?: \([^)\n]*\))?[ \t]*(?=\n)")
_HEADING: Final = re.compile(r"\n[ \t]*((?:Group +)?(?:#bytes +)?#repetitions [^\n]+)\Z")
_HEADING_HAS: Final = "#repetitions "
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
#: Heading → cell, if it is no decimal number; a group's number is its name.
_CELLS: Final = {"Group": Cell(rf"(?:{WHOLE})"), "#bytes": Cell(WHOLE), "#repetitions": Cell(WHOLE)}


class _Measured(NamedTuple):
    """A measured column: its place, whether zeros count, what its readings share."""

    place: int
    zeros: bool
    column: Column


#: What a table's layout follows from: title, lines below it to the heading, program and version.
_Head = NewType("_Head", tuple[str, str, str, str])


class _Layout(NamedTuple):
    """A table: a row's cells, the measured columns, what they share, where sizes stand."""

    name: str
    cells: tuple[Cell, ...]
    measured: list[_Measured]
    params: dict[str, str]
    sizes: int | None
    grouped: bool


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every benchmark that was refused, and of every table, column by column."""
    text = complete_lines(text)
    failures = list(_refused(text))
    parts = _TITLE.split(text)
    if len(parts) > 1:
        tables, long = by_layout(_tables(parts, failures)), is_long(text)
        readings = (_readings(head, lines, long) for head, lines in tables.items())
        return chain.from_iterable(chain([failures], chain.from_iterable(readings)))
    if not failures:
        failures = [failed(name, "latency", "no table was printed") for name in _asked(argv)]
    return iter(failures)


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


def _tables(parts: list[str], failures: list[Reading]) -> Iterator[tuple[_Head, str]]:
    """What each table's layout follows from, and its lines; what failed goes to `failures`.

    `parts`: what precedes the first title, then titles and bodies in turn.
    """
    program, version = "", ""
    above = ""
    for name, body in zip(["", *parts[1::2]], parts[::2], strict=True):
        if name and above.startswith(_RULE, above.rfind("\n") + 1) and body.startswith(_BELOW_TITLE):
            lines = body + "\n"  # the last line's end may have gone to the next title
            below = lines.find("\n", lines.find(_HEADING_HAS))
            head = _Head((name, lines[:below], program, version))
            layout = _layout(head)
            if not layout.cells:
                failures.append(failed(name, "latency", "the table has no heading"))
            else:
                end = lines.find("\n#", below)
                rows = lines[below : end + 1 if end >= 0 else len(lines)]
                if _FAILED_ROW_HAS in rows:
                    failures += [
                        failed(name, "latency", reason, int(size), layout.params)
                        for size, reason in _FAILED_ROW.findall(rows)
                    ]
                yield head, rows
        elif name:
            failures.append(failed(name, "latency", "the lines around its title are not IMB's"))
        above = body
        place = body.find(_PROGRAM_TITLE_BEGINS)
        told = _PROGRAM_TITLE.search(body, place) if place >= 0 else None
        if told:  # of the run that begins behind this table
            version, program = told[1], f"IMB-{told[2].replace('1', 'MPI1')}"


def _readings(head: _Head, tables: Sequence[str], together: bool) -> Iterator[Iterable[Reading]]:
    """Readings of tables of one layout, column by column."""
    layout = _layout(head)
    for rows in rows_of_tables(tables, layout.cells, together):
        if not any(rows.of_tables):
            yield [failed(layout.name, "latency", "the table has no row", params=layout.params)]
        elif not layout.grouped and not _mixed(layout, rows):
            yield from _columns(layout, rows.columns)
        else:
            for table in rows.apart():
                yield from _of_table(head, layout, table)


def _of_table(head: _Head, layout: _Layout, rows: Rows) -> Iterator[Iterable[Reading]]:
    """Readings of one table, group by group."""
    layouts, parts = [layout], [rows]
    if layout.grouped:
        groups = sorted(
            (int(group), group, kind) for kind, (group,) in enumerate(rows.words) if kind in rows.kinds
        )
        layouts = [_layout(head, group) for _, group, _ in groups]
        chosen = [[of_row == kind for of_row in rows.kinds] for _, _, kind in groups]
        parts = [
            Rows([list(compress(cells, of_group)) for cells in rows.columns], (sum(of_group),))
            for of_group in chosen
        ]
    for layout, part in zip(layouts, parts, strict=True):
        if _mixed(layout, part):
            reason = "rows of several tables: sizes do not ascend"
            yield [failed(layout.name, "latency", reason, params=layout.params)]
        else:
            yield from _columns(layout, part.columns)


def _mixed(layout: _Layout, rows: Rows) -> bool:
    """Whether the sizes of some table do not ascend."""
    if layout.sizes is None:
        return max(rows.of_tables) > 1
    sizes = rows.columns[layout.sizes]
    descents = compress(count(1), map(ge, sizes, islice(sizes, 1, None)))
    return not set(accumulate(rows.of_tables)).issuperset(descents)


def _columns(layout: _Layout, columns: Sequence[Sequence[Any]]) -> Iterator[Iterable[Reading]]:
    """Readings of columns. A zero is a number too small to be printed."""
    sizes: Iterable[int | None] = repeat(None) if layout.sizes is None else columns[layout.sizes]
    for place, zeros, column in layout.measured:
        numbers, measured = columns[place], sizes
        if not zeros and not all(numbers):
            numbers, measured = list(filter(None, numbers)), compress(sizes, numbers)
        yield column.readings(numbers, measured)


@lru_cache(maxsize=1024)
def _layout(head: _Head, group: str = "") -> _Layout:
    """The table's columns, for one of its groups; none without a heading."""
    name, header, program, version = head
    heading = _HEADING.search(header)
    names = heading[1].split() if heading else []
    shared = _params(header[: heading.start() + 1] if heading else header, program)
    of_group = {"group": group} if group else {}
    measured = [
        _Measured(
            place,
            metric == "overlap",
            Column(name, metric, {**shared, **own, **of_group}, version),
        )
        for place, title in enumerate(names)
        if title in _QUANTITIES
        for metric, _, own in (_QUANTITIES[title],)
    ]
    cells = tuple(
        _CELLS.get(title) or Cell(NUMBER, _QUANTITIES[title][1] if title in _QUANTITIES else "")
        for title in names
    )
    sizes = names.index("#bytes") if "#bytes" in names else None
    return _Layout(name, cells, measured, shared, sizes, names[:1] == ["Group"])


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
