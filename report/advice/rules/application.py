"""What bounds the applications that ran below `npc observe`."""

from __future__ import annotations

from statistics import median
from typing import Final

from npc.report.advice.rule import Judgement, hint, rule
from npc.report.runs import Run
from npc.roofline.applications import Application
from npc.roofline.points import bounds, own_link, verdict, without_network

#: A network that takes less of the time is not what to work on.
_WORTH: Final = 0.1
#: A program further below a ceiling than this is held up by something else: waiting, latency, serial parts.
_NEAR: Final = 0.5


@rule("memory_bound")
def memory_bound(run: Run) -> Judgement:
    """Applications whose tightest known ceiling is main memory, and that come near to it."""
    applications = run.roofline.applications
    if not any(part.memory_bandwidth for application in applications for part in application.runs):
        return "no application that tells its memory traffic beside a measured memory bandwidth"
    hints, far = [], []
    for application in applications:
        tightest = next(iter(bounds(application, run.roofline)), None)
        if tightest is not None and tightest.share < _NEAR:
            far.append(
                f"{application.name} reaches {tightest.share:.2g} of the tightest, {tightest.ceiling.name}"
            )
        elif tightest is not None and tightest.ceiling.kind == "memory" and not application.caches:
            gain = 1 / tightest.share if tightest.share < 1 else None
            evidence = verdict(application, run.roofline)
            hints.append(
                hint("memory_bound", evidence, gain, _raw(application), application=application.name)
            )
    if far and not hints:
        return f"no ceiling explains what was reached (waiting, latency, serial parts may): {'; '.join(far)}"
    return hints


@rule("network_bound")
def network_bound(run: Run) -> Judgement:
    """Applications whose bytes alone need a tenth of their time or more at the measured rate."""
    applications = [application for application in run.roofline.applications if application.nodes > 1]
    if not applications:
        return "no application on several nodes (npc observe, tag apps)"
    if not any(ceiling.nodes > 1 for ceiling in run.roofline.of_kind("network")):
        return "no network bandwidth between nodes"
    hints = []
    for application in applications:
        network = own_link(application, run.roofline)
        parts = (
            [size / network.bandwidth / seconds for size, seconds in application.transfers] if network else []
        )
        if parts and median(parts) >= _WORTH:
            best = without_network(application, bounds(application, run.roofline))
            gain = best[0] if best and median(parts) < 1 else None
            evidence = verdict(application, run.roofline)
            hints.append(
                hint("network_bound", evidence, gain, _raw(application), application=application.name)
            )
    return hints


def _raw(application: Application) -> tuple[str, ...]:
    return tuple(sorted({part.raw for part in application.runs}))
