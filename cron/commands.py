"""``npc nightly``, ``npc accept`` and ``npc cron``: a night, what it is compared with, and when it comes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from npc.parameters import TAGS, Duration, PathParameter

if TYPE_CHECKING:
    from pathlib import Path

    from cron.nightly import Options, Outcome
    from npc.fabric import Topology

HISTORY: Final = "history"
NIGHTS: Final = "runs/nightly"

_history = click.option(
    "--history", type=PathParameter(file_okay=False), help="Folder of histories (history/)."
)
_platform = click.option(
    "--platform", default="localhost", show_default=True, help="Folder in platforms/, or any other."
)


@click.command()
@_platform
@click.option("--tag", "tags", multiple=True, help="Part of the benchmarks, as npc characterise has it.")
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A parameter of a benchmark.")
@click.option("--benchmark", help="This one alone, as npc characterise has it.")
@_history
@click.option("--output", type=PathParameter(file_okay=False), help="Raw runs (runs/nightly/PLATFORM).")
@click.option(
    "--limit", type=Duration(), default="3h", show_default=True, help="For all of it: 90s, 10m, 3h."
)
@click.option(
    "--keep-runs", type=click.IntRange(0), default=14, show_default=True,
    help="Good nights whose raw runs stay; those of bad nights always do.",
)  # fmt: skip
@click.option(
    "--topology", default="", help="slurm, or a file of switches and racks, which may be to blame, too."
)
@click.option("--no-pairs", is_flag=True, help="Do not confirm suspects by a matrix of pairs.")
@click.option("--drain", is_flag=True, help="Drain the nodes that are named, and confirmed where possible.")
@click.option(
    "--textfile", type=PathParameter(file_okay=False, exists=True),
    help="Folder of node_exporter's textfile collector.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print verdict.json instead of the table.")
def nightly(
    platform: str,
    tags: tuple[str, ...],
    given: tuple[str, ...],
    benchmark: str | None,
    history: Path | None,
    output: Path | None,
    limit: float,
    keep_runs: int,
    topology: str,
    no_pairs: bool,
    drain: bool,
    textfile: Path | None,
    as_json: bool,
) -> None:
    """One night: characterise, append to the history, judge, measure the suspicious again, say who it is.

    Exit codes by the worst verdict: 0 all as always, 10 CHANGED, 11 MISSING, 12 INVALID, 13 DEGRADED, 14
    FAIL; 1 it could not run or be written down, 2 usage, 130 and 143 stopped (what was measured is kept).
    """
    from pathlib import Path

    from cron.history import InvalidHistory
    from cron.lock import Held, only_one
    from cron.nightly import Options, Stopped, Watch
    from npc.characterise import benchmark_file, checkout, environment_of_settings, platform_folder
    from npc.jube import Stop

    home = checkout()
    for tag in tags:
        if tag not in TAGS:
            raise click.UsageError(f"--tag {tag}: there are {', '.join(TAGS)}")
    folder = platform_folder(home, platform)
    file = benchmark_file(home, benchmark) if benchmark else None
    environment_of_settings(home, folder, given, file)  # before the night, not in it
    options = Options(
        platform=folder,
        history=_folder(history, folder.name),
        runs=(output or home / NIGHTS / folder.name).resolve(),
        words=_words(tags, given, file),
        keep_runs=keep_runs,
        limit_s=limit,
        pairs=not no_pairs,
        topology=topology if topology in ("", "slurm") else str(Path(topology).resolve()),
        fabric=_fabric(topology),
    )
    options.history.mkdir(parents=True, exist_ok=True)
    try:
        with Stop().listening() as stop, only_one(options.history, 2 * limit) as died:
            watch = Watch(options, stop)
            if died:
                watch.notes.append(f"the night before died ({died})")
            try:
                outcome = watch.run()
                _write(options.history, outcome, drain, textfile, as_json)
                watch.end(outcome.night)
            except Stopped:
                click.echo("stopped: what was measured is kept; the next night judges it", err=True)
                sys.exit(128 + (stop.number or 0))
            except OSError as error:
                raise click.ClickException(_cannot_write(error, options)) from None
    except (Held, InvalidHistory) as error:
        raise click.ClickException(str(error)) from None
    sys.exit(outcome.night.exit_code)


def _folder(history: Path | None, platform: str) -> Path:
    from npc.characterise import checkout

    return ((history or checkout() / HISTORY) / platform).resolve()


def _fabric(topology: str) -> Topology | None:
    """Switches and racks. Raises click.UsageError where they cannot be read."""
    from npc.fabric import InvalidTopology, load

    try:
        return load(topology) if topology else None
    except InvalidTopology as error:
        raise click.UsageError(str(error)) from None


def _words(tags: Sequence[str], given: Sequence[str], file: Path | None) -> tuple[str, ...]:
    """The same for ``npc characterise``."""
    words = [word for tag in tags for word in ("--tag", tag)]
    words += [word for setting in given for word in ("--set", setting)]
    return (*words, *(["--benchmark", str(file)] if file else []))


def _write(history: Path, outcome: Outcome, drain: bool, textfile: Path | None, as_json: bool) -> None:
    """Write and print the verdict; drain whom it names, if that is wanted and the verdict is bad enough."""
    import json

    from cron import drain as draining
    from cron.outputs import table
    from cron.publish import write_verdict
    from cron.verdict import Verdict

    nodes = draining.to_drain(outcome.night, outcome.matrix)
    lasting = not outcome.night.verdict < Verdict.DEGRADED
    for node, reason in nodes.items() if drain and lasting else ():
        problem = draining.drain(node, reason)
        outcome.notes.append(
            f"{node} was not drained: {problem}" if problem else f"{node} was drained: {reason}"
        )
    written = write_verdict(history, outcome.night, outcome.notes, outcome.matrix, textfile)
    if as_json:
        click.echo(json.dumps(written, indent=1, ensure_ascii=False))
        return
    lines = [] if drain else [draining.drain_line(node, reason) for node, reason in nodes.items()]
    click.echo(table(outcome.night, outcome.notes, outcome.matrix, lines), nl=False)


def _cannot_write(error: OSError, options: Options) -> str:
    where = f": {error.filename}" if error.filename else ""
    return (
        f"{error.strerror or error}{where}; what this night measured is in {options.runs}, and the next one "
        f"goes on from there"
    )


# -- the baseline --------------------------------------------------------------------------------------


@click.command()
@click.argument("pattern", default="*")
@click.option("--reason", required=True, help="Why: it is recorded, with the time and who said it.")
@_platform
@_history
@click.option("--night", help="The night whose state is taken (default: the last one).")
def accept(pattern: str, reason: str, platform: str, history: Path | None, night: str | None) -> None:
    """Take the present state as the baseline of the series that PATTERN names (default: of all).

    PATTERN: benchmark, case, metric, size, as many as given, each a shell pattern: "qperf tcp_*". A changed
    or degraded series is accepted as it is since its change began; one that is missing is given up.

    Exit codes: 0 done, 1 nothing to accept, 2 usage.
    """
    from datetime import datetime

    from cron.acceptance import InvalidAcceptance
    from cron.acceptance import accept as record
    from cron.history import History, InvalidHistory
    from cron.journal import Journal
    from cron.nightly import judge_night
    from cron.series import label
    from npc.characterise import checkout, platform_folder
    from npc.units import METRICS, format_quantity

    folder = _folder(history, platform_folder(checkout(), platform).name)
    past = History(folder)
    try:
        nights = {each.run: each.begun for each in past.nights()}
        for each in Journal(folder).nights():  # one that measured nothing is none of the history's
            nights.setdefault(each.name, each.begun.isoformat())
        chosen = night or max(nights, key=lambda run: nights[run], default="")
        if chosen not in nights:
            last = ", ".join(sorted(nights)[-3:])
            known = f"the last are {last}" if last else "it is empty: npc nightly fills it"
            raise click.ClickException(f"no night {chosen} in {folder}: {known}")
        begun = datetime.fromisoformat(nights[chosen].replace("Z", "+00:00"))
        verdict = judge_night(platform_folder(checkout(), platform), past, chosen, begun)
        taken = record(folder, verdict, reason, _who(), pattern)
    except (InvalidAcceptance, InvalidHistory) as error:
        raise click.ClickException(str(error)) from None
    for key, baseline in taken.baselines.items():
        unit = METRICS[key.metric].unit
        value = "given up" if baseline.value is None else format_quantity(baseline.value, unit)
        since = f"  since {baseline.since}" if baseline.since else ""
        click.echo(f"{label(key)}: {value}{since}")


def _who() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no such user here
        return str(os.getuid())


# -- when it runs --------------------------------------------------------------------------------------


@click.group()
def cron() -> None:
    """When nights run: install, show or remove the line for cron, Slurm's scrontab or systemd."""


