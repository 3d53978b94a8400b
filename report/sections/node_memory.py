"""A node's memory: latency by level, beside streams, between cores, and what ways of access cost.

The table by level has the form of table 3.1 in Beniamine, Analyzing the memory behavior of parallel
scientific applications (2016).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from npc.figures.axes import quantity_axis
from npc.figures.chart import Chart, Mark, Trace
from npc.figures.grid import Grid, GridCell
from npc.figures.scale import linear_scale
from npc.page.blocks import (
    BELOW,
    Block,
    Cell,
    Column,
    Figure,
    Table,
    chart_figure,
    grid_figure,
    number,
    quantity,
    size_cell,
)
from npc.records.units import format_quantity
from npc.report.repeats import Repeats
from npc.report.runs import Report, Run
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
    for hosts, repeats in nodes.items():
        names = [run.label] * (len(report.runs) > 1) + list(hosts) * (len(nodes) > 1)
        where = f": {', '.join(names)}" if names else ""
        yield from _levels(repeats, where)
        yield from _loaded(report, repeats, where)
        yield from _cores(report, repeats, where)
        yield from _access(repeats, where)


def _of(repeats: Sequence[Repeats], case: str, metric: str = "latency") -> list[Repeats]:
    return [series for series in repeats if (series.first.case, series.first.metric) == (case, metric)]


class _Source(NamedTuple):
    """Where data come from, and the series of the latency from there."""

    #: Where the data are, in words.
    name: str
    #: What was measured: the latency from there, in s.
    series: Repeats


def _sources(repeats: Sequence[Repeats]) -> Iterator[_Source]:
    """Levels of a core's caches and memory, lines of other cores, memory of NUMA nodes."""
    for series in _of(repeats, "load"):
        if level := series.params.get("level"):
            yield _Source("main memory" if level == "MEM" else level, series)
    nearest = list(_RELATIONS)
    for series in sorted(
        _of(repeats, "core_to_core"), key=lambda series: nearest.index(series.params["relation"])
    ):
        yield _Source(f"{_RELATIONS[series.params['relation']]}, one way", series)
    nodes = _of(repeats, "numa")
    for series in nodes if len(nodes) > 1 else ():
        cpu, memory = series.params["cpu_node"], series.params["memory_node"]
        yield _Source(f"memory of NUMA node {memory} from node {cpu}", series)


def _levels(repeats: Sequence[Repeats], where: str) -> Iterator[Table]:
    """Table 3.1: cycles and time of each level, of a line of another core, of another node's memory."""
    clock = next((series.median for series in _of(repeats, "clock", "clock")), None)

    def cycles(source: _Source) -> Cell:
        return number(None if clock is None else source.series.median * clock, ".3g")

    columns: list[Column[_Source]] = [
        Column("data from", lambda source: Cell(source.name, [source.series.ident])),
        Column("cycles", cycles),
        Column("latency", lambda source: quantity(source.series.median, "s", [source.series.ident])),
        Column("working set", lambda source: size_cell(source.series.first.size or None)),
        Column("pages", lambda source: source.series.first.params.get("pages", "")),
    ]
    note = (
        ""
        if clock is None
        else f"Cycles of the clock that was measured beside, {format_quantity(clock, 'Hz', 3)}."
    )
    if sources := list(_sources(repeats)):
        yield Table.of(f"Latency by level{where}", sources, columns, note=note)


class _LoadedPoint(NamedTuple):
    """Latency of memory while others stream."""

    #: Bandwidth of the streams, in B/s; 0 without streams.
    rate: float
    #: What was measured: the latency meanwhile, in s.
    series: Repeats

    @property
    def seconds(self) -> float:
        """Of one load."""
        return self.series.median


_LOADED_COLUMNS: Final[Sequence[Column[_LoadedPoint]]] = (
    Column("streams", lambda point: Cell(_pause_text(point.series), sort=_pause(point.series))),
    Column("bandwidth", lambda point: quantity(point.rate, "B/s")),
    Column("latency", lambda point: quantity(point.seconds, "s", [point.series.ident])),
)


def _loaded(report: Report, repeats: Sequence[Repeats], where: str) -> Iterator[Figure]:
    """The curve of latency over the bandwidth of the streams, from no streams to streams without a pause."""
    streams = {series.params["delay_ns"]: series for series in _of(repeats, "loaded", "bandwidth")}
    points = []
    for series in _of(repeats, "loaded"):
        delay = series.params["delay_ns"]
        if delay == _IDLE or delay in streams:
            points.append(_LoadedPoint(0.0 if delay == _IDLE else streams[delay].median, series))
    if len(points) < 2:
        return
    points.sort(key=lambda point: -_pause(point.series))
    marks = tuple(
        Mark(
            point.rate, point.seconds,
            f"{format_quantity(point.seconds, 's', 3)}\n{_pause_text(point.series)}", point.series.ident,
        )
        for point in points
    )  # fmt: skip
    chart = Chart(
        report.ident(), f"Loaded latency of memory{where}", f"{_LOADED} {BELOW}",
        quantity_axis("Bandwidth of the streams", [point.rate for point in points], "B/s", log=False),
        quantity_axis("Latency", [0.0, *(point.seconds for point in points)], "s", log=False),
        (Trace("loads", "blue", (tuple((mark.x, mark.y) for mark in marks),), marks=marks),),
    )  # fmt: skip
    table = Table.of(f"Numbers: loaded latency{where}", points, _LOADED_COLUMNS, folded=True)
    yield chart_figure(chart, _LOADED, _LOADED_READING, table)


