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

from npc.record import OK, Reading
from parsers import NUMBER, WHOLE, complete_lines, failed

_TITLE: Final = re.compile(
    rf"\n# NPC (\w{{1,40}}): ({WHOLE}) processes, {WHOLE} nodes, ({WHOLE}) threads each(?=\n)"
)
_MPI: Final = re.compile(r"\n# MPI: ([^\n]{1,100})(?=\n)")
_OVERSUBSCRIBED: Final = re.compile(r"\n# Oversubscribed: ([^\n]{1,200})(?=\n)")
_COLUMNS: Final = re.compile(r"\n# Columns: ([^\n]{1,400})(?=\n)")
_B_EFF: Final = re.compile(rf"\n# b_eff: ({NUMBER}) MB/s(?=\n)")
_ERROR: Final = re.compile(r"\n((?:rings|multirate|pingpong)\.py: [^\n]*)")
_CELL: Final = r"[\w.-]{1,40}"
#: column → metric, what one printed unit is, qualifiers.
_QUANTITIES: Final[dict[str, tuple[str, float, dict[str, str]]]] = {
    "latency_us": ("latency", 1e-6, {}),
    "latency_p99_us": ("latency", 1e-6, {"statistic": "p99"}),
    "bandwidth_MB/s": ("bandwidth", 1e6, {}),
    "messages/s": ("message_rate", 1.0, {}),
}
_SIZE: Final = "size_B"
_NOTHING: Final = "-"


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every table, row by row; the failure of a table without an end, or of no table at all."""
    text = complete_lines(text)
    parts = _TITLE.split(text)
    for program, processes, threads, body in zip(*(parts[place::4] for place in (1, 2, 3, 4)), strict=True):
        yield from _table(program, {"processes": processes, "threads": threads}, body + "\n")
    error = _ERROR.search(text)
    if len(parts) == 1 and error:
        yield failed(error[1].partition(".py")[0], "latency", error[1])


def _table(program: str, params: dict[str, str], body: str) -> Iterator[Reading]:
    """Readings of one table; `body` begins with the title's line end."""
    columns = _COLUMNS.search(body)
    end = body.find("\n# End\n")
    if columns is None or end < columns.end():
        yield failed(program, "latency", "the table has no end", params=params)
        return
    library, shared = _MPI.search(body), _OVERSUBSCRIBED.search(body)
    if library:
        params = {**params, "mpi_library": library[1]}
    status = f"invalid: oversubscribed: {shared[1]}" if shared else OK
    names = columns[1].split()
    cells = [rf"({NUMBER}|-)" if name in _QUANTITIES else rf"({_CELL})" for name in names]
    rows = re.compile(r"^[ \t]*" + r"[ \t]+".join(cells) + r"[ \t]*$", re.MULTILINE)
    for row in rows.findall(body, columns.end(), end + 1):
        yield from _row(program, dict(zip(names, row, strict=True)), params, status)
    b_eff = _B_EFF.search(body, columns.end())
    if b_eff:
        yield Reading("b_eff", "bandwidth", float(b_eff[1]) * 1e6, None, status, params)


def _row(program: str, cells: dict[str, str], params: dict[str, str], status: str) -> Iterator[Reading]:
    size = cells.pop(_SIZE, "")
    qualifiers = {name: cell for name, cell in cells.items() if name not in _QUANTITIES}
    for name, cell in cells.items():
        if name in _QUANTITIES and cell != _NOTHING:
            metric, unit, own = _QUANTITIES[name]
            yield Reading(
                program,
                metric,
                float(cell) * unit,
                int(size) if size.isdecimal() else None,
                status,
                {**params, **qualifiers, **own},
            )
