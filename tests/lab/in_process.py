"""``npc`` in the process of the test: where what is tested is what it says and writes, not how it starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from click.testing import CliRunner

from npc.cli import main


def npc(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """``npc WORDS`` in the folder `cwd`: what it printed and how it ended, as of a process of its own.

    What programs print that it starts is not in it.
    """
    before = Path.cwd()
    if cwd is not None:
        os.chdir(cwd)
    try:
        ended = CliRunner().invoke(main, list(map(str, words)), prog_name="npc")
    finally:
        os.chdir(before)
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return subprocess.CompletedProcess(["npc", *words], ended.exit_code, ended.stdout, ended.stderr)
