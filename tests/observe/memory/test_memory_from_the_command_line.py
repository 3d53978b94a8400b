"""npc observe --memory of a program with planted faults: they are named with their variables."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

from npc.observe.memory.records import MEMORY, MemoryUse, Structure
from npc.records.observed import read_part
from npc.records.record import read_csv
from npc.report.advice import advise, gather
from tests.paths import ROOT

PROGRAM = ROOT / "tests/observe/programs/memory_planted.c"
N = 1 << 16
ROUNDS = 12


def npc(*words: str | Path, code: int = 0) -> str:
    """What it said on the terminal."""
    ended = subprocess.run(
        [sys.executable, "-m", "npc", *words], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert ended.returncode == code, ended.stderr
    return ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("planted") / "planted"
    npc("program", "cc", "-O2", "-pthread", PROGRAM, "-o", path)
    return path


@pytest.mark.slow
@pytest.mark.measures
def test_planted_faults_are_named_with_their_variables(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "seen"
    words = ("--memory", "--check-observer", "1", "--plain", "/bin/true", "--note", "N 2^16, not 2^26")
    said = npc("observe", *words, "--output", folder, "--", program)
    assert "false sharing: counts: " in said
    # threads are numbered as they begin, which is not always the order in which they were made
    found = re.search(r"thread \d writes (counts\[\d\]); thread \d writes (counts\[\d\])", said)
    assert found and sorted(found.groups()) == ["counts[0]", "counts[1]"]
    assert "first touch: field: thread 0 touched 100% of its 128 pages first" in said
    assert "note: N 2^16, not 2^26" in said

    memory = read_part(folder / "raw/0000.observed.json", MEMORY, MemoryUse)
    assert memory is not None
    assert (memory.mode, memory.status) == ("counting", "ok")
    assert memory.slowdown and memory.slowdown > 2, "beside a program that does nothing"
    assert f"ran {memory.slower}" in said
    (rank,) = memory.ranks
    structures = {each.name: each for each in rank.structures}
    # what the source does: in each round a read and a write by the threads, and one write to set it up
    assert (structures["field"].reads, structures["field"].writes) == (ROUNDS * N, (ROUNDS + 1) * N)
    assert (structures["own"].reads, structures["own"].writes) in ((0, ROUNDS * N), (ROUNDS * N, ROUNDS * N))
    assert structures["own"].allocations == 2
    assert structures["own"].sharing == {"private": structures["own"].pages}
    assert structures["counts"].sharing == {"false-shared": 1}
    source = PROGRAM.read_text(encoding="utf-8").splitlines()
    kept = next(number for number, line in enumerate(source, 1) if "xmalloc(N" in line)
    assert structures["field"].where == f"memory_planted.c:{kept}"

    table = {
        name: list(csv.DictReader((folder / f"raw/0000.memory-{name}.csv").open(encoding="utf-8")))
        for name in ("structures", "lines", "pages", "sharing", "hints")
    }
    assert {row["name"]: row["writes"] for row in table["structures"]}["field"] == str((ROUNDS + 1) * N)
    assert "counts[1]" in table["lines"][0]["words"]
    of_field = [row for row in table["pages"] if row["structure"] == "field"]
    assert sum(int(row["writes"]) for row in of_field) == (ROUNDS + 1) * N
    assert {row["first_thread"] for row in of_field} == {"0"}
    touched = [each.sharing.get("private", 0) for each in rank.intervals]
    assert [int(row["private"]) for row in table["sharing"]] == touched
    assert [row["rule"] for row in table["hints"]] == [hint.rule for hint in memory.hints]

    records = list(read_csv(folder / "records.csv"))
    assert {(each.metric, each.params["layer"]) for each in records} == {("events", "memory")}
    hints = [hint for rule, hint in advise(gather([folder])).hints if rule.name == "memory_use"]
    assert [hint.seen.split(" in ")[0].split(": ")[1] for hint in hints] == ["false sharing", "first touch"]


@pytest.mark.slow
def test_the_programs_of_the_paper_use_memory_as_it_shows(tmp_path: Path) -> None:
    """Beniamine 2016: the naive product in quarters (figures 6.3 to 6.7), IS (figure 4.5), a stencil."""
    program, folder = tmp_path / "paper", tmp_path / "seen"
    npc("program", "cc", "-O2", "-fopenmp", PROGRAM.with_name("memory_paper.c"), "-o", program)
    npc("observe", "--memory", "--output", folder, "--", program)
    memory = read_part(folder / "raw/0000.observed.json", MEMORY, MemoryUse)
    assert memory is not None and memory.status == "ok"
    found = {each.name: each for each in memory.ranks[0].structures}

    n = 128
    matrices = [found[name] for name in "ABC"]
    assert [(each.reads, each.writes) for each in matrices[:2]] == 2 * [(n**3, n**2)]
    assert matrices[2].writes == 2 * n**2
    assert [(each.threads, each.first_thread, each.first_share) for each in matrices] == 3 * [(4, 0, 1)]
    a, b, c = (by_thread(each) for each in matrices)
    pages = n * n * 8 // 4096
    for thread in range(4):
        assert sum(a[thread][0]) == sum(b[thread][0]) == n**3 // 4
        assert sum(c[thread][1]) == n**2 // 4 + (thread == 0) * n**2
        assert len(set(b[thread][0])) == 1, "B is read as a whole by all"
        assert sum(map(bool, a[thread][0])) == pages // 2, "half of A by each"
    assert [sum(bool(a[thread][0][page]) for thread in range(4)) for page in range(pages)] == pages * [2]
    assert found["B"].sharing["read-shared"] >= pages - 2

    keys, largest = 2**16, 2**14
    counts = found["key_buff1"]
    assert (counts.reads, counts.writes) == (keys + 1, keys)  # one is printed
    assert found["key_buff2"].reads == found["key_buff2"].writes == keys
    places = [
        sum(column) for column in zip(*(written for _, written in by_thread(counts).values()), strict=True)
    ]
    middle = places[len(places) // 4 : -(len(places) // 4)]
    assert len(places) >= largest * 4 // 4096 and sum(middle) > 0.9 * keys, "most keys are in the middle"

    cells, inner, steps = 16 * 16 * 64, 14 * 14 * 62, 4
    assert (found["wrk2"].writes, found["wrk2"].reads) == (cells + steps * inner, 1)
    assert (found["a"].writes, found["a"].reads) == (cells, steps * inner)
    assert (found["p"].writes, found["p"].reads) == (cells, 6 * steps * inner)
    assert "first touch" not in {hint.rule for hint in memory.hints if hint.structure in ("p", "a", "wrk2")}


def by_thread(structure: Structure) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Reads and writes by page, of each thread; threads are numbered as the program's."""
    density = structure.density
    assert density is not None and (density.pages, density.group) == (1, 1)
    rows = zip(density.threads, density.reads, density.writes, strict=True)
    return {thread: (reads, writes) for thread, reads, writes in rows}


