"""Whether others could put something of theirs in the place of a file, which then must not be loaded."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

#: Parts of the way to a file that are looked at, at most: links may lead round and round.
_MOST_PARTS: Final = 1000


def others_may_write(path: Path) -> list[str]:
    """Which parts of the way to a file or folder, itself among them, another user than root may write to or
    replace, and who: ``/data (everybody)``. What is not there yet is left out.

    Where names are safe from others (the sticky bit, as in ``/tmp``) group and others are not meant, nor is a
    user's own group, of the user's name and without other members. Raises OSError.
    """
    trusted = {0, os.geteuid(), *_unmapped_root()}
    writable = []
    for part, state in _way_to(path):
        link = stat.S_ISLNK(state.st_mode)  # whose mode says nothing
        safe_names = stat.S_ISDIR(state.st_mode) and state.st_mode & stat.S_ISVTX
        open_to = 0 if link or safe_names else state.st_mode
        who = {
            "its owner": state.st_uid not in trusted,
            "its group": bool(open_to & stat.S_IWGRP) and not _is_own_group(state.st_gid),
            "everybody": bool(open_to & stat.S_IWOTH),
        }
        if any(who.values()):
            writable.append(f"{part} ({', '.join(name for name, may in who.items() if may)})")
    return writable


def make_private(folder: Path) -> None:
    """Make a folder, and those on the way to it that are not there, for their owner alone. Raises OSError."""
    for part in (*reversed(folder.parents), folder):
        if not part.exists():
            part.mkdir(mode=0o700, exist_ok=True)


def _way_to(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Each part of a path, that itself first; of a link the way to what it points to, too."""
    ways, visited = [path.absolute()], set[Path]()
    while ways and len(visited) < _MOST_PARTS:
        way = ways.pop(0)
        for part in (way, *way.parents):
            if part in visited:
                continue
            visited.add(part)
            try:
                state = part.lstat()
            except FileNotFoundError:
                continue
            yield part, state
            if stat.S_ISLNK(state.st_mode):
                ways.append(part.parent / part.readlink())


def _is_own_group(number: int) -> bool:
    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}


def _unmapped_root() -> set[int]:
    """In a container without a root of its own (user_namespaces(7)): the number that stands for root, and for
    all others who have none there."""
    try:
        mapped = Path("/proc/self/uid_map").read_text(encoding="utf-8").splitlines()
        if any(line.split()[0] == "0" for line in mapped):
            return set()
        return {int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="utf-8"))}
    except (OSError, ValueError, IndexError):
        return set()
