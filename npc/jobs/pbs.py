"""What PBS says of jobs: OpenPBS and PBS Professional (``qstat -x -f -F json``), and Torque (``qstat -f``).

States are those of qstat(1B), exit codes those of the PBS Professional guides, "Job Exit Status Codes".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Final

import msgspec

from npc import files
from npc.jobs.scheduler import (
    CTIME,
    Job,
    JobId,
    SchedulerUnavailable,
    answer,
    call,
    moment,
    seconds,
    understood,
)
from npc.machine.command import last_line

NAME: Final = "PBS"
COMMANDS: Final = ("qstat", "qdel")
GONE: Final = "PBS no longer knows job {}, and it left no word of its end"
SETTLE_S: Final = 0.0
_SUBMITTED: Final = re.compile(r"^(\d+(?:\[\])?\.[A-Za-z0-9][\w.-]*)\s*$", re.M)
#: Of OpenPBS and PBS Professional (limits of server and queue: max_queued, max_queued_res); of Torque
#: (max_queuable, max_user_queuable).
_REFUSED: Final = re.compile(
    r"^qsub: .*?(would exceed .*\blimit\b.*|Maximum number of jobs already in .*?)\)?\s*$", re.M
)
_PENDING: Final = "QHWTM"
#: pbs_ifl.h, JOB_EXEC_KILL_…: by the node's daemon, over a limit.
_KILLED: Final = {-26: "OUT_OF_MEMORY", -27: "OUT_OF_MEMORY", -28: "TIMEOUT", -29: "TIMEOUT"}
#: From here on the exit code is a signal's number and this.
_SIGNAL: Final = 256
_NEVER: Final = re.compile(r"Can Never Run|.*can never be satisfied", re.S)


def submitted(text: str, submits: str) -> tuple[JobId, str] | None:
    """The last job that qsub named: its identifier alone on a line, which elsewhere may mean anything."""
    names = _SUBMITTED.findall(text) if re.search(r"\bqsub\b", submits) else []
    return (names[-1], "") if names else None


def submit_limit(text: str) -> str:
    """See `npc.jobs.scheduler.Scheduler.submit_limit`."""
    limits: list[str] = _REFUSED.findall(text)
    return limits[-1] if limits else ""


def parse_json(text: str) -> dict[JobId, Job]:
    """Jobs by identifier, of what ``qstat -x -f -F json`` prints. Raises `SchedulerUnavailable` for what is
    none."""
    with understood("qstat"):
        answered = msgspec.convert(files.parse_json(text), _PbsAnswer)
        return {name: _job(name, cells) for name, cells in answered.jobs.items()}


def parse_text(text: str) -> dict[JobId, Job]:
    """The same of what ``qstat -f`` prints: values may go on, indented, in further lines. Raises
    `SchedulerUnavailable`."""
    jobs: dict[JobId, Job] = {}
    for block in re.split(r"^Job Id: ", text, flags=re.M)[1:]:
        name, _, rest = block.partition("\n")
        cells: dict[str, Any] = dict(
            re.findall(r"^ {4}(\S+) = (.*)$", re.sub(r"\n(?:\t| {8})", "", rest), re.M)
        )
        groups: dict[str, dict[str, str]] = {}
        for key in [key for key in cells if "." in key]:
            group, _, inner = key.partition(".")
            groups.setdefault(group, {})[inner] = cells.pop(key)
        with understood("qstat"):
            jobs[name.strip()] = _job(name.strip(), cells | groups)
    return jobs


def ask(
    ids: Collection[JobId], cluster: str = "", stopped: Callable[[], bool] = lambda: False
) -> dict[JobId, Job]:
    """What PBS knows of these jobs; see `npc.jobs.scheduler.Scheduler.ask`."""
    if not ids:
        return {}
    names = sorted(map(str, ids))
    code, out, err = call(["qstat", "-x", "-f", "-F", "json", *names], stopped)
    parse = parse_json
    if out.strip() == "" and re.search(r"invalid option|usage", err, re.I):  # Torque
        code, out, err = call(["qstat", "-f", *names], stopped)
        parse = parse_text
    if code and "Unknown Job" not in err:
        raise SchedulerUnavailable(last_line(err) or f"qstat ends with exit code {code}")
    return {name: job for name, job in parse(out).items() if name in ids} if out.strip() else {}


def cancel(job: JobId, cluster: str = "") -> None:
    """Delete a job; raises `SchedulerUnavailable` with qdel's words if it does not."""
    answer(["qdel", str(job)])


#: qstat's JSON has texts that look like numbers as numbers.
_Text = str | int | float


class _PbsAnswer(msgspec.Struct):
    #: Name of a job → its attributes as PBS names them; empty if PBS tells of none.
    jobs: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict, name="Jobs")


class _PbsJob(msgspec.Struct):
    """What is used of a job, as qstat(1B) and pbs_job_attributes(7B) name it."""

    #: One letter: ``Q`` for queued, ``R`` for running, ``F`` for finished.
    job_state: _Text = ""
    #: Why it waits, or how it ended, in PBS's words; empty if PBS does not say.
    comment: _Text = ""
    #: Its hosts and their slots, with ``+`` between: ``n1/0+n2/0``; empty before it has any.
    exec_host: _Text = ""
    #: When it came into the queue, as ctime(3) writes it; empty if PBS does not say.
    qtime: _Text = ""
    #: Resource → how much it has used; ``walltime``: its run time, as hours:minutes:seconds; or empty.
    resources_used: dict[str, _Text] = {}
    #: Resource → how much it asked for; ``walltime``: its time limit, as hours:minutes:seconds.
    requested: dict[str, _Text] = msgspec.field(default_factory=dict, name="Resource_List")
    #: Its exit code; above 256: a signal's number + 256; below 0: why PBS ended it; None before its end.
    ended_with: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = msgspec.field(
        default=None, name="Exit_status"
    )
    #: How often it was started; 0 before that.
    run_count: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0


def _job(name: str, cells: Mapping[str, Any]) -> Job:
    """Raises ValueError for an attribute that is none. In Torque's text all are texts, and its exit code has
    another name."""
    lower = {"Exit_status": cells["exit_status"]} if "exit_status" in cells else {}
    job = msgspec.convert({**lower, **cells}, _PbsJob, strict=False)
    letter, comment, code = str(job.job_state), str(job.comment), job.ended_with
    hosts = [part.partition("/")[0].partition(".")[0] for part in str(job.exec_host).split("+")]
    nodes = ",".join(dict.fromkeys(filter(None, hosts)))
    state, killer = "RUNNING", 0
    if letter in _PENDING:
        state = "PENDING"
    elif letter in "SU":
        state = "SUSPENDED"
    elif letter in "FCX":
        killer = code - _SIGNAL if code and code > _SIGNAL else 0
        state = (
            "CANCELLED"
            if killer == 15 or code is None
            else _KILLED.get(code, "FAILED" if code else "COMPLETED")
        )
    return Job(
        id=name,
        state=state,
        reason=comment if state != "RUNNING" else "",
        exit_code=code,
        signal=killer,
        nodes=nodes,
        elapsed_s=seconds(str(job.resources_used.get("walltime"))) or 0,
        limit_s=seconds(str(job.requested.get("walltime"))),
        restarts=max(0, job.run_count - 1),
        submitted=moment(str(job.qtime), CTIME),
        never_starts=state == "PENDING" and _NEVER.match(comment) is not None,
        scheduler=NAME,
    )
