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
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
