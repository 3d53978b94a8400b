"""What one probe counted: by name, by rank, and how long its events took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from npc.figures.chart import Grid, log_scale
from npc.figures.chart import HeatCell as GridCell
from npc.page.blocks import (
    Block,
    Cell,
    Table,
    amounts_figure,
    count,
    percent,
    quantity,
)
from npc.records.node_probes import Events, NodeRow
from npc.records.units import format_quantity, plural
from npc.report.observed import Observed
from npc.report.runs import Report

#: Names of a probe; rows of a picture; of ranks.
_MOST_NAMES: Final = 24
_MOST_ROWS: Final = 64
_MOST_RANKS: Final = 512
#: Most names with which a picture has a row for each rank.
_FEW: Final = 3
_HISTOGRAM = (
    "rows are {rows}, columns how long one took, from the time that stands above to twice that; darker is "
    "more often, on a logarithmic scale. Two dark places in a row are two kinds of events."
)
#: What is told of events; time: of all threads of a rank.
_NUMBERS: Final = ("events", "time", "mean", "99 % below", "bytes")


def probe_blocks(
    report: Report, launch: Observed, what: str, node_rows: Sequence[NodeRow]
) -> Iterator[Block]:
    """What a probe counted: by name with a histogram of durations, and by rank."""
    by_name: defaultdict[str, list[NodeRow]] = defaultdict(list)
    for node_row in node_rows:
        by_name[node_row.row.name].append(node_row)
    ordered = sorted(by_name.items(), key=lambda entry: Events.of(entry[1]).weight, reverse=True)
    left = f"{len(ordered) - _MOST_NAMES} more are in the observation." if len(ordered) > _MOST_NAMES else ""
    rows = tuple(_row(name, rows_of_name, launch) for name, rows_of_name in ordered[:_MOST_NAMES])
    names = (what.partition(":")[0], *_NUMBERS, "rank with most", "its part")
    table = Table(f"Numbers: {what}", names, rows, note=left).filled()
    each_rank = _each_rank(what, node_rows, launch)
    grid = _histogram(report, launch, what, ordered)
    if grid:
        reading = _HISTOGRAM.format(rows="ranks" if grid.groups else "names, those that took longest first")
        described = replace(grid, text=f"{grid.text} The table below has the numbers.")
        yield amounts_figure(described, grid.text, reading, "events", table, each_rank)
    else:
        yield table
        yield each_rank


def _row(name: str, rows: Sequence[NodeRow], launch: Observed) -> tuple[Cell, ...]:
    most = max(rows, key=lambda row: Events.of([row]).weight)
    whole, own = Events.of(rows), Events.of([most])
    part = own.seconds / whole.seconds if whole.seconds else own.events / (whole.events or 1)
    of = Cell("the node's") if most.row.rank < 0 else Cell(f"rank {most.row.rank}", sort=most.row.rank)
    return (Cell(name, (launch.ident,)), *_numbers(rows), of, percent(part))


def _numbers(rows: Sequence[NodeRow]) -> Iterator[Cell]:
    """Events, time, mean, 99th percentile and bytes."""
    events = Events.of(rows)
    yield count(events.events)
    times = (
        (events.seconds, events.seconds / events.timed, events.percentile_99) if events.timed else (None,) * 3
    )
    for seconds in times:
        yield quantity(seconds, "s")
    yield quantity(events.bytes or None, "B")


def _each_rank(what: str, node_rows: Sequence[NodeRow], launch: Observed) -> Table:
    ordered = sorted(
        node_rows, key=lambda node_row: (node_row.row.rank, -node_row.seconds, -node_row.row.events)
    )
    rows = tuple(
        (
            Cell(
                "the node's" if node_row.row.rank < 0 else f"rank {node_row.row.rank}", sort=node_row.row.rank
            ),
            Cell(node_row.node.host),
            Cell(node_row.row.name),
            *_numbers([node_row]),
        )
        for node_row in ordered[: 4 * _MOST_RANKS]
    )
    names = ("rank", "on", "name", *_NUMBERS)
    return Table(f"Numbers: {what}, rank by rank", names, rows, folded=True, filtered=len(rows) > 16).filled()


def _histogram(
    report: Report, launch: Observed, what: str, ordered: Sequence[tuple[str, Sequence[NodeRow]]]
) -> Grid | None:
    """Events by duration: a row a name, or of few names a row a rank; None where nothing has a duration."""
    timed = [
        (name, [node_row for node_row in node_rows if node_row.row.durations]) for name, node_rows in ordered
    ]
    timed = [(name, node_rows) for name, node_rows in timed if node_rows]
    classes = sorted(
        {place for _, node_rows in timed for node_row in node_rows for place in node_row.row.durations}
    )
    if not classes:
        return None
    rows: list[tuple[str, Counter[int]]] = []
    groups: list[tuple[str, int]] = []
    if len(timed) <= _FEW:
        for name, node_rows in timed:
            of_rank = sorted(node_rows, key=lambda node_row: node_row.row.rank)[: _MOST_ROWS // len(timed)]
            rows += [(f"rank {node_row.row.rank}", Counter(node_row.row.durations)) for node_row in of_rank]
            groups.append((name, len(of_rank)))
    else:
        for name, node_rows in timed[:_MOST_NAMES]:
            rows.append((name, Events.of(node_rows).durations))
    columns = [format_quantity(2**place * 1e-9, "s", 3) for place in range(classes[0], classes[-1] + 1)]
    cells = tuple(
        GridCell(row, place - classes[0], None, _tip(name, place, events), launch.ident, amount=float(events))
        for row, (name, classes_) in enumerate(rows)
        for place, events in sorted(classes_.items())
    )
    longest = ", ".join(name for name, _ in timed[:3])
    return Grid(
        ident=report.ident(),
        title=f"How long each took: {what}, {launch.name}",
        text=f"How often an event of {what} took how long; most time in all went to {longest}.",
        rows=tuple(name for name, _ in rows),
        columns=tuple(columns),
        cells=cells,
        column_title="at least",
        groups=tuple(groups),
        scale=log_scale((cell.amount or 0.0 for cell in cells), "1"),
    )


def _tip(name: str, place: int, events: int) -> str:
    low, high = (format_quantity(2**power * 1e-9, "s", 3) for power in (place, place + 1))
    return f"{name}\n{plural(events, 'event')}\n{low} to {high}"
