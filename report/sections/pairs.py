"""Every pair of nodes against the median of all, and whom that blames (docs/blame.md)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from npc.units import METRICS, format_quantity, format_size
from report.blocks import Block, Cell, Figure, Listing, Table, Text, count, grid_figure, quantity
from report.charts import Cell as GridCell
from report.charts import Grid
from report.runs import Report, Run, Series, better, median_ratio
from report.sections import Absent
from report.sections.allocation import natural

TITLE = "Pairs of nodes"
#: More nodes than this are drawn as groups of neighbours.
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
    blocks = [block for run in report.runs for block in _of_run(report, run)]
    if not blocks:
        raise Absent("no test was measured on pairs of three nodes or more (npb --pairs all, or sample:8)")
    yield from blocks


def _of_run(report: Report, run: Run) -> Iterator[Block]:
    tests = _tests(run)
    verdicts = [entry for _, entries in run.verdicts() for entry in entries]
    shown = list(tests.items())[:_MOST_TESTS]
    for test, series in shown:
        verdict = next((entry["verdict"] for entry in verdicts if _is_of(entry, test)), None)
        yield _figure(report, run, test, series, verdict)
        if verdict:
            yield from _verdict(verdict)
    if len(tests) > len(shown):
        yield Text(
            f"{len(tests) - len(shown)} more tests were measured on pairs; they are among the records."
        )


def _tests(run: Run) -> dict[_Test, list[Series]]:
    """Tests between two nodes that involve three nodes at least, the largest size of each first."""
    found: defaultdict[_Test, list[Series]] = defaultdict(list)
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


def _figure(
    report: Report, run: Run, test: _Test, found: Sequence[Series], verdict: Mapping[str, Any] | None
) -> Figure:
    values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    ident: dict[tuple[str, str], str] = {}
    for series in found:
        server, client = series.first.hosts
        values[server, client] += [record.value for record in series.usable if record.value is not None]
        ident.setdefault((server, client), series.ident)
    for pair in _failed(run, test.benchmark) - values.keys():
        values[pair] = []
    hosts = sorted({host for pair in values for host in pair}, key=natural)
    normal = median(value for each in values.values() for value in each)
    unit = METRICS[test.metric].unit
    ratios = {
        pair: median_ratio(median(each), normal, test.metric) if each else None
        for pair, each in values.items()
    }
    blamed = {host for suspect in verdict["suspects"] for host in suspect["nodes"]} if verdict else set()
    shows = (
        f"{test.name}: {sum(map(bool, values.values()))} pairs of {len(hosts)} nodes as ratios to their "
        "median, "
        f"{format_quantity(normal, unit)}. A pair measured one way round only is shown there only."
    )
    title = f"Pairs: {test.name}" + (f", {run.label}" if len(report.runs) > 1 else "")
    if len(hosts) <= _MOST_NODES:
        grid = _pairs(hosts, ratios, values, ident, unit)
    else:
        grid = _groups(hosts, ratios)
        shows += (
            f" Squares are medians of groups of {math.ceil(len(hosts) / _MOST_NODES)} neighbouring nodes."
        )
    named, cells = grid
    picture = Grid(
        ident=report.ident(),
        title=title,
        text=f"{shows} The table below has the numbers, the worst first.",
        rows=tuple(named),
        columns=tuple(named),
        cells=tuple(cells),
        row_title="server",
        column_title="client",
        blamed=frozenset(blamed),
        side=24.0,
    )
    return grid_figure(picture, shows, _READING, _table(title, ratios, values, ident, unit))


def _failed(run: Run, benchmark: str) -> set[tuple[str, str]]:
    """Pairs of which some measurement failed."""
    return {
        (record.hosts[0], record.hosts[1])
        for record in run.records
        if record.benchmark == benchmark and len(record.hosts) == 2 and not record.ok
    }


def _pairs(
    hosts: Sequence[str],
    ratios: Mapping[tuple[str, str], float | None],
    values: Mapping[tuple[str, str], list[float]],
    ident: Mapping[tuple[str, str], str],
    unit: str,
) -> tuple[list[str], list[GridCell]]:
    number = {host: place for place, host in enumerate(hosts)}
    cells = []
    for (server, client), ratio in ratios.items():
        said = (
            "failed"
            if ratio is None
            else f"{format_quantity(median(values[server, client]), unit)}, {ratio:.3g}"
        )
        state = "failed" if ratio is None else ""
        tip = f"{client} → {server}\n{said}"
        cells.append(
            GridCell(number[server], number[client], ratio, tip, ident.get((server, client), ""), state)  # type: ignore[arg-type]
        )
    return list(hosts), cells


def _groups(
    hosts: Sequence[str], ratios: Mapping[tuple[str, str], float | None]
) -> tuple[list[str], list[GridCell]]:
    """Neighbouring hosts together; a group is called by its first."""
    each = math.ceil(len(hosts) / _MOST_NODES)
    group = {host: place // each for place, host in enumerate(hosts)}
    found: defaultdict[tuple[int, int], list[float | None]] = defaultdict(list)
    for (server, client), ratio in ratios.items():
        found[group[server], group[client]].append(ratio)
    cells = []
    for (row, column), all_of in found.items():
        known = [ratio for ratio in all_of if ratio is not None]
        ratio = median(known) if known else None
        said = "all failed" if ratio is None else f"{ratio:.3g} (worst {min(known):.3g})"
        tip = f"{hosts[column * each]} … → {hosts[row * each]} …\n{len(all_of)} pairs: {said}"
        cells.append(GridCell(row, column, ratio, tip, state="failed" if ratio is None else ""))
    return [hosts[place] for place in range(0, len(hosts), each)], cells


def _table(
    title: str,
    ratios: Mapping[tuple[str, str], float | None],
    values: Mapping[tuple[str, str], list[float]],
    ident: Mapping[tuple[str, str], str],
    unit: str,
) -> Table:
    worst = sorted(ratios.items(), key=lambda item: -1.0 if item[1] is None else item[1])
    rows = []
    for (server, client), ratio in worst[:_MOST_ROWS]:
        each = values[server, client]
        records = [ident[server, client]] if (server, client) in ident else []
        value = quantity(median(each), unit, records) if each else Cell("failed", sort="", kind="bad")
        share = Cell(
            "" if ratio is None else f"{ratio:.4g}", sort="" if ratio is None else ratio, kind="number"
        )
        rows.append((Cell(server), Cell(client), value, share, count(len(each))))
    left = len(ratios) - len(rows)
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
