"""``npc records wait RUN``: until every workpackage of a run has ended, however its job ended."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from npc.commands.parameters import Duration, RunParameter

#: Whose root's files are on an NFS that squashes root (exports(5), anonuid).
_SQUASHED: Final = 65534


@click.command(short_help="Wait until every job of a JUBE run has ended.")
@click.argument("run", type=RunParameter())
@click.option("--limit", type=Duration(), help="Give up after this time: 90s, 10m, 2h (default: never).")
@click.option(
    "--pending-limit",
    type=Duration(),
    default="5m",
    show_default=True,
    help="Give up a job that pends longer for a reason that lasts, and cancel it.",
)
@click.option(
    "--least", type=Duration(), default="2s", show_default=True, help="Between two questions to Slurm."
)
@click.option(
    "--most", type=Duration(), default="1m", show_default=True, help="The same, when nothing has changed."
)
@click.option("--json", "as_json_", is_flag=True, help="Print the workpackages as JSON at the end.")
def wait(
    run: Path, limit: float | None, pending_limit: float, least: float, most: float, as_json_: bool
) -> None:  # fmt: skip
    """Wait until every job of a JUBE run has ended, however it ended.

    RUN is a run's folder (runs/000003) or the folder above it (the newest run is meant). Drives `jube
    continue`, asks Slurm how the jobs are, and tells JUBE of those that ended without a word. May be stopped
    and started again at any time; the jobs go on.

    Exit codes: 0 all done (or unavailable here), 1 nothing usable, 2 usage, 5 gave up at the limit, 6 some
    failed, or a step has no workpackage, 130 and 143 stopped.
    """
    import json

    import npc.jobs.wait as waiting
    from npc.jobs.progress import Display, as_json
    from npc.jobs.stop import Stop
    from npc.jobs.workpackages import NoRun, empty_steps, find_run, read_workpackages
    from npc.machine.tools import search_path

    if least > most:
        raise click.UsageError(f"--least {least:g} s is more than --most {most:g} s")
    try:
        folder = find_run(run).resolve()
        if not folder.name.isdecimal():
            raise NoRun(f"{folder}: JUBE knows its runs by number, and this folder's name is none")
        owner = folder.stat().st_uid
        if os.geteuid() == 0 and owner not in (0, _SQUASHED):
            raise NoRun(
                f"{folder} is of user {owner}: JUBE would run its commands as root; wait as that user"
            )
    except NoRun as error:
        raise click.UsageError(str(error)) from None
    patience = waiting.Patience(limit_s=limit, least_s=least, most_s=most, pending_s=pending_limit)
    env = {**os.environ, "PATH": search_path()}
    display = Display()
    with Stop().listening() as stop:
        try:
            ending, rows = waiting.wait_for(folder, patience, env, stop, display)
        except FileNotFoundError as error:
            raise click.ClickException(waiting.missing(error)) from None
        except NoRun as error:
            raise click.UsageError(str(error)) from None
        finally:
            display.close()
    workpackages = read_workpackages(folder, waiting.WRITING_S)
    if ending is waiting.Ending.ALL_ENDED:
        code = waiting.verdict(workpackages)
        for sentence in empty_steps(folder, workpackages):
            click.echo(sentence, err=True)
            code = code or waiting.EXIT_PARTLY
    else:
        code = waiting.EXIT_UNFINISHED if ending is waiting.Ending.GAVE_UP else 128 + (stop.number or 0)
    if as_json_:
        document = {"schema": 1, "run": str(folder), "exit": code, "workpackages": list(map(as_json, rows))}
        click.echo(json.dumps(document, indent=2))
    click.echo(waiting.summary(workpackages, ending, folder), err=True)
    sys.exit(code)
