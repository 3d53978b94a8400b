"""``roofline.json``: the roofline for programs. docs/roofline.md describes every key.

Schema 1. New keys may be added under the same number; it changes when a key goes or changes its meaning.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from roofline.applications import Application
from roofline.points import bounds, verdict
from roofline.result import Ceiling, Curve, Estimate, MpiCeiling, Roofline

SCHEMA: Final = 1


def to_document(roofline: Roofline) -> dict[str, Any]:
    """The content of ``roofline.json``; values in SI base units, None where there is no value."""
    return {
        "schema": SCHEMA,
        "platform": roofline.platform,
        "hosts": list(roofline.hosts),
        "first": roofline.first,
        "last": roofline.last,
        "job_nodes": roofline.job_nodes,
        "ceilings": [_ceiling(ceiling) for ceiling in roofline.ceilings],
        "ridge_points": [asdict(ridge) for ridge in roofline.ridges],
        "kernels": [_ceiling(ceiling) for ceiling in roofline.kernels],
        "latencies": [_estimate(latency) for latency in roofline.latencies],
        "curves": [_curve(curve) for curve in roofline.curves],
        "theoretical": {f"peak {name}": peak for name, peak in roofline.theoretical.items()},
        "points": [_point(application, roofline) for application in roofline.applications],
        "mpi": [_mpi(ceiling) for ceiling in roofline.mpi],
        "callers": [asdict(caller) for caller in roofline.callers],
        "dropped": dict(roofline.dropped),
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return asdict(estimate) | {"hosts": list(estimate.hosts), "raw": list(estimate.raw)}


def _ceiling(ceiling: Ceiling) -> dict[str, Any]:
    return _estimate(ceiling) | {"share": ceiling.share}


def _curve(curve: Curve) -> dict[str, Any]:
    points = [
        {
            "size": point.size,
            "value": point.summary.median,
            "low": point.summary.low,
            "high": point.summary.high,
            "coverage": point.summary.coverage,
            "n": point.summary.n,
        }
        for point in curve.points
    ]
    return asdict(curve) | {"points": points}


def _mpi(ceiling: MpiCeiling) -> dict[str, Any]:
    rates = [rate._asdict() for rate in ceiling.rates]
    return asdict(ceiling) | {"name": ceiling.name, "rates": rates}


def _point(application: Application, roofline: Roofline) -> dict[str, Any]:
    intensity = application.intensity
    return {
        "name": application.name,
        "platform": application.platform,
        "nodes": application.nodes,
        "hosts": list(application.hosts),
        "precision": application.precision,
        "flops": application.flops._asdict(),
        "intensity": None if intensity is None else intensity._asdict(),
        "nights": [{"day": day, "intensity": x, "flops": y} for day, x, y in application.nights],
        "bounds": [
            {"ceiling": bound.ceiling.name, "flops": bound.flops, "share": bound.share}
            for bound in bounds(application, roofline)
        ],
        "verdict": verdict(application, roofline),
        "raw": sorted({run.raw for run in application.runs}),
    }
