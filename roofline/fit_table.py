"""Fitted models and predictions as tables for a terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from npc.columns import columns
from npc.records.units import PREFIXES, format_quantity
from npc.statistics.medians import MIN_SAMPLES
from roofline.cross_validation import BURST
from roofline.table import size_text

if TYPE_CHECKING:
    from roofline.cross_validation import Comparison
    from roofline.fits import Fit, Fits
    from roofline.measured_collectives import Agreement
    from roofline.models.estimate import Parameter
    from roofline.prediction import Predicted, Range
    from roofline.sweeps import Source

BELIEVE: Final = "Which model to believe where, by the median error on sizes it was not shown"
NEAREST: Final = "Measured collectives against each algorithm's prediction (npc predict): median error"
NO_ARITHMETIC: Final = (
    "The arithmetic of all-reduce is not in it: --reduction names it, or records of STREAM's add."
)
_DIGITS: Final = 4


def format_fits(fits: Fits) -> str:
    """Every model's parameters with intervals, what they were fitted to, and which to believe where."""
    tables: list[str] = []
    for fit in fits.fits:
        tables += [_heading(fit), _parameters(fit), _quality(fit)]
    for observable in dict.fromkeys(each.observable for each in fits.comparisons):
        compared = [each for each in fits.comparisons if each.observable == observable]
        tables += [f"{BELIEVE}: {observable}", _believe(compared)]
    tables += [_alone(fit) for fit in fits.unrivalled]
    if fits.collectives:
        tables += [NEAREST, _collectives(fits.collectives), *_of_collectives(fits)]
    for name, reason in fits.skipped.items():
        tables.append(f"Not fitted: {name}: {reason}.")
    return "\n".join(tables)


def format_predictions(predicted: Iterable[Predicted], said: Sequence[str]) -> str:
    """A row for each prediction, and notes below."""
    rows: list[tuple[str, ...]] = [("operation", "algorithm", "processes", "size", "time", "interval", "")]
    for each in predicted:
        notes = ["fastest"] if each.fastest else []
        if each.beyond:
            notes.append(f"extrapolated to {', '.join(_bytes(size) for size in each.beyond[-1:])}")
        text, interval = quantity_texts(each.time, "s", each.low, each.high)
        size = "" if each.size is None else size_text(each.size)
        rows.append(
            (each.operation, each.algorithm, str(each.processes), size, text, interval, ", ".join(notes))
        )
    return "\n".join([*columns(rows), "", *said])


def source_text(source: Source) -> str:
    """``osu_latency on fuchs (2 nodes: a, b)``, with the parameters that tell it from others."""
    params = json.loads(source.params)
    varied = "".join(f", {name} {text}" for name, text in params.items() if text)
    hosts = ", ".join(source.hosts[:3]) + (" …" if len(source.hosts) > 3 else "")
    nodes = f"{source.nodes} node{'s' if source.nodes > 1 else ''}"
    return f"{source.name} on {source.platform} ({nodes}{': ' + hosts if hosts else ''}{varied})"


def quantity_texts(value: float, unit: str, low: float | None, high: float | None) -> tuple[str, str]:
    """A number and its interval in the same prefix: ``27.22 µs``, ``[26.9, 27.4]``."""
    if not math.isfinite(value):
        return "–", ""
    if unit == "s/B":
        value, unit = value * 1e9, "ns/B"
        low, high = (None if each is None else each * 1e9 for each in (low, high))
        text, factor = f"{value:.{_DIGITS}g} {unit}", 1.0
    elif unit == "B" and value == int(value):
        text, factor = f"{_bytes(value)}", 1.0
    else:
        text = format_quantity(value, unit, _DIGITS)
        factor = PREFIXES[text.split(" ")[1].removesuffix(unit)] if " " in text and unit != "1" else 1.0
    if low is None or high is None:
        return text, ""
    if unit == "B":
        return text, f"({_bytes(low)}, {_bytes(high)}]"
    ends = [f"{each / factor:.{_DIGITS}g}" if math.isfinite(each) else "∞" for each in (low, high)]
    return text, f"[{', '.join(ends)}]"


