"""What bounds the applications that ran below `npc observe`."""

from __future__ import annotations

from statistics import median
from typing import Final

from report.advice.rule import Evidence, Hint, Judgement, rule
from roofline.applications import Application
from roofline.points import bounds, own_link, verdict, without_network

#: A network that takes less of the time is not what to work on.
_WORTH: Final = 0.1
#: A program further below a ceiling than this is held up by something else: waiting, latency, serial parts.
_NEAR: Final = 0.5


@rule(
    "memory_bound",
    "an application bound by memory",
    "Williams, Waterman, Patterson, CACM 52(4), 2009: roofline; docs/roofline.md, Applications",
)
def memory_bound(evidence: Evidence) -> Judgement:
    """Applications whose tightest known ceiling is main memory, and that come near to it."""
    applications = evidence.roofline.applications
    if not any(run.memory_bandwidth for each in applications for run in each.runs):
        return "no application that tells its memory traffic beside a measured memory bandwidth"
    found, far = [], []
    for each in applications:
        tightest = next(iter(bounds(each, evidence.roofline)), None)
        if tightest is not None and tightest.share < _NEAR:
            far.append(f"{each.name} reaches {tightest.share:.2g} of the tightest, {tightest.ceiling.name}")
        elif tightest is not None and tightest.ceiling.kind == "memory":
            found.append(
                Hint(
                    seen=verdict(each, evidence.roofline),
                    do="fewer bytes a FLOP: blocking for the caches, smaller types, fused loops; all "
                    "sockets' memory",
                    of=each.name,
                    gain=1 / tightest.share if tightest.share < 1 else None,
                    raw=_raw(each),
                )
            )
    if far and not found:
        return f"no ceiling explains what was reached (waiting, latency, serial parts may): {'; '.join(far)}"
    return found


@rule(
    "network_bound",
    "an application that the network holds up",
    "Amdahl, AFIPS 1967: what takes a part f of the time; without it the next ceiling of the roofline bounds",
)
def network_bound(evidence: Evidence) -> Judgement:
    """Applications whose bytes alone need a tenth of their time or more at the measured rate."""
    applications = [each for each in evidence.roofline.applications if each.nodes > 1]
    if not applications:
        return "no application on several nodes (npc observe, tag apps)"
    if not any(ceiling.nodes > 1 for ceiling in evidence.roofline.of_kind("network")):
        return "no network bandwidth between nodes"
    found = []
    for each in applications:
        network = own_link(each, evidence.roofline)
        parts = [size / network.bandwidth / seconds for size, seconds in each.transfers] if network else []
        if parts and median(parts) >= _WORTH:
            best = without_network(each, bounds(each, evidence.roofline))
            found.append(
                Hint(
                    seen=verdict(each, evidence.roofline),
                    do="fewer and larger messages, overlap with computing, ranks placed so that neighbours "
                    "share a node; MPI on the fast path (rules mpi_over_tcp, eager_limit)",
                    of=each.name,
                    gain=best[0] if best and median(parts) < 1 else None,
                    raw=_raw(each),
                )
            )
    return found


def _raw(application: Application) -> tuple[str, ...]:
    return tuple(sorted({run.raw for run in application.runs}))
