"""``npc doctor``: what is installed, what is missing and how to get it here, what preflight checks find; and
what this machine is, as JSON, which every run keeps."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from npc.commands.parameters import PathParameter


@click.command(short_help="What is installed, what is missing, how to get it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/commands.md).")
@click.option("--missing", is_flag=True, help="Only name missing tools and how to get them here.")
@click.option(
    "--environment", is_flag=True,
    help="Describe machine and software as JSON instead, as every run keeps it in environment.json.",
)  # fmt: skip
@click.option(
    "--output", type=PathParameter(dir_okay=False),
    help="With --environment: write to this file, not to stdout.",
)  # fmt: skip
@click.option(
    "--watch", type=click.FloatRange(0, 60),
    help="With --environment: seconds to watch for other processes that compute; 0 does not (default: "
    "NPC_WATCH, else 0.5).",
)  # fmt: skip
@click.option(
    "--in-job", is_flag=True,
    help="With --environment: leave out JUBE and the tools of npc observe: no benchmark starts them.",
)  # fmt: skip
def doctor(
    as_json: bool, missing: bool, environment: bool, output: Path | None, watch: float | None, in_job: bool
) -> None:
    """Show every tool with its version, what is missing and how to get it here, what preflight checks find.

    Exit code 1 if the main job (npc characterise) cannot run, else 0; with --environment 1 if the file cannot
    be written.
    """
    if environment:
        if missing:
            raise click.UsageError("--missing and --environment exclude each other")
        _describe(output, watch, in_job)
        return
    if output is not None or watch is not None or in_job:
        raise click.UsageError("--output, --watch and --in-job go with --environment")
    import json

    from npc.machine import diagnosis
    from npc.machine.tools import SoftwareSource

    diagnosed = diagnosis.diagnose(missing_only=missing)
    site = SoftwareSource.here([status.tool for status in diagnosed.tools if status.path is None])
    if as_json:
        click.echo(json.dumps(diagnosis.as_json(diagnosed, site), indent=2))
    else:
        for line in diagnosis.lines_of(diagnosed, site, missing_only=missing):
            click.echo(line)
    if diagnosed.problems:
        sys.exit(1)


def _describe(output: Path | None, watch: float | None, in_job: bool) -> None:
    """Write ``environment.json`` to the file, or to stdout."""
    import json

    from npc.files import cannot_write, write_whole
    from npc.machine.environment import collect_environment
    from npc.machine.load import watch_s

    seconds = watch_s() if watch is None else watch
    text = json.dumps(collect_environment(watch_s=seconds, in_job=in_job), indent=2) + "\n"
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        write_whole(output, text)
    except OSError as error:
        raise click.ClickException(cannot_write(output, error)) from None
