"""``npc records collect RUN``: the records of a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from npc.commands.parameters import PathParameter, RunParameter
from npc.files import cannot_write

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="The raw outputs of a JUBE run → records.csv.")
@click.argument("run", type=RunParameter())
@click.option("--platform", default="", help="Name of the platform (default: as the platform file says).")
@click.option(
    "--output", type=PathParameter(dir_okay=False), help="File to write (default: RUN/records.csv)."
)
def collect(run: Path, platform: str, output: Path | None) -> None:
    """Records of a JUBE run: RUN/records.csv.

    RUN is a run's folder (runs/000003), the folder above it (the newest run is meant), or a folder of
    launches. Of other people's benchmarks, what supported tools printed is read. Exit codes: 0, 1 no usable
    record at all (the file is written), 2 usage.
    """
    from npc.jobs.workpackages import NoRun, find_run, read_workpackages
    from npc.machine.platform import InvalidPlatform
    from npc.parsers.run.collect import collect_run, save_environment
    from npc.parsers.run.foreign import unread
    from npc.records.record import save_csv
    from npc.records.run import RECORDS, WORKPACKAGES
    from npc.records.units import plural
    from npc.validity import INVALID, unusable
    from npc.validity.disturbance import in_words

    try:
        folder = find_run(run)
        records = collect_run(folder, platform)
    except (NoRun, InvalidPlatform) as error:
        raise click.UsageError(str(error)) from None
    target = output or folder / RECORDS
    try:
        save_csv(records, target)
        if output is None:  # who writes elsewhere wants the run left as it is
            save_environment(folder)
    except OSError as error:
        raise click.ClickException(f"{cannot_write(target, error)}; the raw output is untouched") from None
    usable = sum(record.ok for record in records)
    click.echo(f"{plural(len(records), 'record')}, {usable} of them usable: {target}")
    if disturbed := in_words(records):
        click.echo(f"  disturbed: {disturbed}; by whom: npc check {folder}", err=True)
    for alike in unusable(records):
        click.echo(f"  {len(alike)} × {alike[0].benchmark}: {alike[0].status}", err=True)
    if any(record.status.startswith(INVALID) for record in records):
        click.echo(f"  which rule says so: npc check {folder}", err=True)
    others = unread(read_workpackages(folder), records) if (folder / WORKPACKAGES).exists() else {}
    if others:
        steps = ", ".join(f"{number} × {step}" for step, number in others.items())
        result = f"jube result {folder.resolve().parent} --id {folder.resolve().name}"
        click.echo(f"  not measured by NPC: {steps}; what its authors read: {result}", err=True)
    if not usable and (records or not others):
        sys.exit(1)
