"""The roofline of each run: what compute, memory and network allow a program at best."""

from __future__ import annotations

from collections.abc import Iterator

from npc.records.units import format_quantity
from report.blocks import Block, Cell, Columns, Listing, Table, Text, chart_figure, count, quantity
from report.charts import COLOURS, Axis, Chart, Mark, Tick, Trace, log_ticks
from report.runs import Report, Run
from report.sections import Absent, left_out, runs_of
from roofline.points import verdict
from roofline.scene import INTENSITIES, Line, Scene, compose
from roofline.scene import Mark as Application
from roofline.table import (
    application_text,
    date_text,
    host_text,
    intensity_text,
    interval_text,
    share_text,
    size_text,
    source_text,
    value_text,
)

TITLE = "Roofline"
_SHOWS = (
    "The ceilings of one node, each the median of repeated launches: flat lines are peaks of computing, "
    "slopes are "
    "bandwidths of caches, memory and network."
)
_READING = (
    "right is more computing per byte, up is faster. A program that does I FLOP for each byte it moves "
    "over a path of "
    "bandwidth b reaches at most I·b, and never more than the peak; the lowest of its lines is its limit. "
    "Circles are "
    "ridge points (a diamond tells all about its line): left of them bytes are the limit, right of them "
    "arithmetic. The x axis has two "
    "meanings, and one "
    f"program has a place for each: {INTENSITIES}."
)
_FILES = {
    "roofline.html": "the picture to zoom into",
    "roofline.json": "its numbers for programs",
    "mpi-roofline.svg": "the roofline of MPI operations",
}


_ABSENT = "without a compute ceiling there is no roof (tag compute: likwid-bench peakflops)"


def build(report: Report) -> Iterator[Block]:
    """Run by run the picture, the ceilings, ridge points and applications."""
    shown = [(run, scene) for run in runs_of(report) if (scene := compose(run.roofline))]
    if not shown:
        raise Absent(_ABSENT)
    columns = [tuple(_of_run(report, run, scene)) for run, scene in shown]
    yield Text("Names of lines are switches: without the small ones the picture is easier to read.")
    yield from left_out(report, [run for run, _ in shown], _ABSENT)
    if len(columns) == 1:
        yield from columns[0]
    else:
        yield Columns(tuple(columns))


def _of_run(report: Report, run: Run, scene: Scene) -> Iterator[Block]:
    found = run.roofline
    title = f"{found.title}: {host_text(found.hosts)}, {date_text(found)}"
    if len(report.runs) > 1:
        title = f"{run.label}: {title}"
    ceilings = [f"{line.ceiling.name} {value_text(line.ceiling)}" for line in scene.lines]
    chart = Chart(
        ident=report.ident(),
        title=title,
        text=f"{_SHOWS} {'; '.join(ceilings)}. The tables below have all numbers.",
        x=_axis("Operational intensity [FLOP/byte]", scene.x, ""),
        y=_axis("Attainable performance [FLOP/s]", scene.y, "FLOP/s"),
        traces=tuple(_traces(run, scene)),
        height=500,
    )
    yield chart_figure(chart, _SHOWS, _READING, _ceilings(run), _ridges(run))
    files = [
        Cell(f"{name}: {words}", href=report.href(run, name))
        for name, words in _FILES.items()
        if (run.folder / name).is_file()
    ]
    if files:
        yield Listing("The same beside the records", tuple(files))
    if found.applications:
        yield _applications(run)
        for application in found.applications:
            yield Text(verdict(application, found))


def _axis(title: str, window: tuple[float, float], unit: str) -> Axis:
    ticks = log_ticks(*window)
    ticks = [tick for tick in ticks if f"{tick:e}".startswith("1")] if len(ticks) > 6 else ticks
    labels = [format_quantity(tick, unit, 3) if unit else f"{tick:g}" for tick in ticks]
    return Axis(title, *window, True, tuple(map(Tick, ticks, labels)))


