"""The programs of ``benchmarks/patterns``: rings, message rate of pairs and threads, ping-pong under load.

A table has a title, ``# Columns:`` with their names, and a last line ``# End``; a column's name says what it
holds and its unit (M is 10^6), any other column qualifies the row. `case` is the program's name, and
``b_eff`` for the effective bandwidth that rings prints below its table.

A table without its last line has failed and no row of it counts, because the run may have been the reason.
Where the processes had to share CPUs (``# Oversubscribed:``) every number is invalid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, compress, repeat
from typing import Final, NamedTuple

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import NUMBER, WHOLE, complete_lines
from parsers.text.readings import Column
from parsers.text.tables import OPTIONAL, Cell, by_layout, is_long, rows_of_tables

#: A title with the lines below it that tell what was measured how; the last of these heads the columns.
_HEAD: Final = re.compile(
    rf"\n# NPC (\w{{1,40}}: {WHOLE} processes, {WHOLE} nodes, {WHOLE} threads each(?=\n)"
    r"(?:\n# (?:MPI|Oversubscribed|Columns): [^\n]{1,400}(?=\n))*)"
)
_TITLE: Final = re.compile(r"(\w+): ([0-9]+) processes, [0-9]+ nodes, ([0-9]+) threads each")
_MPI: Final = re.compile(r"\n# MPI: ([^\n]{1,100})(?=\n)")
_OVERSUBSCRIBED: Final = re.compile(r"\n# Oversubscribed: ([^\n]{1,200})(?=\n)")
_COLUMNS: Final = re.compile(r"\n# Columns: ([^\n]{1,400})(?=\n)")
_TOLD: Final = re.compile(r"\n# (?:MPI|Oversubscribed): [^\n]*")
_COLUMNS_BEGIN: Final = "\n# Columns: "
_END: Final = "\n# End\n"
_B_EFF: Final = re.compile(rf"\n# b_eff: ({NUMBER}) MB/s(?=\n)")
_ERROR: Final = re.compile(r"\n((?:rings|multirate|pingpong)\.py: [^\n]*)")
_WORD: Final = r"[A-Za-z0-9_.-]{1,40}"
#: column → metric, the power of ten that makes SI units, qualifiers.
_QUANTITIES: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "latency_us": ("latency", "e-6", {}),
    "latency_p99_us": ("latency", "e-6", {"statistic": "p99"}),
    "bandwidth_MB/s": ("bandwidth", "e6", {}),
    "messages/s": ("message_rate", "", {}),
}
_SIZE: Final = "size_B"


class _Measured(NamedTuple):
    """A measured column: its place, its qualifiers, what its readings share."""

    place: int
    qualifiers: dict[str, str]
    column: Column


class _Layout(NamedTuple):
    """A table: its program, what holds for all of it, a row's cells, the places of size (if
    there is one) and qualifiers in it, and the measured columns."""

    program: str
    status: str
    params: dict[str, str]
    cells: tuple[Cell, ...]
    size: int | None
    qualifiers: list[str]
    measured: list[_Measured]


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every table, column by column; the failure of a table without an end, or of no table."""
    text = complete_lines(text)
    parts = _HEAD.split(text)
    if len(parts) == 1 and (error := _ERROR.search(text)):
        return iter((failed(error[1].partition(".py")[0], "latency", error[1]),))
    others: list[Reading] = []
    tables, long = by_layout(_tables(parts, others)), is_long(text)
    readings = (_readings(head, lines, long) for head, lines in tables.items())
    return chain.from_iterable(chain([others], chain.from_iterable(readings)))


def _tables(parts: Sequence[str], others: list[Reading]) -> Iterator[tuple[str, str]]:
    """What each table's layout follows from, and its lines; the readings of no table go to `others`."""
    for head, body in zip(parts[1::2], parts[2::2], strict=True):
        if _COLUMNS_BEGIN not in head:  # other lines stand above it
            columns = _COLUMNS.search(body)
            if columns and _END not in body[: columns.end()]:
                head, body = head + body[: columns.end()], body[columns.end() :]
        rows, comment, below = body.partition("\n#")
        more, end, below = f"{comment}{below}\n".partition(_END)
        head += "".join(_TOLD.findall(more) + _TOLD.findall(below))
        layout = _layout(head)
        if not end or not layout.cells:
            others.append(failed(layout.program, "latency", "the table has no end", params=layout.params))
            continue
        b_eff = _B_EFF.search(more + "\n") or _B_EFF.search(below)
        if b_eff:
            value = float(b_eff[1] + "e6")
            others.append(Reading("b_eff", "bandwidth", value, None, layout.status, layout.params))
        yield head, rows + more + "\n"


def _readings(head: str, tables: Sequence[str], together: bool) -> Iterator[Iterable[Reading]]:
    """Readings of tables of one layout, column by column; rows qualified alike share their params."""
    layout = _layout(head)
    for rows in rows_of_tables(tables, layout.cells, together):
        sizes = repeat(None) if layout.size is None else rows.columns[layout.size]
        alike = [
            {**layout.params, **dict(zip(layout.qualifiers, words, strict=True))} for words in rows.words
        ]
        for place, own, column in layout.measured:
            values = rows.columns[place]
            params = list(map([{**of_kind, **own} for of_kind in alike].__getitem__, rows.kinds))
            if None in values:
                shown = [value is not None for value in values]
                values, params = list(compress(values, shown)), list(compress(params, shown))
                yield column.readings(values, compress(sizes, shown), params=params)
            else:
                yield column.readings(values, sizes, params=params)


@lru_cache(maxsize=1024)
def _layout(head: str) -> _Layout:
    """The table's columns, none without a heading; `head` goes from the title to the heading or beyond."""
    head += "\n"
    program, processes, threads = _TITLE.findall(head)[0]
    library, shared, heading = (pattern.search(head) for pattern in (_MPI, _OVERSUBSCRIBED, _COLUMNS))
    params = {"processes": processes, "threads": threads}
    if library:
        params["mpi_library"] = library[1]
    status = f"invalid: oversubscribed: {shared[1]}" if shared else OK
    names = heading[1].split() if heading else []
    places = {name: place for place, name in enumerate(names)}
    measured = []
    for name in places:
        if name in _QUANTITIES:
            metric, _, own = _QUANTITIES[name]
            column = Column(program, metric, {**params, **own}, status=status)
            measured.append(_Measured(places[name], own, column))
    return _Layout(
        program,
        status,
        params,
        tuple(map(_cell, names)),
        places.get(_SIZE),
        [name for name in names if name not in _QUANTITIES and name != _SIZE],
        measured,
    )


def _cell(name: str) -> Cell:
    """What the cells of the column called `name` are like."""
    if name in _QUANTITIES:
        return Cell(OPTIONAL, _QUANTITIES[name][1])
    return Cell(WHOLE if name == _SIZE else _WORD)
