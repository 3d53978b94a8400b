"""The job scripts of a run, one after the other, in the allocation that this process is in.

``python -m npc.jobs.in_place RUN`` is what a job for all benchmarks runs. Each script gets the first nodes of the
allocation, as many as its head asks for, with the variables that a job of its own would have: its launchers
start there what they would start there. How each ended is noted at once, so that what is left can be run by
another job.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from npc.files import append_line, append_lines, parse_json, read_text
from npc.jobs import session, slurm_script
from npc.jobs.allocation import Allocation, JobRequest, UnreadableScript
from npc.jobs.scheduler import Job
from npc.jobs.stop import Stop
from npc.jobs.wait import WRITING_S, record_end
from npc.jobs.workpackages import EARLIER, Workpackage, read_workpackages
from npc.machine.fabric import short_name
from npc.records.units import format_duration

#: In a run's folder: a line for each script that has ended.
LOG: Final = "one_job.jsonl"
#: As long as Slurm gives them (KillWait, slurm.conf(5)).
GRACE_S: Final = 30.0
#: The batch systems whose job scripts can be run in place, by the program that submits them.
KNOWN: Final[Mapping[str, ModuleType]] = {system.SUBMIT: system for system in (slurm_script,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnd:
    """A line of the `LOG`: a script that ended by itself, well or not."""

    #: Number of its workpackage.
    workpackage: int
    #: Its benchmark's step.
    step: str
    #: The job in which it ran.
    job: str
    #: How long it took, in s.
    seconds: float


def allocation_here(submit: str, env: Mapping[str, str] = os.environ) -> Allocation | None:
    """That of the job that this process is in, of the batch system that has `submit`; None outside of one."""
    given: Allocation | None = KNOWN[submit].allocation(env) if submit in KNOWN else None
    return given


def request_of(workpackage: Workpackage) -> JobRequest:
    """What its job script asks for. Raises `UnreadableScript`."""
    submission = workpackage.submission()
    if submission is None or submission.program not in KNOWN:
        raise UnreadableScript("its platform does not submit a job script by " + " or ".join(KNOWN))
    text = read_text(submission.script, "replace")
    wanted: JobRequest = KNOWN[submission.program].request(text, submission.words)
    return wanted


def ends(run: Path) -> list[ScriptEnd]:
    """The scripts of a run that ended in a job for all, in their order; a damaged line is passed over."""
    lines = list[ScriptEnd]()
    with contextlib.suppress(OSError):
        for line in read_text(run / LOG, "replace").splitlines():
            with contextlib.suppress(ValueError, TypeError):
                lines.append(ScriptEnd(**parse_json(line.encode())))
    return lines


def left(run: Path) -> list[Workpackage]:
    """The workpackages of a run whose scripts have not ended by themselves, in their order."""
    ended = {end.workpackage for end in ends(run)}
    return [
        workpackage
        for workpackage in read_workpackages(run, WRITING_S)
        if workpackage.started and not workpackage.done and workpackage.number not in ended
    ]


def note_job(workpackages: Collection[Workpackage], job: str) -> None:
    """Write down that these are measured by a job, in the words of a submission of their own."""
    for workpackage in workpackages:
        if submission := workpackage.submission():
            append_lines(workpackage.stdout(), KNOWN[submission.program].submitted(job) + "\n")


def run_scripts(run: Path, given: Allocation, stop: Stop) -> None:
    """Run all scripts that are left, until a stop."""
    for workpackage in left(run):
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
        taken_s = round(time.monotonic() - begun, 3)
        end = ScriptEnd(
            workpackage=workpackage.number, step=workpackage.step, job=given.job, seconds=taken_s
        )
        append_line(run / LOG, asdict(end))


def _run_script(workpackage: Workpackage, given: Allocation, stop: Stop) -> str:
    """Run a script to its end, its limit, or a stop; why it failed, empty where its done file is there."""
    submission, wanted = workpackage.submission(), request_of(workpackage)
    assert submission is not None
    if why := given.lacks(wanted):
        return f"unavailable: {why}"
    folder = submission.script.parent
    env = KNOWN[submission.program].variables(wanted, given, workpackage.folder, os.environ)
    with _outputs(folder, wanted, given.job) as (out, err):
        process = subprocess.Popen(
            [*_interpreter(submission.script), str(submission.script)],
            cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
        ended = stop.wait_for(process, wanted.limit_s or float("inf"))
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
        files = [opened.enter_context(open(folder / name, "ab")) for name in names]
        yield files[0].fileno(), files[1].fileno()


def _interpreter(script: Path) -> list[str]:
    """The program of a script's first line, with its arguments."""
    first = read_text(script, "replace").partition("\n")[0]
    return first[2:].split() if first.startswith("#!") else ["/bin/sh"]


def _note_failure(workpackage: Workpackage, status: str, given: Allocation) -> None:
    """Record why it failed, and tell JUBE in its own way."""
    nodes = given.hosts[: workpackage.asked_nodes()]
    reason = record_end(workpackage, status, ",".join(nodes))
    error_file = workpackage.told_by("error_file") or workpackage.folder / "error"
    if not error_file.exists():
        error_file.write_text(f"{reason}\n")


def main() -> None:
    """See the module's text."""
    run = Path(sys.argv[1])
    systems = (system.allocation(os.environ) for system in KNOWN.values())
    given = next(filter(None, systems), None)
    if given is None:
        raise SystemExit("npc.jobs.in_place: this process is in no job of a batch system that is known")
    here = os.uname().nodename
    if short_name(here) != short_name(given.hosts[0]):
        raise SystemExit(f"npc.jobs.in_place: {here} is not the first node of job {given.job}")
    with Stop().listening() as stop:
        run_scripts(run, given, stop)
        if stop.number is not None:
            raise SystemExit(128 + stop.number)


if __name__ == "__main__":
    main()
