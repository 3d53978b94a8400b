"""What one probe counted: by name, by rank, and how long its events took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from npc.figures.grid import Grid, GridCell
from npc.figures.scale import log_scale
from npc.observe.probes.records import Events, NodeRow
from npc.page.blocks import BELOW, LONG, Block, Cell, Column, Table, count, grid_figure, percent, quantity
from npc.records.units import format_quantity, plural
from npc.report.observed import Observed
from npc.report.runs import Report

#: Names of a probe; rows of a picture.
_MOST_NAMES: Final = 24
_MOST_ROWS: Final = 64
#: Rows of the table of names by rank.
_MOST_ROWS_BY_RANK: Final = 2048
#: Most names with which a picture has a row for each rank.
_FEW: Final = 3
_HISTOGRAM = (
    "rows are {rows}, columns how long one took, from the time that stands above to twice that; darker is "
    "more often, on a logarithmic scale. Two dark places in a row are two kinds of events."
)


def probe_blocks(
    report: Report, launch: Observed, what: str, node_rows: Sequence[NodeRow]
) -> Iterator[Block]:
    """What a probe counted: by name with a histogram of durations, and by rank."""
    by_name: defaultdict[str, list[NodeRow]] = defaultdict(list)
    for node_row in node_rows:
        by_name[node_row.row.name].append(node_row)
    ordered = sorted(by_name.items(), key=lambda entry: Events.of(entry[1]).weight, reverse=True)
    table = _by_name(what, ordered, launch)
    by_rank = _by_rank(what, node_rows)
    grid = _histogram(report, launch, what, ordered)
    if grid:
        reading = _HISTOGRAM.format(rows="ranks" if grid.groups else "names, those that took longest first")
        described = replace(grid, text=f"{grid.text} {BELOW}")
        yield grid_figure(described, grid.text, reading, table, by_rank)
    else:
        yield table
        yield by_rank


class _EventsOfName(NamedTuple):
    """What a probe counted under one name."""

    #: What happened: a system call, a function, …
    name: str
    #: Sums over all ranks and nodes.
    whole: Events
    #: The row with the most time, or with the most events where no duration is known.
    most: NodeRow

    @property
    def part(self) -> float:
        """The share of the row with most: of the time, or of the events where none has a time."""
        most, whole = Events.of([self.most]), self.whole
        return most.seconds / whole.seconds if whole.seconds else most.events / (whole.events or 1)


def _by_name(what: str, ordered: Sequence[tuple[str, Sequence[NodeRow]]], launch: Observed) -> Table:
    counted = [
        _EventsOfName(name, Events.of(rows), max(rows, key=lambda row: Events.of([row]).weight))
        for name, rows in ordered
    ]
    columns: list[Column[_EventsOfName]] = [
        Column(what.partition(":")[0], lambda of_name: Cell(of_name.name, (launch.ident,))),
        *(column.of(_whole) for column in _NUMBERS),
        Column("rank with most", lambda of_name: _rank(of_name.most)),
        Column("its part", lambda of_name: percent(of_name.part)),
    ]
    return Table.of(
        f"Numbers: {what}", counted, columns, most=_MOST_NAMES, rest="{} more are in the observation."
    ).filled()


def _by_rank(what: str, node_rows: Sequence[NodeRow]) -> Table:
    ordered = sorted(node_rows, key=lambda row: (row.row.rank, -row.seconds, -row.row.events))
    columns: list[Column[NodeRow]] = [
        Column("rank", lambda row: _rank(row)._replace(sort=row.row.rank)),
        Column("on", lambda row: row.node.host),
        Column("name", lambda row: row.row.name),
        *(column.of(_events) for column in _NUMBERS),
    ]
    return Table.of(
        f"Numbers: {what}, rank by rank", ordered, columns, folded=True, filtered=len(ordered) > LONG,
        most=_MOST_ROWS_BY_RANK,
    ).filled()  # fmt: skip


def _whole(counted: _EventsOfName) -> Events:
    return counted.whole


def _events(row: NodeRow) -> Events:
    return Events.of([row])


def _rank(row: NodeRow) -> Cell:
    rank = row.row.rank
    return Cell("the node's") if rank < 0 else Cell(f"rank {rank}", sort=rank)


def _time(events: Events, seconds: float) -> Cell:
    """A time of events; empty where none has one."""
    return quantity(seconds if events.timed else None, "s")


#: What is told of events; times are of all threads of a rank.
_NUMBERS: Final[Sequence[Column[Events]]] = (
    Column("events", lambda events: count(events.events)),
    Column("time", lambda events: _time(events, events.seconds)),
    Column("mean", lambda events: _time(events, events.seconds / (events.timed or 1))),
    Column("99 % below", lambda events: _time(events, events.percentile_99)),
    Column("bytes", lambda events: quantity(events.bytes or None, "B")),
)


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
        GridCell(row, place - classes[0], float(events), _tip(name, place, events), launch.ident)
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
        scale=log_scale((cell.value or 0.0 for cell in cells), "1", "events"),
    )


def _tip(name: str, place: int, events: int) -> str:
    low, high = (format_quantity(2**power * 1e-9, "s", 3) for power in (place, place + 1))
    return f"{name}\n{plural(events, 'event')}\n{low} to {high}"
