"""Studies: a program over a plan of conditions. Placements, expectations, scaling, the model of its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from statistics import median
from typing import Final, NamedTuple

from npc.figures.axes import Axis, Tick, linear_ticks
from npc.figures.chart import Chart, Mark, Trace
from npc.observe.study.records import (
    Condition,
    Expectation,
    Placement,
    ProgramModel,
    ProgramRun,
    Share,
    Study,
    read_study,
)
from npc.observe.study.scaling import scaling, spread, times_of
from npc.page.blocks import (
    LONG,
    Block,
    Cell,
    Column,
    Heading,
    Listing,
    Table,
    Text,
    chart_figure,
    count,
    number,
    percent,
    quantity,
)
from npc.records.units import between, format_quantity
from npc.report.runs import Report, Run
from npc.report.sections import present, runs_of
from npc.statistics.medians import summarise

TITLE = "Studies"
PLACE = 120
_RATE_UNITS: Final = {"cpu": "Hz", "memory": "B/s", "network": "B/s", "io": "B/s"}
_SHARES: Final = {
    "cpu": "processor", "memory": "memory", "mpi": "MPI", "io": "I/O", "rest": "not told apart",
}  # fmt: skip
_COLOURS: Final = {"cpu": "orange", "memory": "blue", "mpi": "vermillion", "io": "green", "rest": "grey"}


def build(report: Report) -> Iterator[Block]:
    """Run by run the study in its folder."""
    blocks = (
        block for run in runs_of(report) for study in _studies(run) for block in _study(report, run, study)
    )
    return present(blocks, "no study of a program is among the runs (npc program study -- mpirun …)")


def _studies(run: Run) -> Iterator[Study]:
    """The studies in a run's folders, as far as they can be read."""
    for part in (run, *run.guests):
        with suppress(OSError, ValueError):
            yield read_study(part.folder)


def _study(report: Report, run: Run, study: Study) -> Iterator[Block]:
    yield Heading(f"{report.label(run, '{}: ')}{study.program}")
    failed = sum(run.seconds is None for run in study.ran)
    number_of_runs = f"{study.runs} or more" if study.most else str(study.runs)
    lines = (
        f"{' '.join(study.command)}",
        f"{len(study.conditions)} conditions, {number_of_runs} fresh processes each in shuffled order "
        f"(seed {study.seed}), begun {study.started[:16].replace('T', ' ')}",
        f"{len(study.ran)} runs ended, {failed} of them without a time",
        *study.notes,
    )
    yield Listing(f"What was run on {study.platform}", tuple(map(Cell, lines)))
    yield from _expectations(study)
    yield from _placements(run, study)
    yield from scaling(report, run, study)
    if study.model:
        yield from _model(report, study, study.model)
    yield _conditions(run, study)


def _expectations(study: Study) -> Iterator[Block]:
    if not study.expectations:
        return
    tones = {"held": "good", "not held": "bad"}
    columns: list[Column[Expectation]] = [
        Column("expected", lambda row: row.text),
        Column("came out", lambda row: Cell(row.held, kind=tones.get(row.held, ""))),
        Column("speeds' ratio", lambda row: number(row.ratio, ".3g")),
        Column("95 % interval", lambda row: _interval(row.low, row.high, ".3g")),
        Column("written down", lambda row: Cell(row.time[:19].replace("T", " "), kind="stamp")),
    ]
    yield Table.of("What was expected before the runs", study.expectations, columns)


def _placements(run: Run, study: Study) -> Iterator[Block]:
    """The conditions that do the same work, the best first, with what each loses."""
    if not study.best:
        return
    best, *others = study.best
    if others:
        second = others[0]
        loses = f"the second best, {second.condition}, is {second.loss} slower"
        if second.loses_low is None:
            loses += "; too few runs for an interval"
        elif second.loses_low <= 0:
            loses += ": the two cannot be told apart"
        yield Text(
            f"Best placement: {best.condition}, {format_quantity(best.seconds, 's', 4)}; {loses}.", "good"
        )
    columns: list[Column[Placement]] = [
        Column("placement", lambda row: row.condition),
        Column("median", lambda row: quantity(row.seconds, "s", times_of(run, row.condition))),
        Column("95 % interval", lambda row: spread(row.low, row.high)),
        Column("slower than the best by", lambda row: percent(row.loses)),
        Column(
            "interval of that",
            lambda row: "" if row is best else _interval(row.loses_low, row.loses_high, ".1%"),
        ),
    ]
    note = "The intervals of what each loses hold together, for all placements, with 95 %."
    yield Table.of("Placements, the best first", study.best, columns, note=note)


def _interval(low: float | None, high: float | None, form: str) -> Cell:
    return Cell(between(low, high, f"{{:{form}}}".format), kind="number")


class _RunsOf(NamedTuple):
    """The runs of a condition."""

    #: How the program was run.
    condition: Condition
    #: All of them, also those that failed.
    runs: Sequence[ProgramRun]
    #: How long those took that worked, in s.
    times: Sequence[float]


