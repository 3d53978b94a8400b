"""The programs of ``benchmarks/patterns``: rings, message rate of pairs and threads, ping-pong under load.

A table has a title, ``# Columns:`` with their names, and a last line ``# End``; a column's name says what it
holds and its unit (M is 10^6), any other column qualifies the row. `case` is the program's name, and
``b_eff`` for the effective bandwidth that rings prints below its table.

A table without its last line has failed and no row of it counts, because the run may have been the reason.
Where the processes had to share CPUs (``# Oversubscribed:``) every number is invalid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress, cycle, repeat
from operator import mul
from typing import Final, NamedTuple

from npc.record import OK, Reading
from parsers import NUMBER, WHOLE, complete_lines, failed, numbers, readings_of_rows

_TITLE: Final = re.compile(
    rf"\n# NPC (\w{{1,40}}): ({WHOLE}) processes, {WHOLE} nodes, ({WHOLE}) threads each(?=\n)"
)
_MPI: Final = re.compile(r"\n# MPI: ([^\n]{1,100})(?=\n)")
_OVERSUBSCRIBED: Final = re.compile(r"\n# Oversubscribed: ([^\n]{1,200})(?=\n)")
_COLUMNS: Final = re.compile(r"\n# Columns: ([^\n]{1,400})(?=\n)")
_B_EFF: Final = re.compile(rf"\n# b_eff: ({NUMBER}) MB/s(?=\n)")
_ERROR: Final = re.compile(r"\n((?:rings|multirate|pingpong)\.py: [^\n]*)")
_CELL: Final = r"[A-Za-z0-9_.-]{1,40}"
#: column → metric, what one printed unit is, qualifiers.
_QUANTITIES: Final[dict[str, tuple[str, float, dict[str, str]]]] = {
    "latency_us": ("latency", 1e-6, {}),
    "latency_p99_us": ("latency", 1e-6, {"statistic": "p99"}),
    "bandwidth_MB/s": ("bandwidth", 1e6, {}),
    "messages/s": ("message_rate", 1.0, {}),
}
_SIZE: Final = "size_B"
_NOTHING: Final = "-"
_IS_OVERSUBSCRIBED: Final = "\n# Oversubscribed: "


class _Layout(NamedTuple):
    """A table: what a row is like, the places of size (if there is one) and qualifiers in it, and of the
    measured columns the places, metrics, units and qualifiers."""

    row: re.Pattern[str]
    size: int | None
    qualifiers: dict[str, int]
    measured: list[int]
    metrics: list[str]
    units: list[float]
    params: list[dict[str, str]]


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every table, row by row; the failure of a table without an end, or of no table at all."""
    text = complete_lines(text)
    parts = _TITLE.split(text)
    if len(parts) == 1 and (error := _ERROR.search(text)):
        return iter((failed(error[1].partition(".py")[0], "latency", error[1]),))
    return chain.from_iterable(map(_table, parts[1::4], parts[2::4], parts[3::4], parts[4::4]))


def _table(program: str, processes: str, threads: str, body: str) -> Iterable[Reading]:
    """Readings of one table; `body` begins with the title's line end."""
    params = {"processes": processes, "threads": threads}
    body += "\n"
    columns = _COLUMNS.search(body)
    end = body.find("\n# End\n")
    if columns is None or end < columns.end():
        return [failed(program, "latency", "the table has no end", params=params)]
    library = _MPI.search(body)
    shared = _OVERSUBSCRIBED.search(body) if _IS_OVERSUBSCRIBED in body else None
    if library:
        params["mpi_library"] = library[1]
    status = f"invalid: oversubscribed: {shared[1]}" if shared else OK
    layout = _layout(columns[1])
    rows = layout.row.findall(body, columns.end(), end + 1)
    readings = [_readings(program, rows, layout, params, status)] if rows else []
    b_eff = _B_EFF.search(body, columns.end())
    if b_eff:
        readings.append(iter((Reading("b_eff", "bandwidth", float(b_eff[1]) * 1e6, None, status, params),)))
    return chain.from_iterable(readings)


def _readings(
    program: str, rows: list[tuple[str, ...]], layout: _Layout, params: Mapping[str, str], status: str
) -> Iterator[Reading]:
    """Readings of a table's rows, one after the other; rows that are qualified alike share their params."""
    columns = list(zip(*rows, strict=True))
    sizes: Sequence[int | None] = [None] * len(rows)
    if layout.size is not None:
        size_of = {cell: int(cell) if cell.isdecimal() else None for cell in set(columns[layout.size])}
        sizes = [size_of[cell] for cell in columns[layout.size]]
    qualifiers = [columns[place] for place in layout.qualifiers.values()]
    alike = list(zip(*qualifiers, strict=True)) or [()] * len(rows)
    params_of = {}
    for cells in set(alike):
        of_row = {**params, **dict(zip(layout.qualifiers, cells, strict=True))}
        params_of[cells] = [{**of_row, **own} if own else of_row for own in layout.params]
    printed = [row[place] for row in rows for place in layout.measured]
    shown = [cell != _NOTHING for cell in printed] if _NOTHING in printed else None
    if shown:
        printed = [cell if cell != _NOTHING else "0.0" for cell in printed]
    values = map(mul, numbers(printed), cycle(layout.units))
    of_all = list(chain.from_iterable(map(params_of.__getitem__, alike)))
    readings = readings_of_rows(program, layout.metrics, values, sizes, repeat(status), of_all)
    return compress(readings, shown) if shown else readings


@lru_cache
def _layout(heading: str) -> _Layout:
    """The columns that a heading names."""
    names = heading.split()
    cells = [rf"({WHOLE}\.{WHOLE}|{WHOLE}|-)" if name in _QUANTITIES else rf"({_CELL})" for name in names]
    places = {name: place for place, name in enumerate(names)}
    measured = [name for name in places if name in _QUANTITIES]
    return _Layout(
        re.compile(r"\n[ \t]*" + r"[ \t]+".join(cells) + r"()[ \t]*(?=\n)"),  # two groups at least: tuples
        places.get(_SIZE),
        {name: place for name, place in places.items() if name not in _QUANTITIES and name != _SIZE},
        [places[name] for name in measured],
        [_QUANTITIES[name][0] for name in measured],
        [_QUANTITIES[name][1] for name in measured],
        [_QUANTITIES[name][2] for name in measured],
    )
