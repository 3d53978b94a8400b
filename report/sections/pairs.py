"""Every pair of nodes against the median of all, and whom that blames (docs/blame.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from npc.figures.pairs import Pair, Pairs
from npc.machine.fabric import Topology
from npc.page.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Listing,
    Table,
    Text,
    count,
    grid_figure,
    number,
    quantity,
)
from npc.records.pair_verdicts import Localisation, PairsVerdict
from npc.records.series import test_name
from npc.records.units import METRICS, format_quantity, format_size
from npc.report.repeats import Repeats
from npc.report.runs import Report, Run
from npc.report.sections import of_runs, present

TITLE = "Pairs of nodes"
PLACE = 170
#: More nodes than this are drawn as groups of neighbours; by leaf switch where a topology is given.
_MOST_NODES = 64
#: Pairs in the table of numbers: the worst ones.
_MOST_ROWS = 300
#: Tests of which a matrix is drawn; those of one metric at other sizes are in the records.
_MOST_TESTS = 6
#: Nodes that are slow as their fleet is: the slowest.
_MOST_SLOW = 20
_READING = (
    "rows are servers, columns clients, white is the median of all pairs. A whole red row and column is a "
    "node, a single "
    "red square a link, a red block a switch or rack. Grey was not measured, a cross failed."
)


class PairTest(NamedTuple):
    """What pairs are compared in."""

    #: Name of the benchmark's folder.
    benchmark: str
    #: Which of the benchmark's tests it is.
    case: str
    #: What was measured: a key of `npc.records.units.METRICS`.
    metric: str
    #: Size of a message in bytes; None where the test has none.
    size: int | None

    @property
    def name(self) -> str:
        case = test_name(self.benchmark, self.case)
        return f"{case} {self.metric}{f' {format_size(self.size)}' if self.size is not None else ''}"


def build(report: Report) -> Iterator[Block]:
    """Run by run the matrix of each test, and the verdicts that lie with it."""
    none = "no test was measured on pairs of three nodes or more (npb --pairs all, or sample:8)"
    return present(of_runs(report, _of_run), none)


def _of_run(report: Report, run: Run) -> Iterator[Block]:
    tests = tests_of_pairs(run)
    verdicts = [entry for _, entries in run.pair_verdicts for entry in entries]
    shown = list(tests.items())[:_MOST_TESTS]
    for test, series in shown:
        verdict = next((entry.verdict for entry in verdicts if _is_of(entry, test)), None)
        yield _figure(report, run, test, _pairs(run, test, series, report.topology), verdict)
        if verdict:
            yield from _verdict(verdict)
    if len(tests) > len(shown):
        yield Text(
            f"{len(tests) - len(shown)} more tests were measured on pairs; they are among the records."
        )


def tests_of_pairs(run: Run) -> dict[PairTest, list[Repeats]]:
    """Tests between two nodes that involve three nodes at least, the largest size of each first."""
    by_test: defaultdict[PairTest, list[Repeats]] = defaultdict(list)
    for series in run.series:
        first = series.first
        if len(set(first.hosts)) == 2 and len(first.hosts) == 2 and METRICS[first.metric].better != "neither":
            if "statistic" in first.params or first.params.get("side") == "send" or not series.usable:
                continue
            by_test[PairTest(first.benchmark, first.case, first.metric, first.size)].append(series)
    many = {
        test: series
        for test, series in by_test.items()
        if len({host for repeats in series for host in repeats.first.hosts}) > 2
    }
    return dict(sorted(many.items(), key=lambda item: (item[0][:3], -(item[0].size or 0))))


def _is_of(entry: PairsVerdict, test: PairTest) -> bool:
    return (entry.case, entry.metric, entry.size) == test[1:]


def _pairs(run: Run, test: PairTest, repeats: Sequence[Repeats], topology: Topology | None) -> Pairs:
    values: defaultdict[Pair, list[float]] = defaultdict(list)
    idents: dict[Pair, str] = {}
    for series in repeats:
        pair = (series.first.hosts[0], series.first.hosts[1])
        values[pair] += [record.value for record in series.usable if record.value is not None]
        idents.setdefault(pair, series.ident)
    for record in run.records:
        if record.benchmark == test.benchmark and len(set(record.hosts)) == 2 and not record.ok:
            pair = (record.hosts[0], record.hosts[-1])
            if not values[pair]:
                idents.setdefault(pair, run.idents[id(record)])
    metric = METRICS[test.metric]
    normal = median(value for of_pair in values.values() for value in of_pair)
    return Pairs(values, metric.unit, metric.better, normal, topology, _MOST_NODES, idents)


def _figure(report: Report, run: Run, test: PairTest, pairs: Pairs, verdict: Localisation | None) -> Figure:
    suspects = verdict.suspects if verdict else ()
    name, groups = test.name, pairs.groups
    measured = sum(map(bool, pairs.values.values()))
    normal = format_quantity(pairs.normal, pairs.unit)
    shows = f"{name}: {measured} pairs of {len(pairs.hosts)} nodes as ratios to their median, {normal}."
    if len(groups) < len(pairs.hosts):
        neighbours = max(len(members) for _, members in groups)
        by_first = all(label == members[0] for label, members in groups)
        called = (
            f"groups of {neighbours} neighbouring nodes, called by their first"
            if by_first
            else "leaf switches"
        )
        shows += f" Squares are medians of {called}."
    title = f"Pairs: {name}" + report.label(run, ", {}")
    grid = pairs.grid(
        report.ident(),
        title,
        f"{shows} The table below has the numbers, the worst first.",
        blamed={host for suspect in suspects for host in suspect.nodes},
        links=[suspect.nodes for suspect in suspects if suspect.kind == "link"],
    )
    return grid_figure(grid, shows, _READING, _table(title, pairs))


def _table(title: str, pairs: Pairs) -> Table:
    worst = sorted(pairs.ratios.items(), key=lambda item: -1.0 if item[1] is None else item[1])
    shown = [pair for pair, _ in worst[:_MOST_ROWS]]

    def middle(pair: tuple[str, str]) -> Cell:
        records = [pairs.idents[pair]] if pair in pairs.idents else []
        if values := pairs.values[pair]:
            return quantity(median(values), pairs.unit, records)
        return Cell("failed", records, "", kind="bad")

    columns: list[Column[tuple[str, str]]] = [
        Column("server", lambda pair: pair[0]),
        Column("client", lambda pair: pair[1]),
        Column("median", middle),
        Column("ratio to all", lambda pair: number(pairs.ratios[pair], ".4g")),
        Column("samples", lambda pair: count(len(pairs.values[pair]))),
    ]
    left = len(pairs.ratios) - len(shown)
    return Table.of(
        f"Numbers: {title}",
        shown,
        columns,
        folded=True,
        filtered=True,
        note=f"{left} better pairs are among the records." if left else "",
    )


def _verdict(verdict: Localisation) -> Iterator[Block]:
    suspects = [
        Cell(f"{suspect.whom}: {suspect.evidence}. Next: {suspect.closer}") for suspect in verdict.suspects
    ]
    if suspects:
        yield Listing("To blame", tuple(suspects), "bad")
    elif verdict.healthy:
        yield Text("Nobody is to blame.", "good")
    if verdict.slow_nodes:
        findings = tuple(Cell(node.in_words()) for node in verdict.slow_nodes[:_MOST_SLOW])
        left = len(verdict.slow_nodes) - len(findings)
        more = (Cell(f"{left} more are in pairs.json"),) if left else ()
        yield Listing("Slower, as nodes of this fleet are", (*findings, *more), "note")
    if verdict.undecided:
        yield Listing("Undecided", tuple(map(Cell, verdict.undecided)), "note")
    if verdict.rule:
        yield Listing("The rule", tuple(map(Cell, verdict.rule)))
