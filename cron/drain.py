"""Taking a node out of service: the ``scontrol`` line, printed, and run only where somebody asked for it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from npc.machine.ask import NoAnswer, ask

if TYPE_CHECKING:
    from cron.matrix import Matrix
    from cron.verdict import NightVerdict


def to_drain(night: NightVerdict, matrix: Matrix | None) -> dict[str, str]:
    """Nodes that should serve nobody until somebody has looked, each with the reason.

    Where the pairs of the suspects could be measured, whom they name; else the nodes that the history names.
    """
    if matrix and not matrix.problem:
        found = [(each.name, each.slowdown) for each in matrix.slow if each.kind == "node"]
    else:
        found = [(each.name, each.slowdown) for each in night.suspects if each.named and each.kind == "node"]
    return {
        name: f"NPC {night.run}: " + ("does not answer" if slower is None else f"{slower:.0%} slower")
        for name, slower in found
    }


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
