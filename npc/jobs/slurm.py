"""What Slurm says of jobs and nodes: one question about all of them, and what each answer means.

Of jobs are asked ``squeue`` (also of those that ended less than MinJobAge ago) and, for those that the
controller has forgotten, ``sacct``: the accounting, or where there is none the job completion file (``sacct
-c``). States and reasons are those of squeue(1), sections "JOB STATE CODES" and "JOB REASON CODES"; the
states of nodes those of sinfo(1), section "NODE STATE CODES".
"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from npc.records.units import format_duration

#: States that a job never leaves. PREEMPTED is only final where it is not requeued; then it is PENDING.
ENDED: Final = frozenset(
    (
        "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
        "PREEMPTED", "REVOKED", "TIMEOUT",
    )
)  # fmt: skip
#: Reasons to pend that no passing of time lifts, only a change of the job or of the cluster. Others may
#: still change by themselves (Resources, Priority, BeginTime, ReqNodeNotAvail, Assoc…Grp… limits) or wait for
#: a person who may come (JobHeldUser, JobHeldAdmin, PartitionDown).
_NEVER: Final = re.compile(
    r"AccountNotAllowed|BadConstraints|DependencyNeverSatisfied|InvalidAccount|InvalidQOS|JobHoldMaxRequeue|"
    r"PartitionConfig|PartitionNodeLimit|PartitionTimeLimit|QOSNotAllowed|"
    r"(?:Assoc|QOS)Max\w*Per(?:Job|Node)\w*|QOSMin\w+"
)
#: What squeue is asked, and how wide: it cuts what is longer. All are known since Slurm 15.08.
_COLUMNS: Final = (
    ("JobArrayID", 40), ("State", 20), ("Reason", 80), ("exit_code", 12), ("NodeList", 250),
    ("TimeUsed", 20), ("TimeLimit", 20), ("RestartCnt", 12), ("SubmitTime", 24),
)  # fmt: skip
#: States of nodes on which no job will start before somebody, or a reboot, has put them back.
_NO_JOBS: Final = re.compile(r"(?:down|drain|fail|error|inval|future|unknown|reboot)")
_SACCT: Final = ("JobID", "State", "Reason", "ExitCode", "NodeList", "Elapsed", "Timelimit", "Submit")
#: A controller that is away makes squeue try for about 9 s, one that hangs for MessageTimeout (10 s) twice.
_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.2


class Silent(Exception):
    """Slurm does not answer just now; the message is what its command said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as Slurm describes it.

    state, reason: Slurm's words. exit_code: of the batch script, None before its end. signal: the one that
    ended it, or 0. nodes: Slurm's list (``n[1-2]``), empty if it never had any. elapsed_s: run time, of the
    last execution. limit_s: its time limit, None for none. restarts: how often it was requeued. submitted:
    when, by Slurm's clock and time zone; None if it does not say.
    """

    id: int
    state: str
    reason: str = ""
    exit_code: int | None = None
    signal: int = 0
    nodes: str = ""
    elapsed_s: int = 0
    limit_s: int | None = None
    restarts: int = 0
    submitted: datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether it will never run again."""
        return self.state in ENDED

    @property
    def never_starts(self) -> bool:
        """Whether it pends for a reason that lasts until somebody changes the job or the cluster."""
        return self.state == "PENDING" and _NEVER.fullmatch(self.reason.partition(",")[0]) is not None

    def age_s(self, now: datetime) -> float:
        """Seconds since it was submitted; 0 if that is not known."""
        return (now - self.submitted).total_seconds() if self.submitted else 0.0

    def ending(self) -> str:
        """How it ended, as the status of a record: ``timeout: …`` or ``failed: …``."""
        after = f"after {format_duration(self.elapsed_s)}" if self.elapsed_s else "at once"
        on = f" on {self.nodes}" if self.nodes else ""
        lost = f"a node of {self.nodes}" if re.search(r"[\[,]", self.nodes) else f"its node {self.nodes}"
        limit = f" of {format_duration(self.limit_s)}" if self.limit_s else ""
        if self.state == "CANCELLED":
            how = f"was cancelled {after}" if self.nodes else "was cancelled while pending"
        elif self.state == "FAILED" and not self.nodes:
            how = f"was given up by Slurm before it ran{f' ({self.reason})' if self.reason else ''}"
        elif self.state == "FAILED" and self.signal:
            how = f"was ended by {_signal_name(self.signal)} {after}"
        elif self.state == "FAILED":
            how = f"ended with exit code {self.exit_code}"
        else:
            how = {
                "BOOT_FAIL": f"did not start: its nodes {self.nodes} did not boot",
                "COMPLETED": "ended with exit code 0",
                "DEADLINE": "could not end before its deadline",
                "NODE_FAIL": f"lost {lost} {after}",
                "OUT_OF_MEMORY": f"ran out of memory{on}",
                "PREEMPTED": f"was preempted by another {after}",
                "TIMEOUT": f"hit its time limit{limit}",
            }.get(self.state, f"ended as {self.state}")
        kind = "timeout" if self.state in ("TIMEOUT", "DEADLINE") else "failed"
        return f"{kind}: job {self.id} {how}"


