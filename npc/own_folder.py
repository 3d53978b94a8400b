"""A folder that several processes of one user write into while a program runs, and nobody else.

The names of the files in it can be guessed: a node's name, a rank's number. In a folder that others may write
into, a link that waits under such a name would lead to any file of who runs the program. So nobody else may
look into this folder until the run is over. Each file is made below a descriptor of the folder, never along
its path, since others may have put a folder of theirs in its place. Only the standard library:
`npc.observe.rank` starts once for every rank.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITERS: Final = stat.S_IWGRP | stat.S_IWOTH


def make(folder: Path) -> None:
    """Make the folder. Raises OSError where something is there, and where the file system keeps no owners."""
    folder.mkdir(mode=0o700)
    check(folder)


def check(folder: Path) -> None:
    """Raises PermissionError where others may write into the folder, or have put theirs in its place."""
    with opened(folder):
        pass


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Its descriptor. Raises OSError, PermissionError as `check` does."""
    descriptor = os.open(folder, _FOLDER)
    try:
        state = os.fstat(descriptor)
        if state.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, f"it belongs to user {state.st_uid}", str(folder))
        if state.st_mode & _WRITERS:
            raise PermissionError(errno.EPERM, "others may write there", str(folder))
        yield descriptor
    finally:
        os.close(descriptor)


def hand_out(folder: Path) -> None:
    """The run is over: whoever may read other new folders of this user may now read this one."""
    with contextlib.suppress(OSError), opened(folder) as descriptor:
        set_group = stat.S_IMODE(os.fstat(descriptor).st_mode) & stat.S_ISGID
        os.fchmod(descriptor, set_group | 0o777 & ~_umask())


def save(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file in such a folder, whole or not at all. Raises OSError."""
    with opened(path.parent) as folder:
        partial = f".{path.name}.{os.urandom(8).hex()}"
        try:
            with os.fdopen(os.open(partial, _NEW, 0o666, dir_fd=folder), "wb") as stream:
                stream.writelines(parts)
            os.replace(partial, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(partial, dir_fd=folder)
            error.filename, error.filename2 = str(path), None
            raise


def mark(path: Path) -> None:
    """Make an empty file in such a folder. Raises OSError, FileExistsError where there is one."""
    with opened(path.parent) as folder:
        os.close(os.open(path.name, _NEW, 0o666, dir_fd=folder))


def _umask() -> int:
    """This process's, without changing it meanwhile for its threads (proc(5))."""
    try:
        line = re.search(r"^Umask:\s*(\d+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        line = None
    return int(line[1], 8) if line else 0o077
