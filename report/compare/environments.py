"""What the environments of two sides differ in: the same facts as on the page of ``npc report``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from npc.machine.facts import of_machine, tuning
from npc.report.compare.sides import Side
from npc.report.runs import Run

_UNSET: Final = "not set"


class EnvironmentDifference(NamedTuple):
    """A fact that is not the same in the environments of two sides."""

    #: Which fact it is, in words.
    what: str
    #: What it is in the runs of A, each text once.
    a: tuple[str, ...]
    #: What it is in the runs of B, each text once.
    b: tuple[str, ...]


def environments_differ(a: Side, b: Side) -> tuple[EnvironmentDifference, ...] | None:
    """The facts of ``environment.json`` that are known of both sides and differ; None if a side has none."""
    if set(a.records) == set(b.records):
        return ()  # parts of the same runs
    environments_a, environments_b = _environments(a), _environments(b)
    if not environments_a or not environments_b:
        return None
    variables = sorted(
        {name for environment in (*environments_a, *environments_b) for name in tuning(environment)}
    )
    of_a, of_b = _facts(environments_a, variables), _facts(environments_b, variables)
    return tuple(
        EnvironmentDifference(what, tuple(texts), tuple(of_b[what]))
        for what, texts in of_a.items()
        if what in of_b and set(texts) != set(of_b[what])
    )


def _environments(side: Side) -> list[Mapping[str, Any]]:
    """What ``environment.json`` says of each of the side's runs that have one."""
    runs = (
        Run(0, run, side.folders[run], list(records), None)
        for run, records in side.records.items()
        if run in side.folders
    )
    return [run.environment for run in runs if run.environment]


def _facts(environments: Sequence[Mapping[str, Any]], variables: Sequence[str]) -> Mapping[str, list[str]]:
    """Fact → what it is in the runs, each once. variables: of all runs, which may not be set in these."""
    facts: dict[str, list[str]] = {}
    for environment in environments:
        unset = dict.fromkeys(variables, _UNSET)
        for what, text in {**of_machine(environment), **unset, **tuning(environment)}.items():
            if text not in facts.setdefault(what, []):
                facts[what].append(text)
    return facts
