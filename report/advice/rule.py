"""What a rule is: a function of the evidence of a run, that gives hints or says what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from npc import catalogue
from npc.catalogue.row import Layer
from npc.machine.platform import Platform
from npc.records.launch import Launch
from npc.records.record import Record
from npc.validity import Finding, find_lies
from npc.validity.rule import Circumstances
from roofline.analyse import analyse
from roofline.result import Ceiling, Estimate, Roofline


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """One piece of advice.

    seen: the evidence, in a sentence with its numbers. do: what to do. gain: at most so many times as fast
    afterwards, None where nobody can tell. of: what becomes faster. raw: files that the evidence is in.
    """

    seen: str
    do: str
    of: str
    gain: float | None = None
    raw: tuple[str, ...] = ()


#: Hints, or what evidence is missing.
Judgement = list[Hint] | str
Judge = Callable[["Evidence"], Judgement]


@dataclass(frozen=True, slots=True)
class Rule:
    """name: stable, for ``--json``. title: what it looks for. source: where that is written."""

    name: str
    title: str
    source: str
    judge: Judge


@dataclass(frozen=True)
class Evidence:
    """What is known of a run.

    environments: those of its nodes, the run's own first. suspects: entries of ``verdict.json`` of measured
    pairs, each with its ``series``. All records are of one platform.
    """

    records: Sequence[Record]
    circumstances: Circumstances
    environments: Sequence[Mapping[str, Any]] = ()
    suspects: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    @property
    def platform(self) -> Platform | None:
        """Nominal limits, where they are known."""
        return self.circumstances.platform

    @cached_property
    def roofline(self) -> Roofline:
        """Ceilings, latencies and applications."""
        return analyse(self.records, self.platform)

    @cached_property
    def lies(self) -> list[Finding]:
        """What the rules of `npc.validity` say of the records."""
        return find_lies(self.records, self.circumstances)

    @property
    def launches(self) -> Mapping[str, Launch]:
        """Launches by the raw file of their output."""
        return self.circumstances.launches

    def links(self, *layers: Layer) -> list[Ceiling]:
        """Bandwidths between nodes of tests of some layers, the fastest first."""
        between = [each for each in self.roofline.of_kind("network") if each.nodes > 1]
        return [each for each in between if _layer(each) in layers]

    def latencies(self, *layers: Layer, nodes: bool = True) -> list[Estimate]:
        """Half round trips between nodes (else within one) of some layers, the quickest first."""
        found = [each for each in self.roofline.latencies if (each.nodes > 1) == nodes]
        return sorted((each for each in found if _layer(each) in layers), key=lambda each: each.value)

    def facts(self, *keys: str) -> Iterator[tuple[str, Any]]:
        """(host, what its ``environment.json`` has below `keys`), where it has something."""
        for environment in self.environments:
            found: Any = environment
            for key in keys:
                found = found.get(key) if isinstance(found, Mapping) else None
            if found is not None:
                host = environment.get("host") or {}
                yield str(host.get("name", "this machine")), found


def _layer(estimate: Estimate) -> Layer:
    return catalogue.find(estimate.benchmark, estimate.case).layer


#: All rules whose module is loaded (`report.advice.all_rules` loads every one).
RULES: Final[dict[str, Rule]] = {}


def rule(name: str, title: str, source: str) -> Callable[[Judge], Judge]:
    """Adds the function below it to the rules."""

    def add(judge: Judge) -> Judge:
        RULES[name] = Rule(name, title, source, judge)
        return judge

    return add
