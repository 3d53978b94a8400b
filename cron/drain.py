"""Taking a node out of service: the ``scontrol`` line, printed, and run only where somebody asked for it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from npc.cron.verdict import NightVerdict
from npc.machine.ask import NoAnswer, ask
from npc.records.verdicts import NightSuspect, PairMatrix, SlowSuspect


def to_drain(night: NightVerdict, matrix: PairMatrix | None) -> dict[str, str]:
    """Nodes that should get no jobs until somebody has looked at them, each with the reason, the strongest
    evidence first.

    They are those that the pairs of the suspects name, where these could be measured, else those that the
    history names.
    """
    suspects: Sequence[SlowSuspect | NightSuspect] = [suspect for suspect in night.suspects if suspect.named]
    if matrix and not matrix.problem:
        suspects = matrix.slow
    reasons: dict[str, str] = {}
    for suspect in suspects:
        if suspect.kind == "node":
            reasons.setdefault(suspect.name, f"NPC {night.run}: {_how(suspect)}")
    return reasons


def _how(suspect: SlowSuspect | NightSuspect) -> str:
    if suspect.slowdown is None:
        return "fails" if isinstance(suspect, NightSuspect) else "does not answer"
    return f"{suspect.slowdown:.0%} slower" + (f" as {suspect.role}" if suspect.role else "")


def drain_words(node: str, reason: str) -> list[str]:
    """The command line that drains a node (scontrol(1))."""
    return ["scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}"]


def drain_line(node: str, reason: str) -> str:
    """The same for a shell."""
    return shlex.join(drain_words(node, reason))


def drain(node: str, reason: str) -> str:
    """Drain a node; what went wrong, empty if nothing did."""
    try:
        ask(drain_words(node, reason), timeout_s=60)
    except NoAnswer as error:
        return str(error)
    return ""
