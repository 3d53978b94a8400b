"""What ``npc records wait`` does: drives ``jube continue`` until every workpackage has ended, however its
job ended.

JUBE looks for the files that a job writes at its end and nothing else: a job that was cancelled, hit its
limit or lost its node stays RUNNING for ever. So the batch system is asked, and what it says is told to JUBE
in JUBE's own way, by the ``<do>``'s ``error_file``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from npc import locks
from npc.errors import CommandFailed
from npc.files import no_link, read_bytes, read_end, write_whole
from npc.jobs import jube, jube_state, slurm
from npc.jobs.node_jobs import JobWindow, NodeJobs, read_node_jobs
from npc.jobs.progress import Display, WorkpackageRow, row_of
from npc.jobs.scheduler import Job, JobId, SchedulerUnavailable
from npc.jobs.schedulers import KNOWN
from npc.jobs.stop import Stop
from npc.jobs.workpackages import ON_NODES, REASON, BatchJob, NoRun, Workpackage, read_workpackages
from npc.machine.fabric import expand

EXIT_NOTHING: Final = 1
EXIT_UNFINISHED: Final = 5
EXIT_PARTLY: Final = 6
#: JUBE's own words of what it did meanwhile.
LOG: Final = "jube.log"
#: Seconds until what a job wrote last is seen from here: network file systems keep attributes for
#: 3 to 60 s (nfs(5), acregmin and acdirmax).
SETTLE_S: Final = 10.0
#: JUBE writes its ``workpackages.xml`` in less.
WRITING_S: Final = 3.0
#: How long ``jube continue`` may go on after a stop: it may just be submitting a job.
FINISH_S: Final = 3.0
#: Factor from one wait between two questions to the batch system to the next, while nothing changes.
_GROWTH: Final = 1.5
#: How often the files are looked at by which jobs say that they are done.
LOOK_S: Final = 0.5
#: Lines of the job's own output that are kept with the reason, from its end.
_LAST_LINES: Final = 20


class Ending(enum.Enum):
    """Why waiting is over."""

    ALL_ENDED = "all ended"
    GAVE_UP = "the limit is over"
    STOPPED = "stopped"
    STALLED = "no job has begun or ended for too long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for jobs, and how often to ask for them."""

    #: How long to wait in all, in s; None: without end.
    limit_s: float | None = None
    #: Least time from one question to the batch system to the next, in s; so it is after a change.
    least_s: float = 2.0
    #: Most time from one question to the next, in s; it grows to this while nothing changes.
    most_s: float = 60.0
    #: How long to wait while no job runs, begins or ends, in s; None: without end.
    idle_s: float | None = None
    #: How long after its submission a job that can never start is given up, in s.
    pending_s: float = 300.0


