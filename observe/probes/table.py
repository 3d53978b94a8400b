"""What probes counted, as people read it on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from npc.columns import columns
from npc.records.node_probes import NodeProbe, ProbeRow, Probes
from npc.records.units import format_quantity

#: Names that are shown of each probe; the file has all of them.
_MOST_SHOWN: Final = 8
_LONGEST_NAME: Final = 40
_HEADER: Final = ("of", "events", "bytes", "time", "mean", "99 % below", "most of it")


def probes(found: Probes) -> Iterator[str]:
    """For each probe its names, those that took longest first: events of all ranks, bytes, time, mean and
    99th percentile of their durations, and the rank with most of it. Then what kept it from being whole."""
    for what in dict.fromkeys(node.probe for node in found.nodes):
        nodes = [node for node in found.nodes if node.probe == what]
        yield f"probe {what}:"
        yield from _table(nodes)
        for node in nodes:
            if node.status != "attached":
                yield f"  {node.host}: {node.status}: {node.reason}"
            elif node.share < 0.995:
                yield f"  {node.host}: attached for {node.share:.0%} of the run"
            for note in node.notes:
                yield f"  {node.host}: {note}"


def _table(nodes: Sequence[NodeProbe]) -> Iterator[str]:
    by_name: dict[tuple[bool, str], list[tuple[NodeProbe, ProbeRow]]] = {}
    for node in nodes:
        for row in node.rows:
            by_name.setdefault((row.rank < 0, row.name), []).append((node, row))
    ordered = sorted(by_name.items(), key=lambda each: _weight(each[1]), reverse=True)
    if not ordered and any(node.status == "attached" for node in nodes):
        yield "  nothing of it happened"
    shown = ordered[:_MOST_SHOWN]
    if shown:
        rows = [_HEADER, *((_shorter(name), *_cells(rows, of_node)) for (of_node, name), rows in shown)]
        yield from columns(rows, keep_empty=False, right=range(1, 6), indent="  ")
    if len(ordered) > len(shown):
        yield f"  and {len(ordered) - len(shown)} more"


def _cells(rows: Sequence[tuple[NodeProbe, ProbeRow]], of_node: bool) -> tuple[str, ...]:
    events = sum(row.events for _, row in rows)
    moved = sum(row.bytes or 0 for _, row in rows)
    timed = sum(row.timed or 0 for _, row in rows)
    times = ("",) * 3
    if timed:
        seconds = sum((row.mean(node.apparent) or 0) * (row.timed or 0) for node, row in rows)
        times = (
            format_quantity(seconds, "s", 4),
            format_quantity(seconds / timed, "s", 3),
            format_quantity(_percentile(rows, timed), "s", 2),
        )
    most = ""
    if of_node:
        most = "none of the ranks"
    elif len(rows) > 1:
        row = max((row for _, row in rows), key=lambda row: (row.seconds or 0, row.events))
        most = f"rank {row.rank} ({row.events})"
    return (str(events), format_quantity(moved, "B", 4) if moved else "", *times, most)


def _percentile(rows: Sequence[tuple[NodeProbe, ProbeRow]], timed: int) -> float:
    """The upper end of the class of durations that holds the 99th percentile."""
    classes: dict[int, int] = {}
    for _, row in rows:
        for place, number in row.durations.items():
            classes[place] = classes.get(place, 0) + number
    seen = 0
    for place in sorted(classes):
        seen += classes[place]
        if seen >= 0.99 * timed:
            return float(2 ** (place + 1)) * 1e-9
    return 0.0


def _weight(rows: Sequence[tuple[NodeProbe, ProbeRow]]) -> tuple[float, int]:
    return sum(row.seconds or 0 for _, row in rows), sum(row.events for _, row in rows)


def _shorter(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
