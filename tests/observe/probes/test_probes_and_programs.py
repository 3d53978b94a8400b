"""Probes around programs whose events are known, and what is left of them when parts are killed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npc import processes
from npc.observe.elf import ElfFile
from npc.observe.probes.catalogue import read_wanted
from npc.observe.probes.places import find
from npc.observe.probes.records import PROBES, NodeProbe, ProbeRow, Probes
from npc.observe.probes.rights import refusal
from npc.records.observed import read_part
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.paths import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(refusal(types=True)), reason=refusal(types=True)),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc"),
]

NPC = Path(sys.executable).with_name("npc")
ENVIRONMENT = {**os.environ, **MPI_ENVIRONMENT}
PLAIN = ("--no-profile", "--no-mpi", "--background", "0")
#: Of each event of rank 0; rank 1 makes twice as many.
MANY = 300
DEFINED = Path("/sys/kernel/tracing/uprobe_events")


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("events") / "events"
    subprocess.run(["gcc", "-O1", ROOT / "tests/observe/programs/events.c", "-o", program], check=True)
    return program


def observed(folder: Path, *words: str | Path) -> tuple[dict[str, NodeProbe], str, str]:
    """Its probes by what they are, and what program and command printed."""
    ended = subprocess.run(
        [NPC, "observe", "--output", folder, *PLAIN, *words],
        capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    nodes = read_part(folder / "raw/0000.observed.json", PROBES, Probes)
    assert nodes is not None, ended.stderr
    return {node.probe: node for node in nodes.nodes}, ended.stdout, ended.stderr


def row(node: NodeProbe, rank: int, name: str) -> ProbeRow:
    (only,) = [entry for entry in node.rows if (entry.rank, entry.name) == (rank, name)]
    return only


@pytest.fixture(scope="module")
def two_ranks(
    events: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, NodeProbe], str, str]:
    """One launch with every probe that has known events."""
    folder = tmp_path_factory.mktemp("two") / "observed"
    # a file system of a disk, where there is one
    words = [
        "syscalls",
        "faults",
        "io",
        "scheduler",
        "function:called",
        "function:nested",
        "function:nothing",
    ]
    options = [word for what in words for word in ("--probe", what)]
    program = [events, str(MANY), folder.parent / "written"]
    return observed(
        folder, *options, "--overhead", "none", "--", "mpirun", "-n", "2", "--oversubscribe", *program
    )


def reported_by(output: str, name: str, rank: int) -> tuple[int, float, int]:
    """What the rank says of its own events: how many, seconds, and one more number."""
    lines = [line.split()[1:] for line in output.splitlines() if line.startswith(name)]
    (line,) = [
        words
        for words in lines
        if name == "switched" or int(words[0]) in (MANY * (rank + 1), 100 * MANY * (rank + 1))
    ]
    return int(line[0]), float(line[1]), int(line[2]) if len(line) > 2 else 0


@pytest.mark.parametrize("rank", [0, 1])
def test_events_are_counted_exactly_by_rank(
    two_ranks: tuple[dict[str, NodeProbe], str, str], rank: int
) -> None:
    nodes, _, _ = two_ranks
    many = MANY * (rank + 1)
    assert all(node.status == "attached" for what, node in nodes.items() if what != "function:nothing")
    called = row(nodes["function:called"], rank, "called")
    assert (called.events, called.timed) == (many, many)
    nested = row(nodes["function:nested"], rank, "nested")
    assert (nested.events, nested.timed) == (100 * many, many)
    for name in ("getppid", "clock_nanosleep", "pwrite64"):
        counted = row(nodes["syscalls"], rank, name)
        assert (counted.events, sum(counted.durations.values())) == (many, many)
    written = [entry for entry in nodes["io"].rows if entry.rank == rank and entry.name.startswith("write ")]
    assert (many, many * 4096) in [(entry.events, entry.bytes) for entry in written]


@pytest.mark.measures  # whoever takes the CPU between a probe and the program's look at its clock is in one
@pytest.mark.parametrize("rank", [0, 1])
def test_times_are_those_that_the_program_measures(
    two_ranks: tuple[dict[str, NodeProbe], str, str], rank: int
) -> None:
    nodes, output, _ = two_ranks
    for probe, name, event in (
        ("function:called", "called", "called"),
        ("syscalls", "clock_nanosleep", "slept"),
    ):
        number, seconds, _ = reported_by(output, event, rank)
        mean = row(nodes[probe], rank, name).mean(nodes[probe].apparent)
        assert mean == pytest.approx(seconds / number, rel=0.05)


def test_page_faults_are_counted(two_ranks: tuple[dict[str, NodeProbe], str, str]) -> None:
    nodes, output, _ = two_ranks
    assert [reported_by(output, "faulted", rank)[2] for rank in (0, 1)] == [MANY, 2 * MANY]
    faults = [row(nodes["faults"], rank, "minor faults").events for rank in (0, 1)]
    # what the loader and the C library touch differs by some pages with the addresses that they get
    assert faults[1] - faults[0] == pytest.approx(MANY, abs=12)
    assert MANY < faults[0] < MANY + 150


def test_switches_are_those_of_getrusage(two_ranks: tuple[dict[str, NodeProbe], str, str]) -> None:
    nodes, output, _ = two_ranks
    # by how often it waits: rank 1 sleeps twice as often
    theirs = sorted(
        (int(waited), int(taken)) for taken, waited in re.findall(r"switched (\d+) 0 (\d+)", output)
    )
    ours = [
        (
            row(nodes["scheduler"], rank, "voluntary switches").events,
            row(nodes["scheduler"], rank, "involuntary switches").events,
        )
        for rank in (0, 1)
    ]
    # It is loaded before its main begins, and it ends after it has told: how often it waits there is known,
    # how often others take its CPU there is not.
    for counted, reported in zip(ours, theirs, strict=True):
        assert reported[0] >= MANY
        assert counted[0] == pytest.approx(reported[0], abs=30)
        assert reported[1] - 2 <= counted[1] <= 2 * reported[1] + 60


def test_what_cannot_be_had_is_said(two_ranks: tuple[dict[str, NodeProbe], str, str]) -> None:
    nodes, _, printed = two_ranks
    assert nodes["function:nothing"].status == "unavailable"
    assert "no function nothing" in nodes["function:nothing"].reason
    assert re.search(r"probe function:nothing:\n  \S+: unavailable: .*no function nothing", printed)
    assert re.search(r"  called +900 ", printed)


def test_a_static_probe_of_a_library_and_of_helpers(tmp_path: Path) -> None:
    """In a process that the rank forks."""
    if not functions_of_python():
        pytest.skip("this system's Python has no static probes")
    code = "import gc\nfor _ in range(70): gc.collect()"
    program = ["sh", "-c", f"/usr/bin/python3 -c '{code}'; true"]
    what = "usdt:python:gc__start@/usr/bin/python3"
    nodes, _, _ = observed(tmp_path / "observed", "--probe", what, "--overhead", "none", "--", *program)
    assert nodes[what].status == "attached", nodes[what].reason
    assert 70 <= row(nodes[what], 0, "python:gc__start").events < 100


def functions_of_python() -> bool:
    python = Path("/usr/bin/python3")
    return python.exists() and bool(ElfFile(python).static_probe("python:gc__start"))


# --- killed -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def running(
    folder: Path, events: Path, *launcher: str, overhead: str = "none"
) -> Iterator[subprocess.Popen[bytes]]:
    """npc observe of a program that goes on for long, once its probes are attached."""
    words = ["--probe", "function:called", "--probe", "syscalls", "--overhead", overhead, "--", *launcher]
    started = subprocess.Popen(
        [NPC, "observe", "--output", folder, *PLAIN, *words, events, "1", folder.parent / "written", "300"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT,
    )  # fmt: skip
    try:
        until(
            lambda: bool(programs(events))
            and all(breakpoint_in(program, events) for program in programs(events))
        )
        yield started
    finally:
        for process in [*programs(events), *ours(folder)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        started.kill()
        started.wait()


def until(true: Callable[[], bool], timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def programs(events: Path) -> list[int]:
    """The ranks' processes."""
    return [process.pid for process in processes.everyone() if executable(process.pid) == str(events)]


