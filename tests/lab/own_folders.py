"""Folders of a test's own: where it stands, its home, its temporary files, where NPC keeps what it makes.

Nothing is shared with the checkout or the user's home but what the session itself compiles, in a cache.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from npc.places import WORKPLACE

#: They follow HOME where they are not set.
_FOLLOW_HOME: Final = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
CACHE: Final = "XDG_CACHE_HOME"


def session_folder(is_worker: bool) -> tempfile.TemporaryDirectory[str]:
    """A folder for those of the tests of this process, which its owner cleans up.

    is_worker: of pytest-xdist, which has the cache of the process that started it. The path is short: with
    what MPI and Slurm add to it, that of a socket has at most 107 characters (unix(7)).
    """
    # pytest's own folders stay where they would be without those of the tests
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = tempfile.TemporaryDirectory(prefix="npc-", ignore_cleanup_errors=True)
    Path(folder.name).chmod(0o711)  # some tests are somebody else for a while
    for name in _FOLLOW_HOME:
        os.environ.pop(name, None)
    if not is_worker:
        os.environ[CACHE] = f"{folder.name}/cache"
    return folder


@contextlib.contextmanager
def own_folders(session: Path) -> Iterator[None]:
    """New folders until the end of a test. They stay until that of the session: what is made for a whole
    module has those of its first test."""
    number = len(list(session.iterdir()))
    work, home, temporary = (session / str(number) / name for name in ("work", "home", "tmp"))
    for folder in (work, home, temporary):
        folder.mkdir(parents=True)
    temporary.chmod(0o1777)
    variables = {"HOME": home, "TMPDIR": temporary, WORKPLACE: work}
    before = {name: os.environ.get(name) for name in variables}
    stood = Path.cwd()
    os.environ.update({name: str(folder) for name, folder in variables.items()})
    os.chdir(work)
    tempfile.tempdir = None  # which remembers TMPDIR
    try:
        yield
    finally:
        os.chdir(stood)
        tempfile.tempdir = None
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
