"""The measurements of a night: ``npc characterise`` in a process of its own, and what it left behind.

Every part of a night has a folder of its own, so that nobody has to guess which run is whose:
``NIGHT/first/000000``, ``NIGHT/again-1/000000``. What a part printed is in ``NIGHT/first.log``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Sequence
from math import inf
from pathlib import Path
from typing import IO, Final, NamedTuple

from npc import locks
from npc.cron.characterise import LOCK
from npc.cron.costs import jobs_of
from npc.files import no_link, read_end
from npc.jobs import session, slurm
from npc.jobs.scheduler import JobId, SchedulerUnavailable
from npc.jobs.stop import Stop
from npc.jobs.workpackages import BatchJob, NoRun, find_run, read_workpackages
from npc.machine.command import last_line
from npc.machine.fabric import expand, natural, short_name
from npc.places import workplace
from npc.processes import die_with_parent
from npc.python import python
from npc.records.journal import Part
from npc.records.record import InvalidRecord, Record
from npc.records.run import RECORDS, read_run

#: `npc characterise` knows its limit and collects behind it; without a scheduler it has to be told to end.
SLACK_S: Final = 60.0
#: When told to end it stops JUBE in order and collects what was measured.
GRACE_S: Final = 60.0
#: What it leaves behind then has this time.
LEFT_S: Final = 5.0
#: A job that was told to end is killed after KillWait (30 s by default, slurm.conf(5)).
END_S: Final = 40.0
_POLL_S: Final = 0.1


class RunningPart:
    """A part that is being measured: ``npc characterise`` in a session of its own. It is told to end when
    this process dies."""

    def __init__(self, part: Part, night: Path, platform: Path, limit_s: float) -> None:
        night.mkdir(parents=True, exist_ok=True)
        self.part, self.limit_s = part, limit_s
        self._night, self._out = night, night / part.name
        self._deadline = time.monotonic() + limit_s + SLACK_S
        # a night that is a job itself has its node only for that
        words = [*part.words, *([] if "--one-job" in part.words else ["--submit"])]
        words += ["--platform", str(platform), "--output", str(self._out)]
        with open(log_of(night, part), "ab", opener=no_link) as log:
            self._process = _start(["characterise", *words, "--limit", f"{limit_s:.0f}s"], log)
        self._stopping = False

    def runs(self) -> bool:
        """Whether it has neither ended nor had all its time."""
        return self._process.poll() is None and time.monotonic() < self._deadline

    def wait(self, stop: Stop) -> None:
        """Until it does not run any more, or a stop."""
        stop.wait_for(self._process, self._deadline - time.monotonic())

    def stop(self) -> None:
        """Tell it to end; it stops JUBE in order and collects."""
        if self._process.poll() is None and not self._stopping:
            self._stopping = True
            os.killpg(self._process.pid, signal.SIGTERM)

    def waits_in_vain(self, out: Collection[str]) -> bool:
        """Whether it does nothing but wait for nodes that are `out` of service."""
        if not out:
            return False
        try:
            waiting = [work for work in read_workpackages(find_run(self._out)) if work.is_open]
        except NoRun:
            return False
        jobs = jobs_of(filter(None, (workpackage.batch_job() for workpackage in waiting)))
        pending = {number for number, job in jobs.items() if job.state == "PENDING"}
        return bool(waiting) and all(
            (job := workpackage.batch_job()) is not None
            and job.number in pending
            and not set(expand(workpackage.parameters.get("npc_nodelist", ""))).isdisjoint(out)
            for workpackage in waiting
        )

    def end(self) -> PartEnd:
        """End it, if it has not ended. However it ends, what was measured is collected, and jobs that have
        not ended are cancelled."""
        if self._process.poll() is None:
            self.stop()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
            session.end(self._process.pid, LEFT_S)
        code = self._process.wait()
        cancelled = cancel_open_jobs(self._out)
        run = run_of(self.part, self._night)
        # it was ended while it collected, or jobs have written since
        if run and (cancelled or not (run / RECORDS).exists()):
            with open(log_of(self._night, self.part), "ab", opener=no_link) as log:
                _start(["records", "collect", str(run)], log).wait()
        return PartEnd(code, cancelled)


class PartEnd(NamedTuple):
    """How a part ended."""

    #: Exit code of ``npc characterise``.
    code: int
    #: Jobs that had to be cancelled.
    cancelled: tuple[JobId, ...]


def finish(part: Part, night: Path, limit_s: float, stop: Stop) -> None:
    """Collect what a part measured whose night was cut off: wait for its jobs, no longer than `limit_s`."""
    out = night / part.name
    _await_characterise(out, stop)
    run = run_of(part, night)
    if run is None:
        return
    with open(log_of(night, part), "ab", opener=no_link) as log:
        wait = _start(["records", "wait", str(run), "--limit", f"{max(limit_s, 1):.0f}s"], log)
        stop.wait_for(wait, inf)
        session.end(wait.pid, GRACE_S)
        wait.wait()
        cancel_open_jobs(out)
        _start(["records", "collect", str(run)], log).wait()


def records_of(part: Part, night: Path) -> list[Record]:
    """What a part measured, failures among it; nothing if it came to nothing."""
    run = run_of(part, night)
    with contextlib.suppress(OSError, InvalidRecord):
        return read_run(run) if run else []
    return []


def run_of(part: Part, night: Path) -> Path | None:
    """The folder of a part's run, None before there is one."""
    try:
        return find_run(night / part.name)
    except NoRun:
        return None


