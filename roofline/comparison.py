"""Tools and MPI implementations against each other over message size: one line a tool, test and MPI.

The comparison of figure 4 in Bartelheimer, Zhu and Neuwirth, "Automated Network Performance Characterization
for HPC Systems" (2023). Each point is the median of repeated launches with its 95 % interval.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from npc import catalogue
from npc.columns import columns
from npc.figures.chart import CYCLE, DASHES, Axis, Chart, Mark, Trace, quantity_axis, size_axis
from npc.records.record import Record
from npc.records.series import identity, repeats_size, test_name
from npc.records.units import METRICS, format_quantity, format_size
from npc.statistics.medians import Summary, summarise

#: Settings that name no line: they are the same of all, or stand at its end (the MPI).
_SILENT: Final = frozenset({"ranks", "datatype", "mpi"})
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
            others = [
                f"{key} {value}"
                for key, value in sorted(identity(record.params).items())
                if key not in _SILENT and not repeats_size(key, value, record.size)
            ]
            label = ", ".join([name, *others])
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
        points = {
            size: summarise([r.value for r in sizes[size] if r.value is not None]) for size in sorted(sizes)
        }
        found.append(Sweep(name, metric, mpi, points, dict(sizes)))
    return found


def _wanted(record: Record, cases: Sequence[str]) -> bool:
    if cases:
        names = (record.case, f"{record.benchmark}/{record.case}")
        return any(fnmatchcase(name, pattern) for name in names for pattern in cases)
    return catalogue.row_of(record).between_two


def draw_sweeps(sweeps: Sequence[Sweep], title: str, paths: Sequence[Path]) -> bool:
    """Write the picture to `paths`, in the format of their suffixes. Raises OSError.

    A panel each for bandwidth and latency; colour and marker are the test's, the dashes the MPI's. False, and
    nothing written, where there is no sweep.
    """
    if not sweeps:
        return False
    from npc.figures.printed import save

    panels = []
    for metric, heading in _TITLES.items():
        shown = [sweep for sweep in sweeps if sweep.metric == metric]
        if shown:
            panels.append(describe(shown, metric, heading, "", axes_of(shown), all_of=sweeps))
    save(panels, paths, title=f"{title}: median and 95 % interval over message size", legend="below")
    return True


def describe(
    sweeps: Sequence[Sweep],
    ident: str,
    title: str,
    text: str,
    axes: tuple[Axis, Axis],
    *,
    all_of: Sequence[Sweep] = (),
    record: Callable[[Sweep, int], str] = lambda *_: "",
) -> Chart:
    """A chart of sweeps of one metric: colour and mark are the test's, the dashes the MPI's.

    all_of: what dashes are given to, if that is more. record: the id of a size's record in a page.
    """
    tests = list(dict.fromkeys(_test(sweep) for sweep in sweeps))
    mpis = list(dict.fromkeys(sweep.mpi for sweep in all_of or sweeps))
    traces = (_trace(sweep, tests.index(_test(sweep)), mpis.index(sweep.mpi), record) for sweep in sweeps)
    return Chart(ident, title, text, *axes, tuple(traces))


def axes_of(sweeps: Sequence[Sweep]) -> tuple[Axis, Axis]:
    """Axes that hold all points of sweeps of one metric, with their intervals."""
    metric = sweeps[0].metric
    sizes = [size for sweep in sweeps for size in sweep.points]
    values = [
        value
        for sweep in sweeps
        for summary in sweep.points.values()
        for value in (summary.median, summary.low, summary.high)
        if value
    ]
    unit = METRICS[metric].unit
    return size_axis("Message size [bytes]", sizes), quantity_axis(
        f"{metric.capitalize()} [{unit}]", values, unit
    )


def _test(sweep: Sweep) -> str:
    return sweep.name.partition(" · ")[0]


def _trace(sweep: Sweep, test: int, mpi: int, record: Callable[[Sweep, int], str]) -> Trace:
    unit = METRICS[sweep.metric].unit
    marks = []
    for size, summary in sweep.points.items():
        interval = "too few samples for an interval"
        if summary.low is not None and summary.high is not None:
            interval = f"{format_quantity(summary.low, unit)} – {format_quantity(summary.high, unit)}"
        tip = (
            f"{sweep.name}\n{format_size(size)}: {format_quantity(summary.median, unit)}\n{interval}, "
            f"n = {summary.n}"
        )
        marks.append(Mark(size, summary.median, tip, record(sweep, size)))
    whole = [(float(size), s) for size, s in sweep.points.items() if s.low and s.high]
    band = [(size, s.low or 0.0) for size, s in whole] + [
        (size, s.high or 0.0) for size, s in reversed(whole)
    ]
    return Trace(
        name=sweep.name,
        colour=CYCLE[test % len(CYCLE)],
        lines=(tuple((float(size), summary.median) for size, summary in sweep.points.items()),),
        bands=(tuple(band),) if len(whole) > 1 else (),
        marks=tuple(marks),
        dashes=DASHES[mpi % len(DASHES)],
        shape=test,
        hollow=mpi % 2 == 1,
    )


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
    return "\n".join(columns(rows))
