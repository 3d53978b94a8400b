"""Hotspots: where observed programs spend their time by their stacks, and what could be gained there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from npc.figures.flame import FlameGraph, flame_graph, kind_of
from npc.page.blocks import (
    Block,
    Cell,
    Listing,
    Table,
    Text,
    count,
    flame_figure,
    number,
    percent,
    quantity,
)
from npc.records.hotspots import Hotspot, Hotspots
from npc.records.units import plural
from npc.report.observed import Observed, overhead_lines
from npc.report.programs import programs
from npc.report.runs import Report, Run
from npc.report.sections import present
from npc.roofline.kernels import kernel_lines

TITLE = "Hotspots"
PLACE = 90
_READING = (
    "a bar is a function, as wide as its share of all samples, its own and of what it calls; below it stands "
    "what it calls, what takes longest on the left. Where nothing is below a bar, the time is its own. A "
    "dashed edge marks where ranks differ."
)
_NAMES: Final = (
    "function", "in", "share", "least rank", "most rank", "bound by", "evidence", "2 × faster", "∞ faster",
)  # fmt: skip
_LOOPS: Final = (
    "function", "loop", "of its samples", "at most", "held by", "FLOP", "bytes", "instructions",
    "cycles by ports", "cycles by dependencies", "at a clock of", "model", "notes",
)  # fmt: skip
_LOOP_NOTE = (
    "FLOP, bytes, instructions and cycles are of one iteration of the machine code. The bound holds where "
    "all data are in the first cache: what a loop in memory reaches, the roofline says."
)
_NOTE = (
    "share: of all samples, its own. 2 × and ∞ faster: by how much the whole program would be faster at most "
    "if this function were twice as fast, or took no time (Amdahl's law)."
)


def build(report: Report) -> Iterator[Block]:
    """Program by program the newest run."""
    blocks = programs(report, lambda launch: launch.hotspots, _program)
    return present(blocks, "the stacks of no program were taken (npc observe --hotspots -- mpirun …)")


def _program(report: Report, run: Run, launch: Observed, found: Hotspots) -> Iterator[Block]:
    if found.status != "ok":
        yield Text(f"No stacks: {found.status}.", "note")
        return
    taken = f"{found.rate:g} a second and CPU, by {found.source}"
    lines = (
        f"{found.samples} samples of {plural(found.ranks, 'rank')}, {taken}",
        *([f"{100 * found.unresolved:.3g} % are in functions without a symbol, whose addresses are shown"]
          if found.unresolved else []),
        *found.notes,
        *overhead_lines(launch.overhead),
    )  # fmt: skip
    yield launch.heading(lines)
    table = hotspots_table(found, (launch.ident,))
    first = found.hotspots[0] if found.hotspots else None
    shows = f"The stacks of {launch.name}."
    if first:
        shows += f" {100 * first.share:.3g} % of the samples are in {first.function} ({first.module})."
    text = f"{shows} The table below has the functions with most samples."
    flame = flame_graph(found, report.ident(), f"Flame graph: {launch.name}", text)
    if flame.bars:
        yield flame_figure(flame, f"{shows}{_left_out(flame)}", _READING, table)
    else:
        yield table
    yield from loops_table(found)
    yield from (Text(line) for line in kernel_lines(run.records, found.hotspots))


def _left_out(flame: FlameGraph) -> str:
    return f" {flame.left_out} bars are too short to be drawn." if flame.left_out else ""


def hotspots_table(found: Hotspots, records: tuple[str, ...] = ()) -> Table:
    """The functions with most samples of their own: what they wait for, and what could be gained."""
    metrics = sorted({name for each in found.hotspots for name in each.metrics})
    unknown = {each.evidence: None for each in found.hotspots if each.bound == "unknown" and each.evidence}
    once = next(iter(unknown)) if len(unknown) == 1 else ""
    rows = tuple(
        (
            Cell(each.function, records),
            Cell(each.module, kind=f"kind k-{kind_of(each.module)}"),
            percent(each.share),
            percent(each.least),
            percent(each.most),
            Cell(each.bound),
            Cell("" if each.evidence == once else each.evidence),
            _speedup(each, 2.0),
            _speedup(each, math.inf),
            *(number(each.metrics.get(name), ".4g") for name in metrics),
        )
        for each in found.hotspots
    )
    names = (*_NAMES, *(name.replace("_", " ") for name in metrics))
    note = f"{_NOTE} Bounds are unknown: {once}." if once else _NOTE
    return Table("Numbers: functions by their own samples", names, rows, note=note)


def _speedup(each: Hotspot, factor: float) -> Cell:
    gain = each.speedup(factor)
    return Cell(f"× {gain:.3g}" if math.isfinite(gain) else "× ∞", sort=gain, kind="number")


def loops_table(found: Hotspots) -> Iterator[Block]:
    """The hottest loop of each function at rest, and of those without one the reason."""
    rows = tuple(
        (
            Cell(each.function), Cell(loop.source or loop.address), percent(loop.share),
            quantity(loop.flops, "FLOP/s") if loop.flop else Cell("no FLOP", sort=0.0, kind="number"),
            Cell("dependencies" if loop.holds == "dependencies" else "execution ports"),
            number(loop.flop, ".4g"), number(loop.bytes, ".4g"), count(loop.instructions),
            number(loop.port_cycles, ".4g"), number(loop.chain_cycles, ".4g"), quantity(loop.clock_hz, "Hz"),
            Cell(loop.model), Cell("; ".join(loop.notes)),
        )
        for each in found.hotspots
        if (loop := each.loop)
    )  # fmt: skip
    if rows:
        yield Table("Hot loops at rest: what the machine code allows a core", _LOOPS, rows, note=_LOOP_NOTE)
    reasons = tuple(
        Cell(f"{each.function}: {each.loop_reason}") for each in found.hotspots if each.loop_reason
    )
    if reasons:
        yield Listing("Hotspots without the bound of a loop", reasons)
