"""What is to blame, as plain data: the same for the pairs of one run and for many nights."""

from __future__ import annotations

from dataclasses import dataclass

from npc.machine.fabric import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """Something to blame.

    name: the node, ``a–b`` of a link, or the switch or rack. nodes: whom it affects. evidence: in words.
    chance: the probability of such evidence on a healthy machine, all hypotheses together. slowdown: by how
    much its values are worse than the rest's (0.05: 5 % less bandwidth, or 5 % more latency) with its 95 %
    interval [low, high]; None for what fails instead. score: standard normal score of the evidence.
    """

    kind: Kind
    name: str
    nodes: tuple[str, ...]
    evidence: str
    chance: float
    slowdown: float | None = None
    low: float | None = None
    high: float | None = None
    score: float | None = None
