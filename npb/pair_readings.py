"""The results of one run of pairs as arrays, and what nodes, roles and pairs are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npc.machine.fabric import natural
from npc.records.pair_verdicts import Better, PairResult
from npc.statistics.suspect import Role, whom

if TYPE_CHECKING:
    from npc.catalogue.row import Sender
    from npc.statistics.arrays import Floats, Integers

#: Two node numbers, the server's first.
NodePair = tuple[int, int]

#: What server and client are called, by which of them sends the bytes ("": unknown).
_ROLES: Final[dict[Sender, tuple[Role, Role]]] = {
    "": ("server", "client"),
    "client": ("receiver", "sender"),
    "server": ("sender", "receiver"),
}


class NodeEnd(NamedTuple):
    """A node in all of its pairs, or at one end of them."""

    #: Number of the node, from 0.
    node: int
    #: 0: where it is the server, 1: where it is the client; None: at either end.
    end: int | None


class PairReadings:
    """The usable results of one run, a reading each; nodes are numbers, their places in `names`."""

    def __init__(
        self,
        results: Sequence[PairResult],
        better: Better = "higher",
        nodes: Iterable[str] = (),
        sender: Sender = "",
    ) -> None:
        """nodes: names of those that may not have been measured, too. sender: who sends the bytes."""
        hosts = {result.a for result in results} | {result.b for result in results} | set(nodes)
        #: Names of all nodes, in the order in which people count (n2 before n10).
        self.names: list[str] = sorted(hosts, key=natural)
        #: By reading, the result that it is from.
        self.results: list[PairResult] = []
        #: The results without a usable value.
        self.failures: list[PairResult] = []
        for result in results:
            (self.results if result.usable else self.failures).append(result)
        self.better: Better = better
        #: Whether some pairs were measured again.
        self.repeated = any(result.attempt for result in results)
        number = {name: i for i, name in enumerate(self.names)}
        #: By reading, the server's and the client's number.
        self.server: Integers = np.array([number[result.a] for result in self.results], np.intp)
        self.client: Integers = np.array([number[result.b] for result in self.results], np.intp)
        #: By reading, both numbers.
        self.pairs: list[NodePair] = list(zip(self.server.tolist(), self.client.tolist(), strict=True))
        sense = 1.0 if better == "higher" else -1.0
        #: By reading, the logarithm of its value, turned so that slow is small.
        self.logarithms: Floats = sense * np.log(np.array([result.value for result in self.results], float))
        self._roles = _ROLES[sender]

    @property
    def count(self) -> int:
        """How many readings there are."""
        return len(self.results)

    @property
    def partners_by_node(self) -> Integers:
        """With how many others each node was measured."""
        n = len(self.names)
        met = np.unique(np.concatenate([self.server * n + self.client, self.client * n + self.server]))
        return np.bincount(met // max(n, 1), minlength=n)

    @property
    def count_by_node(self) -> Integers:
        """How many readings each node has."""
        return np.bincount(np.concatenate([self.server, self.client]), minlength=len(self.names))

    def role(self, end: int | None) -> Role:
        """What the node at one end of its pairs is called; "" for either end."""
        return "" if end is None else self._roles[end]

    def in_words(self, node_end: NodeEnd) -> str:
        """``n4``, or ``n4 as sender``."""
        return whom("node", self.names[node_end.node], self.role(node_end.end)).removeprefix("node ")

    def link_name(self, pair: NodePair, one_way: bool) -> str:
        """``server–client``; of one direction ``sender→receiver``, or ``client→server`` if unknown."""
        if not one_way:
            return "–".join(self.names[node] for node in pair)
        return "→".join(self.names[pair[end]] for end in self.ends_in_direction())

    def ends_in_direction(self) -> tuple[int, int]:
        """The ends of a pair, the sender's first; the client's, if nobody knows who sends."""
        return (0, 1) if self._roles[0] == "sender" else (1, 0)


def partners_of(pairs: Iterable[NodePair]) -> dict[NodeEnd, set[int]]:
    """By node and end, and by node (end None), the nodes at the other end of its pairs."""
    partners: dict[NodeEnd, set[int]] = defaultdict(set)
    for server, client in pairs:
        partners[NodeEnd(server, 0)].add(client)
        partners[NodeEnd(client, 1)].add(server)
        partners[NodeEnd(server, None)].add(client)
        partners[NodeEnd(client, None)].add(server)
    return partners
