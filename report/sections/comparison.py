"""The runs of the page against its first, series by series, as ``npc compare`` judges them."""

from __future__ import annotations

from collections.abc import Iterator

from npc.page.blocks import NOTHING, Block, Cell, Table, Text, quantity
from npc.report.compare.earlier import EarlierRuns
from npc.report.compare.outputs import cells, headline, remarks
from npc.report.compare.pairs import Choice, ComparedSide, Pair, compare_sides
from npc.report.compare.sides import Side
from npc.report.history import usual_history
from npc.report.runs import Report, Run
from npc.report.sections import NothingToShow, environment, runs_of

TITLE = "Comparison"
PLACE = 30
_SHOWN = ("worse", "better", "different")
_KINDS = {"worse": "bad", "better": "good", "different": "note"}


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
    found = compare_sides(*sides, Choice(), past.before(*sides))
    yield Text(headline(found))
    for line in remarks(found):
        yield Text(line)
    if found.environment:
        names = ", ".join(fact.what for fact in found.environment)
        yield Text(f"Their environments differ in {names}: see “{environment.TITLE}”.")
    differing = [pair for pair in found.pairs if pair.verdict in _SHOWN]
    if differing:
        yield _table(a, b, differing, f"What differs: {b.label} against {a.label}", folded=False)
    rest = [pair for pair in found.pairs if pair.verdict not in _SHOWN]
    if rest:
        yield _table(a, b, rest, f"Same or not comparable: {b.label} against {a.label}", folded=True)


def _side(run: Run) -> Side:
    return Side(run.label, {str(run.folder): run.records}, {str(run.folder): run.folder})


def _table(a: Run, b: Run, pairs: list[Pair], caption: str, folded: bool) -> Table:
    return Table(
        caption,
        ("verdict", "test", "size", a.label, b.label, "ratio", "95 % interval", "launches", "why"),
        tuple(_row(pair, a, b) for pair in pairs),
        folded=folded,
        filtered=True,
    )


def _row(pair: Pair, a: Run, b: Run) -> tuple[Cell, ...]:
    verdict, test, size, _, _, ratio, around, launches, why = cells(pair)
    return (
        Cell(verdict, kind=_KINDS.get(verdict, "")),
        Cell(test),
        Cell(size, sort=pair.size or 0, kind="number"),
        _half(pair, pair.a, a),
        _half(pair, pair.b, b),
        Cell(ratio, sort=pair.ratio or "", kind="number"),
        Cell(around, kind="number"),
        Cell(launches, kind="number"),
        Cell(why),
    )


def _half(pair: Pair, half: ComparedSide | None, run: Run) -> Cell:
    """A side's median, which leads to its series."""
    if half is None:
        return NOTHING
    records = [
        series.ident
        for series in run.behind(half.raw, half.size, pair.params)
        if (series.name, series.first.metric) == (pair.test, pair.metric)
    ]
    return quantity(half.median, pair.unit, records)
