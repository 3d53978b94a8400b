"""Lie detectors: reasons why a number that was measured must not be believed, each with its source.

A rule is a pure function of records and of the circumstances they were measured in; a new one is a function
with the decorator `rule` in a module of ``npc/validity/rules/``. What the tool's text alone shows (a failed
validation, too few clock ticks) the parsers judge already. A record that a rule of level ``invalid`` catches
keeps its value and gets its status, so that nothing uses it unasked; a ``note`` changes no record.

Sources of the rules are named with them; `npc check --rules` lists all.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from npc.machine.platform import Platform
from npc.records.launch import Launch
from npc.records.record import OK, Record, replace

Level = Literal["invalid", "note"]
INVALID: Final = "invalid: "


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known beside the records; whatever is missing, the rules that need it do not apply.

    platform: nominal limits. environments: the ``environment.json`` of the node that made a raw file.
    launches: the launch that made it. Both by `Record.raw`.
    """

    platform: Platform | None = None
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    launches: Mapping[str, Launch] = field(default_factory=dict)

    def environment(self, record: Record, *keys: str) -> Any:
        """The entry of the record's ``environment.json`` below `keys`; None where there is none."""
        found: Any = self.environments.get(record.raw)
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found


#: Yields the place of a record in the sequence and the reason why it is doubtful, in one line.
Judge = Callable[[Sequence[Record], Circumstances], Iterator[tuple[int, str]]]


@dataclass(frozen=True, slots=True)
class Rule:
    """name: stable, for ``--json``. title: what it catches. source: paper, manual, equation."""

    name: str
    level: Level
    title: str
    source: str
    judge: Judge


class Finding(NamedTuple):
    """What `rule` says about the record at `place` of the records that were judged."""

    rule: Rule
    place: int
    reason: str


_RULES: Final[dict[str, Rule]] = {}


def rule(name: str, title: str, source: str, level: Level = "invalid") -> Callable[[Judge], Judge]:
    """Adds the function below it to the rules."""

    def add(judge: Judge) -> Judge:
        _RULES[name] = Rule(name, level, title, source, judge)
        return judge

    return add


def all_rules() -> list[Rule]:
    """All rules, those that invalidate before those that note, by name."""
    package = importlib.import_module("npc.validity.rules")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return sorted(_RULES.values(), key=lambda each: (each.level, each.name))


def find_lies(records: Sequence[Record], circumstances: Circumstances) -> list[Finding]:
    """All that the rules say about the records that have a value and did not fail, in their order.

    Records that are invalid already are judged again, so that collected ones show why. Notes are about what
    is left when the invalid ones are gone.
    """
    doubtful = {
        place
        for place, record in enumerate(records)
        if record.value is not None and (record.ok or record.status.startswith(INVALID))
    }
    usable = {place for place in doubtful if records[place].ok}
    found: list[Finding] = []
    for each in all_rules():
        places = sorted(doubtful if each.level == "invalid" else usable)
        chosen = [records[place] for place in places]
        of_rule = [
            Finding(each, places[place], reason) for place, reason in each.judge(chosen, circumstances)
        ]
        found += of_rule
        if each.level == "invalid":
            usable -= {finding.place for finding in of_rule}
    return sorted(found, key=lambda finding: finding.place)


def judged(records: Sequence[Record], findings: Sequence[Finding]) -> list[Record]:
    """The records, with the status of the first finding that invalidates; statuses they have are kept."""
    marked = list(records)
    for finding in findings:
        if finding.rule.level == "invalid" and marked[finding.place].status == OK:
            marked[finding.place] = replace(marked[finding.place], status=INVALID + finding.reason)
    return marked
