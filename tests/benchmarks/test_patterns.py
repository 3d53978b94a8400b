"""The access patterns: who sends to whom, what is printed, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc import parsers
from npc.records.reading import Reading
from npc.records.record import OK, read_csv
from tests.captured import text_of
from tests.lab.jube_job import NPC, finish, results, run_jube, states
from tests.paths import ROOT

FOLDER = ROOT / "benchmarks/patterns"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(program: str, *words: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["mpirun", "-n", str(ranks), "--oversubscribe", sys.executable, FOLDER / program, *words],
        capture_output=True, text=True, check=False, timeout=100, env={**os.environ, **AS_ROOT},
    )  # fmt: skip


def in_python(code: str, *words: str) -> str:
    """What a piece of code prints beside the programs, in a process of its own: they load MPI."""
    ended = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=FOLDER, capture_output=True, text=True, check=True, timeout=60, env={**os.environ, **AS_ROOT},
    )  # fmt: skip
    return ended.stdout


# -- rings -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_ring_is_closed_and_has_about_its_length() -> None:
    """For up to 40 processes and every length: left's right is oneself, rings are of 2 or more processes."""
    in_python(
        """
import rings
for processes in range(2, 41):
    for name, (order, length) in rings.patterns(processes, 2, 7).items():
        assert sorted(order) == list(range(processes)), name
        both = [rings.neighbours(order, rank, length) for rank in range(processes)]
        for rank, (left, right) in enumerate(both):
            assert left != rank != right
            assert both[left][1] == rank and both[right][0] == rank
        seen, lengths = set(), []
        for rank in range(processes):
            length_of_ring = 0
            while rank not in seen:
                seen.add(rank)
                rank = both[rank][1]
                length_of_ring += 1
            if length_of_ring:
                lengths.append(length_of_ring)
        assert min(lengths) >= length and max(lengths) - min(lengths) <= 1, (processes, name, lengths)
        assert len(lengths) == max(1, processes // length)
"""
    )


@pytest.mark.slow
def test_there_are_21_sizes_as_in_b_eff() -> None:
    printed = in_python("import rings; print(*rings.all_sizes(1 << 20))").split()
    found = [int(word) for word in printed]
    assert len(found) == 21 and found == sorted(set(found))
    assert found[:13] == [2**power for power in range(13)] and found[-1] == 2**20


def rows(text: str) -> list[Reading]:
    return parsers.parse("patterns", text)


def test_the_bandwidth_of_a_ring_is_its_size_over_its_latency() -> None:
    """Two messages of L in t: 2 L / t, and the latency is t / 2; a rate is printed to a kilobyte."""
    latencies = {}
    for reading in rows(text_of("patterns", "rings_2.txt")):
        key = (reading.params.get("pattern"), reading.params.get("method"), reading.size)
        if reading.metric == "latency":
            latencies[key] = reading.value
        elif reading.case == "rings":
            assert reading.value == pytest.approx(reading.size / latencies[key], rel=1e-3, abs=1e3)
    assert len(latencies) == 2 * 21 * 3


def test_b_eff_is_the_logarithmic_mean_of_rings_and_random_orders() -> None:
    best: dict[str, dict[int, float]] = defaultdict(dict)
    printed = None
    for reading in rows(text_of("patterns", "rings_2.txt")):
        if reading.case == "b_eff":
            printed = reading.value
        elif reading.metric == "bandwidth" and reading.size:
            of_pattern = best[reading.params["pattern"]]
            of_pattern[reading.size] = max(of_pattern.get(reading.size, 0), reading.value or 0)
    means = {pattern: 2 * sum(sizes.values()) / 21 for pattern, sizes in best.items()}
    assert printed == pytest.approx((means["ring_2"] * means["random_0"]) ** 0.5, rel=1e-4)


# -- what is printed ---------------------------------------------------------------------------------------


@given(st.sampled_from(["rings_2.txt", "multirate_own.txt", "pingpong_2.txt"]), st.data())
def test_a_table_without_its_end_gives_no_number(name: str, data: st.DataObject) -> None:
    text = text_of("patterns", name)
    cut = text[: data.draw(st.integers(0, text.index("# End\n") + len("# En")))]
    assert not [reading for reading in rows(cut) if reading.value is not None]


