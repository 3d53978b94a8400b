"""Programs with known accesses, built by npc program cc, c++ and fc: what is counted, however they live and
end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npc.observe.memory.build import memory_library
from npc.observe.memory.companion import RankMemoryTable
from npc.observe.memory.records import MEMORY, Structure
from npc.observe.memory.table import COUNTING, RankTable
from npc.observe.options import CompanionOptions, ObservationOptions
from tests.lab.counted import PROGRAMS, build, count
from tests.paths import ROOT

PAGE = 4096


def counts_of(table: RankTable, thread: int, page: int) -> tuple[int, int]:
    """Reads and writes of a thread to a page."""
    entries = table.pages.get(thread, table.pages[0][:0])
    found = entries[entries["page"] == page]
    assert len(found) <= 1
    return (int(found["reads"].sum()), int(found["writes"].sum()))


def of_all(table: RankTable, address: int, bytes_: int) -> tuple[int, int]:
    """Reads and writes of all threads to the pages of a range."""
    pages = range(address // PAGE, (address + bytes_ - 1) // PAGE + 1)
    each = [counts_of(table, thread, page) for thread in table.pages for page in pages]
    return (sum(reads for reads, _ in each), sum(writes for _, writes in each))


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("cc", "memory_counts.c", tmp_path_factory.mktemp("counts"), "-O2", CC="gcc")


@pytest.mark.slow
@pytest.mark.parametrize(("end", "code"), [("exit", 0), ("_exit", 3), ("kill", -9)])
def test_every_access_of_every_thread_is_counted(counts: Path, end: str, code: int) -> None:
    check_counts(counts, end, code)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("clang") is None, reason="no clang: apt-get install clang")
def test_clang_counts_the_same(tmp_path: Path) -> None:
    check_counts(build("cc", "memory_counts.c", tmp_path, "-O2", CC="clang"), "exit", 0)


def check_counts(counts: Path, end: str, code: int) -> None:
    threads, reads, writes, pages = 3, 700, 500, 12
    ended = count(counts, *map(str, (threads, reads, writes, pages)), end)
    assert ended.code == code, ended.err
    table = ended.table
    assert (table.header["mode"], table.header["lost"], table.header["threads"]) == (COUNTING, 0, threads + 1)
    assert (table.header["ended"] > 0) == (end != "kill")
    address, *tids = ended.out.split()
    first_page = int(address, 16) // PAGE
    number = {int(thread["tid"]): int(thread["number"]) for thread in table.threads}
    for page in range(pages):
        first = {}
        for thread, tid in enumerate(map(int, tids)):
            entries = table.pages[number[tid]]
            (entry,) = entries[entries["page"] == first_page + page]
            own = page % threads == thread
            assert (entry["reads"], entry["writes"]) == (reads, writes if own else 0)
            assert list(entry["read_words"]) == [1 << thread] + 7 * [0]
            assert list(entry["written_words"]) == [own << thread] + 7 * [0]
            assert (entry["line_reads"][0], entry["line_writes"][0]) == (reads, writes if own else 0)
            assert not entry["line_reads"][1:].any() and not entry["line_writes"][1:].any()
            assert (entry["written_slots"] != 0) == own
            assert entry["read_slots"] != 0
            first[entry["first"]] = thread
        assert first[min(first)] == page % threads
    workers = table.threads[1:]
    assert len(set(workers["start"])) == 1 and workers["start"][0] != 0
    assert np.all(workers["ended"] > workers["born"])
    assert str(counts) in table.maps


@pytest.mark.slow
def test_new_and_atomic_operations(tmp_path: Path) -> None:
    ended = count(build("c++", "memory_new.cpp", tmp_path, "-O2", "-D_FORTIFY_SOURCE=2"))
    array, copy, four, right, total = ended.out.split()
    assert (ended.code, right, float(total)) == (0, "right", 3 * sum(range(1024)))
    # 8192 bytes are written once and read three times, and once more by memcpy
    assert of_all(ended.table, int(array, 16), 8192) == (4 * 1024, 1024)
    assert of_all(ended.table, int(copy, 16), 16384) == (0, 1024)  # by memcpy, half of it
    # 2 x 1000 times: four operations that read and write, a load, and exchanges; those that fail read
    reads, writes = of_all(ended.table, int(four, 16), 1)
    assert reads >= writes + 2000 >= 2000 * 5
    objects = {int(each["address"]): each for each in ended.table.objects}
    made = objects[int(array, 16)]
    assert (made["bytes"], int(array, 16) % PAGE) == (8192, 0)
    assert made["freed"] > made["born"] > 0
    assert any(in_file(ended.table, caller, "memory_new") for caller in made["callers"][:2])


def in_file(table: RankTable, address: int, name: str) -> bool:
    """Whether an address lies in what is mapped of a file."""
    for line in table.maps.splitlines():
        begin, _, end = line.split()[0].partition("-")
        if line.endswith(f"/{name}") and int(begin, 16) <= address < int(end, 16):
            return True
    return False


@pytest.mark.slow
def test_allocate(tmp_path: Path) -> None:
    ended = count(build("fc", "memory_allocate.f90", tmp_path, "-O2"))
    address, total = ended.out.split()
    assert (ended.code, float(total)) == (0, 2048 * 2049)
    assert of_all(ended.table, int(address), 16384) == (4096, 2048)
    (made,) = ended.table.objects[ended.table.objects["address"] == int(address)]
    assert made["bytes"] == 16384
    assert in_file(ended.table, made["callers"][0], "memory_allocate")


@pytest.mark.slow
def test_a_program_lives_as_without(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    source = PROGRAMS / "memory_lives.c"
    subprocess.run(["gcc", "-O1", "-w", source, "-o", plain, "-pthread"], check=True)
    without = subprocess.run([plain], capture_output=True, text=True, timeout=60, check=False)
    program = build("cc", "memory_lives.c", tmp_path, "-O1", "-w")
    alone = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    ended = count(program)
    assert without.returncode == 7, without.stderr
    assert (alone.returncode, alone.stdout) == (ended.code, ended.out) == (7, without.stdout)
    fork, vfork, threads, handler = (int(ended.err, 16) // PAGE + mark for mark in range(4))
    assert counts_of(ended.table, 0, fork) == (1, 1)  # the child's thousand are its own
    assert counts_of(ended.table, 0, vfork) == (0, 0)
    assert of_all(ended.table, threads * PAGE, 1) == (202, 200)  # and main has looked
    assert counts_of(ended.table, 0, handler) == (2, 1)
    assert ended.table.header["threads"] == 201
    stack = ended.table.threads[0]
    own = ended.table.pages[0]["page"] * PAGE
    deep = own[(own >= stack["stack_low"]) & (own < stack["stack_high"])]
    assert len(deep) >= 60 * 64 // 4
    assert ended.table.header["lost"] == 0


@pytest.mark.slow
def test_valgrind_counts_what_was_not_built_to(tmp_path: Path) -> None:
    """The same program by gcc alone, by the command; lackey does not tell the threads."""
    plain = tmp_path / "plain"
    subprocess.run(["gcc", "-O2", "-g", PROGRAMS / "memory_counts.c", "-o", plain, "-pthread"], check=True)
    threads, reads, writes, pages = 3, 70, 50, 12
    given = [plain, *map(str, (threads, reads, writes, pages)), "_exit"]
    options = ["--memory=valgrind", "--json", "--background", "0", "--output", tmp_path / "observed"]
    said = subprocess.run(
        [sys.executable, "-m", "npc", "observe", *options, "--", *given],
        capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip
    assert said.returncode == 3, said.stderr
    assert (tmp_path / "observed/raw/0000.err").read_text(encoding="utf-8") == ""
    (memory,) = json.loads((tmp_path / "observed/raw/0000.observed.json").read_text())[MEMORY]["ranks"]
    assert memory["threads"] == threads + 1
    found = {Structure(*each).name: Structure(*each) for each in memory["structures"]}["pages"]
    assert (found.reads, found.writes, found.pages) == (threads * reads * pages, writes * pages, pages)
    assert (found.threads, found.sharing) == (1, {"private": pages})


@pytest.mark.slow
def test_the_ranks_of_an_mpi_program(tmp_path: Path) -> None:
    program = build("cc", "memory_counts.c", tmp_path, "--with", "mpicc", "-DWITH_MPI")
    settings = {"mode": "count", "library": str(memory_library("count"))}
    companion = CompanionOptions.of(RankMemoryTable, settings)
    asked = ObservationOptions(companions={MEMORY: companion}).to_text()
    around = [sys.executable, "-ES", str(ROOT / "npc/observe/rank.py"), str(tmp_path), asked]
    said = subprocess.run(
        ["mpirun", "-n", "2", *around, str(program), "2", "10", "5", "4", "exit"],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    ranks = [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.glob("*.json")]
    assert sorted(rank["rank"] for rank in ranks) == [0, 1]
    assert [rank["companions"][MEMORY]["status"] for rank in ranks] == ["ok", "ok"]


def test_what_cannot_be_built_is_said(tmp_path: Path) -> None:
    for words in (["--with", "no-such-compiler", "-c", "x.c"], ["-static", "x.c"]):
        said = subprocess.run(
            [sys.executable, "-m", "npc", "program", "cc", *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert said.returncode == 127
        assert len(said.stderr.splitlines()) == 1, said.stderr
