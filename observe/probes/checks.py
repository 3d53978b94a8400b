"""bpftrace, by which ``npc observe --probe`` counts."""

from __future__ import annotations

from collections.abc import Iterator

from npc.machine.preflight import Environment, MpiTrial, check


@check(
    "note",
    "npc observe --probe counts by it what functions, system calls and the kernel do",
    "the line that it names, on every node",
    name="probes",
)
def no_probes(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """No bpftrace, or not the right to attach anything."""
    from npc.observe.probes.rights import refusal

    if reason := refusal(types=True):
        yield f"no probes: {reason}"
