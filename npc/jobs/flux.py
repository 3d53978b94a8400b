"""What Flux says of jobs: ``flux jobs --json``, ``flux cancel``. States, results: flux-jobs(1)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Annotated, Final

import msgspec

from npc.files import parse_json
from npc.jobs.scheduler import Job, JobId, answer, understood

NAME: Final = "Flux"
COMMANDS: Final = ("flux",)
GONE: Final = "Flux no longer knows job {}, and it left no word of its end"
SETTLE_S: Final = 0.0
#: F58, with ``f`` for ``ƒ`` where the locale has none (RFC 19), as it stands alone on a line.
_SUBMITTED: Final = re.compile(r"^([ƒf][1-9A-HJ-NP-Za-km-z]{2,12})\s*$", re.M)
#: Seconds that a day or a span may have: to the end of the year 9999, where Python's days end.
_Seconds = Annotated[float, msgspec.Meta(ge=0, lt=2.5e11)]
_PENDING: Final = ("DEPEND", "PRIORITY", "SCHED")
_STATES: Final = {"COMPLETED": "COMPLETED", "FAILED": "FAILED", "CANCELED": "CANCELLED", "TIMEOUT": "TIMEOUT"}


def submitted(text: str, submits: str) -> tuple[JobId, str] | None:
    """The last job that ``flux batch`` or ``flux submit`` named."""
    names = _SUBMITTED.findall(text) if re.search(r"\bflux\b", submits) else []
    return (names[-1], "") if names else None


def parse_jobs(text: str) -> dict[JobId, Job]:
    """Jobs by identifier, of what ``flux jobs --json`` prints: of one job asked for alone, its object; of
    several, a list. Raises `SchedulerUnavailable` for what is none."""
    with understood("flux jobs"):
        document = parse_json(text)
        several = isinstance(document, dict) and "jobs" in document
        jobs = msgspec.convert(document, _FluxJobs).jobs if several else [msgspec.convert(document, _FluxJob)]
        return {job.jobid: _job(job) for job in jobs}


def ask(
    ids: Collection[JobId], cluster: str = "", stopped: Callable[[], bool] = lambda: False
) -> dict[JobId, Job]:
    """What Flux knows of these jobs; see `npc.jobs.scheduler.Scheduler.ask`."""
    if not ids:
        return {}
    out = answer(["flux", "jobs", "-a", "--json", *sorted(map(str, ids))], stopped, unless="unknown")
    jobs = parse_jobs(out) if out.strip() else {}
    plain = {str(name).replace("ƒ", "f"): job for name, job in jobs.items()}
    return {name: job for name in ids if (job := plain.get(str(name).replace("ƒ", "f")))}


def cancel(job: JobId, cluster: str = "") -> None:
    """Cancel a job; raises `SchedulerUnavailable` with the words of ``flux cancel`` if it does not."""
    answer(["flux", "cancel", str(job)])


class _FluxException(msgspec.Struct):
    occurred: bool = False
    type: str = ""
    note: str = ""


class _FluxJob(msgspec.Struct):
    """What is used of a job, as RFC 14, RFC 21 and flux-jobs(1) name it. waitstatus: as of wait(2)."""

    jobid: str
    state: str
    result: str = ""
    exception: _FluxException = msgspec.field(default_factory=_FluxException)
    waitstatus: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    urgency: int = 16
    nodelist: str = ""
    t_run: float | None = None
    t_submit: _Seconds | None = None
    runtime: _Seconds = 0
    duration: _Seconds = 0


class _FluxJobs(msgspec.Struct):
    jobs: list[_FluxJob]


def _job(job: _FluxJob) -> Job:
    status, ended = job.waitstatus, job.state == "INACTIVE"
    state = "PENDING" if job.state in _PENDING else "RUNNING"
    state = _STATES.get(job.result, "FAILED") if ended else state
    words = [job.exception.type, job.exception.note] if job.exception.occurred else []
    waits = "held" if job.urgency == 0 else ""
    return Job(
        id=job.jobid,
        state=state,
        reason=": ".join(filter(None, words)) or (waits if state == "PENDING" else ""),
        exit_code=os.WEXITSTATUS(status) if ended and os.WIFEXITED(status) else None,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        nodes=job.nodelist if job.t_run is not None else "",
        elapsed_s=int(job.runtime),
        limit_s=int(job.duration) or None,
        submitted=None if job.t_submit is None else datetime.fromtimestamp(job.t_submit),
        scheduler=NAME,
    )
