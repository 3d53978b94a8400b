"""Every pair of nodes against the normal one, as a grid: servers are rows, clients are columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Final

from npc.figures.grid import Grid, GridCell
from npc.figures.scale import RATIOS
from npc.machine.fabric import Topology, in_order, neighbours, short_name
from npc.records.nodes import relative
from npc.records.units import format_quantity

#: Server and client.
Pair = tuple[str, str]
#: Groups of nodes at most, where no topology names them.
_MOST_GROUPS: Final = 64


@dataclass(frozen=True)
class Pairs:
    """Measurements of pairs of nodes."""

    #: Usable measurements of each pair, in `unit`; none where all failed.
    values: Mapping[Pair, Sequence[float]]
    #: SI unit of the measurements.
    unit: str
    #: Which values are better: ``higher`` or ``lower``.
    better: str
    #: The value that pairs are compared with, in `unit`.
    normal: float
    #: Racks and switches of the nodes; None where they are not known.
    topology: Topology | None = None
    #: Nodes that are drawn one by one; of more, groups of neighbours are.
    most: int = 64
    #: The ids of the pairs' records in a page.
    idents: Mapping[Pair, str] = field(default_factory=dict)

    @cached_property
    def hosts(self) -> list[str]:
        """All hosts, by their switches where a topology is known, else by name."""
        return in_order({host for pair in self.values for host in pair}, self.topology)

    @cached_property
    def groups(self) -> list[tuple[str, tuple[str, ...]]]:
        """Name and hosts of each row and column: a host, or neighbours where there are too many hosts."""
        if len(self.hosts) > self.most:
            return neighbours(self.hosts, self.topology, _MOST_GROUPS)
        return [(host, (host,)) for host in self.hosts]

    @cached_property
    def ratios(self) -> dict[Pair, float | None]:
        """How good each pair is beside the normal one, below 1 is worse; None where it failed."""
        return {
            pair: relative(median(samples), self.normal, self.better) if samples else None
            for pair, samples in self.values.items()
        }

    def grid(
        self,
        ident: str,
        title: str,
        text: str,
        blamed: Collection[str] = (),
        links: Collection[Collection[str]] = (),
    ) -> Grid:
        """The grid; blamed: hosts whose names stand out. links: pairs of hosts that are to blame."""
        labels = [label for label, _ in self.groups]
        # domains take the room beside a grid, and are needed where they alone tell hosts apart
        if len({short_name(label) for label in labels}) == len(labels):
            labels = [short_name(label) for label in labels]
        names = tuple(labels)
        grouped = len(self.groups) < len(self.hosts)
        return Grid(
            ident=ident,
            title=title,
            text=text,
            rows=names,
            columns=names,
            cells=tuple(
                self._of_groups() if grouped else self._of_pairs({frozenset(link) for link in links})
            ),
            scale=RATIOS,
            row_title="server",
            column_title="client",
            blamed=frozenset(
                label
                for label, (_, members) in zip(labels, self.groups, strict=True)
                if not set(blamed).isdisjoint(members)
            ),
            filled=True,
            side=24.0,
        )

    def _of_pairs(self, links: Collection[frozenset[str]]) -> Iterator[GridCell]:
        """A cell a pair; what was measured one way round only stands on both sides of the diagonal."""
        number = {host: place for place, host in enumerate(self.hosts)}
        for pair, ratio in self.ratios.items():
            server, client = pair
            words = "failed"
            if ratio is not None:
                words = f"{format_quantity(median(self.values[pair]), self.unit)}, {ratio:.3g}"
            both = [pair] if (client, server) in self.ratios else [pair, (client, server)]
            for row, column in both:
                yield GridCell(
                    number[row],
                    number[column],
                    ratio,
                    f"{client} → {server}\n{words}",
                    self.idents.get(pair, ""),
                    ratio is None,
                    frozenset(pair) in links,
                )

    def _of_groups(self) -> Iterator[GridCell]:
        """A cell for two groups of neighbouring hosts, whichever way round their pairs were measured."""
        group = {host: place for place, (_, members) in enumerate(self.groups) for host in members}
        by_place: defaultdict[tuple[int, int], list[float | None]] = defaultdict(list)
        for (server, client), ratio in self.ratios.items():
            by_place[group[server], group[client]].append(ratio)
            if group[server] != group[client]:
                by_place[group[client], group[server]].append(ratio)
        for (row, column), ratios in by_place.items():
            known = [ratio for ratio in ratios if ratio is not None]
            middle = median(known) if known else None
            words = "all failed" if middle is None else f"{middle:.3g} (worst {min(known):.3g})"
            names = f"{_name(*self.groups[column])} with {_name(*self.groups[row])}"
            yield GridCell(
                row, column, middle, f"{names}\n{len(ratios)} pairs: {words}",
                failed=middle is None,
            )  # fmt: skip


def _name(label: str, members: Sequence[str]) -> str:
    """A group in words: neighbours are called by their first alone where there is no room."""
    return f"{label} to {members[-1]}" if label == members[0] and len(members) > 1 else label
