"""All models that apply to some records, and which of them to believe where.

A ping-pong gives Hockney's model, a windowed test LogGP's g and G, the ``models`` benchmark the others.
Models that predict the same are held against each other on sizes that they were not shown
(`roofline.cross_validation`): of a message's time all, for each piece that was found in the sweep; each of
the others against what Hockney's and LogGP's models make of its observable. Measured collectives are held
against the formulas of their algorithms (`roofline.measured_collectives`).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from npc.catalogue.row import Timing
from roofline.cross_validation import Comparison, compare
from roofline.measured_collectives import Agreement, compare_collectives
from roofline.messages import made_of, of_mpi
from roofline.models.collectives import send, superstep
from roofline.prediction import Believed, message_time
from roofline.sweeps import LEAST_SIZES, Source, SweepTimes, find_series

if TYPE_CHECKING:
    from npc.records.record import Record
    from roofline.models.fitted import Fitted
    from roofline.models.piecewise import Pieces, Sweep

#: What STREAM's add does is what a reduction does: c = a + b. It counts three bytes for each byte reduced.
_REDUCTION: Final = ("stream", "add", 3)
#: Names of Hockney's model as a comparison has them.
_ONE_LINE: Final = "Hockney, one line"
_BY_PIECES: Final = "Hockney, by pieces"


class _NoWholeLaunch(Exception):
    """No launch measured every size of all patterns that a model is made of."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A model with the sweep (or the set of sweeps) it was fitted to. name: as comparisons have it."""

    name: str
    source: Source
    kind: Timing
    fitted: Fitted
    raw: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fits:
    """Everything that was fitted. skipped: source's name → why nothing was. collectives: those measured, and
    what is predicted of them.

    reduction: seconds that one byte takes to be added to another (from STREAM's add), None if not measured.
    """

    fits: tuple[Fit, ...]
    comparisons: tuple[Comparison, ...]
    skipped: Mapping[str, str]
    reduction: float | None
    collectives: tuple[Agreement, ...] = ()

    @property
    def unrivalled(self) -> list[Fit]:
        """The fits of which nothing else predicts the same."""
        compared = {(each.source, name) for each in self.comparisons for name in each.errors}
        return [fit for fit in self.fits if (fit.source, fit.name) not in compared]


def fit_records(records: Sequence[Record]) -> Fits:
    """Fit all models that apply. Records that are not ``ok`` are not used."""
    return fit_series(find_series(records), _reduction(records))


def fit_series(series: Sequence[SweepTimes], reduction: float | None = None) -> Fits:
    """Fit all models that apply to these series."""
    fits: list[Fit] = []
    comparisons: list[Comparison] = []
    skipped: dict[str, str] = {}
    patterns: defaultdict[Source, dict[str, SweepTimes]] = defaultdict(dict)
    collectives = [each for each in series if each.kind == "collective"]
    for each in series:
        if each.kind == "collective":
            continue
        if len(each.sizes) < LEAST_SIZES:
            skipped[each.source.name] = f"{len(each.sizes)} sizes, a model needs {LEAST_SIZES}"
        elif each.kind == "pattern":
            patterns[_of_benchmark(each.source)][each.source.case] = each
        else:
            _fit_sweep(each, fits, comparisons)
    for source, cases in patterns.items():
        _fit_patterns(source, cases, fits, comparisons, skipped)
    messages = _message_models(fits, comparisons)
    for fit in fits:
        comparisons += _with_rivals(fit, messages)
    agreements, without = compare_collectives(collectives, messages, reduction)
    return Fits(tuple(fits), tuple(comparisons), skipped | without, reduction, tuple(agreements))


def _message_models(fits: Sequence[Fit], comparisons: Sequence[Comparison]) -> dict[Source, Believed]:
    """The models of every MPI ping-pong, and which of them is believed where."""
    from roofline.models.hockney import Hockney

    found: defaultdict[Source, dict[str, Pieces]] = defaultdict(dict)
    for fit in fits:
        if isinstance(fit.fitted, Hockney) and of_mpi(fit.source.benchmark, fit.source.case):
            found[fit.source][fit.name] = fit.fitted.pieces
    return {
        source: Believed.among(models, [each for each in comparisons if each.source == source])
        for source, models in found.items()
    }


def _with_rivals(fit: Fit, messages: Mapping[Source, Believed]) -> Iterator[Comparison]:
    """The model of a fit held against those that say the same without parameters of their own."""
    rivals = {**fit.fitted.rivals, **_of_messages(fit, messages)}
    if rivals:
        yield from compare(
            fit.source, fit.fitted.x, {**rivals, fit.name: fit.fitted.held_out}, fit.fitted.parts
        )


def _of_messages(fit: Fit, messages: Mapping[Source, Believed]) -> dict[str, list[float]]:
    """ln(measured/predicted) of what Hockney's model of a ping-pong makes of a superstep, or of a stream."""
    from roofline.models.bsp import Bsp
    from roofline.models.loggp import Gap

    fitted = fit.fitted
    if not isinstance(fitted, Bsp | Gap):
        return {}
    ping_pong = made_of(fit.source, messages)
    if ping_pong is None:
        return {}
    processes = int(json.loads(fit.source.params).get("ranks") or 2)
    pattern = superstep if isinstance(fitted, Bsp) else send
    predicted = [message_time(messages[ping_pong], pattern(processes, int(size))) for size in fitted.x]
    times = fitted.pieces.middle.tolist()
    return {"Hockney": [math.log(time / made) for time, made in zip(times, predicted, strict=True)]}


def _of_benchmark(source: Source) -> Source:
    """What patterns of one benchmark have in common: where they ran, and with how many ranks."""
    return source._replace(case="", params=json.dumps({"ranks": json.loads(source.params).get("ranks", "")}))


