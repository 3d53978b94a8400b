"""What an MPI launcher tells a process of its place, before MPI is asked. Only the standard library."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

#: Where the launchers say which rank this is, and of how many.
RANK: Final = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "MV2_COMM_WORLD_RANK")
RANKS: Final = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "MV2_COMM_WORLD_SIZE")


def number_of(variables: Iterable[str]) -> int | None:
    """The number that the first of these variables of the environment gives; None where none does."""
    told = (os.environ.get(name, "") for name in variables)
    return next((int(text) for text in told if text.isdecimal()), None)
