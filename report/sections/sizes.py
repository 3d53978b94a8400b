"""Tools and MPI implementations against each other over the message size: the comparison of figure 4 in
Bartelheimer, Zhu and Neuwirth (2023)."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from npc.figures.axes import Axis
from npc.page.blocks import (
    NOTHING,
    Block,
    Cell,
    Column,
    Figure,
    Table,
    Text,
    beside,
    chart_figure,
    quantity,
    size_cell,
)
from npc.records.units import METRICS
from npc.report.runs import Report, Run
from npc.report.sections import NothingToShow, left_out, runs_of
from npc.roofline.comparison import SweepLine, axes_of, by_network, describe, find_sweeps, works_on

TITLE = "Bandwidth and latency over message size"
PLACE = 40
#: By what is measured and by metric: title, what a chart shows, how to read it.
_WORDS = msgspec.toml.decode(
    Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, dict[str, dict[str, str]]]
)
_KINDS = {"messages": "other", "GPU": "gpu", "memory": "node"}
_ABSENT = "no test was measured at two message sizes (tag network: OSU, or qperf's sizes)"


def build(report: Report) -> Iterator[Block]:
    """For each kind of test a chart of every run, all to the same scale."""
    sweeps_of_runs = {run.number: _sweeps(run) for run in runs_of(report)}
    if not any(sweeps_of_runs.values()):
        raise NothingToShow(_ABSENT)
    yield Text(
        "One line a test, tool and MPI implementation; colour and mark are the test's, dashes the MPI's. "
        "The shade is the interval that covers the median with 95 %, or the range of launches that are fewer "
        "than six. Names of lines are switches."
    )
    yield from left_out(report, [run for run in report.runs if sweeps_of_runs[run.number]], _ABSENT)
    for kind in ((of, metric) for of, metrics in _WORDS.items() for metric in metrics):
        shown = {run: sweeps_of_runs[run.number].get(kind, []) for run in report.runs}
        every = [sweep for sweeps in shown.values() for sweep in sweeps]
        if not every:
            continue
        axes = axes_of(every)
        panels = {run: by_network(sweeps) for run, sweeps in shown.items()}
        for network in dict.fromkeys(name for of_run in panels.values() for name in of_run):
            figures = [
                _figure(report, run, sweeps, kind, axes, network, every)
                for run, of_run in panels.items()
                if (sweeps := of_run.get(network))
            ]
            yield from beside([[figure] for figure in figures])


def _sweeps(run: Run) -> dict[tuple[str, str], list[SweepLine]]:
    """By kind: what measures a link, what works on a node's memory, and everything else that has sizes."""
    links = find_sweeps(run.records)
    known = {(sweep.metric, sweep.name) for sweep in links}
    cases = sorted({f"{record.benchmark}/{record.case}" for record in run.records if record.size})
    others = find_sweeps(run.records, [glob.escape(case) for case in cases]) if cases else []
    by_kind: dict[tuple[str, str], list[SweepLine]] = {}
    for sweep in links:
        by_kind.setdefault(("link", sweep.metric), []).append(sweep)
    for sweep in others:
        if (sweep.metric, sweep.name) not in known:
            by_kind.setdefault((_KINDS[works_on(sweep)], sweep.metric), []).append(sweep)
    return by_kind


def _figure(
    report: Report,
    run: Run,
    sweeps: Sequence[SweepLine],
    kind: tuple[str, str],
    axes: tuple[Axis, Axis],
    network: str,
    every: Sequence[SweepLine],
) -> Figure:
    words = _WORDS[kind[0]][kind[1]]
    shows = words["shows"]
    title = " ".join(filter(None, (words["title"], network)))
    title += report.label(run)
    names = ", ".join(sweep.name for sweep in sweeps)
    text = f"{shows} {len(sweeps)} lines: {names}. The table below has all numbers."
    chart = describe(
        sweeps,
        report.ident(),
        title,
        text,
        axes,
        all_of=every,
        record=lambda sweep, size: _records(run, sweep, size)[0],
    )
    return chart_figure(chart, shows, words["reading"], _table(run, sweeps, title))


def _records(run: Run, sweep: SweepLine, size: int) -> list[str]:
    """Ids of the series behind a point."""
    return list(dict.fromkeys(run.idents[id(record)] for record in sweep.records[size]))


def _table(run: Run, sweeps: Sequence[SweepLine], title: str) -> Table:
    """A row for each size, a column for each line."""
    unit = METRICS[sweeps[0].metric].unit

    def line(sweep: SweepLine) -> Column[int]:
        def median(size: int) -> Cell:
            summary = sweep.points.get(size)
            return quantity(summary.median, unit, _records(run, sweep, size)) if summary else NOTHING

        return Column(sweep.name, median)

    columns: list[Column[int]] = [Column("size", size_cell), *map(line, sweeps)]
    sizes = sorted({size for sweep in sweeps for size in sweep.points})
    return Table.of(f"Numbers: {title}", sizes, columns, folded=True)
