"""The CPU time of the hottest functions, and what their loops need at least, as readings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from npc.observe.hotspots.records import HOT_LOOP, HOTSPOTS, Hotspots
from npc.records.observed import part_of
from npc.records.reading import OK, Reading
from npc.records.series import OBSERVED

#: Functions with a smaller share of the samples have no record; most functions that have one.
_LEAST_HOTSPOT: Final = 0.02
_MOST_HOTSPOTS: Final = 8


def readings(document: dict[str, Any]) -> Iterator[Reading]:
    """Readings of an observation with stacks. Raises ValueError where these are not whole."""
    hotspots = part_of(document, HOTSPOTS, Hotspots)
    if hotspots:
        yield from _hottest(hotspots, str(document["ranks"]))
        yield from _hot_loops(hotspots, document)


def _hottest(hotspots: Hotspots, ranks: str) -> Iterator[Reading]:
    """CPU seconds in the functions with most samples of their own, as the mean of the ranks; or why there are
    none. Functions without a symbol are left out: an address holds for one build only."""
    params = {"layer": "hotspots", "ranks": ranks}
    if hotspots.status != OK:
        yield Reading(OBSERVED, "time", None, None, hotspots.status, params | {"part": "computing"})
        return
    of_a_sample = 1.0 / (hotspots.rate * hotspots.ranks)
    yield Reading(OBSERVED, "time", hotspots.samples * of_a_sample, None, OK, params | {"part": "computing"})
    for hotspot in hotspots.hotspots[:_MOST_HOTSPOTS]:
        if hotspot.share >= _LEAST_HOTSPOT and not hotspot.function.startswith("0x"):
            seconds = hotspot.share * hotspots.samples * of_a_sample
            kind = f"{hotspot.function} ({hotspot.module})"
            yield Reading(OBSERVED, "time", seconds, None, OK, params | {"part": "in function", "kind": kind})


def _hot_loops(hotspots: Hotspots, document: dict[str, Any]) -> Iterator[Reading]:
    """Of one iteration on one core: least cycles by ports and by dependencies, FLOP, bytes between
    registers and memory, instructions; and the clock. Where loops were looked for without success: why
    there is none."""
    nodes = document["nodes"]
    seconds = math.fsum(node["seconds"] for node in nodes)
    ranks = max((node["ranks"] for node in nodes), default=1)
    # In a program with threads more cores than ranks are busy.
    busy = hotspots.samples / hotspots.rate / seconds if hotspots.rate and seconds else 0.0
    for hotspot in hotspots.hotspots:
        params = {"layer": "hotspots", "kind": f"{hotspot.function} ({hotspot.module})"}
        loop = hotspot.loop
        if (
            hotspot.share < _LEAST_HOTSPOT
            or not (loop or hotspot.loop_reason)
            or hotspot.function.startswith("0x")
        ):
            continue
        if loop is None:
            why = f"unavailable: {hotspot.loop_reason}"
            yield Reading(HOT_LOOP, "cycles", None, None, why, params | {"part": "ports"})
            continue
        params |= {"precision": loop.precision} if loop.precision else {}
        params |= {"loop": loop.source or loop.address, "model": loop.model}
        params |= {"share": f"{hotspot.share * loop.share:.4g}", "cores": str(max(ranks, round(busy)))}
        cycles = {"ports": loop.port_cycles, "dependencies": loop.chain_cycles}
        for part, value in cycles.items():
            yield Reading(HOT_LOOP, "cycles", value, None, OK, params | {"part": part})
        counts = {"flop": loop.flop, "traffic": loop.bytes, "instructions": loop.instructions}
        for metric, value in counts.items():
            yield Reading(HOT_LOOP, metric, value, None, OK, params | {"part": "an iteration"})
        yield Reading(HOT_LOOP, "clock", loop.clock_hz, None, OK, params)
