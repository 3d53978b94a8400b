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
from itertools import chain, compress, repeat
from operator import mul
from struct import iter_unpack
from typing import Final, NamedTuple

from npc.record import OK, Reading
from parsers import NUMBER, WHOLE, columns_of_rows, complete_lines, failed, numbers

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
_END: Final = "\n# End\n"


class _Layout(NamedTuple):
    """A table: what a row is like, the places of size (if there is one) and qualifiers in it, and of the
    measured columns the places, metrics, units and qualifiers; if the qualifiers come first, what they are
    like together with the blank behind them, and the patterns of the other cells."""

    row: re.Pattern[str]
    size: int | None
    qualifiers: dict[str, int]
    measured: list[int]
    metrics: list[str]
    units: list[float]
    params: list[dict[str, str]]
    label: re.Pattern[bytes] | None
    cells: tuple[str, ...]


class _Rows(NamedTuple):
    """A table's rows: of each its label, that is what qualifies it, and its size; the qualifiers of each
    label; the measured columns; and cell by cell whether there is a number, if some have none."""

    labels: Sequence[object]
    qualifiers: Mapping[object, Sequence[str]]
    sizes: Sequence[int | None]
    columns: Sequence[Sequence[float]]
    shown: list[bool]


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
    behind = body.find("\n#", columns.end()) if columns else -1  # the rows: all searches from there are short
    end = body.find(_END, behind)
    if columns is None or end < 0 or _END in body[: columns.end() + 1]:
        return [failed(program, "latency", "the table has no end", params=params)]
    library = _MPI.search(body)
    shared = _OVERSUBSCRIBED.search(body) if "Oversubscribed" in body else None
    if library:
        params["mpi_library"] = library[1]
    status = f"invalid: oversubscribed: {shared[1]}" if shared else OK
    layout = _layout(columns[1])
    b_eff = _B_EFF.search(body, behind)
    rows_end = behind if b_eff and b_eff.span() == (behind, end) else end
    lines = body[columns.end() : rows_end + 1]
    rows = _aligned_rows(lines, layout) or _rows(lines, layout)
    readings = _readings(program, rows, layout, params, status) if rows else iter(())
    if b_eff is None:
        return readings
    return chain(readings, (Reading("b_eff", "bandwidth", float(b_eff[1]) * 1e6, None, status, params),))


def _aligned_rows(lines: str, layout: _Layout) -> _Rows | None:
    """The rows of a table that are all as long, with numbers in all measured columns, behind the place where
    those of the last row begin; None of any other table. In half of the time of `_rows`.

    Every row's label is checked, and as many rows of numbers as labels leave none that does not belong to its
    label.
    """
    count = lines.count("\n") - 1
    length = lines.find("\n", 1)
    if layout.label is None or _NOTHING in lines or len(lines) != count * length + 1 or not lines.isascii():
        return None
    text = lines[:-1].encode()
    last = layout.label.match(text, len(text) - length + 1)
    if last is None or text[::length] != b"\n" * count:
        return None
    width = last.end() - last.start()
    labels, cells = zip(*iter_unpack(f"x{width}s{length - 1 - width}s", text), strict=True)
    qualifiers = {label: label.decode().split() for label in set(labels) if layout.label.fullmatch(label)}
    columns = columns_of_rows("\n" + b"\n".join(cells).decode(), layout.cells)
    if len(columns[0]) < count or len(qualifiers) < len(set(labels)):
        return None
    sizes = [None] * count if layout.size is None else columns.pop(0)
    return _Rows(labels, qualifiers, sizes, columns, [])


def _rows(lines: str, layout: _Layout) -> _Rows | None:
    """The rows of any table; None if it has none."""
    cells = list(zip(*layout.row.findall(lines), strict=True))
    if not cells:
        return None
    count = len(cells[0])
    sizes: Sequence[int | None] = [None] * count
    if layout.size is not None:
        sizes = [int(cell) if cell.isdecimal() else None for cell in cells[layout.size]]
    qualifiers = [cells[place] for place in layout.qualifiers.values()]
    labels = list(zip(*qualifiers, strict=True)) or [()] * count
    printed = [cells[place] for place in layout.measured]
    shown = [cell != _NOTHING for row in zip(*printed, strict=True) for cell in row]
    columns = [numbers([cell if cell != _NOTHING else "0.0" for cell in column]) for column in printed]
    return _Rows(labels, {label: label for label in set(labels)}, sizes, columns, [] if all(shown) else shown)


def _readings(
    program: str, rows: _Rows, layout: _Layout, params: Mapping[str, str], status: str
) -> Iterator[Reading]:
    """Readings of a table's rows, one after the other; rows that are qualified alike share their params."""
    params_of = {
        label: {**params, **dict(zip(layout.qualifiers, cells, strict=True))}
        for label, cells in rows.qualifiers.items()
    }
    of_rows = list(map(params_of.__getitem__, rows.labels))
    readings = []
    for metric, unit, own, column in zip(
        layout.metrics, layout.units, layout.params, rows.columns, strict=True
    ):
        values = map(mul, column, repeat(unit))
        of_column = [{**of_row, **own} for of_row in of_rows] if own else of_rows
        fields = zip(
            repeat(program), repeat(metric), values, rows.sizes, repeat(status), of_column, repeat("")
        )
        readings.append(map(tuple.__new__, repeat(Reading), fields))
    row_by_row = chain.from_iterable(zip(*readings, strict=True))
    return compress(row_by_row, rows.shown) if rows.shown else row_by_row


@lru_cache
def _layout(heading: str) -> _Layout:
    """The columns that a heading names."""
    names = heading.split()
    cells = [rf"({WHOLE}\.{WHOLE}|{WHOLE}|-)" if name in _QUANTITIES else rf"({_CELL})" for name in names]
    places = {name: place for place, name in enumerate(names)}
    measured = [name for name in places if name in _QUANTITIES]
    qualifiers = {name: place for name, place in places.items() if name not in _QUANTITIES and name != _SIZE}
    size = [_SIZE] if _SIZE in places else []
    label = r"[ \t]*" + r"[ \t]+".join([_CELL] * len(qualifiers)) + r"[ \t]+"
    return _Layout(
        re.compile(r"\n[ \t]*" + r"[ \t]+".join(cells) + r"()[ \t]*(?=\n)"),  # two groups at least: tuples
        places.get(_SIZE),
        qualifiers,
        [places[name] for name in measured],
        [_QUANTITIES[name][0] for name in measured],
        [_QUANTITIES[name][1] for name in measured],
        [_QUANTITIES[name][2] for name in measured],
        re.compile(label.encode()) if measured and names == [*qualifiers, *size, *measured] else None,
        (*[WHOLE] * len(size), *[NUMBER] * len(measured)),
    )
