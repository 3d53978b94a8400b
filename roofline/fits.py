"""All models that apply to some records, and which of them to believe where.

A ping-pong gives Hockney's model, a windowed test LogGP's g and G, the ``models`` benchmark the others.
Models that predict the same are compared by their errors on sizes that they were not shown
(`npc.roofline.cross_validation`): models of a message's time with each other, in each piece of the sweep;
every other model with what Hockney's and LogGP's models predict of its observable. Measured collectives are
compared with the formulas of their algorithms (`npc.roofline.measured_collectives`).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, NamedTuple

from npc.catalogue.row import Timing
from npc.records.record import Record
from npc.roofline.choice import measures
from npc.roofline.cross_validation import ModelComparison, compare
from npc.roofline.measured_collectives import (
    NO_PING_PONG,
    AlgorithmAgreement,
    compare_collectives,
    with_messages,
)
from npc.roofline.messages import made_of, of_mpi
from npc.roofline.models import bsp, hockney, log3p, logfp, loggp, tau_lop
from npc.roofline.models.collectives import send, superstep
from npc.roofline.models.fitted import FittedModel, PiecewiseLinear
from npc.roofline.models.piecewise import PiecewiseFit, Sweep
from npc.roofline.prediction import BelievedModels, message_time
from npc.roofline.sweeps import LEAST_SIZES, SweepSource, SweepTimes, find_series
from npc.validity.disturbance import in_words

#: A reduction does the same as STREAM's add, c = a + b, which counts three bytes for each byte reduced.
_REDUCTION: Final = ("stream", "add", 3)
#: Names of Hockney's model as a comparison has them.
_ONE_LINE: Final = "Hockney, one line"
_BY_PIECES: Final = "Hockney, by pieces"


class FitPoint(NamedTuple):
    """One size of a fitted sweep."""

    #: Size in bytes.
    x: float
    #: Median of the measured times, in s.
    time: float
    #: (measured − fitted)/fitted, as `FittedModel.residuals`.
    residual: float
    #: ln(measured/predicted) by the model fitted without this size, as `FittedModel.held_out`.
    held_out: float


@dataclass(frozen=True, slots=True)
class Fit:
    """A model that was fitted to a sweep, or to a set of sweeps."""

    #: Name of the model as comparisons have it: ``Hockney, by pieces``.
    name: str
    #: The sweep, or the first of the set.
    source: SweepSource
    #: How its times were measured.
    kind: Timing
    #: The model with its parameters.
    fitted: FittedModel
    #: The raw files that it was read from, as records name them.
    raw: tuple[str, ...]

    @property
    def lines(self) -> PiecewiseFit | None:
        """Its lines over the size; None for a model that is not made of such lines."""
        return self.fitted.pieces if isinstance(self.fitted, PiecewiseLinear) else None

    @property
    def points(self) -> list[FitPoint]:
        """Every size of `lines`."""
        times = self.lines.middle.tolist() if self.lines else []
        return list(map(FitPoint, self.fitted.x, times, self.fitted.residuals, self.fitted.held_out))


@dataclass(frozen=True, slots=True)
class Fits:
    """Everything that was fitted to some records, and what follows from it."""

    #: All fitted models.
    fits: tuple[Fit, ...]
    #: Which of them to believe where.
    comparisons: tuple[ModelComparison, ...]
    #: By name of a sweep why nothing was fitted to it; empty if nothing was left out.
    skipped: Mapping[str, str]
    #: Seconds that adding one byte to another takes, from STREAM's add; None if that was not measured.
    reduction: float | None
    #: The measured collectives with what each algorithm predicts of them.
    collectives: tuple[AlgorithmAgreement, ...] = ()
    #: How many of the records were measured while others used the CPUs, in words; empty if none was.
    disturbed: str = ""
    #: The commands that measure what is missing for what was skipped; empty if nothing is.
    rest: tuple[str, ...] = ()

    @property
    def unrivalled(self) -> list[Fit]:
        """The fits whose observable no other model predicts."""
        compared = {
            (comparison.source, name) for comparison in self.comparisons for name in comparison.errors
        }
        return [fit for fit in self.fits if (fit.source, fit.name) not in compared]


def fit_records(records: Sequence[Record]) -> Fits:
    """Fit all models that apply. Records that are not ``ok`` are not used; where there is no sweep among
    them, `Fits.rest` measures a ping-pong."""
    fits = fit_series(find_series(records), _reduction(records))
    platform = records[0].platform if records else "localhost"
    rest = fits.rest if fits.fits or fits.rest else (measures("osu", "half round trip", platform),)
    collectives = tuple(with_messages(fits.collectives, records))
    return replace(fits, collectives=collectives, disturbed=in_words(records), rest=rest)


def fit_series(series: Sequence[SweepTimes], reduction: float | None = None) -> Fits:
    """Fit all models that apply to these series."""
    fits: list[Fit] = []
    skipped: dict[str, str] = {}
    patterns: defaultdict[SweepSource, dict[str, SweepTimes]] = defaultdict(dict)
    for sweep in series:
        if sweep.kind == "collective":
            continue
        if len(sweep.sizes) < LEAST_SIZES:
            skipped[sweep.source.name] = f"a model needs {LEAST_SIZES} sizes, not {len(sweep.sizes)}"
        elif sweep.kind == "pattern":
            patterns[_of_benchmark(sweep.source)][sweep.source.case] = sweep
        else:
            models = _of_sweep(sweep)
            fits += [Fit(name, sweep.source, sweep.kind, model, sweep.raw) for name, model in models.items()]
    for cases in patterns.values():
        fits += _of_patterns(cases, skipped)
    by_source: defaultdict[SweepSource, dict[str, FittedModel]] = defaultdict(dict)
    for fit in fits:
        by_source[fit.source][fit.name] = fit.fitted
    comparisons: list[ModelComparison] = []
    messages: dict[SweepSource, BelievedModels] = {}
    for source, models in by_source.items():
        lines = {
            name: fitted_line
            for name, fitted_line in models.items()
            if isinstance(fitted_line, hockney.Hockney)
        }
        if not lines:
            continue
        *_, by_pieces = lines.values()
        held_out = {name: model.held_out for name, model in models.items()}
        compared = list(compare(source, by_pieces.x, held_out, by_pieces.parts))
        comparisons += compared
        if of_mpi(source.benchmark, source.case):
            messages[source] = BelievedModels.among(
                {name: line.pieces for name, line in lines.items()}, compared
            )
    for fit in fits:
        comparisons += _with_rivals(fit, messages)
    collectives = [sweep for sweep in series if sweep.kind == "collective"]
    agreements, without = compare_collectives(collectives, messages, reduction)
    skipped |= without
    rest = tuple(dict.fromkeys(_rest(series, skipped)))
    return Fits(tuple(fits), tuple(comparisons), skipped, reduction, tuple(agreements), rest=rest)


def _rest(series: Sequence[SweepTimes], skipped: Mapping[str, str]) -> Iterator[str]:
    """The commands that measure what was skipped."""
    for sweep in series:
        source, reason = sweep.source, skipped.get(sweep.source.name)
        if reason == NO_PING_PONG:
            yield measures("osu", "half round trip", source.platform)
        elif reason and sweep.kind == "pattern":
            yield measures(source.benchmark, _PATTERNS[source.case.partition("_")[0]], source.platform)
        elif reason and sweep.kind != "collective":
            yield measures(source.benchmark, sweep.kind, source.platform)


def _with_rivals(fit: Fit, messages: Mapping[SweepSource, BelievedModels]) -> Iterator[ModelComparison]:
    """A fit compared with models that predict the same without parameters of their own."""
    rivals = {**fit.fitted.rivals, **_of_messages(fit, messages)}
    if rivals:
        yield from compare(
            fit.source, fit.fitted.x, {**rivals, fit.name: fit.fitted.held_out}, fit.fitted.parts
        )


def _of_messages(fit: Fit, messages: Mapping[SweepSource, BelievedModels]) -> dict[str, list[float]]:
    """ln(measured/predicted) where Hockney's model of a ping-pong predicts a superstep, or a stream of
    messages."""
    fitted = fit.fitted
    if not isinstance(fitted, bsp.Bsp | loggp.Gap):
        return {}
    ping_pong = made_of(fit.source, messages)
    if ping_pong is None:
        return {}
    processes = int(fit.source.by_name.get("ranks") or 2)
    pattern = superstep if isinstance(fitted, bsp.Bsp) else send
    predicted = [message_time(messages[ping_pong], pattern(processes, int(size))) for size in fitted.x]
    times = fitted.pieces.middle.tolist()
    return {"Hockney": [math.log(time / made) for time, made in zip(times, predicted, strict=True)]}


def _of_benchmark(source: SweepSource) -> SweepSource:
    """What patterns of one benchmark have in common: where they ran, and with how many ranks."""
    return source._replace(case="", params=json.dumps({"ranks": source.by_name.get("ranks", "")}))


def _of_sweep(series: SweepTimes) -> dict[str, FittedModel]:
    """Hockney's model of a half round trip, or g and G of a windowed test."""
    sweep = series.sweep()
    return _named(loggp.fit_gap(sweep)) if series.kind == "interval between messages" else _hockney(sweep)


