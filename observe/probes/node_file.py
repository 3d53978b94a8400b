"""What the probes of all nodes left, ``HOST.RANK.probes``, as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from npc.observe.probes.records import NodeProbe, ProbeRow, Probes, ProbeStatus
from npc.observe.probes.settings import PROBES
from npc.observe.rank_files import WatchedRank, decoded
from npc.records.units import plural

#: From best to worst, as far as what was counted is concerned.
_STATUSES: Final[tuple[ProbeStatus, ...]] = ("attached", "stopped", "unavailable")


class _NodeFile(msgspec.Struct):
    """What the keeper of a node's probes left."""

    #: Name of the node.
    host: str
    #: Numbers in MPI_COMM_WORLD of the ranks that the probes were there for.
    ranks: list[int]
    #: What each probe counted on the node.
    probes: list[NodeProbe]


class _WithoutProbes(msgspec.Struct):
    """Why the probes were not there for a rank, as `npc.observe.probes.companion` says at its end."""

    #: What was in the way, in words.
    reason: str


def read_probes(folder: Path, ranks: Sequence[WatchedRank]) -> tuple[Probes | None, tuple[str, ...]]:
    """What the nodes' files in `folder` tell, and what is odd about them; None where nobody asked for probes.
    ranks: all that were seen."""
    by_node: dict[tuple[str, str], list[NodeProbe]] = {}
    served: set[tuple[str, int]] = set()
    damaged: list[str] = []
    for file in decoded(folder, f".{PROBES}", _NodeFile, damaged):
        served |= {(file.host, rank) for rank in file.ranks}
        for node in file.probes:
            by_node.setdefault((node.probe, node.host), []).append(node)
    if not by_node:
        return None, (*damaged, *_reasons(ranks))
    notes = (*damaged, *_reasons(ranks), *_without(ranks, served))
    return Probes(nodes=tuple(_joined(nodes) for nodes in by_node.values())), notes


def overhead_of_probes(probes: Probes, ranks: Sequence[WatchedRank]) -> float | None:
    """The share of the run time that all probes together took (0.01: 1 %), on the node where it is most; each
    of the rank that it took most of. None where that is not known."""
    shares = []
    nodes = [node for node in probes.nodes if node.cost is not None]
    for host in {node.host for node in nodes}:
        lasted = max((rank.seconds for rank in ranks if rank.host == host), default=0.0)
        if lasted > 0:
            shares.append(sum(node.cost or 0.0 for node in nodes if node.host == host) / lasted)
    return max(shares, default=None)


def _without(ranks: Sequence[WatchedRank], served: set[tuple[str, int]]) -> Iterable[str]:
    """Ranks that no probe was there for."""
    missing = [rank.rank for rank in ranks if (rank.host, rank.rank) not in served]
    if missing:
        listed = ", ".join(map(str, missing[:8])) + (" …" if len(missing) > 8 else "")
        yield f"probes: not there for {len(missing)} of {len(ranks)} ranks (rank {listed})"


def _reasons(ranks: Sequence[WatchedRank]) -> Iterable[str]:
    reasons = Counter(
        f"{rank.host}: {without.reason}"
        for rank in ranks
        if (without := rank.left_by(PROBES, _WithoutProbes)) is not None
    )
    for reason, number in reasons.items():
        yield f"probes: {reason} ({plural(number, 'rank')})"


def _joined(nodes: Sequence[NodeProbe]) -> NodeProbe:
    """One probe on one node, where ranks came after others had gone: then it was attached anew for them."""
    first = nodes[0]
    if len(nodes) == 1:
        return first
    rows: dict[tuple[int, str], ProbeRow] = {}
    for row in (row for node in nodes for row in node.rows):
        known = rows.get((row.rank, row.name))
        rows[row.rank, row.name] = row if known is None else _sum(known, row)
    return replace(
        first,
        status=max((probe.status for probe in nodes), key=_STATUSES.index),
        reason="; ".join(dict.fromkeys(probe.reason for probe in nodes if probe.reason)),
        share=min(probe.share for probe in nodes),
        cost=max((probe.cost for probe in nodes if probe.cost is not None), default=None),
        rate=max((probe.rate for probe in nodes if probe.rate is not None), default=None),
        rows=tuple(rows.values()),
        notes=tuple(dict.fromkeys(note for probe in nodes for note in probe.notes)),
    )


def _sum(one: ProbeRow, other: ProbeRow) -> ProbeRow:
    return ProbeRow(
        one.rank,
        one.name,
        one.events + other.events,
        None if one.timed is None or other.timed is None else one.timed + other.timed,
        None if one.seconds is None or other.seconds is None else one.seconds + other.seconds,
        None if one.bytes is None or other.bytes is None else one.bytes + other.bytes,
        dict(Counter(one.durations) + Counter(other.durations)),
    )
