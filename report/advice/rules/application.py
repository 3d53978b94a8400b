"""What bounds the applications that ran below `npc observe`."""

from __future__ import annotations

from statistics import median
from typing import Final

from report.advice import Evidence, Hint, Judgement, rule
from roofline.points import Application, bounds, link, verdict

#: A network that takes less of the time is not what to work on.
_WORTH: Final = 0.1


@rule(
    "memory_bound",
    "an application bound by memory",
    "Williams, Waterman, Patterson, CACM 52(4), 2009: roofline; docs/roofline.md, Applications",
)
def memory_bound(evidence: Evidence) -> Judgement:
    """Applications whose tightest known ceiling is main memory."""
    applications = evidence.roofline.applications
    if not any(run.memory_bandwidth for each in applications for run in each.runs):
        return "no application that tells its memory traffic beside a measured memory bandwidth"
    found = []
    for each in applications:
        tightest = next(iter(bounds(each, evidence.roofline)), None)
        if tightest is not None and tightest.ceiling.kind == "memory":
            found.append(
                Hint(
                    seen=verdict(each, evidence.roofline),
                    do="fewer bytes a FLOP: blocking for the caches, smaller types, fused loops; all "
                    "sockets' memory",
                    of=each.name,
                    gain=max(1.0, 1 / tightest.share),
                    raw=_raw(each),
                )
            )
    return found


@rule(
    "network_bound",
    "an application that the network holds up",
    "Amdahl, AFIPS 1967: without a part f of its time a program is at most 1/(1 − f) times as fast",
)
def network_bound(evidence: Evidence) -> Judgement:
    """Applications whose bytes alone need a tenth of their time or more at the measured rate."""
    network = link(evidence.roofline)
    applications = [each for each in evidence.roofline.applications if each.nodes > 1]
    if not applications:
        return "no application on several nodes (npc observe, tag apps)"
    if network is None:
        return "no network bandwidth between nodes"
    found = []
    for each in applications:
        parts = [
            max(run.received, run.sent) / network.value / run.seconds
            for run in each.runs
            if run.received is not None and run.sent is not None and run.seconds
        ]
        if parts and _WORTH <= median(parts) < 1:
            found.append(
                Hint(
                    seen=verdict(each, evidence.roofline),
                    do="fewer and larger messages, overlap with computing, ranks placed so that neighbours "
                    "share a "
                    "node; MPI on the fast path (rules mpi_over_tcp, eager_limit)",
                    of=each.name,
                    gain=1 / (1 - median(parts)),
                    raw=_raw(each),
                )
            )
    return found


def _raw(application: Application) -> tuple[str, ...]:
    return tuple(sorted({run.raw for run in application.runs}))