def _heading(fit: Fit) -> str:
    return f"{fit.name}: {fit.fitted.equation}\n{source_text(fit.source)}"


def _parameters(fit: Fit) -> str:
    unit = "messages" if fit.fitted.model == "LogfP" else "sizes"
    rows: list[tuple[str, ...]] = [("", "value", "95 % interval", unit, "meaning")]
    for parameter in fit.fitted.parameters:
        # 1/β says the same in the unit that people compare
        if parameter.name in ("β", "G", "g") and parameter.unit == "s/B" and fit.fitted.model != "BSP":
            continue
        text, interval = quantity_texts(parameter.value, parameter.unit, parameter.low, parameter.high)
        rows.append((parameter.name, text, interval, _range(parameter, fit), parameter.meaning))
    return "\n".join(["", *columns(rows), ""])


def _range(parameter: Parameter, fit: Fit) -> str:
    if fit.fitted.model == "LogfP":
        return f"{parameter.first:.0f} … {parameter.last:.0f}"
    return f"{_bytes(parameter.first)} … {_bytes(parameter.last)}"


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
        sizes = ", ".join(map(_bytes, fitted.set_aside))
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


def _collectives(agreements: Sequence[Agreement]) -> str:
    rows: list[tuple[str, ...]] = [
        ("measured", "sizes", "algorithm", "error", "measured/predicted", "in interval", "")
    ]
    for each in agreements:
        said = source_text(each.source)
        sizes = "" if each.operation == "barrier" else f"{_bytes(each.first)} … {_bytes(each.last)}"
        for algorithm in each.algorithms:
            rows.append(
                (
                    said,
                    sizes,
                    algorithm.name,
                    percent_text(algorithm.error),
                    f"{algorithm.ratio:.3g}",
                    f"{algorithm.inside} of {each.sizes}",
                    nearness_text(algorithm.name, each.nearest, each.tied),
                )
            )
            said, sizes = "", ""
    return "\n".join(["", *columns(rows), ""])


def nearness_text(algorithm: str, nearest: str, tied: Sequence[str]) -> str:
    """Whether an algorithm is the one whose formula lies nearest."""
    return "nearest" if algorithm == nearest else "ties with it" if algorithm in tied else ""


def _of_collectives(fits: Fits) -> Iterator[str]:
    """What to know below their table."""
    used = dict.fromkeys(source_text(each.predicted_from) for each in fits.collectives)
    yield f"Predicted from {'; '.join(used)}. The nearest is probably what the MPI library uses there."
    if fits.reduction is None and any(each.operation == "allreduce" for each in fits.collectives):
        yield NO_ARITHMETIC


def _believe(comparisons: Sequence[Comparison]) -> str:
    models = list(dict.fromkeys(name for each in comparisons for name in each.errors))
    over = "messages" if comparisons[0].observable == BURST else "sizes"
    rows: list[tuple[str, ...]] = [("sweep", over, *models, "believe")]
    for each in comparisons:
        cells = [percent_text(each.errors[name]) if name in each.errors else "" for name in models]
        sizes = f"{_bytes(each.first)} … {_bytes(each.last)}"
        rows.append((source_text(each.source), sizes, *cells, believed_text(each.best, each.tied)))
    return "\n".join(["", *columns(rows), ""])


def believed_text(model: str, tied: Sequence[str]) -> str:
    """The model to believe, with those that the errors do not tell from it."""
    return f"{model} (ties with {', '.join(tied)})" if tied else model


def ranges_text(ranges: Sequence[Range]) -> str:
    """Which model is believed from which size to which."""
    return "; ".join(
        f"{_bytes(each.first)} … {_bytes(each.last)} {believed_text(each.model, each.tied)}"
        for each in ranges
    )


def percent_text(share: float) -> str:
    """A relative error: ``2.9 %``, ``180 %``."""
    if share >= 10:
        return "over 1000 %"
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"


def _bytes(size: float) -> str:
    return size_text(round(size)) if size == round(size) else f"{size:.4g}"
