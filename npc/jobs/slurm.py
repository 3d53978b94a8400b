"""What Slurm says of jobs and nodes: one question about all of them, and what each answer means.

Of jobs are asked ``squeue`` (also of those that ended less than MinJobAge ago) and, for those that the
controller has forgotten, ``sacct``: the accounting, or where there is none the job completion file (``sacct
-c``). States and reasons are those of squeue(1), sections "JOB STATE CODES" and "JOB REASON CODES"; the
states of nodes those of sinfo(1), section "NODE STATE CODES".
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from npc.jobs.scheduler import (
    ENDED,
    Job,
    JobId,
    SchedulerUnavailable,
    answer,
    call,
    moment,
    seconds,
    understood,
    whole,
)
from npc.machine.command import last_line
from npc.machine.fabric import expand

NAME: Final = "Slurm"
COMMANDS: Final = ("squeue", "scancel")
GONE: Final = "Slurm no longer knows job {}, and it left no word of its end"
SETTLE_S: Final = 0.0
#: sbatch's words, wherever a wrapper repeats them, and those of ``sbatch --parsable``.
_SUBMITTED: Final = re.compile(
    r"Submitted batch job (\d{1,10})(?!\d)(?: on cluster (\S+))?|^(\d{1,10})(?:;(\S+))?\s*$", re.M
)
#: What sbatch says of a job that was refused: a line with the limit's name, where slurmctld sends it, and one
#: in general words, which are the same for limits on submitted jobs and on the size of one.
_REFUSED: Final = re.compile(
    r"(?:\b((?:Assoc|QOS)\w*Limit)\s+(?:\S+ error: )?)?\bBatch job submission failed: (.*)"
)
#: Reasons to pend that no passing of time lifts, only a change of the job or of the cluster. Others may
#: still change by themselves (Resources, Priority, BeginTime, ReqNodeNotAvail, Assoc…Grp… limits) or wait for
#: a person who may come (JobHeldUser, JobHeldAdmin, PartitionDown).
_NEVER: Final = re.compile(
    r"AccountNotAllowed|BadConstraints|DependencyNeverSatisfied|InvalidAccount|InvalidQOS|JobHoldMaxRequeue|"
    r"MaxMemPerLimit|PartitionConfig|PartitionNodeLimit|PartitionTimeLimit|QOSNotAllowed|"
    r"(?:Assoc|QOS)Max\w*Per(?:Job|Node)\w*|QOSMin\w+"
)
#: What to do about some of them, for people.
_MENDS: Final = {
    "MaxMemPerLimit": "more memory than the partition lets jobs have: --set job_memory=",
    "PartitionTimeLimit": "longer than the partition's MaxTime: --set timelimit=",
}
#: What squeue is asked, and how wide: it cuts what is longer, but nothing at width 0, where it fills up
#: nothing either. All are known since Slurm 15.08.
_COLUMNS: Final = (
    ("JobArrayID", 40), ("State", 20), ("Reason", 80), ("exit_code", 12), ("NodeList", 0),
    ("TimeUsed", 20), ("TimeLimit", 20), ("RestartCnt", 12), ("SubmitTime", 24),
)  # fmt: skip
_WIDTH: Final = sum(width for _, width in _COLUMNS)
#: States, and signs behind them, of nodes on which no job starts before somebody, a reboot or the end of a
#: reservation gives them back.
_NO_JOBS: Final = re.compile(r"(?:down|drain|error|fail|future|inval|maint|reboot|reserved|unknown)|.*[*$@^]")
_SACCT: Final = ("JobID", "State", "Reason", "ExitCode", "NodeList", "Elapsed", "Timelimit", "Submit")
_ISO: Final = "%Y-%m-%dT%H:%M:%S"
#: Variables that would change what is shown, and how.
_UNWANTED: Final = ("SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_", "SLURM_TIME_FORMAT")


class SlurmNode(NamedTuple):
    """A node as Slurm sees it."""

    #: As Slurm has it.
    name: str
    #: The long word of sinfo, with the sign behind it: ``idle``, ``down*``.
    state: str
    #: Why it was taken out of service; empty if it was not.
    reason: str = ""

    @property
    def dead(self) -> bool:
        """Whether it is down, or does not answer Slurm (``*``)."""
        return self.state.startswith("down") or "*" in self.state

    @property
    def takes_jobs(self) -> bool:
        """Whether a job without a reservation may start on it: now, when others have ended, or when it is
        awake (``~``, ``#``, ``%``: power saving)."""
        return _NO_JOBS.match(self.state) is None

    @property
    def idle(self) -> bool:
        """Whether a job may start on it at once: it runs none, is awake, and planned for nobody."""
        return self.state == "idle"

    def in_its_reservation(self) -> SlurmNode:
        """The node as jobs see it that ask for the reservation which it is in: there ``maint``, ``reserved``
        and the sign ``$`` keep nobody away."""
        state = re.sub(r"^(?:maint|reserved)", "idle", self.state).replace("$", "")
        return self._replace(state=state)

    def __str__(self) -> str:
        return f"{self.state} ({self.reason})" if self.reason else self.state


def submitted(text: str, submits: str) -> tuple[JobId, str] | None:
    """The last job that sbatch named, and its cluster where that is not the default one."""
    job: tuple[JobId, str] | None = None
    for number, cluster, bare, its_cluster in _SUBMITTED.findall(text):
        if number:
            job = int(number), cluster
        elif "sbatch" in submits:  # elsewhere a line with a number may mean anything
            job = int(bare), its_cluster
    return job


def submit_limit(text: str) -> str:
    """See `npc.jobs.scheduler.Scheduler.submit_limit`."""
    name, words = (_REFUSED.findall(text) or [("", "")])[-1]
    return name if "SubmitJob" in name else words.strip() if not name and "job submit limit" in words else ""


def parse_squeue(text: str) -> dict[JobId, Job]:
    """Jobs by number, of what ``squeue --noheader --Format`` prints with the widths asked for here.

    Parts of one submission (array tasks ``7_1``, components ``7+1`` of a heterogeneous job) are one job:
    while any lives it lives, and one that failed is its end.
    """
    jobs: dict[JobId, Job] = {}
    for line in text.splitlines():
        cells, place = dict[str, str](), 0
        for name, width in _COLUMNS:
            end = place + (width or max(0, len(line) - _WIDTH))  # the nodes have what the others leave
            cells[name] = line[place:end].strip()
            place = end
        number = re.match(r"\d{1,18}", cells["JobArrayID"])
        if number is None or not cells["State"]:
            continue  # "CLUSTER: name" above the jobs of another cluster, blank lines
        status = whole(cells["exit_code"]) or 0
        state = cells["State"]
        reason = "" if cells["Reason"] == "None" else cells["Reason"]
        part = Job(
            id=int(number.group()),
            state=state,
            reason=f"{reason}: {_MENDS[reason]}" if reason in _MENDS else reason,
            exit_code=os.WEXITSTATUS(status) if state in ENDED else None,
            signal=os.WTERMSIG(status),
            nodes=cells["NodeList"],
            elapsed_s=seconds(cells["TimeUsed"]) or 0,
            limit_s=seconds(cells["TimeLimit"]),
            restarts=whole(cells["RestartCnt"]) or 0,
            submitted=moment(cells["SubmitTime"], _ISO),
            never_starts=state == "PENDING" and _NEVER.fullmatch(reason.partition(",")[0]) is not None,
        )
        jobs[part.id] = _joined(jobs[part.id], part) if part.id in jobs else part
    return jobs


def parse_sacct(text: str) -> dict[JobId, Job]:
    """Jobs by number, of what ``sacct --parsable2 --noheader`` prints; of several executions the last."""
    parts: dict[str, Job] = {}
    for line in text.splitlines():
        cells = dict(zip(_SACCT, line.split("|"), strict=False))
        number = re.match(r"\d{1,18}", cells["JobID"])
        if number is None or len(cells) < len(_SACCT):
            continue
        code, _, by = cells["ExitCode"].partition(":")
        nodes = cells["NodeList"]
        minutes = whole(cells["Timelimit"])
        parts[cells["JobID"]] = Job(
            id=int(number.group()),
            state=cells["State"].partition(" ")[0],  # "CANCELLED by 1000"
            reason="" if cells["Reason"] == "None" else cells["Reason"],
            exit_code=whole(code),
            signal=whole(by) or 0,
            nodes="" if nodes in ("None assigned", "(null)") else nodes,
            elapsed_s=seconds(cells["Elapsed"]) or 0,
            # the completion file has it in minutes
            limit_s=seconds(cells["Timelimit"]) if minutes is None else 60 * minutes,
            submitted=moment(cells["Submit"], _ISO),
        )
    jobs: dict[JobId, Job] = {}
    for part in parts.values():
        jobs[part.id] = _joined(jobs[part.id], part) if part.id in jobs else part
    return jobs


def ask(
    ids: Collection[JobId], cluster: str = "", stopped: Callable[[], bool] = lambda: False
) -> dict[JobId, Job]:
    """What Slurm knows of these jobs, in one question; those that it does not know are missing.

    `cluster` is another one than the default, as ``sbatch --parsable`` names it. Raises
    `SchedulerUnavailable` when the controller does not answer, or not before the caller is `stopped`;
    FileNotFoundError where there is no
    ``squeue``.
    """
    if not ids:
        return {}
    names = ",".join(sorted(map(str, ids)))
    where = [f"--clusters={cluster}"] if cluster else []
    form = ",".join(f"{name}:{width}" for name, width in _COLUMNS)
    out = answer(
        ["squeue", *where, f"--jobs={names}", "--states=all", "--noheader", f"--Format={form}"],
        stopped,
        _UNWANTED,
        unless="Invalid job id specified",  # what it says of a single one that it does not know
    )
    jobs = parse_squeue(out)
    forgotten = [number for number in ids if number not in jobs]
    return jobs | _ask_accounting(forgotten, where, stopped) if forgotten else jobs


def nodes(partition: str = "") -> dict[str, SlurmNode]:
    """All nodes, or those of one partition, by name.

    Raises `SchedulerUnavailable` when the controller does not answer, FileNotFoundError where there is no
    ``sinfo``.
    """
    of = [f"--partition={partition}"] if partition else ["--all"]
    out = answer(["sinfo", *of, "--noheader", "--Node", "--format=%N|%T|%E"], unwanted=_UNWANTED)
    by_name = {}
    for line in out.splitlines():
        name, _, rest = line.partition("|")
        state, _, reason = rest.partition("|")
        if state:
            by_name[name] = SlurmNode(name, state, "" if reason.strip() == "none" else reason.strip())
    return by_name


def nodes_of_reservation(name: str) -> list[str] | None:
    """The names of the nodes of a reservation; None if there is none of this name. Raises as `nodes` does."""
    code, out, err = call(["scontrol", "--oneliner", "show", "reservation", name], unwanted=_UNWANTED)
    if code and "not found" not in out + err:
        raise SchedulerUnavailable(last_line(err) or last_line(out))
    of_it = re.search(r"^ReservationName=.*?\sNodes=(\S+)", out, re.MULTILINE)
    if of_it is None:
        return None
    with understood("scontrol"):
        return [] if of_it[1] == "(null)" else expand(of_it[1])


def default_partition() -> str:
    """The partition of jobs that ask for none, empty if there is none. Raises as `nodes` does."""
    out = answer(["sinfo", "--noheader", "--format=%P"], unwanted=_UNWANTED)
    return next((name[:-1] for name in out.split() if name.endswith("*")), "")


def longest_job_s(partition: str = "") -> float:
    """The longest time limit (s) that a partition allows, the default one without a name; infinite if it
    allows any. Raises as `nodes` does."""
    of = [f"--partition={partition}"] if partition else []
    out = answer(["sinfo", *of, "--noheader", "--format=%P %l"], unwanted=_UNWANTED)
    limits = (line.split() for line in out.splitlines() if partition or "* " in line)
    return next((float(limit) for words in limits if (limit := seconds(words[-1]))), math.inf)


def cancel(job: JobId, cluster: str = "") -> None:
    """Tell Slurm to cancel a job; raises `SchedulerUnavailable` with its words if it does not."""
    where = [f"--clusters={cluster}"] if cluster else []
    answer(["scancel", *where, str(job)], unwanted=_UNWANTED)


def _ask_accounting(ids: Iterable[JobId], where: list[str], stopped: Callable[[], bool]) -> dict[JobId, Job]:
    """Jobs that have ended, of the accounting, else of the completion file; none where neither answers."""
    words = ["--noheader", "--parsable2", "--allocations", "--jobs=" + ",".join(map(str, ids))]
    # A job's own clock: without it sacct shows those of today only.
    words += ["--starttime=1970-01-02", f"--format={','.join(_SACCT)}"]
    for completion in ([], ["--completion"]):
        try:
            code, out, _ = call(["sacct", *where, *words, *completion], stopped, _UNWANTED)
        except (FileNotFoundError, SchedulerUnavailable):
            return {}
        if code == 0:
            # One that the controller does not know and the accounting believes to live has been lost.
            return {number: job for number, job in parse_sacct(out).items() if job.ended}
    return {}


def _joined(first: Job, second: Job) -> Job:
    """One job of two of its parts: one that lives decides, then one that failed."""
    decisive = min(first, second, key=lambda part: (part.ended, part.state == "COMPLETED"))
    nodes = ",".join(dict.fromkeys(filter(None, (first.nodes, second.nodes))))
    return dataclasses.replace(decisive, nodes=nodes)
