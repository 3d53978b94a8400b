"""A node's memory: latency by level, beside streams, between cores, and what ways of access cost.

The table by level has the form of table 3.1 in Beniamine, Analyzing the memory behavior of parallel
scientific applications (2016).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from npc.figures.chart import Chart, Grid, Mark, Trace, linear_scale, quantity_axis
from npc.figures.chart import HeatCell as GridCell
from npc.page.blocks import (
    Block,
    Cell,
    Figure,
    Table,
    amounts_figure,
    chart_figure,
    number,
    quantity,
    size_cell,
)
from npc.records.units import format_quantity
from npc.report.runs import Repeats, Report, Run
from npc.report.sections import of_runs, present

TITLE = "Memory of a node"
PLACE = 60
_ABSENT = "memory's latencies were not measured (tag memory)"
_IDLE: Final = "idle"
_RELATIONS: Final = {
    "same-core": "two hardware threads of a core",
    "shared-cache": "two cores below one last-level cache",
    "same-socket": "two cores of a socket",
    "other-socket": "cores of two sockets",
}
_LOADED = (
    "Time of one dependent load of main memory, while all other cores of its NUMA node stream at growing "
    "intensity: medians of the launches."
)
_LOADED_READING = (
    "down is faster. On the left memory is idle; where the curve bends upwards requests wait in queues, and "
    "a program that needs more bandwidth pays for it with every load that it waits for. Where it bends back, "
    "more requests than memory serves only wait."
)
_CORES = "Time that a cache line takes from one CPU to another: medians of the launches."
_CORES_READING = (
    "dark is slow. Blocks along the diagonal share a core, a cache or a socket; programs whose threads hand "
    "data to each other belong within one. Grey was not measured."
)


def build(report: Report) -> Iterator[Block]:
    """Run by run, and node by node."""
    return present(of_runs(report, _of_run), _ABSENT)


def _of_run(report: Report, run: Run) -> Iterator[Block]:
    nodes = run.by_hosts("memory")
    for hosts, found in nodes.items():
        names = [run.label] * (len(report.runs) > 1) + list(hosts) * (len(nodes) > 1)
        where = f": {', '.join(names)}" if names else ""
        yield from _levels(found, where)
        yield from _loaded(report, found, where)
        yield from _cores(report, found, where)
        yield from _access(found, where)


def _of(found: Sequence[Repeats], case: str, metric: str = "latency") -> list[Repeats]:
    return [each for each in found if (each.first.case, each.first.metric) == (case, metric)]


def _levels(found: Sequence[Repeats], where: str) -> Iterator[Table]:
    """Table 3.1: cycles and time of each level, of a line of another core, of another node's memory."""
    clocks = [series.median for series in _of(found, "clock", "clock")]
    rows = []

    def row(name: str, series: Repeats, seconds: float) -> None:
        cycles = seconds * clocks[0] if clocks else None
        size = series.first.size
        pages = series.first.params.get("pages", "")
        rows.append((
            Cell(name, [series.ident]), number(cycles, ".3g"), quantity(seconds, "s", [series.ident]),
            size_cell(size or None), Cell(pages),
        ))  # fmt: skip

    for series in _of(found, "load"):
        if level := series.params.get("level"):
            row("main memory" if level == "MEM" else level, series, series.median)
    nearest = list(_RELATIONS)
    for series in sorted(_of(found, "core_to_core"), key=lambda each: nearest.index(each.params["relation"])):
        row(f"{_RELATIONS[series.params['relation']]}, one way", series, series.median)
    nodes = _of(found, "numa")
    for series in nodes if len(nodes) > 1 else ():
        cpu, memory = series.params["cpu_node"], series.params["memory_node"]
        row(f"memory of NUMA node {memory} from node {cpu}", series, series.median)
    if rows:
        columns = ("data from", "cycles", "latency", "working set", "pages")
        note = (
            f"Cycles of the clock that was measured beside, {format_quantity(clocks[0], 'Hz', 3)}."
            if clocks
            else ""
        )
        yield Table(f"Latency by level{where}", columns, tuple(rows), note=note)


def _loaded(report: Report, found: Sequence[Repeats], where: str) -> Iterator[Figure]:
    """The curve of latency over the bandwidth of the streams, from no streams to streams without a pause."""
    streams = {series.params["delay_ns"]: series for series in _of(found, "loaded", "bandwidth")}
    points = []
    for series in _of(found, "loaded"):
        delay = series.params["delay_ns"]
        if delay == _IDLE or delay in streams:
            points.append((0.0 if delay == _IDLE else streams[delay].median, series.median, series))
    if len(points) < 2:
        return
    points.sort(key=lambda point: -_pause(point[2]))
    marks = tuple(
        Mark(rate, seconds, f"{format_quantity(seconds, 's', 3)}\n{_pause_text(series)}", series.ident)
        for rate, seconds, series in points
    )
    chart = Chart(
        report.ident(), f"Loaded latency of memory{where}", f"{_LOADED} The table below has the numbers.",
        quantity_axis("Bandwidth of the streams", [rate for rate, *_ in points], "B/s", log=False),
        quantity_axis("Latency", [0.0, *(seconds for _, seconds, _ in points)], "s", log=False),
        (Trace("loads", "blue", (tuple((mark.x, mark.y) for mark in marks),), marks=marks),),
    )  # fmt: skip
    rows = tuple(
        (
            Cell(_pause_text(series), sort=_pause(series)),
            quantity(rate, "B/s"),
            quantity(seconds, "s", [series.ident]),
        )
        for rate, seconds, series in points
    )
    table = Table(f"Numbers: loaded latency{where}", ("streams", "bandwidth", "latency"), rows, folded=True)
    yield chart_figure(chart, _LOADED, _LOADED_READING, table)


