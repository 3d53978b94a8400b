"""Which nodes took part, and how each compares with the others: the allocation of figure 9 in the paper."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from npc.figures.allocation import Allocation, maps
from npc.figures.grid import Grid, GridCell
from npc.figures.scale import RATIOS
from npc.machine.fabric import ELSEWHERE, Topology, natural, places
from npc.page.blocks import (
    LONG,
    Block,
    Cell,
    Column,
    Figure,
    Table,
    Text,
    count,
    grid_figure,
    number,
    percent,
)
from npc.records.nodes import Hosts
from npc.records.series import Series
from npc.records.verdicts import NightDocument, NodeFinding
from npc.report.history import HistoryView
from npc.report.nodes import NodeHistory, Nodes, by_node
from npc.report.runs import Report, Run
from npc.report.sections import present

TITLE = "Nodes: allocation and health"
PLACE = 150
#: Nodes in a row of the map.
_ROW = 16
#: Squares of maps of the allocation on a page, at most.
_MOST_CELLS = 2000
#: Below this a node is worth a look, and its name stands out.
_LOOK = 0.95
_READING = (
    "each square is a node, {order}. White is as the others, red slower, blue faster, grey has nothing to be "
    "compared with, a cross has no usable number. Point at a square for its name and numbers."
)
_COUNTED = (
    "each square is a node, in the column of its rack; its number is that of the nights in which it was "
    "measured, grey is none. Point at a square for its name."
)
_BY_DEVICE = (
    "Devices are compared with the same ones of other nodes, and a node is as bad as the worst of them. "
)
_BY_PLACE = "by rack or leaf switch, whose name stands on the left; the first node of a row stands before it"


def build(report: Report) -> Iterator[Block]:
    """A map of the nodes of each run and of the history."""
    parts = [*(block for run in report.runs for block in _of_run(report, run))]
    if report.history:
        parts += list(_of_history(report, report.history))
    return present(parts, "no record names a host")


def _of_run(report: Report, run: Run) -> Iterator[Block]:
    nodes = list(_nodes(run))
    if not nodes:
        return
    where = f": {run.label}" if len(report.runs) > 1 or report.history else ""
    (node, *others) = by_node(nodes)
    if not others:
        yield _alone(f"All of {run.label} was", node)
        return
    yield _figure(report, f"Health of the nodes{where}", _placed(nodes, report.topology))


def _nodes(run: Run) -> Iterator[NodeHistory]:
    """The nodes of a run, which lead to its series."""
    by_test = {(Series.of(series.first), series.first.hosts): series for series in run.series}

    def lead(test: Series, hosts: Hosts) -> tuple[str, str]:
        series = by_test[test, hosts]
        return series.ident, series.name

    return Nodes.of_run(run.records).compared(lead)


def _of_history(report: Report, history: HistoryView) -> Iterator[Block]:
    for document in history.verdicts.values():
        if document.findings:
            yield _findings(document)
    for platform in history.platforms:
        members = _placed(history.nodes[platform], report.topology)
        nodes = by_node(members)
        if len(nodes) == 1:
            yield _alone(f"All nights of {platform} were", nodes[0])
        if len(nodes) < 2:
            continue
        yield _figure(report, f"Health of the nodes of {platform} over all nights", members)
        months = sorted({month for node in nodes for month in node.by_month})
        yield from _allocated(report, history, platform)
        yield Table.of(
            f"Allocation: rows of the history of {platform} by node and month",
            nodes,
            [*_named(nodes, devices=False), *map(_month, months)],
            folded=True,
            filtered=True,
        )


def _findings(night: NightDocument) -> Table:
    """Who is unlike its fleet, those that are new first, then the furthest."""
    columns: list[Column[NodeFinding]] = [
        Column("node", lambda finding: finding.name),
        Column("slower by", lambda finding: percent(finding.slowdown)),
        Column("since", lambda finding: f"{finding.since}, new" if finding.new else finding.since),
        Column("nodes differ by", lambda finding: percent(finding.spread)),
        Column("from below", _rank),
        Column("furthest in", lambda finding: finding.case),
    ]
    return Table.of(
        f"Unlike their fleet since they are known: {night.platform}, night {night.run}",
        sorted(night.findings, key=lambda finding: (not finding.new, -finding.slowdown)),
        columns,
        filtered=len(night.findings) > LONG,
        note="Slower than the spread of their fleet explains (its standard deviation), but no slower than "
        "they were: no fault that began. A new one is told once, and none changes the verdict.",
    )


def _rank(finding: NodeFinding) -> Cell:
    return Cell(f"{finding.rank} of {finding.members}", sort=float(finding.rank), kind="number")


def _allocated(report: Report, history: HistoryView, platform: str) -> Iterator[Block]:
    """Figure 9 of the paper: a map a benchmark, and one for all; this alone on a large machine."""
    allocations = history.allocations[platform].allocations(report.topology)
    large = len(allocations) * len(allocations[-1].known) > _MOST_CELLS
    shows = f"Nodes that each benchmark had: {'; '.join(map(str, allocations))}."
    for allocation, grid in zip(allocations, maps(allocations, report.topology), strict=True):
        if allocation is allocations[-1] or not large:
            named = replace(
                grid,
                ident=report.ident(),
                title=f"Allocation on {platform}: {allocation}",
                text=f"{grid.text} The table below has all nodes.",
            )
            last = allocation is allocations[-1]
            tables = [_nights(allocations, f"Nights by node and benchmark: {platform}")] if last else []
            yield grid_figure(named, shows if last else grid.text, _COUNTED, *tables)


def _nights(allocations: Sequence[Allocation], caption: str) -> Table:
    hosts = sorted({host for allocation in allocations for host in allocation.nights}, key=natural)
    columns = [Column[str]("node", lambda host: host), *map(_nights_of, allocations)]
    return Table.of(caption, hosts, columns, folded=True, filtered=len(hosts) > LONG)


def _nights_of(allocation: Allocation) -> Column[str]:
    return Column(allocation.benchmark, lambda host: count(allocation.nights.get(host, 0)))


def _month(month: str) -> Column[NodeHistory]:
    return Column(month, lambda node: count(node.by_month[month]))


def _named(nodes: Sequence[NodeHistory], devices: bool = True) -> list[Column[NodeHistory]]:
    """The columns that say which node it is, which device of it, and where, if that is known."""
    columns = [Column[NodeHistory]("node", lambda node: node.node)]
    if devices and any(node.device for node in nodes):
        columns.append(Column("device", lambda node: node.device))
    if nodes[0].place:
        columns.append(Column("rack or switch", lambda node: node.place))
    return columns


def _alone(what: str, node: NodeHistory) -> Text:
    return Text(
        f"{what} measured on one node, {node.node}: there is no other to compare it with. "
        f"{node.rows} records, {node.failed} of them not usable (failed or invalid)."
    )


def _placed(nodes: Sequence[NodeHistory], topology: Topology | None) -> list[NodeHistory]:
    """Nodes by rack, or by leaf switch where no rack of theirs is known, each with its name; those that the
    topology does not know are the last. As they are if it knows none of them."""
    known = places(dict.fromkeys(node.node for node in nodes), topology)
    if not known:
        return list(nodes)
    placed = [replace(node, place=known.get(node.node, ELSEWHERE)) for node in nodes]
    return sorted(placed, key=lambda node: (node.place == ELSEWHERE, natural(node.place)))


def _lines(nodes: Sequence[NodeHistory], columns: int) -> list[list[NodeHistory]]:
    """The rows of the map; each place begins one."""
    lines: list[list[NodeHistory]] = []
    for node in nodes:
        if not lines or len(lines[-1]) == columns or lines[-1][0].place != node.place:
            lines.append([])
        lines[-1].append(node)
    return lines


def _figure(report: Report, title: str, members: Sequence[NodeHistory]) -> Figure:
    nodes = by_node(members)
    columns = min(_ROW, len(nodes)) if len(nodes) <= 256 else 32
    lines = _lines(nodes, columns)
    of_place = Counter(line[0].place for line in lines) if nodes[0].place else Counter[str]()
    cells = []
    for row, line in enumerate(lines):
        for column, node in enumerate(line):
            tip, lost = _tip(node), node.failed == node.rows
            cells.append(GridCell(row, column, node.ratio, tip, node.record, lost))
    slow = [member for member in members if member.ratio is not None and member.ratio < _LOOK]
    named = ", ".join(f"{member.name} {member.ratio:.3g}" for member in slow[:8]) or "none"
    by_device = _BY_DEVICE if len(members) > len(nodes) else ""
    shows = (
        f"{len(nodes)} nodes. {by_device}Each is as good as the median of its tests, as ratios to the same "
        "tests on all nodes that were measured with it, in the same run or night. "
        f"Below {_LOOK:g}: {named}{' and more' if len(slow) > 8 else ''}."
    )
    slow_places = {place: ratio for place, ratio in _ratios(nodes).items() if ratio < _LOOK}
    if of_place:
        named = ", ".join(f"{place} {ratio:.3g}" for place, ratio in slow_places.items()) or "none"
        shows += f" Racks and switches whose median node is below {_LOOK:g}: {named}."
    order = _BY_PLACE if of_place else "in the order of the names"
    grid = Grid(
        ident=report.ident(),
        title=title,
        text=f"{shows} The table below has all nodes.",
        rows=tuple(line[0].node for line in lines),
        columns=tuple(f"+{number}" if number else "" for number in range(max(map(len, lines)))),
        cells=tuple(cells),
        scale=RATIOS,
        blamed=frozenset({*(member.node for member in slow), *slow_places}),
        side=30.0 if len(nodes) <= 256 else 18.0,
        groups=tuple(of_place.items()),
    )
    return grid_figure(grid, shows, _READING.format(order=order), _table(title, members))


def _ratios(nodes: Sequence[NodeHistory]) -> dict[str, float]:
    """The median node of each rack or switch, as far as they are known."""
    by_place: defaultdict[str, list[float]] = defaultdict(list)
    for node in nodes:
        if node.ratio is not None and node.place not in ("", ELSEWHERE):
            by_place[node.place].append(node.ratio)
    return {place: median(ratios) for place, ratios in by_place.items()}


def _tip(node: NodeHistory) -> str:
    ratio = "not compared" if node.ratio is None else f"{node.ratio:.3g} of normal, over {node.series} tests"
    lines = [node.name, node.place, ratio, node.worst, f"{node.rows} rows, {node.failed} not usable"]
    return "\n".join(filter(None, lines))


def _table(title: str, nodes: Sequence[NodeHistory]) -> Table:
    columns: list[Column[NodeHistory]] = [
        *_named(nodes),
        Column("ratio to normal", _ratio),
        Column("tests compared", lambda node: count(node.series)),
        Column("records", lambda node: count(node.rows)),
        Column("not usable", lambda node: count(node.failed)),
        Column("worst test", lambda node: node.worst),
    ]
    return Table.of(f"Numbers: {title}", nodes, columns, folded=True, filtered=len(nodes) > LONG)


def _ratio(node: NodeHistory) -> Cell:
    ratio = number(node.ratio, ".4g", (node.record,) if node.record else ())
    is_slow = node.ratio is not None and node.ratio < _LOOK
    return ratio._replace(kind="number bad") if is_slow else ratio
