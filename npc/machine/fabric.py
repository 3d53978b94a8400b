"""Which switch and which rack a node hangs on: Slurm's topology, or a file that somebody wrote.

Slurm (``scontrol show topology``, or a ``topology.conf``)::

    SwitchName=leaf1 Level=0 LinkSpeed=100 Nodes=n[01-08]
    SwitchName=spine1 Level=1 LinkSpeed=1 Nodes=n[01-24] Switches=leaf[1-3]
    BlockName=block1 BlockIndex=0 Nodes=n[01-16] BlockSize=16

A file, one group a line: its name and what hangs on it, nodes or other groups; ``rack`` before the name
says that it is no switch::

    leaf1: n[01-08]            # a leaf switch and its nodes
    spine1: leaf[1-3]          # the leaves' uplinks go here
    rack r1: n[01-04],n[09-12]

Both may stand in one file. Nodes are matched to hosts by their full or their short name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from npc.errors import InvalidUsage
from npc.files import read_text
from npc.hostlist import expand as expand  # whoever reads topologies imports them from here
from npc.hostlist import natural as natural
from npc.machine.ask import NoAnswer, ask

if TYPE_CHECKING:
    from npc.statistics.arrays import Booleans

#: The place of hosts that a topology does not know.
ELSEWHERE: Final = "elsewhere"
#: Groups by name are racks if there are at most this times the square root of the number of hosts. More of
#: them are chassis or blades.
_MOST_RACKS: Final = 4.0
#: A block has at most so many hosts, where no rack is known.
_BLOCK: Final = 40

_GROUP: Final = re.compile(r"(?:(rack|switch)\s+)?([^\s:=\[\],]+)\s*:(.*)")


class InvalidTopology(InvalidUsage):
    """A text that describes no topology; the message names source and line, and what was expected."""


@dataclass(frozen=True, slots=True)
class Group:
    """A switch or a rack, and what hangs on it."""

    #: As the topology names it: ``leaf1``, ``r1``.
    name: str
    #: Messages pass through a switch; a rack is only a place.
    kind: Literal["switch", "rack"]
    #: Names of all nodes below it, also those below switches that are below it.
    nodes: frozenset[str]
    #: 0 for a switch or rack directly above nodes, else one more than the highest group below it.
    level: int = 0


@dataclass(frozen=True)
class Topology:
    """Switches and racks, by what hangs on them."""

    #: In the order of the text. A node that is in no group is not known to the topology.
    groups: tuple[Group, ...]

    @cached_property
    def nodes(self) -> frozenset[str]:
        """All nodes below any group."""
        return frozenset().union(*(group.nodes for group in self.groups))

    @cached_property
    def _above(self) -> Mapping[str, tuple[Group, ...]]:
        """By node, the switches above it from its leaf upwards."""
        above: dict[str, list[Group]] = {}
        for group in sorted(self.groups, key=lambda group: (group.level, len(group.nodes), group.name)):
            if group.kind == "switch":
                for node in group.nodes:
                    above.setdefault(node, []).append(group)
        return {node: tuple(groups) for node, groups in above.items()}

    def name(self, host: str) -> str:
        """A host's name in the topology: as it is, or without its domain if only that is known."""
        return host if host in self.nodes else short_name(host)

    def below(self, group: str, hosts: Iterable[str]) -> tuple[str, ...]:
        """Those of `hosts` that a switch or rack has below it, in their order."""
        nodes = frozenset().union(*(switch.nodes for switch in self.groups if switch.name == group))
        return tuple(host for host in hosts if self.name(host) in nodes)

    def leaf(self, host: str) -> str | None:
        """The switch that a host hangs on; None if the topology does not know it."""
        above = self._above.get(self.name(host))
        return above[0].name if above else None

    def order(self, hosts: Iterable[str]) -> list[str]:
        """Hosts sorted by their switches from the top down, then by name as people count (n2 before n10)."""

        def key(host: str) -> tuple[list[tuple[tuple[int, int, str], ...]], tuple[tuple[int, int, str], ...]]:
            above = self._above.get(self.name(host), ())
            return [natural(group.name) for group in reversed(above)], natural(host)

        return sorted(hosts, key=key)


def in_order(hosts: Iterable[str], topology: Topology | None) -> list[str]:
    """Hosts as a picture shows them: by their switches where a topology is known, else by name."""
    return topology.order(hosts) if topology else sorted(hosts, key=natural)


