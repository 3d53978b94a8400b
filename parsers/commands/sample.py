"""``npc records sample``: the same command in fresh processes, several times, every outcome on record."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from npc.choices import AUTO
from npc.commands.parameters import PathParameter, Runs, name_values, program_first
from npc.files import cannot_write
from npc.parsers import names

if TYPE_CHECKING:
    from pathlib import Path

    from npc.records.launch import Launch

#: Of outputs that no parser reads.
RAW = "raw"


@click.command(
    context_settings={"ignore_unknown_options": True},
    short_help="Run a command several times, keep every output.",
)
@click.option(
    "--tool", required=True, help="Name of the parser that reads the outputs later; raw: none does."
)
@click.option(
    "--runs",
    default=AUTO,
    show_default=True,
    type=Runs(),
    help="Launches of each case; auto: six, and more where they bring its median to --precision.",
)
@click.option(
    "--precision",
    default=3.0,
    show_default=True,
    metavar="PERCENT",
    help="How far the median's 95 % interval may reach to either side of it.",
)
@click.option(
    "--samples-max", default=14, show_default=True, help="Launches of a case that auto makes at most."
)
@click.option(
    "--case-time",
    "case_s",
    default=6.0,
    show_default=True,
    metavar="SECONDS",
    help="A case gets more than six launches if all of them take no longer than this.",
)
@click.option(
    "--each",
    "placeholders",
    multiple=True,
    metavar="NAME=V1,V2,…",
    help="Values of {NAME} in the command; may be repeated.",
)
@click.option(
    "--cases", type=PathParameter(dir_okay=False, exists=True), help="File of JSON lines with the cases."
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="What every record of these launches notes beside its value; may be repeated.",
)
@click.option("--seed", type=int, help="Seed of the order of the launches (default: from the clock).")
@click.option("--in-order", is_flag=True, help="Do not shuffle the launches.")
@click.option(
    "--timeout",
    "timeout_s",
    default=300.0,
    show_default=True,
    type=click.FloatRange(0, 1e6, min_open=True),
    help="Seconds that one launch may take.",
)
@click.option("--require", metavar="REGEX", help="A launch worked only if its output has this.")
@click.option(
    "--output",
    type=PathParameter(file_okay=False),
    default="launches",
    show_default=True,
    help="Folder to write.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, callback=program_first)
def sample(
    tool: str,
    runs: int | None,
    precision: float,
    samples_max: int,
    case_s: float,
    placeholders: tuple[str, ...],
    cases: Path | None,
    params: tuple[str, ...],
    seed: int | None,
    in_order: bool,
    timeout_s: float,
    require: str | None,
    output: Path,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND several times in fresh processes and keep every output.

    By default each case has six launches, and more as long as its median is known no better than --precision.

    Writes a folder of launches: launches.jsonl and raw/NNNN.out, .err. Exit codes: 0 all launches
    worked, 1 none did, 2 usage, 6 some failed, 128+N stopped by signal N.

    \b
    npc records sample --tool osu --each test=latency,bw -- mpirun -n 2 osu_{test}
    """
    import signal

    import npc.jobs.sample as sampling
    from npc.jobs.rounds import Rounds
    from npc.jobs.stop import Stop
    from npc.parsers.run.output import read_output
    from npc.records.launch import LaunchLog
    from npc.records.record import OK
    from npc.records.units import plural
    from npc.statistics.precision import Goal

    try:
        if tool not in (RAW, *names()):
            raise click.UsageError(f"--tool {tool}: {_unknown(tool)}")
        goal = Goal(precision / 100, samples_max, case_s)
        if cases is not None and placeholders:
            raise click.UsageError("--cases and --each exclude each other")
        of_each = name_values("--each", placeholders, r"(\w+)=(.+)", "NAME=VALUE,VALUE,…")
        varied = [(name, values.split(",")) for name, values in of_each]
        for name, _ in varied:
            if f"{{{name}}}" not in " ".join(command):
                raise click.UsageError(f"--each {name}: the command has no {{{name}}}")
        todo = sampling.read_cases(cases, runs) if cases else sampling.cases_of_product(varied, runs)
        given = name_values("--param", params, r"(\w+)=(.*)", "NAME=VALUE")
        noted = {name: value for name, value in given if value}
        todo = [replace(case, params={**noted, **case.params}) for case in todo]
        for case in todo:
            sampling.fill_in(command, case.values)
        if require:
            re.compile(require)
    except (ValueError, re.error) as error:
        raise click.UsageError(str(error)) from None
    seed = None if in_order else seed if seed is not None else time.time_ns() % 2**32
    rounds = Rounds([case.runs for case in todo], goal, tool)
    if not rounds.planned:
        raise click.ClickException(f"{cases} asks for no launch: nothing to measure")
    fixed = all(case.runs is not None for case in todo)
    try:
        log = LaunchLog(output, tool, rounds.planned, seed)
    except FileExistsError:
        raise click.UsageError(f"{output} holds launches already: name another --output") from None
    except OSError as error:
        raise click.ClickException(cannot_write(output, error)) from None
    # a failure is told once, at the end how often there was one like it
    alike: Counter[tuple[str, str]] = Counter()

    def report(launch: Launch) -> None:
        if launch.status != OK:
            failure = launch.status, shlex.join(launch.argv)
            alike[failure] += 1
            if alike[failure] == 1:
                click.echo(
                    f"npc records sample: {launch.case or 'launch'} #{launch.sample}: {launch.status}",
                    err=True,
                )
                click.echo(f"  by hand: {failure[1]}", err=True)
        if not fixed:
            rounds.tell(launch.seconds, read_output(output, tool, launch) if launch.status == OK else None)

    try:
        in_rounds = ((todo[place], number) for place, number in rounds.turns(log.expect, seed))
        launches = sampling.plan(todo, seed) if fixed else in_rounds
        with Stop().listening() as stop:
            done = sampling.sample_all(command, launches, log, timeout_s, require, report, stop)
    finally:
        log.close()
        for (status, failed_command), number in alike.items():
            if number > 1:
                click.echo(f"npc records sample: {number} times in all: {status}: {failed_command}", err=True)
    if stop.number is not None:
        click.echo(f"npc records sample: stopped by {signal.Signals(stop.number).name}", err=True)
        sys.exit(128 + stop.number)
    failed = sum(launch.status != OK for launch in done)
    of = plural(len(todo), "case")
    click.echo(f"{len(done) - failed} of {len(done)} launches of {of} worked: {output}")
    if done and all(launch.status.startswith("unavailable: ") for launch in done):
        click.echo(done[0].status, err=True)  # as the job's last words: for the run it is no failure
    if failed:
        sys.exit(sampling.EXIT_NOTHING if failed == len(done) else sampling.EXIT_PARTLY)


def _unknown(tool: str) -> str:
    import difflib

    near = difflib.get_close_matches(tool, names(), 3, 0.4) or names()
    return (
        f"no parser of that name reads its outputs; perhaps {', '.join(near)}? (a new one: parsers/NAME.py)"
    )
