"""What no test may see: what a checkout keeps of its user's runs, and what the user's home has of NPC.

The kernel tells of every open and every change there (inotify(7)), whatever process it was. Only what exists
can be opened: CI measures before it tests, so that there is a run, and plants the rest, also in a home that
nobody but its tests has::

    HOME=… python -m tests.lab.untouched plant
    python -m tests.lab.untouched remove             what is planted in the checkout
"""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from tests.paths import ROOT

# <sys/inotify.h>
_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_OPEN, _OVERFLOW, _OF_FOLDER = 0x20, 0x4000, 0x40000000
_CHANGE: Final = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
#: ``struct inotify_event``: watch, mask, cookie, length of the name that follows.
_EVENT: Final = struct.Struct("iIII")
_MOST_BYTES: Final = 1 << 16

#: What NPC writes into a checkout for its user, and reads there.
_KEPT: Final = ("runs", "history", "observed", "tried", "results")
#: What the tools of the tests themselves write into a checkout, at any time; JUBE does while it reads a file.
_OF_TOOLS: Final = frozenset(
    (".git", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "__pycache__",
     "jube-parse.log")
)  # fmt: skip
#: What becomes ``.pytest_cache``, where there was none.
_NEW_CACHE: Final = "pytest-cache-files-"
#: The names that are meant in the folders of a home, into which others write, too.
_IN_HOME: Final = {
    ".": (".cache", ".config", ".local"),
    ".local": ("share", "state"),
    ".cache": ("npc",),
    ".config": ("npc",),
    ".local/share": ("npc",),
    ".local/state": ("npc",),
}
#: JUBE's first runs.
_RUNS: Final = tuple(f"{number:06d}" for number in range(100))
#: What is planted, below a checkout and below a home.
_PLANTED: Final = ("runs/000099", "history/localhost", "observed")
_PLANTED_AT_HOME: Final = (".cache/npc/planted", ".config/npc")
#: Says that a folder was planted.
_MARK: Final = "planted-for-tests"


class Untouched:
    """Watches a checkout for changes; what it keeps, and the NPC of a home that was planted, for opens too.

    Raises OSError where the kernel has no more instances or watches (``/proc/sys/fs/inotify``).
    """

    def __init__(self, checkout: Path, home: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        #: Watch → its folder, the names that are meant (none: all), whether listing it counts.
        self._folders: dict[int, tuple[Path, Collection[str], bool]] = {}
        # what is fetched or compiled once for an installation lies deeper, in .venv/share/npc
        for folder in (*_below(checkout, {*_OF_TOOLS, *_KEPT}), checkout / ".venv", checkout / ".venv/share"):
            self._watch(folder, _CHANGE)
        # tests run in several processes, of which each would see the others list what is kept: by name
        platforms = [folder.name for folder in (checkout / "platforms").glob("*")]
        for name in _KEPT:
            for folder in (".", *_RUNS, *platforms):
                self._watch(checkout / name / folder, _CHANGE | _OPEN)
        # another home is one in which others run NPC, too
        planted = (home / _PLANTED_AT_HOME[0] / _MARK).exists()
        for place, names in _IN_HOME.items() if planted else ():
            self._watch(home / place, _CHANGE, names)
            for folder in _below(home / place / "npc", set()):
                self._watch(folder, _CHANGE | _OPEN, listing=False)

    def close(self) -> None:
        os.close(self._descriptor)

    def touched(self) -> list[str]:
        """What was opened or changed since the last call: a line for each path, sorted."""
        lines = set()
        for watch, mask, name in self._events():
            folder, names, listing = self._folders.get(watch, (Path(), (), False))
            if mask & _OVERFLOW:
                lines.add("more than the kernel remembers (inotify)")
            elif mask & _OPEN and mask & _OF_FOLDER and not listing:
                continue
            elif mask & (_OPEN | _CHANGE) and not _is_of_tools(name) and (not names or name in names):
                lines.add(f"{'opened' if mask & _OPEN else 'changed'}: {folder / name}")
        return sorted(lines)

    def _events(self) -> Iterator[tuple[int, int, str]]:
        """(watch, mask, name in the folder; empty of itself) of each event since the last call."""
        while True:
            try:
                read = os.read(self._descriptor, _MOST_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(read):
                watch, mask, _, length = _EVENT.unpack_from(read, at)
                at += _EVENT.size + length
                yield watch, mask, os.fsdecode(read[at - length : at].rstrip(b"\0"))

    def _watch(self, folder: Path, mask: int, names: Collection[str] = (), listing: bool = True) -> None:
        if folder.is_dir():
            watch = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask)
            self._folders[self._checked(watch)] = (folder, names, listing)

    def _checked(self, answer: int) -> int:
        if answer < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return answer


def _is_of_tools(name: str) -> bool:
    return name in _OF_TOOLS or name.startswith(_NEW_CACHE)


def _below(folder: Path, without: Collection[str]) -> Iterator[Path]:
    """The folder and all in it, but for those of some names."""
    for path, folders, _ in os.walk(folder):
        yield Path(path)
        folders[:] = [name for name in folders if name not in without]


def plant(checkout: Path, home: Path) -> None:
    """Records that would change what is seen, where there is nothing yet."""
    example = checkout / "docs/example/localhost"
    for folder in (*map(checkout.joinpath, _PLANTED), *map(home.joinpath, _PLANTED_AT_HOME)):
        if not folder.exists():
            shutil.copytree(example, folder)
            (folder / _MARK).touch()


def remove(checkout: Path) -> None:
    """Take away what `plant` made in a checkout, and folders that are empty without it."""
    for folder in map(checkout.joinpath, _PLANTED):
        if (folder / _MARK).exists():
            shutil.rmtree(folder)
            if folder.parent != checkout and not any(folder.parent.iterdir()):
                folder.parent.rmdir()


if __name__ == "__main__":
    if sys.argv[1] == "plant":
        plant(ROOT, Path.home())
    else:
        remove(ROOT)