def _fit_sweep(series: SweepTimes, fits: list[Fit], comparisons: list[Comparison]) -> None:
    """Hockney's model of a half round trip, or g and G of a windowed test."""
    from roofline.models import loggp

    sweep = series.sweep()
    if series.kind == "interval between messages":
        gap = loggp.fit_gap(sweep)
        fits.append(Fit(gap.model, series.source, series.kind, gap, series.raw))
        return
    models = _hockney(sweep)
    fits += [Fit(name, series.source, series.kind, each, series.raw) for name, each in models.items()]
    comparisons += _compare_messages(series.source, models)


def _hockney(sweep: Sweep) -> dict[str, Fitted]:
    """One line for all sizes, and lines by pieces where there are several."""
    from roofline.models import hockney

    by_pieces = hockney.fit(sweep)
    several = {_BY_PIECES: by_pieces} if len(by_pieces.pieces.splits) > 1 else {}
    return {_ONE_LINE: hockney.fit(sweep, most=1), **several}


def _compare_messages(source: Source, models: Mapping[str, Fitted]) -> Iterator[Comparison]:
    """Models of a half round trip, for each piece of Hockney's; none where that is not among them."""
    from roofline.models.hockney import Hockney

    hockney = [model for model in models.values() if isinstance(model, Hockney)]
    for fitted in hockney[-1:]:
        held_out = {name: model.held_out for name, model in models.items()}
        yield from compare(source, fitted.x, held_out, fitted.parts)


def _fit_patterns(
    source: Source,
    cases: Mapping[str, SweepTimes],
    fits: list[Fit],
    comparisons: list[Comparison],
    skipped: dict[str, str],
) -> None:
    """The models that are made of several patterns, each where all of its patterns were measured."""
    rings = sorted((name for name in cases if name.startswith("ring_")), key=lambda name: int(name[5:]))
    recipes = {**_RECIPES, tuple(rings): _tau_lop} if "ring_1" in cases else _RECIPES
    for names, recipe in recipes.items():
        if not cases.keys() >= set(names):
            continue
        used = [cases[name] for name in names]
        try:
            sweeps = _aligned(used)
        except _NoWholeLaunch:
            skipped[used[0].source.name] = f"no launch has at least {LEAST_SIZES} sizes of {', '.join(names)}"
            continue
        raw = tuple(sorted({path for each in used for path in each.raw}))
        found = recipe(used, sweeps)
        fits += [Fit(name, used[0].source, "pattern", each, raw) for name, each in found.items()]
        comparisons += _compare_messages(used[0].source, found)
    benchmark = source.benchmark
    made = {name for names in recipes for name in names if cases.keys() >= set(names)}
    skipped.update({f"{benchmark} {name}": "not all patterns of its model" for name in cases.keys() - made})


def _prtt(series: Sequence[SweepTimes], sweeps: Sequence[Sweep]) -> dict[str, Fitted]:
    """LogGP, and Hockney's model of the same half round trips."""
    from roofline.models import loggp
    from roofline.models.piecewise import Sweep

    messages = int(json.loads(series[1].source.params)["messages"])
    half = Sweep(sweeps[0].x, sweeps[0].times / 2)
    return {**_hockney(half), "LogGP": loggp.fit(messages, *sweeps)}


def _burst(_: Sequence[SweepTimes], sweeps: Sequence[Sweep]) -> dict[str, Fitted]:
    from roofline.models import logfp

    return {"LogfP": logfp.fit(sweeps[0])}


def _middleware(_: Sequence[SweepTimes], sweeps: Sequence[Sweep]) -> dict[str, Fitted]:
    from roofline.models import log3p

    return {"log_3P": log3p.fit(*sweeps)}


def _h_relation(_: Sequence[SweepTimes], sweeps: Sequence[Sweep]) -> dict[str, Fitted]:
    from roofline.models import bsp

    return {"BSP": bsp.fit(sweeps[0])}


def _tau_lop(series: Sequence[SweepTimes], sweeps: Sequence[Sweep]) -> dict[str, Fitted]:
    from roofline.models import tau_lop

    transfers = [int(each.source.case.removeprefix("ring_")) for each in series]
    return {"τ-Lop": tau_lop.fit(dict(zip(transfers, sweeps, strict=True)), series[0].source.nodes)}


#: What LogGP is made of; its first is twice the time that Hockney's model describes.
_PRTT: Final = ("prtt", "prtt_burst", "prtt_delayed", "prtt_delay")
_Recipe = Callable[[Sequence[SweepTimes], Sequence["Sweep"]], dict[str, "Fitted"]]
#: The patterns that a model is made of → the models.
_RECIPES: Final[Mapping[tuple[str, ...], _Recipe]] = {
    _PRTT: _prtt,
    ("burst",): _burst,
    ("middleware", "middleware_strided", "pack", "pack_strided"): _middleware,
    ("h_relation",): _h_relation,
}


def _aligned(series: Sequence[SweepTimes]) -> list[Sweep]:
    """Sweeps over the sizes that all have, with the launches that measured every one of them as columns.

    Raises `_NoWholeLaunch` if there is none.
    """
    sizes = sorted(set.intersection(*(set(each.sizes) for each in series)))
    launches = sorted(
        set.intersection(*(set(each.times[size]) for each in series for size in sizes)) if sizes else ()
    )
    if not launches or len(sizes) < LEAST_SIZES:
        raise _NoWholeLaunch
    return [each.sweep(launches, sizes) for each in series]


def _reduction(records: Sequence[Record]) -> float | None:
    benchmark, case, counted = _REDUCTION
    rates = [
        record.value
        for record in records
        if record.ok and record.value and (record.benchmark, record.case) == (benchmark, case)
    ]
    return counted / median(rates) if rates else None