@dataclass(slots=True)
class RunWait:
    """What is known of the jobs of one run, between one question to the batch system and the next."""

    #: Folder of the run.
    run: Path
    #: How long to wait, and how often to ask.
    patience: Patience
    #: The environment of ``jube continue``.
    env: Mapping[str, str]
    #: Tells when a signal asks for the end of the waiting.
    stop: Stop
    #: Shows people how far the run is.
    display: Display
    #: Its jobs, where they are submitted here; None where JUBE does that.
    node_jobs: NodeJobs | None = None
    #: When to give up, by Python's monotonic clock in s; infinite: never.
    deadline: float = math.inf
    #: Which batch system does not answer, and its words; empty if all do.
    silent: str = ""
    #: Who else has JUBE at work on this run, so that it cannot go on here; empty if nobody.
    busy: str = ""
    #: Number of a workpackage → its job, by the last answer about it.
    jobs: dict[int, Job] = field(default_factory=dict)
    #: Numbers of workpackages whose job the batch system does not know any more.
    unknown: set[int] = field(default_factory=set)
    #: Number of a workpackage → how many answers in a row said that its job can never start.
    _never: dict[int, int] = field(default_factory=dict)
    #: Number of a workpackage → since when its job or script is over without a done file (monotonic, s).
    _settling: dict[int, float] = field(default_factory=dict)
    #: Numbers of workpackages that were shown when they had ended.
    _shown: set[int] = field(default_factory=set)
    #: How many jobs of this run were in the queue when it took no more; 0 before that.
    _most_jobs: int = 0
    #: Rows of those that are being submitted again, as they were before: number of a workpackage → row.
    _submitting: dict[int, WorkpackageRow] = field(default_factory=dict)
    #: When one more is submitted all the same (monotonic, s), as the limit may count other jobs, too.
    _next_try: float = 0.0

    def ask(self, workpackages: Sequence[Workpackage]) -> None:
        """One question about all jobs whose end is not known; what was known stays where Slurm is silent."""
        wanted = {
            workpackage.number: job for workpackage in workpackages if (job := _job_to_ask(workpackage))
        }
        self.silent = ""
        for scheduler, cluster in dict.fromkeys((job.scheduler, job.cluster) for job in wanted.values()):
            jobs_there = {
                number: job
                for number, job in wanted.items()
                if (job.scheduler, job.cluster) == (scheduler, cluster)
            }
            try:
                answer = scheduler.ask(
                    {job.number for job in jobs_there.values()}, cluster, self._has_no_time
                )
            except SchedulerUnavailable as words:
                self.silent = f"{scheduler.NAME} does not answer, asking again: {words}"
                continue
            for number, job in jobs_there.items():
                if job.number in answer:
                    self.jobs[number] = answer[job.number]
                    self.unknown.discard(number)
                else:
                    self.jobs.pop(number, None)
                    self.unknown.add(number)
        for number, job_state in self.jobs.items():
            self._never[number] = self._never.get(number, 0) + 1 if job_state.never_starts else 0
            if not job_state.ended:
                self._settling.pop(number, None)

    def _has_no_time(self) -> bool:
        return self.stop.number is not None or time.monotonic() >= self.deadline

    def lives(self, workpackage: Workpackage) -> bool:
        """Whether its job may still do something for it; one job may have the scripts of several."""
        job, done_file = self.jobs.get(workpackage.number), workpackage.told_by("done_file")
        if job is None or job.ended or workpackage.recorded_reason():
            return False
        return done_file is None or not _is_there(done_file)

    def needs_jube(self, workpackages: Sequence[Workpackage]) -> bool:
        """Whether ``jube continue`` could do something. Not while Slurm is silent: it might submit."""
        if self.silent:
            return False
        return (
            self.node_jobs is not None
            or any(
                not self.lives(workpackage) or self._gives_up(workpackage) or workpackage.starts_nothing()
                for workpackage in workpackages
                if workpackage.is_open and not workpackage.submit_limit
            )
            or bool(self._to_submit_again(workpackages))
            or not any(workpackage.is_open for workpackage in workpackages)
        )

    def _in_queue(self, workpackages: Sequence[Workpackage]) -> int:
        """How many of its jobs count for a limit on submitted jobs."""
        return sum(
            workpackage.is_open
            and not workpackage.submit_limit
            and not ((job := self.jobs.get(workpackage.number)) and job.ended)
            for workpackage in workpackages
        )

    def _to_submit_again(self, workpackages: Sequence[Workpackage]) -> list[Workpackage]:
        """Those that the batch system refused, as many as have left the queue since."""
        refused = [workpackage for workpackage in workpackages if workpackage.submit_limit]
        free = self._most_jobs - self._in_queue(workpackages)
        return refused[: max(1, free)] if free > 0 or time.monotonic() >= self._next_try else []

    def _note_refusals(self, submitted: Sequence[Workpackage]) -> None:
        """Remember how many jobs the queue takes, where it has not taken all of these."""
        refused = any(workpackage.submit_limit for workpackage in submitted)
        self._submitting.clear()
        self._next_try = time.monotonic() + self.patience.most_s if refused else 0.0
        if refused:
            self._most_jobs = self._in_queue(read_workpackages(self.run, WRITING_S))

    def drive(self) -> bool:
        """Tell JUBE what it cannot see, and let it go on. False if that was not done to the end: somebody
        else does it just now, or it was stopped."""
        self.busy = ""
        try:
            with locks.only_one(self.run / jube.LOCK) as lock:
                if (pid := jube.at_work(self.run)) is not None:
                    raise locks.LockHeld(f"process {pid} on this machine")
                marked = []
                workpackages = read_workpackages(self.run, WRITING_S)
                submitted = self._to_submit_again(workpackages)
                self._submitting = {workpackage.number: row_of(workpackage) for workpackage in submitted}
                for workpackage in submitted:
                    workpackage.submit_again()
                for workpackage in workpackages:
                    workpackage.note_submission()
                    self._void_marks_if_requeued(workpackage)
                    marked += [workpackage] if self._mark(workpackage) else []
                whole = self._submit_next() if self.node_jobs else self._continue(lock.descriptor)
                self._note_refusals(submitted)
                for workpackage in marked:
                    if workpackage.done:  # just before its job was ended
                        (workpackage.folder / REASON).unlink(missing_ok=True)
                    elif workpackage.is_open:
                        # it has no error file, or another one than JUBE looks for: JUBE's own mark
                        write_whole(workpackage.folder / "error", workpackage.recorded_reason() + "\n")
        except locks.LockHeld as who:
            self.busy = f"JUBE is working on this run for somebody else ({who})"
            return False
        return whole

    def rows(self, workpackages: Sequence[Workpackage]) -> list[WorkpackageRow]:
        """The workpackages with what is known of their jobs. A job runs its scripts one after the other."""
        rows, at_work = list[WorkpackageRow](), set[JobId]()
        for workpackage in workpackages:
            if workpackage.number in self._submitting and not workpackage.batch_job():
                rows.append(self._submitting[workpackage.number])
                continue
            job = self.jobs.get(workpackage.number)
            row = row_of(workpackage, job)
            if job and row.state == "running":
                if job.id in at_work:
                    row = dataclasses.replace(row, state="waiting")
                at_work.add(job.id)
            rows.append(row)
        return rows

    def show(self, workpackages: Sequence[Workpackage]) -> None:
        """The table, or what has changed; of a job for every node what is in the queue, or just left it."""
        title = self.silent or self.busy
        if self.node_jobs:
            ended = [one.number for one in workpackages if one.done or one.failed]
            counts = f"{len(ended)} of {len(workpackages)} ended"
            title = f"{counts}; {title}" if title else counts
            workpackages = [one for one in workpackages if one.started and one.number not in self._shown]
            self._shown.update(ended)
        self.display.show(self.rows(workpackages), title)

    def _submit_next(self) -> bool:
        """Submit what may be in the queue now; True, as JUBE has nothing more to do."""
        assert self.node_jobs is not None
        window = JobWindow(self.run, self.node_jobs, self.env)
        self.busy = window.go_on(read_workpackages(self.run), self.jobs, self._has_no_time)
        return True

    def mend(self) -> None:
        """Put back the last whole state where somebody's JUBE left a part of it."""
        try:
            read_workpackages(self.run, WRITING_S)
        except NoRun:
            with contextlib.suppress(locks.LockHeld), locks.only_one(self.run / jube.LOCK):
                if jube.at_work(self.run) is None:
                    self._restore()

    def _restore(self) -> None:
        for sentence in jube_state.restore(self.run):
            self.display.note(sentence)

    def _continue(self, lock: int) -> bool:
        """``jube continue``; whether it ran to its end."""

        def tick() -> None:
            try:
                self.show(read_workpackages(self.run))
            except NoRun:  # JUBE is writing it
                return

        words = ["continue", str(self.run.parent), "--id", str(int(self.run.name)), "--hide-animation"]
        with open(self.run / LOG, "ab", opener=no_link) as log:
            place = log.tell()
            code = jube.call(
                words, cwd=self.run.parent, env=self.env, log=log, stop=self.stop,
                patience_s=FINISH_S, deadline=self.deadline, tick=tick, keep=[lock], run=self.run,
            )  # fmt: skip
        self._restore()
        if code and self._has_no_time():
            return False
        if code:
            lines = read_bytes(self.run / LOG)[place:].decode(errors="replace").strip().splitlines()
            tail = "\n".join(lines[-5:])
            raise CommandFailed(f"jube {' '.join(words)} failed ({self.run / LOG}):\n{tail}")
        return True

    def _void_marks_if_requeued(self, workpackage: Workpackage) -> None:
        """What the first execution of a job left when it was stopped says nothing about the second."""
        job = self.jobs.get(workpackage.number)
        if workpackage.done or workpackage.recorded_reason():
            return
        if job and job.restarts and (not job.ended or job.state == "COMPLETED"):
            for path in (workpackage.told_by("error_file"), workpackage.folder / "error"):
                if path is not None:
                    path.unlink(missing_ok=True)

    def _mark(self, workpackage: Workpackage) -> bool:
        """Record why a workpackage failed, and write its error file; whether JUBE has yet to see it."""
        if workpackage.done or not workpackage.started or workpackage.recorded_reason():
            return False
        if workpackage.submit_limit:
            return False
        job = self.jobs.get(workpackage.number)
        if workpackage.failed:
            if job and job.ended and job.state != "COMPLETED":
                record_end(workpackage, _ending(job), job.nodes)
            return False
        reason = self._verdict(workpackage, job)
        if not reason:
            return False
        record_end(workpackage, reason, job.nodes if job else "")
        error_file = workpackage.told_by("error_file")
        if error_file is not None and error_file.parent.is_dir() and not error_file.exists():
            write_whole(error_file, f"{reason}\n")
        return True

    def _verdict(self, workpackage: Workpackage, job: Job | None) -> str:
        """Why an open workpackage has failed; empty while it has not, and where JUBE will see it done."""
        done_file = workpackage.told_by("done_file")
        if done_file is not None and _is_there(done_file):
            return ""
        if nothing := workpackage.starts_nothing():
            return nothing + jube_state.cancelled(workpackage)
        if job is not None and not job.ended:
            if not self._gives_up(workpackage):
                return ""
            batch_job = workpackage.batch_job() or BatchJob(job.id)
            try:
                batch_job.scheduler.cancel(job.id, batch_job.cluster)
            except SchedulerUnavailable as words:
                return f"failed: job {job.id} can never start ({job.reason}), and is still queued: {words}"
            return f"failed: job {job.id} could never start ({job.reason}), so it was cancelled"
        if job is not None and job.state != "COMPLETED":
            return _ending(job)
        named = workpackage.batch_job()
        if named is not None and job is None and workpackage.number not in self.unknown:
            return ""  # submitted since Slurm was asked
        if named is None and not (workpackage.pending_do() and workpackage.submitted_by_a_shell()):
            return ""  # still to be started; or a batch system that is not known: its files are all there is
        settles_s = max(SETTLE_S, named.scheduler.SETTLE_S if named is not None and job is None else 0.0)
        if time.monotonic() - self._settling.setdefault(workpackage.number, time.monotonic()) < settles_s:
            return ""
        if job is not None:
            how = f"job {job.id} ended with exit code 0"
        elif named is not None:
            return f"failed: {named.scheduler.GONE.format(named.number)}"
        else:
            how = "its script ended with exit code 0"
        return f"failed: {how}, but never wrote {done_file.name if done_file else 'its done file'}"

    def _gives_up(self, workpackage: Workpackage) -> bool:
        """Whether its job has pended long enough for a reason that does not go away. One question may show
        what the next does not: Slurm finds a reason anew in each of its passes."""
        job = self.jobs.get(workpackage.number)
        return (
            job is not None
            and self._never.get(workpackage.number, 0) > 1
            and job.age_s(datetime.now()) >= self.patience.pending_s
        )

    def rest(self, workpackages: Sequence[Workpackage], seconds: float) -> bool:
        """Sleep until it is time to ask again, or a stop; shorter, and True, where a job says meanwhile by
        its done file that it is done: Slurm is to be asked seldom, a file may be looked at often."""
        files = [workpackage.told_by("done_file") for workpackage in workpackages if workpackage.is_open]
        awaited = [file for file in files if file is not None and not _is_there(file)]
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.stop.wait(min(left, LOOK_S)):
            if any(map(_is_there, awaited)):
                return True
        return False

    def settling(self) -> bool:
        """Whether something will be decided soon."""
        return any(time.monotonic() - since < SETTLE_S for since in self._settling.values()) or any(
            count == 1 for count in self._never.values()
        )


