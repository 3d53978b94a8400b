"""What is to blame, as plain data: the same for the pairs of one run and for many nights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from npc.machine.fabric import Kind

#: At which end of a pair a node is slow: that which sends the bytes or that which receives them, by what is
#: known of the test, else npb's client or server. "": at both, or not told.
Role = Literal["", "sender", "receiver", "client", "server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """Something to blame.

    name: the node, ``a–b`` of a link (``a→b`` of one direction), or the switch or rack. nodes: whom it
    affects. evidence: in words. role: in which alone a node is slow; of one direction of a link, that of a.
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
    role: Role = ""

    @property
    def whom(self) -> str:
        """Kind, name and role in words."""
        return whom(self.kind, self.name, self.role)


def whom(kind: str, name: str, role: str = "") -> str:
    """Whom to blame in words: ``node n4 as sender``, ``link n1→n4``."""
    if kind == "link":
        return f"link {name}" + (" (client→server)" if role == "client" else "")
    return f"{kind} {name}" + (f" as {role}" if role else "")
