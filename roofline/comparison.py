"""Tools and MPI implementations against each other over message size: one line a tool, test and MPI.

The comparison of figure 4 in Bartelheimer, Zhu and Neuwirth, "Automated Network Performance Characterization
for HPC Systems" (2023). Each point is the median of repeated launches with its 95 % interval.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from npc import catalogue
from npc.records.record import Record
from npc.records.series import test_name
from npc.records.units import format_quantity, format_size
from npc.statistics.medians import Summary, summarise
from roofline.plot import DPI, INCHES, SHAPES, STYLE
from roofline.scene import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY_BLUE, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS: Final = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY_BLUE, BLACK)
_DASHES: Final = ("-", "--", ":", "-.")
#: Params that tell lines apart, as people name them; others that differ make lines of their own as well.
_SILENT: Final = frozenset({"ranks", "datatype", "mpi", "client_cpus", "server_cpus"})
_TITLES: Final = {"bandwidth": "Bandwidth", "latency": "Latency (half round trip)"}


@dataclass(frozen=True, slots=True)
class Sweep:
    """One line: a test's median over message size. points: bytes → summary in the metric's SI unit.

    records: bytes → what was summed up there.
    """

    name: str
    metric: str
    mpi: str
    points: dict[int, Summary]
    records: dict[int, list[Record]]


def find_sweeps(records: Iterable[Record], cases: Sequence[str] = ()) -> list[Sweep]:
    """The lines of usable records, in the order of their names.

    `cases`: patterns of ``case`` or ``benchmark/case``; by default the tests between two processes that the
    roofline takes for network ceilings. A sweep has at least two sizes.
    """
    groups: defaultdict[tuple[str, str, str, str], defaultdict[int, list[Record]]]
    groups = defaultdict(lambda: defaultdict(list))
    for record in records:
        if not record.ok or record.value is None or not record.size or "statistic" in record.params:
            continue
        if record.metric in _TITLES and _wanted(record, cases):
            name = test_name(record.benchmark, record.case)
            others = [f"{key} {value}" for key, value in sorted(record.params.items()) if key not in _SILENT]
            label = ", ".join([name, *_noteworthy(record, others)])
            key = (record.metric, label, record.params.get("mpi", ""), f"{record.nodes}")
            groups[key][record.size].append(record)
    spans = {(metric, label): set[str]() for metric, label, _, _ in groups}
    for metric, label, _, nodes in groups:
        spans[metric, label].add(nodes)
    found = []
    for (metric, label, mpi, nodes), sizes in sorted(groups.items()):
        if len(sizes) < 2:
            continue
        words = [label, *([f"{nodes} nodes"] if len(spans[metric, label]) > 1 else [])]
        name = ", ".join(words) + (f" · {mpi}" if mpi else "")
        points = {size: _summary(sizes[size]) for size in sorted(sizes)}
        found.append(Sweep(name, metric, mpi, points, dict(sizes)))
    return found


def _summary(records: Sequence[Record]) -> Summary:
    return summarise([record.value for record in records if record.value is not None])


def _wanted(record: Record, cases: Sequence[str]) -> bool:
    if cases:
        names = (record.case, f"{record.benchmark}/{record.case}")
        return any(fnmatchcase(name, pattern) for name in names for pattern in cases)
    return catalogue.row_of(record).between_two


def _noteworthy(record: Record, others: list[str]) -> list[str]:
    """What to add to a name: qualifiers that are no repetition of the message size."""
    return [
        text for text in others if not text.endswith((f" {record.size}", f" {format_size(record.size or 0)}"))
    ]


def draw_sweeps(sweeps: Sequence[Sweep], title: str, paths: Sequence[Path]) -> bool:
    """Write the picture to `paths`, in the format of their suffixes. Raises OSError.

    A panel each for bandwidth and latency; colour and marker are the test's, the dashes the MPI's. False, and
    nothing written, where there is no sweep.
    """
    if not sweeps:
        return False
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    metrics = [metric for metric in _TITLES if any(sweep.metric == metric for sweep in sweeps)]
    mpis = list(dict.fromkeys(sweep.mpi for sweep in sweeps))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=INCHES, dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        for panel, metric in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
            shown = [sweep for sweep in sweeps if sweep.metric == metric]
            tests = list(dict.fromkeys(sweep.name.partition(" · ")[0] for sweep in shown))
            for sweep in shown:
                test = tests.index(sweep.name.partition(" · ")[0])
                _line(panel, sweep, test, _DASHES[mpis.index(sweep.mpi) % len(_DASHES)])
            _frame(panel, metric)
        figure.suptitle(
            f"{title}: median and 95 % interval over message size", fontsize=14, x=0.01, ha="left"
        )
        for path in paths:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})
    return True


def _line(axes: Axes, sweep: Sweep, test: int, dashes: str) -> None:
    sizes = list(sweep.points)
    summaries = list(sweep.points.values())
    colour = _COLOURS[test % len(_COLOURS)]
    axes.plot(
        sizes, [summary.median for summary in summaries], color=colour, ls=dashes, lw=1.6,
        marker=SHAPES[test % len(SHAPES)], ms=4, label=sweep.name,
    )  # fmt: skip
    whole = [
        (size, s.low, s.high) for size, s in sweep.points.items() if s.low is not None and s.high is not None
    ]
    if whole:
        axes.fill_between(*zip(*whole, strict=True), color=colour, alpha=0.15, lw=0)  # type: ignore[arg-type]


def _frame(axes: Axes, metric: str) -> None:
    unit = "B/s" if metric == "bandwidth" else "s"
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: format_size(round(value)) if value >= 1 else "")
    axes.yaxis.set_major_formatter(lambda value, _: format_quantity(value, unit, 3))
    axes.yaxis.set_minor_formatter(lambda *_: "")
    axes.grid(which="major", color="#DDDDDD", lw=0.7)
    axes.set_axisbelow(True)
    axes.set_xlabel("Message size [bytes]")
    axes.set_title(_TITLES[metric], loc="left", fontsize=12, fontweight="bold")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=8.5, frameon=False, ncols=2)


def format_sweeps(sweeps: Sequence[Sweep]) -> str:
    """A table: each line's first and last size, its best and its number of samples."""
    rows = [("test", "metric", "sizes", "best", "95 % interval", "at", "n")]
    for sweep in sweeps:
        unit = "B/s" if sweep.metric == "bandwidth" else "s"
        best = max if sweep.metric == "bandwidth" else min
        size, summary = best(sweep.points.items(), key=lambda point: point[1].median)
        interval = "too few samples"
        if summary.low is not None and summary.high is not None:
            interval = f"[{format_quantity(summary.low, unit, 3)}, {format_quantity(summary.high, unit, 3)}]"
        sizes = f"{format_size(min(sweep.points))}–{format_size(max(sweep.points))}"
        rows.append(
            (sweep.name, sweep.metric, sizes, format_quantity(summary.median, unit, 3), interval,
             format_size(size), str(summary.n))
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
