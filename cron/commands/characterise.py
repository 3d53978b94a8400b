"""``npc characterise``: the main job."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from npc.commands.parameters import PathParameter
from npc.cron.commands import (
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


@click.command(short_help="Measure this machine or a cluster; show its ceilings.")
@of_platform
@of_tags
@of_settings
@of_benchmark
@click.option("--output", type=PathParameter(file_okay=False), help="Where runs go (default: runs/).")
@of_limit
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
    each_node: bool,
    at_once: int,
    node_benchmarks: tuple[str, ...],
    as_json: bool,
) -> None:
    """Characterise a machine: run jube.yml, wait, collect, show the ceilings, draw the roofline.

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
    _can_submit(folder, variables)
    outpath = (output or workplace() / "runs").resolve()
    if each_node:
        if tags or benchmark or as_json:
            raise click.UsageError(
                "--each-node goes with --node-benchmark, not with --tag, --benchmark, --json"
            )
        with alone_on(folder, outpath):
            sys.exit(_each_node(folder, given, outpath, limit, at_once, node_benchmarks))
    env = environment_from_here(variables)
    what = Characterisation(file or home / "jube.yml", folder, tags, outpath, env, Patience(limit_s=limit))
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


def _can_submit(platform: Path, variables: Mapping[str, str]) -> None:
    """Raises click.ClickException where the platform's jobs cannot be submitted from here, or would wait in
    the queue for ever. variables: settings that were given, as NPC_…."""
    import shutil

    from npc.jobs.suite import parameter_of, submit_command
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
            if not error.is_private:
                raise click.ClickException(f"Slurm does not answer here ({error}): {mend}") from None
            if not parameter_of(platform, "npc_cores_per_node").isdecimal():
                raise click.ClickException(
                    f"Slurm shows its nodes to operators alone here ({error}; PrivateData in slurm.conf): "
                    "make a platform that says how many cores they have, npc platform new NAME"
                ) from None
        _ends_in_time(platform, variables)


def _ends_in_time(platform: Path, variables: Mapping[str, str]) -> None:
    """Raises click.ClickException where the platform's jobs are longer than their partition allows. A QOS
    that is named may allow more."""
    import os

    from npc.jobs.scheduler import seconds
    from npc.jobs.suite import default_of
    from npc.machine.ask import NoAnswer, ask
    from npc.machine.new_platform import fields_of_partitions

    def setting(name: str) -> str:
        variable = f"NPC_{name.upper()}"
        return variables.get(variable) or os.environ.get(variable) or default_of(platform, name)

    queue, limit = setting("queue"), setting("timelimit")
    wanted_s = 60 * int(limit) if limit.isdecimal() else seconds(limit)
    if wanted_s is None or setting("qos"):
        return
    try:
        partitions = fields_of_partitions(ask(["scontrol", "--oneliner", "show", "partition"]))
    except NoAnswer:  # sbatch will say what there is to be said
        return
    for fields in partitions:
        if queue == fields["PartitionName"] or (not queue and fields.get("Default") == "YES"):
            most_s = seconds(most := fields.get("MaxTime", ""))
            if most_s is not None and wanted_s > most_s:
                raise click.ClickException(
                    f"jobs of {limit} would never start in the partition {fields['PartitionName']}, whose "
                    f"MaxTime is {most} (PartitionTimeLimit): --set timelimit={most}, or name a QOS that "
                    "allows more: --set qos=NAME"
                )


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
    from npc.hostlist import host_text
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
    left_out: dict[str, list[str]] = {}
    for name, node in nodes.items():
        if not node.takes_jobs:
            left_out.setdefault(str(node), []).append(name)
    for state, names in left_out.items():
        click.echo(f"not measured: {host_text(names)}: {state}", err=True)
    batch = max(1, at_once // 2)
    end = None if limit is None else time.monotonic() + limit
    where = ["--platform", str(platform), "--output", str(outpath)]
    codes, runs = [], list[Path]()
    for start in range(0, len(pairs), batch):
        for part in parts_of_nodes(
            start // batch + 1, pairs[start : start + batch], rotation, platform, words
        ):
            click.echo(f"{part.name}: {host_text(part.hosts)}", err=True)
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
