"""How a program of a study scales: time and efficiencies over CPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from npc.figures.axes import Axis, Tick, linear_ticks, log_ticks, quantity_axis
from npc.figures.chart import CYCLE, Chart, Mark, Trace
from npc.observe.study.records import Condition, Study
from npc.page.blocks import (
    BELOW,
    NOTHING,
    Block,
    Cell,
    Column,
    Figure,
    Table,
    chart_figure,
    count,
    percent,
    quantity,
)
from npc.records.series import OBSERVED
from npc.records.units import format_quantity, plural
from npc.report.runs import Report, Run
from npc.statistics.medians import summarise

_POP: Final = ("parallel", "load balance", "communication")


class ScalingPoint(NamedTuple):
    """A condition of a scaling series."""

    #: How many CPUs it takes: ranks × threads.
    cpus: int
    #: How the program was run.
    condition: Condition
    #: Median time of its runs, in s.
    seconds: float
    #: Lower end of its interval, in s; None with too few runs.
    low: float | None
    #: Upper end of its interval, in s; None with too few runs.
    high: float | None


def scaling(report: Report, run: Run, study: Study) -> Iterator[Block]:
    """Time and efficiencies over CPUs, a line for each number of threads and binding."""
    lines: defaultdict[str, list[ScalingPoint]] = defaultdict(list)
    for condition in study.conditions:
        seconds = study.seconds(condition.name)
        if condition.usual and seconds:
            whole = summarise(seconds)
            variables = "".join(f", {name}={text}" for name, text in sorted(condition.variables.items()))
            binding = f"{condition.binding or 'usual'} binding{variables}"
            kind = f"{plural(condition.threads, 'thread')} a rank, {binding}"
            lines[kind].append(
                ScalingPoint(
                    condition.ranks * condition.threads, condition, whole.median, whole.low, whole.high
                )
            )
    for points in lines.values():
        points.sort(key=_order)
    every = sorted((point for points in lines.values() for point in points), key=_order)
    if len({point.cpus for point in every}) < 2:
        return
    fewest = min(point.cpus for point in every)
    first = min((point for point in every if point.cpus == fewest), key=lambda point: point.seconds)
    cpus = _cpu_axis([point.cpus for point in every])

    def traces_of(value: Callable[[ScalingPoint], float]) -> list[Trace]:
        numbered = enumerate(lines.items())
        return [_trace(kind, points, number, value, run) for number, (kind, points) in numbered]

    def figure(name: str, shows: str, reading: str, y: Axis, traces: Sequence[Trace], table: Table) -> Figure:
        text = f"{shows} {BELOW}"
        chart = Chart(report.ident(), f"{name}: {study.program}", text, cpus, y, tuple(traces), 340)
        return chart_figure(chart, shows, reading, table)

    ideal = [(float(n), first.seconds * first.cpus / n) for n in sorted({point.cpus for point in every})]
    took = [*(point.seconds for point in every), ideal[-1][1]]
    line = Trace("ideal, from the best with fewest CPUs", "grey", (tuple(ideal),), dashes=(7.0, 3.0))
    yield figure(
        "Scaling",
        f"Time of {study.program} over CPUs (ranks × threads).",
        "marks on the dashed line lose nothing with more CPUs. Marks above it do.",
        quantity_axis("time", took, "s"),
        [*traces_of(lambda point: point.seconds), line],
        _times(run, study, every, first),
    )
    shares = [*traces_of(lambda point: _efficiency(point, first)), *_pop_traces(run, every)]
    yield figure(
        "Efficiency",
        f"Efficiency of {study.program}: what of each CPU is left, against {first.condition.name}.",
        "1 is all of it. Where parallel efficiency (POP, of the ranks as npc observe saw them) falls, too, "
        "the loss is inside MPI: load balance, or communication. Where it stays, the ranks compute longer.",
        share_axis("efficiency", max([1.0, *(mark.y for trace in shares for mark in trace.marks)])),
        shares,
        _efficiencies(run, study, every, first),
    )


def times_of(run: Run, condition: str) -> list[str]:
    """Ids of the series of a condition's times."""
    return [
        series.ident
        for series in run.series
        if series.first.metric == "time" and series.first.params.get("condition") == condition
    ][:1]


def _cpu_axis(cpus: Sequence[int]) -> Axis:
    low, high = min(cpus) / 1.25, max(cpus) * 1.25
    known = sorted(set(cpus))
    ticks = known if len(known) <= 9 else [round(tick) for tick in log_ticks(low, high) if tick >= 1]
    return Axis("CPUs", low, high, True, tuple(Tick(float(tick), f"{tick}") for tick in ticks), 2)


