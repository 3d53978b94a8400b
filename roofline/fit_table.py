"""Fitted models and predictions as tables: described once, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from npc.columns import columns
from npc.hostlist import host_text
from npc.page.blocks import Cell, Column, Table, number
from npc.records.units import format_size, plural
from npc.roofline.cross_validation import BURST, ModelComparison
from npc.roofline.fits import Fit, Fits
from npc.roofline.measured_collectives import Algorithm, AlgorithmAgreement
from npc.roofline.models.estimate import Parameter
from npc.roofline.prediction import PredictedTime, Range
from npc.roofline.sweeps import SweepSource
from npc.roofline.table import quantity_texts
from npc.statistics.medians import MIN_SAMPLES
from npc.validity.disturbance import remark

BELIEVE: Final = "Which model to believe where, by the median error on sizes it was not shown"
NEAREST: Final = "Measured collectives against each algorithm's prediction (npc model predict): median error"
PROBABLY: Final = "The nearest is probably what the MPI library uses there."
#: Units and names of parameters whose inverses are parameters, too.
_INVERTED: Final = {("s/B", name) for name in ("β", "G", "g")}
NO_ARITHMETIC: Final = (
    "The arithmetic of all-reduce is not in it: give it by --reduction, or by records of STREAM's add."
)


def format_fits(fits: Fits) -> str:
    """Every model's parameters with intervals, what they were fitted to, and which to believe where."""
    parts: list[str] = []
    for fit in fits.fits:
        over = "messages" if fit.fitted.model == "LogfP" else "sizes"
        table = Table.of("", parameters_of([fit]), parameter_columns("", over))
        parts += [_heading(fit), *_lines(table), _quality(fit)]
    called, shared = _told_apart([comparison.source for comparison in fits.comparisons])
    for table in believed_tables(fits, called, shared):
        parts += [table.caption, *_lines(table, once=1)]
    parts += [_alone(fit) for fit in fits.unrivalled]
    if fits.collectives:
        table = collectives_table(fits, *_told_apart([collective.source for collective in fits.collectives]))
        parts += [table.caption, *_lines(table, once=2), *_of_collectives(fits)]
    for name, reason in fits.skipped.items():
        parts.append(f"Not fitted: {name}: {reason}.")
    if fits.rest:
        parts.append("\n  ".join(["This measures the rest:", *fits.rest]))
    return "\n".join([*parts, *filter(None, [remark(fits.disturbed)])])


def _lines(table: Table, once: int = 0) -> list[str]:
    """A table between empty lines. once: so many first cells are printed only where they change."""
    texts = table.texts()
    shown = [
        ("",) * once + row[once:] if row[:once] == above[:once] else row for above, row in pairwise(texts)
    ]
    return ["", *columns([texts[0], *(shown if once else texts[1:])]), ""]


def format_predictions(predicted: Iterable[PredictedTime], remarks: Sequence[str]) -> str:
    """A row for each prediction, and notes below."""
    table = Table.of("", predicted, _PREDICTION_COLUMNS)
    return "\n".join([*columns(table.texts()), "", *remarks])


def _time_texts(time: PredictedTime) -> tuple[str, str]:
    return quantity_texts(time.time, "s", time.low, time.high)


def _remark(time: PredictedTime) -> str:
    """Whether it is the fastest algorithm's, and beyond which size the model was not measured."""
    beyond = [f"extrapolated to {', '.join(map(format_size, time.beyond[-1:]))}"] if time.beyond else []
    return ", ".join([*(["fastest"] if time.fastest else []), *beyond])


_PREDICTION_COLUMNS: Final[Sequence[Column[PredictedTime]]] = (
    Column("operation", lambda time: time.operation),
    Column("algorithm", lambda time: time.algorithm),
    Column("processes", lambda time: str(time.processes)),
    Column("size", lambda time: format_size(time.size)),
    Column("time", lambda time: _time_texts(time)[0]),
    Column("interval", lambda time: _time_texts(time)[1]),
    Column("", _remark),
)


def source_text(source: SweepSource) -> str:
    """``osu_latency on fuchs (2 nodes: a, b)``, with the parameters that tell it from others."""
    hosts = host_text(source.hosts)
    return short_source_text(source, f" on {source.platform}", f": {hosts}" if hosts else "")


