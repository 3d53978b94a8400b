"""Advice: what holds a machine or an application back, on what evidence, and what a change brings at most.

A rule is a function of the `Evidence` of a run; a new one is one function with the decorator `rule` in a
module of ``report/advice/rules/``. It gives back the hints it has, an empty list where it looked and found
nothing, or a sentence that says what evidence it lacks: nothing is ever said without evidence.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from npc.machine.platform import InvalidPlatform, Platform
from npc.records.launch import Launch
from npc.records.record import Record
from npc.validity import Circumstances, Finding, find_lies
from report.runs import Run, joined, read_runs
from roofline.analyse import analyse
from roofline.ceilings import Ceiling, Estimate, Roofline


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

    def links(self, *kinds: str) -> list[Ceiling]:
        """Bandwidths between nodes of ``tcp``, ``rdma`` or ``mpi`` tests, the fastest first."""
        return [
            each for each in self.roofline.of_kind("network") if each.nodes > 1 and kind_of(each) in kinds
        ]

    def latencies(self, *kinds: str, nodes: bool = True) -> list[Estimate]:
        """Half round trips between nodes (else within one) of some kinds, the quickest first."""
        found = [each for each in self.roofline.latencies if (each.nodes > 1) == nodes]
        return sorted((each for each in found if kind_of(each) in kinds), key=lambda each: each.value)

    def facts(self, *keys: str) -> Iterator[tuple[str, Any]]:
        """(host, what its ``environment.json`` has below `keys`), where it has something."""
        for environment in self.environments:
            found: Any = environment
            for key in keys:
                found = found.get(key) if isinstance(found, Mapping) else None
            if found is not None:
                host = environment.get("host") or {}
                yield str(host.get("name", "this machine")), found


def kind_of(estimate: Estimate) -> str:
    """``mpi``, ``rdma``, ``tcp`` or ``other``: what carries the messages of a test."""
    case = estimate.case.lower()
    if estimate.benchmark in ("osu", "imb") or (
        estimate.benchmark == "netpipe" and "tcp" not in json.dumps(dict(estimate.params)).lower()
    ):
        return "mpi"
    if estimate.benchmark == "perftest" or case.startswith(("rc_", "uc_", "ud_", "ib_")):
        return "rdma"
    return "tcp" if case.startswith("tcp") else "other"


def gather(paths: Sequence[Path], platform: str = "") -> Run:
    """The runs that `paths` mean as one, judged by the nominal limits of `platform` (default: the records'
    own); of records of several platforms those of `platform`.

    Raises FileNotFoundError, OSError, `npc.InvalidRecord`, `npc.machine.platform.InvalidPlatform`, and
    ValueError for several platforms none of which is chosen.
    """
    runs = read_runs(paths, platform)
    names = sorted({run.platform_name for run in runs} - {""})
    if len(names) > 1:
        if platform not in names:
            raise ValueError(f"records of several platforms ({', '.join(names)}): choose one by --platform")
        runs = [run for run in runs if run.platform_name == platform]
    if problem := next(filter(None, (run.problem for run in runs)), ""):
        raise InvalidPlatform(problem)
    return runs[0] if len(runs) == 1 else joined(runs[0], runs[1:])


def evidence_of(run: Run) -> Evidence:
    """The evidence of a run that is read already, and of those that are joined to it."""
    environments: dict[str, Mapping[str, Any]] = {}
    own = (each.environment for each in (run, *run.guests))
    for each in (*own, *run.circumstances.environments.values()):
        if each:
            environments.setdefault(str((each.get("host") or {}).get("name")), each)
    suspects = [
        {**suspect, "series": entry.get("series", "")}
        for _, entries in run.verdicts()
        for entry in entries
        for suspect in entry["verdict"]["suspects"]
    ]
    return Evidence(run.records, run.circumstances, tuple(environments.values()), tuple(suspects))


_RULES: Final[dict[str, Rule]] = {}


def rule(name: str, title: str, source: str) -> Callable[[Judge], Judge]:
    """Adds the function below it to the rules."""

    def add(judge: Judge) -> Judge:
        _RULES[name] = Rule(name, title, source, judge)
        return judge

    return add


def all_rules() -> list[Rule]:
    """All rules, by name."""
    package = importlib.import_module("report.advice.rules")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return sorted(_RULES.values(), key=lambda each: each.name)


@dataclass(frozen=True, slots=True)
class Advice:
    """hints: (rule, hint), what brings most first. silent: rules that had evidence and found nothing.
    lacking: rule's name → the evidence that it did not have."""

    hints: tuple[tuple[Rule, Hint], ...]
    silent: tuple[str, ...]
    lacking: Mapping[str, str]


def advise(evidence: Evidence) -> Advice:
    """What all rules say."""
    hints: list[tuple[Rule, Hint]] = []
    silent, lacking = [], {}
    for each in all_rules():
        told = each.judge(evidence)
        if isinstance(told, str):
            lacking[each.name] = told
        elif told:
            hints += [(each, hint) for hint in told]
        else:
            silent.append(each.name)
    hints.sort(key=lambda found: -(found[1].gain or 0))
    return Advice(tuple(hints), tuple(silent), lacking)


Tone = Literal["good", "note", "bad"]


def conclusion(run: Run, advice: Advice) -> tuple[str, Tone]:
    """What to say where there are no hints, or where they come from the machine alone; else an empty text."""
    if run.why_unusable:
        return f"Nothing could be judged of {run.label}: {run.why_unusable}.", "bad"
    if advice.hints:
        return "", "note"
    if not advice.silent:
        return f"Nothing could be judged of {run.label}: no rule has the evidence that it needs.", "note"
    return f"Nothing was found that holds {run.label} back.", "good"
