"""A program whose function is asked about: the guard, the kernel's own uprobes, and bpftrace as the probe."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from npc.observe.probes.catalogue import read_wanted
from npc.observe.probes.counting import CodeAddress, Counters
from npc.observe.probes.guard import Guard, Judgement
from npc.observe.probes.places import ProbePoint, find
from tests.paths import ROOT

#: Seconds of one event, as it is on machines with few of them: the real ones are measured elsewhere.
PRICE = 13e-6


def build(folder: Path) -> Path:
    """``calls CALLS WORK [RATE]`` calls a function so often, and prints the seconds that it took."""
    program = folder / "calls"
    subprocess.run(["gcc", "-O1", ROOT / "tests/observe/programs/called.c", "-o", program], check=True)
    return program


@contextlib.contextmanager
def held(*command: str | Path) -> Iterator[tuple[int, int, int]]:
    """A process that waits to become a program: its number, what lets it go, what it prints."""
    waiting, release = os.pipe()
    output, printed = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(release)
        os.read(waiting, 1)
        os.dup2(printed, 1)
        os.execv(command[0], [str(word) for word in command])
    for end in (waiting, printed):
        os.close(end)
    try:
        yield process, release, output
    finally:
        os.close(output)


def function(program: Path, name: str) -> ProbePoint:
    return find(read_wanted(f"function:{name}"), str(program))


@dataclass
class GuardedEnd:
    judgement: Judgement
    counted: int
    seconds: float
    judged_s: float
    share: float


def guarded(calls: Path, *arguments: str, budget: float = 0.02, price: float = PRICE) -> GuardedEnd:
    """Run the program with a probe on its function; judged_s: until the guard came to its last word; share:
    of the time with the probe."""
    place = function(calls, "called")
    point = CodeAddress(place.file, *place.offsets)
    script = 'BEGIN { printf("there\\n"); } '
    script += f"uprobe:{place.file}:called {{ @[pid] = count(); }}"
    probe: subprocess.Popen[bytes] | None = None
    guard = Guard(Counters(point), price, budget)
    judged = attached = on = 0.0
    with held(calls, *arguments) as (process, release, output):
        began = time.monotonic()
        guard.add(process)
        os.close(release)
        ended = threading.Event()
        threading.Thread(target=lambda: (os.waitpid(process, 0), ended.set())).start()
        step = guard.step()
        while not ended.wait(min(step.next_s, 0.2)):
            step = guard.step()
            if step.next_s == float("inf") and not judged:
                judged = time.monotonic() - began
            if step.do == "attach":
                probe = subprocess.Popen(
                    ["bpftrace", "-B", "line", "-e", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
                assert probe.stdout is not None
                while b"there" not in probe.stdout.readline():
                    pass
                guard.attached()
                attached = time.monotonic()
            elif step.do == "detach" and probe is not None:
                probe.kill()
                probe.communicate()
                probe = None
                guard.detached()
                on += time.monotonic() - attached
        counted = guard.counts()[process]
        judgement = guard.end()
        lasted = time.monotonic() - began
        if probe is not None:
            on += time.monotonic() - attached
            probe.kill()
            probe.communicate()
        seconds = float(os.read(output, 100).split()[0])
    return GuardedEnd(judgement, counted, seconds, judged, on / lasted)
