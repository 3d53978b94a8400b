"""What ``npc characterise --each-node`` does: a run with a job for every node, and one for every two of them.

JUBE prepares each benchmark once; `npc.jobs.node_jobs` makes the run of it, and the waiting submits its jobs.
"""

from __future__ import annotations

import contextlib
import math
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from npc.cron.characterise import exit_code, next_id, step
from npc.cron.matrix import PAIRS
from npc.cron.node_parts import NodeRotation, odd_nodes
from npc.files import InvalidFile, no_link, read_end
from npc.jobs import jube, slurm, wait
from npc.jobs.allocation import UnreadableScript
from npc.jobs.in_place import nothing_submitted
from npc.jobs.node_jobs import NODELIST, PREPARED_RUNS, JobKind, write_run
from npc.jobs.progress import Display
from npc.jobs.scheduler import SchedulerUnavailable
from npc.jobs.stop import Stop
from npc.jobs.suite import benchmark_file, environment_from_here
from npc.jobs.workpackages import Workpackage, read_workpackages
from npc.places import own, shown, suite, workplace
from npc.records.run import RECORDS, WORKPACKAGES, read_run
from npc.records.units import plural

#: Waiting ends when no job has run, begun or ended for so many times a job's time limit.
IDLE: Final = 2.0
#: The least time between two questions to Slurm (s), and what each job in the queue at once adds to it: an
#: answer about a thousand of them is long.
_LEAST_S: Final = 2.0
_ASK_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class EachNode:
    """What is to be measured."""

    #: The platform's folder.
    platform: Path
    #: The folder of runs.
    outpath: Path
    #: The settings that were given, as variables of JUBE's environment.
    variables: Mapping[str, str]
    #: The partition; empty for Slurm's default.
    partition: str
    #: Whether the jobs ask for a reservation.
    reserved: bool
    #: The benchmarks of a node, and how many jobs may be in the queue at once.
    rotation: NodeRotation
    #: Names of the nodes by twos, or alone where there is no second.
    groups: Sequence[tuple[str, ...]]
    #: How long to wait for the jobs in all, in s; None: until nothing goes on any more.
    limit_s: float | None


def measure_each_node(what: EachNode) -> int:
    """Measure the nodes, collect, say what was not measured; the exit code, as of ``npc characterise``.

    Raises click.ClickException where no job can be made.
    """
    begun = time.monotonic()
    run = what.outpath / f"{next_id(what.outpath):06d}"
    run.mkdir(parents=True)
    env = environment_from_here({"NPC_DEPENDENCY": "none", **what.variables})
    ending: wait.Ending | signal.Signals = wait.Ending.ALL_ENDED
    with Stop().listening() as stop, contextlib.closing(Display()) as display:
        try:
            longest_s = _write_run(what, run, env, stop)
            patience = wait.Patience(
                limit_s=what.limit_s,
                least_s=_LEAST_S + _ASK_S * min(what.rotation.at_once, len(what.groups)),
                idle_s=IDLE * longest_s if what.limit_s is None else None,
            )
            ending, _ = wait.wait_for(run, patience, env, stop, display)
        except FileNotFoundError as error:
            raise click.ClickException(wait.missing(error)) from None
        except (InvalidFile, UnreadableScript) as error:
            raise click.ClickException(f"{error} ({run / PREPARED_RUNS})") from None
        if stop.number:
            ending = signal.Signals(stop.number)
    named = shown(run)
    step("doctor", "--environment", "--output", str(run / "environment.json"))
    step("records", "collect", named)
    records = read_run(run) if (run / RECORDS).exists() else []
    for line in (*_failures(read_workpackages(run, wait.WRITING_S)), *odd_nodes([run])):
        click.echo(line, err=line.startswith("not measured"))
    click.echo(f"run: {named}   {time.monotonic() - begun:.0f} s")
    if records:
        click.echo(f"next: {own('npc')} report {shlex.quote(named)}   everything on one page")
    if ending is not wait.Ending.ALL_ENDED:
        return _unfinished(run, ending)
    return exit_code(records, 0)