def _pause(series: Repeats) -> float:
    delay = series.params["delay_ns"]
    return float("inf") if delay == _IDLE else float(delay)


def _pause_text(series: Repeats) -> str:
    delay = series.params["delay_ns"]
    return "none" if delay == _IDLE else f"a pause of {delay} ns after each 4 KiB"


def _cores(report: Report, found: Sequence[Repeats], where: str) -> Iterator[Figure]:
    """The matrix of pairs of CPUs; of two CPUs the table by level says it all."""
    times: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    relations: dict[tuple[int, int], Repeats] = {}
    for series in _of(found, "core_to_core"):
        for record in series.usable:
            one, other = map(int, record.params["thread_cpus"].split(","))
            times[one, other].append(record.value or 0.0)
            relations[one, other] = series
    cpus = sorted({cpu for pair in times for cpu in pair})
    if len(cpus) < 3:
        return
    place = {cpu: number for number, cpu in enumerate(cpus)}
    medians: Mapping[tuple[int, int], float] = {pair: median(each) for pair, each in times.items()}
    cells = []
    for (one, other), seconds in medians.items():
        series = relations[one, other]
        related = _RELATIONS[series.params["relation"]]
        tip = f"CPUs {one} and {other}\n{format_quantity(seconds, 's', 3)}, {related}"
        for row, column in ((one, other), (other, one)):
            cells.append(GridCell(place[row], place[column], None, tip, series.ident, amount=seconds))
    names = tuple(map(str, cpus))
    grid = Grid(
        report.ident(), f"Core-to-core latency{where}",
        f"{_CORES} {len(medians)} pairs of {len(cpus)} CPUs. The table below has the numbers.",
        names, names, tuple(cells), "CPU", "CPU", filled=True, side=24.0,
        scale=linear_scale(medians.values(), "s"),
    )  # fmt: skip
    slowest = sorted(medians.items(), key=lambda item: -item[1])
    rows = tuple(
        (number(one, "d"), number(other, "d"), Cell(_RELATIONS[relations[one, other].params["relation"]]),
         quantity(seconds, "s", [relations[one, other].ident]))
        for (one, other), seconds in slowest
    )  # fmt: skip
    table = Table(
        f"Numbers: core-to-core latency{where}", ("CPU", "CPU", "related by", "one way"), rows, folded=True
    )
    yield amounts_figure(grid, _CORES, _CORES_READING, "time of one way", table)


def _access(found: Sequence[Repeats], where: str) -> Iterator[Table]:
    """Each way of access beside the one that is as it should be."""
    rows = []

    def against(what: str, good: str, bad: Repeats | None, best: Repeats | None) -> None:
        if bad is None or best is None or not bad.median or not best.median:
            return
        unit = bad.first.unit
        ratio = best.median / bad.median if unit == "B/s" else bad.median / best.median
        rows.append((
            Cell(what), quantity(bad.median, unit, [bad.ident]), Cell(good),
            quantity(best.median, unit, [best.ident]), number(ratio, ".3g"),
        ))  # fmt: skip

    def one(case: str, metric: str = "latency", **params: str) -> Repeats | None:
        return next(
            (each for each in _of(found, case, metric) if params.items() <= each.params.items()), None
        )

    for relation, words in _RELATIONS.items():
        for increment in ("plain", "atomic"):
            by_lines = [one("sharing", relation=relation, increment=increment, lines=lines) for lines in "12"]
            against(f"{increment} counters on one line, {words}", "on two lines", *by_lines)
    for load in ("in-line", "line-crossing", "page-crossing"):
        words = "not aligned, within a line" if load == "in-line" else load.replace("-crossing", " crossed")
        against(f"load: {words}", "aligned", one("align", load=load), one("align", load="aligned"))
    for access in ("read", "write"):
        in_a_row = one("stride", "bandwidth", access=access, stride="8")
        for series in _of(found, "stride", "bandwidth"):
            stride = series.params["stride"]
            if series.params["access"] == access and stride != "8":
                words = "in random order" if stride == "random" else f"every {stride} B"
                against(f"{access} words {words}", "in a row", series, in_a_row)
    against(
        "memory first touched by one thread", "by each",
        one("touch", "bandwidth", touched_by="one"), one("touch", "bandwidth", touched_by="each"),
    )  # fmt: skip
    against("matrix product, down columns (ijk)", "along rows (ikj)",
            one("product", "time", loops="ijk"), one("product", "time", loops="ikj"))  # fmt: skip
    if rows:
        columns = ("access", "median", "instead", "median", "times as good")
        yield Table(f"What ways of access cost{where}", columns, tuple(rows))
