"""All benchmarks of a characterisation in one job, or in the allocation that this process is in.

JUBE makes the job scripts and submits none of them; one job runs them one after the other
(`npc.jobs.in_place`). JUBE and ``npc records wait`` see the same files as of a job each. What a job did not
come to before its end is measured by the next call that is the same.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
from collections.abc import Collection, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from npc import catalogue
from npc.catalogue.row import JOB_S
from npc.cron.costs import between_launches, jobs_of
from npc.errors import CommandFailed
from npc.files import parse_json, read_bytes, write_whole
from npc.jobs import in_place, session
from npc.jobs.allocation import JobAllocation, JobRequest, UnreadableScript
from npc.jobs.progress import Display
from npc.jobs.scheduler import Job
from npc.jobs.schedulers import KNOWN
from npc.jobs.stop import Stop
from npc.jobs.wait import WRITING_S, Patience, RunWait
from npc.jobs.workpackages import NoRun, Workpackage, find_run, read_workpackages
from npc.machine.command import last_line
from npc.python import python
from npc.records.units import format_duration, plural

#: In a run's folder: what was asked for, so that the same call is known again.
QUESTION: Final = "one_job.json"
#: In a run's folder: the script of the job, and what it printed.
SCRIPT: Final = "one_job.sh"
OUTPUT: Final = "one_job.out"
#: Runs from which it is known how long a script takes.
_EARLIER_RUNS: Final = 5
#: Of what is expected: others on the file system, slower nodes; and for the beginning and the end.
_MARGIN: Final = 2.0
_ENDS_S: Final = 120.0
#: A limit is a multiple of this: schedulers count in minutes, people in tens.
_STEP_S: Final = 600.0
_LOOK_S: Final = 0.5


class JobShape(NamedTuple):
    """What the one job asks for."""

    #: The program that submits it.
    submit: str
    #: As many nodes as the widest of its scripts.
    nodes: int
    #: As many CPUs of each as the script that takes most.
    cpus: int
    #: All further options of its scripts, a line each: partition, account, whole nodes.
    others: tuple[str, ...]


def note_question(run: Path, question: Mapping[str, object]) -> None:
    """Write down what a run was to measure."""
    write_whole(run / QUESTION, f"{_text(question)}\n")


def unfinished(outpath: Path, question: Mapping[str, object]) -> Path | None:
    """The newest run there, if it was to measure just this and has not come to all of it."""
    with contextlib.suppress(NoRun, OSError, ValueError):
        run = find_run(outpath)
        if _text(parse_json(read_bytes(run / QUESTION))) == _text(question):
            started = all(workpackage.started for workpackage in read_workpackages(run))
            return run if in_place.left(run) or not started else None
    return None


def job_goes_on(run: Path) -> bool:
    """Whether the job of what is left of a run has not ended, as far as its batch system answers."""
    jobs = jobs_of(filter(None, map(Workpackage.batch_job, in_place.left(run))))
    return any(not job.ended for job in jobs.values())


def go_on(run: Path, env: Mapping[str, str], stop: Stop, display: Display) -> None:
    """Make what is left of a run as if its job had not been ended, so that another one may run it."""
    for workpackage in in_place.left(run):
        workpackage.forget_end()
    if not all(workpackage.started for workpackage in read_workpackages(run)):
        RunWait(run, Patience(), env, stop, display).drive()


def submit(run: Path, env: Mapping[str, str]) -> str:
    """Submit the job for what is left of a run; a sentence on it. Raises CommandFailed."""
    workpackages = in_place.left(run)
    requests = _requests(workpackages)
    program = next(filter(None, map(Workpackage.submission, workpackages))).program
    shape = shape_of(requests.values(), program)
    system = in_place.KNOWN[shape.submit]
    limit_s, why = system.limit_s(env.get("NPC_TIMELIMIT", "")), "as it was set"
    if limit_s is None:
        limit_s, why = limit_of(run, workpackages, requests)
    lines = system.head(shape.nodes, shape.cpus, limit_s, run / OUTPUT, shape.others)
    command = shlex.join(python("-m", "npc.jobs.in_place", run))
    lines = [
        "#!/bin/bash",
        *lines,
        "# the job scripts of this run, one after the other",
        f"exec {command}",
        "",
    ]
    write_whole(run / SCRIPT, "\n".join(lines))
    words = [shape.submit, str(run / SCRIPT)]
    ended = subprocess.run(words, env=env, cwd=run, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    jobs = (scheduler.submitted(ended.stdout, shape.submit) for scheduler in KNOWN)
    job = next(filter(None, jobs), None)
    if ended.returncode or job is None:
        why = last_line(ended.stderr) or last_line(ended.stdout) or f"exit code {ended.returncode}"
        raise CommandFailed(f"the job for all benchmarks was not submitted ({shlex.join(words)}): {why}")
    number, cluster = job
    in_place.note_job(workpackages, f"{number} on cluster {cluster}" if cluster else str(number))
    return (
        f"one job, {number}, for {plural(len(workpackages), 'workpackage')}, one after the other, on "
        f"{plural(shape.nodes, 'node')}; its time limit is {format_duration(limit_s)}, {why} (another one: "
        "--set timelimit=HH:MM:SS)"
    )


def measure_here(run: Path, given: JobAllocation, wait: RunWait) -> None:
    """Measure what is left of a run on the nodes of this allocation, and what depends on it, until a stop."""
    before: list[int] = []
    while wait.stop.number is None and (workpackages := in_place.left(run)):
        numbers = [workpackage.number for workpackage in workpackages]
        if numbers == before:
            raise CommandFailed(f"{run}: nothing more can be measured in job {given.job}")
        before = numbers
        in_place.note_job(workpackages, given.job)
        job = Job(id=given.job, state="RUNNING", nodes=",".join(given.hosts))
        wait.jobs = dict.fromkeys(numbers, job)
        command = [*in_place.on_first_node(given), *python("-m", "npc.jobs.in_place", run)]
        process = subprocess.Popen(command, env=wait.env, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            while not wait.stop.wait_for(process, _LOOK_S) and wait.stop.number is None:
                wait.show(read_workpackages(run, WRITING_S))
        finally:
            session.end(process.pid, 2 * in_place.GRACE_S)
            process.wait()
        if wait.stop.number is None:
            wait.drive()  # not before: JUBE would take CPUs of the node that is measured
            wait.show(read_workpackages(run, WRITING_S))


def shape_of(requests: Collection[JobRequest], submit: str) -> JobShape:
    """What the one job asks for. Raises CommandFailed where scripts ask for different things.

    submit: the program that submits it.
    """
    others: dict[str, str] = {}
    for request in sorted(requests, key=lambda request: -request.nodes):
        for line in request.others:
            name = line.replace("=", " ").split()[0]
            if others.setdefault(name, line) != line:
                raise CommandFailed(
                    f"its benchmarks ask for {others[name]} and {line}: one job has one of them; a job each "
                    "without --one-job, or a call of each part by --tag"
                )
    nodes, cpus = (max(getattr(request, name) for request in requests) for name in ("nodes", "cpus_per_node"))
    return JobShape(submit, nodes, cpus, tuple(others.values()))


def limit_of(
    run: Path, workpackages: Sequence[Workpackage], requests: Mapping[int, JobRequest]
) -> tuple[float, str]:
    """The time limit (s) of a job for all, and why it is this. requests: by number of the workpackage."""
    earlier, expected_s = _earlier_seconds(run), 0.0
    known = sum(workpackage.step in earlier for workpackage in workpackages)
    for workpackage in workpackages:
        own_limit_s = requests[workpackage.number].limit_s
        expected_s += min(own_limit_s or inf, _expected_s(workpackage, earlier, own_limit_s))
    limit_s = _STEP_S * -(-(_MARGIN * expected_s + _ENDS_S) // _STEP_S)
    source = f"as {known} of them did in earlier runs" if known else "as the catalogue has it"
    return limit_s, f"twice what they take, {source}"


def _text(question: object) -> str:
    return json.dumps(question, sort_keys=True, indent=1)


def _requests(workpackages: Sequence[Workpackage]) -> dict[int, JobRequest]:
    requests = {}
    for workpackage in workpackages:
        try:
            requests[workpackage.number] = in_place.request_of(workpackage)
        except (OSError, UnreadableScript) as error:
            raise CommandFailed(f"{workpackage.name} cannot run in one job with others: {error}") from None
    return requests


def _expected_s(workpackage: Workpackage, earlier: Mapping[str, float], limit_s: float | None) -> float:
    """Seconds that a script takes: as in earlier runs, as the catalogue has it, else its own limit."""
    if workpackage.step in earlier:
        return earlier[workpackage.step]
    samples = workpackage.parameters.get("most_samples", "")
    for step in catalogue.steps():
        if step.name == workpackage.step and samples.isdecimal():
            return step.duration(int(samples)) / step.jobs
    return limit_s or _STEP_S


def _earlier_seconds(run: Path) -> dict[str, float]:
    """By step the most that a script of it took in the runs before this one, in s."""
    seconds: dict[str, float] = {}
    others = sorted(path for path in run.parent.glob("[0-9]" * 6) if path != run)
    for other in others[-_EARLIER_RUNS:]:
        with contextlib.suppress(NoRun):
            for workpackage in read_workpackages(other):
                took = in_place.seconds_of(workpackage) or between_launches(workpackage) + JOB_S
                if workpackage.done:
                    seconds[workpackage.step] = max(took, seconds.get(workpackage.step, 0.0))
    return seconds
