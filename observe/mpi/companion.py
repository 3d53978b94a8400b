"""Loads the profiling library into a rank; it counts MPI calls in memory that outlives the rank.

Uses the standard library alone, as `npc.observe.rank` does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npc.observe.mpi.place import ProfileFile
from npc.observe.options import Companion


class RankLibrary(Companion):
    """A `Companion`. settings: ``library``: is loaded before the program; ``variables``: environment
    variables that the library reads."""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, Any]) -> None:
        self._target = folder / f"{name}.mpi"
        self._variables: Mapping[str, str] = settings.get("variables", {})
        self._profile = ProfileFile(settings["library"])

    @property
    def files(self) -> tuple[int, ...]:
        return (self._profile.file,)

    def become(self) -> None:
        os.environ.update(self._variables)
        os.environ.update(self._profile.environment(os.getppid()))

    def end(self) -> str:
        """Keep what was counted as ``HOST.RANK.mpi``. Returns why nothing was kept; empty where something
        was."""
        return self._profile.keep(self._target)
