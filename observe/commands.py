"""``npc observe -- mpirun … app``: any MPI program, unchanged, and what it did to the network."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from npc.files import cannot_write
from npc.parameters import PathParameter, program_first
from npc.rare_options import RareOption

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any


@click.command(
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
    "--profile/--no-profile",
    default=True,
    show_default=True,
    help="Count the time, calls and messages of every rank inside MPI.",
)
@click.option(
    "--mpit",
    cls=RareOption,
    metavar="NAME,…|all",
    help="Read these counters of the MPI library (MPI_T performance variables), with * and ?; npc doctor "
    "says what there is.",
)
@click.option(
    "--sde",
    cls=RareOption,
    metavar="NAME,…|all",
    help="Read these software-defined events of the program's libraries (papi_sde), with * and ?.",
)
@click.option(
    "--snapshots",
    "snapshots_s",
    cls=RareOption,
    metavar="SECONDS",
    type=click.FloatRange(0),
    help="Read counters every so often, not at the end alone; 1 with --mpit or --sde, 0: never.",
)
@click.option("--hotspots", is_flag=True, help="Record the stacks of all ranks by perf: where they compute.")
@click.option(
    "--rate",
    cls=RareOption,
    metavar="HZ",
    type=click.FloatRange(1, 1000),
    help="Stacks a second with --hotspots (default: 99, in step with nothing that a program does).",
)
@click.option(
    "--call-graph",
    cls=RareOption,
    type=click.Choice(["fp", "dwarf", "lbr"]),
    help="How perf finds callers: by frame pointers (fp, default), copies of the stack (dwarf), which cost "
    "8 KiB a sample, or the processor's record of branches (lbr).",
)
@click.option(
    "--probe",
    "probes",
    metavar="WHAT",
    multiple=True,
    help="Count by bpftrace, of all ranks: syscalls, scheduler, faults, io, tcp, softirq, "
    "function:NAME[@LIBRARY], usdt:PROVIDER:NAME[@LIBRARY]. May be repeated.",
)
@click.option(
    "--memory",
    is_flag=False,
    flag_value="auto",
    metavar="[count|sample|valgrind]",
    type=click.Choice(["auto", "count", "sample", "valgrind"]),
    help="Look where its memory goes: count every access of a program that npc program cc has built, else "
    "sample; valgrind counts those of any program, of small runs. Nothing else is measured in such a run.",
)
@click.option(
    "--interval",
    cls=RareOption,
    metavar="SECONDS",
    type=click.FloatRange(0.01, 60),
    help="Between two looks at all pages with --memory=sample (0.1).",
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
    help="How much of the run time a probe may take: one that takes more ends itself, and what it counted "
    "until then is kept; with --memory=sample how much that may take (10%).",
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
    help="The same program as it is usually built: what --check-observer runs without watching, where npc "
    "program cc has built the other.",
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
    profile: bool,
    mpit: str | None,
    sde: str | None,
    snapshots_s: float | None,
    hotspots: bool,
    rate: float | None,
    call_graph: str | None,
    probes: tuple[str, ...],
    memory: str | None,
    interval: float | None,
    note: str | None,
    budget: str,
    pairs: int | None,
    plain: str | None,
    background_s: float,
    platform: str,
    as_json: bool,
    command: tuple[str, ...],
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
    npc observe --mpit all --snapshots 0.5 -- mpirun -n 8 ./app
    npc observe --hotspots -- mpirun -n 8 ./app
    npc observe --hotspots --check-observer 10 -- mpirun -n 8 ./app
    npc observe --memory --note 'grid 64, not 512' -- ./app
    npc observe --probe syscalls --probe function:daxpy@libblas.so.3 -- mpirun -n 8 ./app
    """
    from pathlib import Path
    from shutil import which

    from npc import parsers
    from npc.jobs.launcher import PARSERS, UnknownProgram, program_index
    from npc.jobs.sample import LAUNCH, job_hosts
    from npc.machine.command import exit_words
    from npc.observe.built import NoLibrary
    from npc.observe.companions import HOTSPOTS, PROBES
    from npc.observe.memory.asked import memory_settings
    from npc.observe.memory.companion import VALGRIND
    from npc.observe.mpi.asked import settings
    from npc.observe.options import ObservationOptions
    from npc.observe.output_copy import not_lost_silently, printing, say
    from npc.observe.outputs import show
    from npc.observe.overhead import read_budget
    from npc.observe.papi import EVENT
    from npc.observe.probes.settings import settings_of
    from npc.observe.reported import flops_scale, pattern_of, reported_by
    from npc.observe.run import (
        DARSHAN,
        NOT_STARTED,
        OBSERVED,
        append_report,
        costs_of_probes,
        keep_measured,
        keep_observation,
        name_of,
        profiling_library,
        run,
    )
    from npc.observe.unchanged import end_like, occupy_standard_descriptors
    from npc.records.launch import RAW, Launch, LaunchLog, last_words, now
    from npc.records.memory_use import MEMORY
    from npc.records.record import OK, save_csv
    from npc.records.run import RECORDS

    companions: dict[str, Mapping[str, Any]] = {}
    try:
        place = program_index(command, program)
        allowed = read_budget(budget)
        watched = settings_of(probes, command[place], allowed)
        scale = flops_scale(flops_unit)
        pattern, duration = pattern_of("--flops", flops), pattern_of("--seconds", seconds)
        if duration is not None and (pattern is None or flop is not None):
            raise ValueError("--seconds: it goes with --flops, and not with --flop")
        if tool is not None:
            parsers.load(tool)
        read = settings(mpit, sde, snapshots_s)
        if read and not profile:
            raise ValueError("--mpit, --sde and --snapshots are the profile's: not with --no-profile")
        if plain and not pairs:
            raise ValueError("--plain goes with --check-observer")
        if interval is not None and memory is None:
            raise ValueError("--interval goes with --memory")
        if memory and (hotspots or probes or counters or read or flops or seconds or flop or report):
            raise ValueError("--memory slows the program down: nothing else is measured in such a run")
        if not hotspots and (rate is not None or call_graph is not None):
            raise ValueError("--rate and --call-graph go with --hotspots")
        if counters is not None and not (re.fullmatch(r"\w+", counters) or EVENT.fullmatch(counters)):
            raise ValueError(
                f"--counters {counters!r}: expected a group of LIKWID's, such as FLOPS_DP, "
                "or an event of PAPI's, such as PAPI_DP_OPS"
            )
    except (UnknownProgram, parsers.UnknownParser, ValueError, re.error) as error:
        raise click.UsageError(str(error)) from None
    if which(command[0]) is None:
        click.echo(f"npc observe: {command[0]}: no such program (neither a path nor in PATH)", err=True)
        sys.exit(NOT_STARTED)
    if probes:
        companions[PROBES] = {**watched, "costs": costs_of_probes()}
    if hotspots:
        companions[HOTSPOTS] = {"rate": rate or 99.0, "call_graph": call_graph or "fp"}
    watched_command = plain_command = command
    if memory:
        mpi = profile = False  # their times would be those of a program that is looked at
        limit = allowed if ctx.get_parameter_source("budget") is ParameterSource.COMMANDLINE else 0.1
        try:
            companions[MEMORY] = memory_settings(memory, command[place], interval, limit)
        except (NoLibrary, ValueError) as error:
            raise click.UsageError(f"--memory: {error}") from None
        if companions[MEMORY]["mode"] == "valgrind":
            watched_command = (*command[:place], *VALGRIND, *command[place:])
        if companions[MEMORY]["mode"] == "count" and pairs and not plain:
            raise click.UsageError(
                f"--check-observer: {command[place]} counts in all runs: --plain names it as usually built"
            )
    if plain:
        plain_command = (*command[:place], plain, *command[place + 1 :])
    asked = ObservationOptions(
        background_s=background_s,
        counters=counters or "",
        settings=read,
        library=profiling_library(command, place) if profile else "",
        companions=companions,
    )
    inside = os.environ.get(LAUNCH) if output is None else None
    if inside and memory:
        raise click.UsageError(
            "--memory slows the program down: not below npc records sample, which measures it"
        )
    if inside and pairs:
        raise click.UsageError("--check-observer makes launches of its own: not below npc records sample")
    occupy_standard_descriptors()
    if inside:
        end = run(command, place, Path(inside), mpi, asked, keep=False)
        with not_lost_silently(Path(inside).parent):
            keep_observation(Path(inside), command, place, asked, {}, end.notes)
        end_like(end.code)
    of_report = "darshan" if report and report.endswith(DARSHAN) else ""
    tool = "" if memory else tool or of_report or PARSERS.get(Path(command[place]).name, "")
    folder = output or Path("observed")
    try:
        log = LaunchLog(folder, tool or "observed", 1)
    except FileExistsError:
        raise click.UsageError(f"{folder} holds an observation already: name another --output") from None
    except OSError as error:
        raise click.ClickException(cannot_write(folder, error)) from None
    stem = (folder / RAW / "0000").absolute()
    started, before, began = now(), time.monotonic(), time.time()
    end = run(watched_command, place, stem, mpi, asked, keep=True)
    code, lasted = end.code, time.monotonic() - before
    with not_lost_silently(folder):
        if report:
            append_report(report, began, stem.with_suffix(".out"))
        said = stem.with_suffix(".out").read_text(encoding="utf-8", errors="replace")
        reported = reported_by(said, pattern, scale, duration, flop)
        notes = (*filter(None, [note]), *end.notes)
        observation = keep_observation(stem, command, place, asked, reported, notes)
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
                measured = check(watched_command, plain_command, place, stem, mpi, asked, pairs)
                observation = keep_measured(stem, observation, measured)
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
                show(observation, folder, silent)
    end_like(code)
