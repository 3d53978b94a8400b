"""Taking a node out of service: the ``scontrol`` line, printed, and run only where somebody asked for it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from npc.cron.verdict import NightVerdict
from npc.machine.ask import NoAnswer, ask
from npc.records.verdicts import NightSuspect, PairMatrix, SlowSuspect


def to_drain(night: NightVerdict, matrix: PairMatrix | None) -> dict[str, str]:
    """Nodes that should serve nobody until somebody has looked, each with the reason.

    Where the pairs of the suspects could be measured, whom they name; else the nodes that the history names.
    """
    found: Sequence[SlowSuspect | NightSuspect] = [each for each in night.suspects if each.named]
    if matrix and not matrix.problem:
        found = matrix.slow
    # The strongest evidence comes first.
    return {each.name: f"NPC {night.run}: {_how(each)}" for each in reversed(found) if each.kind == "node"}


def _how(suspect: SlowSuspect | NightSuspect) -> str:
    if suspect.slowdown is None:
        return "does not answer"
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
