"""``npc observe --profile``: what happens inside MPI, counted by a library between program and MPI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from npc.commands.rare_options import RareOption
from npc.observe.observer import MessageCounts, ObservationRequest, ObservedPart, RanksLeft, RunObserver

if TYPE_CHECKING:
    from npc.observe.monitoring import RankFlow
    from npc.observe.mpi.profile import RankProfile
    from npc.observe.options import CompanionOptions


class MpiObserver(RunObserver):
    """Counts time, calls and messages of all ranks inside MPI."""

    name = "mpi"
    key = "profile"
    title = "Inside MPI"
    purpose = (
        "Where ranks wait for each other, and whom they talk to. On by default; a call takes some 80 ns more."
    )
    order = 10
    options = (
        click.Option(
            ["--profile/--no-profile"],
            default=True,
            show_default=True,
            help="Count the time, calls and messages of every rank inside MPI.",
        ),
        RareOption(
            ["--mpit"],
            metavar="NAME,…|all",
            help="Read these counters of the MPI library (MPI_T performance variables), with * and ?; npc "
            "doctor says what there is.",
        ),
        RareOption(
            ["--sde"],
            metavar="NAME,…|all",
            help="Read these software-defined events of the program's libraries (papi_sde), with * and ?.",
        ),
        RareOption(
            ["--snapshots", "snapshots_s"],
            metavar="SECONDS",
            type=click.FloatRange(0),
            help="Read counters every so often, not at the end alone; 1 with --mpit or --sde, 0: never.",
        ),
    )
    examples = ("npc observe --mpit all --snapshots 0.5 -- mpirun -n 8 ./app",)
    patience_s = 3.0  # what is to be written is small

    def __init__(self, request: ObservationRequest, variables: Mapping[str, str]) -> None:
        self._request = request
        self._variables = variables
        self._library = ""
        self.is_usual = not variables

    @classmethod
    def requested(cls, values: Mapping[str, Any], request: ObservationRequest) -> MpiObserver | None:
        from npc.observe.mpi.asked import settings

        variables = settings(values["mpit"], values["sde"], values["snapshots_s"])
        if values["profile"]:
            return cls(request, variables)
        if variables:
            raise ValueError("--mpit, --sde and --snapshots are the profile's: not with --no-profile")
        return None

    def prepare(self) -> bool:
        from npc.observe.built import NoLibrary
        from npc.observe.mpi.build import library_for
        from npc.observe.output_copy import say

        try:
            self._library = str(library_for(self._request.launcher, self._request.program))
        except NoLibrary as reason:
            say(f"inside MPI: unavailable: {reason}")
            return False
        return True

    def companion(self, ranks: Path) -> CompanionOptions:
        from npc.observe.mpi.companion import RankLibrary
        from npc.observe.options import CompanionOptions

        library = self._beside_ranks(ranks)
        return CompanionOptions.of(RankLibrary, {"library": library, "variables": self._variables})

    def clear(self, ranks: Path) -> None:
        (ranks / Path(self._library).name).unlink(missing_ok=True)

    def read(self, left: RanksLeft) -> ObservedPart:
        from npc.observe.mpi.call_cost import overhead_of_calls
        from npc.observe.mpi.rank_file import read_profiles

        profiles, notes = read_profiles(left.folder, left.ranks)
        request = self._request
        estimate = partial(overhead_of_calls, profiles, self._library, request.launcher, request.program)
        return part_of(profiles, left.flows, notes, estimate if profiles else None)

    def lines(self, content: Any) -> Iterator[str]:
        from npc.observe.mpi.counters import counters
        from npc.observe.mpi.records import profile_of
        from npc.observe.mpi.summary import summary

        profile = profile_of({self.key: content})
        if profile is None:
            return
        yield from (*summary(profile), *counters(profile))
        for run in profile.algorithms.ran if profile.algorithms else ():
            yield f"{run.operation} of {run.ranks} ranks, {run.calls} calls: {run.name} (by its messages)"
        yield from map("note: {}".format, profile.notes)

    def _beside_ranks(self, ranks: Path) -> str:
        """A copy of the library in the ranks' folder, which all nodes share; they may not share the user's
        cache. The library itself where that folder allows no execution, or where others may write to it."""
        from npc import own_folder
        from npc.trust import others_may_write

        if os.statvfs(ranks).f_flag & os.ST_NOEXEC or others_may_write(ranks):
            return self._library
        copy = ranks.absolute() / Path(self._library).name
        try:
            own_folder.save(copy, [Path(self._library).read_bytes()])
            copy.chmod(0o700)
        except OSError:  # a full disk is reported by those who write the results
            copy.unlink(missing_ok=True)
            return self._library
        return str(copy)


def part_of(
    profiles: Sequence[RankProfile],
    flows: Sequence[RankFlow] = (),
    notes: Sequence[str] = (),
    overhead: partial[float | None] | None = None,
) -> ObservedPart:
    """The observation's part from these profiles. flows: as MPI itself counted them."""
    from npc.observe.mpi.digest import collectives_of, digest, flows_of, sizes_of

    messages = None
    if profiles:
        messages = MessageCounts(
            flows=flows_of(profiles), collectives=collectives_of(profiles), by_size=sizes_of(profiles)
        )
    return ObservedPart(content=digest(profiles, flows), notes=notes, messages=messages, overhead=overhead)


OBSERVER: Final = MpiObserver
