"""A suspect among pairs of nodes, with what to do next about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from npc.records.pair_verdicts import Better, PairResult, PairSuspect
from npc.statistics.localiser import Effect
from npc.statistics.suspect import Kind, Role

#: Measurements that stay with a suspect.
_MOST_MEASUREMENTS: Final = 64
#: What to do next, by kind of suspect; {0}, the first node, {name}, {server} and {client} are filled in.
_CLOSER: Final[dict[Kind, str]] = {
    "node": "on {0}: `ip -s link`, `ethtool -S IFACE`, `ibstat`, `dmesg`; compare its clock, BIOS and load",
    "link": "measure it alone: a file with the line `{server} {client}` for --pairs, --serial --runs 6",
    "uplink": "error counters of {name}'s uplink ports (`iblinkinfo`, `ibqueryerrors`, its console)",
    "switch": "{name} itself: its error counters, its temperature, its uplinks",
    "rack": "what the nodes of {name} share: power cap, cooling, a switch",
}


def pair_suspect(
    kind: Kind,
    name: str,
    nodes: tuple[str, ...],
    *,
    evidence: str,
    chance: float,
    measurements: Sequence[PairResult],
    readings: int,
    role: Role = "",
    effect: Effect | None = None,
    better: Better = "higher",
) -> PairSuspect:
    """What stands in ``pairs.json`` about a suspect.

    measurements: all of them, the worst first. readings: on how many measurements it rests. effect: how slow
    it is; None: it does not answer.
    """
    worst = measurements[0] if measurements else None
    closer = _CLOSER[kind].format(
        nodes[0], name=name, server=worst.a if worst else "", client=worst.b if worst else ""
    )
    slowdown, low, high = effect.slowdowns(better) if effect else (None, None, None)
    return PairSuspect(
        kind=kind,
        name=name,
        nodes=nodes,
        evidence=evidence,
        chance=min(chance, 1.0),
        slowdown=slowdown,
        low=low,
        high=high,
        score=effect.z if effect else None,
        role=role,
        dead=effect is None,
        closer=closer,
        readings=readings,
        measurements=tuple(measurements[:_MOST_MEASUREMENTS]),
    )
