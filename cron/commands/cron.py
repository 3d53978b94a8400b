"""``npc night cron``: when nights come."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from npc.cron.commands import HISTORY, LOCK, folder_of, of_history, of_platform

if TYPE_CHECKING:
    from pathlib import Path


@click.group(short_help="Install, show or remove the line that starts nights.")
def cron() -> None:
    """When nights run: install, show or remove the line for cron, Slurm's scrontab or systemd."""


@cron.command()
@of_platform
@click.option(
    "--at", default="02:30", show_default=True, help="When nights begin; several times: 00:00,12:00."
)
@click.option("--scrontab", "kind", flag_value="scrontab", help="Use Slurm's scrontab, not cron.")
@click.option(
    "--systemd", "kind", flag_value="systemd", help="Use a service and a timer of systemd, not cron."
)
@of_history
@click.argument("words", nargs=-1)
def install(platform: str, at: str, kind: str | None, history: Path | None, words: tuple[str, ...]) -> None:
    """Start npc night run every night; WORDS, behind two hyphens, are its further options.

    npc night cron install --at 02:30 --platform mycluster -- --tag network --limit 2h

    What is in the crontab already stays. Exit codes: 0 installed, 1 it could not be, 2 usage.
    """
    from datetime import datetime

    from npc.cron import schedule
    from npc.cron.commands.nightly import nightly
    from npc.files import write_whole
    from npc.jobs.suite import platform_folder
    from npc.places import suite, workplace
    from npc.trust import others_may_write

    try:
        moments = sorted({datetime.strptime(word.strip(), "%H:%M").time() for word in at.split(",")})
    except ValueError:
        raise click.UsageError(f"--at {at!r} is no time of day: write 02:30, or 00:00,12:00") from None
    if any(word.startswith(("--platform", "--history")) for word in words):
        raise click.UsageError("--platform and --history stand before the two hyphens")
    given = nightly.make_context("run", list(words), resilient_parsing=False).params
    folder = platform_folder(suite(), platform)
    place = folder_of(history, folder.name)
    script = place / schedule.SCRIPT
    # refused before anything is written
    units = schedule.systemd_units(folder.name, moments, script, given["limit"]) if kind == "systemd" else {}
    if kind == "scrontab":
        table, block = schedule.SCRONTAB, schedule.scron_block(folder.name, moments, script, given["limit"])
    elif kind is None:
        table, block = schedule.CRONTAB, schedule.cron_block(folder.name, moments, script)
    arguments = ["--platform", str(folder), "--history", str(place.parent), *words]
    text = schedule.script_text(workplace(), arguments)
    place.mkdir(parents=True, exist_ok=True)
    write_whole(script, text)
    readers = script.stat().st_mode & 0o444
    script.chmod(script.stat().st_mode | readers >> 2)
    if writable := others_may_write(script):
        click.echo(
            f"warning: others can replace {script}, which will run as you: write access to "
            f"{', '.join(writable)}",
            err=True,
        )
    if units:
        _install_units(units, place)
        return
    try:
        table.write(schedule.with_block(table.read(), folder.name, block))
    except schedule.NotInstalled as error:
        raise click.ClickException(
            f"{error}\nThe script is {script}; have it run by other means (npc night cron install "
            f"--systemd), or "
            f"put these lines into a table of cron:\n{block}"
        ) from None
    click.echo(f"installed in {table.program}:\n{block}", nl=False)


def _install_units(units: dict[str, str], place: Path) -> None:
    """Write the unit files and say what makes systemd take them."""
    import shlex

    from npc.files import write_whole

    for name, text in units.items():
        write_whole(place / name, text)
        click.echo(f"# {place / name}\n{text}")
    service, timer = (place / name for name in sorted(units))
    user = "" if os.geteuid() == 0 else " --user"
    click.echo("To have systemd take them:")
    click.echo(f"  systemctl{user} link {shlex.quote(str(service))}")
    click.echo(f"  systemctl{user} enable --now {shlex.quote(str(timer))}")
    if user:
        click.echo("  loginctl enable-linger   # or it runs only while you are logged in")


@cron.command()
@of_history
def show(history: Path | None) -> None:
    """What is installed, and how the last nights went."""
    from npc import locks
    from npc.cron import schedule
    from npc.places import workplace
    from npc.records.journal import Journal
    from npc.records.verdicts import last_night

    for table in (schedule.CRONTAB, schedule.SCRONTAB):
        try:
            blocks = schedule.blocks(table.read())
        except schedule.NotInstalled as error:
            click.echo(str(error))
            continue
        for name, lines in blocks.items():
            for line in lines.splitlines():
                if not line.startswith("#"):
                    click.echo(f"{table.program}: {name}: {line}")
        if not blocks:
            click.echo(f"{table.program}: no nights")
    home = (history or workplace() / HISTORY).resolve()
    for folder in sorted(path.parent for path in home.glob("*/nights.jsonl")):
        holder = locks.holder(folder / LOCK)
        running = f"; running now: {holder}" if holder and holder.alive() else ""
        click.echo(f"{folder.name}{running}")
        for night in Journal(folder).entries()[-7:]:
            ended = night.verdict or "not ended"
            cut = ", was cut off" if night.cut else ""
            click.echo(f"  {night.name}  {ended}{cut}{'' if night.pruned else f'  {night.folder}'}")
        try:
            last = last_night(folder)
        except (OSError, ValueError) as error:
            click.echo(f"  {error}")
            continue
        for line in last.coverage.lines() if last and last.coverage else ():
            click.echo(f"  {line}")


@cron.command()
@of_platform
@click.option("--scrontab", is_flag=True, help="Take it out of Slurm's scrontab.")
def remove(platform: str, scrontab: bool) -> None:
    """Take the line for a platform out of the crontab again; history and runs stay."""
    from pathlib import Path

    from npc.cron import schedule

    table = schedule.SCRONTAB if scrontab else schedule.CRONTAB
    before = table.read()
    name = platform if platform in schedule.blocks(before) else Path(platform).resolve().name
    if name not in schedule.blocks(before):
        there = ", ".join(schedule.blocks(before)) or "none"
        raise click.ClickException(f"{table.program} has no nights of {name}; it has: {there}")
    table.write(schedule.without_block(before, name))
    click.echo(f"removed from {table.program}: {name}")