def log_of(night: Path, part: Part) -> Path:
    """What a part printed."""
    return night / f"{part.name}.log"


def last_words(part: Part, night: Path) -> str:
    """The last line that a part printed, for people."""
    with contextlib.suppress(OSError):
        return last_line(read_end(log_of(night, part)))
    return ""


def cancel_open_jobs(out: Path) -> tuple[JobId, ...]:
    """Cancel the jobs of a part that have not ended, and wait until they have: nobody would collect what they
    measure, and their last launches are written down then."""
    cancelled = list[BatchJob]()
    with contextlib.suppress(NoRun, SchedulerUnavailable, FileNotFoundError):
        for workpackage in read_workpackages(find_run(out)):
            job = workpackage.batch_job() if workpackage.is_open else None
            if job and job not in cancelled:  # one may be that of several
                job.scheduler.cancel(job.number, job.cluster)
                cancelled.append(job)
        deadline = time.monotonic() + END_S
        while cancelled and time.monotonic() < deadline:
            if all(job.ended for job in jobs_of(cancelled).values()):
                break
            time.sleep(_POLL_S)
    return tuple(job.number for job in cancelled)


def dead_nodes(part: Part, night: Path) -> dict[str, str]:
    """Nodes of a part's jobs that Slurm calls dead now, with its words; none where Slurm does not answer."""
    hosts = {host for record in records_of(part, night) for host in record.hosts}
    with contextlib.suppress(NoRun, SchedulerUnavailable, FileNotFoundError):
        workpackages = read_workpackages(find_run(night / part.name))
        if not any(workpackage.batch_job() for workpackage in workpackages):
            return {}
        for job in jobs_of(filter(None, (workpackage.batch_job() for workpackage in workpackages))).values():
            with contextlib.suppress(ValueError):  # a list so long that squeue cut it
                hosts.update(expand(job.nodes))
        nodes = _slurm_nodes(hosts).items()
        return {host: f"Slurm says {node}" for host, node in nodes if node and node.dead}
    return {}


def out_of_service(hosts: Iterable[str], reserved: bool = False) -> dict[str, str]:
    """Those of the hosts to which Slurm gives no jobs, and why; none where Slurm does not answer. reserved:
    the jobs ask for the reservation that the hosts are in."""
    with contextlib.suppress(SchedulerUnavailable, FileNotFoundError):
        return {
            host: str(node or "not known to Slurm")
            for host, node in _slurm_nodes(hosts).items()
            if node is None or not (node.in_its_reservation() if reserved else node).takes_jobs
        }
    return {}


def idle_nodes(hosts: Collection[str]) -> list[str]:
    """Nodes that are idle now, without these hosts; none where Slurm does not answer."""
    with contextlib.suppress(SchedulerUnavailable, FileNotFoundError):
        names = (name for name, node in slurm.nodes().items() if node.idle)
        return sorted(set(names).difference(hosts), key=natural)
    return []


def _slurm_nodes(hosts: Iterable[str]) -> dict[str, slurm.SlurmNode | None]:
    """What Slurm says of hosts, which it may know without their domain."""
    known = slurm.nodes()
    return {host: known.get(host) or known.get(short_name(host)) for host in hosts}


def _await_characterise(out: Path, stop: Stop) -> None:
    """Wait until the ``npc characterise`` of a night that died has collected: it was told to end then."""
    deadline = time.monotonic() + GRACE_S + SLACK_S
    while time.monotonic() < deadline and stop.number is None:
        try:
            with locks.only_one(out / LOCK):
                return
        except locks.LockHeld:
            stop.wait(_POLL_S)
        except OSError:
            return  # it was never begun


def _start(words: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start ``npc WORDS`` in a session of its own, which does not outlive this process."""
    return subprocess.Popen(
        python("-m", "npc", *words),
        cwd=workplace(),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=lambda: die_with_parent(signal.SIGTERM),
    )
