"""A folder of a benchmark's own below a place that a user names: made anew, and removed however it ends.

What measures a file system must never touch anything but files that it made itself, and leave nothing behind,
also where it is told to end by a signal. Only SIGKILL leaves the folder there.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from npc.machine.client_traffic import moved_bytes
from npc.machine.mounts import mounted
from npc.records.units import format_size

#: Beside the files: their names, and blocks of the file system's own.
_SPARE_BYTES: Final = 8 << 20
#: How long a child that was told to end may take; `npc.jobs.sample` does not wait much longer.
_GRACE_S: Final = 0.5
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class NoPlace(Exception):
    """Files cannot be made there; the message says why and what would help."""


def place_of(target: str, scratch: str = "") -> Path:
    """The folder that ``io_paths`` means: ``run``, the present one; ``scratch``, the node's own; or a path.

    scratch: the node's own; where it is not said, ``$TMPDIR`` or ``/tmp``.
    """
    if target == "run":
        return Path.cwd()
    if target == "scratch":
        return Path(scratch or os.environ.get("TMPDIR") or "/tmp")
    return Path(target)


def filled(folder: Path) -> str:
    """The share of the file system of a folder that is taken, as a user sees it; "" where it has no size."""
    left = os.statvfs(folder)
    there = left.f_blocks - left.f_bfree + left.f_bavail
    return f"{1 - left.f_bavail / there:.3f}" if there else ""


class OwnFolder:
    """The folder, as a context manager, and the one child that works in it.

    path: `place`, until `make` has made the folder below it. others: what this node moved from and to the
    file system while the last child ran, that was not the child's, over what was; "" where no counter tells.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._child: subprocess.Popen[bytes] | None = None
        self.path = place
        self.others = ""

    def __enter__(self) -> OwnFolder:
        for number in _SIGNALS:
            signal.signal(number, self._stopped)
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        if self.path != self._place:
            shutil.rmtree(self.path, ignore_errors=True)

    def make(self, size_bytes: int, files: int = 0) -> None:
        """Make it. Raises NoPlace where that cannot be, and where the file system has less than `size_bytes`
        left for a user, or fewer inodes than `files`."""
        size_bytes += _SPARE_BYTES
        try:
            left = os.statvfs(self._place)
            free = left.f_bavail * left.f_frsize
            if left.f_blocks and free < size_bytes:  # ramfs says nothing
                raise NoPlace(
                    f"{self._place} has {format_size(free)} left, the files need {format_size(size_bytes)}: "
                    "--set io_bytes=… with less, or --set io_paths=… with another place"
                )
            if left.f_files and left.f_favail < files:
                raise NoPlace(f"{self._place} has {left.f_favail} inodes left, {files} are needed")
            self.path = Path(tempfile.mkdtemp(prefix="npc-io-", dir=self._place))
        except OSError as error:
            raise NoPlace(f"{self._place} on {os.uname().nodename}: {error.strerror}: see io_paths") from None

    def run(self, command: Sequence[str], stdout: int | None = None) -> int:
        """The exit code of a command that works in the folder."""
        before, own = moved_bytes(self.path, *mounted(self.path)), _moved_by_children()
        self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, cwd=self.path)
        code = self._child.wait()
        after, own = moved_bytes(self.path, *mounted(self.path)), _moved_by_children() - own
        self.others = ""
        if before is not None and after is not None and own:
            self.others = f"{max(0, after - before - own) / own:.3f}"
        return code

    def _stopped(self, number: int, _: FrameType | None) -> NoReturn:
        """End by way of __exit__; further signals do not stop the tidying up."""
        for other in _SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        sys.exit(128 + number)


def _moved_by_children() -> int:
    """Bytes that children moved from and to storage, of those that were waited for (getrusage(2))."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 512 * (used.ru_inblock + used.ru_oublock)