@cron.command()
@_platform
@click.option("--at", default="02:30", show_default=True, help="Time of day.")
@click.option("--scrontab", "kind", flag_value="scrontab", help="As a job of Slurm's scrontab.")
@click.option("--systemd", "kind", flag_value="systemd", help="As a systemd service and timer.")
@_history
@click.argument("words", nargs=-1)
def install(platform: str, at: str, kind: str | None, history: Path | None, words: tuple[str, ...]) -> None:
    """Run npc nightly every night; WORDS, behind two hyphens, are its further options.

    npc cron install --at 02:30 --platform mycluster -- --tag network --limit 2h

    What is in the crontab already stays. Exit codes: 0 installed, 1 it could not be, 2 usage.
    """
    from cron import schedule
    from npc.characterise import checkout, platform_folder

    try:
        moment = schedule.At.parse(at)
    except ValueError as error:
        raise click.UsageError(f"--at {error}") from None
    if any(word.startswith(("--platform", "--history")) for word in words):
        raise click.UsageError("--platform and --history stand before the two hyphens")
    given = nightly.make_context("nightly", list(words), resilient_parsing=False).params
    folder = platform_folder(checkout(), platform)
    place = _folder(history, folder.name)
    place.mkdir(parents=True, exist_ok=True)
    arguments = ["--platform", str(folder), "--history", str(place.parent), *words]
    script = place / schedule.SCRIPT
    script.write_text(schedule.script_text(checkout(), arguments), encoding="utf-8")
    script.chmod(0o755)
    if kind == "systemd":
        _install_units(schedule.systemd_units(folder.name, moment, script, given["limit"]), place)
        return
    table = schedule.SCRONTAB if kind else schedule.CRONTAB
    options = schedule.scron_options(folder.name, given["limit"], place / "nightly.log") if kind else ()
    block = schedule.cron_block(folder.name, moment, script, options)
    try:
        table.write(schedule.with_block(table.read(), folder.name, block))
    except schedule.NotInstalled as error:
        raise click.ClickException(
            f"{error}\nThe script is {script}; have it run by other means (npc cron install --systemd), or "
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
@_history
def show(history: Path | None) -> None:
    """What is installed, and how the last nights went."""
    from cron import lock, schedule
    from cron.journal import Journal
    from npc.characterise import checkout

    for table in (schedule.CRONTAB, schedule.SCRONTAB):
        try:
            found = schedule.blocks(table.read())
        except schedule.NotInstalled as error:
            click.echo(str(error))
            continue
        for name, lines in found.items():
            click.echo(f"{table.program}: {name}: {lines.strip().splitlines()[-1]}")
        if not found:
            click.echo(f"{table.program}: no nights")
    home = (history or checkout() / HISTORY).resolve()
    for folder in sorted(path.parent for path in home.glob("*/nights.jsonl")):
        holder = lock.holder(folder)
        running = f"; running now: {holder}" if holder and holder.alive() else ""
        click.echo(f"{folder.name}{running}")
        for night in Journal(folder).nights()[-7:]:
            ended = night.verdict or "not ended"
            cut = ", was cut off" if night.cut else ""
            click.echo(f"  {night.name}  {ended}{cut}{'' if night.pruned else f'  {night.folder}'}")


@cron.command()
@_platform
@click.option("--scrontab", is_flag=True, help="From Slurm's scrontab.")
def remove(platform: str, scrontab: bool) -> None:
    """Take the line for a platform out of the crontab again; history and runs stay."""
    from pathlib import Path

    from cron import schedule

    table = schedule.SCRONTAB if scrontab else schedule.CRONTAB
    try:
        before = table.read()
        name = platform if platform in schedule.blocks(before) else Path(platform).resolve().name
        if name not in schedule.blocks(before):
            there = ", ".join(schedule.blocks(before)) or "none"
            raise click.ClickException(f"{table.program} has no nights of {name}; it has: {there}")
        table.write(schedule.without_block(before, name))
    except schedule.NotInstalled as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"removed from {table.program}: {name}")
