"""What Flux says of jobs: ``flux jobs --json``, ``flux cancel``. States, results: flux-jobs(1)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final

from npc.jobs.scheduler import Job, JobId, Silent, answer

NAME: Final = "Flux"
COMMANDS: Final = ("flux",)
GONE: Final = "Flux no longer knows job {}, and it left no word of its end"
SETTLE_S: Final = 0.0
#: F58, with ``f`` for ``ƒ`` where the locale has none (RFC 19), as it stands alone on a line.
_SUBMITTED: Final = re.compile(r"^([ƒf][1-9A-HJ-NP-Za-km-z]{2,12})\s*$", re.M)
_PENDING: Final = ("DEPEND", "PRIORITY", "SCHED")
_STATES: Final = {"COMPLETED": "COMPLETED", "FAILED": "FAILED", "CANCELED": "CANCELLED", "TIMEOUT": "TIMEOUT"}


def submitted(text: str, submits: str) -> tuple[JobId, str] | None:
    """The last job that ``flux batch`` or ``flux submit`` named."""
    names = _SUBMITTED.findall(text) if re.search(r"\bflux\b", submits) else []
    return (names[-1], "") if names else None


def parse_jobs(text: str) -> dict[JobId, Job]:
    """Jobs by identifier, of what ``flux jobs --json`` prints: of one job asked for alone, its object; of
    several, a list. Raises `Silent` for what is none."""
    try:
        found = json.loads(text)
        return {cells["jobid"]: _job(cells) for cells in found.get("jobs", [found])}
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise Silent(f"flux jobs printed no JSON of jobs: {error}") from None


def ask(
    ids: Collection[JobId], cluster: str = "", stopped: Callable[[], bool] = lambda: False
) -> dict[JobId, Job]:
    """What Flux knows of these jobs; see `npc.jobs.scheduler.Scheduler.ask`."""
    if not ids:
        return {}
    out = answer(["flux", "jobs", "-a", "--json", *sorted(map(str, ids))], stopped, unless="unknown")
    told = parse_jobs(out) if out.strip() else {}
    plain = {str(name).replace("ƒ", "f"): job for name, job in told.items()}
    return {name: job for name in ids if (job := plain.get(str(name).replace("ƒ", "f")))}


def cancel(job: JobId, cluster: str = "") -> None:
    """Cancel a job; raises `Silent` with the words of ``flux cancel`` if it does not."""
    answer(["flux", "cancel", str(job)])


def _job(cells: Mapping[str, Any]) -> Job:
    exception, status = cells.get("exception", {}), int(cells.get("waitstatus", 0))
    ended = cells["state"] == "INACTIVE"
    if ended:
        state = _STATES.get(str(cells.get("result")), "FAILED")
    else:
        state = "PENDING" if cells["state"] in _PENDING else "RUNNING"
    said = [exception.get("type", ""), exception.get("note", "")] if exception.get("occurred") else []
    waits = "held" if cells.get("urgency") == 0 else ""
    return Job(
        id=cells["jobid"],
        state=state,
        reason=": ".join(filter(None, said)) or (waits if state == "PENDING" else ""),
        exit_code=os.WEXITSTATUS(status) if ended and os.WIFEXITED(status) else None,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        nodes=cells.get("nodelist", "") if "t_run" in cells else "",
        elapsed_s=int(cells.get("runtime", 0)),
        limit_s=int(cells.get("duration", 0)) or None,
        submitted=datetime.fromtimestamp(cells["t_submit"]) if "t_submit" in cells else None,
        scheduler=NAME,
    )
