"""``npc characterise``: the main job."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npc.commands.parameters import PathParameter
from npc.cron.commands import (
    check_one_job,
    chosen,
    of_at_once,
    of_benchmark,
    of_each_node,
    of_limit,
    of_node_benchmarks,
    of_platform,
    of_settings,
    of_tags,
    rotation_of,
)
from npc.files import cannot_write

if TYPE_CHECKING:
    from npc.jobs.allocation import JobAllocation


@click.command(short_help="Measure this machine or a cluster; show its ceilings.")
@of_platform
@of_tags
@of_settings
@of_benchmark
@click.option("--output", type=PathParameter(file_okay=False), help="Where runs go (default: runs/).")
@of_limit
@click.option(
    "--one-job", is_flag=True,
    help="All benchmarks in one job, one after the other, instead of a job each (docs/cluster.md).",
)  # fmt: skip
@click.option(
    "--submit",
    is_flag=True,
    help="Within a job (salloc), submit jobs as from outside instead of measuring on its nodes.",
)
@of_each_node
@of_at_once
@of_node_benchmarks
@click.option("--json", "as_json", is_flag=True, help="Print roofline.json instead of the tables.")
def characterise(
    platform: str,
    tags: tuple[str, ...],
    given: tuple[str, ...],
    benchmark: str | None,
    output: Path | None,
    limit: float | None,
    one_job: bool,
    submit: bool,
    each_node: bool,
    at_once: int,
    node_benchmarks: tuple[str, ...],
    as_json: bool,
) -> None:
    """Characterise a machine: run jube.yml, wait, collect, show the ceilings, draw the roofline.

    Its benchmarks are a job each; with --one-job all of them are one job, and so they are within a job
    (salloc), on its nodes. Ended before it came to all, the same command measures the rest.

    With --each-node: the node benchmarks on every node of the partition that takes jobs, idle ones first, and
    a test between two of them; a run for each --at-once jobs.

    Exit codes: 0 all was measured (or was unavailable here), 1 nothing usable, 2 usage, 5 jobs have not
    ended by the limit, 6 some of it failed, 130 and 143 stopped (what was measured before is collected).
    """
    from npc.cron.characterise import LOCK, Characterisation, alone_on, measure_and_draw
    from npc.jobs.suite import environment_from_here
    from npc.jobs.wait import Patience
    from npc.locks import LockHeld, only_one
    from npc.places import workplace

    home, folder, file, variables = chosen(platform, tags, given, benchmark)
    allocation = None if submit or each_node else _allocation(folder)
    if allocation is None:
        _can_submit(folder)
    if one_job and (submit or each_node):
        raise click.UsageError("--one-job goes without --submit and --each-node")
    if one_job:
        check_one_job(folder)
    outpath = (output or workplace() / "runs").resolve()
    if each_node:
        if tags or benchmark or as_json:
            raise click.UsageError(
                "--each-node goes with --node-benchmark, not with --tag, --benchmark, --json"
            )
        with alone_on(folder, outpath):
            sys.exit(_each_node(folder, given, outpath, limit, at_once, node_benchmarks))
    env = environment_from_here(variables)
    if allocation:
        click.echo(f"measures on {', '.join(allocation.hosts)}, the nodes of job {allocation.job}", err=True)
    what = Characterisation(
        file or home / "jube.yml", folder, tags, outpath, env, Patience(limit_s=limit),
        one_job=one_job or allocation is not None, allocation=allocation,
    )  # fmt: skip
    try:
        outpath.mkdir(parents=True, exist_ok=True)
        with only_one(outpath / LOCK, limit or 0.0), alone_on(folder, outpath, limit or 0.0):
            code = measure_and_draw(what, as_json)
    except LockHeld as who:
        raise click.ClickException(
            f"another characterisation is running in {outpath} ({who}): the two would measure each other"
        ) from None
    except OSError as error:
        raise click.ClickException(cannot_write(outpath, error)) from None
    sys.exit(code)


def _allocation(platform: Path) -> JobAllocation | None:
    """The nodes of the job that this command is in, if that is of the platform's batch system."""
    from npc.jobs.in_place import allocation_here
    from npc.jobs.suite import submit_command

    return allocation_here(submit_command(platform))


def _can_submit(platform: Path) -> None:
    """Raises click.ClickException where the platform's jobs cannot be submitted from here."""
    import shutil

    from npc.jobs.suite import submit_command
    from npc.machine.ask import NoAnswer, ask

    mend = "start this on a login node of its cluster, or leave --platform out to measure this machine"
    command = submit_command(platform)
    if command and not shutil.which(command):
        raise click.ClickException(
            f"platform {platform.name} submits its jobs by {command}, not here: {mend}"
        )
    if command == "sbatch" and shutil.which("sinfo"):
        try:
            ask(["sinfo", "--noheader", "--format=%P"])
        except NoAnswer as error:
            raise click.ClickException(f"Slurm does not answer here ({error}): {mend}") from None


def _each_node(
    platform: Path,
    given: Sequence[str],
    outpath: Path,
    limit: float | None,
    at_once: int,
    benchmarks: Sequence[str],
) -> int:
    """Measure every node once, a run after the other; the gravest exit code."""
    import time

    from npc.cron.characterise import exit_code, step
    from npc.cron.node_parts import odd_nodes, parts_of_nodes, slurm_nodes, states_of
    from npc.cron.rotation import NodeNights, due_pairs
    from npc.jobs.scheduler import SchedulerUnavailable
    from npc.jobs.wait import EXIT_NOTHING, EXIT_PARTLY, EXIT_UNFINISHED
    from npc.jobs.workpackages import find_run
    from npc.records.run import read_run

    rotation = rotation_of(platform, given, 1, at_once, benchmarks)
    words = [word for setting in given for word in ("--set", setting)]
    try:
        nodes = slurm_nodes(platform, words)
    except SchedulerUnavailable as problem:
        raise click.ClickException(f"Slurm does not say which nodes there are: {problem}") from None
    pairs = [work.nodes for work in due_pairs(states_of(nodes), NodeNights(tonight=0), within=1)]
    for name, node in nodes.items():
        if not node.takes_jobs:
            click.echo(f"not measured: {name}: {node}", err=True)
    batch = max(1, at_once // 2)
    end = None if limit is None else time.monotonic() + limit
    where = ["--platform", str(platform), "--output", str(outpath), "--submit"]
    codes, runs = [], list[Path]()
    for start in range(0, len(pairs), batch):
        for part in parts_of_nodes(
            start // batch + 1, pairs[start : start + batch], rotation, platform, words
        ):
            click.echo(f"{part.name}: {', '.join(part.hosts)}", err=True)
            left = [] if end is None else ["--limit", f"{max(1.0, end - time.monotonic()):.0f}s"]
            code = step("characterise", *part.words, *where, *left)
            if code >= 128:
                return code
            # no ceiling comes of a test between nodes, which is no failure here
            runs.append(find_run(outpath))
            codes.append(code if code == EXIT_UNFINISHED else exit_code(read_run(runs[-1]), 0))
    for line in odd_nodes(runs):
        click.echo(line)
    worst = max(codes, default=EXIT_NOTHING)
    return EXIT_PARTLY if worst == EXIT_NOTHING and 0 in codes else worst