@pytest.mark.slow
def test_a_program_that_was_not_built_for_it_says_so(tmp_path: Path) -> None:
    said = npc("observe", "--memory=count", "--output", tmp_path / "seen", "--", "/bin/true")
    assert "memory: unavailable: the program was not built by npc program cc" in said
    (record,) = read_csv(tmp_path / "seen/records.csv")
    assert record.status.startswith("unavailable: ")
    said = npc("observe", "--memory=sample", "--output", tmp_path / "short", "--", "/bin/true")
    assert "memory: unavailable: no access was seen in " in said and "a shorter --interval" in said
    assert "nothing looks wrong" not in said


def test_of_a_program_that_does_not_count_the_three_ways_are_said_and_none_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "observed"
    printed = npc("observe", "--memory", "--output", folder, "--", "/bin/true", code=2)
    assert "/bin/true was not built by npc program cc" in printed
    ways = [printed.index(way) for way in ('CC="npc program cc"', "--memory=valgrind", "--memory=sample")]
    risks = [printed.index(risk) for risk in ("5 to 7 ns", "half\n", "EXPERIMENTAL")]
    assert [way < risk for way, risk in zip(ways, risks, strict=True)] == 3 * [True]
    assert not folder.exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--memory", "--hotspots"], "nothing else is measured"),
        (["--interval", "0.2"], "--interval goes with --memory"),
        (["--memory=count", "--interval", "0.2"], "counting sees every access"),
        (["--memory=count", "--check-observer"], "/bin/true counts in all runs: --plain names it"),
        (["--plain", "/bin/true"], "--plain goes with --check-observer"),
    ],
)
def test_what_does_not_go_together_is_said(options: list[str], reason: str, tmp_path: Path) -> None:
    said = npc("observe", *options, "--output", tmp_path / "seen", "--", "/bin/true", code=2)
    assert reason in said
