"""What is to blame, as plain data: the same type for the pairs of one run and for many nights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What on a fabric can be to blame for slow messages.
Kind = Literal["node", "link", "uplink", "switch", "rack"]
#: At which end of a pair a node is slow: the end that sends the bytes or the one that receives them, where it
#: is known who sends, else npb's client or server. "": at both ends, or unknown.
Role = Literal["", "sender", "receiver", "client", "server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """Something to blame."""

    #: Whether it is a node, a link, an uplink, a switch or a rack.
    kind: Kind
    #: The node, ``a–b`` of a link (``a→b`` of one direction), the switch or the rack.
    name: str
    #: Names of the nodes that it affects.
    nodes: tuple[str, ...]
    #: Why, in words.
    evidence: str
    #: Probability that a healthy machine shows such evidence, with all hypotheses taken together.
    chance: float
    #: By how much its values are worse than those of the rest (0.05: 5 % less bandwidth, or 5 % more
    #: latency); None for what fails instead of being slow.
    slowdown: float | None = None
    #: Lower end of the 95 % confidence interval of `slowdown`; None where that is None.
    low: float | None = None
    #: Upper end of that interval; None where `slowdown` is None.
    high: float | None = None
    #: Standard normal score of the evidence; None for what fails.
    score: float | None = None
    #: The one role in which a node is slow; for one direction of a link, the role of its first node. Empty:
    #: both roles, or not known.
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
