"""What could be to blame for slow pairs: nodes, nodes in one role, and what a topology knows of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npc.machine.fabric import GroupMembers, Topology, group_members
from npc.npb.pair_readings import PairReadings
from npc.statistics.localiser import Hypotheses, one_ended
from npc.statistics.suspect import Kind, Role, whom

if TYPE_CHECKING:
    from npc.statistics.arrays import Floats, Integers

#: Groups of nodes, the simplest explanation first.
_GROUP_KINDS: Final[tuple[Kind, ...]] = ("uplink", "switch", "rack")


class PairHypothesis(NamedTuple):
    """What a hypothesis says is slow."""

    #: What it blames: a node, an uplink, a switch or a rack.
    kind: Kind
    #: Which node or group of nodes of this kind it blames.
    name: str
    #: The end of its pairs at which alone a node is slow: 0 as server, 1 as client; None: at both.
    end: int | None = None
    #: What a node at that end is called; empty for both ends.
    role: Role = ""

    @property
    def whom(self) -> str:
        """Kind, name and role in words."""
        return whom(self.kind, self.name, self.role)


class PairHypotheses:
    """The hypotheses about the pairs of one run. Their readings never change, the values of these may."""

    def __init__(self, readings: PairReadings, topology: Topology | None, partners: int) -> None:
        """partners: a node in one role that has fewer is no hypothesis."""
        #: Switches and racks.
        self.groups: list[GroupMembers] = list(group_members(topology, readings.names))
        nodes = _nodes(readings, None)
        ends = (readings.server, readings.client)
        enough = one_ended(ends, readings.count_by_node, readings.count, partners)
        roles = [
            node for end, judged in enumerate(enough) for node in compress(_nodes(readings, end), judged)
        ]
        every = [*nodes, *roles, *self._of_groups(readings)]
        self._count_nodes, self._count_roles = len(nodes), len(roles)
        #: By hypothesis, what it says is slow. Of two that explain the same the simpler one comes first.
        self.labels: list[PairHypothesis] = [label for label, _ in every]
        self._readings = [chosen for _, chosen in every]

    def of_values(self, values: Floats) -> Hypotheses:
        """As the search needs them. values: of all readings."""
        sizes = [len(chosen) for chosen in self._readings]
        return Hypotheses.of(
            np.concatenate([np.zeros(0, dtype=np.intp), *self._readings]),
            np.repeat(np.arange(len(sizes)), sizes),
            values,
            one_role=np.array([label.end is not None for label in self.labels], dtype=bool),
            nodes=self._count_nodes,
            roles=self._count_roles,
        )

    def distances(self, readings: PairReadings) -> Integers:
        """By reading, the level of the lowest switch above both nodes; -1 where the topology knows none."""
        distance = np.full(readings.count, -1, dtype=np.intp)
        for group, below in sorted(self.groups, key=lambda members: -members.group.level):  # the lowest last
            if group.kind == "switch":
                distance[below[readings.server] & below[readings.client]] = group.level
        return distance

    def _of_groups(self, readings: PairReadings) -> list[tuple[PairHypothesis, Integers]]:
        """Uplinks, switches and racks, each with its readings."""
        labelled: list[tuple[PairHypothesis, Integers]] = []
        for group, below in self.groups:
            # One node alone is that node; all nodes together leave nothing to compare with.
            if not 1 < below.sum() < len(readings.names):
                continue
            server, client = below[readings.server], below[readings.client]
            labelled.append((PairHypothesis(group.kind, group.name), np.flatnonzero(server | client)))
            if group.kind == "switch":
                labelled.append((PairHypothesis("uplink", group.name), np.flatnonzero(server ^ client)))
        return sorted(labelled, key=lambda hypothesis: _GROUP_KINDS.index(hypothesis[0].kind))


def _nodes(readings: PairReadings, end: int | None) -> Sequence[tuple[PairHypothesis, Integers]]:
    """Each node with its readings, or with those in which it is at one end."""
    ends = (readings.server, readings.client)
    node = np.concatenate(ends) if end is None else ends[end]
    order = np.argsort(node, kind="stable") % max(readings.count, 1)
    chosen = np.split(order, np.cumsum(np.bincount(node, minlength=len(readings.names))))
    labels = (PairHypothesis("node", name, end, readings.role(end)) for name in readings.names)
    return list(zip(labels, chosen, strict=False))  # behind the last node an empty piece is left