def _pause(series: Repeats) -> float:
    delay = series.params["delay_ns"]
    return float("inf") if delay == _IDLE else float(delay)


def _pause_text(series: Repeats) -> str:
    delay = series.params["delay_ns"]
    return "none" if delay == _IDLE else f"a pause of {delay} ns after each 4 KiB"


def _cores(report: Report, repeats: Sequence[Repeats], where: str) -> Iterator[Figure]:
    """The matrix of pairs of CPUs; of two CPUs the table by level says it all."""
    times: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    relations: dict[tuple[int, int], Repeats] = {}
    for series in _of(repeats, "core_to_core"):
        for record in series.usable:
            one, other = map(int, record.params["thread_cpus"].split(","))
            times[one, other].append(record.value or 0.0)
            relations[one, other] = series
    cpus = sorted({cpu for pair in times for cpu in pair})
    if len(cpus) < 3:
        return
    place = {cpu: number for number, cpu in enumerate(cpus)}
    medians: Mapping[tuple[int, int], float] = {pair: median(seconds) for pair, seconds in times.items()}
    cells = []
    for (one, other), seconds in medians.items():
        series = relations[one, other]
        related = _RELATIONS[series.params["relation"]]
        tip = f"CPUs {one} and {other}\n{format_quantity(seconds, 's', 3)}, {related}"
        for row, column in ((one, other), (other, one)):
            cells.append(GridCell(place[row], place[column], seconds, tip, series.ident))
    names = tuple(map(str, cpus))
    grid = Grid(
        report.ident(), f"Core-to-core latency{where}",
        f"{_CORES} {len(medians)} pairs of {len(cpus)} CPUs. {BELOW}",
        names, names, tuple(cells), linear_scale(medians.values(), "s", "time of one way"), "CPU", "CPU",
        filled=True, side=24.0,
    )  # fmt: skip
    columns: list[Column[tuple[int, int]]] = [
        Column("CPU", lambda pair: number(pair[0], "d")),
        Column("CPU", lambda pair: number(pair[1], "d")),
        Column("related by", lambda pair: _RELATIONS[relations[pair].params["relation"]]),
        Column("one way", lambda pair: quantity(medians[pair], "s", [relations[pair].ident])),
    ]
    slowest = sorted(medians, key=lambda pair: -medians[pair])
    table = Table.of(f"Numbers: core-to-core latency{where}", slowest, columns, folded=True)
    yield grid_figure(grid, _CORES, _CORES_READING, table)


class _Compared(NamedTuple):
    """A way of access, and the one beside it that is as it should be."""

    #: The way of access, in words.
    access: str
    #: What was measured of it.
    series: Repeats
    #: The better way of access, in words.
    instead: str
    #: What was measured of the better way, in the same unit.
    better: Repeats

    @property
    def gain(self) -> float:
        """How many times as good the other is."""
        own, other = self.series.median, self.better.median
        return other / own if self.series.first.unit == "B/s" else own / other


_ACCESS_COLUMNS: Final[Sequence[Column[_Compared]]] = (
    Column("access", lambda compared: compared.access),
    Column("median", lambda compared: _median(compared.series)),
    Column("instead", lambda compared: compared.instead),
    Column("median", lambda compared: _median(compared.better)),
    Column("times as good", lambda compared: number(compared.gain, ".3g")),
)


def _median(series: Repeats) -> Cell:
    return quantity(series.median, series.first.unit, [series.ident])


def _access(repeats: Sequence[Repeats], where: str) -> Iterator[Table]:
    """Ways of access beside better ones, as far as both were measured."""
    compared = [
        _Compared(access, series, instead, better)
        for access, series, instead, better in _ways(repeats)
        if series and better and series.median and better.median
    ]
    if compared:
        yield Table.of(f"What ways of access cost{where}", compared, _ACCESS_COLUMNS)


def _ways(repeats: Sequence[Repeats]) -> Iterator[tuple[str, Repeats | None, str, Repeats | None]]:
    """(way of access, its series, the better way, its series), None for what was not measured."""

    def one(case: str, metric: str = "latency", **params: str) -> Repeats | None:
        measured = _of(repeats, case, metric)
        return next((series for series in measured if params.items() <= series.params.items()), None)

    for relation, words in _RELATIONS.items():
        for increment in ("plain", "atomic"):
            shared, apart = (
                one("sharing", relation=relation, increment=increment, lines=lines) for lines in "12"
            )
            yield f"{increment} counters on one line, {words}", shared, "on two lines", apart
    for load in ("in-line", "line-crossing", "page-crossing"):
        words = "not aligned, within a line" if load == "in-line" else load.replace("-crossing", " crossed")
        yield f"load: {words}", one("align", load=load), "aligned", one("align", load="aligned")
    for access in ("read", "write"):
        in_a_row = one("stride", "bandwidth", access=access, stride="8")
        for series in _of(repeats, "stride", "bandwidth"):
            stride = series.params["stride"]
            if series.params["access"] == access and stride != "8":
                words = "in random order" if stride == "random" else f"every {stride} B"
                yield f"{access} words {words}", series, "in a row", in_a_row
    yield (
        "memory first touched by one thread", one("touch", "bandwidth", touched_by="one"),
        "by each", one("touch", "bandwidth", touched_by="each"),
    )  # fmt: skip
    yield (
        "matrix product, down columns (ijk)", one("product", "time", loops="ijk"),
        "along rows (ikj)", one("product", "time", loops="ikj"),
    )  # fmt: skip
