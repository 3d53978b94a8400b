"""``npc observe --memory``: which structures a program accesses in memory, and which threads share them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from npc.commands.rare_options import RareOption
from npc.observe.observer import ObservationRequest, ObservedPart, RanksLeft, RunObserver

if TYPE_CHECKING:
    from npc.observe.options import CompanionOptions

#: Share of the run time that sampling may take, where the user gives none.
_USUAL_BUDGET: Final = 0.1


class MemoryObserver(RunObserver):
    """Counts or samples accesses of all threads; the program is far slower then."""

    name = "memory"
    key = "memory"
    title = "Memory"
    purpose = (
        "Which structures are accessed, by which threads, and what is shared or far away. Slows the program "
        "down, so nothing else is measured in such a run; --overhead limits sampling (10 %)."
    )
    order = 30
    options = (
        click.Option(
            ["--memory"],
            is_flag=False,
            flag_value="auto",
            metavar="[count|sample|valgrind]",
            type=click.Choice(["auto", "count", "sample", "valgrind"]),
            help="Look at accesses to memory: count every one of a program that npc program cc has built. "
            "Any program: valgrind counts accesses in small runs, sample (experimental) sees some by page "
            "faults. Nothing else is measured in such a run.",
        ),
        RareOption(
            ["--interval"],
            metavar="SECONDS",
            type=click.FloatRange(0.01, 60),
            help="Between two looks at all pages with --memory=sample (0.1).",
        ),
    )
    examples = ("npc observe --memory --note 'grid 64, not 512' -- ./app",)
    alone = "--memory slows the program down"

    def __init__(self, mode: str, interval_s: float | None, request: ObservationRequest) -> None:
        self._mode = mode
        self._interval_s = interval_s
        self._request = request
        self._settings: Mapping[str, Any] = {}

    @classmethod
    def requested(cls, values: Mapping[str, Any], request: ObservationRequest) -> MemoryObserver | None:
        if values["memory"]:
            return cls(values["memory"], values["interval"], request)
        if values["interval"] is not None:
            raise ValueError("--interval goes with --memory")
        return None

    def prepare(self) -> bool:
        from npc.observe.built import NoLibrary
        from npc.observe.memory.asked import memory_settings

        request = self._request
        budget = request.budget if request.is_budget_given else _USUAL_BUDGET
        try:
            self._settings = memory_settings(self._mode, request.program, self._interval_s, budget)
        except (NoLibrary, ValueError) as error:
            raise click.UsageError(f"--memory: {error}") from None
        if self._settings["mode"] == "count" and request.pairs and not request.plain:
            raise click.UsageError(
                f"--check-observer: {request.program} counts in all runs: --plain names it as usually built"
            )
        return True

    def words(self) -> tuple[str, ...]:
        from npc.observe.memory.companion import VALGRIND

        return VALGRIND if self._settings["mode"] == "valgrind" else ()

    def companion(self, _: Path) -> CompanionOptions:
        from npc.observe.memory.companion import RankMemoryTable
        from npc.observe.options import CompanionOptions

        return CompanionOptions.of(RankMemoryTable, self._settings)

    def read(self, left: RanksLeft) -> ObservedPart:
        from npc.observe.memory.merge import read_memory

        damaged: list[str] = []
        return ObservedPart(content=read_memory(left.folder, damaged), notes=damaged)

    def save(self, content: Any, stem: Path) -> None:
        from npc.observe.memory.outputs import save_tables

        save_tables(content, stem)

    def slowed(self, content: Any, slowdown: float) -> Any:
        return replace(content, slowdown=slowdown)

    def lines(self, content: Any) -> Iterator[str]:
        from npc.observe.memory.outputs import memory

        return memory(content)


OBSERVER: Final = MemoryObserver
