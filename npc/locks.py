"""One process at a time: the lock of a file, which says who holds it or died with it.

The kernel's lock (flock(2)) ends with the process that holds it, however it ends, or with the last one that
inherited its descriptor. Where a file system has none (Lustre mounted without ``flock`` answers ENOSYS), a
file beside it that only one can create (``NAME.held``, `filelock.SoftFileLock`) takes its place; what a dead
process of this host left is removed. The locked file names its holder (host, pid, start of the process), so
that who died is noticed, and so that a lock with a known end also holds between the hosts of an NFS that
keeps locks to itself.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

from npc import processes
from npc.files import naming, parse_json, read_bytes

_NO_FLOCK: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
#: Between two looks at a lock that somebody else has (seconds).
_LOOK_S: Final = 0.05


class LockHeld(Exception):
    """Somebody else has the lock; the message says who."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, as the locked file names it."""

    #: The host that its process runs on.
    host: str
    #: The kernel's number of that process.
    pid: int
    #: When it started, in clock ticks since the boot: tells it from a later process with its number.
    begun: int
    #: The kernel's name of the boot in which it runs; empty where the kernel has none.
    boot: str
    #: When it took the lock, in s since the epoch.
    since: float
    #: When it will have given the lock back at the latest, in s since the epoch; 0: nobody knows.
    until: float

    def alive(self) -> bool:
        """Whether it still runs; of another host's process, whether its time is not over."""
        if self.host != os.uname().nodename:
            return time.time() < self.until
        process = processes.read(self.pid)
        return process is not None and (self.boot, self.begun) == (processes.boot(), process.started)

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, timezone.utc).astimezone()
        return f"process {self.pid} on {self.host}, since {since:%Y-%m-%d %H:%M:%S}"


class Lock(NamedTuple):
    """A lock that is held."""

    #: Who held it before and died with it; None if nobody did.
    died: Holder | None
    #: Open file descriptor of the locked file, for a child that is to go on holding the lock.
    descriptor: int


@contextlib.contextmanager
def only_one(path: Path, limit_s: float = 0.0, wait_s: float = 0.0) -> Iterator[Lock]:
    """Holds the lock of the file `path`, which is made; waits for it at most `wait_s`.

    `limit_s` is how long it will be held at most, 0 if that is not known. Who may write into its folder may
    take it, and nobody else: who could only read it could lock it, too (flock(2)), and stop a night. Raises
    `LockHeld`, and OSError as the file system does, also where `path` is a link: the file is written to, and
    a link may lead anywhere.
    """
    deadline = time.monotonic() + wait_s
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with contextlib.suppress(OSError):  # another user's, who has done it
        writers = path.parent.stat().st_mode & 0o022
        os.fchmod(descriptor, 0o600 | writers | writers << 1)
    with os.fdopen(descriptor, "a+") as stream, contextlib.ExitStack() as held:
        while True:
            try:
                died = _take(path, stream, held)
                break
            except LockHeld:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_LOOK_S)
        own, now = processes.read(os.getpid()), time.time()
        assert own is not None
        until = now + limit_s if limit_s else 0.0
        this = Holder(os.uname().nodename, own.pid, own.started, processes.boot(), now, until)
        stream.seek(0)
        stream.truncate()
        with naming(path):  # not by the stream, which would try again when it is closed
            os.write(stream.fileno(), json.dumps(asdict(this)).encode())
        try:
            yield Lock(died, stream.fileno())
        finally:
            stream.truncate(0)


def holder(path: Path) -> Holder | None:
    """Who holds the lock of `path` now, or died with it; None if nobody does."""
    try:
        named = msgspec.convert(parse_json(read_bytes(path)), Holder)
        str(named)  # its moment is one
    except (OSError, ValueError, OverflowError, msgspec.ValidationError):
        return None  # empty: given back in order; half of one: its writer died at once
    return named


def _take(path: Path, stream: IO[str], held: contextlib.ExitStack) -> Holder | None:
    """Take the lock, if it is free; who died with it."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockHeld(str(holder(path) or "it is just starting")) from None
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
        _take_marker(path, held)
    before = holder(path)
    if before and before.alive():
        raise LockHeld(str(before))
    return before


def _take_marker(path: Path, held: contextlib.ExitStack) -> None:
    from filelock import SoftFileLock, Timeout  # only here, because it takes longer than all else

    marker = path.with_name(f"{path.name}.held")
    before = holder(path)
    if before and before.until and not before.alive():  # of another host, too
        marker.unlink(missing_ok=True)
    try:
        held.enter_context(SoftFileLock(marker, timeout=0))
    except Timeout:
        raise LockHeld(f"{before or 'it is just starting'}; if nobody is: remove {marker}") from None
