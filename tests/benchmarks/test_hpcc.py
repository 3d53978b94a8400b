"""HPC Challenge: the problem that is asked of it, what its own checks make of a reading, and JUBE."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc import parsers
from npc.records.record import OK, read_csv
from tests.captured import text_of
from tests.lab.jube_job import NPC, finish, results, run_jube, states
from tests.paths import ROOT

FOLDER = ROOT / "benchmarks/hpcc"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hpcc_prepare", FOLDER / "prepare.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


prepare = load()


# -- the problem -----------------------------------------------------------------------------------------


@given(st.integers(0, 2**40))
def test_the_least_problem_has_stream_arrays_of_four_times_the_caches(caches: int) -> None:
    n = prepare.order_for_caches(caches)
    assert 8 * n**2 / 3 >= 4 * caches
    assert n == 1000 or 8 * (n - 1) ** 2 / 3 < 4 * caches


@given(st.integers(2**30, 2**45), st.floats(0.01, 1))
def test_a_share_of_the_memory_is_not_exceeded(memory: int, share: float) -> None:
    n = prepare.order_for_memory(memory, share)
    assert 8 * n**2 <= memory * share < 8 * (n + 1) ** 2 + 8


@given(st.integers(1, 100_000))
def test_the_grid_is_of_all_processes_and_no_flatter_one_is_nearer_to_a_square(processes: int) -> None:
    p, q = prepare.near_square(processes)
    assert p * q == processes and p <= q
    assert not any(processes % each == 0 for each in range(p + 1, math.isqrt(processes) + 1))


def written(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, FOLDER / "prepare.py", *words],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


def problem(folder: Path) -> dict[str, str]:
    text = (folder / "hpccinf.txt").read_text()
    return {name: value for value, name in re.findall(r"^(\d+) (Ns|NBs|Ps|Qs)$", text, re.MULTILINE)}


def test_what_is_asked_for_is_written(tmp_path: Path) -> None:
    words = ["--processes", "6", "--n", "5000", "--nb", "100", "--grid", "1x6"]
    assert written(tmp_path, *words).returncode == 0
    assert problem(tmp_path) == {"Ns": "5000", "NBs": "100", "Ps": "1", "Qs": "6"}
    case = json.loads((tmp_path / "cases.jsonl").read_text())
    assert "runs" not in case and Path(case["params"]["blas"]).is_file()


def test_a_problem_of_the_memory_grows_with_the_nodes_and_is_whole_blocks(tmp_path: Path) -> None:
    orders = []
    for nodes in ("1", "4"):
        written(tmp_path, "--processes", "4", "--memory-share", "0.5", "--nodes", nodes)
        orders.append(int(problem(tmp_path)["Ns"]))
    assert orders[0] % 192 == orders[1] % 192 == 0
    assert orders[1] == pytest.approx(2 * orders[0], abs=2 * 192)
    assert problem(tmp_path)["Ps"] == problem(tmp_path)["Qs"] == "2"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--grid", "2x2"], "hpcc_grid 2x2: not P x Q of 6 processes (example: 1x6)"),
        (["--grid", "6"], "hpcc_grid 6: not P x Q"),
        (["--memory-share", "1.5"], "hpcc_memory_share 1.5"),
        (["--memory-share", "all"], "hpcc_memory_share all: not a number"),
        (["--n", "abc"], "hpcc_n abc: not a whole number"),
        (["--memory-share", "80%"], "80%"),
        (["--n", "-5"], "both must be positive"),
        (["--nb", "0", "--n", "9"], "both must be positive"),
    ],
)
def test_mistakes_are_said_and_nothing_is_written(tmp_path: Path, words: list[str], told: str) -> None:
    ended = written(tmp_path, "--processes", "6", *words)
    assert ended.returncode == 1 and told in ended.stderr and "Traceback" not in ended.stderr
    assert not list(tmp_path.iterdir())


def test_no_hpcc_is_unavailable(tmp_path: Path) -> None:
    ended = written(tmp_path, "--processes", "2", PATH="/nowhere")
    assert ended.returncode == 1
    assert ended.stderr.startswith("unavailable: hpcc: not found in PATH on ")


def test_each_run_has_a_folder_of_its_own_and_leaves_none(tmp_path: Path) -> None:
    """HPCC appends: whatever a run finds in its folder would be read again."""
    (tmp_path / "hpccinf.txt").write_text("input\n")
    (tmp_path / "hpccoutf.txt").write_text("an older run\n")
    for code in (0, 3):
        said = f"cat hpccinf.txt >> hpccoutf.txt; echo on stdout; exit {code}"
        ended = subprocess.run(
            ["bash", FOLDER / "run.sh", "sh", "-c", said],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stdout, ended.stderr) == (code, "input\n", "on stdout\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hpccinf.txt", "hpccoutf.txt"]


# -- what its own checks make of a reading ---------------------------------------------------------------

WHOLE = text_of("hpcc", "n7104.txt")


def statuses(text: str) -> dict[str, str]:
    return {reading.case: reading.status for reading in parsers.parse("hpcc", text)}


def test_a_whole_run_is_believed() -> None:
    assert set(statuses(WHOLE).values()) == {OK}


@pytest.mark.parametrize(
    ("old", "new", "case", "told"),
    [
        (r"\.{6} PASSED", "...... FAILED", "HPL", "the scaled residual failed HPL's check"),
        ("MPIRandomAccess_ErrorsFraction=0", "MPIRandomAccess_ErrorsFraction=0.02", "MPIRandomAccess", "1%"),
        (
            "    0 tests completed and failed",
            "    2 tests completed and failed",
            "PTRANS",
            "2 transpositions",
        ),
        (r"MPIFFT_maxErr=\S+", "MPIFFT_maxErr=1e-9", "MPIFFT", "eps log2 n"),
    ],
)
def test_a_failed_check_spoils_its_own_test_alone(old: str, new: str, case: str, told: str) -> None:
    found = statuses(re.sub(old, new, WHOLE))
    status = found.pop(case)
    assert status.startswith("invalid: ") and told in status
    assert set(found.values()) == {OK}


@pytest.mark.parametrize("section", ["StarDGEMM", "SingleFFT", "StarSTREAM", "SingleRandomAccess"])
def test_a_node_with_an_error_spoils_its_section(section: str) -> None:
    begin = WHOLE.index(f"Begin of {section} section.")
    at = WHOLE.index("Node(s) with error 0", begin)
    found = statuses(WHOLE[:at] + "Node(s) with error 1" + WHOLE[at + 20 :])
    spoilt = {case for case, status in found.items() if status != OK}
    assert spoilt and all("STREAM" in case if section == "StarSTREAM" else case == section for case in spoilt)


def test_without_success_nothing_is_believed() -> None:
    found = statuses(WHOLE.replace("Success=1", "Success=0"))
    assert set(found.values()) == {"invalid: HPCC reports that not all tests succeeded"}


def test_the_sum_is_the_mean_times_the_processes() -> None:
    star = [reading for reading in parsers.parse("hpcc", WHOLE) if reading.case == "StarDGEMM"]
    (mean,) = (reading.value for reading in star if "statistic" not in reading.params)
    (total,) = (reading.value for reading in star if reading.params.get("statistic") == "sum")
    assert mean is not None and total == pytest.approx(2 * mean)


def test_hpl_is_its_operations_over_its_time() -> None:
    """2/3 N³ + 3/2 N² (HPL counts so), checked against the printed time."""
    readings = {r.metric: r for r in parsers.parse("hpcc", WHOLE) if r.case == "HPL"}
    n, seconds = int(readings["flops"].params["n"]), readings["time"].value
    assert seconds is not None
    assert readings["flops"].value == pytest.approx((2 / 3 * n**3 + 3 / 2 * n**2) / seconds, rel=1e-3)


# -- under JUBE ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_hpcc_under_jube_gives_a_record_of_every_test(tmp_path: Path) -> None:
    ended = run_jube("benchmarks/hpcc/benchmark.xml", tmp_path, NPC_HPCC_N="1200", NPC_HPCC_TASKS="2")
    assert states(ended)["hpcc"]["done"] == 1
    assert finish(NPC, "records", "collect", tmp_path).returncode in (0, 1)
    # what npc observe saw of the node's ports stands beside them
    records = [r for r in read_csv(tmp_path / "000000/records.csv") if r.case != "observed"]
    assert {record.case for record in records} >= {
        "HPL",
        "StarDGEMM",
        "PTRANS",
        "MPIFFT",
        "RandomlyOrderedRing",
    }
    assert all(record.value for record in records)
    assert not [r for r in records if "STREAM" in r.case and r.ok], "the arrays are smaller than the caches"
    assert all(record.params["blas"] and record.params["processes"] == "2" for record in records)
    (row,) = results(tmp_path)["hpcc"]
    (hpl,) = (r.value for r in records if (r.case, r.metric) == ("HPL", "flops"))
    assert hpl == pytest.approx(float(row["HPL best [GFLOP/s]"]) * 1e9, rel=1e-3)
    assert not list((tmp_path / "000000").rglob("work/hpcc.*")), "folders of its runs are left"