class Node(NamedTuple):
    """A node as Slurm sees it. state: sinfo's long word with its sign (``idle``, ``down*``). reason: why it
    was taken out of service, empty if it was not."""

    name: str
    state: str
    reason: str = ""

    @property
    def dead(self) -> bool:
        """Whether it is down, or does not answer Slurm (``*``)."""
        return self.state.startswith("down") or "*" in self.state

    @property
    def takes_jobs(self) -> bool:
        """Whether a job may start on it, now or when others have ended."""
        return not self.dead and _NO_JOBS.match(self.state) is None

    @property
    def idle(self) -> bool:
        """Whether a job may start on it at once: it runs none, is awake and not reserved."""
        return self.state == "idle"

    def __str__(self) -> str:
        return f"{self.state} ({self.reason})" if self.reason else self.state


def parse_squeue(text: str) -> dict[int, Job]:
    """Jobs by number, of what ``squeue --noheader --Format`` prints with the widths asked for here.

    Parts of one submission (array tasks ``7_1``, components ``7+1`` of a heterogeneous job) are one job:
    while any lives it lives, and one that failed is its end.
    """
    jobs: dict[int, Job] = {}
    for line in text.splitlines():
        cells, place = dict[str, str](), 0
        for name, width in _COLUMNS:
            cells[name] = line[place : place + width].strip()
            place += width
        number = re.match(r"\d+", cells["JobArrayID"])
        if number is None or not cells["State"]:
            continue  # "CLUSTER: name" above the jobs of another cluster, blank lines
        status = int(cells["exit_code"]) if cells["exit_code"].isdecimal() else 0
        state = cells["State"]
        part = Job(
            id=int(number.group()),
            state=state,
            reason="" if cells["Reason"] == "None" else cells["Reason"],
            exit_code=os.WEXITSTATUS(status) if state in ENDED else None,
            signal=os.WTERMSIG(status),
            nodes=cells["NodeList"],
            elapsed_s=_seconds(cells["TimeUsed"]) or 0,
            limit_s=_seconds(cells["TimeLimit"]),
            restarts=int(cells["RestartCnt"]) if cells["RestartCnt"].isdecimal() else 0,
            submitted=_moment(cells["SubmitTime"]),
        )
        jobs[part.id] = _joined(jobs[part.id], part) if part.id in jobs else part
    return jobs


def parse_sacct(text: str) -> dict[int, Job]:
    """Jobs by number, of what ``sacct --parsable2 --noheader`` prints; of several executions the last."""
    parts: dict[str, Job] = {}
    for line in text.splitlines():
        cells = dict(zip(_SACCT, line.split("|"), strict=False))
        number = re.match(r"\d+", cells["JobID"])
        if number is None or len(cells) < len(_SACCT):
            continue
        code, _, by = cells["ExitCode"].partition(":")
        nodes = cells["NodeList"]
        limit = cells["Timelimit"]
        parts[cells["JobID"]] = Job(
            id=int(number.group()),
            state=cells["State"].partition(" ")[0],  # "CANCELLED by 1000"
            reason="" if cells["Reason"] == "None" else cells["Reason"],
            exit_code=int(code) if code.isdecimal() else None,
            signal=int(by) if by.isdecimal() else 0,
            nodes="" if nodes in ("None assigned", "(null)") else nodes,
            elapsed_s=_seconds(cells["Elapsed"]) or 0,
            # the completion file has it in minutes
            limit_s=60 * int(limit) if limit.isdecimal() else _seconds(limit),
            submitted=_moment(cells["Submit"]),
        )
    jobs: dict[int, Job] = {}
    for part in parts.values():
        jobs[part.id] = _joined(jobs[part.id], part) if part.id in jobs else part
    return jobs