def _write_run(what: EachNode, run: Path, env: Mapping[str, str], stop: Stop) -> float:
    """Prepare the benchmarks and write the run of their jobs; the longest time limit of these (s)."""
    home = suite()
    files = [benchmark_file(home, name) for name in what.rotation.benchmarks]
    prepared = tuple(_prepare(file, run, what.platform, env, stop) for file in files)
    nodes = dict.fromkeys(node for group in what.groups for node in group)
    kinds = [JobKind(prepared=prepared, groups=tuple((node,) for node in nodes))]
    if pairs := tuple(group for group in what.groups if len(group) == 2):
        of_pairs = {**env, "NPC_PAIRS_NODES": "2"}
        test = _prepare(home / PAIRS, run, what.platform, of_pairs, stop)
        kinds.append(JobKind(prepared=(test,), groups=pairs))
    longest_s = math.inf
    with contextlib.suppress(SchedulerUnavailable):
        longest_s = slurm.longest_job_s(what.partition)
    return write_run(run, kinds, what.rotation.at_once, what.reserved, longest_s)


def _prepare(file: Path, run: Path, platform: Path, env: Mapping[str, str], stop: Stop) -> Path:
    """Have JUBE make a benchmark's job scripts; the folder of its run."""
    place = run / PREPARED_RUNS
    place.mkdir(exist_ok=True)
    prepared = place / f"{next_id(place):06d}"
    log_path = place / f"jube-{prepared.name}.log"
    words = ["run", str(file), "--hide-animation", "--outpath", str(place), "--id", str(int(prepared.name))]
    words += ["--include-path", str(platform)]
    with nothing_submitted(env) as quiet, open(log_path, "wb", opener=no_link) as log:
        jube.call(words, cwd=workplace(), env=quiet, log=log, stop=stop)
    if stop.number:
        click.echo("stopped before anything was measured", err=True)
        sys.exit(128 + stop.number)
    if not (prepared / WORKPACKAGES).exists():
        tail = "\n".join(read_end(log_path).splitlines()[-5:])
        raise click.ClickException(f"JUBE started nothing ({log_path}); its last words:\n{tail}")
    return prepared


def _failures(workpackages: Sequence[Workpackage]) -> Iterator[str]:
    """What was not measured, and why: a line for what one job did not measure for one reason."""
    steps: dict[tuple[str, str], list[str]] = {}
    for workpackage in workpackages:
        if workpackage.failed:
            nodes = workpackage.parameters.get(NODELIST, "")
            steps.setdefault((nodes, workpackage.reason()), []).append(workpackage.step)
    for (nodes, reason), names in steps.items():
        yield f"not measured: {nodes}: {', '.join(names)}: {reason}"


def _unfinished(run: Path, ending: wait.Ending | signal.Signals) -> int:
    """Say what of a run is left, and how it goes on; the exit code."""
    workpackages = read_workpackages(run, wait.WRITING_S)
    queued = {workpackage.batch_job() for workpackage in workpackages if workpackage.is_open} - {None}
    left = {workpackage.parameters[NODELIST] for workpackage in workpackages if not workpackage.started}
    parts = [f"{plural(len(queued), 'job')} in the queue"] if queued else []
    parts += [f"{plural(len(left), 'job')} not submitted"] if left else []
    stopped = isinstance(ending, signal.Signals)
    why = f"stopped by {ending.name}" if stopped else str(ending.value)
    text = "; ".join([f"{why}: what had been measured is collected", *([", ".join(parts)] if parts else [])])
    named = shown(run)
    click.echo(f"{text}; to go on: npc records wait {named}; npc records collect {named}", err=True)
    return 128 + ending if isinstance(ending, signal.Signals) else wait.EXIT_UNFINISHED