def short_source_text(source: SweepSource, where: str = "", hosts: str = "") -> str:
    """The same without platform and hosts, which a page shows elsewhere."""
    nodes, *params = _conditions(source)
    return f"{source.name}{where} ({', '.join([nodes + hosts, *params])})"


def _conditions(source: SweepSource) -> list[str]:
    """Where and how a sweep was measured, beside its platform."""
    params = [f"{name} {text}" for name, text in source.by_name.items() if text]
    return [plural(source.nodes, "node"), *params]


def _told_apart(sources: Sequence[SweepSource]) -> tuple[Callable[[SweepSource], str], str]:
    """(what each sweep is called, by what tells it from the others; a line of what all of them share)."""
    shared = [f"on {platform}" for platform in {one.platform for one in sources}]
    if len(shared) > 1:
        return (lambda source: short_source_text(source, f" on {source.platform}")), ""
    all_of = [_conditions(one) for one in sources]
    shared += (
        [condition for condition in all_of[0] if all(condition in words for words in all_of)]
        if sources
        else []
    )

    def name(source: SweepSource) -> str:
        own = [condition for condition in _conditions(source) if condition not in shared]
        return f"{source.name} ({', '.join(own)})" if own else source.name

    return name, f"\n{', '.join(shared)}"


def _heading(fit: Fit) -> str:
    return f"{fit.name}: {fit.fitted.equation}\n{source_text(fit.source)}"


class ParameterOfFit(NamedTuple):
    """A row of a table: one parameter of a fitted model."""

    #: The model that has the parameter.
    fit: Fit
    #: One of its parameters.
    parameter: Parameter


def parameters_of(fits: Iterable[Fit]) -> list[ParameterOfFit]:
    """The parameters that people compare. β, G and g in s/B are left out: their inverses say the same in
    B/s."""
    return [
        ParameterOfFit(fit, parameter)
        for fit in fits
        for parameter in fit.fitted.parameters
        if fit.fitted.model == "BSP" or (parameter.unit, parameter.name) not in _INVERTED
    ]


def parameter_columns(
    name: str, over: str, records: Callable[[Fit], Sequence[str]] = lambda _: ()
) -> list[Column[ParameterOfFit]]:
    """Name, value, interval, sizes and meaning of a parameter. name, over: how the columns of names and of
    sizes are called. records: ids of those in a page that a fit was made from."""

    def texts(parameter: Parameter) -> tuple[str, str]:
        return quantity_texts(parameter.value, parameter.unit, parameter.low, parameter.high)

    return [
        Column(name, lambda row: row.parameter.name),
        Column(
            "value",
            lambda row: Cell(
                texts(row.parameter)[0], records(row.fit)[:1], row.parameter.value, kind="number"
            ),
        ),
        Column("95 % interval", lambda row: Cell(texts(row.parameter)[1], sort="", kind="number")),
        Column(over, _fitted_range),
        Column("meaning", lambda row: row.parameter.meaning),
    ]


def _fitted_range(row: ParameterOfFit) -> Cell:
    return _range(row.parameter.first, row.parameter.last, messages=row.fit.fitted.model == "LogfP")


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
    """A line about a model whose observable no other model predicts, with its error."""
    return (
        f"Without a rival: {fit.name} of {source_text(fit.source)}, "
        f"{percent_text(fit.fitted.held_out_median)} median error held out."
    )


class _AlgorithmOf(NamedTuple):
    """A row of a table: a measured collective, and what one algorithm predicts of it."""

    #: The measured collective in a range of sizes.
    collective: AlgorithmAgreement
    #: One of its algorithms.
    algorithm: Algorithm


def collectives_table(fits: Fits, name: Callable[[SweepSource], str], where: str = "") -> Table:
    """Measured collectives beside each algorithm's prediction. name: what a sweep is called."""
    columns: list[Column[_AlgorithmOf]] = [
        Column("measured", lambda row: name(row.collective.source)),
        Column("sizes", lambda row: _collective_sizes(row.collective)),
        Column("algorithm", lambda row: row.algorithm.name),
        Column("error", lambda row: share_cell(row.algorithm.error)),
        Column("measured / predicted", lambda row: number(row.algorithm.ratio, ".3g")),
        Column("in interval", lambda row: _inside(row.collective, row.algorithm)),
        Column("", lambda row: _nearness(row.algorithm.name, row.collective)),
    ]
    rows = [
        _AlgorithmOf(collective, algorithm)
        for collective in fits.collectives
        for algorithm in collective.algorithms
    ]
    note = " ".join((PROBABLY, *contradictions(fits)))
    return Table.of(f"{NEAREST}{where}", rows, columns, note=note)