def neighbours(
    hosts: Sequence[str], topology: Topology | None, most: int
) -> list[tuple[str, tuple[str, ...]]]:
    """Hosts, which are `in_order`, as named groups: one for each leaf switch, if there are at least two and
    at most twice `most` of them; else at most `most` groups of equal size, each named after its first host.
    """
    leaves: dict[str, list[str]] = {}
    if topology:
        for host in hosts:
            leaves.setdefault(topology.leaf(host) or "?", []).append(host)
    if 1 < len(leaves) <= 2 * most:
        return [(leaf, tuple(members)) for leaf, members in leaves.items()]
    step = max(1, math.ceil(len(hosts) / most))
    return [(hosts[at], tuple(hosts[at : at + step])) for at in range(0, len(hosts), step)]


class GroupMembers(NamedTuple):
    """A switch or a rack, and which of some named nodes are below it."""

    #: The switch or the rack.
    group: Group
    #: One value for each name that `group_members` was given, in their order: whether that node is below it.
    below: Booleans


def group_members(topology: Topology | None, names: Sequence[str]) -> Iterator[GroupMembers]:
    """The switches and racks of a topology; their nodes are those among `names`."""
    if topology is None:
        return
    import numpy as np  # slow to import, and needed only where a suspect is looked for

    number = {topology.name(name): i for i, name in enumerate(names)}
    for group in topology.groups:
        below = np.zeros(len(names), dtype=bool)
        below[[number[node] for node in group.nodes if node in number]] = True
        yield GroupMembers(group, below)


def places(hosts: Iterable[str], topology: Topology | None) -> dict[str, str]:
    """By host its rack, or its leaf switch where no rack of it is known: ``rack r1``, ``switch leaf1``; only
    those hosts that the topology knows."""
    if topology is None:
        return {}
    racks: dict[str, str] = {}
    for group in sorted(topology.groups, key=lambda group: (group.level, len(group.nodes))):
        if group.kind == "rack":
            for name in group.nodes:
                racks.setdefault(name, f"rack {group.name}")
    places_of_hosts = {}
    for host in hosts:
        leaf = topology.leaf(host)
        place = racks.get(topology.name(host)) or (f"switch {leaf}" if leaf else "")
        if place:
            places_of_hosts[host] = place
    return places_of_hosts


def racks(hosts: Iterable[str], topology: Topology | None) -> list[tuple[str, tuple[str, ...]]]:
    """Hosts by their `places`. Where a topology knows none of them: by the part of their names before the
    last number (``node24-001`` is in ``node24``).

    Where the names make one group only, or too many, the groups are blocks of equal size, each named after
    its first host. Hosts that have no place are in the group ``elsewhere``, which is the last.
    """
    ordered = sorted(dict.fromkeys(hosts), key=natural)
    known = places(ordered, topology)
    if not known:
        known = {host: _before_last_number(host) for host in ordered}
        groups = set(known.values())
        if not 1 < len(groups) <= min(_MOST_RACKS * math.sqrt(len(ordered)), len(ordered) - 1):
            size = min(_BLOCK, math.ceil(math.sqrt(len(ordered))))
            known = {host: ordered[at - at % size] for at, host in enumerate(ordered)}
    hosts_by_rack: dict[str, list[str]] = {}
    for host in ordered:
        hosts_by_rack.setdefault(known.get(host, ELSEWHERE), []).append(host)
    return [
        (name, tuple(hosts_by_rack[name]))
        for name in sorted(hosts_by_rack, key=lambda name: (name == ELSEWHERE, natural(name)))
    ]


def _before_last_number(host: str) -> str:
    """A host's name without its last number and what is next to it: its rack, if the name tells one. The
    whole name where it has no number."""
    match = re.fullmatch(r"(.*?)[^0-9a-zA-Z]*[a-zA-Z]*\d+[a-zA-Z]*", short_name(host))
    return match[1] if match else short_name(host)


def short_name(host: str) -> str:
    """A host's name without its domain."""
    return host.partition(".")[0]