def wait_for(
    run: Path, patience: Patience, env: Mapping[str, str], stop: Stop, display: Display
) -> tuple[Ending, list[WorkpackageRow]]:
    """Wait until every workpackage of `run` has ended; why it is over, and what the table shows then.

    Raises `NoRun`, CommandFailed where JUBE fails, FileNotFoundError without JUBE, or without the
    batch system's commands where there are jobs to ask for.
    """
    deadline = math.inf if patience.limit_s is None else time.monotonic() + patience.limit_s
    wait = RunWait(run, patience, env, stop, display, read_node_jobs(run), deadline)
    wait.mend()
    interval, before, said_done = patience.least_s, "", False
    standing, since = "", time.monotonic()
    while True:
        wait.ask(read_workpackages(run, WRITING_S))
        driven = wait.needs_jube(read_workpackages(run, WRITING_S)) and stop.number is None and wait.drive()
        workpackages = read_workpackages(run, WRITING_S)
        wait.show(workpackages)
        if stop.number is not None:
            return Ending.STOPPED, wait.rows(workpackages)
        if driven and not any(
            workpackage.is_open
            or (workpackage.failed and wait.lives(workpackage))
            or (wait.node_jobs and not workpackage.started)
            for workpackage in workpackages
        ):
            return Ending.ALL_ENDED, wait.rows(workpackages)
        if time.monotonic() >= deadline:
            return Ending.GAVE_UP, wait.rows(workpackages)
        pending = repr([(number, job.state) for number, job in wait.jobs.items()])
        if pending != standing or "RUNNING" in pending:
            standing, since = pending, time.monotonic()
        if patience.idle_s is not None and time.monotonic() - since >= patience.idle_s:
            return Ending.STALLED, wait.rows(workpackages)
        now = repr(
            [
                (workpackage.number, workpackage.state(), wait.jobs.get(workpackage.number))
                for workpackage in workpackages
            ]
        )
        soon = now != before or wait.settling() or said_done
        interval = patience.least_s if soon else interval * _GROWTH
        before, interval = now, min(interval, patience.most_s)
        said_done = wait.rest(workpackages, min(interval, deadline - time.monotonic()))


