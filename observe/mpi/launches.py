"""The launches of a run whose MPI was looked into."""

from __future__ import annotations

from typing import NamedTuple

from npc.observe.mpi.records import PROFILE, Profile
from npc.report.observed import Observed
from npc.report.runs import Run


class ProfiledLaunch(NamedTuple):
    """A launch whose MPI was looked into."""

    #: As `npc observe` recorded it.
    launch: Observed
    #: It has at least one rank.
    profile: Profile

    @property
    def program(self) -> str:
        """As `npc observe` names it."""
        return self.launch.program

    @property
    def name(self) -> str:
        """``himeno, 8 ranks on 2 nodes``."""
        return self.launch.name

    @property
    def raw(self) -> str:
        """The observation's file, relative to the run's folder."""
        return self.launch.raw


def profile_in(launch: Observed) -> Profile | None:
    """The profile of a launch; None where nobody looked into its MPI, or no rank left anything."""
    profile = launch.part(PROFILE, Profile)
    return profile if profile and profile.ranks else None


def profiled_launches(run: Run) -> list[ProfiledLaunch]:
    """Those of a run, the newest first."""
    return [
        ProfiledLaunch(launch, profile)
        for launch in run.observed
        if (profile := profile_in(launch)) is not None
    ]
