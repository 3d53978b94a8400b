"""``npc advise RUN…``: bottlenecks and hints in plain words, each with its evidence."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from npc.document import plain
from npc.parameters import PathParameter

if TYPE_CHECKING:
    from pathlib import Path

    from report.advice import Advice
    from report.runs import Run

SCHEMA: Final = 1


@click.command(short_help="What holds this machine back, and what a change would bring.")
@click.argument("runs", type=PathParameter(exists=True), nargs=-1, metavar="RUN...")
@click.option(
    "--platform",
    default="",
    help="Platform whose nominal limits hold (default: the records' own); it chooses among several.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object (docs/advise.md).")
@click.option("--rules", "list_rules", is_flag=True, help="List the rules with their sources.")
def advise(runs: tuple[Path, ...], platform: str, as_json: bool, list_rules: bool) -> None:
    """What holds the machine of RUN... back: run folders, folders of runs (the newest), or records.csv files.

    Several are judged as one: applications that npc observe saw meet the ceilings of the other runs, and
    pairs of nodes that npb measured are named. Every hint has its evidence in the records or in
    environment.json, and says what it would bring at most.

    Exit codes: 0, also where nothing is found; 1 no record is usable, so nothing could be judged; 2 usage.
    """
    import csv
    import json

    from report.advice import advise as judge
    from report.advice import all_rules, gather

    if list_rules:
        for rule in all_rules():
            click.echo(f"{rule.name:15} {rule.title}\n{'':15} {rule.source}")
        return
    if not runs:
        raise click.UsageError("name a run's folder or a records.csv")
    try:
        run = gather(runs, platform)
    except (OSError, ValueError, csv.Error) as error:
        raise click.UsageError(str(error)) from None
    found = judge(run)
    click.echo(json.dumps(_document(run, found), indent=1) if as_json else _text(run, found))
    if not run.usable:
        sys.exit(1)


def _document(run: Run, advice: Advice) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        **run.document,
        "hints": [
            {"rule": rule.name, "title": rule.title, "source": rule.source, **plain(hint)}
            for rule, hint in advice.hints
        ],
        "silent": list(advice.silent),
        "lacking": dict(advice.lacking),
    }


def _text(run: Run, advice: Advice) -> str:
    from report.advice import conclusion
    from report.runs import shown

    parts = [run.words]
    for number, (rule, hint) in enumerate(advice.hints, 1):
        lines = [
            f"{number}. {rule.title} (rule {rule.name})",
            f"   seen:   {hint.seen}",
            f"   do:     {hint.do}",
            f"   brings: {hint.brings}",
            f"   source: {rule.source}",
        ]
        if hint.raw:
            files = ", ".join(shown(run.folder / raw) for raw in hint.raw[:3])
            lines.append(f"   raw:    {files}{', …' if len(hint.raw) > 3 else ''}")
        parts.append("\n".join(lines))
    words, _ = conclusion(run, advice)
    parts += [words] if words else []
    if advice.silent:
        parts.append(f"Looked and found nothing: {', '.join(advice.silent)}.")
    if advice.lacking:
        lacking = "\n".join(f"  {name}: {what}" for name, what in advice.lacking.items())
        parts.append(f"Not judged, for lack of evidence:\n{lacking}")
    return "\n\n".join(parts)
