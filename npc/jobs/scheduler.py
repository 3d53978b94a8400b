"""What waiting, nights and costs ask of a batch system, whichever it is.

A module a batch system answers it: `npc.jobs.slurm`, `npc.jobs.grid_engine`, `npc.jobs.pbs` and
`npc.jobs.flux`; `npc.jobs.schedulers` finds the one that a job was submitted to. States are Slurm's words
(squeue(1), "JOB STATE CODES"): the others' are told in them.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from npc.machine.command import last_line
from npc.records.units import format_duration

#: A job's number, or the name that the batch system has for it (``18.server``, ``ƒ2oLkTLb``).
JobId: TypeAlias = int | str
#: States that a job never leaves. PREEMPTED is only final where it is not requeued; then it is PENDING.
ENDED: Final = frozenset(
    (
        "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
        "PREEMPTED", "REVOKED", "TIMEOUT",
    )
)  # fmt: skip
#: A controller of Slurm that is away makes squeue try for about 9 s, one that hangs for MessageTimeout (10 s)
#: twice.
_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.2


class SchedulerUnavailable(Exception):
    """The batch system does not answer just now; the message is what its command said."""


@contextlib.contextmanager
def understood(command: str) -> Iterator[None]:
    """Makes an answer that cannot be read `SchedulerUnavailable`, with what of it could not: the next one
    may be whole."""
    try:
        yield
    except (ValueError, OverflowError, LookupError) as error:
        raise SchedulerUnavailable(f"the answer of {command} was not understood: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as its batch system describes it."""

    #: Its number, or the name that the batch system has for it.
    id: JobId
    #: How far it is or how it ended, in Slurm's words.
    state: str
    #: Why it waits or how it failed, as the batch system puts it; empty if that does not say.
    reason: str = ""
    #: What the batch script ended with; None before its end, and where that is not known.
    exit_code: int | None = None
    #: Number of the signal that ended it; 0 if none did.
    signal: int = 0
    #: The nodes that it has or had, as a list (``n[1-2]``); empty if it never had any.
    nodes: str = ""
    #: How long it has run since its last start, in s; 0 if it never started.
    elapsed_s: int = 0
    #: Its time limit in s; None if it has none, or it is not known.
    limit_s: int | None = None
    #: How often it went back into the queue after a start.
    restarts: int = 0
    #: When it was submitted, by the batch system's clock and time zone; None if that does not say.
    submitted: datetime | None = None
    #: Whether it waits for what does not come until somebody changes the job or the cluster.
    never_starts: bool = False
    #: Name of its batch system, for people.
    scheduler: str = "Slurm"

    @property
    def ended(self) -> bool:
        """Whether it will never run again."""
        return self.state in ENDED

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
            why = f" ({self.reason})" if self.reason else ""
            how = f"was given up by {self.scheduler} before it ran{why}"
        elif self.state == "FAILED" and self.signal:
            how = f"was ended by {_signal_name(self.signal)} {after}"
        elif self.state == "FAILED" and self.exit_code is None:
            how = f"failed{on} {after}{f': {self.reason}' if self.reason else ''}"
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


class Scheduler(Protocol):
    """A batch system: each of its modules is one."""

    @property
    def NAME(self) -> str:
        """For people."""

    @property
    def COMMANDS(self) -> tuple[str, ...]:
        """The programs that are asked; where one is missing, waiting is to be done elsewhere."""

    @property
    def GONE(self) -> str:
        """What is to be said of a job ``{}`` that it no longer knows."""

    @property
    def SETTLE_S(self) -> float:
        """How long after its end a job may not be accounted for yet."""

    def submitted(self, text: str, submits: str) -> tuple[JobId, str] | None:
        """The last job, and its cluster, that the output of a submission names; `submits` is the command
        line of this, with which some outputs mean something alone."""

    def submit_limit(self, text: str) -> str:
        """Which limit on jobs in its queue the last refusal in this output of a submission names, in its own
        words; empty where it names another reason, or nothing was refused."""

    def ask(
        self, ids: Collection[JobId], cluster: str = "", stopped: Callable[[], bool] = lambda: False
    ) -> dict[JobId, Job]:
        """What it knows of these jobs, in one question if it can; those that it does not know are missing.

        Raises `SchedulerUnavailable` when it does not answer, or not before the caller is `stopped`;
        FileNotFoundError without its commands.
        """

    def cancel(self, job: JobId, cluster: str = "") -> None:
        """Cancel a job; raises `SchedulerUnavailable` with its words if it does not."""


def call(
    command: Sequence[str],
    stopped: Callable[[], bool] = lambda: False,
    unwanted: tuple[str, ...] = (),
    timeout_s: float = _TIMEOUT_S,
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a batch system's command, without the variables that begin with one of
    `unwanted`. Raises `SchedulerUnavailable` if it takes too long, or the caller is `stopped`;
    FileNotFoundError."""
    env = {name: value for name, value in os.environ.items() if not unwanted or not name.startswith(unwanted)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, errors="replace"
    ) as process:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                out, err = process.communicate(timeout=_POLL_S)
                return process.returncode, out, err
            except subprocess.TimeoutExpired:
                if stopped() or time.monotonic() > deadline:
                    process.kill()
                    why = "before the stop" if stopped() else f"within {timeout_s:g} s"
                    raise SchedulerUnavailable(f"{command[0]} did not answer {why}") from None


def answer(
    command: Sequence[str],
    stopped: Callable[[], bool] = lambda: False,
    unwanted: tuple[str, ...] = (),
    unless: str = "",
) -> str:
    """Its stdout. Raises as `call` does, and `SchedulerUnavailable` with its words if it fails without
    saying `unless`."""
    code, out, err = call(command, stopped, unwanted)
    if code and not (unless and unless in err):
        raise SchedulerUnavailable(
            last_line(err) or last_line(out) or f"{command[0]} ends with exit code {code}"
        )
    return out


#: As ctime(3) writes a moment.
CTIME: Final = "%a %b %d %H:%M:%S %Y"


def seconds(clock: str) -> int | None:
    """Seconds of ``days-hours:minutes:seconds``, whose first two parts may be missing; None of what is none,
    such as UNLIMITED."""
    match = re.fullmatch(r"(?:(?:(\d{1,9})-)?(\d{1,9}):)?(\d{1,9}):(\d{1,9})", clock)
    if match is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def whole(text: str) -> int | None:
    """A whole number of at most 31 bits, as jobs, exit codes and minutes are; None of what is none."""
    number = int(text) if re.fullmatch(r"\d{1,10}", text) else 2**31
    return number if number < 2**31 else None


def moment(text: str, *forms: str) -> datetime | None:
    """The local time that is written in one of `forms` (strptime(3)); None of what is none, such as N/A."""
    for form in forms:
        with contextlib.suppress(ValueError):
            return datetime.strptime(text, form)
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
