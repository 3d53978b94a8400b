"""What a program's own code allows it at most, where somebody looked at that.

A module that is registered as ``npc.limits`` (`npc.registration`) finds such a limit in the records of a
launch. The entry's name is the limit's key in ``roofline.json``. A limit is a point of its own: FLOP/s a node
over FLOP per byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from npc.records.record import Record
from npc.registration import extensions


class CodeLimit(Protocol):
    """A limit in FLOP/s of a node, or of several together (`times`)."""

    @property
    def intensity(self) -> float:
        """FLOP per byte of whatever the limit is about."""

    @property
    def flops(self) -> float:
        """FLOP/s that the code allows at most."""

    @property
    def other(self) -> float | None:
        """FLOP/s of the next bound above it; None where there is only one."""

    @property
    def name(self) -> str:
        """What allows so much, behind the program's name in a legend."""

    @property
    def tip(self) -> str:
        """What is known of it, in lines of text."""

    def sentence(self, flops: float) -> str:
        """What it allows a program that reaches `flops` FLOP/s."""

    def document(self) -> Mapping[str, Any]:
        """What ``roofline.json`` has of it."""

    def times(self, nodes: int) -> CodeLimit:
        """What is allowed on so many nodes together."""


#: By the limit's key: what finds it in the records of a launch; None where there is none.
LimitFinders = Mapping[str, Callable[[Sequence[Record]], CodeLimit | None]]


def limit_finders() -> LimitFinders:
    """Those that are registered and can be loaded."""
    return {name: module.code_limit for name, module, _ in extensions("limits") if module is not None}