def _named(fitted: FittedModel) -> dict[str, FittedModel]:
    return {fitted.model: fitted}


def _hockney(sweep: Sweep) -> dict[str, FittedModel]:
    """One line for all sizes, and lines by pieces where there are several."""
    by_pieces = hockney.fit(sweep)
    several = {_BY_PIECES: by_pieces} if len(by_pieces.pieces.splits) > 1 else {}
    return {_ONE_LINE: hockney.fit(sweep, most=1), **several}


def _of_patterns(cases: Mapping[str, SweepTimes], skipped: dict[str, str]) -> Iterator[Fit]:
    """The models that are made of several patterns, each where all of its patterns were measured."""
    rings = sorted((name for name in cases if name.startswith("ring_")), key=lambda name: int(name[5:]))
    recipes: dict[tuple[str, ...], _Recipe]
    recipes = {**_RECIPES, tuple(rings): _tau_lop} if "ring_1" in cases else {**_RECIPES}
    alone = dict(cases)
    for names, recipe in recipes.items():
        if not cases.keys() >= set(names):
            continue
        used = [cases[name] for name in names]
        for name in names:
            alone.pop(name, None)
        sweeps = _aligned(used)
        if not sweeps:
            skipped[used[0].source.name] = f"no launch has at least {LEAST_SIZES} sizes of {', '.join(names)}"
            continue
        raw = tuple(sorted({path for times in used for path in times.raw}))
        for name, model in recipe(used, sweeps).items():
            yield Fit(name, used[0].source, "pattern", model, raw)
    skipped.update(
        {times.source.name: "not all patterns of its model were measured" for times in alone.values()}
    )


