"""Reads the counters over time that ``library/variables.c`` leaves in a rank's file.

The structures are those of library/variables.h. The counters are performance variables of the running MPI
(MPI_T, MPI 4.0 chapter 15.3), software-defined events of the program and its libraries (PAPI's libsde), and
the profile's own totals (``npc::calls``, …) at each moment.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from npc.observe.c_header import dtype
from npc.observe.mpi.asked import LAYOUT
from npc.observe.mpi.profile import Snapshot, Variable

COLUMNS: Final = LAYOUT.numbers["NPC_COLUMNS"]
ROWS: Final = LAYOUT.numbers["NPC_ROWS"]
_TABLE: Final = dtype(LAYOUT.structures["npc_table"])
_COLUMN: Final = dtype(LAYOUT.structures["npc_column"])
_NOT_READ: Final = {
    "off": "are switched off (of Open MPI's SPC, mpi_spc_attach names those that count)",
    "unused": "are of a network that is not in use",
    "objects": "belong to windows, files or requests",
    "others": "are states or of types that are no numbers",
}


class RankCounters(NamedTuple):
    """A rank's counters."""

    #: What each of them is.
    variables: tuple[Variable, ...]
    #: Their values, in the order of time.
    snapshots: tuple[Snapshot, ...]
    #: What was asked for and could not be had, and why; a sentence each.
    notes: tuple[str, ...]


def read_counters(table: bytes, columns: bytes) -> RankCounters:
    """From the bytes of the sections NPC_VARIABLES and NPC_SNAPSHOTS that are in use.

    Raises ValueError for others than the library writes.
    """
    if len(table) != _TABLE.itemsize or len(columns) % _COLUMN.itemsize:
        raise ValueError("the counters' sections have another form: of another version, or damaged")
    header = np.frombuffer(table, _TABLE)[0]
    rows = int(header["rows"])
    if rows > ROWS:
        raise ValueError("the counters' sections are damaged")
    if header["moving"]:
        return RankCounters((), (), ("the rank ended while its snapshots were thinned out: they are lost",))
    read = np.frombuffer(columns, _COLUMN)
    variables = tuple(
        Variable(
            name=_text(column["name"]),
            kind=_text(column["kind"]),
            description=_text(column["about"]),
            unit=_text(column["unit"]),
        )
        for column in read
    )
    names = [variable.name for variable in variables]
    snapshots = tuple(
        Snapshot(
            at / 1e9, {name: value for name, value in zip(names, row, strict=True) if not math.isnan(value)}
        )
        for at, row in zip(header["at"][:rows].tolist(), read["values"][:, :rows].T.tolist(), strict=True)
    )
    return RankCounters(variables, snapshots, tuple(_notes(header)))


def _text(field: bytes) -> str:
    return field.decode("utf-8", errors="replace")


def _notes(header: np.void) -> list[str]:
    """Sentences about counters that were asked for and are missing."""
    notes = []
    if header["no_mpi_t"]:
        notes.append(f"MPI_T does not start (code {header['no_mpi_t']}): no performance variables")
    elif header["mpit"]["names"]:
        if header["offered"] == 0:
            notes.append("this MPI offers no performance variables (npc doctor)")
        notes += _unmatched("--mpit", header["mpit"], "performance variable of this MPI")
        for name, why in _NOT_READ.items():
            if header[name]:
                notes.append(f"{header[name]} performance variables are not read: they {why}")
    if header["no_sde"]:
        notes.append("no software-defined events: no library of the program uses PAPI's libsde (docs/mpi.md)")
    elif header["sde"]["names"]:
        notes += _unmatched("--sde", header["sde"], "software-defined event")
    if header["untyped"]:
        notes.append(
            f"{header['untyped']} software-defined events are of an unknown type: of recorders only the "
            "number of entries is read, of others nothing"
        )
    if header["no_room"]:
        notes.append(f"{header['no_room']} counters found no place: {COLUMNS} are kept; ask for some by name")
    return notes


def _unmatched(option: str, choice: np.void, what: str) -> list[str]:
    """choice: `npc_choice`."""
    names = _text(choice["names"]).split(",")
    matched = int(choice["matched"])
    lost = [name for bit, name in enumerate(names) if not matched >> bit & 1 and name != "all"]
    return [f"{option} {', '.join(lost)}: there is no such {what}"] if lost else []
