"""What ``npc check`` says: which records must not be believed, why, and who says so."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from npc.columns import sentences
from npc.errors import InvalidUsage
from npc.machine.platform import InvalidPlatform, find_platform
from npc.records.record import InvalidRecord, Record, to_row
from npc.records.run import read_run
from npc.records.series import test_name
from npc.records.units import plural
from npc.validity import INVALID, Violation, find_lies, grouped
from npc.validity.rule import Rule
from npc.validity.run import circumstances_of, platform_of

SCHEMA: Final = 1
#: For what a parser found in the text alone; its documentation tells which words of the text say so.
PRINTED: Final = Rule(
    "printed", "invalid", "the tool's own output says so", "parsers/NAME.py", lambda _, __: iter(())
)


def examine(path: Path, platform_name: str) -> tuple[list[Record], list[Violation]]:
    """The records of a file, and what the rules and the parsers say about them.

    Raises InvalidUsage where there is nothing to read, or no such platform.
    """
    try:
        records = read_run(path)
        if platform_name and find_platform(platform_name) is None:
            raise InvalidUsage(f"--platform {platform_name}: there is no such platform.toml")
        limits = platform_of(records, platform_name)
    except (FileNotFoundError, InvalidPlatform, InvalidRecord) as error:
        raise InvalidUsage(str(error)) from None
    folder = path if path.is_dir() else path.parent
    findings = find_lies(records, circumstances_of(folder, records, limits))
    caught = {finding.place for finding in findings if finding.rule.level == "invalid"}
    findings += [
        Violation(
            dataclasses.replace(PRINTED, source=f"parsers/{record.benchmark}.py"),
            place,
            record.status.removeprefix(INVALID),
        )
        for place, record in enumerate(records)
        if record.status.startswith(INVALID) and place not in caught
    ]
    return records, sorted(findings, key=lambda finding: (finding.rule.level, finding.place))


def to_document(records: Sequence[Record], findings: Sequence[Violation]) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {
        "schema": SCHEMA,
        "records": len(records),
        "findings": [
            {
                "rule": finding.rule.name,
                "level": finding.rule.level,
                "reason": finding.reason,
                "source": finding.rule.source,
                "record": to_row(records[finding.place]),
            }
            for finding in findings
        ],
    }


def lines_of(path: Path, records: Sequence[Record], findings: Sequence[Violation]) -> Iterator[str]:
    """What is printed for people: the findings, then what failed.

    Findings that differ in their numbers only are printed once, in the words of the first; so is the source
    of each rule.
    """
    explained = set()
    for alike in grouped(records, findings):
        first = alike[0]
        benchmark = records[first.place].benchmark
        cases = list(dict.fromkeys(records[finding.place].case for finding in alike))
        tests = ", ".join(cases[:4]) + (", …" if len(cases) > 4 else "")
        many = f"{len(alike)} × " if len(alike) > 1 else ""
        yield sentences(f"{first.rule.level}: {many}{benchmark} {tests}: {first.reason}")
        source = "" if first.rule.name in explained else f" ({first.rule.title}); {first.rule.source}"
        explained.add(first.rule.name)
        yield sentences(f"    rule {first.rule.name}{source}")
        yield f"    {records[first.place].raw}"
    invalid = {finding.place for finding in findings if finding.rule.level == "invalid"}
    lost = Counter(
        (test_name(record.benchmark, record.case), record.status)
        for place, record in enumerate(records)
        if not record.ok and place not in invalid
    )
    for (test, status), number in lost.items():
        many = f"{number} × " if number > 1 else ""
        yield sentences(f"not usable: {many}{test}: {status}")
    usable = sum(record.ok and place not in invalid for place, record in enumerate(records))
    failed = f", {lost.total()} failed or unavailable" if lost else ""
    judged = f"{usable} of them usable, {len(invalid)} invalid{failed}"
    yield f"{path}: {plural(len(records), 'record')}, {judged}"