def _ending(job: Job) -> str:
    """How it ended; where it lost one of several nodes, that one by its name, if Slurm says which is dead."""
    if job.state == "NODE_FAIL":
        with contextlib.suppress(SchedulerUnavailable, FileNotFoundError, ValueError):
            known = slurm.nodes()
            dead = [name for name in expand(job.nodes) if name in known and known[name].dead]
            if len(dead) == 1:
                return dataclasses.replace(job, nodes=dead[0]).ending()
    return job.ending()


def _is_there(path: Path) -> bool:
    """Whether a file exists; listing its folder makes a network file system look again (nfs(5), lookups)."""
    return path.parent.is_dir() and any(entry.name == path.name for entry in path.parent.iterdir())


def _job_to_ask(workpackage: Workpackage) -> BatchJob | None:
    """Its job, as long as its end is not known."""
    if not workpackage.started or workpackage.done or workpackage.recorded_reason():
        return None
    return workpackage.batch_job()


def record_end(workpackage: Workpackage, reason: str, nodes: str = "") -> None:
    """Write the reason file: the status with the job's last words, the nodes that it had, then the end of
    what it printed."""
    status = _with_last_words(workpackage, reason)
    text = f"{' '.join(status.split())}\n" + (f"{ON_NODES}{nodes}\n" if nodes else "")
    for path in workpackage.outputs()[:2]:
        lines = read_end(path).splitlines()[-_LAST_LINES:]
        text += f"\nthe end of {path.name}:\n" + "".join(f"  {line}\n" for line in lines)
    write_whole(workpackage.folder / REASON, text)


