"""What holds the machine back, on what evidence, and how much of its nominal limits it reaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from npc.page.blocks import Block, Cell, Column, Table, Text
from npc.records.units import between, plural
from npc.report.advice import Advice, advise, conclusion
from npc.report.advice.rule import AdviceRule, Hint
from npc.report.runs import Report, Run
from npc.report.score import Score, Scores, measured, score
from npc.report.sections import present, runs_of
from npc.report.trials import trial_modules
from npc.roofline.result import Ceiling

TITLE = "Advice and score"
PLACE = 20


def build(report: Report) -> Iterator[Block]:
    """Run by run the hints with their evidence, and the score with its parts."""
    return present(
        _of_runs(report), "what is named was measured to try hints, and is advised on with its run"
    )


def _of_runs(report: Report) -> Iterator[Block]:
    runs = [run for run in runs_of(report) if run not in report.trials]
    answers: dict[tuple[str, str], str] = {}
    for module in trial_modules():
        answers |= module.answers(report.trials)
    for run in runs:
        yield from _hints(run, advise(run), answers, report.label(run))
    for run in runs:
        yield from _scores(run, report.label(run))


def _hints(run: Run, advice: Advice, answers: Mapping[tuple[str, str], str], where: str) -> Iterator[Block]:
    """answers: (rule, what was seen) → what came of trying a hint."""
    records = {record.raw: run.idents[id(record)] for record in reversed(run.records)}

    def measured_by(hint: Hint) -> list[str]:
        return list(dict.fromkeys(records[raw] for raw in hint.raw if raw in records))

    def brings(row: tuple[AdviceRule, Hint]) -> Cell:
        rule, hint = row
        words = filter(None, (hint.brings, answers.get((rule.name, hint.seen))))
        return Cell("; ".join(words), sort=hint.gain or 0.0)

    columns: list[Column[tuple[AdviceRule, Hint]]] = [
        Column("hint", lambda row: Cell(row[0].title, measured_by(row[1]))),
        Column("what was seen", lambda row: row[1].seen),
        Column("what to do", lambda row: row[1].do),
        Column("what it brings", brings),
        Column("source", lambda row: row[0].source),
    ]
    if advice.hints:
        yield Table.of(f"Hints{where}", advice.hints, columns)
    settings = [*(setting for *_, setting in advice.remembered), *advice.settings]
    if settings:
        words = "; ".join(setting.words for setting in settings)
        yield Text(f"Remembered of the platform, and not proposed again: {words}.")
    words, tone = conclusion(run, advice)
    if words:
        yield Text(words, tone)
    if advice.silent:
        yield Text(f"Looked and found nothing: {', '.join(advice.silent)}.")
    if advice.lacking:
        missing: list[Column[tuple[str, str]]] = [
            Column("rule", lambda row: row[0]),
            Column("what it needs", lambda row: row[1]),
        ]
        title = f"Not judged, for lack of evidence{where}"
        yield Table.of(title, advice.lacking.items(), missing, folded=True)


def _scores(run: Run, where: str) -> Iterator[Block]:
    scores = score(run)
    if scores.whole is None:
        needs = "; ".join(f"{part}: {what}" for part, what in scores.missing.items())
        of = where.replace(": ", " of ")
        yield Text(f"No score{of}: nothing is measured that has a nominal limit. Not known: {needs}.")
        return
    columns: list[Column[_ScoreRow]] = [
        Column("part", lambda row: row.part),
        Column("what", lambda row: row.what),
        Column("share", lambda row: _share(row.score, run.records_of(row.ceiling) if row.ceiling else ())),
        Column("95 % interval", lambda row: _interval(row.score)),
        Column("measured", lambda row: row.measured),
    ]
    notes = [f"{part} is not known: {what}" for part, what in scores.missing.items()]
    if scores.proposed:
        limits = ", ".join(f"{key} {why}" for key, why in scores.proposed.items())
        notes.append(f"proposed, and not compared with a data sheet yet: {limits}")
    yield Table.of(
        f"Shares of the nominal limits{where}", _score_rows(scores, scores.whole), columns,
        note=f"{'; '.join(notes)}." if notes else "",
    )  # fmt: skip


class _ScoreRow(NamedTuple):
    """A share of a nominal limit, or a mean of such: a row of the table."""

    #: A part of the machine, ``machine`` for all parts, or ``application``.
    part: str
    #: What the share is of, in words: a ceiling, several together, or an application.
    what: str
    #: The share with its interval.
    score: Score
    #: The measured value beside its limit, in words; empty for a mean of several shares.
    measured: str = ""
    #: The ceiling that was measured; None for a mean of several shares and for applications.
    ceiling: Ceiling | None = None


def _score_rows(scores: Scores, whole: Score) -> Iterator[_ScoreRow]:
    """The parts with their ceilings, the machine, its applications."""
    for part, shares in scores.shares.items():
        yield _ScoreRow(part, "all of it", scores.parts[part])
        for ceiling, share in shares:
            yield _ScoreRow(part, ceiling.name, share, measured(ceiling), ceiling)
    yield _ScoreRow("machine", f"geometric mean of {', '.join(scores.parts)}", whole)
    for application in scores.applications:
        what = f"{application.name}, {plural(application.nodes, 'node')}"
        yield _ScoreRow("application", what, application.share, application.measured)


def _share(score: Score, records: Sequence[str]) -> Cell:
    return Cell(f"{score.value:.1%}", records, score.value, kind="number")


def _interval(score: Score) -> Cell:
    return Cell(between(score.low, score.high, "{:.1%}".format), kind="number")
