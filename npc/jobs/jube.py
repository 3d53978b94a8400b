"""JUBE by its command line: run to its end, stopped in order, never twice at once on one run."""

from __future__ import annotations

import contextlib
import math
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import psutil

from npc.jobs import jube_state, session
from npc.jobs.stop import Stop
from npc.one_line import one_line

#: How long JUBE and what it started may take to end when told to.
GRACE_S: Final = 15.0
POLL_S: Final = 0.5
#: The same before there is a first copy of JUBE's state, but no longer than this.
_FIRST_S: Final = 0.05
_SOON_S: Final = 10.0
#: In a run's folder: held by whoever has JUBE work on the run.
LOCK: Final = ".jube.lock"


def at_work(run: Path) -> int | None:
    """The process of a JUBE that has the run's log open: one started by hand, which knows no lock."""
    logs = {(run / name).resolve() for name in ("run.log", "continue.log")}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # ended just now, or somebody else's
            words = process.cmdline()[:3]  # perhaps after its interpreter
            if any(Path(word).name == "jube" for word in words) and any(
                Path(file.path) in logs for file in process.open_files()
            ):
                return process.pid
    return None


def call(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: IO[bytes],
    stop: Stop,
    patience_s: float = 0.0,
    deadline: float = math.inf,
    tick: Callable[[], None] = lambda: None,
    keep: Sequence[int] = (),
    run: Path | None = None,
) -> int:
    """Run ``jube ARGUMENTS`` to its end and call `tick` meanwhile; its exit code.

    A stop, or the `deadline` (of time.monotonic), gives it `patience_s` to end by itself, then ends it and
    all that it started, in order, within `GRACE_S`: JUBE itself dies at once, and the launches that it had
    started still write down how they ended. `keep` are descriptors that it inherits. Of the
    folder `run` the last whole state is saved, for `jube_state.restore`. Raises FileNotFoundError without
    JUBE, and `NotOneLine` for a word or setting that would begin a line of its own in the scripts and files
    that JUBE fills in.
    """
    for text in (*arguments, str(cwd), *(value for name, value in env.items() if name.startswith("NPC_"))):
        one_line(text)
    process = subprocess.Popen(
        ["jube", *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        pass_fds=keep,
    )
    stopped_at: float | None = None
    soon = time.monotonic() + _SOON_S
    try:
        while process.poll() is None:
            tick()
            saved = run is None or jube_state.save(run)
            if stop.number is not None or time.monotonic() >= deadline:
                stopped_at = stopped_at or time.monotonic()
                if time.monotonic() - stopped_at >= patience_s:
                    break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S if saved or time.monotonic() > soon else _FIRST_S)
    finally:
        if process.poll() is None:
            session.end(process.pid, GRACE_S)
    return process.wait()
