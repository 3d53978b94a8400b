"""``npc observe -- mpirun … app``: any MPI program, unchanged, and what it did to the network.

The options of what looks deeper, such as ``--hotspots``, come from the observers that are registered
(`npc.observe.observer`).
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from npc.commands.parameters import PathParameter, program_first
from npc.commands.rare_options import RareOption, shows_all
from npc.files import cannot_write
from npc.observe.observer import ObservationRequest, RunObserver, RunPlan, registered_observers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


class ObserveCommand(click.Command):
    """A command with the options and examples of all observers, which ``--help-all`` shows by observer."""

    def __init__(self, *args: Any, **extra: Any) -> None:
        super().__init__(*args, **extra)
        for kind in registered_observers().kinds:
            self.params.extend(kind.options)
            self.help = "\n    ".join([(self.help or "").rstrip(), *kind.examples])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """All options in one list, or where all are shown in one for each observer, with its purpose."""
        kinds, problems = registered_observers()
        if shows_all(ctx):
            theirs = [option for kind in kinds for option in kind.options]
            _list(ctx, formatter, "Options", [one for one in self.get_params(ctx) if one not in theirs])
            for kind in kinds:
                _list(ctx, formatter, kind.title, kind.options, kind.purpose)
        else:
            super().format_options(ctx, formatter)
        for name, problem in problems.items():
            with formatter.section(name):
                formatter.write_text(problem)


def _list(
    ctx: click.Context,
    formatter: click.HelpFormatter,
    title: str,
    options: Iterable[click.Parameter],
    purpose: str = "",
) -> None:
    with formatter.section(title):
        if purpose:
            formatter.write_text(purpose)
            formatter.write_paragraph()
        formatter.write_dl([row for option in options if (row := option.get_help_record(ctx))])


@click.command(
    cls=ObserveCommand,
    context_settings={"ignore_unknown_options": True},
    short_help="Run a program; see its messages, waiting and memory.",
)
@click.option(
    "--output",
    type=PathParameter(file_okay=False),
    help="Folder to write; by default observed, or beside the launch that npc records sample is making.",
)
@click.option(
    "--program",
    cls=RareOption,
    default="",
    help="The program's word in the command, where it cannot be told.",
)
@click.option("--name", default="", help="What to call the program (default: its file's name).")
@click.option(
    "--parser",
    "tool",
    cls=RareOption,
    help="Parser of the program's own report (default: by the program's name).",
)
@click.option(
    "--report",
    metavar="GLOB",
    help="File in which the program leaves its report, such as 'HPCG-Benchmark_*.txt', or Darshan its log.",
)
@click.option(
    "--flops", metavar="REGEX", help="Where the program says its rate: the first group is the number."
)
@click.option(
    "--flops-unit", default="FLOP/s", show_default=True, help="Unit of that number: MFLOP/s, GFLOP/s, …"
)
@click.option(
    "--seconds",
    cls=RareOption,
    metavar="REGEX",
    help="Where the program says for how many seconds it computed at that rate; the FLOP follow from both.",
)
@click.option(
    "--flop",
    cls=RareOption,
    type=click.FloatRange(0, min_open=True),
    help="FLOP of the whole run, where you know them.",
)
@click.option(
    "--counters",
    metavar="GROUP|EVENT",
    help="Count FLOP as well: by likwid-perfctr, FLOPS_DP or FLOPS_SP (likwid-perfctr -a), or in a program "
    "with PAPI's high-level interface, PAPI_DP_OPS (papi_avail); or bytes and idle CPUs by LIKWID's "
    "MEM, L3, L2.",
)
@click.option(
    "--mpi/--no-mpi",
    cls=RareOption,
    default=True,
    show_default=True,
    help="Let Open MPI count messages and bytes.",
)
@click.option(
    "--note", metavar="TEXT", help="What to know of the run, such as how its problem was scaled down."
)
@click.option(
    "--overhead",
    "budget",
    cls=RareOption,
    default="2%",
    show_default=True,
    metavar="PERCENT|none",
    help="How much of the run time watching may take, where it keeps within a limit.",
)
@click.option(
    "--check-observer",
    "pairs",
    cls=RareOption,
    is_flag=False,
    flag_value=6,
    metavar="[PAIRS]",
    type=click.IntRange(1, 1000),
    help="Then run this number of pairs more, with and without watching in turns, and compare the run times "
    "(6 pairs, the fewest that give an interval).",
)
@click.option(
    "--plain",
    cls=RareOption,
    metavar="PROGRAM",
    help="The same program as it is usually built: what --check-observer runs without watching, where the "
    "other was built to be watched.",
)
@click.option(
    "--background",
    "background_s",
    cls=RareOption,
    default=0.3,
    show_default=True,
    type=click.FloatRange(0, 60),
    help="Seconds to watch each node's ports before the program begins.",
)
@click.option(
    "--platform",
    default="localhost",
    show_default=True,
    help="Platform of the records, as npc characterise named it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print observed.json instead of the table.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, callback=program_first)
@click.pass_context
def observe(
    ctx: click.Context,
    /,
    output: Path | None,
    program: str,
    name: str,
    tool: str | None,
    report: str | None,
    flops: str | None,
    flops_unit: str,
    seconds: str | None,
    flop: float | None,
    counters: str | None,
    mpi: bool,
    note: str | None,
    budget: str,
    pairs: int | None,
    plain: str | None,
    background_s: float,
    platform: str,
    as_json: bool,
    command: tuple[str, ...],
    **of_observers: Any,
) -> None:
    """Run COMMAND unchanged and note what it did to the network, on every node.

    Writes a folder of launches with the program's own output, the bytes through every node's ports, and
    MPI's own count; `npc roofline RUN FOLDER` puts the program under the ceilings.

    Exit code: the program's own (a signal that ended it ends npc observe as well); 127 if it could not be
    started; 2 usage.

    \b
    npc observe -- mpirun -n 8 ./himeno 2 2 2
    npc observe --report 'HPCG-Benchmark_*.txt' -- srun -n 8 xhpcg
    npc observe --flops 'rate: ([0-9.]+)' --flops-unit GFLOP/s -- mpirun -n 8 ./app
    npc observe --counters FLOPS_DP -- mpirun -n 8 ./app
    """
    from pathlib import Path
    from shutil import which

    from npc import parsers
    from npc.jobs.sample import LAUNCH, job_hosts
    from npc.launcher import PARSERS, UnknownProgram, program_index
    from npc.machine.command import exit_words
    from npc.observe.output_copy import not_lost_silently, printing, say
    from npc.observe.outputs import show
    from npc.observe.overhead import read_budget
    from npc.observe.papi import EVENT
    from npc.observe.reported import flops_scale, pattern_of, reported_by
    from npc.observe.run import (
        DARSHAN,
        NOT_STARTED,
        OBSERVED,
        append_report,
        keep_measured,
        keep_observation,
        name_of,
        run,
    )
    from npc.observe.unchanged import end_like, occupy_standard_descriptors
    from npc.records.launch import RAW, Launch, LaunchLog, last_words, now
    from npc.records.record import OK, save_csv
    from npc.records.run import RECORDS

    try:
        place = program_index(command, program)
        request = ObservationRequest(
            command=command, place=place, budget=read_budget(budget), pairs=pairs or 0, plain=plain or "",
            is_budget_given=ctx.get_parameter_source("budget") is ParameterSource.COMMANDLINE,
        )  # fmt: skip
        scale = flops_scale(flops_unit)
        pattern, duration = pattern_of("--flops", flops), pattern_of("--seconds", seconds)
        if duration is not None and (pattern is None or flop is not None):
            raise ValueError("--seconds: it goes with --flops, and not with --flop")
        if tool is not None:
            parsers.load(tool)
        if plain and not pairs:
            raise ValueError("--plain goes with --check-observer")
        if counters is not None and not (re.fullmatch(r"\w+", counters) or EVENT.fullmatch(counters)):
            raise ValueError(
                f"--counters {counters!r}: expected a group of LIKWID's, such as FLOPS_DP, "
                "or an event of PAPI's, such as PAPI_DP_OPS"
            )
        others = bool(counters or flops or seconds or flop or report)
        observers = _requested(of_observers, request, others)
    except (UnknownProgram, parsers.UnknownParser, ValueError, re.error) as error:
        raise click.UsageError(str(error)) from None
    if which(command[0]) is None:
        click.echo(f"npc observe: {command[0]}: no such program (neither a path nor in PATH)", err=True)
        sys.exit(NOT_STARTED)
    alone = next((observer.alone for observer in observers if observer.alone), "")
    inside = os.environ.get(LAUNCH) if output is None else None
    if inside and alone:
        raise click.UsageError(f"{alone}: not below npc records sample, which measures it")
    if inside and pairs:
        raise click.UsageError("--check-observer makes launches of its own: not below npc records sample")
    for name_of_part, problem in registered_observers().problems.items():
        say(f"{name_of_part}: {problem}")
    observers = [observer for observer in observers if observer.prepare()]
    before_program = (word for observer in observers for word in observer.words())
    watched_command = (*command[:place], *before_program, *command[place:])
    plain_command = (*command[:place], plain or command[place], *command[place + 1 :])
    plan = RunPlan(
        background_s=background_s, counters=counters or "", monitoring=mpi and not alone, observers=observers
    )
    occupy_standard_descriptors()
    if inside:
        end = run(watched_command, place, Path(inside), plan, keep=False)
        with not_lost_silently(Path(inside).parent):
            keep_observation(Path(inside), command, plan, {}, end.notes)
        end_like(end.code)
    of_report = "darshan" if report and report.endswith(DARSHAN) else ""
    tool = "" if alone else tool or of_report or PARSERS.get(Path(command[place]).name, "")
    folder = output or Path("observed")
    try:
        log = LaunchLog(folder, tool or "observed", 1)
    except FileExistsError:
        raise click.UsageError(f"{folder} holds an observation already: name another --output") from None
    except OSError as error:
        raise click.ClickException(cannot_write(folder, error)) from None
    stem = (folder / RAW / "0000").absolute()
    started, before, began = now(), time.monotonic(), time.time()
    end = run(watched_command, place, stem, plan, keep=True)
    code, lasted = end.code, time.monotonic() - before
    with not_lost_silently(folder):
        if report:
            append_report(report, began, stem.with_suffix(".out"))
        printed = stem.with_suffix(".out").read_text(encoding="utf-8", errors="replace")
        reported = reported_by(printed, pattern, scale, duration, flop)
        notes = (*filter(None, [note]), *end.notes)
        observation = keep_observation(stem, command, plan, reported, notes)
        status = OK if code == 0 else f"failed: {exit_words(code)}: {last_words(stem.with_suffix('.err'))}"
        hosts = tuple(node.host for node in observation.nodes) or job_hosts()
        raw = f"{RAW}/0000.out" if tool else f"{RAW}/0000.{OBSERVED}"
        log.append(
            Launch(
                id=0, argv=command, started=started, seconds=lasted, exit=code, status=status,
                params={"program": name or name_of(command[place:])}, nodes=len(hosts), hosts=hosts, raw=raw,
            )
        )  # fmt: skip
        log.close()
        if pairs and code == 0:
            from npc.observe.check_observer import RunFailed, check

            try:
                measured = check(watched_command, plain_command, place, stem, plan, pairs)
                observation = keep_measured(stem, observation, plan, measured)
            except RunFailed as error:
                say(f"--check-observer: {error}")
                code = error.code
        from npc.parsers.run.collect import collect_run

        save_csv(collect_run(folder, platform), folder / RECORDS)
        with printing():
            if as_json:
                click.echo(stem.with_suffix(f".{OBSERVED}").read_text(encoding="utf-8"))
            else:
                silent = ["--flops"] if pattern and "flops" not in reported else []
                if duration and "flops" in reported and "flop" not in reported:
                    silent.append("--seconds")
                show(observation, observers, folder, silent)
    end_like(code)


def _requested(values: Mapping[str, Any], request: ObservationRequest, others: bool) -> Sequence[RunObserver]:
    """The observers that the values of their options ask for. others: whether the ground floor is to measure
    more than usual. Raises ValueError for what does not go together."""
    kinds = registered_observers().kinds
    observers = [observer for kind in kinds if (observer := kind.requested(values, request))]
    for alone in observers:
        if alone.alone:
            if others or any(other is not alone and not other.is_usual for other in observers):
                raise ValueError(f"{alone.alone}: nothing else is measured in such a run")
            return [alone]
    return observers
