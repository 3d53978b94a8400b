"""What probes counted, as people read it on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from npc.columns import columns
from npc.observe.probes.records import Events, NodeProbe, NodeRow, Probes
from npc.records.units import format_quantity, shortened

#: Names that are shown of each probe; the file has all of them.
_MOST_SHOWN: Final = 8
_LONGEST_NAME: Final = 40
_HEADER: Final = ("of", "events", "bytes", "time", "mean", "99 % below", "most of it")


def probes(probed: Probes) -> Iterator[str]:
    """For each probe its names, those that took longest first: events of all ranks, bytes, time, mean and
    99th percentile of their durations, and the rank with most of it. Then what kept it from being whole."""
    for what in dict.fromkeys(node.probe for node in probed.nodes):
        nodes = [node for node in probed.nodes if node.probe == what]
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
    by_name: dict[tuple[bool, str], list[NodeRow]] = {}
    for node in nodes:
        for row in node.rows:
            by_name.setdefault((row.rank < 0, row.name), []).append(NodeRow(node, row))
    ordered = sorted(by_name.items(), key=lambda entry: Events.of(entry[1]).weight, reverse=True)
    if not ordered and any(node.status == "attached" for node in nodes):
        yield "  nothing of it happened"
    shown = ordered[:_MOST_SHOWN]
    if shown:
        rows = [
            _HEADER,
            *((shortened(name, _LONGEST_NAME), *_cells(rows, of_node)) for (of_node, name), rows in shown),
        ]
        yield from columns(rows, keep_empty=False, right=range(1, 6), indent="  ")
    if len(ordered) > len(shown):
        yield f"  and {len(ordered) - len(shown)} more"


def _cells(rows: Sequence[NodeRow], of_node: bool) -> tuple[str, ...]:
    all_of_it = Events.of(rows)
    times = ("",) * 3
    if timed := all_of_it.timed:
        times = (
            format_quantity(all_of_it.seconds, "s", 4),
            format_quantity(all_of_it.seconds / timed, "s", 3),
            format_quantity(all_of_it.percentile_99, "s", 2),
        )
    most = ""
    if of_node:
        most = "none of the ranks"
    elif len(rows) > 1:
        row = max(rows, key=lambda node_row: Events.of([node_row]).weight).row
        most = f"rank {row.rank} ({row.events})"
    moved = format_quantity(all_of_it.bytes, "B", 4) if all_of_it.bytes else ""
    return (str(all_of_it.events), moved, *times, most)
