"""Which nodes the scheduler gave, how often, to which benchmark: rack × node maps.

As figure 9 of Bartelheimer, Zhu, Neuwirth (2023): a map a benchmark and one for all of them. What counts is
the nights in which a node was measured, whatever came of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from npc.figures.chart import Counts
from npc.machine.fabric import racks, short_name
from npc.records.history import Point

if TYPE_CHECKING:
    from npc.machine.fabric import Topology

ALL: Final = "all benchmarks"
#: Rows are the numbers in the nodes' names where these leave no more than half of the rows empty.
_SPARSE: Final = 2


class Allocation(NamedTuple):
    """How often a benchmark had each node. nights: by node that it had, how many. known: how many nodes there
    are as far as anybody knows: those of the topology and those that any benchmark had."""

    benchmark: str
    nights: Mapping[str, int]
    known: int

    def __str__(self) -> str:
        """``himeno: 112 of 178 nodes``."""
        return f"{self.benchmark}: {len(self.nights)} of {self.known} nodes"


def allocations(points: Iterable[Point], topology: Topology | None = None) -> list[Allocation]:
    """That of every benchmark and, where they are several, of all; none where no record names a host."""
    runs: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for point in points:
        for host in point.hosts:
            name = topology.name(host) if topology else host
            runs[point.key.benchmark][name].add(point.run)
            runs[ALL][name].add(point.run)
    known = len(runs[ALL].keys() | (topology.nodes if topology else set()))
    everything = runs.pop(ALL)
    found = [(benchmark, runs[benchmark]) for benchmark in sorted(runs)]
    found += [(ALL, everything)] if len(runs) > 1 else []
    return [
        Allocation(benchmark, {host: len(had) for host, had in hosts.items()}, known)
        for benchmark, hosts in found
    ]


def maps(found: Sequence[Allocation], topology: Topology | None = None) -> list[Counts]:
    """A map for each; racks are columns."""
    hosts = {host for each in found for host in each.nights} | (topology.nodes if topology else set())
    columns = racks(hosts, topology)
    blocks = all(name in members for name, members in columns)
    rows = _rows([members for _, members in columns], blocks)
    numbers = sorted(set(rows.values()))
    place = {
        host: (numbers.index(rows[host]), column)
        for column, (_, members) in enumerate(columns)
        for host in members
    }
    return [
        Counts(
            ident=f"allocation-{each.benchmark.replace(' ', '-')}",
            title=str(each),
            text=f"{each}. The most often: {_most(each)}.",
            rows=tuple(f"+{number}" if blocks else str(number) for number in numbers),
            columns=tuple(name for name, _ in columns),
            cells={place[host]: each.nights.get(host, 0) for host in hosts},
            row_title="" if blocks else "node",
            column_title="first node" if blocks else "rack",
        )
        for each in found
    ]


def _rows(columns: Sequence[Collection[str]], blocks: bool) -> dict[str, int]:
    """The row of each host: the last number of its name; its place in its rack where that would leave most
    rows empty, or two in one. Of a block it is how many it is after the first."""
    numbers = {host: _last_number(host) for members in columns for host in members}
    told = [set(map(numbers.__getitem__, members)) for members in columns]
    largest = max(map(len, columns), default=0)
    unique = all(len(found) == len(members) for found, members in zip(told, columns, strict=True))
    if unique and not blocks and len(set().union(*told)) <= _SPARSE * largest:
        return numbers
    return {host: place for members in columns for place, host in enumerate(members, 0 if blocks else 1)}


def _last_number(host: str) -> int:
    found = re.findall(r"\d+", short_name(host))
    return int(found[-1]) if found else 0


def _most(allocation: Allocation) -> str:
    often = sorted(allocation.nights.items(), key=lambda entry: -entry[1])[:3]
    return ", ".join(f"{host} in {nights} nights" for host, nights in often)
