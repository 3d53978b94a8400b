"""``npc environment``: everything about this machine that a measurement may depend on, as JSON."""

from __future__ import annotations

from pathlib import Path

import click

from npc.parameters import PathParameter


@click.command(short_help="Describe this machine as JSON (environment.json).")
@click.option("--output", type=PathParameter(dir_okay=False), help="Write to this file, not to stdout.")
@click.option(
    "--watch",
    type=click.FloatRange(0, 60),
    help="Seconds to watch for other processes that compute; 0 does not (default: NPC_WATCH, else 0.5).",
)
@click.option(
    "--in-job", is_flag=True, help="Leave out JUBE and the tools of npc observe: no benchmark starts them."
)
def environment(output: Path | None, watch: float | None, in_job: bool) -> None:
    """Describe this machine and its software as JSON, as every run keeps it in environment.json."""
    import json

    from npc.files import cannot_write, write_whole
    from npc.machine.environment import collect_environment
    from npc.machine.load import watch_s

    seconds = watch_s() if watch is None else watch
    described = collect_environment(watch_s=seconds, in_job=in_job)
    text = json.dumps(described, indent=2) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        try:
            write_whole(output, text)
        except OSError as error:
            raise click.ClickException(cannot_write(output, error)) from None