def executable(process: int) -> str:
    try:
        return os.readlink(f"/proc/{process}/exe")  # noqa: PTH115
    except OSError:
        return ""


def ours(folder: Path, name: str = "") -> list[int]:
    """The processes of bpftrace that write into the folder; name: of their program's file."""
    tracers = []
    for process in processes.everyone():
        with contextlib.suppress(OSError):
            place = Path(f"/proc/{process.pid}")
            if process.name == "bpftrace" and str(folder) in os.readlink(place / "cwd"):  # noqa: PTH115
                tracers += [process.pid] if name in (place / "cmdline").read_bytes().decode() else []
    return tracers


def breakpoint_in(process: int, events: Path) -> bool:
    """Whether the program's function begins with the processor's breakpoint."""
    place = find(read_wanted("function:called"), str(events))
    try:
        maps = Path(f"/proc/{process}/maps").read_text().splitlines()
        first = next(line for line in maps if str(events) in line)
        with Path(f"/proc/{process}/mem").open("rb") as memory:
            memory.seek(int(first.split("-")[0], 16) + place.offsets[0])
            return memory.read(1) == b"\xcc"
    except (OSError, StopIteration):
        return False


def nothing_remains(folder: Path, events: Path) -> bool:
    attached = any(breakpoint_in(program, events) for program in programs(events))
    return not attached and not ours(folder) and str(events) not in DEFINED.read_text()


