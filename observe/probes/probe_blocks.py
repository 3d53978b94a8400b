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


def probe_blocks(report: Report, launch: Observed, what: str, seen: Sequence[NodeRow]) -> Iterator[Block]:
    """What a probe counted: by name with a histogram of durations, and by rank."""
    by_name: defaultdict[str, list[NodeRow]] = defaultdict(list)
    for each in seen:
        by_name[each.row.name].append(each)
    ordered = sorted(by_name.items(), key=lambda entry: Events.of(entry[1]).weight, reverse=True)
    left = f"{len(ordered) - _MOST_NAMES} more are in the observation." if len(ordered) > _MOST_NAMES else ""
    rows = tuple(_row(name, each, launch) for name, each in ordered[:_MOST_NAMES])
    names = (what.partition(":")[0], *_NUMBERS, "rank with most", "its part")
    table = Table(f"Numbers: {what}", names, rows, note=left).filled()
    each_rank = _each_rank(what, seen, launch)
    grid = _histogram(report, launch, what, ordered)
    if grid:
        reading = _HISTOGRAM.format(rows="ranks" if grid.groups else "names, those that took longest first")
        told = replace(grid, text=f"{grid.text} The table below has the numbers.")
        yield amounts_figure(told, grid.text, reading, "events", table, each_rank)
    else:
        yield table
        yield each_rank


def _row(name: str, seen: Sequence[NodeRow], launch: Observed) -> tuple[Cell, ...]:
    most = max(seen, key=lambda each: Events.of([each]).weight)
    whole, own = Events.of(seen), Events.of([most])
    part = own.seconds / whole.seconds if whole.seconds else own.events / (whole.events or 1)
    of = Cell("the node's") if most.row.rank < 0 else Cell(f"rank {most.row.rank}", sort=most.row.rank)
    return (Cell(name, (launch.ident,)), *_numbers(seen), of, percent(part))


def _numbers(seen: Sequence[NodeRow]) -> Iterator[Cell]:
    """Events, time, mean, 99th percentile and bytes."""
    found = Events.of(seen)
    yield count(found.events)
    times = (found.seconds, found.seconds / found.timed, found.percentile_99) if found.timed else (None,) * 3
    for each in times:
        yield quantity(each, "s")
    yield quantity(found.bytes or None, "B")


def _each_rank(what: str, seen: Sequence[NodeRow], launch: Observed) -> Table:
    ordered = sorted(seen, key=lambda each: (each.row.rank, -each.seconds, -each.row.events))
    rows = tuple(
        (
            Cell("the node's" if each.row.rank < 0 else f"rank {each.row.rank}", sort=each.row.rank),
            Cell(each.node.host),
            Cell(each.row.name),
            *_numbers([each]),
        )
        for each in ordered[: 4 * _MOST_RANKS]
    )
    names = ("rank", "on", "name", *_NUMBERS)
    return Table(f"Numbers: {what}, rank by rank", names, rows, folded=True, filtered=len(rows) > 16).filled()


def _histogram(
    report: Report, launch: Observed, what: str, ordered: Sequence[tuple[str, Sequence[NodeRow]]]
) -> Grid | None:
    """Events by duration: a row a name, or of few names a row a rank; None where nothing has a duration."""
    timed = [(name, [each for each in seen if each.row.durations]) for name, seen in ordered]
    timed = [(name, seen) for name, seen in timed if seen]
    classes = sorted({place for _, seen in timed for each in seen for place in each.row.durations})
    if not classes:
        return None
    rows: list[tuple[str, Counter[int]]] = []
    groups: list[tuple[str, int]] = []
    if len(timed) <= _FEW:
        for name, seen in timed:
            of_rank = sorted(seen, key=lambda each: each.row.rank)[: _MOST_ROWS // len(timed)]
            rows += [(f"rank {each.row.rank}", Counter(each.row.durations)) for each in of_rank]
            groups.append((name, len(of_rank)))
    else:
        for name, seen in timed[:_MOST_NAMES]:
            rows.append((name, Events.of(seen).durations))
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
