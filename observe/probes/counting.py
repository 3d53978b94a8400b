"""Counts the events of a process at the points where a probe would be attached (perf_event_open(2)).

A counter costs the program what a probe costs it, the trap; so one is opened to find out whether the program
can stand the probe. Only the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import struct
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from npc.machine.processes import read

#: The system call's number (asm/unistd.h).
_NUMBER: Final = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
#: Bytes of struct perf_event_attr, its flags, and flags of the call (linux/perf_event.h).
_ATTRIBUTES: Final = 64
_DISABLED, _INHERIT, _ENABLE_ON_EXEC = 1, 2, 1 << 12
_CLOSE_ON_EXEC: Final = 8
_TRACEPOINT: Final = 2
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_TRACING: Final = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_GROUP: Final = "npc"
_NUMBERS: Final = count()
_ROOT: Final = (
    "events are counted by root, or with CAP_PERFMON and the right to write into /sys/kernel/tracing"
)
_NO_TRACING: Final = "no tracefs: mount -t tracefs tracefs /sys/kernel/tracing"
_NO_UPROBES: Final = "this kernel has no uprobes: it needs CONFIG_UPROBE_EVENTS=y"


class NoCounter(RuntimeError):
    """Events cannot be counted here; the message says why, and what would allow it."""


class CodeAddress(NamedTuple):
    """Where the code is that a uprobe is attached to."""

    file: str
    offset: int


class Counters:
    """Counts the events of processes at points of code, or at a tracepoint (``raw_syscalls:sys_enter``), each
    process with the threads and processes that it starts.

    A uprobe is defined once for all of them in tracefs: the kernel then takes its breakpoint out of one
    process after the other in less than a millisecond, where uprobes of their own need a tenth of a second
    each.
    """

    def __init__(self, *points: CodeAddress | str) -> None:
        """Raises NoCounter."""
        self._defined: list[str] = []
        self._held: list[int] = []
        self._events: list[tuple[str, int]] = []
        self._files: dict[int, list[int]] = {}
        self._before: dict[int, int] = {}
        try:
            for point in points:
                self._add(point)
        except NoCounter:
            self.end()
            raise

    def open(self, process: int, from_exec: bool = False) -> None:
        """Count; from_exec: from the moment when the process becomes another program. A process that has
        ended makes no events. Raises NoCounter."""
        flags = _DISABLED | _ENABLE_ON_EXEC if from_exec else 0
        self._before.setdefault(process, 0)
        opened = self._files.setdefault(process, [])
        for thread in [process] if from_exec else _threads(process):
            with contextlib.suppress(ProcessLookupError):
                opened += [_opened(what, number, thread, _INHERIT | flags) for what, number in self._events]

    def read(self) -> dict[int, int]:
        """Events by process, since its counting began, without the times when nobody counted."""
        return {
            process: before
            + sum(int.from_bytes(os.read(file, 8), "little") for file in self._files.get(process, ()))
            for process, before in self._before.items()
        }

    def close(self) -> None:
        """Count no longer; may be opened again."""
        self._before = self.read()
        files = [file for each in self._files.values() for file in each]
        self._files = {}
        for file in files:
            os.close(file)

    def end(self) -> None:
        """Leave nothing behind."""
        self.close()
        for file in self._held:
            os.close(file)
        for name in self._defined:
            with contextlib.suppress(OSError):
                _write(f"-:{name}")
        self._held, self._defined = [], []

    def _add(self, point: CodeAddress | str) -> None:
        if isinstance(point, str):
            self._events.append((point, _identifier(point)))
            return
        what = f"{point.file} at {point.offset:#x}"
        self._defined.append(_defined(point))
        number = _identifier(self._defined[-1].replace("/", ":"))
        self._events.append((what, number))
        if not _is_loaded(point.file):
            # the last one to close waits until no processor can be within the breakpoint any more
            self._held.append(_opened(what, number, 0, 0))


def _opened(what: str, identifier: int, thread: int, flags: int) -> int:
    """A descriptor that counts an event of a thread. Raises NoCounter, ProcessLookupError."""
    attributes = ctypes.create_string_buffer(_ATTRIBUTES)  # struct perf_event_attr (linux/perf_event.h)
    struct.pack_into("=IIQQQQQ", attributes, 0, _TRACEPOINT, _ATTRIBUTES, identifier, 0, 0, 0, flags)
    machine = os.uname().machine
    if machine not in _NUMBER:
        raise NoCounter(f"events cannot be counted on {machine}")
    descriptor: int = _LIBC.syscall(_NUMBER[machine], attributes, thread, -1, -1, _CLOSE_ON_EXEC)
    if descriptor >= 0:
        return descriptor
    number = ctypes.get_errno()
    if number == errno.ESRCH:
        raise ProcessLookupError(thread)
    if number in (errno.EACCES, errno.EPERM):
        raise NoCounter(_ROOT)
    raise NoCounter(f"events of {what} cannot be counted: {os.strerror(number)}")


def _defined(point: CodeAddress) -> str:
    """Define an event for a uprobe; its name, ``npc/u12345_0``."""
    if re.search(r"\s", point.file):
        raise NoCounter(f"the kernel takes no uprobe in a file whose path has blanks: {point.file}")
    remove_stale()
    name = f"{_GROUP}/u{os.getpid()}_{next(_NUMBERS)}"
    try:
        _write(f"p:{name} {point.file}:{point.offset:#x}")
    except PermissionError:
        raise NoCounter(_ROOT) from None
    except FileNotFoundError:
        raise NoCounter(_NO_TRACING if _tracing() is None else _NO_UPROBES) from None
    except OSError as error:
        raise NoCounter(f"{point.file} at {point.offset:#x}: no uprobe: {error.strerror}") from None
    return name


def remove_stale() -> None:
    """Definitions of processes that were killed: no breakpoint belongs to them, and nobody needs them."""
    root = _tracing()
    with contextlib.suppress(OSError):
        for line in (root / "uprobe_events").read_text().splitlines() if root else ():
            match = re.match(rf"p:({_GROUP}/u(\d+)_\d+) ", line)
            if match and not Path("/proc", match[2]).exists():
                _write(f"-:{match[1]}")


def _write(line: str) -> None:
    """Add a line to ``uprobe_events``, which takes no other way of appending."""
    file = os.open((_tracing() or _TRACING[0]) / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def _is_loaded(file: str) -> bool:
    """Whether this process would meet the breakpoint itself."""
    try:
        return any(line.rstrip().endswith(file) for line in Path("/proc/self/maps").open())
    except OSError:
        return True


def _threads(process: int) -> Iterable[int]:
    try:
        return [int(each.name) for each in Path(f"/proc/{process}/task").iterdir()] if read(process) else []
    except OSError:
        return []


def _tracing() -> Path | None:
    return next((root for root in _TRACING if (root / "events").is_dir()), None)


def _identifier(tracepoint: str) -> int:
    root = _tracing()
    if root is None:
        raise NoCounter(_NO_TRACING if os.geteuid() == 0 else _ROOT)
    try:
        return int((root / "events" / tracepoint.replace(":", "/") / "id").read_text())
    except FileNotFoundError:
        raise NoCounter(f"this kernel has no tracepoint {tracepoint}") from None
    except OSError:
        raise NoCounter(_ROOT) from None
