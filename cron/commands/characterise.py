"""``npc characterise``: the main job."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npc.commands.parameters import PathParameter
from npc.commands.rare_options import RareOption
from npc.cron.commands import (
    NODES_HELP,
    NodeNames,
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
    from npc.cron.each_node import EachNode
    from npc.cron.node_parts import NodeRotation
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
@click.option("--nodes", type=NodeNames(), default=(), help=NODES_HELP)
@click.option(
    "--pair", "pairs", cls=RareOption, type=NodeNames(), multiple=True,
    help="Two nodes that --each-node measures, together, too; may be repeated (default: it chooses them).",
)  # fmt: skip
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
    nodes: tuple[str, ...],
    pairs: tuple[tuple[str, ...], ...],
    at_once: int,
    node_benchmarks: tuple[str, ...],
    as_json: bool,
) -> None:
    """Characterise a machine: run jube.yml, wait, collect, show the ceilings, draw the roofline.

    Its benchmarks are a job each; with --one-job all of them are one job, and so they are within a job
    (salloc), on its nodes. Ended before it came to all, the same command measures the rest.

    With --each-node: a job for every node of the partition (or of --set reservation=NAME) that takes jobs,
    with all node benchmarks, and one for every two of them; no more than --at-once are in the queue. Without
    --limit it waits until no job has run, begun or ended for twice a job's time limit.

    Exit codes: 0 all was measured (or was unavailable here), 1 nothing usable, 2 usage, 5 jobs have not
    ended by the limit, 6 some of it failed, 130 and 143 stopped (what was measured before is collected).
    """
    from functools import partial

    from npc.cron.characterise import LOCK, Characterisation, alone_on, measure_and_draw
    from npc.cron.each_node import measure_each_node
    from npc.hostlist import host_text
    from npc.jobs.suite import environment_from_here
    from npc.jobs.wait import Patience
    from npc.locks import LockHeld, only_one
    from npc.places import workplace

    # what --each-node measures may have settings of its own
    home, folder, file, variables = chosen(platform, tags, () if each_node else given, benchmark)
    allocation = None if submit or each_node else _allocation(folder)
    if allocation is None:
        settings = (word.partition("=") for word in given)
        _can_submit(folder, {f"NPC_{name.upper()}": value for name, _, value in settings})
    if one_job and (submit or each_node):
        raise click.UsageError("--one-job goes without --submit and --each-node")
    if one_job:
        check_one_job(folder)
    outpath = (output or workplace() / "runs").resolve()
    if (nodes or pairs) and not each_node:
        raise click.UsageError("--nodes goes with --each-node; for other jobs it is --set nodelist=n1,n2")
    if any(len(group) > 2 for group in pairs):
        raise click.UsageError("--pair names two nodes, or one: n1,n2; for more of them it is repeated")
    if each_node:
        if tags or benchmark or as_json:
            raise click.UsageError(
                "--each-node goes with --node-benchmark, not with --tag, --benchmark, --json"
            )
        rotation = rotation_of(folder, given, 1, at_once, node_benchmarks, nodes)
        of_nodes = _what_each_node(folder, given, outpath, limit, rotation, pairs)
        measure = partial(measure_each_node, of_nodes)
    else:
        env = environment_from_here(variables)
        if allocation:
            click.echo(
                f"measures on {host_text(allocation.hosts)}, the nodes of job {allocation.job}", err=True
            )
        what = Characterisation(
            file or home / "jube.yml", folder, tags, outpath, env, Patience(limit_s=limit),
            one_job=one_job or allocation is not None, allocation=allocation,
        )  # fmt: skip
        measure = partial(measure_and_draw, what, as_json)
    try:
        outpath.mkdir(parents=True, exist_ok=True)
        with only_one(outpath / LOCK, limit or 0.0), alone_on(folder, outpath, limit or 0.0):
            code = measure()
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


def _what_each_node(
    platform: Path,
    given: Sequence[str],
    outpath: Path,
    limit: float | None,
    rotation: NodeRotation,
    pairs: Sequence[tuple[str, ...]],
) -> EachNode:
    """Which nodes are measured, by what. Raises click.ClickException where nobody knows."""
    from npc.cron.each_node import EachNode
    from npc.cron.node_parts import asked_for, slurm_nodes, states_of
    from npc.cron.rotation import NodeNights, due_pairs
    from npc.hostlist import host_text
    from npc.jobs.scheduler import SchedulerUnavailable
    from npc.jobs.suite import benchmark_file, environment_of_settings
    from npc.places import suite

    home = suite()
    files = [benchmark_file(home, benchmark) for benchmark in rotation.benchmarks]
    words = [word for setting in given for word in ("--set", setting)]
    if not pairs:
        try:
            nodes = slurm_nodes(platform, words, rotation.only)
        except SchedulerUnavailable as problem:
            raise click.ClickException(f"Slurm does not say which nodes there are: {problem}") from None
        left_out: dict[str, list[str]] = {}
        for name, node in nodes.items():
            if not node.takes_jobs:
                left_out.setdefault(str(node), []).append(name)
        for state, names in left_out.items():
            click.echo(f"not measured: {host_text(names)}: {state}", err=True)
        pairs = [work.nodes for work in due_pairs(states_of(nodes), NodeNights(tonight=0), within=1)]
        if not pairs:
            raise click.ClickException("none of the nodes takes jobs")
    return EachNode(
        platform=platform,
        outpath=outpath,
        variables=environment_of_settings(home, platform, given, *files),
        partition=asked_for(platform, words, "queue"),
        reserved=bool(asked_for(platform, words, "reservation")),
        rotation=rotation,
        groups=pairs,
        limit_s=limit,
    )
