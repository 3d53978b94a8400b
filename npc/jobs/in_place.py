"""The job scripts of a run, one after the other, in the allocation that this process is in.

``python -m npc.jobs.in_place RUN [NUMBER...]`` is what a job for several benchmarks runs: all workpackages
that are left, or those with these numbers. Each script gets the first nodes of the allocation, as many as its
head asks for, with the variables that a job of its own would have: its launchers start there what they would
start there. How each ended is noted at once, so that what is left can be run by another job.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

from npc.files import append_lines, no_link, parse_json, read_text, write_whole
from npc.jobs import session, slurm_script
from npc.jobs.allocation import JobAllocation, JobRequest, UnreadableScript
from npc.jobs.scheduler import Job
from npc.jobs.stop import Stop
from npc.jobs.wait import WRITING_S, record_end
from npc.jobs.workpackages import EARLIER, IN_ANOTHER_JOB, SCRIPT_END, Workpackage, read_workpackages
from npc.machine.fabric import short_name
from npc.records.launch import LAUNCHES
from npc.records.units import format_duration
from npc.terminal import guard

#: As long as Slurm gives them (KillWait, slurm.conf(5)).
GRACE_S: Final = 30.0
#: The batch systems whose job scripts can be run in place, by the program that submits them.
KNOWN: Final[Mapping[str, ModuleType]] = {system.SUBMIT: system for system in (slurm_script,)}


#: Takes the place of the program that submits.
_SUBMITS_NOTHING: Final = f"#!/bin/sh\necho '{IN_ANOTHER_JOB}'\n"


@contextlib.contextmanager
def nothing_submitted(env: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """An environment in which JUBE makes its job scripts, and what it submits them by submits nothing."""
    with tempfile.TemporaryDirectory(prefix="npc-submit-") as folder:
        for program in KNOWN:
            path = Path(folder, program)
            write_whole(path, _SUBMITS_NOTHING)
            path.chmod(0o755)
        yield {**env, "PATH": f"{folder}:{env.get('PATH', os.defpath)}"}


def allocation_here(submit: str, env: Mapping[str, str] = os.environ) -> JobAllocation | None:
    """That of the job that this process is in, of the batch system that has `submit`; None outside of one."""
    given: JobAllocation | None = KNOWN[submit].allocation(env) if submit in KNOWN else None
    return given


def on_first_node(given: JobAllocation) -> list[str]:
    """What stands before a command that is to run on an allocation's first node; nothing on that node."""
    words: list[str] = next(
        system.on_first_node(given) for system in KNOWN.values() if system.allocation(os.environ)
    )
    return words


def request_of(workpackage: Workpackage) -> JobRequest:
    """What its job script asks for. Raises `UnreadableScript`."""
    submission = workpackage.submission()
    if submission is None or submission.program not in KNOWN:
        raise UnreadableScript("its platform does not submit a job script by " + " or ".join(KNOWN))
    text = read_text(submission.script, "replace")
    wanted: JobRequest = KNOWN[submission.program].request(text, submission.words)
    return wanted


