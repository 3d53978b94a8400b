"""``npc doctor``: what is installed, what is missing and how to get it here, what preflight checks find."""

from __future__ import annotations

import sys

import click


@click.command(short_help="What is installed, what is missing, how to get it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/commands.md).")
@click.option("--missing", is_flag=True, help="Only name missing tools and how to get them here.")
def doctor(as_json: bool, missing: bool) -> None:
    """Show every tool with its version, what is missing and how to get it here, what preflight checks find.

    Exit code 1 if the main job (npc characterise) cannot run, else 0.
    """
    import json

    from npc.machine import diagnosis
    from npc.machine.tools import Site

    found = diagnosis.diagnose(missing_only=missing)
    site = Site.here([each.tool for each in found.tools if each.path is None])
    if as_json:
        click.echo(json.dumps(diagnosis.as_json(found, site), indent=2))
    else:
        diagnosis.show(found, site, missing_only=missing)
    if found.problems:
        sys.exit(1)
