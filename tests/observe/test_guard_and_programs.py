"""The guard with the kernel's own uprobes, and bpftrace as the probe."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from observe.costs.probes import costs
from observe.probes.catalogue import read_wanted
from observe.probes.counting import Counters, NoCounter, Point
from observe.probes.guard import Guard, Judgement
from observe.probes.places import NoFunction, Place, find
from tests.lab.uprobes import DEFINED, may_lack_uprobes, needs_uprobes
from tests.paths import ROOT

#: Seconds of one event, as it is on machines with few of them: the real ones are measured elsewhere.
PRICE = 13e-6

pytestmark = [pytest.mark.slow, needs_uprobes, may_lack_uprobes]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("calls") / "calls"
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


def function(program: Path, name: str) -> Place:
    return find(read_wanted(f"function:{name}"), str(program))


@dataclass
class Ended:
    judgement: Judgement
    counted: int
    seconds: float
    judged_s: float
    share: float


def guarded(calls: Path, *arguments: str, budget: float = 0.02, price: float = PRICE) -> Ended:
    """Run the program with a probe on its function; judged_s: until the guard came to its last word; share:
    of the time with the probe."""
    place = function(calls, "called")
    point = Point(place.file, *place.offsets)
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
    return Ended(judgement, counted, seconds, judged, on / lasted)


def test_a_function_called_ten_million_times_a_second_is_refused_within_a_second(calls: Path) -> None:
    ended = guarded(calls, "24000000", "40")
    assert ended.judgement.status == "refused"
    assert ended.judgement.rate > 5e4  # more than can be counted at that price: 77 000 a second
    assert ended.counted < 3000
    assert 0 < ended.judged_s < 1
    assert "slower, and 2 % are allowed (--overhead)" in ended.judgement.reason
    assert "npc" not in DEFINED.read_text()


def test_a_function_called_now_and_then_is_attached_and_counted_to_the_last_call(calls: Path) -> None:
    ended = guarded(calls, "700", "0", "500")
    assert ended.judgement.status == "attached"
    assert ended.counted == 700
    assert ended.share > 0.3
    assert ended.judgement.rate == pytest.approx(700 / ended.seconds, rel=0.1)


def test_near_the_limit_it_is_attached_in_turns(calls: Path) -> None:
    ended = guarded(calls, "16000", "0", "4000")
    assert ended.judgement.status == "sampled"
    assert "attached in turns" in ended.judgement.reason
    assert 0.02 < ended.share < 0.7


def test_no_limit_means_none(calls: Path) -> None:
    ended = guarded(calls, "40000", "40", budget=1e9)
    assert ended.judgement.status == "attached"
    assert ended.counted == 40000


@pytest.mark.measures
def test_a_program_whose_probe_is_refused_is_not_two_percent_slower(calls: Path) -> None:
    price = costs()["function"]  # as on this machine
    with_it, without = [], []
    for turn in range(8):
        if turn % 4 in (0, 3):
            with_it.append(guarded(calls, "24000000", "40", price=price).seconds)
        else:
            said = subprocess.run([calls, "24000000", "40"], capture_output=True, check=True).stdout
            without.append(float(said.split()[0]))
    # what else runs only makes a run longer
    assert min(with_it) < 1.02 * min(without), (with_it, without)


def test_children_and_threads_count_for_their_rank(calls: Path) -> None:
    place = function(calls, "called")
    counters = Counters(Point(place.file, *place.offsets))
    both = f"{calls} 30 0; {calls} 12 0"
    with held("/bin/sh", "-c", both) as (process, release, _output):
        counters.open(process, from_exec=True)
        os.close(release)
        os.waitpid(process, 0)
    assert counters.read() == {process: 42}
    counters.end()
    assert "npc" not in DEFINED.read_text()


def test_a_definition_that_a_killed_process_left_is_removed(calls: Path) -> None:
    place = function(calls, "called")
    point = Point(place.file, *place.offsets)
    process = os.fork()
    if process == 0:
        Counters(point)
        os.kill(os.getpid(), 9)
    os.waitpid(process, 0)
    assert f"u{process}_" in DEFINED.read_text()
    Counters(point).end()
    assert "npc" not in DEFINED.read_text()


def test_what_cannot_be_counted_says_why(calls: Path, tmp_path: Path) -> None:
    with pytest.raises(NoCounter, match="this kernel has no tracepoint block:nothing"):
        Counters("block:nothing")
    with pytest.raises(NoCounter, match="no uprobe"):
        Counters(Point(str(tmp_path / "nothing"), 16))
    with pytest.raises(NoFunction, match="or the compiler has inlined it"):
        function(calls, "nothing")
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", calls, "-o", stripped], check=True)
    with pytest.raises(NoFunction, match="is stripped"):
        function(stripped, "called")
    with pytest.raises(NoFunction, match="IFUNC"):
        function(calls, "memcpy")
    with pytest.raises(NoFunction, match="no ELF file"):
        function(calls, f"called@{__file__}")
