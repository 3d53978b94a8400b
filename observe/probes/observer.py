"""``npc observe --probe``: events of the kernel and of functions on each node, counted by bpftrace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from npc.observe.observer import ObservationRequest, ObservedPart, RanksLeft, RunObserver

if TYPE_CHECKING:
    from npc.observe.options import CompanionOptions
    from npc.observe.probes.settings import Settings


class ProbesObserver(RunObserver):
    """Has a process on each node count events of all its ranks."""

    name = "probes"
    key = "probes"
    title = "Probes"
    purpose = (
        "System calls, scheduler, faults, files, TCP or any function, with durations. Needs bpftrace as "
        "root. A probe that takes more than --overhead ends itself, and what it counted until then is kept."
    )
    order = 40
    options = (
        click.Option(
            ["--probe", "probes"],
            metavar="WHAT",
            multiple=True,
            help="Count by bpftrace, of all ranks: syscalls, scheduler, faults, io, tcp, softirq, "
            "function:NAME[@LIBRARY], usdt:PROVIDER:NAME[@LIBRARY]. May be repeated.",
        ),
    )
    examples = ("npc observe --probe syscalls --probe function:daxpy@libblas.so.3 -- mpirun -n 8 ./app",)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.budget = settings["overhead"]

    @classmethod
    def requested(cls, values: Mapping[str, Any], request: ObservationRequest) -> ProbesObserver | None:
        from npc.observe.probes.settings import settings_of

        if not values["probes"]:
            return None
        return cls(settings_of(values["probes"], request.program, request.budget))

    def prepare(self) -> bool:
        from npc.observe.costs.cache import NoCost
        from npc.observe.output_copy import say
        from npc.observe.probes.costs import costs

        try:
            self._settings["costs"] = costs()
        except NoCost as reason:
            say(f"what a probe costs is not known: {reason}")
        return True

    def companion(self, ranks: Path) -> CompanionOptions:
        from npc.observe.options import CompanionOptions
        from npc.observe.probes.companion import RankProbes
        from npc.observe.probes.settings import keep_token

        keep_token(ranks)
        return CompanionOptions.of(RankProbes, self._settings)

    def read(self, left: RanksLeft) -> ObservedPart:
        from npc.observe.probes.node_file import overhead_of_probes, read_probes

        probes, notes = read_probes(left.folder, left.ranks)
        estimate = partial(overhead_of_probes, probes, left.ranks) if probes else None
        return ObservedPart(content=probes, notes=notes, overhead=estimate)

    def lines(self, content: Any) -> Iterator[str]:
        from npc.observe.probes.table import probes

        return probes(content)


OBSERVER: Final = ProbesObserver
