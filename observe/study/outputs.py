"""A study on the terminal: its placements, its expectations, and what its runs came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from npc.columns import columns
from npc.observe.study.judgement import runs_needed, tied
from npc.observe.study.records import Expectation, Placement, ProgramModel, Study
from npc.records.record import OK
from npc.records.units import between, plural
from npc.statistics.rank_sum import ratio_interval


def lines_of(study: Study) -> Iterator[str]:
    """What there is to say of a study, a line each."""
    planned = study.runs * len(study.conditions)
    if study.most:  # beyond these as many as it took
        planned = max(planned, len(study.ran))
    made = f"{plural(len(study.conditions), 'condition')}, {len(study.ran)} of {planned} runs"
    yield f"{study.program} on {study.platform}: {made}"
    yield from study.notes
    yield from _failures(study)
    if study.best:
        yield ""
        heads = ("placement", "runs", "seconds", "95 % interval", "slower than the best")
        yield from columns([heads, *(_row(placement, study) for placement in study.best)], right=(1, 2))
        yield from _best(study.best)
    yield from _changed(study)
    yield from _model(study.model)
    if study.expectations:
        yield ""
    for expectation in study.expectations:
        yield f"expected {expectation.text}: {_verdict(expectation)}"


def _failures(study: Study) -> Iterator[str]:
    """Each reason once, with the conditions that it hit."""
    conditions: dict[str, Counter[str]] = {}
    for run in study.ran:
        if run.status != OK:
            conditions.setdefault(run.status, Counter())[run.condition] += 1
    for status, hit in conditions.items():
        where = next(iter(hit)) if len(hit) == 1 else f"{len(hit)} conditions"
        yield f"{where}: {hit.total()} runs {status}"


def _model(model: ProgramModel | None) -> Iterator[str]:
    """The shares of the time, and whether the form may be used."""
    if model is None:
        return
    yield ""
    rows = [("of the time", "share", f"{100 * model.coverage:.3g} % interval", "")]
    for part in model.shares:
        share = "" if part.value is None else f"{part.value:.3f}"
        interval = between(part.low, part.high, "{:.3f}".format, "{} to {}")
        rows.append((part.name, share, interval, part.reason))
    yield from columns(rows, right=(1,))
    if model.note:
        yield model.note


def _row(placement: Placement, study: Study) -> tuple[str, ...]:
    interval = between(placement.low, placement.high, "{:.4g}".format, "{} to {}") or "needs 6 runs"
    loses = "" if placement is study.best[0] else placement.loss
    return (
        placement.condition,
        str(len(study.seconds(placement.condition))),
        f"{placement.seconds:.4g}",
        interval,
        loses,
    )


def _best(best: tuple[Placement, ...]) -> Iterator[str]:
    if len(best) < 2:
        return
    same, second = tied(best), best[1]
    if not same:
        yield f"best: {best[0].condition}; the second best, {second.condition}, is {second.loss} slower"
    elif any(placement.loses_low is None for placement in same):
        yield f"not told apart: {len(best)} placements need at least {runs_needed(len(best))} runs each"
    else:
        names = "; ".join(placement.condition for placement in same)
        yield f"best: {best[0].condition}, but not told apart from {names}"


def _changed(study: Study) -> Iterator[str]:
    """Conditions in which the machine was changed, each against the same placement as usual."""
    rows = []
    for condition in study.conditions:
        seconds = study.seconds(condition.name)
        if condition.usual or not seconds:
            continue
        usual = [other for other in study.conditions if other.usual and other.same_work(condition)]
        before = study.seconds(usual[0].name) if usual else []
        change = ratio_text(before, seconds) if before else ""
        rows.append((condition.name, str(len(seconds)), f"{median(seconds):.4g}", change))
    if rows:
        yield ""
        yield from columns([("condition", "runs", "seconds", "times the usual"), *rows], right=(1, 2))


def ratio_text(before: Sequence[float], after: Sequence[float]) -> str:
    """How many times as long it takes, with the interval."""
    low, ratio, high = ratio_interval(before, after)
    return f"{ratio:.3f}{between(low, high, '{:.3f}'.format, ' ({} to {})')}"


def _verdict(expectation: Expectation) -> str:
    if expectation.ratio is None:
        return expectation.held
    interval = (
        between(expectation.low, expectation.high, "{:.3g}".format, " ({} to {})")
        or " (too few runs for an interval)"
    )
    compared = f"{expectation.left} has {expectation.ratio:.3g} times the speed of {expectation.right}"
    return f"{expectation.held}: {compared}{interval}"
