"""Tools and MPI implementations against each other over message size: one line a tool, test and MPI.

The comparison of figure 4 in Bartelheimer, Zhu and Neuwirth, "Automated Network Performance Characterization
for HPC Systems" (2023), with a panel for each network where records name several. Each point is the median of
repeated launches with its 95 % interval, or with the range of launches that are too few for one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal

from npc import catalogue
from npc.columns import columns
from npc.figures.axes import Axis, quantity_axis, size_axis
from npc.figures.chart import DASHES, Chart, Mark, Trace, swept, tool_colours
from npc.figures.source import of_records
from npc.records.record import Record
from npc.records.series import INTERFACE, identity, repeats_size, test_name
from npc.records.units import METRICS, format_quantity, format_size
from npc.roofline.table import quantity_texts
from npc.statistics.medians import Summary, summarise

#: Params that name the network: what somebody gave by ``npc records sample --param network=…``, the interface
#: that npb saw sockets use, perftest's device. Nothing names what MPI chose by itself.
_NETWORK: Final = ("network", INTERFACE, "device")
#: Settings that are not part of a line's name: all lines share them, or they stand at its end (the MPI) or
#: above the panel.
_SILENT: Final = frozenset({"ranks", "datatype", "mpi", "network"})
_TITLES: Final = {"bandwidth": "Bandwidth", "latency": "Latency (half round trip)"}


@dataclass(frozen=True, slots=True)
class SweepLine:
    """One line of the picture: the medians of a test over message size."""

    #: Test, the settings that tell it from others, and MPI.
    name: str
    #: ``bandwidth`` or ``latency``.
    metric: str
    #: Name of the MPI implementation; empty where the records name none.
    mpi: str
    #: By size in bytes the median with its interval, in the metric's SI unit.
    points: dict[int, Summary]
    #: By size in bytes the records that the median is of.
    records: dict[int, list[Record]]
    #: Name of the network that the messages went over; empty where it is not known.
    network: str = ""

    @property
    def tool(self) -> str:
        """The benchmark that measured it."""
        return next(iter(self.records.values()))[0].benchmark

    def edges(self, size: int) -> tuple[float, float] | None:
        """The 95 % interval at a size; of launches that are too few for one the smallest and the largest
        value; None of a single launch."""
        summary = self.points[size]
        if summary.low is not None and summary.high is not None:
            return summary.low, summary.high
        values = [record.value for record in self.records[size] if record.value is not None]
        return (min(values), max(values)) if len(values) > 1 else None


def find_sweeps(records: Iterable[Record], cases: Sequence[str] = ()) -> list[SweepLine]:
    """The lines of usable records, in the order of their names.

    `cases`: patterns of ``case`` or ``benchmark/case``; by default the tests between two processes that the
    roofline takes for network ceilings. A sweep has at least two sizes.
    """
    groups: defaultdict[tuple[str, str, str, str, str], defaultdict[int, list[Record]]]
    groups = defaultdict(lambda: defaultdict(list))
    for record in records:
        if not record.ok or record.value is None or not record.size or "statistic" in record.params:
            continue
        if record.metric in _TITLES and _wanted(record, cases):
            name = test_name(record.benchmark, record.case)
            others = [
                f"{key} {value}"
                for key, value in sorted(identity(record.params).items())
                if key not in _SILENT and not repeats_size(key, value, record.size)
            ]
            label = ", ".join([name, *others])
            network = next((record.params[name] for name in _NETWORK if name in record.params), "")
            key = (record.metric, label, record.params.get("mpi", ""), f"{record.nodes}", network)
            groups[key][record.size].append(record)
    spans = {(metric, label): set[str]() for metric, label, *_ in groups}
    for metric, label, _, nodes, _ in groups:
        spans[metric, label].add(nodes)
    lines = []
    for (metric, label, mpi, nodes, network), sizes in sorted(groups.items()):
        if len(sizes) < 2:
            continue
        words = [label, *([f"{nodes} nodes"] if len(spans[metric, label]) > 1 else [])]
        name = ", ".join(words) + (f" · {mpi}" if mpi else "")
        points = {
            size: summarise([r.value for r in sizes[size] if r.value is not None]) for size in sorted(sizes)
        }
        lines.append(SweepLine(name, metric, mpi, points, dict(sizes), network))
    return lines


def _wanted(record: Record, cases: Sequence[str]) -> bool:
    if cases:
        names = (record.case, f"{record.benchmark}/{record.case}")
        return any(fnmatchcase(name, pattern) for name in names for pattern in cases)
    return catalogue.row_of(record).between_two


def by_network(sweeps: Iterable[SweepLine]) -> dict[str, list[SweepLine]]:
    """By name of a panel its lines: a panel for each network, or a single one, "", where fewer than two
    networks are named.

    Where several are named, lines without a network have a panel of their own.
    """
    sweeps = list(sweeps)
    named = sorted({sweep.network for sweep in sweeps} - {""})
    if len(named) < 2:
        return {"": sweeps}
    panels = {f"over {name}": [sweep for sweep in sweeps if sweep.network == name] for name in named}
    unnamed = [sweep for sweep in sweeps if not sweep.network]
    return panels | ({"over a network that is not recorded": unnamed} if unnamed else {})


def draw_sweeps(sweeps: Sequence[SweepLine], title: str, paths: Sequence[Path]) -> bool:
    """Write the picture to `paths`, in the format of their suffixes. Raises OSError.

    Bandwidth and latency have a panel each, for each network. Colour and marker tell the test, dashes the
    MPI. False, and nothing written, where there is no sweep.
    """
    if not sweeps:
        return False
    from npc.figures.printed import INCHES, save

    networks = by_network(sweeps)
    panels, metrics = [], 0
    for metric, heading in _TITLES.items():
        every = [sweep for sweep in sweeps if sweep.metric == metric]
        metrics += bool(every)
        for network, of_network in networks.items():
            if shown := [sweep for sweep in of_network if sweep.metric == metric]:
                words = f"{heading} {network}".strip()
                panels.append(describe(shown, metric, words, "", axes_of(every), all_of=sweeps))
    few = any(summary.low is None for sweep in sweeps for summary in sweep.points.values())
    words = "median and 95 % interval" + (", or range of fewer than six launches" if few else "")
    if all(summary.n == 1 for sweep in sweeps for summary in sweep.points.values()):
        words = "one launch a size"
    measured = [record for sweep in sweeps for records in sweep.records.values() for record in records]
    wide, high = INCHES
    save(
        [replace(panel, source=of_records(measured)) for panel in panels],
        paths,
        title=f"{title}: bandwidth and latency over message size",
        subtitle=words,
        columns=metrics if len(networks) > 1 else 0,
        inches=(wide, max(high, 5.0 * len(networks))),
    )
    return True


def describe(
    sweeps: Sequence[SweepLine],
    ident: str,
    title: str,
    text: str,
    axes: tuple[Axis, Axis],
    *,
    all_of: Sequence[SweepLine] = (),
    record: Callable[[SweepLine, int], str] = lambda *_: "",
) -> Chart:
    """A chart of sweeps of one metric: colour and mark are the test's, the dashes the MPI's.

    all_of: the lines that share colours and dashes, if there are more than `sweeps`; other metrics have
    charts of their own. record: the id of a size's record in a page.
    """
    metric = sweeps[0].metric
    tests = list(dict.fromkeys(_test(sweep) for sweep in all_of or sweeps if sweep.metric == metric))
    mpis = list(dict.fromkeys(sweep.mpi for sweep in all_of or sweeps if sweep.mpi))
    tools = {_test(sweep): sweep.tool for sweep in all_of or sweeps if sweep.metric == metric}
    colours = dict(zip(tools, tool_colours(list(tools.values())), strict=True))
    traces = (
        _trace(
            sweep,
            colours[_test(sweep)],
            tests.index(_test(sweep)),
            mpis.index(sweep.mpi) if sweep.mpi else 0,
            record,
        )
        for sweep in sweeps
    )
    return Chart(ident, title, text, *axes, tuple(traces))


def works_on(sweep: SweepLine) -> Literal["messages", "GPU", "memory"]:
    """What its sizes are of: messages, what a GPU is sent or works on, a node's memory."""
    layers = {catalogue.row_of(record).layer for records in sweep.records.values() for record in records}
    if layers & catalogue.MESSAGES:
        return "messages"
    return "GPU" if "gpu" in layers else "memory"


