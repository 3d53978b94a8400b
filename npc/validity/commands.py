"""``npc check``: which records must not be believed, why, and who says so."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from npc.record import Record, to_row
from npc.validity import INVALID, Finding, Rule, all_rules, find_lies

SCHEMA: Final = 1
#: What a parser found out alone; which words of the text say so, its documentation tells.
PRINTED: Final = Rule(
    "printed", "invalid", "the tool's own output says so", "parsers/NAME.py", lambda _, __: iter(())
)


@click.command()
@click.argument("records", type=click.Path(path_type=Path, exists=True), required=False)
@click.option(
    "--platform", default="", help="Platform whose nominal limits hold (default: the records' own)."
)
@click.option("--json", "as_json", is_flag=True, help="One object with every finding, record by record.")
@click.option("--rules", "list_rules", is_flag=True, help="List the rules with their sources.")
def check(records: Path | None, platform: str, as_json: bool, list_rules: bool) -> None:
    """Which of RECORDS must not be believed, and why: a run's folder or a records.csv.

    Prints every finding with its rule, reason and source; notes are about numbers that may be used. Exit
    codes: 0 nothing is invalid, 1 something is, 2 usage.
    """
    if list_rules:
        for rule in all_rules():
            click.echo(f"{rule.level:7}  {rule.name:15} {rule.title}\n{'':9}{rule.source}")
        return
    if records is None:
        raise click.UsageError("name a run's folder or a records.csv")
    found, findings = _findings(records, platform)
    if as_json:
        click.echo(json.dumps(_document(found, findings), indent=1))
    else:
        _print(found, findings)
    if any(finding.rule.level == "invalid" for finding in findings):
        sys.exit(1)


def _findings(path: Path, platform_name: str) -> tuple[list[Record], list[Finding]]:
    """The records of a run or file, and what the rules and the parsers say about them."""
    from npc.platform import InvalidPlatform, find_platform
    from npc.run import read_run, records_file
    from npc.validity.run import circumstances_of, platform_of

    path = records_file(path)
    try:
        records = read_run(path)
        if platform_name and find_platform(platform_name) is None:
            raise click.UsageError(f"--platform {platform_name}: there is no such platform.toml")
        limits = platform_of(records, platform_name)
    except (FileNotFoundError, InvalidPlatform) as error:
        raise click.UsageError(str(error)) from None
    folder = path if path.is_dir() else path.parent
    findings = find_lies(records, circumstances_of(folder, records, limits))
    caught = {finding.place for finding in findings if finding.rule.level == "invalid"}
    findings += [
        Finding(
            dataclasses.replace(PRINTED, source=f"parsers/{record.benchmark}.py"),
            place,
            record.status.removeprefix(INVALID),
        )
        for place, record in enumerate(records)
        if record.status.startswith(INVALID) and place not in caught
    ]
    return records, sorted(findings, key=lambda finding: (finding.rule.level, finding.place))


def _document(records: Sequence[Record], findings: Sequence[Finding]) -> dict[str, Any]:
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


def _print(records: Sequence[Record], findings: Sequence[Finding]) -> None:
    """Findings that differ in their numbers only are one, under the words of the first."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        record = records[finding.place]
        words = re.sub(r"[0-9.]+ ?[kMGTPnµm]?", "N", finding.reason)
        groups.setdefault((finding.rule.name, record.benchmark, words), []).append(finding)
    for (name, benchmark, _), alike in groups.items():
        first = alike[0]
        cases = list(dict.fromkeys(records[finding.place].case for finding in alike))
        tests = ", ".join(cases[:4]) + (", …" if len(cases) > 4 else "")
        many = f"{len(alike)} × " if len(alike) > 1 else ""
        click.echo(f"{first.rule.level}: {many}{benchmark} {tests}: {first.reason}")
        click.echo(f"    rule {name} ({first.rule.title}); {first.rule.source}")
        click.echo(f"    {records[first.place].raw}")
    invalid = {finding.place for finding in findings if finding.rule.level == "invalid"}
    usable = sum(record.ok and place not in invalid for place, record in enumerate(records))
    click.echo(f"{len(records)} records, {usable} of them usable, {len(invalid)} invalid")
