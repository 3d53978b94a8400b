"""What the probes of all nodes left, ``HOST.RANK.probes``, as one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from npc.records.node_probes import NodeProbe, ProbeRow, Probes, ProbeStatus
from npc.records.units import plural
from observe.probes.settings import PROBES

#: From best to worst, as far as what was counted is concerned.
_STATUSES: Final[tuple[ProbeStatus, ...]] = ("attached", "sampled", "stopped", "refused", "unavailable")


def read_probes(folder: Path) -> tuple[Probes | None, tuple[str, ...]]:
    """What the nodes' files in `folder` tell, and what is odd about them; None where nobody asked for probes.
    Raises ValueError for a file that is none of ours."""
    found: dict[tuple[str, str], list[NodeProbe]] = {}
    served: set[tuple[str, int]] = set()
    for path in sorted(folder.glob(f"*.{PROBES}")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            nodes = msgspec.convert(document["probes"], tuple[NodeProbe, ...], str_keys=True)
            served |= {(document["host"], rank) for rank in document["ranks"]}
        except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
            raise ValueError(f"{path}: {error}") from None
        for node in nodes:
            found.setdefault((node.probe, node.host), []).append(node)
    notes = tuple(_without(folder, served)) if found else tuple(_reasons(_ranks(folder)))
    if not found:
        return None, notes
    return Probes(nodes=tuple(_joined(each) for each in found.values())), notes


def _ranks(folder: Path) -> Iterable[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def _without(folder: Path, served: set[tuple[str, int]]) -> Iterable[str]:
    """Ranks that no probe was there for."""
    ranks = list(_ranks(folder))
    yield from _reasons(ranks)
    missing = [rank["rank"] for rank in ranks if (rank["host"], rank["rank"]) not in served]
    if missing:
        listed = ", ".join(map(str, missing[:8])) + (" …" if len(missing) > 8 else "")
        yield f"probes: not there for {len(missing)} of {len(ranks)} ranks (rank {listed})"


def _reasons(ranks: Iterable[dict[str, Any]]) -> Iterable[str]:
    said = Counter(
        f"{rank['host']}: {rank[PROBES]['reason']}" for rank in ranks if rank.get(PROBES) is not None
    )
    for reason, number in said.items():
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
        status=max((each.status for each in nodes), key=_STATUSES.index),
        reason="; ".join(dict.fromkeys(each.reason for each in nodes if each.reason)),
        share=min(each.share for each in nodes),
        cost=max((each.cost for each in nodes if each.cost is not None), default=None),
        rate=max((each.rate for each in nodes if each.rate is not None), default=None),
        rows=tuple(rows.values()),
        notes=tuple(dict.fromkeys(note for each in nodes for note in each.notes)),
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