def _collective_sizes(collective: AlgorithmAgreement) -> Cell:
    return Cell("") if collective.operation == "barrier" else _range(collective.first, collective.last)


def _inside(collective: AlgorithmAgreement, algorithm: Algorithm) -> Cell:
    return Cell(f"{algorithm.inside} of {collective.sizes}", sort=algorithm.inside, kind="number")


def _nearness(algorithm: str, agreement: AlgorithmAgreement) -> str:
    """Whether an algorithm is the one whose formula lies nearest, and the one that ran."""
    near = "nearest" if algorithm == agreement.nearest else ""
    near = "ties with it" if algorithm in agreement.tied else near
    return ", ".join(filter(None, (near, "ran by its messages" if algorithm in agreement.ran else "")))


def _of_collectives(fits: Fits) -> Iterator[str]:
    """What to know below their table."""
    used = dict.fromkeys(source_text(collective.predicted_from) for collective in fits.collectives)
    yield f"Predicted from {'; '.join(used)}. {PROBABLY}"
    yield from contradictions(fits)
    if fits.reduction is None and any(collective.operation == "allreduce" for collective in fits.collectives):
        yield NO_ARITHMETIC


def contradictions(fits: Fits) -> Iterator[str]:
    """Sentences about collectives whose messages show another algorithm than their times suggest."""
    for collective in fits.collectives:
        if collective.contradicted:
            sizes = _collective_sizes(collective).text
            of = f" of {sizes}" if sizes else ""
            yield (
                f"By its messages {source_text(collective.source)} ran {' and '.join(collective.ran)}{of}; "
                f"its times lie nearest to {collective.nearest}. Messages are what happened: a formula "
                "without shared links, copies and waiting is far off there."
            )


def believed_tables(fits: Fits, name: Callable[[SweepSource], str], where: str = "") -> Iterator[Table]:
    """For each observable the errors of all models that predict it. name: what a sweep is called."""
    for observable in dict.fromkeys(comparison.observable for comparison in fits.comparisons):
        comparisons = [comparison for comparison in fits.comparisons if comparison.observable == observable]
        models = dict.fromkeys(model for comparison in comparisons for model in comparison.errors)
        columns: list[Column[ModelComparison]] = [
            Column("sweep", lambda comparison: name(comparison.source)),
            Column(
                "messages" if observable == BURST else "sizes",
                lambda comparison: _range(comparison.first, comparison.last),
            ),
            *map(_error_of, models),
            Column("believe", lambda comparison: believed_text(comparison.best, comparison.tied)),
        ]
        yield Table.of(f"{BELIEVE}: {observable}{where}", comparisons, columns)


def _error_of(model: str) -> Column[ModelComparison]:
    """The error of a model on sizes that it was not shown; that of the best one stands out."""

    def error(comparison: ModelComparison) -> Cell:
        kind = "number good" if model == comparison.best else "number"
        return share_cell(comparison.errors.get(model), kind)

    return Column(model, error)


def believed_text(model: str, tied: Sequence[str]) -> str:
    """The model to believe, and those that its errors do not tell from it."""
    return f"{model} (ties with {', '.join(tied)})" if tied else model


def ranges_text(ranges: Sequence[Range]) -> str:
    """Which model to believe in which range of sizes; neighbouring ranges with the same model are one."""
    parts = []
    for text, same in groupby(ranges, lambda believed: believed_text(believed.model, believed.tied)):
        first, *_, last = [size for believed in same for size in (believed.first, believed.last)]
        parts.append(f"{format_size(first)} … {format_size(last)} {text}")
    return "; ".join(parts)


def percent_text(share: float) -> str:
    """A relative error: ``2.9 %``, ``180 %``."""
    if share >= 10 or 0 < share < 1e-4:
        return "over 1000 %" if share >= 10 else "below 0.01 %"
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"
