"""``observed.json`` of ``npc observe``: what a program did to the network, as readings.

Traffic in bytes, one reading a node, port and direction; MPI's own bytes and messages by kind. A counter
that cannot be believed is a reading without a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from npc.record import OK, Reading
from parsers import failed

CASE: Final = "observed"
SCHEMA: Final = 1


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
    if document["nodes"]:
        yield Reading(CASE, "time", max(node["seconds"] for node in document["nodes"]))
    messages = document["messages"]
    if messages:
        yield from _mpi(messages, str(document["ranks"]))


def _mpi(messages: dict[str, Any], ranks: str) -> Iterator[Reading]:
    """MPI's own count: bytes and messages by kind, and messages by size (the least of each class)."""
    for kind, (size, count) in messages["kinds"].items():
        params = {"layer": "mpi", "kind": kind, "ranks": ranks}
        yield Reading(CASE, "traffic", size, None, OK, params)
        yield Reading(CASE, "messages", count, None, OK, params)
    for place, count in enumerate(messages["by_size"]):
        if count:
            params = {"layer": "mpi", "kind": "by size", "ranks": ranks}
            yield Reading(CASE, "messages", count, 2 ** (place - 1) if place else 0, OK, params)
