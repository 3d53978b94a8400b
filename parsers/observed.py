"""``observed.json`` of ``npc observe``: what a program did to the network, as readings.

Traffic in bytes, one reading a node, port and direction; MPI's own bytes and messages by kind; how long the
ranks were inside MPI, in which calls, and POP's efficiencies. A counter that cannot be believed is a reading
without a value. FLOP of hardware counters, or why there are none.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from npc.machine.sysfs import format_cpus, parse_cpus
from npc.records.mpi_profile import SCHEMAS, Profile, operation, profile_of
from npc.records.reading import OK, Reading, failed

CASE: Final = "observed"
#: More ranks on a node are not listed one by one, nor more kinds of nodes.
_MOST_LISTED: Final = 8
#: Calls that take less of the ranks' time have no record of it.
_LEAST_SHARE: Final = 0.001
#: POP's efficiencies, by their names in a profile.
_EFFICIENCIES: Final = {
    "parallel": "parallel", "load_balance": "load balance", "communication": "communication",
}  # fmt: skip
_PRECISIONS: Final = {"FLOPS_SP": {"precision": "single"}, "FLOPS_HP": {"precision": "half"}}


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of an observation; one that failed for a text that is none, or not whole."""
    try:
        document = json.loads(text)
        if document["schema"] not in SCHEMAS:
            raise ValueError(f"schema {document['schema']}")
        yield from list(_readings(document))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        yield failed(CASE, "traffic", f"not an observation: {error!r}")


def rank_cpus(text: str) -> str:
    """The CPUs that the launcher has bound the ranks of a node to, in the order of the ranks; empty where an
    observation does not tell.

    ``0-9 10-19``; ``2 x 0-19`` where all ranks have the same; ``128 ranks, 1 each of 0-127`` of many; nodes
    that differ with ``; `` between them.
    """
    try:
        nodes = [tuple(node.get("cpus", ())) for node in json.loads(text)["nodes"]]
        found = [_layout(each) for each in dict.fromkeys(nodes) if each]
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""
    return "; ".join(found[:_MOST_LISTED] + ["…"] * (len(found) > _MOST_LISTED))


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
    for metric, value in document["reported"].items():
        yield Reading(CASE, metric, value)
    for node in document["nodes"]:
        for port in node["ports"]:
            for direction in ("received", "sent"):
                value = port[direction]
                params = {"node": node["host"], "port": port["name"], "direction": direction}
                status = OK if value is not None else f"invalid: {port['note']}"
                yield Reading(CASE, "traffic", value, None, status, params)
    seconds = max((node["seconds"] for node in document["nodes"]), default=None)
    if seconds is not None:
        yield Reading(CASE, "time", seconds)
    yield from _counted(document, seconds)
    profile = profile_of(document)
    messages = document["messages"]
    if messages:
        yield from _mpi(messages, str(document["ranks"]), profile)
    if profile:
        yield from _inside(profile, str(document["ranks"]))


def _counted(document: dict[str, Any], seconds: float | None) -> Iterator[Reading]:
    """FLOP that the hardware counted, and the mean rate over the whole run; or why there are none."""
    counted = document.get("counted")
    if not counted:
        return
    params = {"counters": counted["group"]} | _PRECISIONS.get(counted["group"], {})
    flop = counted["flop"]
    if flop is None:
        yield Reading(CASE, "flop", None, None, f"unavailable: {counted['reason']}", params)
        return
    yield Reading(CASE, "flop", flop, None, OK, params)
    if seconds and "flops" not in document["reported"]:
        yield Reading(CASE, "flops", flop / seconds, None, OK, params)


def _mpi(messages: dict[str, Any], ranks: str, profile: Profile | None) -> Iterator[Reading]:
    """MPI's own count: bytes and messages by kind, messages by size (the least of each class), and the calls
    of collectives, one for each rank that took part, with their bytes: with a profile by the number of ranks
    in their communicator."""
    for kind, (size, count) in messages["kinds"].items():
        params = {"layer": "mpi", "kind": kind, "ranks": ranks}
        yield Reading(CASE, "traffic", size, None, OK, params)
        yield Reading(CASE, "messages", count, None, OK, params)
    collectives = {(kind, ""): tuple(each) for kind, each in messages.get("collectives", {}).items()}
    for (kind, members), (size, count) in (_collectives(profile) if profile else collectives).items():
        params = {"layer": "mpi collectives", "kind": kind, "ranks": ranks}
        params |= {"communicator": members} if members else {}
        yield Reading(CASE, "traffic", size, None, OK, params)
        yield Reading(CASE, "messages", count, None, OK, params)
    for place, count in enumerate(messages["by_size"]):
        if count:
            params = {"layer": "mpi", "kind": "by size", "ranks": ranks}
            yield Reading(CASE, "messages", count, 2 ** (place - 1) if place else 0, OK, params)


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
        yield Reading(CASE, "messages", ran.calls, ran.first, OK, params)
    if not profile.ranks:
        return
    number = len(profile.ranks)
    inside = math.fsum(each.mpi for each in profile.ranks) / number
    yield Reading(CASE, "time", inside, None, OK, {"layer": "mpi", "part": "inside MPI", "ranks": ranks})
    seconds: Counter[str] = Counter()
    for rank in profile.ranks:
        for name, made in rank.calls.items():
            seconds[name] += made.seconds  # type: ignore[assignment]
    for name, each in seconds.most_common():
        if each / number >= _LEAST_SHARE * profile.seconds:
            params = {"layer": "mpi", "part": "in calls", "kind": name, "ranks": ranks}
            yield Reading(CASE, "time", each / number, None, OK, params)
    for name, kind in _EFFICIENCIES.items():
        value = getattr(profile.efficiency, name, None)
        if value is not None:
            yield Reading(CASE, "efficiency", value, None, OK, {"layer": "mpi", "kind": kind, "ranks": ranks})
