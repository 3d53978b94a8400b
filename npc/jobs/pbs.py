"""What PBS says of jobs: OpenPBS and PBS Professional (``qstat -x -f -F json``), and Torque (``qstat -f``).

States are those of qstat(1B), exit codes those of the PBS Professional guides, "Job Exit Status Codes".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from npc.jobs.scheduler import CTIME, Job, JobId, Silent, answer, call, moment, seconds
from npc.machine.command import last_line

NAME: Final = "PBS"
COMMANDS: Final = ("qstat", "qdel")
GONE: Final = "PBS no longer knows job {}, and it left no word of its end"
SETTLE_S: Final = 0.0
_SUBMITTED: Final = re.compile(r"^(\d+(?:\[\])?\.[A-Za-z0-9][\w.-]*)\s*$", re.M)
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


def parse_json(text: str) -> dict[JobId, Job]:
    """Jobs by identifier, of what ``qstat -x -f -F json`` prints. Raises `Silent` for what is none."""
    try:
        jobs = json.loads(text).get("Jobs", {})
        return {name: _job(name, cells) for name, cells in jobs.items()}
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        raise Silent(f"qstat printed no JSON of jobs: {error}") from None


def parse_text(text: str) -> dict[JobId, Job]:
    """The same of what ``qstat -f`` prints: values may go on, indented, in further lines."""
    jobs: dict[JobId, Job] = {}
    for block in re.split(r"^Job Id: ", text, flags=re.M)[1:]:
        name, _, rest = block.partition("\n")
        cells: dict[str, Any] = dict(
            re.findall(r"^ {4}(\S+) = (.*)$", re.sub(r"\n(?:\t| {8})", "", rest), re.M)
        )
        for key in [key for key in cells if "." in key]:
            group, _, inner = key.partition(".")
            cells.setdefault(group, {})[inner] = cells.pop(key)
        jobs[name.strip()] = _job(name.strip(), cells)
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
        raise Silent(last_line(err) or f"qstat ends with exit code {code}")
    return {name: job for name, job in parse(out).items() if name in ids} if out.strip() else {}


def cancel(job: JobId, cluster: str = "") -> None:
    """Delete a job; raises `Silent` with qdel's words if it does not."""
    answer(["qdel", str(job)])


def _job(name: str, cells: Mapping[str, Any]) -> Job:
    letter, comment = str(cells.get("job_state", "")), str(cells.get("comment", ""))
    code = next((int(cells[key]) for key in ("Exit_status", "exit_status") if key in cells), None)
    hosts = [part.partition("/")[0].partition(".")[0] for part in str(cells.get("exec_host", "")).split("+")]
    nodes = ",".join(dict.fromkeys(filter(None, hosts)))
    used, asked = cells.get("resources_used", {}), cells.get("Resource_List", {})
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
        elapsed_s=seconds(str(used.get("walltime"))) or 0,
        limit_s=seconds(str(asked.get("walltime"))),
        restarts=max(0, int(cells.get("run_count", 0)) - 1),
        submitted=moment(str(cells.get("qtime", "")), CTIME),
        never_starts=state == "PENDING" and _NEVER.match(comment) is not None,
        scheduler=NAME,
    )
