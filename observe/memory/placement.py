"""On which NUMA nodes pages lie, from which nodes they are accessed, and which share of that is remote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from npc.machine import sysfs
from npc.observe.memory.owners import ThreadPieces, starts_of
from npc.observe.memory.records import NumaUse
from npc.observe.memory.table import Entries

_NODES: Final = Path("/sys/devices/system/node")


def node_of_cpus(system: Path = _NODES) -> dict[int, int]:
    """CPU → NUMA node, of this machine; empty where the system does not say."""
    nodes = {}
    for node in sorted(sysfs.parse_cpus(sysfs.text(system / "online") or "")):
        for cpu in sysfs.parse_cpus(sysfs.text(system / f"node{node}/cpulist") or ""):
            nodes[cpu] = node
    return nodes


def cpu_of_threads(threads: Entries, touches: Entries) -> dict[int, int]:
    """Thread → the CPU on which most of its accesses were seen (sampling), else the CPU on which it last
    ran."""
    cpu_of_thread = {int(row["number"]): int(row["cpu"]) for row in threads}
    for thread in np.unique(touches["thread"]):
        cpus, times = np.unique(touches["cpu"][touches["thread"] == thread], return_counts=True)
        cpu_of_thread[int(thread)] = int(cpus[times.argmax()])
    return cpu_of_thread


def numa_uses(
    pieces: ThreadPieces,
    names: Mapping[int, str],
    places: Entries,
    cpus: Mapping[int, int],
    nodes: Mapping[int, int],
) -> tuple[list[NumaUse], str]:
    """The NUMA use of some structures (number → name), or why there is none.

    cpus: thread → CPU; threads are assumed to stay there, as bound ones do. nodes: CPU → NUMA node. Pages may
    lie on the nodes of all CPUs.
    """
    number = len(set(nodes.values()))
    if number < 2:
        return (
            [],
            "this machine has one NUMA node: no access is remote"
            if number
            else "the system does not say which NUMA nodes there are",
        )
    lies = places[places["node"] >= 0]
    if not len(lies):
        return [], "where pages lie could not be read"
    lies = lies[np.lexsort((lies["time"], lies["page"]))]
    last = np.concatenate([lies["page"][1:] != lies["page"][:-1], [True]])
    lies = lies[last]
    at = np.minimum(np.searchsorted(lies["page"], pieces.page), len(lies) - 1)
    known = lies["page"][at] == pieces.page
    home = {thread: nodes.get(cpu, -1) for thread, cpu in cpus.items()}
    near = np.array([home.get(int(thread), -1) for thread in pieces.thread], np.int64)
    known &= near >= 0
    lies_on = lies["node"][at].astype(np.int64)
    amount = pieces.reads + pieces.writes
    uses = []
    for structure, name in names.items():
        mine = np.flatnonzero((pieces.structure == structure) & known)
        total = int(amount[mine].sum())
        if not total:
            continue
        remote = int(amount[mine][lies_on[mine] != near[mine]].sum())
        first = np.unique(pieces.page[mine], return_index=True)[1]
        homes, count = np.unique(lies_on[mine][first], return_counts=True)
        spread = {int(node): int(pages) for node, pages in zip(homes, count, strict=True)}
        best = sum(_most_by_page(pieces, mine, near, amount))
        uses.append(NumaUse(name, spread, remote / total, 1 - 1 / number, 1 - best / total))
    return uses, "" if uses else "it is not known where the pages that were used lie"


def _most_by_page(pieces: ThreadPieces, mine: Entries, near: Entries, amount: Entries) -> Iterator[int]:
    """Of each page, the accesses from the node with most of them."""
    order = mine[np.lexsort((near[mine], pieces.page[mine]))]
    starts = starts_of(pieces.page[order], near[order])
    sums = np.add.reduceat(amount[order], starts)
    of_page = starts_of(pieces.page[order][starts])
    yield from np.maximum.reduceat(sums, of_page).tolist()
