"""Modules of one system against each other: latency and bandwidth within each and between each two.

The modules are the partitions of a heterogeneous job of Slurm (`platforms/modular`), whose pairs of nodes
were measured; a number is the median of all pairs of servers of one and clients of the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from npc.figures.pairs import Pair, Pairs
from npc.machine.fabric import modules, natural, short_name
from npc.page.blocks import BELOW, Block, Column, Table, Text, count, grid_figure, interval, quantity
from npc.records.units import METRICS, format_quantity
from npc.report.repeats import Repeats
from npc.report.runs import Report, Run
from npc.report.sections import of_runs, present
from npc.report.sections.pairs import PairTest, tests_of_pairs
from npc.statistics.medians import summarise

TITLE = "Modules"
PLACE = 160
#: The side of a square in pixels.
_SIDE: Final = 64.0
_READING = (
    "rows are the modules of the servers, columns those of the clients, the diagonal is within a module; "
    "white is the median of the squares, red worse, blue better. Grey was not measured."
)


def build(report: Report) -> Iterator[Block]:
    """Run by run and test by test the matrix of the modules and its numbers."""
    none = "no pairs of nodes were measured over several modules"
    return present(of_runs(report, _of_run), f"{none} (cron/pairs/benchmark.xml on platforms/modular)")


def _of_run(report: Report, run: Run) -> Iterator[Block]:
    where: dict[str, str] = {}
    for environment in run.circumstances.environments.values():
        where |= modules((environment or {}).get("variables") or {})
    if len(set(where.values())) < 2:
        return
    for test, series in tests_of_pairs(run).items():
        squares: defaultdict[Pair, list[Repeats]] = defaultdict(list)
        for repeats in series:
            hosts = repeats.first.hosts
            server, client = (where.get(host) or where.get(short_name(host)) for host in hosts)
            if server and client:
                squares[server, client].append(repeats)
        if squares:
            yield from _figure(report, run, test, dict(squares))


def _figure(report: Report, run: Run, test: PairTest, squares: dict[Pair, list[Repeats]]) -> Iterator[Block]:
    """The heat map of one test with its table, and what it lacks."""
    metric = METRICS[test.metric]
    values = {pair: _values(repeats) for pair, repeats in squares.items()}
    normal = median(median(medians) for medians in values.values())
    names = sorted({name for pair in squares for name in pair}, key=natural)
    idents = {pair: repeats[0].ident for pair, repeats in squares.items()}
    pairs = Pairs(values, metric.unit, metric.better, normal, None, len(names), idents)
    shows = (
        f"{test.name} within and between {len(names)} modules: {', '.join(names)}. A square is the median of "
        f"its pairs of nodes, as a ratio to that of the squares, {format_quantity(normal, metric.unit)}."
    )
    title = f"Modules: {test.name}" + report.label(run, ", {}")
    grid = pairs.grid(report.ident(), title, f"{shows} {BELOW}")
    yield grid_figure(replace(grid, side=_SIDE), shows, _READING, _table(title, squares, metric.unit))
    alone = [name for name in names if (name, name) not in values]
    if alone:
        yield Text(f"Not measured within {', '.join(alone)}: a module needs two nodes for that.", "note")


def _values(series: Sequence[Repeats]) -> list[float]:
    """The median of each pair of nodes: repeats of one pair say nothing of the others."""
    return [repeats.summary.median for repeats in series if repeats.summary]


def _table(title: str, squares: dict[Pair, list[Repeats]], unit: str) -> Table:
    middles = {square: summarise(_values(repeats)) for square, repeats in squares.items()}
    columns: list[Column[Pair]] = [
        Column("server in", lambda square: square[0]),
        Column("client in", lambda square: square[1]),
        Column("modules", lambda square: "within" if square[0] == square[1] else "between"),
        Column(
            "median",
            lambda square: quantity(
                middles[square].median, unit, [repeats.ident for repeats in squares[square]]
            ),
        ),
        Column("95 % interval", lambda square: interval(middles[square], unit)),
        Column("pairs", lambda square: count(middles[square].n)),
        Column("samples", lambda square: count(sum(len(repeats.usable) for repeats in squares[square]))),
    ]
    return Table.of(f"Numbers: {title}", sorted(squares), columns)
