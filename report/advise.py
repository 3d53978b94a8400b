"""``npc advise RUN``: bottlenecks and hints in plain words, each with its evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from report.advice import Advice

SCHEMA: Final = 1


@click.command(short_help="What holds this machine back, and what a change would bring.")
@click.argument("run", type=click.Path(path_type=Path, exists=True), required=False)
@click.option(
    "--platform", default="", help="Platform whose nominal limits hold (default: the records' own)."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object (docs/advise.md).")
@click.option("--rules", "list_rules", is_flag=True, help="List the rules with their sources.")
def advise(run: Path | None, platform: str, as_json: bool, list_rules: bool) -> None:
    """What holds the machine of RUN back: a run's folder, a folder of runs (the newest), or a records.csv.

    Every hint has its evidence in the records or in environment.json, and says what it would bring at most.
    Exit codes: 0, also where nothing is found; 2 usage.
    """
    from report.advice import advise as judge
    from report.advice import all_rules, gather

    if list_rules:
        for rule in all_rules():
            click.echo(f"{rule.name:15} {rule.title}\n{'':15} {rule.source}")
        return
    if run is None:
        raise click.UsageError("name a run's folder or a records.csv")
    from npc.platform import InvalidPlatform, find_platform
    from npc.run import records_file

    if platform and find_platform(platform) is None:
        raise click.UsageError(f"--platform {platform}: there is no such platform.toml")
    try:
        evidence = gather(records_file(run), platform)
    except (FileNotFoundError, InvalidPlatform) as error:
        raise click.UsageError(str(error)) from None
    found = judge(evidence)
    click.echo(json.dumps(_document(found), indent=1) if as_json else _text(found, len(evidence.records)))


def _document(advice: Advice) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "hints": [
            {
                "rule": rule.name,
                "title": rule.title,
                "seen": hint.seen,
                "do": hint.do,
                "of": hint.of,
                "gain": hint.gain,
                "source": rule.source,
                "raw": list(hint.raw),
            }
            for rule, hint in advice.hints
        ],
        "silent": list(advice.silent),
        "lacking": dict(advice.lacking),
    }


def _text(advice: Advice, records: int) -> str:
    parts = []
    for number, (rule, hint) in enumerate(advice.hints, 1):
        gain = (
            f"at most {hint.gain:.3g} times as fast" if hint.gain else "how much, nobody can tell from this"
        )
        lines = [
            f"{number}. {rule.title} (rule {rule.name})",
            f"   seen:   {hint.seen}",
            f"   do:     {hint.do}",
            f"   brings: {hint.of}: {gain}",
            f"   source: {rule.source}",
        ]
        if hint.raw:
            lines.append(f"   raw:    {', '.join(hint.raw[:3])}{', …' if len(hint.raw) > 3 else ''}")
        parts.append("\n".join(lines))
    if not parts:
        parts.append(f"Nothing found that holds this machine back, in {records} records.")
    if advice.silent:
        parts.append(f"Looked and found nothing: {', '.join(advice.silent)}.")
    if advice.lacking:
        lacking = "\n".join(f"  {name}: {what}" for name, what in advice.lacking.items())
        parts.append(f"Not judged, for lack of evidence:\n{lacking}")
    return "\n\n".join(parts)
