"""Every pair of nodes against the median of all, and whom that blames (docs/blame.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple

from npc.figures.chart import Cell as GridCell
from npc.figures.chart import Grid, State
from npc.machine.fabric import Topology, in_order, neighbours
from npc.page.blocks import Block, Cell, Figure, Listing, Table, Text, count, grid_figure, quantity
from npc.records.units import METRICS, format_quantity, format_size
from report.runs import Repeats, Report, Run, better, median_ratio
from report.sections import Absent, runs_of

TITLE = "Pairs of nodes"
#: More nodes than this are drawn as groups of neighbours; by leaf switch where a topology is given.
_MOST_NODES = 64
#: Pairs in the table of numbers: the worst ones.
_MOST_ROWS = 300
#: Tests of which a matrix is drawn; those of one metric at other sizes are in the records.
_MOST_TESTS = 6
_READING = (
    "rows are servers, columns clients, white is the median of all pairs. A whole red row and column is a "
    "node, a single "
    "red square a link, a red block a switch or rack. Grey was not measured, a cross failed."
)


_Pair = tuple[str, str]


class _Test(NamedTuple):
    """What pairs are compared in."""

    benchmark: str
    case: str
    metric: str
    size: int | None

    @property
    def name(self) -> str:
        case = self.case if self.case.startswith(self.benchmark) else f"{self.benchmark} {self.case}"
        return f"{case} {self.metric}{f' {format_size(self.size)}' if self.size is not None else ''}"


def build(report: Report) -> Iterator[Block]:
    """Run by run the matrix of each test, and the verdicts that lie with it."""
    blocks = [block for run in runs_of(report) for block in _of_run(report, run)]
    if not blocks:
        raise Absent("no test was measured on pairs of three nodes or more (npb --pairs all, or sample:8)")
    yield from blocks


def _of_run(report: Report, run: Run) -> Iterator[Block]:
    tests = _tests(run)
    verdicts = [entry for _, entries in run.verdicts() for entry in entries]
    shown = list(tests.items())[:_MOST_TESTS]
    for test, series in shown:
        verdict = next((entry["verdict"] for entry in verdicts if _is_of(entry, test)), None)
        yield _figure(report, run, _matrix(run, test, series, report.topology), verdict)
        if verdict:
            yield from _verdict(verdict)
    if len(tests) > len(shown):
        yield Text(
            f"{len(tests) - len(shown)} more tests were measured on pairs; they are among the records."
        )


def _tests(run: Run) -> dict[_Test, list[Repeats]]:
    """Tests between two nodes that involve three nodes at least, the largest size of each first."""
    found: defaultdict[_Test, list[Repeats]] = defaultdict(list)
    for series in run.series:
        first = series.first
        if len(set(first.hosts)) == 2 and len(first.hosts) == 2 and better(first.metric) != "neither":
            if "statistic" in first.params or first.params.get("side") == "send" or not series.usable:
                continue
            found[_Test(first.benchmark, first.case, first.metric, first.size)].append(series)
    many = {
        test: series
        for test, series in found.items()
        if len({host for each in series for host in each.first.hosts}) > 2
    }
    return dict(sorted(many.items(), key=lambda item: (item[0][:3], -(item[0].size or 0))))


def _is_of(entry: Mapping[str, Any], test: _Test) -> bool:
    return (entry.get("case"), entry.get("metric"), entry.get("size")) == test[1:]


@dataclass(frozen=True)
class _Matrix:
    """All pairs of a test, server first. values: usable ones of each pair; none where all failed.

    idents: of a pair's series.
    """

    test: _Test
    values: Mapping[_Pair, list[float]]
    idents: Mapping[_Pair, str]
    topology: Topology | None

    @cached_property
    def hosts(self) -> list[str]:
        return in_order({host for pair in self.values for host in pair}, self.topology)

    @cached_property
    def groups(self) -> list[tuple[str, tuple[str, ...]]]:
        """Name and hosts of each row and column: a host, or neighbours where there are too many hosts."""
        if len(self.hosts) > _MOST_NODES:
            return neighbours(self.hosts, self.topology, _MOST_NODES)
        return [(host, (host,)) for host in self.hosts]

    @cached_property
    def normal(self) -> float:
        return median(value for each in self.values.values() for value in each)

    @cached_property
    def ratios(self) -> dict[_Pair, float | None]:
        """Each pair against the median of all; None where it failed."""
        return {
            pair: median_ratio(median(each), self.normal, self.test.metric) if each else None
            for pair, each in self.values.items()
        }

    def said(self, pair: _Pair) -> str:
        """What a pair reached, in words."""
        ratio = self.ratios[pair]
        if ratio is None:
            return "failed"
        return f"{format_quantity(median(self.values[pair]), METRICS[self.test.metric].unit)}, {ratio:.3g}"


def _matrix(run: Run, test: _Test, found: Sequence[Repeats], topology: Topology | None) -> _Matrix:
    values: defaultdict[_Pair, list[float]] = defaultdict(list)
    idents: dict[_Pair, str] = {}
    for series in found:
        pair = (series.first.hosts[0], series.first.hosts[1])
        values[pair] += [record.value for record in series.usable if record.value is not None]
        idents.setdefault(pair, series.ident)
    for record in run.records:
        if record.benchmark == test.benchmark and len(set(record.hosts)) == 2 and not record.ok:
            pair = (record.hosts[0], record.hosts[-1])
            if not values[pair]:
                idents.setdefault(pair, run.idents[id(record)])
    return _Matrix(test, values, idents, topology)


def _figure(report: Report, run: Run, matrix: _Matrix, verdict: Mapping[str, Any] | None) -> Figure:
    blamed = {host for suspect in verdict["suspects"] for host in suspect["nodes"]} if verdict else set()
    name, groups = matrix.test.name, matrix.groups
    grouped = len(groups) < len(matrix.hosts)
    measured = sum(map(bool, matrix.values.values()))
    normal = format_quantity(matrix.normal, METRICS[matrix.test.metric].unit)
    shows = f"{name}: {measured} pairs of {len(matrix.hosts)} nodes as ratios to their median, {normal}."
    if grouped:
        each = max(len(members) for _, members in groups)
        by_first = all(label == members[0] for label, members in groups)
        called = (
            f"groups of {each} neighbouring nodes, called by their first" if by_first else "leaf switches"
        )
        shows += f" Squares are medians of {called}."
    title = f"Pairs: {name}" + (f", {run.label}" if len(report.runs) > 1 else "")
    names = tuple(label for label, _ in groups)
    grid = Grid(
        ident=report.ident(),
        title=title,
        text=f"{shows} The table below has the numbers, the worst first.",
        rows=names,
        columns=names,
        cells=tuple(_of_groups(matrix) if grouped else _of_pairs(matrix)),
        row_title="server",
        column_title="client",
        blamed=frozenset(label for label, members in groups if not blamed.isdisjoint(members)),
        filled=True,
        side=24.0,
    )
    return grid_figure(grid, shows, _READING, _table(title, matrix))


def _of_pairs(matrix: _Matrix) -> Iterator[GridCell]:
    """A cell a pair; what was measured one way round only stands on both sides of the diagonal."""
    number = {host: place for place, host in enumerate(matrix.hosts)}
    for pair, ratio in matrix.ratios.items():
        server, client = pair
        tip = f"{client} → {server}\n{matrix.said(pair)}"
        state: State = "failed" if ratio is None else ""
        record = matrix.idents.get(pair, "")
        yield GridCell(number[server], number[client], ratio, tip, record, state)
        if (client, server) not in matrix.ratios:
            yield GridCell(number[client], number[server], ratio, tip, record, state)


def _of_groups(matrix: _Matrix) -> Iterator[GridCell]:
    """A cell for two groups of neighbouring hosts, whichever way round their pairs were measured."""
    group = {host: place for place, (_, members) in enumerate(matrix.groups) for host in members}
    found: defaultdict[tuple[int, int], list[float | None]] = defaultdict(list)
    for (server, client), ratio in matrix.ratios.items():
        found[group[server], group[client]].append(ratio)
        if group[server] != group[client]:
            found[group[client], group[server]].append(ratio)
    for (row, column), ratios in found.items():
        known = [ratio for ratio in ratios if ratio is not None]
        middle = median(known) if known else None
        said = "all failed" if middle is None else f"{middle:.3g} (worst {min(known):.3g})"
        names = f"{_name(*matrix.groups[column])} with {_name(*matrix.groups[row])}"
        yield GridCell(
            row, column, middle, f"{names}\n{len(ratios)} pairs: {said}",
            state="failed" if middle is None else "",
        )  # fmt: skip


def _name(label: str, members: Sequence[str]) -> str:
    """A group in words: neighbours are called by their first alone where there is no room."""
    return f"{label} to {members[-1]}" if label == members[0] and len(members) > 1 else label


def _table(title: str, matrix: _Matrix) -> Table:
    unit = METRICS[matrix.test.metric].unit
    worst = sorted(matrix.ratios.items(), key=lambda item: -1.0 if item[1] is None else item[1])
    rows = []
    for pair, ratio in worst[:_MOST_ROWS]:
        each = matrix.values[pair]
        records = [matrix.idents[pair]] if pair in matrix.idents else []
        value = quantity(median(each), unit, records) if each else Cell("failed", records, "", kind="bad")
        share = Cell("", sort="") if ratio is None else Cell(f"{ratio:.4g}", sort=ratio, kind="number")
        rows.append((Cell(pair[0]), Cell(pair[1]), value, share, count(len(each))))
    left = len(matrix.ratios) - len(rows)
    return Table(
        f"Numbers: {title}",
        ("server", "client", "median", "ratio to all", "samples"),
        tuple(rows),
        folded=True,
        filtered=True,
        note=f"{left} better pairs are among the records." if left else "",
    )


def _verdict(verdict: Mapping[str, Any]) -> Iterator[Block]:
    suspects = [
        Cell(f"{each['kind']} {each['name']}: {each['evidence']}. Next: {each['closer']}")
        for each in verdict["suspects"]
    ]
    if suspects:
        yield Listing("To blame", tuple(suspects), "bad")
    elif verdict["healthy"]:
        yield Text("Nobody is to blame.", "good")
    if verdict["undecided"]:
        yield Listing("Undecided", tuple(map(Cell, verdict["undecided"])), "note")
    if verdict["rule"]:
        yield Listing("The rule", tuple(map(Cell, verdict["rule"])))
