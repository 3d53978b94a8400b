"""All models that apply to some records, and which of them to believe where.

A ping-pong gives Hockney's model, a windowed test LogGP's g and G, the ``models`` benchmark the others.
Every model of a message's time is held against the others on sizes that it was not shown: for each piece
that was found in the sweep, the one with the least median error is the one to believe there (`Comparison`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from roofline.sweeps import LEAST_SIZES, PATTERNS, Kind, Series, Source, find_series

if TYPE_CHECKING:
    from npc.record import Record
    from roofline.models.fitted import Fitted
    from roofline.models.hockney import Hockney
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
    """A model with the sweep (or the set of sweeps) it was fitted to."""

    source: Source
    kind: Kind
    fitted: Fitted
    raw: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Median relative errors on sizes not shown, of several models from `first` to `last` bytes."""

    source: Source
    first: float
    last: float
    errors: Mapping[str, float]

    @property
    def best(self) -> str:
        """The model to believe there: the first of those with the least error, the simplest being first."""
        return min(self.errors, key=lambda model: self.errors[model])


@dataclass(frozen=True, slots=True)
class Fits:
    """Everything that was fitted. skipped: source's name → why nothing was.

    reduction: seconds that one byte takes to be added to another (from STREAM's add), None if not measured.
    """

    fits: tuple[Fit, ...]
    comparisons: tuple[Comparison, ...]
    skipped: Mapping[str, str]
    reduction: float | None


def fit_records(records: Sequence[Record]) -> Fits:
    """Fit all models that apply. Records that are not ``ok`` are not used."""
    return fit_series(find_series(records), _reduction(records))


def fit_series(series: Sequence[Series], reduction: float | None = None) -> Fits:
    """Fit all models that apply to these series."""
    fits: list[Fit] = []
    comparisons: list[Comparison] = []
    skipped: dict[str, str] = {}
    patterns: defaultdict[Source, dict[str, Series]] = defaultdict(dict)
    for each in series:
        if len(each.sizes) < LEAST_SIZES:
            skipped[each.source.name] = f"{len(each.sizes)} sizes, a model needs {LEAST_SIZES}"
        elif each.kind == "pattern":
            patterns[_of_benchmark(each.source)][each.source.case] = each
        else:
            _fit_sweep(each, fits, comparisons)
    for source, cases in patterns.items():
        _fit_patterns(source, cases, fits, comparisons, skipped)
    return Fits(tuple(fits), tuple(comparisons), skipped, reduction)


def _of_benchmark(source: Source) -> Source:
    """What patterns of one benchmark have in common: where they ran, and with how many ranks."""
    return source._replace(case="", params=json.dumps({"ranks": json.loads(source.params).get("ranks", "")}))


def _fit_sweep(series: Series, fits: list[Fit], comparisons: list[Comparison]) -> None:
    """Hockney's model of a half round trip, or g and G of a windowed test."""
    from roofline.models import loggp

    sweep = series.sweep()
    if series.kind == "interval between messages":
        fits.append(Fit(series.source, series.kind, loggp.fit_gap(sweep), series.raw))
        return
    models = _hockney(sweep)
    by_pieces = models[_BY_PIECES]
    fits.append(Fit(series.source, series.kind, by_pieces, series.raw))
    comparisons += compare(series.source, by_pieces.pieces, models)


def _hockney(sweep: Sweep) -> dict[str, Hockney]:
    """One line for all sizes, and lines by pieces."""
    from roofline.models import hockney

    return {_ONE_LINE: hockney.fit(sweep, most=1), _BY_PIECES: hockney.fit(sweep)}


def compare(source: Source, pieces: Pieces, models: Mapping[str, Fitted]) -> Iterator[Comparison]:
    """Held-out errors of models of the same sizes, piece by piece."""
    from roofline.models.fitted import relative_errors

    errors = {name: relative_errors(model.held_out) for name, model in models.items()}
    for piece, (first, last) in enumerate(pieces.splits):
        medians = {name: median(each[first : last + 1]) for name, each in errors.items()}
        yield Comparison(source, *pieces.range(piece), medians)


def _fit_patterns(
    source: Source,
    cases: Mapping[str, Series],
    fits: list[Fit],
    comparisons: list[Comparison],
    skipped: dict[str, str],
) -> None:
    """The models that are made of several patterns, each where all of its patterns were measured."""
    from roofline.models.hockney import Hockney

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
        fits += [
            Fit(used[0].source, "pattern", each, raw) for name, each in found.items() if name != _ONE_LINE
        ]
        by_pieces = found.get(_BY_PIECES)
        if isinstance(by_pieces, Hockney):
            comparisons += compare(used[0].source, by_pieces.pieces, found)
    made = {name for names in recipes for name in names if cases.keys() >= set(names)}
    skipped.update({f"{PATTERNS} {name}": "not all patterns of its model" for name in cases.keys() - made})


def _prtt(series: Sequence[Series], sweeps: Sequence[Sweep]) -> dict[str, Fitted]:
    """LogGP, and Hockney's model of the same half round trips."""
    from roofline.models import loggp
    from roofline.models.piecewise import Sweep

    messages = int(json.loads(series[1].source.params)["messages"])
    half = Sweep(sweeps[0].x, sweeps[0].times / 2)
    return {**_hockney(half), "LogGP": loggp.fit(messages, *sweeps)}


def _burst(_: Sequence[Series], sweeps: Sequence[Sweep]) -> dict[str, Fitted]:
    from roofline.models import logfp

    return {"LogfP": logfp.fit(sweeps[0])}


def _middleware(_: Sequence[Series], sweeps: Sequence[Sweep]) -> dict[str, Fitted]:
    from roofline.models import log3p

    return {"log_3P": log3p.fit(*sweeps)}


def _h_relation(_: Sequence[Series], sweeps: Sequence[Sweep]) -> dict[str, Fitted]:
    from roofline.models import bsp

    return {"BSP": bsp.fit(sweeps[0])}


def _tau_lop(series: Sequence[Series], sweeps: Sequence[Sweep]) -> dict[str, Fitted]:
    from roofline.models import tau_lop

    transfers = [int(each.source.case.removeprefix("ring_")) for each in series]
    return {"τ-Lop": tau_lop.fit(dict(zip(transfers, sweeps, strict=True)), series[0].source.nodes)}


#: What LogGP is made of; its first is twice the time that Hockney's model describes.
_PRTT: Final = ("prtt", "prtt_burst", "prtt_delayed", "prtt_delay")
_Recipe = Callable[[Sequence[Series], Sequence["Sweep"]], dict[str, "Fitted"]]
#: The patterns that a model is made of → the models.
_RECIPES: Final[Mapping[tuple[str, ...], _Recipe]] = {
    _PRTT: _prtt,
    ("burst",): _burst,
    ("middleware", "middleware_strided", "pack", "pack_strided"): _middleware,
    ("h_relation",): _h_relation,
}


def _aligned(series: Sequence[Series]) -> list[Sweep]:
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
