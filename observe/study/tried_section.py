"""What was tried of the hints of advice: each change with what it brought."""

from __future__ import annotations

from collections.abc import Iterator

from npc.observe.study.tried import HEADER, TRIED_FILE, TriedHints, read_tried, row
from npc.page.blocks import Block, Cell, Table
from npc.report.compare.compared_series import ComparedSeries
from npc.report.runs import Report, Run
from npc.report.sections import present, runs_of

TITLE = "Tried hints"
PLACE = 21
_KINDS = {"worse": "bad", "better": "good"}


def build(report: Report) -> Iterator[Block]:
    """Each trial: where its hint is about what was measured, and elsewhere."""
    runs_of(report)
    blocks = (
        block for run in report.trials if (tried := read_tried(run)) for block in _tables(report, run, tried)
    )
    return present(blocks, "no hint was tried (npc advise RUN --try HINT)")


def _tables(report: Report, run: Run, tried: TriedHints) -> Iterator[Block]:
    name, columns = f"Tried, rule {tried.rule}: {tried.change}", (*HEADER[:-1], "answer")
    href = report.href(run, TRIED_FILE)
    about, elsewhere = (
        tuple(_cells(series, href) for series in compared)
        for compared in (tried.answer.about, tried.answer.elsewhere)
    )
    yield Table(name, columns, about, note=" ".join(tried.lines))
    if elsewhere:
        yield Table(f"{name}: what the hint is not about", columns, elsewhere, folded=True)


def _cells(series: ComparedSeries, href: str) -> tuple[Cell, ...]:
    test, *numbers, answer = row(series)
    return (
        Cell(test, href=href),
        *(Cell(number, kind="number") for number in numbers),
        Cell(answer, kind=_KINDS.get(series.verdict, "")),
    )