def ask(
    ids: Collection[int], cluster: str = "", stopped: Callable[[], bool] = lambda: False
) -> dict[int, Job]:
    """What Slurm knows of these jobs, in one question; those that it does not know are missing.

    `cluster` is another one than the default, as ``sbatch --parsable`` names it. Raises `Silent` when the
    controller does not answer, or not before the caller is `stopped`; FileNotFoundError where there is no
    ``squeue``.
    """
    if not ids:
        return {}
    names = ",".join(map(str, sorted(ids)))
    where = [f"--clusters={cluster}"] if cluster else []
    form = ",".join(f"{name}:{width}" for name, width in _COLUMNS)
    code, out, err = _run(
        ["squeue", *where, f"--jobs={names}", "--states=all", "--noheader", f"--Format={form}"], stopped
    )
    if code and "Invalid job id specified" not in err:  # what it says of a single one that it does not know
        raise Silent(_last_line(err) or f"squeue ends with exit code {code}")
    found = parse_squeue(out)
    forgotten = [number for number in sorted(ids) if number not in found]
    return found | _ask_accounting(forgotten, where, stopped) if forgotten else found


def nodes(partition: str = "") -> dict[str, Node]:
    """All nodes, or those of one partition, by name.

    Raises `Silent` when the controller does not answer, FileNotFoundError where there is no ``sinfo``.
    """
    of = [f"--partition={partition}"] if partition else ["--all"]
    code, out, err = _run(["sinfo", *of, "--noheader", "--Node", "--format=%N|%T|%E"])
    if code:
        raise Silent(_last_line(err) or f"sinfo ends with exit code {code}")
    found = {}
    for line in out.splitlines():
        name, _, rest = line.partition("|")
        state, _, reason = rest.partition("|")
        if state:
            found[name] = Node(name, state, "" if reason.strip() == "none" else reason.strip())
    return found


def default_partition() -> str:
    """The partition of jobs that ask for none, empty if there is none. Raises as `nodes` does."""
    code, out, err = _run(["sinfo", "--noheader", "--format=%P"])
    if code:
        raise Silent(_last_line(err) or f"sinfo ends with exit code {code}")
    return next((name[:-1] for name in out.split() if name.endswith("*")), "")


def cancel(job: int, cluster: str = "") -> None:
    """Tell Slurm to cancel a job; raises `Silent` with its words if it does not."""
    where = [f"--clusters={cluster}"] if cluster else []
    code, _, err = _run(["scancel", *where, str(job)])
    if code:
        raise Silent(_last_line(err) or f"scancel ends with exit code {code}")


def _ask_accounting(ids: Iterable[int], where: list[str], stopped: Callable[[], bool]) -> dict[int, Job]:
    """Jobs that have ended, of the accounting, else of the completion file; none where neither answers."""
    words = ["--noheader", "--parsable2", "--allocations", "--jobs=" + ",".join(map(str, ids))]
    # A job's own clock: without it sacct shows those of today only.
    words += ["--starttime=1970-01-02", f"--format={','.join(_SACCT)}"]
    for completion in ([], ["--completion"]):
        try:
            code, out, _ = _run(["sacct", *where, *words, *completion], stopped)
        except (FileNotFoundError, Silent):
            return {}
        if code == 0:
            # One that the controller does not know and the accounting believes to live has been lost.
            return {number: job for number, job in parse_sacct(out).items() if job.ended}
    return {}


def _run(command: list[str], stopped: Callable[[], bool] = lambda: False) -> tuple[int, str, str]:
    # Variables that would change what is shown, and how.
    unwanted = ("SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_", "SLURM_TIME_FORMAT")
    env = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, errors="replace"
    ) as process:
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                out, err = process.communicate(timeout=_POLL_S)
                return process.returncode, out, err
            except subprocess.TimeoutExpired:
                if stopped() or time.monotonic() > deadline:
                    process.kill()
                    why = "before the stop" if stopped() else f"within {_TIMEOUT_S:g} s"
                    raise Silent(f"{command[0]} did not answer {why}") from None


def _joined(first: Job, second: Job) -> Job:
    """One job of two of its parts: one that lives decides, then one that failed."""
    decisive = min(first, second, key=lambda part: (part.ended, part.state == "COMPLETED"))
    nodes = ",".join(dict.fromkeys(filter(None, (first.nodes, second.nodes))))
    return dataclasses.replace(decisive, nodes=nodes)


def _seconds(clock: str) -> int | None:
    """Seconds of Slurm's ``days-hours:minutes:seconds``, whose first two parts may be missing."""
    match = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", clock)
    if match is None:
        return None  # UNLIMITED, INVALID, Partition_Limit, NOT_SET
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None  # N/A, Unknown


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