def test_of_shared_cpus_no_number_is_usable() -> None:
    for name in ("multirate_threads.txt", "multirate_bound.txt", "rings_4_oversubscribed.txt"):
        found = rows(text_of("patterns", name))
        assert found and all(reading.status.startswith("invalid: oversubscribed: ") for reading in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "words", "ranks", "cases"),
    [
        ("rings.py", ["--max-size", "8192", "--randoms", "1", "--time", "0.0001"], 3, {"rings", "b_eff"}),
        ("multirate.py", ["--sizes", "1,64", "--time", "0.01", "--window", "16"], 2, {"multirate"}),
        (
            "multirate.py",
            ["--sizes", "8", "--time", "0.01", "--threads", "2", "--comm", "own"],
            2,
            {"multirate"},
        ),
        ("pingpong.py", ["--sizes", "8", "--loops", "50", "--load-size", "65536"], 2, {"pingpong"}),
        ("pingpong.py", ["--sizes", "8", "--loops", "50", "--load-size", "65536"], 4, {"pingpong"}),
    ],
)
def test_a_program_ends_and_its_table_is_whole(
    program: str, words: list[str], ranks: int, cases: set[str]
) -> None:
    ended = run(program, *words, ranks=ranks)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("# End\n")
    found = rows(ended.stdout)
    assert {reading.case for reading in found} == cases
    shared = ranks * (2 if "--threads" in words else 1) > len(os.sched_getaffinity(0))
    bound = "--threads" in words  # mpirun binds each process to one core
    assert all((reading.status == OK) == (not shared and not bound) for reading in found)
    if program == "pingpong.py":
        load = "same_pair" if ranks == 2 else "other_pairs"
        assert {reading.params["load"] for reading in found} == {"none", load}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "words", "ranks", "told"),
    [
        ("rings.py", [], 1, "rings.py: needs two processes or more"),
        ("rings.py", ["--max-size", "100"], 2, "rings.py: --max-size 100: at least 8192"),
        ("multirate.py", [], 3, "multirate.py: 3 processes make no pairs"),
        ("multirate.py", ["--sizes", "8,x"], 2, "multirate.py: --sizes: "),
        ("pingpong.py", ["--sizes", "0"], 2, "pingpong.py: --sizes: sizes are at least 1 byte"),
        ("pingpong.py", [], 1, "pingpong.py: 1 processes: an even number, at least 2, is needed"),
    ],
)
def test_mistakes_are_said_once(program: str, words: list[str], ranks: int, told: str) -> None:
    ended = run(program, *words, ranks=ranks)
    assert ended.returncode != 0 and not ended.stdout
    assert ended.stderr.count(told) == 1 and "Traceback" not in ended.stderr


@pytest.mark.slow
def test_an_mpi_that_has_no_threads_is_unavailable() -> None:
    """An MPI that was initialised for one thread at a time, as some give no more."""
    code = """
import runpy, sys
import mpi4py
mpi4py.rc.thread_level = "serialized"
from mpi4py import MPI
sys.argv = ["multirate.py", "--threads", "2"]
runpy.run_path("multirate.py", run_name="__main__")
"""
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=FOLDER, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **AS_ROOT},
    )  # fmt: skip
    assert ended.returncode == 1
    told = "unavailable: MPI gives MPI_THREAD_SERIALIZED, threads need MPI_THREAD_MULTIPLE\n"
    assert ended.stderr == told


@pytest.mark.slow
def test_jube_runs_the_three_and_its_numbers_are_the_records(tmp_path: Path) -> None:
    ended = run_jube("benchmarks/patterns/benchmark.xml", tmp_path)
    assert states(ended)["patterns"]["done"] == 3
    finish(NPC, "records", "collect", tmp_path)
    records = list(read_csv(tmp_path / "000000/records.csv"))
    assert {record.case for record in records} == {"rings", "b_eff", "multirate", "pingpong"}
    assert all(record.value for record in records)
    tables = results(tmp_path)
    for table, title, unit, case, load in (
        ("patterns_rings", "b_eff best [GB/s]", 1e9, "b_eff", None),
        ("patterns_multirate", "messages best [1/s]", 1.0, "multirate", None),
        ("patterns_pingpong", "idle best [us]", 1e-6, "pingpong", "none"),
        ("patterns_pingpong", "loaded best [us]", 1e-6, "pingpong", "same_pair"),
    ):
        (row,) = tables[table]
        same = [r for r in records if r.case == case and r.params.get("load") == load]
        assert any(r.value == pytest.approx(float(row[title]) * unit, rel=1e-3) for r in same), title