def seconds_of(workpackage: Workpackage) -> float | None:
    """How long its script took in a job for several (s); None where it has not ended by itself in one."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return float(parse_json((workpackage.folder / SCRIPT_END).read_bytes())["seconds"])
    return None


def left(run: Path, numbers: Collection[int] = ()) -> list[Workpackage]:
    """The workpackages of a run whose scripts have not ended by themselves, in their order; only those with
    these numbers, if any are given: a thousand nodes that look at all of a run's would stop its file system.
    """
    workpackages = read_workpackages(run, WRITING_S)
    return [
        workpackage
        for workpackage in workpackages
        if (not numbers or workpackage.number in numbers)
        and workpackage.started
        and not workpackage.done
        and not (workpackage.folder / SCRIPT_END).exists()
    ]


def note_job(workpackages: Iterable[Workpackage], job: str) -> None:
    """Write down that these are measured by a job, in the words of a submission of their own."""
    for workpackage in workpackages:
        if submission := workpackage.submission():
            append_lines(workpackage.stdout(), KNOWN[submission.program].submitted(job) + "\n")


def run_scripts(workpackages: Iterable[Workpackage], given: JobAllocation, stop: Stop) -> None:
    """Run their scripts one after the other, until a stop."""
    for workpackage in workpackages:
        if stop.number is not None:
            return
        begun = time.monotonic()
        try:
            status = _run_script(workpackage, given, stop)
        except (OSError, UnreadableScript) as error:
            status = f"failed: its job script cannot be run: {error}"
        if stop.number is not None:  # who ended this job tells why its workpackages have no more launches
            return
        if status:
            _note_failure(workpackage, status, given)
        end = {"job": given.job, "seconds": round(time.monotonic() - begun, 3)}
        write_whole(workpackage.folder / SCRIPT_END, json.dumps(end) + "\n")


def _set_aside(workpackage: Workpackage) -> None:
    """Move what an earlier job measured before it was ended to another folder: a script makes its own."""
    work = workpackage.folder / "work"
    for log in sorted(work.glob(f"*/{LAUNCHES}")):
        number = len(list(work.glob(f"{EARLIER}/*")))
        place = work / EARLIER / str(number) / log.parent.name
        place.parent.mkdir(parents=True)
        log.parent.rename(place)


def _run_script(workpackage: Workpackage, given: JobAllocation, stop: Stop) -> str:
    """Run a script to its end, its limit, or a stop; why it failed, empty where its done file is there."""
    submission, wanted = workpackage.submission(), request_of(workpackage)
    assert submission is not None
    if why := given.lacks(wanted):
        return f"unavailable: {why}"
    _set_aside(workpackage)
    folder = submission.script.parent
    env = KNOWN[submission.program].variables(wanted, given, workpackage.folder, os.environ)
    with _outputs(folder, wanted, given.job) as (out, err):
        process = subprocess.Popen(
            [*_interpreter(submission.script), str(submission.script)],
            cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
        # a limit that the user sets is that of the job for all
        own_limit_s = None if os.environ.get("NPC_TIMELIMIT") else wanted.limit_s
        ended = stop.wait_for(process, own_limit_s or math.inf)
        session.end(process.pid, GRACE_S)
        code = process.wait()
    done_file = workpackage.told_by("done_file")
    if ended and done_file is not None and done_file.exists():
        return ""
    if not ended:
        limit = format_duration(wanted.limit_s or 0.0)
        return f"timeout: in job {given.job} it hit its own time limit of {limit}"
    if code == 0:
        return f"failed: its script ended with exit code 0, but never wrote {done_file and done_file.name}"
    killer = max(0, -code)
    nodes = ",".join(given.hosts[: wanted.nodes])
    return Job(id=given.job, state="FAILED", exit_code=code, signal=killer, nodes=nodes).ending()


@contextlib.contextmanager
def _outputs(folder: Path, wanted: JobRequest, job: str) -> Iterator[tuple[int, int]]:
    """Descriptors of the files that a script prints to, as its head names them."""
    with contextlib.ExitStack() as opened:
        names = [name.replace("%j", job) for name in (wanted.output, wanted.error or wanted.output)]
        files = [opened.enter_context(open(folder / name, "ab", opener=no_link)) for name in names]
        yield files[0].fileno(), files[1].fileno()


def _interpreter(script: Path) -> list[str]:
    """The program of a script's first line, with its arguments."""
    first = read_text(script, "replace").partition("\n")[0]
    return first[2:].split() if first.startswith("#!") else ["/bin/sh"]


def _note_failure(workpackage: Workpackage, status: str, given: JobAllocation) -> None:
    """Record why it failed, and tell JUBE in its own way."""
    nodes = given.hosts[: workpackage.asked_nodes()]
    record_end(workpackage, status, ",".join(nodes))
    error_file = workpackage.told_by("error_file") or workpackage.folder / "error"
    if not error_file.exists():
        write_whole(error_file, f"{workpackage.recorded_reason()}\n")


def main() -> None:
    """See the module's text."""
    guard()
    run, numbers = Path(sys.argv[1]), {int(word) for word in sys.argv[2:]}
    systems = (system.allocation(os.environ) for system in KNOWN.values())
    given = next(filter(None, systems), None)
    if given is None:
        raise SystemExit("npc.jobs.in_place: this process is in no job of a batch system that is known")
    here = os.uname().nodename
    if short_name(here) != short_name(given.hosts[0]):
        raise SystemExit(f"npc.jobs.in_place: {here} is not the first node of job {given.job}")
    with Stop().listening() as stop:
        run_scripts(left(run, numbers), given, stop)
        if stop.number is not None:
            raise SystemExit(128 + stop.number)


if __name__ == "__main__":
    main()
