"""The runs of the page against its first, series by series, as ``npc compare`` judges them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from npc.page.blocks import Block, Cell, Table, Text
from npc.records.series import Series, qualifiers
from npc.records.units import format_quantity, format_size
from report.compare.outputs import headline, launches, remarks, title_of
from report.compare.pairs import Choice, Half, Pair, compare_sides
from report.compare.sides import Side
from report.runs import Report, Run
from report.sections import Absent, environment, runs_of

TITLE = "Comparison"
_SHOWN = ("worse", "better", "different")
_KINDS = {"worse": "bad", "better": "good", "different": "note"}


def build(report: Report) -> Iterator[Block]:
    """What differs between the first run and each other one."""
    if len(runs_of(report)) < 2:
        raise Absent("one run has nothing to be compared with; name several")
    first = report.runs[0]
    for other in report.runs[1:]:
        yield from _compared(first, other)


def _compared(a: Run, b: Run) -> Iterator[Block]:
    found = compare_sides(_side(a), _side(b), Choice())
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
        ("verdict", "test", "size", "nodes", a.label, b.label, "ratio", "95 % interval", "launches"),
        tuple(_row(pair, a, b) for pair in pairs),
        folded=folded,
        filtered=True,
    )


def _row(pair: Pair, a: Run, b: Run) -> tuple[Cell, ...]:
    around = "" if pair.low is None or pair.high is None else f"{pair.low:.3f} – {pair.high:.3f}"
    return (
        Cell(pair.verdict, kind=_KINDS.get(pair.verdict, "")),
        Cell(title_of(pair)),
        Cell("" if pair.size is None else format_size(pair.size), sort=pair.size or 0, kind="number"),
        Cell(str(pair.nodes), sort=pair.nodes, kind="number"),
        _half(pair, pair.a, a),
        _half(pair, pair.b, b),
        Cell("" if pair.ratio is None else f"{pair.ratio:.3f}", sort=pair.ratio or "", kind="number"),
        Cell(around or pair.reason, kind="number" if around else ""),
        Cell(launches(pair), kind="number"),
    )


def _half(pair: Pair, half: Half | None, run: Run) -> Cell:
    """A side's median, which leads to its series."""
    if half is None:
        return Cell("", sort="", kind="number")
    raw = set(half.raw)
    records = [
        series.ident
        for series in run.series
        if (series.name, series.first.metric) == (pair.test, pair.metric)
        and series.first.size == pair.size
        and any(record.raw in raw for record in series.usable)
        and pair.params.items() <= (params := json.loads(Series.of(series.first).params)).items()
        and qualifiers(params) == qualifiers(pair.params)
    ]
    return Cell(format_quantity(half.median, pair.unit, 4), records, half.median, kind="number")
