"""Which nodes took part, and how each compares with the others: the allocation of figure 9 in the paper."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from report.blocks import Block, Cell, Figure, Table, Text, count, grid_figure
from report.charts import Cell as GridCell
from report.charts import Grid
from report.history import History
from report.runs import Report, Run, better, median_ratio
from report.sections import Absent

TITLE = "Nodes: allocation and health"
#: Nodes in a row of the map.
_ROW = 16
#: Below this a node is worth a look, and its name stands out.
_LOOK = 0.95
_READING = (
    "each square is a node, in the order of the names. White is as the others, red slower, blue faster, "
    "grey has nothing "
    "to be compared with, a cross failed in everything. Point at a square for its name and numbers."
)


@dataclass(frozen=True, slots=True)
class Node:
    """A node: rows that name it, how many failed, and the median of its ratios to what is normal."""

    name: str
    rows: int
    failed: int
    ratio: float | None
    series: int
    record: str = ""
    worst: str = ""


def build(report: Report) -> Iterator[Block]:
    """A map of the nodes of each run and of the history."""
    parts = [*(block for run in report.runs for block in _of_run(report, run))]
    if report.history:
        parts += list(_of_history(report, report.history))
    if not parts:
        raise Absent("no record names a host")
    yield from parts


def _of_run(report: Report, run: Run) -> Iterator[Block]:
    nodes = list(_nodes(run))
    if not nodes:
        return
    where = f": {run.label}" if len(report.runs) > 1 or report.history else ""
    if len(nodes) == 1:
        node = nodes[0]
        yield Text(
            f"All of {run.label} was measured on one node, {node.name}: there is no other to compare it "
            "with. "
            f"{node.rows} records, {node.failed} of them failed."
        )
        return
    yield _figure(report, f"Health of the nodes{where}", nodes)


def _nodes(run: Run) -> Iterator[Node]:
    """How each host's series compare with the same tests on all hosts."""
    tests: defaultdict[tuple[object, ...], list[tuple[tuple[str, ...], str, float]]] = defaultdict(list)
    names: dict[tuple[object, ...], str] = {}
    for series in run.series:
        summary, first = series.summary, series.first
        if summary and better(first.metric) != "neither" and "statistic" not in first.params:
            key = first.series
            tests[key].append((first.hosts, series.ident, summary.median))
            names[key] = series.name
    ratios: defaultdict[str, list[tuple[float, str, str]]] = defaultdict(list)
    for test, found in tests.items():
        if len({hosts for hosts, _, _ in found}) < 2:
            continue
        normal = median(value for _, _, value in found)
        for hosts, ident, value in found:
            for host in hosts:
                ratios[host].append((median_ratio(value, normal, str(test[3])), ident, names[test]))
    rows: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    first_of: dict[str, str] = {}
    for record in run.records:
        for host in dict.fromkeys(record.hosts):
            rows[host] += 1
            failed[host] += not record.ok and not record.status.startswith("unavailable")
            first_of.setdefault(host, run.idents[id(record)])
    for host in sorted(rows, key=natural):
        own = ratios.get(host, [])
        worst = min(own, default=None)
        yield Node(
            name=host,
            rows=rows[host],
            failed=failed[host],
            ratio=median(ratio for ratio, _, _ in own) if own else None,
            series=len(own),
            record=worst[1] if worst else first_of[host],
            worst=f"worst: {worst[2]}, {worst[0]:.3g} of normal" if worst else "",
        )


def _of_history(report: Report, history: History) -> Iterator[Block]:
    for platform in history.platforms:
        own = [node for node in history.nodes if node.platform == platform]
        nodes = [Node(n.name, n.rows, n.failed, n.ratio, n.series) for n in own]
        nodes.sort(key=lambda node: natural(node.name))
        if len(nodes) < 2:
            continue
        yield _figure(report, f"Health of the nodes of {platform} over all nights", nodes)
        months = sorted({month for node in own for month in node.by_month})
        rows = tuple(
            (Cell(node.name), *(count(node.by_month.get(month, 0)) for month in months))
            for node in sorted(own, key=lambda node: natural(node.name))
        )
        yield Table(
            f"Allocation: rows of the history of {platform} by node and month",
            ("node", *months),
            rows,
            folded=True,
            filtered=True,
        )


def _figure(report: Report, title: str, nodes: Sequence[Node]) -> Figure:
    columns = min(_ROW, len(nodes)) if len(nodes) <= 256 else 32
    cells = tuple(
        GridCell(
            place // columns,
            place % columns,
            node.ratio,
            _tip(node),
            node.record,
            "failed" if node.failed == node.rows else "",
        )
        for place, node in enumerate(nodes)
    )
    lines = math.ceil(len(nodes) / columns)
    slow = [node for node in nodes if node.ratio is not None and node.ratio < _LOOK]
    named = ", ".join(f"{node.name} {node.ratio:.3g}" for node in slow[:8]) or "none"
    shows = (
        f"{len(nodes)} nodes. Each is as good as the median of its tests, as ratios to the same tests on "
        "all nodes. "
        f"Below {_LOOK:g}: {named}{' and more' if len(slow) > 8 else ''}."
    )
    grid = Grid(
        ident=report.ident(),
        title=title,
        text=f"{shows} The table below has all nodes.",
        rows=tuple(nodes[line * columns].name for line in range(lines)),
        columns=tuple(f"+{number}" if number else "" for number in range(columns)),
        cells=cells,
        blamed=frozenset(node.name for node in slow),
        side=30.0 if len(nodes) <= 256 else 18.0,
    )
    return grid_figure(grid, shows, _READING, _table(title, nodes))


def _tip(node: Node) -> str:
    ratio = "not compared" if node.ratio is None else f"{node.ratio:.3g} of normal, over {node.series} tests"
    return "\n".join(filter(None, [node.name, ratio, node.worst, f"{node.rows} rows, {node.failed} failed"]))


def _table(title: str, nodes: Sequence[Node]) -> Table:
    rows = tuple(
        (
            Cell(node.name),
            Cell(
                "" if node.ratio is None else f"{node.ratio:.4g}",
                (node.record,) if node.record else (),
                "" if node.ratio is None else node.ratio,
                kind="number bad" if node.ratio is not None and node.ratio < _LOOK else "number",
            ),
            count(node.series),
            count(node.rows),
            count(node.failed),
            Cell(node.worst),
        )
        for node in nodes
    )
    columns = ("node", "ratio to normal", "tests compared", "records", "failed", "worst test")
    return Table(f"Numbers: {title}", columns, rows, folded=True, filtered=len(nodes) > 16)


def natural(name: str) -> list[tuple[int, str]]:
    """A key by which ``n2`` comes before ``n10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
