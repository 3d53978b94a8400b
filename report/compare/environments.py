"""What the environments of two sides differ in: the same facts as on the page of ``npc report``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from report.compare.sides import Side


class Fact(NamedTuple):
    """What differs, and what it is in the runs of A and of B."""

    what: str
    a: tuple[str, ...]
    b: tuple[str, ...]


def environments_differ(a: Side, b: Side) -> tuple[Fact, ...] | None:
    """The facts of ``environment.json`` that are known of both sides and differ; None if a side has none."""
    if set(a.records) == set(b.records):
        return ()  # parts of the same runs
    of_a, of_b = _facts(a), _facts(b)
    if not of_a or not of_b:
        return None
    return tuple(
        Fact(what, tuple(found), tuple(of_b[what]))
        for what, found in of_a.items()
        if what in of_b and set(found) != set(of_b[what])
    )


def _facts(side: Side) -> Mapping[str, list[str]]:
    """Fact → what it is in the side's runs, each once."""
    from npc.machine.facts import of_machine
    from report.runs import Run

    found: dict[str, list[str]] = {}
    for run, records in side.records.items():
        if run in side.folders:
            seen = Run(0, run, side.folders[run], list(records), None).environment
            for what, text in of_machine(seen).items():
                if text not in found.setdefault(what, []):
                    found[what].append(text)
    return found
