"""What the nights so far say of benchmarks and nodes: when each was measured last, at what cost, or why not.

Slurm's node names and the hosts of the records are compared without their domains.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from npc.cron.rotation import NODES
from npc.machine.fabric import expand, short_name
from npc.records.history import LastMeasured
from npc.records.journal import JournalEntry
from npc.records.record import OK

#: Nights of which the dearest says how much node time is kept for measuring again.
RESERVE_NIGHTS: Final = 7


@dataclass(frozen=True, slots=True)
class PastNights:
    """The nights so far; they are numbered, 0 is the first one of the journal."""

    #: As the journal has them, the oldest first.
    nights: Sequence[JournalEntry]
    #: As the history has them: where each benchmark was measured, and when last.
    places: Sequence[LastMeasured] = ()

    def number(self, night: str) -> int:
        """The number of a night by its name; of one that the journal does not know, the next one's."""
        return bisect_left(self.nights, night, key=lambda entry: entry.name)

    def name(self, number: int) -> str:
        """The name of a night; empty where there is none of this number."""
        return self.nights[number].name if 0 <= number < len(self.nights) else ""

    def benchmarks(self) -> dict[str, int]:
        """By benchmark the last night that tried to measure it."""
        last: dict[str, int] = {}
        for place in self.places:
            last[place.benchmark] = max(self.number(place.run), last.get(place.benchmark, -1))
        for number, night in enumerate(self.nights):  # what failed on no host at all has been tried, too
            for progress in night.parts.values():
                last |= {name: max(number, last.get(name, -1)) for name in progress.costs}
        return last

    def costs(self) -> dict[str, list[float]]:
        """By benchmark its node time (s) on one group of nodes, a value a night."""
        costs: dict[str, list[float]] = {}
        for night in self.nights:
            in_parts: dict[str, list[tuple[float, int]]] = {}
            for progress in night.parts.values():
                if progress.part.kind == "first":
                    for name, cost in progress.costs.items():
                        in_parts.setdefault(name, []).append(cost)
            for name, parts in in_parts.items():
                node_s, groups = map(sum, zip(*parts, strict=True))
                costs.setdefault(name, []).append(node_s / groups)
        return costs

    def reserve_s(self) -> float:
        """Node time (s) of measuring again in the dearest of the last nights."""

        def measured_again_s(night: JournalEntry) -> float:
            parts = (progress for progress in night.parts.values() if progress.part.kind != "first")
            return sum(node_s for progress in parts for node_s, _ in progress.costs.values())

        return max(map(measured_again_s, self.nights[-RESERVE_NIGHTS:]), default=0.0)

    def nodes_tried(self) -> dict[str, int]:
        """By node the last night whose rotation was to measure it."""
        tried: dict[str, int] = {}
        for number, night in enumerate(self.nights):
            parts = (progress.part for progress in night.parts.values())
            tried |= {
                node: number for part in parts if part.name.startswith(f"{NODES}-") for node in part.hosts
            }
        return tried

    def pairs_met(self) -> dict[frozenset[str], int]:
        """By two nodes (without their domains) the last night that measured them together."""
        met: dict[frozenset[str], int] = {}
        for place in self.places:
            pair = frozenset(map(short_name, place.hosts))
            if len(place.hosts) == len(pair) == 2:
                met[pair] = max(self.number(place.run), met.get(pair, -1))
        return met

    def nodes_measured(self, steps: Collection[str]) -> dict[str, str]:
        """By node (without its domain) the name of the last night by which all of some benchmarks had
        measured it; of benchmarks that are not installed anywhere, none."""
        wanted = {
            place.benchmark
            for place in self.places
            if place.benchmark in steps and not place.status.startswith("unavailable: ")
        }
        nights: dict[str, dict[str, str]] = {}
        for place in self.places:
            for host in place.hosts if place.benchmark in wanted and place.status == OK else ():
                of_node = nights.setdefault(short_name(host), {})
                of_node[place.benchmark] = max(place.run, of_node.get(place.benchmark, ""))
        return {
            node: min(of_node.values()) for node, of_node in nights.items() if len(of_node) == len(wanted)
        }

    def reasons_unmeasured(self, steps: Collection[str], recent: Collection[str]) -> dict[str, str]:
        """By node (without its domain) why it was not measured, as far as that is known: what its last job
        ended with, else what is wrong with the last useless record of the `recent` nights."""
        records = {
            short_name(host): f"{place.benchmark}: {place.status} (night {place.run})"
            for place in sorted(self.places, key=lambda place: place.run)
            if place.benchmark in steps and place.status != OK and place.run in recent
            for host in place.hosts
        }
        jobs: dict[str, str] = {}
        for night in self.nights:
            parts = [progress for progress in night.parts.values() if progress.part.kind == "first"]
            for node in {node for progress in parts for node in progress.part.hosts}:
                jobs.pop(short_name(node), None)
            for progress in parts:
                for place, reason in progress.unmeasured.items():
                    jobs |= {short_name(node): f"{reason} (night {night.name})" for node in expand(place)}
        return records | jobs
