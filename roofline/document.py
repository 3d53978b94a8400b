"""``roofline.json``: the roofline for programs. docs/roofline.md describes every key.

Schema 1. New keys may be added under the same number; it changes when a key goes or changes its meaning.
"""

from __future__ import annotations

from typing import Any, Final

from npc.document import plain
from npc.registration import module_names
from npc.roofline.applications import Application
from npc.roofline.latency import one_at_a_time
from npc.roofline.points import bounds, verdict
from npc.roofline.result import Ceiling, Roofline
from npc.statistics.medians import Summary

SCHEMA: Final = 1


def to_document(roofline: Roofline) -> dict[str, Any]:
    """The content of ``roofline.json``; values in SI base units, None where there is no value."""
    document: dict[str, Any] = plain({
        "schema": SCHEMA,
        "platform": roofline.platform,
        "hosts": roofline.hosts,
        "first": roofline.first,
        "last": roofline.last,
        "job_nodes": roofline.job_nodes,
        "ceilings": [_ceiling(ceiling) for ceiling in roofline.ceilings],
        "ridge_points": roofline.ridges,
        "kernels": [_ceiling(ceiling) for ceiling in roofline.kernels],
        "latencies": roofline.latencies,
        "dependent": None if roofline.dependent is None else _ceiling(roofline.dependent),
        "curves": [
            plain(curve) | {"points": [_sized(*at) for at in curve.points]} for curve in roofline.curves
        ],
        "theoretical": {f"peak {name}": peak for name, peak in roofline.theoretical.items()},
        "points": [_point(application, roofline) for application in roofline.applications],
        "mpi": [plain(ceiling) | {"name": ceiling.name} for ceiling in roofline.mpi],
        "callers": roofline.callers,
        "dropped": roofline.dropped,
        "disturbed": roofline.disturbed,
    })  # fmt: skip
    return document


def _ceiling(ceiling: Ceiling) -> dict[str, Any]:
    return {**plain(ceiling), "share": ceiling.share, "per_watt": ceiling.per_watt}


def _sized(size: int | None, summary: Summary) -> dict[str, Any]:
    values = summary._asdict()
    return {"size": size, "value": values.pop("median"), **values}


def _point(application: Application, roofline: Roofline) -> dict[str, Any]:
    limits = application.code_limits
    return {
        "name": application.name,
        "platform": application.platform,
        "nodes": application.nodes,
        "ranks": application.ranks or None,
        "settings": application.settings,
        "label": application.label,
        "hosts": application.hosts,
        "precision": application.precision,
        "flops": application.flops,
        "mean": application.mean,
        "deviation": application.deviation,
        "intensity": application.intensity,
        "memory_intensity": application.memory_intensity,
        "inside_mpi": application.inside,
        **{key: limits[key].document() if key in limits else None for key in module_names("limits")},
        "nights": [
            {"time": night.time, "intensity": night.intensity, "flops": night.flops}
            for night in application.nights
        ],
        "bounds": [
            {"ceiling": bound.ceiling.name, "flops": bound.flops, "share": bound.share}
            for bound in bounds(application, roofline)
        ],
        "one_at_a_time": one_at_a_time(application, roofline),
        "verdict": verdict(application, roofline),
        "raw": sorted({run.raw for run in application.runs}),
    }
