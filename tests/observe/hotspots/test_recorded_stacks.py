"""perf beside the ranks of real programs, against what these say of themselves; and what ends when something
is killed.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from npc.observe.elf import ElfFile
from npc.observe.hotspots import recorder
from npc.observe.hotspots.perf import find_perf
from npc.observe.hotspots.records import HOTSPOTS, Hotspots
from npc.observe.hotspots.stacks import Stacks
from npc.observe.options import CompanionOptions, ObservationOptions
from npc.processes import read
from npc.records.observed import read_part
from tests.lab.in_process import npc
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.paths import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf (Debian: linux-perf)"),
]

SOURCE = ROOT / "tests/observe/programs/shares.c"
RECORDER = CompanionOptions.of(recorder.HotspotRecorder, {"rate": 99, "call_graph": "fp"})
OPTIONS = ObservationOptions(companions={HOTSPOTS: RECORDER}).to_text()


def compiled(target: Path, *options: str) -> Path:
    subprocess.run(["cc", "-O1", "-fno-omit-frame-pointer", *options, "-o", target, SOURCE], check=True)
    return target


@pytest.fixture(scope="module", name="shares")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("program") / "shares")


def beside(folder: Path, *command: str | Path) -> list[str | Path]:
    """The command line of one rank as `npc observe` starts it."""
    return [sys.executable, "-ES", ROOT / "npc/observe/rank.py", folder, OPTIONS, *command]


def stacks_of(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*.stacks")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def own(found: Mapping[str, Any]) -> dict[str, int]:
    """Samples at the top of the stack by function."""
    return {found["frames"][row[0]][0]: row[1] for row in found["own"]}


def observe(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> tuple[str, Hotspots, str]:
    """What was said, the hotspots, and what the program printed."""
    for name, value in MPI_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    ended = npc("observe", "--no-profile", "--no-mpi", "--background", "0", *words, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    raw = folder / "observed/raw"
    found = read_part(raw / "0000.observed.json", HOTSPOTS, Hotspots)
    assert found is not None
    return ended.stderr, found, (raw / "0000.out").read_text(encoding="utf-8")


def test_shares_are_those_that_the_program_tells(
    shares: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks compute, in other proportions, and one sleeps."""
    command = ["mpirun", "--oversubscribe", "-n", "3", str(shares), "2.5", "0.7,0.4,0"]
    said, found, printed = observe(tmp_path, monkeypatch, "--hotspots", "--", *command)
    told = {
        int(rank): (float(heavy), float(light))
        for rank, heavy, light in re.findall(r"rank (\d) heavy (\S+) light (\S+)", printed)
    }
    computed = sum(map(sum, told.values()))
    # 99 samples a second of CPU time: what is not in the two functions is starting, and the system's
    assert 0.9 * 99 * computed < found.samples < 1.1 * 99 * (computed + 0.3)
    by_name = {each.function: each for each in found.hotspots}
    for place, name in enumerate(("heavy", "light")):
        expected = sum(times[place] for times in told.values()) / computed
        both = by_name["heavy"].share + by_name["light"].share
        # 3.9: one of ten thousand such tests fails
        error = 3.9 * math.sqrt(expected * (1 - expected) / found.samples)
        assert by_name[name].share / both == pytest.approx(expected, abs=error)
        shares_of_ranks = [told[rank][place] / sum(told[rank]) for rank in (0, 1)]
        error = 3.9 * math.sqrt(0.25 / (found.samples / 2)) + 0.05
        assert by_name[name].least == pytest.approx(min(shares_of_ranks), abs=error)
        assert by_name[name].most == pytest.approx(max(shares_of_ranks), abs=error)
    assert by_name["heavy"].bound in ("unknown", "compute")
    main = next(frame for frame in found.frames if frame.function == "main")
    assert main.samples > 0.95 * found.samples
    assert "heavy (shares)" in said
    assert "1 of 3 ranks have fewer than 100 samples" in said
    assert "do not reach the program's start" not in said
    records = (tmp_path / "observed/records.csv").read_text(encoding="utf-8")
    assert "heavy (shares)" in records


def test_without_symbols_functions_are_where_they_begin(shares: Path, tmp_path: Path) -> None:
    stripped = compiled(tmp_path / "stripped", "-s", "-Wl,--build-id=0x1234abcd")
    listed = subprocess.run(["nm", shares], capture_output=True, text=True, check=True).stdout
    symbols = re.findall(r"([0-9a-f]{16}) T (\w+)", listed)
    begins = {name: int(address, 16) for address, name in symbols}
    subprocess.run(beside(tmp_path, stripped, "0.6", "0.7"), check=True, stdout=subprocess.DEVNULL)
    found = stacks_of(tmp_path)
    samples = own(found)
    assert samples[hex(begins["heavy"])] > samples[hex(begins["light"])] > 0
    assert not {"heavy", "light", "main"} & set(samples)
    assert found["unnamed"] > 0.7 * found["samples"]  # the rest is the kernel's, and the loader's
    (hottest, *_) = found["addresses"]
    first, after = hottest["range"]
    assert first == begins["heavy"]
    assert all(first <= int(address, 16) < after for address in hottest["counts"])
    assert sum(hottest["counts"].values()) == hottest["own"] == samples[hex(first)]
    told = subprocess.run(["readelf", "-n", stripped], capture_output=True, text=True, check=True).stdout
    assert f"Build ID: {hottest['build_id']}" in told


