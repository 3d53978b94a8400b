"""What Grid Engine says of jobs: ``qstat``, ``qacct``, ``qalter -w v``, ``qdel``.

Of jobs that have not ended qstat tells; how one ended only the accounting file does, which is written up to
``flush_time`` later (sge_conf(5), 15 s by default), and knows no job that was deleted while it was pending.
States are those of qstat(1), "status"; what ``failed`` means stands in sge_status(5).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from npc.files import parse_xml
from npc.jobs.scheduler import CTIME, Job, JobId, answer, call, moment, understood, whole

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

NAME: Final = "Grid Engine"
COMMANDS: Final = ("qstat", "qacct", "qalter", "qdel")
GONE: Final = "job {} was deleted while pending: Grid Engine has no account of it"
SETTLE_S: Final = 20.0
#: Variables with default options.
_UNWANTED: Final = ("SGE_LONG_", "SGE_QSTAT", "SGE_SINGLE_LINE")
_SUBMITTED: Final = re.compile(r"^Your job(?:-array)? (\d{1,10})(?:\.\S+)? \(", re.M)
#: sge_conf(5), max_jobs and max_u_jobs.
_REFUSED: Final = re.compile(r"\bjob rejected: ([Oo]nly \d+ jobs are allowed per .*?)\.?\s*$", re.M)
#: sge_status(5): a limit of the job, by the queue master or the node's daemon.
#: As Univa's qacct writes a moment.
_UNIVA: Final = "%m/%d/%Y %H:%M:%S.%f"
_LIMIT: Final = re.compile(r"(?:37|44)\b|.*\b[hs]_rt\b")


def submitted(text: str, submits: str) -> tuple[JobId, str] | None:
    """The last job that qsub named."""
    numbers = _SUBMITTED.findall(text)
    return (int(numbers[-1]), "") if numbers else None


def submit_limit(text: str) -> str:
    """See `npc.jobs.scheduler.Scheduler.submit_limit`."""
    limits: list[str] = _REFUSED.findall(text)
    return limits[-1] if limits else ""


def parse_qstat(text: str, now: datetime) -> dict[JobId, Job]:
    """Jobs by number, of what ``qstat -xml -g t -r`` prints; without those that have ended (state z).

    Raises `SchedulerUnavailable` for what is no such text.
    """
    with understood("qstat"):
        return _live(parse_xml(text).iter("job_list"), now)


def parse_qacct(text: str) -> Job | None:
    """How a job ended, of what ``qacct -j`` prints: one record a task, of several the one that failed."""
    job = None
    for record in re.split(r"^=+$", text, flags=re.M)[1:]:
        cells = dict(re.findall(r"^(\S+)\s+(.*?)\s*$", record, re.M))
        number = whole(cells.get("jobnumber", ""))
        if number is None:
            continue
        failed, code = cells.get("failed", "0"), re.match(r"\d{1,9}", cells.get("exit_status", ""))
        status = int(code[0]) if code else 0
        begun, ended = (
            moment(cells.get(name, "").strip(), CTIME, _UNIVA) for name in ("start_time", "end_time")
        )
        limit = re.search(r"\bh_rt=(\d{1,12})\b", cells.get("category", ""))
        state = (
            "TIMEOUT" if _LIMIT.match(failed) else "FAILED" if status or not re.match(r"0\b", failed) else ""
        )
        part = Job(
            id=number,
            state=state or "COMPLETED",
            reason=failed.partition(":")[2].strip(),
            exit_code=status,
            # the shell's way to tell of a signal (sge_status(5))
            signal=status - 128 if failed.startswith("100") and status > 128 else 0,
            nodes=cells.get("hostname", "").partition(".")[0] if begun else "",
            elapsed_s=int((ended - begun).total_seconds()) if begun and ended else 0,
            limit_s=int(limit[1]) if limit else None,
            scheduler=NAME,
        )
        job = part if job is None or job.state == "COMPLETED" else job
    return job


def ask(
    ids: Collection[JobId], cluster: str = "", stopped: Callable[[], bool] = lambda: False
) -> dict[JobId, Job]:
    """What Grid Engine knows of these jobs; see `npc.jobs.scheduler.Scheduler.ask`."""
    if not ids:
        return {}
    out = answer(["qstat", "-xml", "-g", "t", "-r", "-u", "*"], stopped, _UNWANTED)
    live = parse_qstat(out, datetime.now())
    jobs: dict[JobId, Job] = {}
    for number in ids:
        if job := live.get(number):
            jobs[number] = _why_it_pends(job, stopped) if job.state == "PENDING" else job
        elif job := parse_qacct(call(["qacct", "-j", str(number)], stopped)[1]):
            jobs[number] = job
    return jobs


def cancel(job: JobId, cluster: str = "") -> None:
    """Delete a job; raises `SchedulerUnavailable` with qdel's words if it does not."""
    answer(["qdel", str(job)])


def _live(entries: Iterable[Element], now: datetime) -> dict[JobId, Job]:
    jobs: dict[JobId, Job] = {}
    for entry in entries:
        number, state = int(entry.findtext("JB_job_number", "0")), entry.findtext("state", "")
        if "z" in state:
            continue
        started = entry.findtext("JAT_start_time")
        limit = next((e.text for e in entry.iter("hard_request") if e.get("name") == "h_rt"), None)
        submission = entry.findtext("JB_submission_time")
        part = Job(
            id=number,
            state="PENDING" if "w" in state else "SUSPENDED" if set("sST") & set(state) else "RUNNING",
            reason="error" if "E" in state else "held" if "h" in state else "",
            nodes=entry.findtext("queue_name", "").partition("@")[2].partition(".")[0],
            elapsed_s=int((now - datetime.fromisoformat(started)).total_seconds()) if started else 0,
            limit_s=int(float(limit)) if limit else None,
            restarts=int("R" in state),
            submitted=datetime.fromisoformat(submission) if submission else None,
            never_starts="E" in state,
            scheduler=NAME,
        )
        jobs[number] = _joined(jobs[number], part) if number in jobs else part
    return jobs


def _why_it_pends(job: Job, stopped: Callable[[], bool]) -> Job:
    """Whether it could start on an empty cluster, and if not, why."""
    if job.reason == "error":
        match = re.search(
            r"^error reason\s.*?:\s+(.*)$", call(["qstat", "-j", str(job.id)], stopped)[1], re.M
        )
        return dataclasses.replace(job, reason=f"error: {match[1]}" if match else "error")
    if job.reason:
        return job
    _, out, err = call(["qalter", "-w", "v", str(job.id)], stopped)
    if "no suitable queues" not in out + err:
        return job
    return dataclasses.replace(job, reason=(out + err).strip().partition("\n")[0], never_starts=True)


def _joined(first: Job, second: Job) -> Job:
    """One job of two of its tasks or nodes; while one runs, it runs."""
    decisive = min(first, second, key=lambda part: part.state == "PENDING")
    nodes = ",".join(dict.fromkeys(filter(None, ",".join((first.nodes, second.nodes)).split(","))))
    return dataclasses.replace(decisive, nodes=nodes)
