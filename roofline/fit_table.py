"""Fitted models and predictions as tables: described once, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

from npc.columns import columns
from npc.page.blocks import Cell, Table
from npc.records.units import format_size, plural
from npc.roofline.cross_validation import BURST
from npc.roofline.fits import Fit, Fits
from npc.roofline.measured_collectives import AlgorithmAgreement
from npc.roofline.prediction import PredictedTime, Range
from npc.roofline.sweeps import SweepSource
from npc.roofline.table import quantity_texts
from npc.statistics.medians import MIN_SAMPLES
from npc.validity.disturbance import remark

BELIEVE: Final = "Which model to believe where, by the median error on sizes it was not shown"
NEAREST: Final = "Measured collectives against each algorithm's prediction (npc model predict): median error"
PROBABLY: Final = "The nearest is probably what the MPI library uses there."
NO_ARITHMETIC: Final = (
    "The arithmetic of all-reduce is not in it: --reduction names it, or records of STREAM's add."
)


def format_fits(fits: Fits) -> str:
    """Every model's parameters with intervals, what they were fitted to, and which to believe where."""
    parts: list[str] = []
    for fit in fits.fits:
        over = "messages" if fit.fitted.model == "LogfP" else "sizes"
        table = Table("", ("", "value", "95 % interval", over, "meaning"), tuple(parameter_rows(fit)))
        parts += [_heading(fit), *_lines(table), _quality(fit)]
    called, shared = _told_apart([each.source for each in fits.comparisons])
    for table in believed_tables(fits, called, shared):
        parts += [table.caption, *_lines(table, once=1)]
    parts += [_alone(fit) for fit in fits.unrivalled]
    if fits.collectives:
        table = collectives_table(fits, *_told_apart([each.source for each in fits.collectives]))
        parts += [table.caption, *_lines(table, once=2), *_of_collectives(fits)]
    for name, reason in fits.skipped.items():
        parts.append(f"Not fitted: {name}: {reason}.")
    if fits.rest:
        parts.append("\n  ".join(["This measures the rest:", *fits.rest]))
    return "\n".join([*parts, *filter(None, [remark(fits.disturbed)])])


def _lines(table: Table, once: int = 0) -> list[str]:
    """A table between empty lines. once: the first cells that stand only where they change."""
    texts = table.texts()
    shown = [
        ("",) * once + row[once:] if row[:once] == above[:once] else row for above, row in pairwise(texts)
    ]
    return ["", *columns([texts[0], *(shown if once else texts[1:])]), ""]


def format_predictions(predicted: Iterable[PredictedTime], said: Sequence[str]) -> str:
    """A row for each prediction, and notes below."""
    rows: list[tuple[str, ...]] = [("operation", "algorithm", "processes", "size", "time", "interval", "")]
    for each in predicted:
        notes = ["fastest"] if each.fastest else []
        if each.beyond:
            notes.append(f"extrapolated to {', '.join(format_size(size) for size in each.beyond[-1:])}")
        text, interval = quantity_texts(each.time, "s", each.low, each.high)
        size, note = format_size(each.size), ", ".join(notes)
        rows.append((each.operation, each.algorithm, str(each.processes), size, text, interval, note))
    return "\n".join([*columns(rows), "", *said])


def source_text(source: SweepSource) -> str:
    """``osu_latency on fuchs (2 nodes: a, b)``, with the parameters that tell it from others."""
    names = list(dict.fromkeys(source.hosts))  # a server and its client on one
    hosts = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    return short_source_text(source, f" on {source.platform}", f": {hosts}" if hosts else "")


def short_source_text(source: SweepSource, where: str = "", hosts: str = "") -> str:
    """The same without platform and hosts, which a page has elsewhere."""
    nodes, *params = _conditions(source)
    return f"{source.name}{where} ({', '.join([nodes + hosts, *params])})"


def _conditions(source: SweepSource) -> list[str]:
    """Where and how a sweep was measured, beside its platform."""
    params = [f"{name} {text}" for name, text in source.by_name.items() if text]
    return [plural(source.nodes, "node"), *params]


def _told_apart(sources: Sequence[SweepSource]) -> tuple[Callable[[SweepSource], str], str]:
    """What each sweep is called by what tells it from the others; a line of what all of them share."""
    shared = [f"on {platform}" for platform in {each.platform for each in sources}]
    if len(shared) > 1:
        return (lambda source: short_source_text(source, f" on {source.platform}")), ""
    all_of = [_conditions(each) for each in sources]
    shared += [each for each in all_of[0] if all(each in words for words in all_of)] if sources else []

    def name(source: SweepSource) -> str:
        own = [each for each in _conditions(source) if each not in shared]
        return f"{source.name} ({', '.join(own)})" if own else source.name

    return name, f"\n{', '.join(shared)}"


def _heading(fit: Fit) -> str:
    return f"{fit.name}: {fit.fitted.equation}\n{source_text(fit.source)}"


def parameter_rows(fit: Fit, records: Sequence[str] = ()) -> Iterator[tuple[Cell, ...]]:
    """Name, value, interval, sizes and meaning of each parameter. records: ids of those in a page."""
    for each in fit.fitted.parameters:
        # 1/β says the same in the unit that people compare
        if each.name in ("β", "G", "g") and each.unit == "s/B" and fit.fitted.model != "BSP":
            continue
        text, interval = quantity_texts(each.value, each.unit, each.low, each.high)
        yield (
            Cell(each.name),
            Cell(text, records[:1], each.value, kind="number"),
            Cell(interval, sort="", kind="number"),
            _range(each.first, each.last, messages=fit.fitted.model == "LogfP"),
            Cell(each.meaning),
        )


