"""A session of processes: what one launch started, found and ended together.

A process started in a session of its own (setsid(2)) hands the session on to all that it starts. A process
group does not reach as far: ``mpirun`` puts every rank into a group of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Final

from npc import processes

#: How often to look whether a session has ended; nothing is being measured then.
_LOOK_S: Final = 0.02
#: A process that has not ended this long after SIGKILL hangs in the kernel; nobody can wait for it.
_UNKILLABLE_S: Final = 2.0


def members(leader: int) -> list[int]:
    """Pids of the living processes of the session that `leader` began."""
    return [process.pid for process in processes.everyone() if process.session == leader]


def end(leader: int, patience_s: float) -> None:
    """End a session: SIGTERM to the leader's process group, and SIGKILL to what is left after `patience_s`.

    The leader has to be waited for by its parent as usual. Returns at once if nothing is left.
    """
    if not members(leader):
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGTERM)
    if _ended(leader, patience_s):
        return
    for pid in members(leader):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _ended(leader, _UNKILLABLE_S)


def _ended(leader: int, limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while members(leader):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True
