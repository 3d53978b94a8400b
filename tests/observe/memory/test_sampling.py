"""Programs under the sampling library: what is seen of known accesses, and that nothing else changes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from npc.observe.memory.build import memory_library
from npc.observe.memory.companion import RankMemoryTable
from npc.observe.memory.table import SAMPLING, RankTable, read_table
from tests.lab.mpis import MPIS
from tests.paths import ROOT

PROGRAMS: Final = ROOT / "tests/observe/programs"
PAGE: Final = 4096
PAGES: Final = 24


class SampledProgram(NamedTuple):
    code: int
    out: str
    err: str
    table: RankTable


def sample(*command: str | Path, folder: Path, interval: float = 0.01, budget: float = 0.1) -> SampledProgram:
    """Run a command as `npc.observe.rank` does, and read the table."""
    settings = {
        "mode": "sample", "library": str(memory_library("sample")), "interval": interval, "budget": budget,
    }  # fmt: skip
    companion = RankMemoryTable(folder, "host.0", settings)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=companion.become
    ) as process:
        companion.begin(process.pid)
        out, err = process.communicate(timeout=60)
    table = read_table(Path(f"/proc/self/fd/{companion.files[0]}"))
    os.close(companion.files[0])
    return SampledProgram(process.returncode, out, err, table)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("touch")
    for name in ("touch_known", "touch_anything"):
        command = ["cc", "-O1", "-g", PROGRAMS / f"{name}.c", "-o", folder / name, "-pthread", "-ldl"]
        subprocess.run(command, check=True)
    return folder


@pytest.mark.slow
@pytest.mark.measures
def test_what_threads_touch_in_an_interval_is_seen_page_by_page(programs: Path) -> None:
    # each page in each interval, whatever that costs
    ended = sample(programs / "touch_known", "600", folder=programs, interval=0.05, budget=10)
    assert ended.code == 0, ended.err
    table = ended.table
    assert (table.header["mode"], table.header["lost"]) == (SAMPLING, 0)
    read_only, written, both, idle, data, reader, writer = (int(word, 16) for word in ended.out.split())
    by_start = {int(thread["start"]): int(thread["number"]) for thread in table.threads}
    whole = table.intervals[(table.intervals["guarded"] > 0) & (table.intervals["begin"] > 50_000_000)]
    whole = whole[whole["end"] - whole["begin"] > 30_000_000][:-1]
    assert len(whole) >= 3, table.intervals
    assert (whole["guarded"] > 0.9 * whole["tracked"]).all()
    assert (whole["tracked"] >= 4 * PAGES + 8).all()

    def seen(address: int, pages: int, number: int) -> set[tuple[int, int, bool]]:
        """(page of the range, thread, whether it was written)."""
        touches = table.touches[table.touches["interval"] == number]
        touches = touches[(touches["address"] >= address) & (touches["address"] < address + pages * PAGE)]
        assert ((touches["time"] > 0) & (touches["ip"] > 0)).all()
        return {
            (int(touch["address"] - address) // PAGE, int(touch["thread"]), bool(touch["written"]))
            for touch in touches
        }

    of_reader = {(page, by_start[reader], False) for page in range(PAGES)}
    of_writer = {(page, by_start[writer], True) for page in range(PAGES)}
    shared, complete = set(), 0
    for number in whole["number"]:
        reads, writes = seen(read_only, PAGES, number), seen(written, PAGES, number)
        assert reads <= of_reader
        assert writes <= of_writer
        # static data, whose first page has other variables too
        assert {entry for entry in seen(data, 8, number) if 0 < entry[0] < 7} <= of_writer
        assert seen(idle, PAGES, number) == set()
        here = seen(both, PAGES, number)
        shared |= here
        # on a busy machine a thread may not have run in an interval
        complete += (reads, writes, {page for page, _, _ in here}) == (
            of_reader,
            of_writer,
            set(range(PAGES)),
        )
    assert complete >= len(whole) / 2
    # who shares a page is found over several intervals, and who writes it
    assert {entry[:2] for entry in shared} == {
        (page, by_start[t]) for page in range(PAGES) for t in (reader, writer)
    }
    assert {thread for _, thread, is_write in shared if is_write} == {by_start[writer]}
    exact = table.touches[table.touches["thread"] == by_start[reader]]["address"]
    exact = exact[(exact >= read_only) & (exact < read_only + PAGES * PAGE)]
    assert set(map(int, exact)) == {read_only + page * PAGE + 8 * page for page in range(PAGES)}
    places = table.places[table.places["page"] == written // PAGE]
    assert len(places) == 0 or (places["node"] >= 0).all()


PARTS: Final = {
    "calls": 3, "children": 3, "threads": 3, "locks": 3, "large_pages": 3, "stacks": 3, "signals": 3,
    "faults": 3, "jumps": 3, "mappings": 3, "shared": 3, "coroutines": 3, "loads": 3, "dies": -11,
    "aborts": -6, "killed": -9,
}  # fmt: skip
#: In which calls and threads leave time for it, where nobody else takes the CPUs.
SEEN: Final = ("large_pages", "stacks", "mappings", "shared")


@pytest.fixture
def no_core() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, limits)


@pytest.mark.slow
@pytest.mark.usefixtures("no_core")
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.measures) if part in SEEN else part for part in PARTS]
)
def test_a_program_does_what_it_does_alone(programs: Path, part: str) -> None:
    command = [programs / "touch_anything", part]
    alone = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert alone.returncode == PARTS[part], alone.stdout
    ended = sample(*command, folder=programs)
    assert (ended.code, ended.out, ended.err) == (alone.returncode, alone.stdout, alone.stderr)
    assert (ended.table.header["ended"] > 0) == (PARTS[part] > 0)
    if part in SEEN:
        assert ended.table.intervals["guarded"].max() > 0
        assert len(ended.table.touches) > 0


@pytest.mark.slow
def test_python_is_a_program_too(programs: Path) -> None:
    script = """if True:
        import json, subprocess, sys, threading, time
        began, rounds = time.monotonic(), 0
        def work(found):
            while time.monotonic() - began < 0.4:
                found.append(json.dumps([list(range(100)), {"a": 1}]))
        found = [[], []]
        threads = [threading.Thread(target=work, args=(part,)) for part in found]
        [thread.start() for thread in threads]
        print(subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout)
        [thread.join() for thread in threads]
        print(len(set(found[0] + found[1])))
        sys.exit(4)
    """
    ended = sample(sys.executable, "-c", script, folder=programs, interval=0.02)
    assert (ended.code, ended.out, ended.err) == (4, "42\n\n1\n", "")
    assert len(set(ended.table.touches["thread"])) >= 2


#: Around a rank, as `npc.observe.rank` is: the library, and what it has seen.
_RANK: Final = """
import subprocess, sys
from pathlib import Path
from npc.observe.memory.companion import RankMemoryTable
from npc.observe.memory.table import read_table
companion = RankMemoryTable(Path(), "host.0", {"mode": "sample", "library": sys.argv[1], "interval": 0.02})
with subprocess.Popen(sys.argv[2:], close_fds=False, preexec_fn=companion.become) as process:
    code = process.wait(timeout=60)
seen = read_table(Path(f"/proc/self/fd/{companion.files[0]}"))
sys.stderr.write(f"{seen.intervals['guarded'].max()} {len(seen.touches)}\\n")
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_ranks_send_what_they_send_alone(name: str, tmp_path: Path) -> None:
    # through memory that they share, and (process_vm_readv) out of each other's closed pages
    mpi = MPIS[name]
    program = tmp_path / "touch_ranks"
    subprocess.run([mpi.compiler, "-O1", PROGRAMS / "touch_ranks.c", "-o", program], check=True)
    ended = subprocess.run(
        [mpi.launcher, "-n", "2", sys.executable, "-c", _RANK, memory_library("sample"), program],
        env={**os.environ, **mpi.environment, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "0 bytes are wrong\n" * 2), ended.stderr
    seen = [tuple(map(int, line.split())) for line in ended.stderr.splitlines() if line[:1].isdigit()]
    assert len(seen) == 2
    assert min(min(each) for each in seen) > 0
