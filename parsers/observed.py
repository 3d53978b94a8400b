"""``observed.json`` of ``npc observe``: what a program did to the network, as readings.

Traffic in bytes, one reading a node, port and direction; MPI's own bytes and messages by kind; how long the
ranks were inside MPI, in which calls, and POP's efficiencies; the CPU time of the hottest functions, and
what their loops need at least (case ``hot_loop``); what probes counted, by node. A counter that cannot be
believed is a reading without a value. FLOP of hardware counters, or why there are none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from npc.machine.sysfs import format_cpus, parse_cpus
from npc.records.hotspots import HOTSPOTS, Hotspots
from npc.records.memory_use import MEMORY, MemoryUse
from npc.records.mpi_profile import Profile, operation, profile_of
from npc.records.node_probes import OVERHEAD, PROBES, Events, NodeProbe, NodeRow, Overhead, Probes
from npc.records.observed import parse_document, part_of
from npc.records.reading import OK, Reading, failed
from npc.records.series import HOT_LOOP, OBSERVED, OVERHEAD_MEASURED, WRITERS

#: More ranks on a node are not listed one by one, nor more kinds of nodes.
_MOST_LISTED: Final = 8
#: Calls that take less of the ranks' time have no record of it.
_LEAST_SHARE: Final = 0.001
#: Names that a probe has records of on a node, those with most time or events.
_MOST_NAMES: Final = 16
#: A probe that was attached for more of the run was attached for all of it.
_WHOLE: Final = 0.995
#: Functions with a smaller part of the samples have no record, nor those beyond the hottest few.
_LEAST_HOTSPOT: Final = 0.02
_MOST_HOTSPOTS: Final = 8
#: POP's efficiencies, by their names in a profile.
_EFFICIENCIES: Final = {
    "parallel": "parallel", "load_balance": "load balance", "communication": "communication",
}  # fmt: skip
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
        found = [_layout(each) for each in dict.fromkeys(nodes) if each]
    except ValueError:
        return ""
    return "; ".join(found[:_MOST_LISTED] + ["…"] * (len(found) > _MOST_LISTED))


def watching(text: str) -> dict[str, str]:
    """What watching took of the run time, as circumstances of all that was measured meanwhile; empty where an
    observation does not tell."""
    try:
        found = part_of(parse_document(text), OVERHEAD, Overhead)
    except ValueError:
        return {}
    told = {}
    if found and found.estimated:
        told[OVERHEAD] = f"{math.fsum(found.estimated.values()):.2g}"
    if found and found.measured:
        told[OVERHEAD_MEASURED] = f"{found.measured.median:.2g}"
    return told


def _layout(cpus: Sequence[str]) -> str:
    """The CPUs of one node's ranks."""
    if len(cpus) > 1 and len(set(cpus)) == 1:
        return f"{len(cpus)} x {cpus[0]}"
    if len(cpus) <= _MOST_LISTED:
        return " ".join(cpus)
    sets = [parse_cpus(each) for each in cpus]
    sizes = sorted({len(each) for each in sets})
    each = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"
    return f"{len(cpus)} ranks, {each} each of {format_cpus(frozenset().union(*sets))}"


def _readings(document: dict[str, Any]) -> Iterator[Reading]:
    memory = part_of(document, MEMORY, MemoryUse)
    if memory:  # all else is that of a program which was slowed down
        yield from _memory(memory, str(document["ranks"]))
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
    profile = profile_of(document)
    messages = document["messages"]
    if messages:
        yield from _mpi(messages, str(document["ranks"]), profile)
    if profile:
        yield from _inside(profile, str(document["ranks"]))
    hotspots = part_of(document, HOTSPOTS, Hotspots)
    if hotspots:
        yield from _hottest(hotspots, str(document["ranks"]))
        yield from _hot_loops(hotspots, document)
    probes = part_of(document, PROBES, Probes)
    for probe in probes.nodes if probes else ():
        yield from _probed(probe, str(document["ranks"]))
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


def _memory(memory: MemoryUse, ranks: str) -> Iterator[Reading]:
    """Accesses of all ranks as far as they were seen, or why there are none."""
    params = {"layer": "memory", "part": "accesses", "side": memory.mode, "ranks": ranks}
    if memory.status != OK:
        yield Reading(OBSERVED, "events", None, None, memory.status, params)
        return
    for kind in ("reads", "writes"):
        number = sum(getattr(each, kind) for each in (*memory.ranks, *memory.rest))
        yield Reading(OBSERVED, "events", number, None, OK, params | {"kind": kind})


