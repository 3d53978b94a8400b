"""The runs of the page against its first, series by series, as ``npc compare`` judges them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npc.page.blocks import NOTHING, Block, Cell, Column, Table, Text, quantity
from npc.report.compare.compared_series import ComparedSeries, ComparedSide
from npc.report.compare.comparison import compare_sides
from npc.report.compare.earlier import EarlierRuns
from npc.report.compare.matching import Choice
from npc.report.compare.remarks import headline, remarks
from npc.report.compare.sides import Side
from npc.report.compare.table import series_columns
from npc.report.history import usual_history
from npc.report.runs import Report, Run
from npc.report.sections import NothingToShow, environment, runs_of

TITLE = "Comparison"
PLACE = 30
_SHOWN = ("worse", "better", "different")


def build(report: Report) -> Iterator[Block]:
    """What differs between the first run and each other one."""
    if len(runs_of(report)) < 2:
        raise NothingToShow("one run has nothing to be compared with; name several")
    past = EarlierRuns([_side(run) for run in report.runs], usual_history())
    first = report.runs[0]
    for other in report.runs[1:]:
        yield from _compared(first, other, past)


def _compared(a: Run, b: Run, past: EarlierRuns) -> Iterator[Block]:
    sides = _side(a), _side(b)
    comparison = compare_sides(*sides, Choice(), past.before(*sides))
    yield Text(headline(comparison))
    for line in remarks(comparison):
        yield Text(line)
    if comparison.environment:
        names = ", ".join(fact.what for fact in comparison.environment)
        yield Text(f"Their environments differ in {names}: see “{environment.TITLE}”.")
    differing = [series for series in comparison.series if series.verdict in _SHOWN]
    if differing:
        yield _table(a, b, differing, f"What differs: {b.label} against {a.label}", folded=False)
    rest = [series for series in comparison.series if series.verdict not in _SHOWN]
    if rest:
        yield _table(a, b, rest, f"Same or not comparable: {b.label} against {a.label}", folded=True)


def _side(run: Run) -> Side:
    return Side(run.label, {str(run.folder): run.records}, {str(run.folder): run.folder})


def _table(a: Run, b: Run, compared: Sequence[ComparedSeries], caption: str, folded: bool) -> Table:
    columns = series_columns(
        Column(a.label, lambda series: _median(series, series.a, a)),
        Column(b.label, lambda series: _median(series, series.b, b)),
        ratio="ratio",
        launches="launches",
    )
    return Table.of(caption, compared, columns, folded=folded, filtered=True)


def _median(series: ComparedSeries, side: ComparedSide | None, run: Run) -> Cell:
    """A side's median, which leads to its samples."""
    if side is None:
        return NOTHING
    records = [
        repeats.ident
        for repeats in run.behind(side.raw, side.size, series.params)
        if (repeats.name, repeats.first.metric) == (series.test, series.metric)
    ]
    return quantity(side.median, series.unit, records)
