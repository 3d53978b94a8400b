"""What an observation says of each rank's time inside MPI, as far as probes are shown beside it.

A part of the key `profile` of ``*.observed.json``, which whoever looked into MPI wrote. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from npc.report.observed import Observed

_PROFILE: Final = "profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankInMpi:
    """One rank of MPI_COMM_WORLD."""

    #: Its number in MPI_COMM_WORLD.
    rank: int
    #: Name of the node that it ran on.
    host: str
    #: How long its whole run took, in s.
    seconds: float
    #: How much of that it was inside MPI, in s.
    mpi: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsByRank:
    """Waiting for other ranks."""

    #: Rank → (how long it waited, how long others waited for it), in s.
    by_rank: Mapping[int, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideMpi:
    """All ranks of a run."""

    #: One entry for each rank; empty where nobody looked into MPI.
    ranks: tuple[RankInMpi, ...] = ()
    #: None where messages were not compared.
    waits: WaitsByRank | None = None

    @property
    def waited(self) -> Mapping[int, tuple[float, float]]:
        """Rank → (how long it waited, how long others waited for it); empty where that is not known."""
        return self.waits.by_rank if self.waits else {}

    @property
    def hosts(self) -> dict[int, str]:
        """The host of each rank."""
        return {rank.rank: rank.host for rank in self.ranks}


def inside_mpi(launch: Observed) -> InsideMpi:
    """What is known of a launch; no ranks where nobody looked into its MPI."""
    return launch.part(_PROFILE, InsideMpi) or InsideMpi()
