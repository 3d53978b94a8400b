"""What holds the machine back, on what evidence, and how much of its nominal limits it reaches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npc.page.blocks import (
    Block,
    Cell,
    Table,
    Text,
)
from npc.records.units import plural
from npc.report.advice import Advice, advise, conclusion
from npc.report.compare.pairs import Pair
from npc.report.runs import Report, Run
from npc.report.score import Score, measured, score
from npc.report.sections import runs_of
from npc.report.tried import HEADER, TRIED_FILE, TriedHints, read_tried, row

TITLE = "Advice and score"
PLACE = 20
_KINDS = {"worse": "bad", "better": "good"}


def build(report: Report) -> Iterator[Block]:
    """Run by run the hints with their evidence, what was tried of them, and the score with its parts."""
    runs = runs_of(report)
    trials = [(run, tried) for run in report.trials if (tried := read_tried(run))]
    alone = {run.number for run in runs} & {run.number for run, _ in trials}
    for run in runs:
        if run.number not in alone:
            yield from _hints(run, advise(run), [tried for _, tried in trials], report.label(run))
    for run, tried in trials:
        yield from _tried(report, run, tried)
    for run in runs:
        if run.number not in alone:
            yield from _scores(run, report.label(run))


def _hints(run: Run, advice: Advice, trials: Sequence[TriedHints], where: str) -> Iterator[Block]:
    records = {record.raw: run.idents[id(record)] for record in reversed(run.records)}
    rows = []
    for rule, hint in advice.hints:
        known = list(dict.fromkeys(records[raw] for raw in hint.raw if raw in records))
        answers = [
            f"; tried ({tried.change}): {tried.answer.word}"
            for tried in trials
            if (tried.rule, tried.seen) == (rule.name, hint.seen)
        ]
        brings = Cell("".join([hint.brings, *answers]), sort=hint.gain or 0.0)
        rows.append((Cell(rule.title, known), Cell(hint.seen), Cell(hint.do), brings, Cell(rule.source)))
    if rows:
        columns = ("hint", "what was seen", "what to do", "what it brings", "source")
        yield Table(f"Hints{where}", columns, tuple(rows))
    known = [found.words for *_, found in advice.remembered] + [found.words for found in advice.settings]
    if known:
        yield Text(f"Remembered of the platform, and not proposed again: {'; '.join(known)}.")
    words, tone = conclusion(run, advice)
    if words:
        yield Text(words, tone)
    if advice.silent:
        yield Text(f"Looked and found nothing: {', '.join(advice.silent)}.")
    if advice.lacking:
        lacking = tuple((Cell(name), Cell(what)) for name, what in advice.lacking.items())
        yield Table(
            f"Not judged, for lack of evidence{where}", ("rule", "what it needs"), lacking, folded=True
        )


def _tried(report: Report, run: Run, tried: TriedHints) -> Iterator[Block]:
    """What a change brought that was tried: where the hint is about it, and elsewhere."""
    name, columns = f"Tried, rule {tried.rule}: {tried.change}", (*HEADER[:-1], "answer")
    href = report.href(run, TRIED_FILE)
    about, elsewhere = (
        tuple(_of_trial(pair, href) for pair in pairs)
        for pairs in (tried.answer.about, tried.answer.elsewhere)
    )
    yield Table(name, columns, about, note=" ".join(tried.lines))
    if elsewhere:
        yield Table(f"{name}: what the hint is not about", columns, elsewhere, folded=True)


def _of_trial(pair: Pair, href: str) -> tuple[Cell, ...]:
    test, *numbers, answer = row(pair)
    kind = _KINDS.get(pair.verdict, "")
    return (
        Cell(test, href=href),
        *(Cell(number, kind="number") for number in numbers),
        Cell(answer, kind=kind),
    )


def _scores(run: Run, where: str) -> Iterator[Block]:
    scores = score(run)
    if scores.whole is None:
        needs = "; ".join(f"{part}: {what}" for part, what in scores.missing.items())
        of = where.replace(": ", " of ")
        yield Text(f"No score{of}: nothing is measured that has a nominal limit. Not known: {needs}.")
        return
    rows = []
    for part, shares in scores.shares.items():
        rows.append((Cell(part), Cell("all of it"), *_score(scores.parts[part]), Cell("")))
        for ceiling, share in shares:
            value, around = _score(share, run.records_of(ceiling))
            rows.append((Cell(part), Cell(ceiling.name), value, around, Cell(measured(ceiling))))
    means = Cell(f"geometric mean of {', '.join(scores.parts)}")
    rows.append((Cell("machine"), means, *_score(scores.whole), Cell("")))
    rows += [
        (
            Cell("application"),
            Cell(f"{each.name}, {plural(each.nodes, 'node')}"),
            *_score(each.share),
            Cell(each.measured),
        )
        for each in scores.applications
    ]
    notes = [f"{part} is not known: {what}" for part, what in scores.missing.items()]
    if scores.proposed:
        limits = ", ".join(f"{key} {why}" for key, why in scores.proposed.items())
        notes.append(f"proposed, and not compared with a data sheet yet: {limits}")
    yield Table(
        f"Shares of the nominal limits{where}",
        ("part", "what", "share", "95 % interval", "measured"),
        tuple(rows),
        note=f"{'; '.join(notes)}." if notes else "",
    )


def _score(score: Score, records: Sequence[str] = ()) -> tuple[Cell, Cell]:
    around = "" if score.low is None or score.high is None else f"{score.low:.1%} – {score.high:.1%}"
    return Cell(f"{score.value:.1%}", records, score.value, kind="number"), Cell(around, kind="number")