def share_axis(title: str, most: float) -> Axis:
    high = 1.08 * most
    return Axis(
        title, 0.0, high, False, tuple(Tick(value, f"{value:g}") for value in linear_ticks(0.0, high, 7))
    )


def _order(point: ScalingPoint) -> tuple[int, float]:
    return point.cpus, point.seconds


def _efficiency(point: ScalingPoint, first: ScalingPoint) -> float:
    return first.seconds * first.cpus / (point.seconds * point.cpus)


def _trace(
    name: str, points: Sequence[ScalingPoint], number: int, value: Callable[[ScalingPoint], float], run: Run
) -> Trace:
    """Marks of conditions with a line through the best of each number of CPUs."""
    best: dict[int, float] = {}
    for point in points:
        best.setdefault(point.cpus, value(point))
    marks = tuple(
        Mark(
            float(point.cpus), value(point),
            f"{point.condition.name}\n{format_quantity(point.seconds, 's', 4)}",
            next(iter(times_of(run, point.condition.name)), ""),
        )
        for point in points
    )  # fmt: skip
    line = tuple((float(cpus), y) for cpus, y in sorted(best.items()))
    return Trace(name, CYCLE[number % len(CYCLE)], (line,), marks=marks, shape=number)


def _pop(run: Run) -> dict[tuple[str, str], tuple[float, str]]:
    """(condition, kind) → the median of an efficiency as npc observe saw it, and the id of its series."""
    medians = {}
    for series in run.series:
        params = series.first.params
        summary = series.summary
        wanted = (
            series.first.case == OBSERVED and series.first.metric == "efficiency" and "region" not in params
        )
        if wanted and summary and params.get("kind") in _POP and "condition" in params:
            medians[params["condition"], params["kind"]] = summary.median, series.ident
    return medians


def _pop_traces(run: Run, points: Sequence[ScalingPoint]) -> list[Trace]:
    pop, traces = _pop(run), []
    for number, (kind, colour) in enumerate(zip(_POP, ("ink", "purple", "sky"), strict=True)):
        marks = tuple(
            Mark(float(point.cpus), pop[point.condition.name, kind][0],
                 f"{kind} of {point.condition.name}", pop[point.condition.name, kind][1])
            for point in points
            if (point.condition.name, kind) in pop
        )  # fmt: skip
        if marks:
            traces.append(Trace(f"POP: {kind}", colour, marks=marks, shape=4 + number, hollow=True))
    return traces


def _times(run: Run, study: Study, points: Sequence[ScalingPoint], first: ScalingPoint) -> Table:
    columns: list[Column[ScalingPoint]] = [
        Column("condition", lambda point: point.condition.name),
        Column("CPUs", lambda point: count(point.cpus)),
        Column("median", lambda point: quantity(point.seconds, "s", times_of(run, point.condition.name))),
        Column("95 % interval", lambda point: spread(point.low, point.high)),
        Column("faster by", lambda point: _speedup(first.seconds / point.seconds)),
    ]
    return Table.of(f"Numbers: times of {study.program}", points, columns, folded=True)


def _speedup(times: float) -> Cell:
    return Cell(f"× {times:.3g}", sort=times, kind="number")


def spread(low: float | None, high: float | None) -> Cell:
    """An interval of times."""
    if low is None or high is None:
        return Cell("none: too few runs", kind="faint")
    return Cell(f"{format_quantity(low, 's', 4)} – {format_quantity(high, 's', 4)}", kind="number")


def _efficiencies(run: Run, study: Study, points: Sequence[ScalingPoint], first: ScalingPoint) -> Table:
    pop = _pop(run)

    def observed(kind: str) -> Column[ScalingPoint]:
        def cell(point: ScalingPoint) -> Cell:
            share, ident = pop.get((point.condition.name, kind), (None, ""))
            return NOTHING if share is None else percent(share)._replace(records=(ident,))

        return Column(f"POP: {kind}", cell)

    columns: list[Column[ScalingPoint]] = [
        Column("condition", lambda point: point.condition.name),
        Column("CPUs", lambda point: count(point.cpus)),
        Column("efficiency", lambda point: percent(_efficiency(point, first))),
        *map(observed, _POP),
    ]
    note = f"Against {first.condition.name}. POP: parallel = load balance × communication."
    return Table.of(f"Numbers: efficiencies of {study.program}", points, columns, note=note)
