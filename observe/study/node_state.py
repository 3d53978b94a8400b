"""Stands before a rank in a study: ``node_state.py ASKED PROGRAM…`` changes the node, then becomes PROGRAM.

The first rank of each node does it for all; the others wait for it. A guard process keeps what was changed,
and puts it back when the rank has ended, however it ended: the kernel tells it (PR_SET_PDEATHSIG, prctl(2)).
What the node gives meanwhile is measured right before the program begins, in the very state that it runs in.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

if not __package__:  # started by its path
    sys.path[0] = str(Path(__file__).absolute().parents[3])

from npc.files import write_whole
from npc.machine import sysfs
from npc.observe.study.knobs import CannotChange, Undo, compete, kept_free, set_frequency, shape, triad
from npc.processes import LOCAL_RANK, die_with_parent, first_number, read
from npc.terminal import guard

#: How long a node's other ranks wait for the first one.
_PATIENCE_S: Final = 120.0
_LOOK_S: Final = 0.005
_MEASURE_S: Final = 120.0


def main(arguments: list[str]) -> int:
    """Change the node, or wait until it is changed; then this process is the program."""
    settings, program = json.loads(arguments[0]), arguments[1:]
    changed = Path(f"{settings['launch']}.changed.{socket.gethostname()}")
    try:
        node = frozenset(os.sched_getaffinity(os.getppid()) | os.sched_getaffinity(0))
        free = kept_free(node, math.ceil(settings.get("reserve") or 0))
        taken = {cpu for core in free for cpu in core}
        own = os.sched_getaffinity(0) - taken
        if not own:
            raise CannotChange("memory: a rank is bound to the core of a competing process")
        os.sched_setaffinity(0, own)
        if first_number(LOCAL_RANK):
            _wait_for_first(changed)
        else:
            _start_guard(settings, changed, free, sorted(node - taken))
    except CannotChange as reason:
        print(f"unavailable: {reason}", file=sys.stderr, flush=True)
        return 1
    try:
        os.execvp(program[0], program)
    except OSError as error:
        print(f"{program[0]}: {error.strerror}", file=sys.stderr)
        return 127


def _wait_for_first(changed: Path) -> None:
    """Until the node's first rank has changed it: its guard has left its number by then."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        if _is_guarded(changed):
            return
        time.sleep(_LOOK_S)
    raise CannotChange(
        f"the first rank of {socket.gethostname()} has not changed it within {_PATIENCE_S:.0f} s"
    )


def _is_guarded(changed: Path) -> bool:
    """Whether a guard that runs has written this file: a file of its launch's folder's owner, and no link,
    since others may know its name."""
    try:
        with os.fdopen(os.open(changed, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
            ours = os.fstat(stream.fileno()).st_uid == changed.parent.stat().st_uid
            return ours and read(int(stream.read(20))) is not None
    except (OSError, ValueError):
        return False


def _start_guard(
    settings: dict[str, Any], changed: Path, free: Sequence[Sequence[int]], cpus: list[int]
) -> None:
    """Have a process of its own change the node and put it back. Raises `CannotChange` with its reason."""
    reading, writing = os.pipe()
    rank = os.getpid()
    if os.fork() == 0:
        os.close(reading)
        try:
            _guard(settings, changed, free, cpus, rank, writing)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        if reason := answer.read():
            raise CannotChange(reason)


def _guard(
    settings: dict[str, Any],
    changed: Path,
    free: Sequence[Sequence[int]],
    cpus: list[int],
    rank: int,
    ready: int,
) -> None:
    """Change the node, say so by closing `ready` (or by a reason), and wait for the end of the rank."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # until what was changed can be undone
    die_with_parent(signal.SIGTERM)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    undo: list[Undo] = []
    try:
        if settings.get("frequency_hz"):
            undo.append(set_frequency(settings["frequency_hz"]))
        if settings.get("network"):
            undo.append(shape(settings["network"], settings.get("interface", "")))
        if settings.get("memory"):
            compete(
                Path(settings["work"]) / "competitor",
                free,
                settings["memory"],
                math.ceil(settings["reserve"]),
            )
        _measure(settings, cpus)
        write_whole(changed, f"{os.getpid()}")
        os.close(ready)
        while os.getppid() == rank and not signal.sigtimedwait([signal.SIGTERM], 1.0):
            pass
    except (CannotChange, OSError, subprocess.SubprocessError) as reason:
        os.write(ready, str(reason).encode())
    finally:
        with contextlib.suppress(OSError):
            changed.unlink()
        for restore in reversed(undo):
            restore()


def _measure(settings: dict[str, Any], cpus: list[int]) -> None:
    """The rates of this node, as the program will find it: ``LAUNCH.rates.HOST.json``."""
    work, rates = Path(settings["work"]), dict[str, float]()
    if "cpu" in settings["measure"] and (told_hz := _ask([str(work / "clock")], cpus[:1])).strip():
        rates["cpu"] = float(told_hz)
    if "memory" in settings["measure"]:
        first = [core[0] for core in sysfs.cores_of(frozenset(cpus))]
        places = (first + [cpu for cpu in cpus if cpu not in first])[: settings["threads"]]
        text = _ask([str(work / "stream"), *settings.get("stream", [])], places)
        write_whole(Path(f"{settings['launch']}.stream.{socket.gethostname()}.out"), text)
        if rate := triad(text):
            rates["memory"] = rate
    if rates:
        write_whole(Path(f"{settings['launch']}.rates.{socket.gethostname()}.json"), json.dumps(rates))


def _ask(words: list[str], cpus: list[int]) -> str:
    """What a program prints with a thread on each of these CPUs."""
    threads = {"OMP_NUM_THREADS": str(len(cpus)), "OMP_PROC_BIND": "true"}
    threads["OMP_PLACES"] = ",".join(f"{{{cpu}}}" for cpu in cpus)
    return subprocess.run(
        words, env={**os.environ, **threads}, stdout=subprocess.PIPE, text=True, timeout=_MEASURE_S,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    ).stdout  # fmt: skip


if __name__ == "__main__":
    guard()
    sys.exit(main(sys.argv[1:]))
