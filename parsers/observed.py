"""``observed.json`` of ``npc observe``: what a program did to the network, as readings.

Traffic in bytes, one reading a node, port and direction; MPI's own bytes and messages by kind; FLOP of
hardware counters, or why there are none. A counter that cannot be believed is a reading without a value. What
else an observation holds is read by modules that are registered as ``npc.observations`` (`npc.registration`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from npc.machine.sysfs import format_cpus, parse_cpus
from npc.records.observed import parse_document, part_of
from npc.records.overhead import OVERHEAD, Overhead
from npc.records.reading import OK, Reading, failed
from npc.records.series import OBSERVED, OVERHEAD_MEASURED, WRITERS
from npc.registration import extensions

#: More ranks on a node are not listed one by one, nor more kinds of nodes.
_MOST_LISTED: Final = 8
_PRECISIONS: Final = {"FLOPS_SP": {"precision": "single"}, "FLOPS_HP": {"precision": "half"}}


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of an observation; one that failed for a text that is none, or not whole."""
    try:
        yield from list(_readings(parse_document(text)))
    except ValueError as error:
        yield failed(OBSERVED, "traffic", f"not an observation: {error}")


def rank_cpus(text: str) -> str:
    """The CPUs that the launcher has bound the ranks of a node to, in the order of the ranks; empty where an
    observation does not tell.

    ``0-9 10-19``; ``2 x 0-19`` where all ranks have the same; ``128 ranks, 1 each of 0-127`` of many; nodes
    that differ with ``; `` between them.
    """
    try:
        nodes = [tuple(node.get("cpus", ())) for node in parse_document(text)["nodes"]]
        layouts = [_layout(cpus) for cpus in dict.fromkeys(nodes) if cpus]
    except ValueError:
        return ""
    return "; ".join(layouts[:_MOST_LISTED] + ["…"] * (len(layouts) > _MOST_LISTED))


def watching(text: str) -> dict[str, str]:
    """What watching took of the run time, as circumstances of all that was measured meanwhile; empty where an
    observation does not tell."""
    try:
        overhead = part_of(parse_document(text), OVERHEAD, Overhead)
    except ValueError:
        return {}
    circumstances = {}
    if overhead and overhead.estimated:
        circumstances[OVERHEAD] = f"{math.fsum(overhead.estimated.values()):.2g}"
    if overhead and overhead.measured:
        circumstances[OVERHEAD_MEASURED] = f"{overhead.measured.median:.2g}"
    return circumstances


def _layout(cpus: Sequence[str]) -> str:
    """The CPUs of one node's ranks."""
    if len(cpus) > 1 and len(set(cpus)) == 1:
        return f"{len(cpus)} x {cpus[0]}"
    if len(cpus) <= _MOST_LISTED:
        return " ".join(cpus)
    sets = [parse_cpus(cpu_list) for cpu_list in cpus]
    sizes = sorted({len(cpu_set) for cpu_set in sets})
    a_rank = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"
    return f"{len(cpus)} ranks, {a_rank} each of {format_cpus(frozenset().union(*sets))}"


def _readings(document: dict[str, Any]) -> Iterator[Reading]:
    parts = []
    for name, part, problem in extensions("observations"):
        if part:
            parts.append(part)
        else:
            yield Reading(OBSERVED, "events", None, None, f"unavailable: {problem}", {"part": name})
    for part in parts:
        if document.get(getattr(part, "ALONE", "")):
            yield from part.readings(document)
            return
    for metric, value in document["reported"].items():
        yield Reading(OBSERVED, metric, value)
    for node in document["nodes"]:
        for port in node["ports"]:
            for direction in ("received", "sent"):
                value = port[direction]
                params = {"node": node["host"], "port": port["name"], "direction": direction}
                status = OK if value is not None else f"invalid: {port['note']}"
                yield Reading(OBSERVED, "traffic", value, None, status, params)
        if node.get("io"):
            yield from _io(node["io"], node["host"], str(node["ranks"]))
    seconds = max((node["seconds"] for node in document["nodes"]), default=None)
    if seconds is not None:
        yield Reading(OBSERVED, "time", seconds)
    yield from _counted(document, seconds)
    messages = document["messages"]
    if messages:
        finer = any(document.get(getattr(part, "COLLECTIVES", "")) for part in parts)
        yield from _mpi(messages, str(document["ranks"]), with_collectives=not finer)
    for part in parts:
        yield from part.readings(document)
    overhead = part_of(document, OVERHEAD, Overhead)
    if overhead:
        yield from _overhead(overhead)


