"""SIGINT and SIGTERM, heard wherever they come and obeyed where nothing is cut in the middle.

The handler only notes the signal. It raises nothing: an exception may come between any two instructions, and
so between `subprocess.Popen.wait` taking its lock and the ``try`` that gives it back; who waits for the same
process afterwards waits for ever. It takes no lock either, such as that of `threading.Event`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Final

#: A stop is heard within this time.
_SLICE_S: Final = 0.1
#: While a process is waited for: the first look, and the longest time between two. Where the kernel does not
#: tell when it ends, how long a launch took is known to within a look, so the first are close together.
_FIRST_LOOK_S: Final = 0.0005
_LOOK_S: Final = 0.05


class Stop:
    """A stop is a wish that whoever waits looks at; `number` is the signal that asked for it."""

    def __init__(self) -> None:
        self.number: int | None = None

    def wait(self, seconds: float) -> bool:
        """Sleep, until the time is over or a stop is asked for; whether it is."""
        deadline = time.monotonic() + seconds
        while self.number is None and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_S))  # in slices, since a sleep goes on after a signal
        return self.number is not None

    def wait_for(self, process: subprocess.Popen[bytes], seconds: float) -> bool:
        """Wait for a process until it ends, the time is over or a stop is asked for; whether it has ended."""
        deadline = time.monotonic() + seconds
        look = _FIRST_LOOK_S
        with _ending(process.pid) as ending:
            while process.poll() is None:
                left = deadline - time.monotonic()
                if left <= 0 or self.number is not None:
                    return False
                select.select(ending, [], [], min(left, look))
                look = min(2 * look, _LOOK_S)
        return True

    @contextlib.contextmanager
    def listening(self) -> Iterator[Stop]:
        """Take over both signals for a while."""
        previous = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _ask(self, number: int, _frame: object) -> None:
        self.number = number


@contextlib.contextmanager
def _ending(pid: int) -> Iterator[list[int]]:
    """What `select` finds ready when a child has ended; nothing where it cannot be had (pidfd_open(2): Linux
    5.3, and a Python that was built for it)."""
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, AttributeError):
        yield []
        return
    try:
        yield [descriptor]
    finally:
        os.close(descriptor)
