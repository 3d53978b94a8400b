"""What latency bounds where nothing hides it: loads that wait for each other, messages that go one at a time.

A roofline shows throughput alone (Bartelheimer, Zhu, Neuwirth 2023, section 6.1). With one load in flight a
CPU gets a line each memory latency, whatever the bandwidth (Little's law with a concurrency of one), and a
rank that sends n_k messages of s_k bytes one after another needs Σ n_k·t(s_k), where t is the half round
trip. Programs overlap both, so neither is a ceiling: the distance from the bound shows whether latency can
matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from npc import catalogue
from npc.records.series import test_name
from npc.records.units import format_quantity
from npc.roofline.applications import MIDDLE, Application
from npc.roofline.messages import of_mpi
from npc.roofline.model import message_seconds
from npc.roofline.result import Curve, Roofline


@dataclass(frozen=True, slots=True)
class OneAtATime:
    """What an application's messages need if they go one after another."""

    #: Name of the test whose latencies are used.
    source: str
    #: Share of the application's time that they need, of 1; above 1 they overlap in truth.
    part: float
    #: FLOP/s that this allows a node, or all nodes for a whole job.
    flops: float


def one_at_a_time(application: Application, roofline: Roofline) -> OneAtATime | None:
    """What an application's messages need by the quickest ping-pong of MPI between nodes at their sizes; by
    one of another layer where none of MPI was measured. Empty messages do not count. None where something is
    not known."""
    counted = [
        (run.messages, run.ranks * run.seconds)
        for run in application.runs
        if run.messages and run.ranks and run.seconds
    ]
    between = [curve for curve in roofline.curves if _is_ping_pong(curve)] if application.nodes > 1 else []
    curves = [curve for curve in between if of_mpi(curve.benchmark, curve.case)] or between
    if not counted or not curves:
        return None

    def part(curve: Curve) -> float:
        times = [(p.size, p.summary.median) for p in curve.points if p.size]
        return median(
            sum(number * message_seconds(times, MIDDLE * size) for size, number in messages) / seconds
            for messages, seconds in counted
        )

    quickest = min(curves, key=part)
    least = part(quickest)
    return OneAtATime(test_name(quickest.benchmark, quickest.case), least, application.flops.median / least)


def _is_ping_pong(curve: Curve) -> bool:
    timed = curve.metric == "latency" and curve.nodes > 1 and any(point.size for point in curve.points)
    return timed and catalogue.find(curve.benchmark, curve.case, "latency").timing == "half round trip"


def messages_text(application: Application, roofline: Roofline) -> str:
    """The part of its time that its messages need one at a time; nothing where that is not known."""
    need = one_at_a_time(application, roofline)
    if need is None:
        return ""
    needed = f"{100 * need.part:.2g} % of its time"
    if need.part > 1:
        needed = f"{need.part:.3g} times its time, so they overlap"
    return f"One at a time, by the latency of {need.source} at their sizes, its messages need {needed}."


def loads_text(application: Application, roofline: Roofline) -> str:
    """How fast dependent loads of main memory would let it be; nothing where that is not known."""
    if application.memory_intensity is None or application.caches or roofline.dependent is None:
        return ""
    allowed = application.memory_intensity * roofline.dependent.value
    ratio = application.flops.median / allowed
    reached = format_quantity(allowed, "FLOP/s", 3)
    if ratio > 1:
        return f"It is {ratio:.3g} times as fast as if each load waited for the one before ({reached})."
    return (
        f"It is no faster than if each load waited for the one before ({reached}): memory's latency may be "
        "what bounds it."
    )