def _io(io: dict[str, int], host: str, ranks: str) -> Iterator[Reading]:
    """What a node's ranks moved through calls, and what of it reached storage."""
    for direction, name in (("read", "read"), ("write", "written")):
        params = {"layer": "io", "direction": direction, "node": host, "ranks": ranks}
        calling = params | {"part": "calls"}
        reached = params | {"part": "storage"}
        if direction == "write":
            reached |= {WRITERS: str(io["writers"])}
        yield Reading(OBSERVED, "traffic", io[name], None, OK, calling)
        yield Reading(OBSERVED, "events", io[f"{direction}_calls"], None, OK, calling)
        yield Reading(OBSERVED, "traffic", io[f"storage_{name}"], None, OK, reached)


def _overhead(overhead: Overhead) -> Iterator[Reading]:
    """As shares of the run time, as estimated and, where it was checked, as measured."""
    for part, share in overhead.estimated.items():
        yield Reading(OBSERVED, "overhead", share, None, OK, {"kind": "estimated", "part": part})
    if overhead.measured:
        yield Reading(OBSERVED, "overhead", overhead.measured.median, None, OK, {"kind": "measured"})


def _counted(document: dict[str, Any], seconds: float | None) -> Iterator[Reading]:
    """FLOP that the hardware counted, and the mean rate over the whole run; or why there are none."""
    counted = document.get("counted")
    if not counted:
        return
    params = {"counters": counted["group"]} | _PRECISIONS.get(counted["group"], {})
    flop = counted["flop"]
    if counted.get("moved"):
        for host, moved in counted["moved"].items():
            where = params | {"layer": "hardware", "level": moved["level"], "node": host}
            yield Reading(OBSERVED, "traffic", moved["bytes"], None, OK, where)
            if moved["idle"] is not None:
                yield Reading(
                    OBSERVED, "efficiency", 1 - moved["idle"], None, OK, where | {"kind": "unhalted"}
                )
        return
    if flop is None:
        yield Reading(OBSERVED, "flop", None, None, f"unavailable: {counted['reason']}", params)
        return
    yield Reading(OBSERVED, "flop", flop, None, OK, params)
    if seconds and "flops" not in document["reported"]:
        yield Reading(OBSERVED, "flops", flop / seconds, None, OK, params)


def _mpi(messages: dict[str, Any], ranks: str, with_collectives: bool) -> Iterator[Reading]:
    """MPI's own count: bytes and messages by kind, messages by size (the least of each class), and the calls
    of collectives, one for each rank that took part, with their bytes."""
    for kind, (size, count) in messages["kinds"].items():
        params = {"layer": "mpi", "kind": kind, "ranks": ranks}
        yield Reading(OBSERVED, "traffic", size, None, OK, params)
        yield Reading(OBSERVED, "messages", count, None, OK, params)
    collectives = messages.get("collectives", {}) if with_collectives else {}
    for kind, (size, count) in collectives.items():
        params = {"layer": "mpi collectives", "kind": kind, "ranks": ranks}
        yield Reading(OBSERVED, "traffic", size, None, OK, params)
        yield Reading(OBSERVED, "messages", count, None, OK, params)
    for place, count in enumerate(messages["by_size"]):
        if count:
            params = {"layer": "mpi", "kind": "by size", "ranks": ranks}
            yield Reading(OBSERVED, "messages", count, 2 ** (place - 1) if place else 0, OK, params)
