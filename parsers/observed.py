"""``observed.json`` of ``npc observe``: what a program did to the network, as readings.

Traffic in bytes, one reading a node, port and direction; MPI's own bytes and messages by kind. A counter
that cannot be believed is a reading without a value. FLOP of hardware counters, or why there are none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from npc.records.reading import OK, Reading, failed

CASE: Final = "observed"
SCHEMA: Final = 1
_PRECISIONS: Final = {"FLOPS_SP": {"precision": "single"}, "FLOPS_HP": {"precision": "half"}}


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of an observation; one that failed for a text that is none, or not whole."""
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}")
        yield from list(_readings(document))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        yield failed(CASE, "traffic", f"not an observation: {error!r}")


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
    messages = document["messages"]
    if messages:
        yield from _mpi(messages, str(document["ranks"]))


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


def _mpi(messages: dict[str, Any], ranks: str) -> Iterator[Reading]:
    """MPI's own count: bytes and messages by kind, messages by size (the least of each class), and the calls
    of collectives, one for each rank that took part, with their bytes."""
    for layer, kinds in (("mpi", "kinds"), ("mpi collectives", "collectives")):
        for kind, (size, count) in messages.get(kinds, {}).items():
            params = {"layer": layer, "kind": kind, "ranks": ranks}
            yield Reading(CASE, "traffic", size, None, OK, params)
            yield Reading(CASE, "messages", count, None, OK, params)
    for place, count in enumerate(messages["by_size"]):
        if count:
            params = {"layer": "mpi", "kind": "by size", "ranks": ranks}
            yield Reading(CASE, "messages", count, 2 ** (place - 1) if place else 0, OK, params)
