"""Which counters the profiling library is to read, and how often (library/variables.h)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from npc.observe.c_header import read_header

LAYOUT: Final = read_header(Path(__file__).with_name("library") / "variables.h")
#: Of the names together, with the commas between them and a zero byte at the end.
_NAMES_BYTES: Final = LAYOUT.numbers["NPC_CHOICE_BYTES"]
_NAMES: Final = LAYOUT.numbers["NPC_CHOICES"]


def settings(mpit: str | None, sde: str | None, snapshots_s: float | None) -> dict[str, str]:
    """Variables of the ranks' environment for these names of performance variables and of software-defined
    events, and these seconds between snapshots (0: only at the begin and the end; by default 1 where names
    are given).

    Raises ValueError for more than it has room for.
    """
    variables = {}
    for option, names in (("MPIT", mpit), ("SDE", sde)):
        if names:
            if len(names.encode()) >= _NAMES_BYTES or names.count(",") >= _NAMES:
                raise ValueError(
                    f"--{option.lower()}: {_NAMES} names of {_NAMES_BYTES - 1} characters in all at most"
                )
            variables[f"NPC_{option}"] = names
    if snapshots_s is not None or variables:
        variables["NPC_SNAPSHOTS"] = str(1.0 if snapshots_s is None else snapshots_s)
    if mpit:
        # Open MPI's SPC count nothing before they are attached (ompi_info --param mpi all --level 4)
        variables["OMPI_MCA_mpi_spc_attach"] = "all"
    return variables
