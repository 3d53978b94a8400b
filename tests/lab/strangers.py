"""Another user of this machine, for tests that root runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

#: ``nobody``, whom no file belongs to.
STRANGER: Final = 65534
#: A Python of root's becomes the stranger once it runs: strangers may not start what lies in root's folders.
_BECOME: Final = f"""
import json, os, socket, sys, time
os.setgroups([])
os.setresgid({STRANGER}, {STRANGER}, {STRANGER})
os.setresuid({STRANGER}, {STRANGER}, {STRANGER})
os.umask(0)
"""

needs_strangers: Final = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: needs root")


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder that all may write into, and reach: pytest's own are closed to others, and are closed again
    whenever another pytest begins."""
    with tempfile.TemporaryDirectory(prefix="npc-shared-", dir="/tmp") as place:
        Path(place).chmod(0o777)
        yield Path(place)


def stranger(program: str, words: Iterable[object] = (), **options: Any) -> subprocess.Popen[str]:
    """A process of the stranger that runs this text of Python. words: sys.argv; stdout: a pipe."""
    command = [sys.executable, "-c", _BECOME + textwrap.dedent(program), *map(str, words)]
    return subprocess.Popen(command, cwd="/", stdout=subprocess.PIPE, text=True, **options)
