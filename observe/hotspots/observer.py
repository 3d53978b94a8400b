"""``npc observe --hotspots``: where all ranks compute, by stacks that perf records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from npc.commands.rare_options import RareOption
from npc.observe.observer import ObservationRequest, ObservedPart, RanksLeft, RunObserver

if TYPE_CHECKING:
    from npc.observe.options import CompanionOptions

#: Stacks per second; not a round number, so that it does not fall into step with what a program repeats.
_RATE_HZ: Final = 99.0


class HotspotsObserver(RunObserver):
    """Records stacks of all ranks, and judges the hottest functions and their loops."""

    name = "hotspots"
    key = "hotspots"
    title = "Hotspots"
    purpose = (
        "In which functions and loops the ranks compute, and what these wait for. Needs perf; takes about "
        "0.1 % of the run time."
    )
    order = 20
    options = (
        click.Option(
            ["--hotspots"], is_flag=True, help="Record the stacks of all ranks by perf: where they compute."
        ),
        RareOption(
            ["--rate"],
            metavar="HZ",
            type=click.FloatRange(1, 1000),
            help="Stacks per second with --hotspots (default: 99).",
        ),
        RareOption(
            ["--call-graph"],
            type=click.Choice(["fp", "dwarf", "lbr"]),
            help="How perf finds callers: by frame pointers (fp, default), copies of the stack (dwarf), "
            "which cost 8 KiB a sample, or the processor's record of branches (lbr).",
        ),
    )
    examples = (
        "npc observe --hotspots -- mpirun -n 8 ./app",
        "npc observe --hotspots --check-observer 10 -- mpirun -n 8 ./app",
    )

    def __init__(self, rate_hz: float, call_graph: str) -> None:
        self._settings = {"rate": rate_hz, "call_graph": call_graph}
        self._call_graph = call_graph

    @classmethod
    def requested(cls, values: Mapping[str, Any], _: ObservationRequest) -> HotspotsObserver | None:
        rate_hz, call_graph = values["rate"], values["call_graph"]
        if values["hotspots"]:
            return cls(rate_hz or _RATE_HZ, call_graph or "fp")
        if rate_hz is not None or call_graph is not None:
            raise ValueError("--rate and --call-graph go with --hotspots")
        return None

    def companion(self, _: Path) -> CompanionOptions:
        from npc.observe.hotspots.recorder import HotspotRecorder
        from npc.observe.options import CompanionOptions

        return CompanionOptions.of(HotspotRecorder, self._settings)

    def read(self, left: RanksLeft) -> ObservedPart:
        from npc.observe.hotspots.merge import read_hotspots
        from npc.observe.hotspots.sample_cost import overhead_of_samples

        damaged: list[str] = []
        hotspots = read_hotspots(left.folder, damaged)
        estimate = partial(overhead_of_samples, left.ranks, self._call_graph)
        return ObservedPart(content=hotspots, notes=damaged, overhead=estimate)

    def lines(self, content: Any) -> Iterator[str]:
        from npc.observe.hotspots.table import hotspots

        return hotspots(content)


OBSERVER: Final = HotspotsObserver
