"""Which nodes the scheduler gave, how often, to which benchmark: rack × node maps.

As figure 9 of Bartelheimer, Zhu, Neuwirth (2023): a map a benchmark and one for all of them. What counts is
the nights in which a node was measured, whatever came of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from npc.figures.grid import Grid, GridCell
from npc.figures.scale import count_scale
from npc.machine.fabric import natural, racks, short_name
from npc.records.history import HistoryRow
from npc.records.history_columns import HistoryColumns
from npc.records.units import plural

if TYPE_CHECKING:
    from npc.machine.fabric import Topology

ALL: Final = "all benchmarks"
#: Rows are the numbers in the nodes' names where these leave no more than half of the rows empty.
_SPARSE: Final = 2


class Allocation(NamedTuple):
    """How often a benchmark had each node."""

    #: Which benchmark it was; `ALL` for all of them together.
    benchmark: str
    #: Node → in how many nights the benchmark had it; only nodes that it had.
    nights: Mapping[str, int]
    #: All nodes that are known: those of the topology and those that any benchmark had.
    known: frozenset[str]

    def __str__(self) -> str:
        """``himeno: 112 of 178 nodes``."""
        return f"{self.benchmark}: {len(self.nights)} of {len(self.known)} nodes"


class NodeAllocation:
    """In which nights benchmarks had which nodes."""

    def __init__(self) -> None:
        self._runs: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def add(self, benchmark: str, run: str, hosts: Iterable[str]) -> None:
        """A measurement, or several of one night."""
        for host in hosts:
            self._runs[benchmark][host].add(run)

    def allocations(self, topology: Topology | None = None, others: Collection[str] = ()) -> list[Allocation]:
        """That of every benchmark and, where they are several, of all; none where no record names a host.

        others: further hosts that are known.
        """

        def node(host: str) -> str:
            return topology.name(host) if topology else host

        by_benchmark: dict[str, dict[str, set[str]]] = {}
        for benchmark, hosts in sorted(self._runs.items()):
            for name in (benchmark, ALL) if len(self._runs) > 1 else (benchmark,):
                for host, runs in hosts.items():
                    by_benchmark.setdefault(name, {}).setdefault(node(host), set()).update(runs)
        everything = by_benchmark.pop(ALL, None)
        by_benchmark |= {ALL: everything} if everything else {}
        known = frozenset(host for hosts in by_benchmark.values() for host in hosts).union(map(node, others))
        known |= topology.nodes if topology else frozenset()
        return [
            Allocation(name, {host: len(runs) for host, runs in hosts.items()}, known)
            for name, hosts in by_benchmark.items()
        ]


def allocations(
    points: Iterable[HistoryRow], topology: Topology | None = None, others: Collection[str] = ()
) -> list[Allocation]:
    """Those of a history's points."""
    nodes = NodeAllocation()
    for benchmark, run, hosts in HistoryColumns.of(points).measured_where():
        nodes.add(benchmark, run, hosts)
    return nodes.allocations(topology, others)


def maps(of_benchmarks: Sequence[Allocation], topology: Topology | None = None) -> list[Grid]:
    """A map for each, all with the same colours; racks are columns."""
    hosts = frozenset[str]().union(*(allocation.known for allocation in of_benchmarks))
    columns = racks(hosts, topology)
    blocks = all(name in members for name, members in columns)
    rows = _rows([members for _, members in columns], blocks)
    numbers = sorted(set(rows.values()))
    place = {
        host: (numbers.index(rows[host]), column)
        for column, (_, members) in enumerate(columns)
        for host in members
    }
    most = max((nights for allocation in of_benchmarks for nights in allocation.nights.values()), default=0)
    scale = count_scale(most, "nights")
    return [
        Grid(
            ident=f"allocation-{allocation.benchmark.replace(' ', '-')}",
            title=str(allocation),
            text=f"{allocation}. The most often: {_most(allocation)}.",
            rows=tuple(f"+{number}" if blocks else str(number) for number in numbers),
            columns=tuple(name for name, _ in columns),
            cells=tuple(
                _cell(*place[host], host, allocation.nights.get(host, 0))
                for host in sorted(hosts, key=natural)
            ),
            scale=scale,
            row_title="node after it" if blocks else "node",
            column_title="first node" if blocks else "rack",
        )
        for allocation in of_benchmarks
    ]


def _rows(columns: Sequence[Collection[str]], blocks: bool) -> dict[str, int]:
    """The row of each host: the last number of its name; its place in its rack where that would leave most
    rows empty, or two in one. Of a block it is how many it is after the first."""
    numbers = {host: _last_number(host) for members in columns for host in members}
    of_rack = [set(map(numbers.__getitem__, members)) for members in columns]
    largest = max(map(len, columns), default=0)
    unique = all(len(distinct) == len(members) for distinct, members in zip(of_rack, columns, strict=True))
    if unique and not blocks and len(set().union(*of_rack)) <= _SPARSE * largest:
        return numbers
    return {host: place for members in columns for place, host in enumerate(members, 0 if blocks else 1)}


def _last_number(host: str) -> int:
    digits = re.findall(r"\d+", short_name(host))
    return int(digits[-1]) if digits else 0


def _cell(row: int, column: int, host: str, nights: int) -> GridCell:
    label = str(nights) if nights else ""
    return GridCell(row, column, nights, f"{host}\nin {plural(nights, 'night')}", label=label)


def _most(allocation: Allocation) -> str:
    often = sorted(allocation.nights.items(), key=lambda entry: (-entry[1], natural(entry[0])))[:3]
    return ", ".join(f"{host} in {nights} nights" for host, nights in often)
