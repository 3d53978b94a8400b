"""Which counters the profiling library is to read, and how often (library/variables.h)."""

from __future__ import annotations

from typing import Final

#: Sizes of library/variables.h: characters of the names, with the comma between them, and how many.
ASKED: Final = 512
PATTERNS: Final = 64


def settings(mpit: str | None, sde: str | None, snapshots_s: float | None) -> dict[str, str]:
    """Variables of the ranks' environment for these names of performance variables and of software-defined
    events, and these seconds between snapshots (0: only at the begin and the end; by default 1 where names
    are given).

    Raises ValueError for more than it has room for.
    """
    found = {}
    for option, names in (("MPIT", mpit), ("SDE", sde)):
        if names:
            if len(names.encode()) >= ASKED or names.count(",") >= PATTERNS:
                raise ValueError(
                    f"--{option.lower()}: {PATTERNS} names of {ASKED - 1} characters in all at most"
                )
            found[f"NPC_{option}"] = names
    if snapshots_s is not None or found:
        found["NPC_SNAPSHOTS"] = str(1.0 if snapshots_s is None else snapshots_s)
    if mpit:
        # Open MPI's SPC count nothing before they are attached (ompi_info --param mpi all --level 4)
        found["OMPI_MCA_mpi_spc_attach"] = "all"
    return found
