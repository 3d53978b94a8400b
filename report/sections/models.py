"""Communication models: their parameters with intervals, how well they fit, and which to believe where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from npc.figures.chart import Chart
from npc.page.blocks import Block, Cell, Column, Table, Text, beside, chart_figure, size_cell
from npc.report.runs import Report, Run
from npc.report.sections import NothingToShow, left_out, runs_of
from npc.roofline.fit_plot import describe, error_text
from npc.roofline.fit_table import (
    ParameterOfFit,
    believed_tables,
    collectives_table,
    parameter_columns,
    parameters_of,
    share_cell,
    short_source_text,
)
from npc.roofline.fits import Fit, FitPoint, Fits, fit_records
from npc.roofline.table import quantity_texts

TITLE = "Communication models"
PLACE = 130
_SHOWS = "Measured times of one message over its size (marks), and Hockney's model T(m) = α + β·m (lines)."
_READING = (
    "a line through all marks of its piece means that a message costs a latency α and a time β for each "
    "byte. Where one line ends and the next begins the protocol switches. Marks off their line are sizes "
    "that the model does not explain."
)
_ABSENT = "no sweep of at least five message sizes that a model could be fitted to (tag network or models)"


def build(report: Report) -> Iterator[Block]:
    """Run by run the fits, and the comparison of models on sizes that they were not shown."""
    fits = {run.number: fit_records(run.records) for run in runs_of(report)}
    fitted = [run for run in report.runs if fits[run.number].fits]
    if not fitted:
        raise NothingToShow(_ABSENT)
    yield Text(
        "A model turns a sweep into a few numbers with which times can be predicted (npc model predict). "
        "Trust it where the error held out is small: each size was left out once and its time predicted "
        "from the others."
    )
    yield from left_out(report, fitted, _ABSENT)
    yield from beside([list(_of_run(report, run, fits[run.number])) for run in fitted])


def _of_run(report: Report, run: Run, fits: Fits) -> Iterator[Block]:
    where = report.label(run)
    believed = {(comparison.source, comparison.best) for comparison in fits.comparisons}
    drawn = [
        fit
        for fit in fits.fits
        if fit.lines and fit.kind == "half round trip" and (fit.source, fit.name) in believed
    ]
    if drawn:
        yield chart_figure(_chart(report, run, drawn, where), _SHOWS, _READING, _errors(run, drawn))
    yield _parameters(run, fits.fits, where)
    yield from believed_tables(fits, short_source_text, where)
    if fits.collectives:
        yield collectives_table(fits, short_source_text, where)
    if fits.skipped:
        skipped: list[Column[tuple[str, str]]] = [
            Column("sweep", lambda row: row[0]),
            Column("why", lambda row: row[1]),
        ]
        note = f"This measures the rest: {'; '.join(fits.rest)}." if fits.rest else ""
        yield Table.of(f"Not fitted{where}", fits.skipped.items(), skipped, folded=True, note=note)


def _titled(fit: Fit) -> str:
    return f"{fit.name}: {short_source_text(fit.source)}"


def _records(run: Run, fit: Fit, size: float | None = None) -> list[str]:
    """Ids of the series that a fit was made from; of one size, or of all."""
    return [
        series.ident
        for series in run.series
        if series.first.benchmark == fit.source.benchmark
        and (not fit.source.case or series.first.case == fit.source.case)
        and series.first.hosts == fit.source.hosts
        and series.first.size is not None
        and (size is None or series.first.size == size)
        and "statistic" not in series.first.params
        and any(record.raw in fit.raw for record in series.usable)
    ]


def _chart(report: Report, run: Run, fits: Sequence[Fit], where: str) -> Chart:
    return describe(
        fits,
        report.ident(),
        f"Time of a message and Hockney's model{where}",
        f"{_SHOWS} {', '.join(map(_titled, fits))}. The table below has the parameters.",
        lambda fit, size: next(iter(_records(run, fit, size)), ""),
    )


class _PointOfFit(NamedTuple):
    """A size of a sweep that a model was fitted to."""

    #: The model, fitted to the whole sweep.
    fit: Fit
    #: One size: its measured time, and how far the model is from that.
    point: FitPoint


def _errors(run: Run, fits: Sequence[Fit]) -> Table:
    """The points of the picture: measured, residual, error held out."""

    def measured(row: _PointOfFit) -> Cell:
        text, _ = quantity_texts(row.point.time, "s")
        return Cell(text, _records(run, row.fit, row.point.x), row.point.time, kind="number")

    columns: list[Column[_PointOfFit]] = [
        Column("model and sweep", lambda row: _titled(row.fit)),
        Column("size", lambda row: size_cell(row.point.x)),
        Column("measured", measured),
        Column("residual", lambda row: _number(f"{100 * row.point.residual:+.1f} %", row.point.residual)),
        Column("error held out", lambda row: _number(error_text(row.point.held_out), row.point.held_out)),
    ]
    points = [_PointOfFit(fit, point) for fit in fits for point in fit.points]
    return Table.of("Numbers: times and errors of the model", points, columns, folded=True)


def _number(text: str, value: float) -> Cell:
    return Cell(text, sort=value, kind="number")


def _parameters(run: Run, fits: Sequence[Fit], where: str) -> Table:
    columns: list[Column[ParameterOfFit]] = [
        Column("model and sweep", lambda row: _titled(row.fit)),
        *parameter_columns("parameter", "sizes (LogfP: messages)", lambda fit: _records(run, fit)),
        Column("residuals (rms)", lambda row: share_cell(row.fit.fitted.residual_rms)),
        Column("error held out", lambda row: share_cell(row.fit.fitted.held_out_median)),
    ]
    models = [fit.fitted for fit in fits]
    notes = "; ".join(dict.fromkeys(f"{fitted.model}: {fitted.note}" for fitted in models if fitted.note))
    sources = "; ".join(
        dict.fromkeys(f"{fitted.model}: {fitted.equation} ({fitted.source})" for fitted in models)
    )
    return Table.of(
        f"Parameters with their 95 % intervals{where}", parameters_of(fits), columns,
        note=" ".join(filter(None, [notes and f"{notes}.", f"Models: {sources}."])),
    )  # fmt: skip