def _overhead(found: Overhead) -> Iterator[Reading]:
    """As shares of the run time, as estimated and, where it was checked, as measured."""
    for part, share in found.estimated.items():
        yield Reading(OBSERVED, "overhead", share, None, OK, {"kind": "estimated", "part": part})
    if found.measured:
        yield Reading(OBSERVED, "overhead", found.measured.median, None, OK, {"kind": "measured"})


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


def _mpi(messages: dict[str, Any], ranks: str, profile: Profile | None) -> Iterator[Reading]:
    """MPI's own count: bytes and messages by kind, messages by size (the least of each class), and the calls
    of collectives, one for each rank that took part, with their bytes: with a profile by the number of ranks
    in their communicator."""
    for kind, (size, count) in messages["kinds"].items():
        params = {"layer": "mpi", "kind": kind, "ranks": ranks}
        yield Reading(OBSERVED, "traffic", size, None, OK, params)
        yield Reading(OBSERVED, "messages", count, None, OK, params)
    collectives = {(kind, ""): tuple(each) for kind, each in messages.get("collectives", {}).items()}
    for (kind, members), (size, count) in (_collectives(profile) if profile else collectives).items():
        params = {"layer": "mpi collectives", "kind": kind, "ranks": ranks}
        params |= {"communicator": members} if members else {}
        yield Reading(OBSERVED, "traffic", size, None, OK, params)
        yield Reading(OBSERVED, "messages", count, None, OK, params)
    for place, count in enumerate(messages["by_size"]):
        if count:
            params = {"layer": "mpi", "kind": "by size", "ranks": ranks}
            yield Reading(OBSERVED, "messages", count, 2 ** (place - 1) if place else 0, OK, params)


def _collectives(profile: Profile) -> dict[tuple[str, str], tuple[float, int]]:
    """(operation, members of the communicator) → bytes and calls of all ranks."""
    found: dict[tuple[str, str], tuple[float, int]] = {}
    for each in profile.calls:
        name = operation(each.call)
        if name and each.members > 1:
            size, calls = found.get((name, str(each.members)), (0, 0))
            found[name, str(each.members)] = (size + each.bytes, calls + each.calls)
    return found


def _inside(profile: Profile, ranks: str) -> Iterator[Reading]:
    """The calls of collectives by the algorithm that they ran by; seconds inside MPI, in all and by call, as
    the mean of the ranks; POP's efficiencies."""
    for ran in profile.algorithms.ran if profile.algorithms else ():
        params = {"layer": "mpi algorithms", "kind": ran.operation, "communicator": str(ran.ranks)}
        params |= {"ranks": ranks, "algorithm": " or ".join(ran.algorithms)}
        params |= {} if ran.last is None else {"largest_size": str(ran.last)}
        yield Reading(OBSERVED, "messages", ran.calls, ran.first, OK, params)
    if not profile.ranks:
        return
    number = len(profile.ranks)
    inside = math.fsum(each.mpi for each in profile.ranks) / number
    yield Reading(OBSERVED, "time", inside, None, OK, {"layer": "mpi", "part": "inside MPI", "ranks": ranks})
    for name, each in profile.by_call.items():
        if each / number >= _LEAST_SHARE * profile.seconds:
            params = {"layer": "mpi", "part": "in calls", "kind": name, "ranks": ranks}
            yield Reading(OBSERVED, "time", each / number, None, OK, params)
    for name, kind in _EFFICIENCIES.items():
        value = getattr(profile.efficiency, name, None)
        if value is not None:
            yield Reading(
                OBSERVED, "efficiency", value, None, OK, {"layer": "mpi", "kind": kind, "ranks": ranks}
            )


