"""Passes on to the program what is sent to the process that stands before it, and stops when it stops.

Ctrl-C, a launcher or a batch system signal a whole process group, or all processes of a job: the program has
such a signal already. Only the standard library, as in `npc.observe.rank`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from npc.observe.own_session import PASSED_ON, keep_only_descriptors
from npc.processes import die_with_parent

#: A signal to many processes reaches all of them within this; that to one is passed on so much later.
_TOGETHER_S: Final = 0.1
#: What the witness saw longer ago was another signal.
_FORGOTTEN_S: Final = 1.0
#: Number of a signal, and when it came (CLOCK_MONOTONIC).
_SEEN: Final = struct.Struct("id")
_STOPS: Final = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class SignalWitness:
    """A process in the same process group and job, which notes what it is sent: a signal that it gets as well
    was not for this process alone. Made while the signals of `PASSED_ON` are blocked."""

    def __init__(self) -> None:
        self._reading, writing = os.pipe()
        os.set_blocking(self._reading, False)
        parent = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            try:
                die_with_parent(signal.SIGKILL)
                keep_only_descriptors({writing})
                while os.getppid() == parent:
                    os.write(writing, _SEEN.pack(signal.sigwait(PASSED_ON), time.monotonic()))
            finally:
                os._exit(0)
        os.close(writing)
        self._came_to_witness: dict[int, float] = {}

    def pass_on(self, process: int) -> None:
        """From now on, what reaches this process alone goes to `process` as well."""

        def relay(number: int, _frame: FrameType | None) -> None:
            if not self._came_to_all(number):
                with contextlib.suppress(OSError):
                    os.kill(process, number)

        for number in PASSED_ON:
            signal.signal(number, relay)

    def end(self) -> None:
        """End the witness; nothing must be passed on any more."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._reading)

    def _came_to_all(self, number: int) -> bool:
        deadline = time.monotonic() + _TOGETHER_S
        while True:
            self._read()
            if time.monotonic() - self._came_to_witness.pop(number, -_FORGOTTEN_S) < _FORGOTTEN_S:
                return True
            if (left := deadline - time.monotonic()) <= 0:
                return False
            select.select([self._reading], [], [], left)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for number, moment in _SEEN.iter_unpack(os.read(self._reading, 256 * _SEEN.size)):
                self._came_to_witness[number] = moment


def wait_for_end(process: int) -> None:
    """Wait until a child has ended, which it stays to be waited for. Whenever it stops, so does this process:
    a shell or launcher sees what it would have seen."""
    with _any_signal() as arrived:
        while True:
            change = os.waitid(os.P_PID, process, os.WEXITED | os.WSTOPPED | os.WNOWAIT | os.WNOHANG)
            if change is None:
                select.select([arrived], [], [])
                with contextlib.suppress(BlockingIOError):
                    os.read(arrived, 4096)
                continue
            if change.si_code not in (os.CLD_STOPPED, os.CLD_TRAPPED):
                return
            # only this event: the child may have been continued, or have ended, in the meantime
            stopped = os.waitid(os.P_PID, process, os.WSTOPPED | os.WNOHANG)
            if stopped is not None:
                _stop_like(process, stopped.si_status)


@contextlib.contextmanager
def _any_signal() -> Iterator[int]:
    """A descriptor that can be read once a signal has come, SIGCHLD among them.

    A signal that comes just before a call that waits is noted by Python and handled when that call returns,
    which may be never: the child waits for that signal. What is noted in a pipe ends the wait.
    """
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    child_changed = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        yield reading
    finally:
        signal.signal(signal.SIGCHLD, child_changed or signal.SIG_DFL)
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


def _stop_like(process: int, number: int) -> None:
    if number not in _STOPS:
        if _is_stopped(process):
            os.kill(os.getpid(), signal.SIGSTOP)
        return
    # SIGCONT takes away a stop that waits, so none that comes now is lost
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    before = signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    if not _is_stopped(process):
        signal.signal(number, signal.SIG_IGN)  # which takes it away
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})  # stops here
    signal.signal(number, before)


def _is_stopped(process: int) -> bool:
    try:
        text = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text[text.rindex(")") + 2] in "Tt"