def axes_of(sweeps: Sequence[SweepLine]) -> tuple[Axis, Axis]:
    """Axes that hold all points of sweeps of one metric, with their intervals."""
    metric = sweeps[0].metric
    sizes = [size for sweep in sweeps for size in sweep.points]
    values = [
        value
        for sweep in sweeps
        for size, summary in sweep.points.items()
        for value in (summary.median, *(sweep.edges(size) or ()))
        if value
    ]
    unit = METRICS[metric].unit
    names = {"messages": "Message size", "GPU": "Size", "memory": "Working set"}
    return size_axis(names[works_on(sweeps[0])], sizes), quantity_axis(metric.capitalize(), values, unit)


def _test(sweep: SweepLine) -> str:
    return sweep.name.partition(" · ")[0]


def _trace(of: SweepLine, colour: str, test: int, mpi: int, record: Callable[[SweepLine, int], str]) -> Trace:
    unit = METRICS[of.metric].unit
    marks = []
    for size, summary in of.points.items():
        low, high = of.edges(size) or (None, None)
        interval = "one sample"
        if low is not None and high is not None:
            interval = " – ".join(format_quantity(edge, unit) for edge in (low, high))
            interval += ", range" if summary.low is None else ""
        tip = (
            f"{of.name}\n{format_size(size)}: {format_quantity(summary.median, unit)}\n{interval}, "
            f"n = {summary.n}"
        )
        marks.append(Mark(size, summary.median, tip, record(of, size), low=low, high=high))
    dashes = DASHES[mpi % len(DASHES)]
    return swept(of.name, colour, marks, dashes=dashes, shape=test, hollow=mpi % 2 == 1)


def format_sweeps(sweeps: Sequence[SweepLine]) -> str:
    """A table of each line's sizes, best value and number of samples, with its network if there are
    several."""
    rows = [("test", "network", "metric", "sizes", "best", "95 % interval", "at", "n")]
    several = len(by_network(sweeps)) > 1
    for sweep in sweeps:
        unit = METRICS[sweep.metric].unit
        best = max if sweep.metric == "bandwidth" else min
        size, summary = best(sweep.points.items(), key=lambda point: point[1].median)
        low, high = sweep.edges(size) or (None, None)
        value, interval = quantity_texts(summary.median, unit, low, high, 3)
        interval = f"{interval} range" if interval and summary.low is None else interval or "one sample"
        sizes = f"{format_size(min(sweep.points))}–{format_size(max(sweep.points))}"
        rows.append(
            (sweep.name, sweep.network if several else "", sweep.metric, sizes,
             value, interval, format_size(size), str(summary.n))
        )  # fmt: skip
    return "\n".join(columns(rows, keep_empty=False))
