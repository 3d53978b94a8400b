"""Stands before a rank in a study: ``node_state.py ASKED PROGRAM…`` changes the node, then becomes PROGRAM.

The first rank of each node does it for all; the others wait for it. A guard process keeps what was changed,
and puts it back when the rank has ended, however it ended: the kernel tells it (PR_SET_PDEATHSIG, prctl(2)).
What the node gives meanwhile is measured right before the program begins, in the very state that it runs in.
"""

from __future__ import annotations

import hashlib
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
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from cron.study.knobs import (
    CannotChange,
    Undo,
    compete,
    kept_free,
    set_frequency,
    shape,
    triad,
)
from npc.files import write_whole
from npc.machine import sysfs
from npc.machine.processes import LOCAL_RANK, die_with_parent, told
from npc.terminal import guard

#: How long a node's other ranks wait for the first one.
_PATIENCE_S: Final = 120.0
_LOOK_S: Final = 0.005
_MEASURE_S: Final = 120.0


def main(arguments: list[str]) -> int:
    """Change the node, or wait until it is changed; then this process is the program."""
    asked, program = json.loads(arguments[0]), arguments[1:]
    name = f"\0npc-study-{hashlib.sha256(asked['launch'].encode()).hexdigest()[:32]}"
    try:
        node = frozenset(os.sched_getaffinity(os.getppid()) | os.sched_getaffinity(0))
        free = kept_free(node, math.ceil(asked.get("reserve") or 0))
        taken = {cpu for core in free for cpu in core}
        own = os.sched_getaffinity(0) - taken
        if not own:
            raise CannotChange("memory: a rank is bound to the core of a competing process")
        os.sched_setaffinity(0, own)
        if told(LOCAL_RANK):
            _wait_for_first(name)
        else:
            _start_guard(asked, name, free, sorted(node - taken))
    except CannotChange as reason:
        print(f"unavailable: {reason}", file=sys.stderr, flush=True)
        return 1
    try:
        os.execvp(program[0], program)
    except OSError as error:
        print(f"{program[0]}: {error.strerror}", file=sys.stderr)
        return 127


def _wait_for_first(name: str) -> None:
    """Until the node's first rank has changed it: its guard listens by then."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(name)
                return
            except OSError:
                time.sleep(_LOOK_S)
    raise CannotChange(
        f"the first rank of {socket.gethostname()} has not changed it within {_PATIENCE_S:.0f} s"
    )


def _start_guard(asked: dict[str, Any], name: str, free: Sequence[Sequence[int]], cpus: list[int]) -> None:
    """Have a process of its own change the node and put it back. Raises `CannotChange` with its reason."""
    reading, writing = os.pipe()
    rank = os.getpid()
    if os.fork() == 0:
        os.close(reading)
        try:
            _guard(asked, name, free, cpus, rank, writing)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        if reason := answer.read():
            raise CannotChange(reason)


def _guard(
    asked: dict[str, Any], name: str, free: Sequence[Sequence[int]], cpus: list[int], rank: int, ready: int
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
        if asked.get("frequency_hz"):
            undo.append(set_frequency(asked["frequency_hz"]))
        if asked.get("network"):
            undo.append(shape(asked["network"], asked.get("interface", "")))
        if asked.get("memory"):
            compete(Path(asked["work"]) / "competitor", free, asked["memory"], math.ceil(asked["reserve"]))
        _measure(asked, cpus)
        server = socket.socket(socket.AF_UNIX)
        server.bind(name)
        server.listen(1024)
        os.close(ready)
        while os.getppid() == rank and not signal.sigtimedwait([signal.SIGTERM], 1.0):
            pass
    except (CannotChange, OSError, subprocess.SubprocessError) as reason:
        os.write(ready, str(reason).encode())
    finally:
        for each in reversed(undo):
            each()


def _measure(asked: dict[str, Any], cpus: list[int]) -> None:
    """The rates of this node, as the program will find it: ``LAUNCH.rates.HOST.json``."""
    work, rates = Path(asked["work"]), dict[str, float]()
    if "cpu" in asked["measure"] and (told_hz := _ask([str(work / "clock")], cpus[:1])).strip():
        rates["cpu"] = float(told_hz)
    if "memory" in asked["measure"]:
        first = [core[0] for core in sysfs.cores_of(frozenset(cpus))]
        places = (first + [cpu for cpu in cpus if cpu not in first])[: asked["threads"]]
        text = _ask([str(work / "stream"), *asked.get("stream", [])], places)
        write_whole(Path(f"{asked['launch']}.stream.{socket.gethostname()}.out"), text)
        if rate := triad(text):
            rates["memory"] = rate
    if rates:
        write_whole(Path(f"{asked['launch']}.rates.{socket.gethostname()}.json"), json.dumps(rates))


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