def _prtt(series: Sequence[SweepTimes], sweeps: Sequence[Sweep]) -> dict[str, FittedModel]:
    """LogGP, and Hockney's model of the same half round trips."""
    messages = int(series[1].source.by_name["messages"])
    half = Sweep(sweeps[0].x, sweeps[0].times / 2)
    return {**_hockney(half), **_named(loggp.fit(messages, *sweeps))}


def _tau_lop(series: Sequence[SweepTimes], sweeps: Sequence[Sweep]) -> dict[str, FittedModel]:
    transfers = [int(times.source.case.removeprefix("ring_")) for times in series]
    return _named(tau_lop.fit(dict(zip(transfers, sweeps, strict=True)), series[0].source.nodes))


_Recipe = Callable[[Sequence[SweepTimes], Sequence[Sweep]], dict[str, FittedModel]]
#: How the cases of benchmarks/models begin → what its setting ``models_tests`` calls them.
_PATTERNS: Final = {"prtt": "prtt", "burst": "burst", "middleware": "middleware", "pack": "middleware",
                    "h": "h_relation", "ring": "ring"}  # fmt: skip
_MIDDLEWARE: Final = ("middleware", "middleware_strided", "pack", "pack_strided")
#: The patterns that a model is made of → the models. LogGP's first is twice the time of Hockney's model.
_RECIPES: Final[Mapping[tuple[str, ...], _Recipe]] = {
    ("prtt", "prtt_burst", "prtt_delayed", "prtt_delay"): _prtt,
    ("burst",): lambda _, sweeps: _named(logfp.fit(*sweeps)),
    _MIDDLEWARE: lambda _, sweeps: _named(log3p.fit(*sweeps)),
    ("h_relation",): lambda _, sweeps: _named(bsp.fit(*sweeps)),
}


def _aligned(series: Sequence[SweepTimes]) -> list[Sweep]:
    """Sweeps over the sizes that all have, with the launches that measured every one of them as columns; none
    where no launch did, or the sizes are too few."""
    sizes = sorted(set.intersection(*(set(times.sizes) for times in series)))
    launches = sorted(
        set.intersection(*(set(times.times[size]) for times in series for size in sizes)) if sizes else ()
    )
    enough = launches and len(sizes) >= LEAST_SIZES
    return [times.sweep(launches, sizes) for times in series] if enough else []


def _reduction(records: Sequence[Record]) -> float | None:
    benchmark, case, counted = _REDUCTION
    rates = [
        record.value
        for record in records
        if record.ok and record.value and (record.benchmark, record.case) == (benchmark, case)
    ]
    return counted / median(rates) if rates else None