def test_functions_of_a_file_are_those_of_its_symbols(shares: Path) -> None:
    """Where each begins and ends, against what the compiler wrote into the table of symbols."""
    file = ElfFile(shares)
    listed = subprocess.run(["nm", "-S", shares], capture_output=True, text=True, check=True).stdout
    sizes = re.findall(r"([0-9a-f]{16}) ([0-9a-f]{16}) T (heavy|light|touch|main)", listed)
    assert len(sizes) == 4
    for begin, size, _ in sizes:
        first, after = int(begin, 16), int(begin, 16) + int(size, 16)
        for address in (first, (first + after) // 2, after - 1):
            assert file.function(address) == (first, after)


def test_events_are_counted_where_they_happen(shares: Path, tmp_path: Path) -> None:
    """Page faults in place of hardware events, which virtual machines do not have: perf prints both alike."""
    data, pages = tmp_path / "data", 5000
    words = ["perf", "record", "-q", "-o", data, "-e", "cpu-clock", "-F", "99", "-g", "--no-buildid-cache"]
    words += ["-e", "page-faults/call-graph=no,period=10/", shares, "0.3", "0.5", str(pages)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    words = ["perf", "script", "-i", data, "--show-mmap-events", "-F", "pid,event,period,ip,sym,symoff,dso"]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    stacks = Stacks()
    stacks.read(printed.splitlines(keepends=True))
    touch = stacks.functions.index(("touch", str(shares)))
    assert stacks.events[touch]["page-faults"] == pytest.approx(pages, abs=20)
    assert stacks.addresses[stacks.functions.index(("heavy", str(shares)))].total() > 0


def living(words: str) -> list[int]:
    """Processes with these words on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if words in line and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found


def programs_of(watcher: int, program: Path) -> list[int]:
    """The children of a rank's watcher that have become the program."""
    running = [pid for pid in living(str(program)) if is_child(pid, watcher)]
    return [pid for pid in running if Path(f"/proc/{pid}/exe").resolve() == program]


def is_child(process: int, parent: int) -> bool:
    found = read(process)
    return found is not None and found.parent == parent


def ticks(process: int) -> int:
    """Of the kernel's clock that it computed."""
    found = read(process)
    return found.ticks if found is not None else 0


def until(condition: Any, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("killed", ["program", "watcher", "perf"])
def test_whatever_is_killed_perf_ends_and_samples_stay(killed: str, shares: Path, tmp_path: Path) -> None:
    rank = subprocess.Popen(beside(tmp_path, shares, "30", "0.7"), stdout=subprocess.DEVNULL)
    assert until(lambda: living(f"{shares} 30 0.7"))
    assert until(lambda: [pid for pid in living("perf record") if is_child(pid, rank.pid)])
    (perf,) = [pid for pid in living("perf record") if is_child(pid, rank.pid)]
    assert until(lambda: programs_of(rank.pid, shares))
    (child,) = programs_of(rank.pid, shares)
    assert until(lambda: ticks(child) > 0.6 * os.sysconf("SC_CLK_TCK"))
    target = {"program": child, "watcher": rank.pid, "perf": perf}[killed]
    os.kill(target, signal.SIGKILL)
    if killed == "perf":
        time.sleep(0.1)
        os.kill(child, signal.SIGTERM)
    rank.wait(timeout=30)
    assert until(lambda: list(tmp_path.glob("*.stacks")) and not list(tmp_path.glob("*.running")))
    found = stacks_of(tmp_path)
    assert until(lambda: not Path(f"/proc/{perf}").exists() and not Path(f"/proc/{child}").exists())
    (kept,) = tmp_path.glob("*.json")
    assert json.loads(kept.read_text(encoding="utf-8"))["companions"][HOTSPOTS]["samples"] == found["samples"]
    if killed == "perf":
        assert found["status"] == f"unavailable: {recorder.KILLED}"
    else:
        assert found["samples"] > 20
        assert own(found)["heavy"] > own(found)["light"]


def test_a_full_file_is_said(shares: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_LARGEST", {"fp": "16K"})
    monkeypatch.setattr(recorder, "find_perf", lambda: find_perf()._replace(compresses=False))
    # A small ring buffer, as beside 31 other ranks: of a large one perf reads nothing before the end.
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "32")
    asked = {"rate": 5000, "call_graph": "fp"}
    held = ["sh", "-c", f"read released; exec {shares} 0.7 0.5"]
    program = subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    beside_it = recorder.HotspotRecorder(tmp_path, "n0.0", asked)
    beside_it.begin(program.pid)
    program.communicate(b"now\n")
    assert beside_it.end()["status"] == "ok"
    assert any("recording stopped at 16KB" in note for note in stacks_of(tmp_path)["notes"])


def test_without_perf_the_program_runs_and_it_is_said_why(
    shares: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "shares").symlink_to(shares)
    monkeypatch.setenv("PATH", str(programs))
    if any(Path("/usr/lib").glob("linux-tools*/*/perf")):
        pytest.skip("there is a perf beyond PATH")
    said, found, printed = observe(tmp_path, monkeypatch, "--hotspots", "--", "shares", "0.1", "0.5")
    assert printed.startswith("rank 0 heavy")
    assert found.status.startswith("unavailable: there is no perf here (apt-get install linux-perf")
    assert f"hotspots: {found.status}" in said