def _range(first: float, last: float, *, messages: bool = False) -> Cell:
    """From a size to another, or from a number of messages."""
    text = f"{first:.0f} … {last:.0f}" if messages else f"{format_size(first)} … {format_size(last)}"
    return Cell(text, sort=first)


def share_cell(share: float | None, kind: str = "number") -> Cell:
    """A relative error."""
    return Cell("" if share is None else percent_text(share), sort="" if share is None else share, kind=kind)


def _quality(fit: Fit) -> str:
    fitted = fit.fitted
    launches = f"{fitted.launches} launch{'es' if fitted.launches != 1 else ''}"
    evidence = (
        "intervals of order statistics over the launches"
        if fitted.evidence == "launches"
        else f"intervals from the residuals: fewer than {MIN_SAMPLES} launches"
    )
    text = (
        f"{len(fitted.x)} points, {launches}; residuals {percent_text(fitted.residual_rms)} (rms); "
        f"{percent_text(fitted.held_out_median)} median error held out; {evidence}"
    )
    notes = [text]
    if fitted.set_aside:
        sizes = ", ".join(map(format_size, fitted.set_aside))
        notes.append(f"Not fitted, slower than a larger message and too few launches to be sure: {sizes}.")
    if fitted.note:
        notes.append(f"{fitted.note}.")
    return "\n".join(notes) + "\n"


def _alone(fit: Fit) -> str:
    """That nothing else predicts the same as a model, and how well that does."""
    return (
        f"Without a rival: {fit.name} of {source_text(fit.source)}, "
        f"{percent_text(fit.fitted.held_out_median)} median error held out."
    )


def collectives_table(fits: Fits, name: Callable[[SweepSource], str], where: str = "") -> Table:
    """Measured collectives beside each algorithm's prediction. name: what a sweep is called."""
    rows = [
        (
            Cell(name(each.source)),
            Cell("") if each.operation == "barrier" else _range(each.first, each.last),
            Cell(algorithm.name),
            share_cell(algorithm.error),
            Cell(f"{algorithm.ratio:.3g}", sort=algorithm.ratio, kind="number"),
            Cell(f"{algorithm.inside} of {each.sizes}", sort=algorithm.inside, kind="number"),
            Cell(_nearness(algorithm.name, each)),
        )
        for each in fits.collectives
        for algorithm in each.algorithms
    ]
    names = ("measured", "sizes", "algorithm", "error", "measured / predicted", "in interval", "")
    return Table(f"{NEAREST}{where}", names, tuple(rows), note=" ".join((PROBABLY, *contradictions(fits))))


def _nearness(algorithm: str, agreement: AlgorithmAgreement) -> str:
    """Whether an algorithm is the one whose formula lies nearest, and the one that ran."""
    near = "nearest" if algorithm == agreement.nearest else ""
    near = "ties with it" if algorithm in agreement.tied else near
    return ", ".join(filter(None, (near, "ran by its messages" if algorithm in agreement.ran else "")))


def _of_collectives(fits: Fits) -> Iterator[str]:
    """What to know below their table."""
    used = dict.fromkeys(source_text(each.predicted_from) for each in fits.collectives)
    yield f"Predicted from {'; '.join(used)}. {PROBABLY}"
    yield from contradictions(fits)
    if fits.reduction is None and any(each.operation == "allreduce" for each in fits.collectives):
        yield NO_ARITHMETIC


def contradictions(fits: Fits) -> Iterator[str]:
    """Collectives whose messages tell another algorithm than their times."""
    for each in fits.collectives:
        if each.contradicted:
            sizes = "" if each.operation == "barrier" else f" of {_range(each.first, each.last).text}"
            yield (
                f"By its messages {source_text(each.source)} ran {' and '.join(each.ran)}{sizes}; its times "
                f"lie nearest to {each.nearest}. Messages are what happened: a formula without shared links, "
                "copies and waiting is far off there."
            )


def believed_tables(fits: Fits, name: Callable[[SweepSource], str], where: str = "") -> Iterator[Table]:
    """For each observable the errors of all models that predict it. name: what a sweep is called."""
    for observable in dict.fromkeys(each.observable for each in fits.comparisons):
        compared = [each for each in fits.comparisons if each.observable == observable]
        models = list(dict.fromkeys(model for each in compared for model in each.errors))
        rows = [
            (
                Cell(name(each.source)),
                _range(each.first, each.last),
                *(
                    share_cell(each.errors.get(model), "number good" if model == each.best else "number")
                    for model in models
                ),
                Cell(believed_text(each.best, each.tied)),
            )
            for each in compared
        ]
        over = "messages" if observable == BURST else "sizes"
        yield Table(f"{BELIEVE}: {observable}{where}", ("sweep", over, *models, "believe"), tuple(rows))


def believed_text(model: str, tied: Sequence[str]) -> str:
    """The model to believe, with those that the errors do not tell from it."""
    return f"{model} (ties with {', '.join(tied)})" if tied else model


def ranges_text(ranges: Sequence[Range]) -> str:
    """Which model is believed from which size to which; neighbours of which the same holds are one."""
    parts = []
    for text, same in groupby(ranges, lambda each: believed_text(each.model, each.tied)):
        first, *_, last = [size for each in same for size in (each.first, each.last)]
        parts.append(f"{format_size(first)} … {format_size(last)} {text}")
    return "; ".join(parts)


def percent_text(share: float) -> str:
    """A relative error: ``2.9 %``, ``180 %``."""
    if share >= 10 or 0 < share < 1e-4:
        return "over 1000 %" if share >= 10 else "below 0.01 %"
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"
