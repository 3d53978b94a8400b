"""Linux processes: who descends from whom, and how none is left behind.

The kernel gives three means, and all are used: a process may ask to be signalled when its parent dies
(``PR_SET_PDEATHSIG``), orphans go to the nearest ancestor that asked for them
(``PR_SET_CHILD_SUBREAPER``), and ``/proc`` shows the tree (prctl(2), proc(5)).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from npc import processes

_PR_SET_CHILD_SUBREAPER: Final = 36
#: A process that has not ended this long after SIGKILL hangs in the kernel; nobody can wait for it.
UNKILLABLE_S: Final = 2.0

#: CONFIG_PROC_CHILDREN; reading all of /proc instead takes milliseconds, and a node may have thousands.
_LISTS_CHILDREN: Final = Path(f"/proc/self/task/{os.getpid()}/children").exists()

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the new parent of descendants whose parents end (daemons, too)."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def ancestors(pid: int) -> list[tuple[int, str]]:
    """(pid, command name) of the living ancestors of a process, the parent first."""
    parents: list[tuple[int, str]] = []
    process = processes.read(pid)
    while process and process.parent > 0:
        process = processes.read(process.parent)
        if process:
            parents.append((process.pid, process.name))
    return parents


def descendants(pid: int, without: Collection[int] = ()) -> list[int]:
    """Living descendants of a process, parents before children, but not those in `without` and theirs."""
    children_of = _children_of if _LISTS_CHILDREN else _process_table().__getitem__
    living: list[int] = []
    waiting = [pid]
    while waiting:
        for child in children_of(waiting.pop()):
            if child not in without and processes.read(child):
                living.append(child)
                waiting.append(child)
    return living


def _children_of(pid: int) -> list[int]:
    """Children of all threads of a process, ended ones included; none if it is gone."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  runs every millisecond
            with contextlib.suppress(OSError):
                children += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return children


def _process_table() -> dict[int, list[int]]:
    """Children by parent, of all processes: for kernels that do not list a process's children."""
    children: dict[int, list[int]] = defaultdict(list)
    for process in processes.everyone():
        children[process.parent].append(process.pid)
    return children


def signal_each(pids: Iterable[int], signum: int) -> None:
    """Send a signal to processes, some of which may be gone already."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signum)


def reap() -> dict[int, int]:
    """Collect ended children without waiting: pid → exit code (negative for a signal)."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended


def has_children() -> bool:
    """Whether this process has any children, adopted ones included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_descendants(grace_s: float) -> None:
    """Kill all descendants of this process, which adopts orphans, and reap them.

    Forks of this very program are only asked to end, and have `grace_s` seconds for what they still write.
    """
    deadline = time.monotonic() + grace_s
    pid = os.getpid()
    own = _command_line(pid)
    terminated: set[int] = set()
    while has_children() and time.monotonic() < deadline + UNKILLABLE_S:
        for descendant in descendants(pid):
            if time.monotonic() < deadline and _command_line(descendant) == own:
                if descendant not in terminated:
                    signal_each([descendant], signal.SIGTERM)
                    terminated.add(descendant)
            else:
                signal_each([descendant], signal.SIGKILL)
        time.sleep(0.002)
        reap()


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