def _conditions(run: Run, study: Study) -> Table:
    """Every condition with what came of it."""

    def runs_of_one(condition: Condition) -> _RunsOf:
        runs = [ran for ran in study.ran if ran.condition == condition.name]
        return _RunsOf(condition, runs, study.seconds(condition.name))

    def middle(row: _RunsOf) -> Cell:
        seconds = median(row.times) if row.times else None
        return quantity(seconds, "s", times_of(run, row.condition.name))

    columns: list[Column[_RunsOf]] = [
        Column("condition", lambda row: row.condition.name),
        Column("nodes", lambda row: count(row.condition.nodes)),
        Column("ranks", lambda row: count(row.condition.ranks)),
        Column("threads", lambda row: count(row.condition.threads)),
        Column("binding", lambda row: row.condition.binding or "usual"),
        Column("runs", lambda row: Cell(f"{len(row.times)} of {len(row.runs)}", sort=len(row.times))),
        Column("median", middle),
        Column("95 % interval", lambda row: spread(*summarise(row.times)[2:4]) if row.times else ""),
        *(_rate(name) for name in dict.fromkeys(name for ran in study.ran for name in ran.rates)),
        Column("why not", _why_not),
    ]
    rows = map(runs_of_one, study.conditions)
    return Table.of("Conditions", rows, columns, filtered=len(study.conditions) > LONG)


def _rate(name: str) -> Column[_RunsOf]:
    """The median of what the runs of a condition got of a resource."""

    def rate(row: _RunsOf) -> Cell:
        rates = [ran.rates[name] for ran in row.runs if name in ran.rates]
        return quantity(median(rates) if rates else None, _RATE_UNITS.get(name, "1"))

    return Column(f"{name} gave", rate)


def _why_not(row: _RunsOf) -> str:
    return "; ".join(dict.fromkeys(ran.status for ran in row.runs if ran.seconds is None))


# --- the model ---------------------------------------------------------------------------------------------


def _model(report: Report, study: Study, model: ProgramModel) -> Iterator[Block]:
    """The parts of the reference's time with their intervals, and whether the form may be believed."""
    known = [share for share in model.shares if share.value is not None]
    verdict = "the form fits" if model.fits else "the form does not fit: do not predict by it"
    lack = "" if model.lack_of_fit is None else f" (lack of fit: p = {model.lack_of_fit:.2g})"
    together = f"intervals hold together with {model.coverage:.0%}"
    shows = f"Of {format_quantity(model.seconds, 's', 4)} of {model.reference}: {together}; {verdict}{lack}."
    columns: list[Column[Share]] = [
        Column("of", lambda share: _SHARES[share.name]),
        Column("share", _share),
        Column("interval", lambda share: _interval(share.low, share.high, ".1%")),
        Column("why", lambda share: share.reason),
    ]
    table = Table.of("Numbers: parts of the time", model.shares, columns)
    if known:
        yield chart_figure(
            _shares_chart(report, study, model), shows,
            "a bar is the part of the reference's time that scales with a resource, the line across its end "
            "the interval. What nothing changed is in what was not told apart.",
            table,
        )  # fmt: skip
    else:
        yield Text(f"{shows} No part of the time could be told.", "note")
        yield table
    lines = [line for line in (model.note,) if line]
    if model.overlap is not None:
        around = between(model.overlap_low, model.overlap_high, "{:.1%}".format, " ({} to {})")
        lines.append(f"overlap of the parts: {model.overlap:.1%}{around}; 0: one after the other")
    lines += [f"{name}: left out, {reason}" for name, reason in model.left_out.items()]
    if lines:
        yield Listing("About this model", tuple(map(Cell, lines)))
    if model.held_out:
        checks: list[Column[tuple[str, float]]] = [
            Column("condition left out", lambda held_out: held_out[0]),
            Column("measured / predicted without it", lambda held_out: number(held_out[1], ".3f")),
        ]
        title = "How well it predicts what it has not seen"
        yield Table.of(title, model.held_out.items(), checks, folded=True)


def _share(share: Share) -> Cell:
    return Cell("unknown", sort="", kind="number") if share.value is None else percent(share.value)


def _shares_chart(report: Report, study: Study, model: ProgramModel) -> Chart:
    known = [share for share in model.shares if share.value is not None]
    traces = []
    for place, share in enumerate(known):
        value, y = share.value or 0.0, float(len(known) - place)
        band = ((0.0, y - 0.32), (value, y - 0.32), (value, y + 0.32), (0.0, y + 0.32))
        lines: tuple[tuple[tuple[float, float], ...], ...] = ()
        text = f"{_SHARES[share.name]}: {value:.1%}"
        if share.low is not None and share.high is not None:
            lines = (((share.low, y), (share.high, y)),)
            text += f"\n{share.low:.1%} to {share.high:.1%}"
        traces.append(
            Trace(
                _SHARES[share.name],
                _COLOURS[share.name],
                lines,
                (band,),
                (Mark(value, y, text),),
                width=3.0,
                shape=place,
                tip=text,
            )
        )
    names = tuple(Tick(float(len(known) - place), _SHARES[share.name]) for place, share in enumerate(known))
    most = max((share.high or share.value or 0.0 for share in known), default=1.0)
    high = max(1.0, 1.02 * most)
    x = Axis("part of the time", 0.0, high, False,
             tuple(Tick(value, f"{value:.0%}") for value in linear_ticks(0.0, high, 7)))  # fmt: skip
    rows = Axis("", 0.4, len(known) + 0.6, False, names)
    text = ", ".join(f"{_SHARES[share.name]} {share.value:.0%}" for share in known if share.value is not None)
    return Chart(
        report.ident(), f"Where the time of {study.program} goes",
        f"{text}. The table below has the intervals.", x, rows, tuple(traces), 110 + 42 * len(known),
    )  # fmt: skip
