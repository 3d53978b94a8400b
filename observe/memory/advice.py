"""The hints of `npc observe --memory` as advice."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from npc.observe.memory.records import MEMORY, MemoryUse
from npc.report.advice.rule import Judgement, add_words, hint, rule
from npc.report.observed import Observed, newest
from npc.report.runs import Run

add_words(Path(__file__).with_name("rules.toml"))
#: Hints that name no fault: some structure always has most accesses.
_NO_FAULT: Final = ("heaviest structure",)


@rule("memory_use")
def memory_use(run: Run) -> Judgement:
    """False sharing, first touch and the like, of the newest look at each program's memory."""
    programs = newest(launch for launch in run.observed if _memory(launch))
    if not programs:
        return "no program whose memory was looked at (npc observe --memory)"
    hints = []
    for program in programs:
        memory = _memory(program)
        for memory_hint in memory.hints if memory else ():
            if memory_hint.rule in _NO_FAULT:
                continue
            most = f"; at most: {memory_hint.gain}" if memory_hint.gain else ""
            evidence = (
                f"{program.name}: {memory_hint.rule} in {memory_hint.structure}: {memory_hint.evidence}{most}"
            )
            hints.append(
                hint(
                    "memory_use",
                    evidence,
                    None,
                    (program.raw,),
                    do=memory_hint.do,
                    application=program.program,
                )
            )
    return hints


def _memory(launch: Observed) -> MemoryUse | None:
    """What was seen of its memory; None where nothing was."""
    memory = launch.part(MEMORY, MemoryUse)
    return memory if memory and memory.status == "ok" else None