def load(source: str) -> Topology:
    """The topology of ``slurm`` (asks ``scontrol show topology``) or of a file.

    Raises `InvalidTopology`; its message says what to do where Slurm is absent or has no topology.
    """
    if source != "slurm":
        try:
            return parse(read_text(Path(source), "replace"), source)
        except OSError as error:
            raise InvalidTopology(f"--topology {source}: {error.strerror}") from None
    try:
        return parse(ask(["scontrol", "show", "topology"]), "scontrol show topology")
    except NoAnswer as error:
        raise InvalidTopology(f"--topology slurm: {error}; give a file instead") from None


def parse(text: str, source: str = "topology") -> Topology:
    """The topology of a text in either form. Raises `InvalidTopology` with `source` and line."""
    members: dict[str, tuple[Literal["switch", "rack"], list[str]]] = {}
    for number, line in _lines(text):
        where = f"{source}:{number}"
        try:
            kind, name, below = _slurm_group(line) if "=" in line else _file_group(line)
        except ValueError as error:
            raise InvalidTopology(f"{where}: {error}") from None
        if name in members:
            raise InvalidTopology(f"{where}: {name} is described twice")
        members[name] = kind, below
    if not members:
        raise InvalidTopology(f"{source}: no switch and no rack in it")
    return Topology(_resolve(members, source))


def modules(variables: Mapping[str, str]) -> dict[str, str]:
    """Host → module, the partition of its component, from the variables of a heterogeneous job of Slurm
    (``SLURM_JOB_NODELIST_HET_GROUP_0`` …); empty for any other job.

    Two components of one partition are ``batch 0`` and ``batch 1``.
    """
    parts = []
    for number in range(len(variables)):
        nodes = variables.get(f"SLURM_JOB_NODELIST_HET_GROUP_{number}")
        if not nodes:
            break
        parts.append((variables.get(f"SLURM_JOB_PARTITION_HET_GROUP_{number}", f"part {number}"), nodes))
    names = [name for name, _ in parts]
    module_of: dict[str, str] = {}
    for number, (name, nodes) in enumerate(parts):
        module = name if names.count(name) == 1 else f"{name} {number}"
        try:
            module_of |= dict.fromkeys(expand(nodes), module)
        except ValueError:
            continue
    return module_of


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without comments, continued ones (``\\`` at the end) joined."""
    joined, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        start = start or number
        joined += line.partition("#")[0].rstrip()
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        if joined.strip():
            yield start, joined.strip()
        joined, start = "", 0
    if joined.strip():
        yield start, joined.strip()


def _slurm_group(line: str) -> tuple[Literal["switch", "rack"], str, list[str]]:
    fields = dict(field.partition("=")[::2] for field in line.split())
    fields = {key.lower(): value for key, value in fields.items()}
    if "switchname" in fields:
        # For an upper switch, scontrol lists both the nodes and the switches below; the switches tell more.
        return "switch", fields["switchname"], expand(fields.get("switches") or fields.get("nodes", ""))
    for block in ("blockname", "aggregatedblock"):
        if block in fields:
            return "rack", fields[block], expand(fields.get("nodes", ""))
    raise ValueError(f"neither SwitchName= nor BlockName= in {line!r}")


def _file_group(line: str) -> tuple[Literal["switch", "rack"], str, list[str]]:
    match = _GROUP.fullmatch(line)
    if not match:
        raise ValueError(f"expected `leaf1: n[01-32]` or `rack r1: n[01-16]`, found {line!r}")
    hostlist = re.sub(r"\s+(?![^\[]*\])", ",", match[3])  # spaces separate as commas do, outside brackets
    return ("rack" if match[1] == "rack" else "switch"), match[2], expand(hostlist)


def _resolve(
    members: Mapping[str, tuple[Literal["switch", "rack"], Sequence[str]]], source: str
) -> tuple[Group, ...]:
    done: dict[str, Group] = {}

    def resolve(name: str, below: tuple[str, ...]) -> Group:
        if name in below:
            raise InvalidTopology(f"{source}: {' → '.join((*below, name))} is a circle")
        if name not in done:
            kind, direct = members[name]
            if not direct:
                raise InvalidTopology(f"{source}: nothing hangs on {name}")
            groups = [resolve(member, (*below, name)) for member in direct if member in members]
            nodes = frozenset(member for member in direct if member not in members)
            level = 1 + max((group.level for group in groups), default=-1)
            done[name] = Group(name, kind, nodes.union(*(group.nodes for group in groups)), level)
        return done[name]

    return tuple(resolve(name, ()) for name in members)
