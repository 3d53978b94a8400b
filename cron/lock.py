"""One night at a time: a lock that a crash gives back, and that says who holds it or died with it.

The kernel's lock of a file (flock(2)) ends with the process that holds it, however it ends. The file says
who that is (host, pid, the start of the process, until when at the latest), so that a night which died is
noticed, and so that it holds where locks are not: on Lustre without ``flock``, and between the hosts of an
NFS that keeps locks to itself.
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
from typing import Final

NAME: Final = "nightly.lock"
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Held(Exception):
    """Somebody else has the lock; the message says who."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lock. begun: the process's start in clock ticks since boot, which tells it from a later
    one with its pid; boot: of which boot; since, until: seconds since the epoch."""

    host: str
    pid: int
    begun: int
    boot: str
    since: float
    until: float

    @classmethod
    def this(cls, limit_s: float) -> Holder:
        """This process, for at most `limit_s` from now on."""
        pid, now = os.getpid(), time.time()
        return cls(os.uname().nodename, pid, _begun(pid) or 0, _boot(), now, now + limit_s)

    def alive(self) -> bool:
        """Whether it still runs; of another host's process, whether its time is not over."""
        if self.host != os.uname().nodename:
            return time.time() < self.until
        return self.boot == _boot() and _begun(self.pid) == self.begun

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, timezone.utc).astimezone()
        return f"process {self.pid} on {self.host}, since {since:%Y-%m-%d %H:%M:%S}"


@contextlib.contextmanager
def only_one(folder: Path, limit_s: float) -> Iterator[Holder | None]:
    """Holds the lock of `folder`; gives the holder that died with it, None if it was given back in order.

    `limit_s` is how long it will be held at most. Raises `Held`, and OSError as the file system does.
    """
    with (folder / NAME).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise Held(_told(_read(folder))) from None
        before = _read(folder)
        if before and before.alive():
            raise Held(_told(before))
        lock.seek(0)
        lock.truncate(0)
        lock.write(json.dumps(asdict(Holder.this(limit_s))))
        lock.flush()
        try:
            yield before
        finally:
            lock.truncate(0)


def holder(folder: Path) -> Holder | None:
    """Who holds the lock now, or died with it; None if nobody does."""
    return _read(folder)


def _read(folder: Path) -> Holder | None:
    try:
        return Holder(**json.loads((folder / NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # empty: given back in order; half of one: its writer died at once


def _told(by: Holder | None) -> str:
    return f"another night is running ({by or 'it is just starting'})"


def _begun(pid: int) -> int | None:
    """When a living process started, in clock ticks since boot (proc(5), field 22); None if it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else int(fields[18])


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
