"""``fit.json``: fitted models for programs, and for ``npc model predict``. docs/models.md describes every
key.

Schema 1. New keys may be added under the same number; it changes when a key goes or changes its meaning.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from npc.document import plain
from npc.roofline.cross_validation import ModelComparison
from npc.roofline.fits import Fit, Fits
from npc.roofline.measured_collectives import AlgorithmAgreement
from npc.roofline.models.estimate import Linear
from npc.roofline.models.piecewise import PiecewiseFit
from npc.roofline.prediction import BelievedModels
from npc.roofline.sweeps import SweepSource

SCHEMA: Final = 1
#: What ``fit.json`` has of each x: `read_pieces` makes a `PiecewiseFit` of it again.
_POINT: Final = ("x", "time", "residual", "held_out", "miss", "set_aside")


class InvalidDocument(ValueError):
    """Not a fit.json that this version can read; the message says why."""


def to_document(fits: Fits) -> dict[str, Any]:
    """The content of ``fit.json``; SI base units, None where there is no value."""
    document: dict[str, Any] = plain({
        "schema": SCHEMA,
        "fits": [_fit(fit) for fit in fits.fits],
        "comparisons": [_with_sweep(comparison) for comparison in fits.comparisons],
        "collectives": [
            {**_with_sweep(collective), "predicted_from": _source(collective.predicted_from)}
            for collective in fits.collectives
        ],
        "skipped": fits.skipped,
        "rest": fits.rest,
        "reduction": fits.reduction,
        "disturbed": fits.disturbed,
    })  # fmt: skip
    return document


def read_pieces(fit: Mapping[str, Any]) -> PiecewiseFit:
    """The lines of one entry of ``fits``. Raises `InvalidDocument`."""
    try:
        lines, points = fit["lines"], fit["points"]
        values = np.array(lines["values"], dtype=float)
        linear = Linear(
            values,
            np.array(lines["covariance"], dtype=float),
            float(lines["dof"]),
            np.array(lines["launches"], dtype=float).reshape(-1, len(values)),
        )
        columns = {
            name: np.array(
                [math.inf if point[name] is None else point[name] for point in points], dtype=float
            )
            for name in _POINT
        }
        splits = tuple((int(first), int(last)) for first, last in lines["splits"])
        return PiecewiseFit(
            x=columns["x"],
            middle=columns["time"],
            splits=splits,
            fit=linear,
            residuals=columns["residual"],
            held_out=columns["held_out"],
            misses=columns["miss"],
            set_aside=columns["set_aside"] > 0,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidDocument(f"an entry of `fits` is damaged: {error!r}") from None


def read_believed(document: Mapping[str, Any], fit: Mapping[str, Any]) -> BelievedModels:
    """The models of the sweep of `fit`, an entry of ``fits``, each in the range of sizes where the comparison
    says to believe it. Where the model to believe has no lines, the one with the least error among those that
    have is taken. Raises `InvalidDocument`."""
    models = {fit.get("name", fit["model"]): read_pieces(fit)}
    try:
        for other in document["fits"]:
            if other["sweep"] == fit["sweep"] and other.get("lines"):
                models[other["name"]] = read_pieces(other)
        compared = [
            comparison for comparison in document["comparisons"] if comparison["sweep"] == fit["sweep"]
        ]
        return BelievedModels.among(models, [_read_comparison(comparison) for comparison in compared])
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise InvalidDocument(f"`comparisons` and `fits` do not go together: {error!r}") from None


def _read_comparison(entry: Mapping[str, Any]) -> ModelComparison:
    errors = {name: math.inf if error is None else float(error) for name, error in entry["errors"].items()}
    return ModelComparison(
        sweep_of(entry),
        entry.get("observable", ""),
        entry["first"],
        entry["last"],
        errors,
        entry["best"],
        tuple(entry["tied"]),
    )


def sweep_of(entry: Mapping[str, Any]) -> SweepSource:
    """The sweep that an entry of ``fits`` or ``comparisons`` is about."""
    sweep = entry["sweep"]
    known = {name: sweep[name] for name in SweepSource._fields}
    return SweepSource(**known | {"hosts": tuple(sweep["hosts"]), "params": json.dumps(sweep["params"])})


def predictable(document: Any) -> list[dict[str, Any]]:
    """The entries of ``fits`` that tell the time of a message. Raises `InvalidDocument`."""
    if not isinstance(document, dict) or "fits" not in document:
        raise InvalidDocument("this is no fit.json: `npc model fit RECORDS --output fit.json` makes one")
    if document.get("schema") != SCHEMA:
        raise InvalidDocument(
            f"schema {document.get('schema')}: this version reads {SCHEMA}; make it anew by `npc model fit`"
        )
    try:
        msgspec.convert(document, _Predictable)
    except msgspec.ValidationError as error:
        raise InvalidDocument(f"it is damaged: {error}") from None
    return [fit for fit in document["fits"] if fit["model"] == "Hockney"]


class _Sweep(msgspec.Struct):
    """A `SweepSource` as ``fit.json`` has it."""

    #: Name of the platform.
    platform: str
    #: Name of the benchmark.
    benchmark: str
    #: The tool's test.
    case: str
    #: Number of nodes.
    nodes: int
    #: Names of the hosts, as the records have them.
    hosts: list[str]
    #: Params that identify the series, and its placement, by their names.
    params: dict[str, str]
    #: Benchmark and case, as people read them.
    name: str


class _FitEntry(msgspec.Struct):
    """One fitted model."""

    #: Name of the model without its variant: ``Hockney``.
    model: str
    #: What it was fitted to.
    sweep: _Sweep
    #: Smallest size that it was fitted to in bytes; for LogfP a number of messages.
    first: float
    #: Largest size, likewise.
    last: float


class _Comparison(msgspec.Struct):
    """A `ModelComparison` as ``fit.json`` has it."""

    #: What the models predicted.
    sweep: _Sweep
    #: Smallest size of the range in bytes; for `BURST` a number of messages.
    first: float
    #: Largest size of the range, likewise.
    last: float
    #: By name of a model its median relative error; None for one that predicts nothing.
    errors: dict[str, float | None]
    #: Name of the model to believe here; None where there is none.
    best: str | None
    #: Names of the others that cannot be told from it.
    tied: list[str]


class _Predictable(msgspec.Struct):
    """What a file must have so that times can be predicted; `read_pieces` checks the lines."""

    #: All fitted models.
    fits: list[_FitEntry]
    #: Which of them to believe where; empty: each stands alone.
    comparisons: list[_Comparison] = []
    #: Seconds that reducing one byte takes; None if it was not measured.
    reduction: float | None = None


def _source(source: SweepSource) -> dict[str, Any]:
    return {
        **source._asdict(),
        "params": source.by_name,
        "name": source.name,
    }


def _fit(fit: Fit) -> dict[str, Any]:
    fitted, lines = fit.fitted, fit.lines
    times = lines.middle.tolist() if lines else [None] * len(fitted.x)
    misses = lines.misses.tolist() if lines else [None] * len(fitted.x)
    aside = lines.set_aside.tolist() if lines else [False] * len(fitted.x)
    entry: dict[str, Any] = {
        "name": fit.name,
        "model": fitted.model,
        "equation": fitted.equation,
        "reference": fitted.source,
        "sweep": _source(fit.source),
        "kind": fit.kind,
        "parameters": fitted.parameters,
        "first": min(fitted.x),
        "last": max(fitted.x),
        "launches": fitted.launches,
        "evidence": fitted.evidence,
        "residual_rms": fitted.residual_rms,
        "held_out_median": fitted.held_out_median,
        "points": [
            dict(zip(_POINT, point, strict=True))
            for point in zip(fitted.x, times, fitted.residuals, fitted.held_out, misses, aside, strict=True)
        ],
        "note": fitted.note,
        "raw": fit.raw,
    }
    if lines:
        entry["lines"] = {
            "splits": lines.splits,
            "values": lines.fit.values.tolist(),
            "covariance": lines.fit.covariance.tolist(),
            "dof": lines.fit.dof,
            "launches": lines.fit.launches.tolist(),
        }
    return entry


def _with_sweep(comparison: ModelComparison | AlgorithmAgreement) -> dict[str, Any]:
    document = plain(comparison)
    del document["source"]
    return {"sweep": _source(comparison.source), **document}
