"""What a rule is: a pure function of records and of the circumstances that they were measured in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from npc.document import below, entries
from npc.machine.platform import Platform
from npc.records.launch import Launch
from npc.records.record import Record

Level = Literal["invalid", "note"]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known beside the records. Where something is missing, the rules that need it do not apply."""

    #: Nominal limits of the platform; None if there are none.
    platform: Platform | None = None
    #: By `Record.raw`, the ``environment.json`` of the node that wrote this raw file.
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: By `Record.raw`, the launch that wrote this raw file.
    launches: Mapping[str, Launch] = field(default_factory=dict)

    def environment(self, record: Record, *keys: str) -> Any:
        """The entry of the record's ``environment.json`` below `keys`; None where there is none."""
        return below(self.environments.get(record.raw), *keys)

    def entries(self, record: Record, key: str) -> list[Mapping[str, Any]]:
        """The entries of a list in the record's ``environment.json``."""
        return entries(self.environments.get(record.raw), key)


#: Yields the place of a record in the sequence and the reason why it is doubtful, in one line.
Judge = Callable[[Sequence[Record], Circumstances], Iterator[tuple[int, str]]]
#: The same of one record by itself: yields the reasons.
RecordJudge = Callable[[Record, Circumstances], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, with what `npc check` prints of it."""

    #: Short name; it never changes, because ``--json`` has it.
    name: str
    #: ``invalid``: what it catches is not to be believed; ``note``: the number is true.
    level: Level
    #: What it catches, in a few words.
    title: str
    #: The paper, manual or equation that it follows from.
    source: str
    #: The function that looks for records that the rule catches.
    judge: Judge


#: All rules whose module is loaded (`npc.validity.all_rules` loads every one).
RULES: Final[dict[str, Rule]] = {}


def rule(
    name: str, title: str, source: str, level: Level = "invalid"
) -> Callable[[RecordJudge], RecordJudge]:
    """Adds the function below it, which judges each record by itself, to the rules."""

    def add(judge: RecordJudge) -> RecordJudge:
        def judge_all(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
            for place, record in enumerate(records):
                for reason in judge(record, circumstances):
                    yield place, reason

        RULES[name] = Rule(name, level, title, source, judge_all)
        return judge

    return add


def rule_of_run(name: str, title: str, source: str, level: Level = "invalid") -> Callable[[Judge], Judge]:
    """Adds the function below it, which judges all records of a run together, to the rules."""

    def add(judge: Judge) -> Judge:
        RULES[name] = Rule(name, level, title, source, judge)
        return judge

    return add
