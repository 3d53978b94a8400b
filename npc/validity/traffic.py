"""What a bandwidth is of: a network between nodes, or the memory of a node."""

from __future__ import annotations

from typing import Final

from npc.records.record import Record

#: Benchmarks whose bandwidths are of memory, or of a whole application's traffic, unless the case says so.
_NODE_LOCAL: Final = frozenset({"stream", "likwid", "hpcc", "hpcg", "himeno", "observed"})
_MESSAGES_OF_HPCC: Final = frozenset({"PingPong", "NaturallyOrderedRing", "RandomlyOrderedRing"})


def of_memory(record: Record) -> bool:
    """Whether it is main memory's bandwidth: STREAM's kernels, alone or in HPCC, LIKWID's level MEM, and what
    HPCG moves, whose problem has to be larger than the caches."""
    if record.metric != "bandwidth":
        return False
    return (
        record.benchmark in ("stream", "hpcg")
        or record.params.get("level") == "MEM"
        or (record.benchmark == "hpcc" and "STREAM" in record.case)
    )


def of_messages(record: Record) -> bool:
    """Whether size means a message: neither a working set nor a matrix."""
    if record.benchmark == "hpcc":
        return record.case in _MESSAGES_OF_HPCC
    return record.benchmark not in _NODE_LOCAL and "level" not in record.params


def between_nodes(record: Record) -> bool:
    """Whether messages went over a link: not within one node, where they go through its memory.

    Several names of one host (an alias, an address) are several hosts here.
    """
    hosts = set(record.hosts)
    return of_messages(record) and record.nodes > 1 and (not hosts or len(hosts) > 1)
