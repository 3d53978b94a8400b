"""What a program would gain if its hotspots in mathematical libraries ran in the fastest library measured
here."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from npc.observe.hotspots.kernels import KernelShare, faster_library, kernel_shares
from npc.observe.hotspots.records import HOTSPOTS, Hotspots
from npc.report.advice.rule import Hint, Judgement, add_words, hint, rule
from npc.report.observed import Observed, newest
from npc.report.runs import Run
from npc.roofline.kernels import PRODUCTS, KernelRate, kernel_rates, measured_text

add_words(Path(__file__).with_name("rules.toml"))
#: What takes a smaller share of the run, or gains less of it, is not worth a change.
_WORTH: Final = 0.05


@rule("slow_library")
def slow_library(run: Run) -> Judgement:
    """Matrix products by a library that another one beats here, or by an unknown library."""
    programs = newest(launch for launch in run.observed if launch.part(HOTSPOTS, Hotspots))
    if not programs:
        return "no program whose stacks were taken (npc observe --hotspots)"
    rates = [rate for rate in kernel_rates(run.records) if rate.routine in PRODUCTS]
    lines, lacking = [], False
    for program in programs:
        stacks = program.part(HOTSPOTS, Hotspots)
        for share in kernel_shares(stacks.hotspots) if stacks else ():
            if share.routine not in PRODUCTS or share.share < _WORTH:
                continue
            measured = [rate for rate in rates if rate.routine == share.routine]
            lacking = lacking or not measured
            lines += _hints(program, share, measured) if measured else []
    if lacking and not lines:
        return "no matrix products by the libraries of this machine (blas, tag compute)"
    return lines


def _hints(program: Observed, share: KernelShare, measured: list[KernelRate]) -> list[Hint]:
    part = f"{program.name}: {share.share:.0%} of the time is in {share.routine}"
    names = ", ".join(share.functions[:3])
    raw = (program.raw,)
    if not share.library:
        state = f"{part} by a library that no name tells ({names}); here {measured_text(measured)}"
        return [hint("slow_library.unknown", state, None, raw, application=program.program)]
    faster = faster_library(share, measured)
    if faster is None or share.speedup(faster.factor) < 1 + _WORTH:
        return []
    state = f"{part} by {share.library} ({names}); here {measured_text([faster.other, faster.own])}"
    gain = share.speedup(faster.factor)
    library, application = faster.other.library, program.program
    return [
        hint(
            "slow_library.faster", state, gain, raw, library=library, routine=share.routine,
            application=application,
        )
    ]  # fmt: skip
