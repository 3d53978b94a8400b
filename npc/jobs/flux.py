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


def submit_limit(text: str) -> str:
    """Always empty: Flux takes jobs beyond its limits, and lets them wait."""
    return ""


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
    #: Whether something went wrong that Flux tells of.
    occurred: bool = False
    #: Flux's word for what went wrong: ``timeout``, ``cancel``; empty if nothing did.
    type: str = ""
    #: More about it, in Flux's words; empty if there is no more.
    note: str = ""


class _FluxJob(msgspec.Struct):
    """What is used of a job, as RFC 14, RFC 21 and flux-jobs(1) name it."""

    #: The name that Flux has for it: ``ƒ2oLkTLb``.
    jobid: str
    #: Flux's word for how far it is: ``SCHED``, ``RUN``, ``INACTIVE``.
    state: str
    #: Flux's word for how it ended: ``COMPLETED``, ``TIMEOUT``; empty before its end.
    result: str = ""
    #: What went wrong with it, if anything did.
    exception: _FluxException = msgspec.field(default_factory=_FluxException)
    #: Exit code and signal together, as wait(2) has them; 0 before its end.
    waitstatus: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    #: How urgent its user says it is, from 0 to 31; 0: it is held, 16: as usual.
    urgency: int = 16
    #: Its nodes as a list (``n[1-2]``); empty before it has any.
    nodelist: str = ""
    #: When it started, in s since the epoch; None if it never did.
    t_run: float | None = None
    #: When it was submitted, in s since the epoch; None if Flux does not say.
    t_submit: _Seconds | None = None
    #: How long it has run, in s; 0 if it never started.
    runtime: _Seconds = 0
    #: Its time limit in s; 0 if it has none.
    duration: _Seconds = 0


class _FluxJobs(msgspec.Struct):
    #: Those that Flux knows of all that were asked for.
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