def keeper(folder: Path) -> int:
    """The one that bpftrace is a child of."""
    parents = {tracer.parent for tracer in processes.everyone() if tracer.pid in ours(folder)}
    (process,) = parents
    return process


def probes_in(folder: Path) -> dict[str, Any]:
    (path,) = (folder / "raw/0000.ranks").glob("*.probes")
    return {probe["probe"]: probe for probe in json.loads(path.read_text())["probes"]}


@pytest.mark.skipif(not DEFINED.exists(), reason=f"no {DEFINED}")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="breakpoints look otherwise on other processors")
def test_bpftrace_or_its_keeper_killed_leaves_the_program_alone(tmp_path: Path, events: Path) -> None:
    folder = tmp_path / "observed"
    with running(folder, events) as started:
        until(lambda: len(ours(folder)) == 2)
        until(lambda: any(row[3] for row in probes_in(folder)["function:called"]["rows"]))
        (function,) = ours(folder, "function:called.bt")
        os.kill(function, signal.SIGKILL)
        until(lambda: function not in ours(folder), 30)
        assert len(ours(folder)) == 1
        until(lambda: probes_in(folder)["function:called"]["status"] == "stopped", 30)
        assert "signal 9" in probes_in(folder)["function:called"]["reason"]
        os.kill(keeper(folder), signal.SIGKILL)
        until(lambda: not ours(folder) and not breakpoint_in(programs(events)[0], events), 30)
        (program,) = programs(events)
        os.kill(program, signal.SIGTERM)
        assert started.wait(20) == -signal.SIGTERM
        assert nothing_remains(folder, events)
    assert [row[1] for row in probes_in(folder)["function:called"]["rows"]] == ["called"]
    assert "getppid" in [row[1] for row in probes_in(folder)["syscalls"]["rows"]]


@pytest.mark.skipif(not DEFINED.exists(), reason=f"no {DEFINED}")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="breakpoints look otherwise on other processors")
@pytest.mark.parametrize("part", ["npc", "mpirun", "rank.py", "program"])
def test_nothing_remains_of_a_part_that_is_killed(tmp_path: Path, events: Path, part: str) -> None:
    folder = tmp_path / "observed"
    launcher = () if part == "rank.py" else ("mpirun", "-n", "2", "--oversubscribe")
    with running(folder, events, *launcher) as started:
        program = programs(events)[0]
        rank = processes.read(program)
        assert rank is not None
        own = processes.read(rank.parent)
        assert own is not None
        victims = {"npc": started.pid, "mpirun": own.parent, "rank.py": rank.parent, "program": program}
        os.kill(victims[part], signal.SIGKILL)
        until(lambda: nothing_remains(folder, events), 15)
        if part in ("rank.py", "program"):
            until(lambda: not programs(events))
            started.wait(30)
    assert {probe["status"] for probe in probes_in(folder).values()} == {"attached"}
