"""Lie detectors: reasons why a number that was measured must not be believed, each with its source.

A rule is a pure function of a record, or of a run's records, and of the circumstances they were measured in;
a new one is a function with the decorator `rule` or `rule_of_run` in a module of ``npc/validity/rules/``.
What the tool's text alone shows (a failed validation, too few clock ticks) the parsers judge already. A
record that a rule of level ``invalid`` catches keeps its value and gets its status, so that nothing uses it
unasked; a ``note`` changes no record.

Sources of the rules are named with them; `npc check --rules` lists all.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from npc.files import InvalidFile
from npc.records.record import OK, Record, replace
from npc.validity import rules
from npc.validity.rule import RULES, Circumstances, Rule

INVALID: Final = "invalid: "


class Violation(NamedTuple):
    """What a rule says about one record."""

    #: The rule that says so.
    rule: Rule
    #: The record's place among the records that were judged, from 0.
    place: int
    #: Why its number is doubtful, in one line.
    reason: str


def all_rules() -> list[Rule]:
    """All rules, those that invalidate before those that note, by name."""
    for module in pkgutil.iter_modules(rules.__path__):
        importlib.import_module(f"npc.validity.rules.{module.name}")
    return sorted(RULES.values(), key=lambda rule: (rule.level, rule.name))


def find_lies(records: Sequence[Record], circumstances: Circumstances) -> list[Violation]:
    """All that the rules say about records that have a value and did not fail, in the order of the records.

    Records that are invalid already are judged again, so that the records of a collected run show why. Notes
    are only about records that are not invalid. Raises `npc.files.InvalidFile` for circumstances that npc has
    not written.
    """
    doubtful = {
        place
        for place, record in enumerate(records)
        if record.value is not None and (record.ok or record.status.startswith(INVALID))
    }
    usable = {place for place in doubtful if records[place].ok}
    violations: list[Violation] = []
    for rule in all_rules():
        places = sorted(doubtful if rule.level == "invalid" else usable)
        chosen = [records[place] for place in places]
        try:
            of_rule = [
                Violation(rule, places[place], reason) for place, reason in rule.judge(chosen, circumstances)
            ]
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            text = f"the rule {rule.name} cannot read an environment.json or launches.jsonl of these records"
            raise InvalidFile(f"{text}: NPC does not write them like this: {error!r}") from error
        violations += of_rule
        if rule.level == "invalid":
            usable -= {finding.place for finding in of_rule}
    return sorted(violations, key=lambda finding: finding.place)


def grouped(records: Sequence[Record], findings: Sequence[Violation]) -> list[list[Violation]]:
    """Groups of findings of one rule about one benchmark whose reasons differ in their numbers only."""
    groups: dict[tuple[str, ...], list[Violation]] = {}
    for finding in findings:
        key = finding.rule.name, records[finding.place].benchmark, _without_numbers(finding.reason)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def unusable(records: Iterable[Record]) -> list[list[Record]]:
    """Groups of records of one benchmark that are not ``ok``, and whose reasons differ in their numbers
    only."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if not record.ok:
            groups.setdefault((record.benchmark, _without_numbers(record.status)), []).append(record)
    return list(groups.values())


def _without_numbers(reason: str) -> str:
    return re.sub(r"[0-9.]+ ?[kMGTPnµm]?", "N", reason)


def judged(records: Sequence[Record], findings: Sequence[Violation]) -> list[Record]:
    """The records. Where one is ``ok`` and a finding invalidates it, the first such finding becomes its
    status."""
    marked = list(records)
    for finding in findings:
        if finding.rule.level == "invalid" and marked[finding.place].status == OK:
            marked[finding.place] = replace(marked[finding.place], status=INVALID + finding.reason)
    return marked
