"""``npc check``: which records must not be believed, why, and who says so."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from npc.commands.parameters import RunParameter


@click.command(short_help="Which records not to believe, and why.")
@click.argument("records", type=RunParameter(), required=False)
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
    import json

    from npc.records.run import records_file
    from npc.validity import all_rules
    from npc.validity.check import SCHEMA, examine, lines_of, to_document

    if list_rules:
        if as_json:
            rules = [
                {"name": rule.name, "level": rule.level, "title": rule.title, "source": rule.source}
                for rule in all_rules()
            ]
            click.echo(json.dumps({"schema": SCHEMA, "rules": rules}, indent=1))
            return
        for rule in all_rules():
            click.echo(f"{rule.level:7}  {rule.name:15} {rule.title}\n{'':9}{rule.source}")
        return
    if records is None:
        raise click.UsageError("name a run's folder or a records.csv")
    file = records_file(records)
    judged, findings = examine(file, platform)
    if as_json:
        click.echo(json.dumps(to_document(judged, findings), indent=1))
    else:
        for line in lines_of(file, judged, findings):
            click.echo(line)
    if any(finding.rule.level == "invalid" for finding in findings):
        sys.exit(1)
