"""``npc score RUN``: how much of its nominal limits a machine reaches."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from npc.parameters import RunParameter

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="How much of its nominal limits the machine reaches.")
@click.argument("run", type=RunParameter())
@click.option(
    "--platform", default="", help="Platform whose nominal limits hold (default: the records' own)."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object (docs/advise.md).")
def score(run: Path, platform: str, as_json: bool) -> None:
    """The share of its nominal limits that the machine of RUN reaches: compute, memory, network, and all.

    Exit codes: 0, 1 no part has both a measurement and a nominal limit, 2 usage.
    """
    import csv
    import json

    from npc.columns import sentences
    from npc.report.advice import gather
    from npc.report.score import format_scores, to_document
    from npc.report.score import score as score_of

    try:
        found = gather([run], platform)
    except (OSError, ValueError, csv.Error) as error:
        raise click.UsageError(str(error)) from None
    scores = score_of(found)
    said = json.dumps(to_document(found, scores), indent=1) if as_json else format_scores(found, scores)
    click.echo(said if as_json else sentences(said))
    if scores.whole is None:
        sys.exit(1)