def _with_last_words(workpackage: Workpackage, reason: str) -> str:
    words = workpackage.last_words()
    if words.startswith("unavailable: "):  # the program itself said what it lacks
        return words
    return f"{reason}; last words: {words}" if words else reason


def verdict(workpackages: Sequence[Workpackage]) -> int:
    """The exit code for workpackages that have ended: what is unavailable here is no failure."""
    failed = [
        workpackage for workpackage in workpackages if not workpackage.done and not workpackage.unavailable
    ]
    if failed or not workpackages:
        return EXIT_PARTLY if any(workpackage.done for workpackage in workpackages) else EXIT_NOTHING
    return 0


def missing(error: FileNotFoundError) -> str:
    """What to do about a program that is not there."""
    if error.filename == "jube":
        return "jube is not installed: `npc doctor` says how to get it here"
    if theirs := " or ".join(scheduler.NAME for scheduler in KNOWN if error.filename in scheduler.COMMANDS):
        return f"{error.filename} is not here: wait where {theirs}'s commands are, such as the login node"
    return f"{error.filename}: {error.strerror}"


def summary(workpackages: Sequence[Workpackage], ending: Ending, run: Path) -> str:
    """One line: how many ended how, and what to do next."""
    counts = Counter(
        "unavailable" if workpackage.unavailable else workpackage.state() for workpackage in workpackages
    )
    parts = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    if ending is Ending.ALL_ENDED:
        return f"{parts}; now: npc records collect {run}"
    return f"{parts}; {ending.value}: the jobs go on, and so does: npc records wait {run}"
