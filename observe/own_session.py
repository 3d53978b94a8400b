"""A process that outlives the launcher's ranks. Only the standard library, as in `npc.observe.rank`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

#: Signals of a process's own errors, and those that nobody catches.
_NOT_PASSED_ON: Final = frozenset({
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE,
    signal.SIGILL, signal.SIGTRAP, signal.SIGSYS, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTIN,
    signal.SIGTTOU,
})  # fmt: skip
#: What people, launchers and batch systems send to programs, by whichever agreement.
PASSED_ON: Final = frozenset(signal.valid_signals() - _NOT_PASSED_ON)
_MOST_FILES: Final = 65536


def leave_launcher(descriptors: Iterable[int]) -> None:
    """Be in a session of one's own, without what a launcher might wait for. kept: descriptors."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    keep_only_descriptors({0, 1, 2, *descriptors})


def keep_only_descriptors(descriptors: Iterable[int]) -> None:
    """Ignore what launchers send, and close every descriptor but those `kept`."""
    for signal_number in PASSED_ON:
        signal.signal(signal_number, signal.SIG_IGN)
    for first, after in pairwise(sorted({-1, *descriptors, _MOST_FILES})):
        if after > first + 1:  # of none, closerange(0, 0) would close all
            os.closerange(first + 1, after)
