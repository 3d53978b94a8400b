"""Retention: the raw runs of good nights go after a while, and nothing else ever does.

The journal alone is no reason to delete: it may be a copy, restored from elsewhere, or edited. A night marks
the folder that it makes with its own name and its history; only a folder that bears this mark, under its own
name, directly below the output folder, of the same owner and on one file system, is removed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from npc.files import write_whole
from npc.records.journal import JournalEntry
from npc.records.verdicts import Verdict

MARK: Final = ".npc-night.json"
#: Verdicts whose raw runs are never removed.
KEPT: Final = frozenset(verdict.name for verdict in Verdict if verdict.exit_code)
#: As `npc.records.history.night_name` has it, numbered where two began within a second.
_NAME: Final = re.compile(r"\d{8}T\d{6}Z(-\d+)?")


class NotOurs(Exception):
    """The folder is not one that this history's night made; the message says why."""


def begin(folder: Path, history: Path) -> None:
    """Make the folder of a night, with its mark. Raises OSError, FileExistsError if it is there already."""
    folder.mkdir(parents=True)
    write_whole(folder / MARK, _mark(folder.name, history))


def prunable(nights: Sequence[JournalEntry], keep: int) -> list[JournalEntry]:
    """Nights whose raw runs may go: ended well, and `keep` such nights are younger."""
    there = [night for night in nights if night.ended and not night.pruned and not night.left]
    good = [night for night in there if night.verdict not in KEPT]
    return good[: max(0, len(good) - keep)]


def check(night: JournalEntry, runs: Path, history: Path) -> None:
    """Whether a night's folder is what the night made below `runs`. Raises `NotOurs` if it is not.

    A folder that is not there is no problem. runs, history: without links, as `Path.resolve` gives them.
    """
    folder = runs / night.name
    if not _NAME.fullmatch(night.name) or night.folder != folder:
        raise NotOurs(f"{night.folder} is no night's folder below {runs}")
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        raise NotOurs(f"{folder} is no folder, or a link")
    if status.st_uid != os.geteuid():
        raise NotOurs(f"{folder} belongs to another user")
    try:
        mark = os.open(folder / MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(mark, encoding="utf-8", errors="replace") as stream:
            same = os.fstat(mark).st_uid == status.st_uid and stream.read(2**16) == _mark(night.name, history)
    except OSError:
        same = False
    if not same:
        raise NotOurs(f"{folder} does not bear this history's mark ({MARK})")
    for parent, folders, _ in os.walk(folder):
        for inner in (Path(parent, name) for name in folders):
            if inner.lstat().st_dev != status.st_dev:
                raise NotOurs(f"{inner} is another file system")


def remove(night: JournalEntry, runs: Path, history: Path) -> None:
    """Remove a night's raw runs, its mark last, so that what could not be removed is tried again.

    Raises `NotOurs`, and OSError as the file system does.
    """
    check(night, runs, history)
    folder = runs / night.name
    if not folder.exists():
        return
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != MARK:
            entry.unlink()
    (folder / MARK).unlink()
    folder.rmdir()


def _mark(name: str, history: Path) -> str:
    return json.dumps({"night": name, "history": str(history)}) + "\n"
