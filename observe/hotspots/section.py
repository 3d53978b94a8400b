"""Hotspots: where observed programs spend their time by their stacks, and what could be gained there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from npc.observe.hotspots.flame import FlameGraph, flame_figure, flame_graph, kind_of
from npc.observe.hotspots.kernels import kernel_lines
from npc.observe.hotspots.records import HOTSPOTS, Hotspot, Hotspots, LoopBound
from npc.page.blocks import Block, Cell, Column, Listing, Table, Text, count, number, percent, quantity
from npc.records.units import plural
from npc.report.observed import Observed, overhead_lines
from npc.report.programs import programs
from npc.report.runs import Report, Run
from npc.report.sections import present

TITLE = "Hotspots"
PLACE = 90
_READING = (
    "a bar is a function, as wide as its share of all samples, with those of what it calls. Below it stands "
    "what it calls, the longest on the left. Where nothing is below a bar, the time is its own. A "
    "dashed edge marks where ranks differ."
)
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
    blocks = programs(report, lambda launch: launch.part(HOTSPOTS, Hotspots), _program)
    return present(blocks, "the stacks of no program were taken (npc observe --hotspots -- mpirun …)")


def _program(report: Report, run: Run, launch: Observed, hotspots: Hotspots) -> Iterator[Block]:
    if hotspots.status != "ok":
        yield Text(f"No stacks: {hotspots.status}.", "note")
        return
    taken = f"{hotspots.rate:g} a second and CPU, by {hotspots.source}"
    lines = (
        f"{hotspots.samples} samples of {plural(hotspots.ranks, 'rank')}, {taken}",
        *([f"{100 * hotspots.unresolved:.3g} % are in functions without a symbol, whose addresses are shown"]
          if hotspots.unresolved else []),
        *hotspots.notes,
        *overhead_lines(launch.overhead),
    )  # fmt: skip
    yield launch.heading(lines)
    table = hotspots_table(hotspots, (launch.ident,))
    first = hotspots.hotspots[0] if hotspots.hotspots else None
    shows = f"The stacks of {launch.name}."
    if first:
        shows += f" {100 * first.share:.3g} % of the samples are in {first.function} ({first.module})."
    text = f"{shows} The table below has the functions with most samples."
    flame = flame_graph(hotspots, report.ident(), f"Flame graph: {launch.name}", text)
    if flame.bars:
        yield flame_figure(flame, f"{shows}{_left_out(flame)}", _READING, table)
    else:
        yield table
    yield from loops_table(hotspots)
    yield from (Text(line) for line in kernel_lines(run.records, hotspots.hotspots))


def _left_out(flame: FlameGraph) -> str:
    return f" {flame.left_out} bars are too short to be drawn." if flame.left_out else ""


def hotspots_table(hotspots: Hotspots, records: tuple[str, ...] = ()) -> Table:
    """The functions with most samples of their own: what they wait for, and what could be gained."""
    functions = hotspots.hotspots
    metrics = sorted({name for function in functions for name in function.metrics})
    unknown = {
        function.evidence for function in functions if function.bound == "unknown" and function.evidence
    }
    once = next(iter(unknown)) if len(unknown) == 1 else ""
    columns: list[Column[Hotspot]] = [
        Column("function", lambda function: Cell(function.function, records)),
        Column("in", lambda function: Cell(function.module, kind=f"kind k-{kind_of(function.module)}")),
        Column("share", lambda function: percent(function.share)),
        Column("least rank", lambda function: percent(function.least)),
        Column("most rank", lambda function: percent(function.most)),
        Column("bound by", lambda function: function.bound),
        Column("evidence", lambda function: "" if function.evidence == once else function.evidence),
        Column("2 × faster", lambda function: _speedup(function, 2.0)),
        Column("∞ faster", lambda function: _speedup(function, math.inf)),
        *map(_metric, metrics),
    ]
    note = f"{_NOTE} Bounds are unknown: {once}." if once else _NOTE
    return Table.of("Numbers: functions by their own samples", functions, columns, note=note)


def _metric(name: str) -> Column[Hotspot]:
    return Column(name.replace("_", " "), lambda function: number(function.metrics.get(name), ".4g"))


def _speedup(function: Hotspot, factor: float) -> Cell:
    gain = function.speedup(factor)
    return Cell(f"× {gain:.3g}" if math.isfinite(gain) else "× ∞", sort=gain, kind="number")


class _LoopOfFunction(NamedTuple):
    """The hottest loop of a function."""

    #: The function's symbol.
    function: str
    #: What it needs at least.
    loop: LoopBound


_LOOP_COLUMNS: Final[Sequence[Column[_LoopOfFunction]]] = (
    Column("function", lambda row: row.function),
    Column("loop", lambda row: row.loop.source or row.loop.address),
    Column("of its samples", lambda row: percent(row.loop.share)),
    Column("at most", lambda row: _bound(row.loop)),
    Column("held by", lambda row: "dependencies" if row.loop.holds == "dependencies" else "execution ports"),
    Column("FLOP", lambda row: number(row.loop.flop, ".4g")),
    Column("bytes", lambda row: number(row.loop.bytes, ".4g")),
    Column("instructions", lambda row: count(row.loop.instructions)),
    Column("cycles by ports", lambda row: number(row.loop.port_cycles, ".4g")),
    Column("cycles by dependencies", lambda row: number(row.loop.chain_cycles, ".4g")),
    Column("at a clock of", lambda row: quantity(row.loop.clock_hz, "Hz")),
    Column("model", lambda row: row.loop.model),
    Column("notes", lambda row: "; ".join(row.loop.notes)),
)


def loops_table(hotspots: Hotspots) -> Iterator[Block]:
    """The bound of each function's hottest loop, and why others have none."""
    loops = [
        _LoopOfFunction(function.function, function.loop) for function in hotspots.hotspots if function.loop
    ]
    if loops:
        title = "Hot loops at rest: what the machine code allows a core"
        yield Table.of(title, loops, _LOOP_COLUMNS, note=_LOOP_NOTE)
    reasons = tuple(
        Cell(f"{function.function}: {function.loop_reason}")
        for function in hotspots.hotspots
        if function.loop_reason
    )
    if reasons:
        yield Listing("Hotspots without the bound of a loop", reasons)


def _bound(loop: LoopBound) -> Cell:
    return quantity(loop.flops, "FLOP/s") if loop.flop else Cell("no FLOP", sort=0.0, kind="number")
