"""The programs of ``benchmarks/patterns``: rings, message rate of pairs and threads, ping-pong under load.

A table has a title, ``# Columns:`` with their names, and a last line ``# End``; a column's name says what it
holds and its unit (M is 10^6), any other column qualifies the row. `case` is the program's name, and
``b_eff`` for the effective bandwidth that rings prints below its table.

A table without its last line has failed and no row of it counts, because the run may have been the reason.
Where the processes had to share CPUs (``# Oversubscribed:``) every number is invalid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from npc.parsers.text.lines import NUMBER, WHOLE, complete_lines, sections
from npc.parsers.text.runs import of_one_run
from npc.parsers.text.tables import rows_of
from npc.records.reading import OK, Reading, failed

_TITLE: Final = re.compile(
    rf"\n# NPC (\w{{1,40}}): ({WHOLE}) processes, {WHOLE} nodes, ({WHOLE}) threads each(?=\n)"
)
_MPI: Final = re.compile(r"\n# MPI: ([^\n]{1,100})(?=\n)")
_OVERSUBSCRIBED: Final = re.compile(r"\n# Oversubscribed: ([^\n]{1,200})(?=\n)")
_COLUMNS: Final = re.compile(r"\n# Columns: ([^\n]{1,400})(?=\n)")
_B_EFF: Final = re.compile(rf"\n# b_eff: ({NUMBER}) MB/s(?=\n)")
_ERROR: Final = re.compile(r"\n((rings|multirate|pingpong)\.py: [^\n]*)")
#: Column → metric, the power of ten that makes SI units, qualifiers.
_QUANTITIES: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "latency_us": ("latency", "e-6", {}),
    "latency_p99_us": ("latency", "e-6", {"statistic": "p99"}),
    "bandwidth_MB/s": ("bandwidth", "e6", {}),
    "messages/s": ("message_rate", "", {}),
}
_SIZE: Final = "size_B"
PROGRAMS: Final = r"(?:rings|multirate|pingpong)\.py"
MARKS: Final = r"# NPC \w+: [0-9]+ processes, "


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every table, column by column; the failure of a table without an end, or of no table."""
    text = complete_lines(text)
    tables, error = list(sections(_TITLE, text)), _ERROR.search(text)
    for title, body in tables:
        yield from of_one_run(_table(title, body))
    if error and not tables:
        yield failed(error[2], "latency", error[1])


def _table(title: re.Match[str], body: str) -> Iterator[Reading]:
    """Readings of one table and of the effective bandwidth below it."""
    program, processes, threads = title.groups()
    library, shared = _MPI.search(body), _OVERSUBSCRIBED.search(body)
    params = {"processes": processes, "threads": threads, **({"mpi_library": library[1]} if library else {})}
    status = f"invalid: oversubscribed: {shared[1]}" if shared else OK
    columns, b_eff, end = _COLUMNS.search(body), _B_EFF.search(body), body.find("\n# End\n")
    if columns is None or end < columns.end():
        yield failed(program, "latency", "the table has no end", params=params)
        return
    if b_eff:
        yield Reading("b_eff", "bandwidth", float(b_eff[1] + "e6"), None, status, params)
    names = columns[1].split()
    rows = [
        dict(zip(names, row, strict=True)) for row in rows_of(body[columns.end() : end], map(_cell, names))
    ]
    for name in names:
        metric, power, own = _QUANTITIES.get(name, ("", "", {}))
        for row in rows if metric else ():
            if row[name] != "-":
                size = int(row[_SIZE]) if _SIZE in row else None
                qualifiers = {key: row[key] for key in row if key not in _QUANTITIES and key != _SIZE}
                value = float(row[name] + power)
                yield Reading(program, metric, value, size, status, {**params, **qualifiers, **own})


def _cell(name: str) -> str:
    """What the cells of the column `name` are like; a dash where nothing was measured."""
    if name in _QUANTITIES:
        return rf"{NUMBER}|-"
    return WHOLE if name == _SIZE else r"[A-Za-z0-9_.-]{1,40}"