def _hottest(hotspots: Hotspots, ranks: str) -> Iterator[Reading]:
    """CPU seconds in the functions with most own samples, as the mean of the ranks; or why there are none.
    An address is of one build only and identifies nothing."""
    params = {"layer": "hotspots", "ranks": ranks}
    if hotspots.status != OK:
        yield Reading(OBSERVED, "time", None, None, hotspots.status, params | {"part": "computing"})
        return
    of_a_sample = 1.0 / (hotspots.rate * hotspots.ranks)
    yield Reading(OBSERVED, "time", hotspots.samples * of_a_sample, None, OK, params | {"part": "computing"})
    for each in hotspots.hotspots[:_MOST_HOTSPOTS]:
        if each.share >= _LEAST_HOTSPOT and not each.function.startswith("0x"):
            seconds = each.share * hotspots.samples * of_a_sample
            kind = f"{each.function} ({each.module})"
            yield Reading(OBSERVED, "time", seconds, None, OK, params | {"part": "in function", "kind": kind})


def _hot_loops(hotspots: Hotspots, document: dict[str, Any]) -> Iterator[Reading]:
    """Of one core and iteration: cycles at least by ports and by dependencies, FLOP, bytes between registers
    and memory, instructions; and the clock. Why there are none, where somebody looked for them."""
    nodes = document["nodes"]
    seconds = math.fsum(node["seconds"] for node in nodes)
    ranks = max((node["ranks"] for node in nodes), default=1)
    # of a program with threads more cores than ranks are busy
    busy = hotspots.samples / hotspots.rate / seconds if hotspots.rate and seconds else 0.0
    for each in hotspots.hotspots:
        params = {"layer": "hotspots", "kind": f"{each.function} ({each.module})"}
        loop = each.loop
        if each.share < _LEAST_HOTSPOT or not (loop or each.loop_reason) or each.function.startswith("0x"):
            continue
        if loop is None:
            why = f"unavailable: {each.loop_reason}"
            yield Reading(HOT_LOOP, "cycles", None, None, why, params | {"part": "ports"})
            continue
        params |= {"precision": loop.precision} if loop.precision else {}
        params |= {"loop": loop.source or loop.address, "model": loop.model}
        params |= {"share": f"{each.share * loop.share:.4g}", "cores": str(max(ranks, round(busy)))}
        cycles = {"ports": loop.port_cycles, "dependencies": loop.chain_cycles}
        for part, value in cycles.items():
            yield Reading(HOT_LOOP, "cycles", value, None, OK, params | {"part": part})
        counts = {"flop": loop.flop, "traffic": loop.bytes, "instructions": loop.instructions}
        for metric, value in counts.items():
            yield Reading(HOT_LOOP, metric, value, None, OK, params | {"part": "an iteration"})
        yield Reading(HOT_LOOP, "clock", loop.clock_hz, None, OK, params)


def _probed(probe: NodeProbe, ranks: str) -> Iterator[Reading]:
    """Events, bytes and seconds of a node's ranks by name, as their mean and of the rank with most; of what
    is no rank's, all together; or why there are none. Seconds are without what watching adds to each."""
    params = {"layer": "probe", "part": probe.probe, "node": probe.host, "ranks": ranks}
    if probe.status in ("refused", "unavailable"):
        reason = probe.reason if probe.status == "unavailable" else f"refused: {probe.reason}"
        yield Reading(OBSERVED, "events", None, None, f"unavailable: {reason}", params)
        return
    by_name: dict[tuple[bool, str], list[NodeRow]] = {}
    for row in probe.rows:
        by_name.setdefault((row.rank < 0, row.name), []).append(NodeRow(probe, row))
    share = {} if probe.share > _WHOLE else {"attached": f"{probe.share:.2g}"}
    members = len({row.rank for row in probe.rows if row.rank >= 0})
    heaviest = sorted(by_name.items(), key=lambda each: Events.of(each[1]).weight, reverse=True)
    for (of_node, name), rows in heaviest[:_MOST_NAMES]:
        named = params | share | {"kind": name}
        amounts = {
            "events": [float(each.row.events) for each in rows],
            "traffic": [float(each.row.bytes) for each in rows if each.row.bytes],
            "time": [each.seconds for each in rows if each.row.timed],
        }
        for metric, values in amounts.items():
            if values and of_node:
                yield Reading(OBSERVED, metric, math.fsum(values), None, OK, named | {"side": "node"})
            elif values:
                mean = math.fsum(values) / members
                yield Reading(OBSERVED, metric, mean, None, OK, named | {"statistic": "mean"})
                yield Reading(OBSERVED, metric, max(values), None, OK, named | {"statistic": "max"})
