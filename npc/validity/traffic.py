"""What a bandwidth is of: a network between nodes, or the memory of a node."""

from __future__ import annotations

from npc import catalogue
from npc.records.record import Record


def of_memory(record: Record) -> bool:
    """Whether it is main memory's bandwidth: STREAM's kernels, alone or in HPCC, LIKWID's level MEM, and what
    HPCG moves, whose problem has to be larger than the caches."""
    row = catalogue.row_of(record)
    return row.layer == "memory" and record.params.get("level", row.level) == "MEM"


def of_messages(record: Record) -> bool:
    """Whether size means a message: neither a working set nor a matrix."""
    return catalogue.row_of(record).layer in catalogue.MESSAGES


def between_nodes(record: Record) -> bool:
    """Whether messages went over a link: not within one node, where they go through its memory.

    Several names of one host (an alias, an address) are several hosts here.
    """
    hosts = set(record.hosts)
    return of_messages(record) and record.nodes > 1 and (not hosts or len(hosts) > 1)
