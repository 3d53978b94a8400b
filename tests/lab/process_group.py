"""A program in a process group of its own, as a shell with job control starts it; none of it is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def process_group(words: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """The program; its process group has its PID. options: of `subprocess.Popen`."""
    with subprocess.Popen(words, text=True, preexec_fn=os.setpgrp, **options) as started:
        try:
            yield started
        except subprocess.TimeoutExpired:
            print(_processes(started.pid))  # which of them waits, and for what
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


def _processes(group: int) -> str:
    """Those of a process group, with what they wait for in the kernel, and the signals they block or have yet
    to take."""
    columns = "pid,ppid,stat,wchan:24,pending,blocked,ignored,caught,args"
    listed = subprocess.run(
        ["ps", "-e", "-o", f"pgid,{columns}"], capture_output=True, text=True, check=False
    )
    head, *rows = listed.stdout.splitlines()
    return "\n".join([head, *(row for row in rows if row.split(maxsplit=1)[0] == str(group))])