def _traces(run: Run, scene: Scene) -> Iterator[Trace]:
    ridges: dict[str, list[Mark]] = {line.ceiling.name: [] for line in scene.lines}
    for ridge, _ in scene.ridges:
        at = intensity_text(ridge.intensity)
        words = f"ridge point of {ridge.compute}\nwith {ridge.bandwidth}:\n{at} FLOP/byte"
        ridges[ridge.bandwidth].append(Mark(ridge.intensity, ridge.performance, words))
    for line in scene.lines:
        colour = COLOURS[line.stroke.colour]
        records = run.records_of(line.ceiling)
        places = ((line.start, line.height(line.start)), (line.end, line.height(line.end)))
        yield Trace(
            name=f"{line.ceiling.name}  {value_text(line.ceiling)} {interval_text(line.ceiling)}",
            colour=colour,
            lines=(places,),
            bands=(tuple(line.band()),) if line.ceiling.low is not None else (),
            marks=tuple(ridges[line.ceiling.name]),
            dashes=line.stroke.dashes,
            hollow=True,
        )
        yield Trace("", colour, marks=(_handle(line, records),), shape=3, follows=True)
    for words, peak in scene.theoretical:
        yield Trace(
            name=f"{words}  {format_quantity(peak, 'FLOP/s', 3)}",
            colour="grey",
            lines=(((scene.flat_start(peak), peak), (scene.x[1], peak)),),
            dashes=(1.2, 2.4),
        )
    for mark in scene.marks:
        yield _application(mark, run)


def _handle(line: Line, records: list[str]) -> Mark:
    """A mark on a line that says all about its ceiling and leads to its records."""
    ceiling = line.ceiling
    x = line.end / 3 if not line.sloped else line.start * (line.end / line.start) ** 0.35
    facts = [f"{ceiling.name}: {value_text(ceiling)}", f"95 % interval {interval_text(ceiling)}"]
    size = f", size {size_text(ceiling.size)}" if ceiling.size is not None else ""
    facts.append(f"{source_text(ceiling)}, {ceiling.n} samples{size}")
    if ceiling.share is not None:
        facts.append(f"{share_text(ceiling)} of the nominal limit")
    if ceiling.note:
        facts.append(ceiling.note)
    return Mark(x, line.height(x), "\n".join(facts), records[0] if records else "")


def _application(mark: Application, run: Run) -> Trace:
    name = application_text(mark.application)
    tip = f"{name}\n{verdict(mark.application, run.roofline)}"
    raw = {each.raw for each in mark.application.runs}
    record = next((run.idents[id(record)] for record in run.records if record.raw in raw), "")
    dots = tuple(Mark(x, y, f"{name}: one run", record) for x, y in mark.runs) if len(mark.runs) > 1 else ()
    trail = (mark.trail,) if mark.trail else ()
    return Trace(
        name=name,
        colour=COLOURS[mark.colour],
        lines=trail,
        marks=(*dots, Mark(mark.x, mark.y, tip, record)),
        shape=mark.shape,
    )


def _ceilings(run: Run) -> Table:
    rows = [
        (
            Cell(ceiling.name),
            quantity(ceiling.value, ceiling.unit, run.records_of(ceiling)),
            Cell(interval_text(ceiling), kind="number"),
            count(ceiling.n),
            Cell(size_text(ceiling.size), sort=ceiling.size or 0, kind="number"),
            Cell(source_text(ceiling)),
            Cell(share_text(ceiling), sort=ceiling.share or "", kind="number"),
        )
        for ceiling in run.roofline.ceilings
    ]
    columns = ("ceiling", "median", "95 % interval", "samples", "size", "test", "of nominal")
    return Table("Ceilings", columns, tuple(rows), folded=True)


def _ridges(run: Run) -> Table:
    rows = []
    for ridge in run.roofline.ridges:
        around = ""
        if ridge.low is not None and ridge.high is not None:
            around = f"[{intensity_text(ridge.low)}, {intensity_text(ridge.high)}]"
        ceilings = {ceiling.name: ceiling for ceiling in run.roofline.ceilings}
        records = [
            record for name in (ridge.compute, ridge.bandwidth) for record in run.records_of(ceilings[name])
        ]
        rows.append(
            (
                Cell(ridge.bandwidth),
                Cell(ridge.compute),
                Cell(f"{intensity_text(ridge.intensity)} FLOP/byte", records, ridge.intensity, kind="number"),
                Cell(around, kind="number"),
            )
        )
    return Table("Ridge points", ("bandwidth", "peak", "they meet at", "interval"), tuple(rows), folded=True)


def _applications(run: Run) -> Table:
    rows = []
    for application in run.roofline.applications:
        raw = {each.raw for each in application.runs}
        records = list(dict.fromkeys(run.idents[id(r)] for r in run.records if r.raw in raw))
        intensity = application.intensity
        rows.append(
            (
                Cell(application.name),
                count(application.nodes),
                quantity(application.flops.median, "FLOP/s", records),
                Cell(
                    "" if intensity is None else f"{intensity_text(intensity.median)} FLOP/byte",
                    kind="number",
                ),
                count(application.flops.n),
            )
        )
    return Table("Applications", ("application", "nodes", "a node", "on the network", "runs"), tuple(rows))
