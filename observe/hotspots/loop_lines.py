"""The hot loops as lines for the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from npc.observe.hotspots.records import Hotspot, LoopBound
from npc.records.units import format_quantity


def loop_lines(hotspots: Sequence[Hotspot]) -> Iterator[str]:
    """What the hotspots' loops need at least, and why there is no bound for others; no line for those
    whose loops were not looked for."""
    without: defaultdict[str, list[str]] = defaultdict(list)
    for hotspot in hotspots:
        if hotspot.loop is not None:
            yield _line(hotspot.function, hotspot.loop)
            yield from map("  {}".format, hotspot.loop.notes)
        elif hotspot.loop_reason:
            without[hotspot.loop_reason].append(hotspot.function)
    for reason, functions in without.items():
        yield f"loop of {', '.join(functions)}: no bound: {reason}"


def _line(function: str, loop: LoopBound) -> str:
    return (
        f"loop of {function}, {loop.source or loop.address}: {loop.flop:g} FLOP, {loop.bytes:g} B, "
        f"{loop.instructions} instructions an iteration; {_cycles(loop.port_cycles)} by ports, "
        f"{_cycles(loop.chain_cycles)} by dependencies ({loop.model}): {_at_most(loop)} at "
        f"{format_quantity(loop.clock_hz, 'Hz', 3)}"
    )


def _at_most(loop: LoopBound) -> str:
    """The rate that the tighter bound allows a core: in FLOP/s, or in iterations/s where it has no FLOP."""
    if loop.flop:
        rate = format_quantity(loop.flops, "FLOP/s", 3)
    else:
        rate = (
            format_quantity(loop.clock_hz / max(loop.port_cycles, loop.chain_cycles), "/s", 3) + " iterations"
        )
    return f"{loop.holds} hold a core to {rate}"


def _cycles(number: float) -> str:
    return f"{number:.3g} cycle{'s' * (number != 1)}"
