"""A program gets what it would have without `npc observe`, and its parent sees what it would have seen.

Python changes its own process at its start: it ignores SIGPIPE and SIGXFSZ, and may set LC_CTYPE (PEP 538).
What a process ignores and blocks, and its environment, go on to the program. Only the standard library, as in
`npc.observe.rank`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from npc.observe.own_session import PASSED_ON

if TYPE_CHECKING:
    from collections.abc import Callable

#: What Python ignores in itself. What these were before cannot be known; launchers start programs with the
#: default.
_PYTHON_IGNORES: Final = (signal.SIGPIPE, signal.SIGXFSZ)
_LC_CTYPE: Final = b"LC_CTYPE"
#: By which a person stops what lasts too long.
FROM_PEOPLE: Final = frozenset(
    {signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT}
)
#: linux/prctl.h
_PR_SET_DUMPABLE: Final = 4


class GivenSignals:
    """The signals that this process was started with: what it ignores and blocks."""

    def __init__(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._actions: dict[int, Any] = {
            number: signal.getsignal(number) for number in signal.valid_signals()
        }
        # a parent that ignores it: then no child could be waited for
        if self._actions[signal.SIGCHLD] == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def action(self, number: int) -> int:
        """What the program does at this signal until it asks for something else: SIG_IGN or SIG_DFL."""
        is_ignored = self._actions[number] == signal.SIG_IGN and number not in _PYTHON_IGNORES
        return signal.SIG_IGN if is_ignored else signal.SIG_DFL

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nothing that is passed on arrives meanwhile; afterwards all of it does."""
        signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)

    def hand_on(self) -> None:
        """In a child, right before it becomes the program."""
        signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        for number in self._actions.keys() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, self.action(number))
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def ignore(self, wanted: frozenset[int] = frozenset()) -> None:
        """Once the program has ended: what was observed has to reach the disk. wanted: what is as before."""
        for number in PASSED_ON:
            _set(number, self._actions[number] if number in wanted else signal.SIG_IGN)


def _set(number: int, action: Callable[[int, FrameType | None], Any] | int | None) -> None:
    if action is not None:  # somebody else's than Python's
        signal.signal(number, action)


@cache
def given_signals() -> GivenSignals:
    """As they were when this was first asked."""
    return GivenSignals()


def restore_environment() -> None:
    """Take back what Python's start did to the environment (proc(5): exec(3) gave it so)."""
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:  # then it stays
        return
    os.environb.pop(_LC_CTYPE, None)
    for name, _, value in (entry.partition(b"=") for entry in entries):
        if name == _LC_CTYPE:
            os.environb[name] = value


def occupy_standard_descriptors() -> None:
    """Where standard streams are closed, see that no other file gets their numbers; the program finds them
    closed."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # not inheritable
        pass
    os.close(descriptor)


def end_like(code: int) -> NoReturn:
    """End this process as the program ended: by its exit code, or for -n by signal n."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    if code < 0:
        _end_by_signal(-code)
    sys.exit(code if code >= 0 else 128 - code)


def _end_by_signal(number: int) -> None:
    """Without a core, which might replace the program's. Returns where it cannot be."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # where a program takes cores, it asks for no limit
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
