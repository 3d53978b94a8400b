"""npc program efficiency: observed runs in, table, picture and JSON out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from npc.figures.chart import Chart
from npc.observe.mpi.digest import digest
from npc.observe.mpi.profile import RankProfile
from npc.observe.mpi.records import read_profile
from npc.observe.mpi.runs import chart_of, read_runs
from tests.lab.in_process import npc
from tests.made.profiles import Job


def keep(folder: Path, ranks: list[RankProfile], number: int = 0) -> Path:
    """An observation with nothing in it but the profile."""
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    counted = {"ranks": len(ranks), "nodes": [], "reported": {}}
    document = {"schema": 2, "command": ["./app"], "profile": digest(ranks), **counted}
    (raw / f"{number:04d}.observed.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def job_of(ranks: int, seconds: float = 8.0) -> Job:
    """`seconds` of work for all ranks together, the last rank has 20 % more than the others."""
    job = Job(ranks, per_node=2, ahead=1.0, error=1e-6)
    each = seconds / (ranks + 0.2)
    for _ in range(10):
        with job.region("solve"):
            job.compute(*[each] * (ranks - 1), 1.2 * each)
            job.collective("MPI_Allreduce", seconds=0.01 * ranks)
    return job


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """The same work on eight, two and four ranks."""
    return [keep(tmp_path / f"n{ranks}", job_of(ranks).profiles()) for ranks in (8, 2, 4)]


def test_the_table_has_a_column_for_each_run_the_smallest_first(folders: list[Path]) -> None:
    ended = npc("program", "efficiency", *folders, "--output", folders[0])
    assert ended.returncode == 0, ended.stderr
    lines = {line.strip().split("  ")[0]: line.split() for line in ended.stdout.splitlines() if line}
    assert lines["n2"] == ["n2", "n4", "n8"]
    assert lines["ranks"] == ["ranks", "2", "4", "8"]
    assert lines["load balance"][2:] == ["91.7%", "87.5%", "85.4%"]
    assert lines["computation scaling"][2:] == ["100.0%"] * 3
    assert lines["load imbalance"][2:] == ["9.1%", "14.3%", "17.1%"]
    assert lines["global efficiency"][2:] == lines["parallel efficiency"][2:]
    assert lines["slowest rank"][2:] == ["1", "(n0)", "3", "(n1)", "7", "(n3)"]
    assert (
        "unavailable: instructions, IPC, frequency: instructions and cycles were not counted" in ended.stdout
    )
    for name in ("efficiency.png", "efficiency.svg"):
        assert (folders[0] / name).stat().st_size > 1000


def test_json_holds_what_the_table_shows_and_more(folders: list[Path]) -> None:
    document = json.loads(npc("program", "efficiency", *folders, "--json", "--output", folders[0]).stdout)
    assert (document["schema"], document["scaling"], document["reference"]) == (1, "strong", "n2")
    last = document["runs"][-1]
    assert last["name"] == "n8" and last["efficiency"]["ranks"] == 8
    assert last["regions"]["solve"]["load_balance"] == pytest.approx(8.2 / 9.6, rel=1e-4)
    found = last["efficiency"]
    assert found["parallel"] == pytest.approx(found["load_balance"] * found["communication"], rel=1e-5)
    assert last["scaling"]["total"] == pytest.approx(found["parallel"], rel=1e-4)
    assert last["scaling"]["ipc"] is None and last["scaling"]["reasons"]["ipc"]


def test_what_memory_moved_stands_beside_that_of_the_run_with_the_fewest_cpus(folders: list[Path]) -> None:
    nodes = {8: {"n1": (3e9, 2.0, 0.1), "n2": (1e9, 2.0, 0.3)}, 2: {"n1": (2e9, 4.0, 0.5)}}
    for folder, ranks in zip(folders, (8, 2, 4), strict=True):
        file = folder / "raw/0000.observed.json"
        keys = ("bytes", "seconds", "idle")
        moved = {
            host: {"level": "MEM", **dict(zip(keys, each, strict=True))}
            for host, each in nodes.get(ranks, {}).items()
        }
        counted = {"group": "MEM", "flop": None, "reason": "", "moved": moved or None}
        file.write_text(json.dumps(json.loads(file.read_text()) | {"counted": counted}), encoding="utf-8")
    said = npc("program", "efficiency", *folders, "--output", folders[0]).stdout
    rows = {line.strip().split("  ")[0]: " ".join(line.split()) for line in said.splitlines() if line}
    assert rows["MEM volume"] == "MEM volume 2 GB (1.00 x) – 4 GB (2.00 x)"
    assert rows["MEM bandwidth"] == "MEM bandwidth 500 MB/s (1.00 x) – 2 GB/s (4.00 x)"
    assert rows["idle"] == "idle 50.0% – 20.0%"
    document = json.loads(npc("program", "efficiency", *folders, "--json", "--output", folders[0]).stdout)
    assert [run.get("moved", {}).get("bytes") for run in document["runs"]] == [2e9, None, 4e9]


def test_weak_scaling_compares_the_work_of_each_cpu(tmp_path: Path) -> None:
    """Twice the ranks with 2.5 times the work: each has 25 % more to do."""
    folders = [
        keep(tmp_path / f"n{ranks}", job_of(ranks, seconds).profiles())
        for ranks, seconds in ((2, 4), (4, 10))
    ]
    runs = read_runs(folders, weak=True)
    assert runs[1].scaling.computation == pytest.approx(0.8, rel=1e-4)
    assert read_runs(folders)[1].scaling.computation == pytest.approx(0.4, rel=1e-4)
    ended = npc("program", "efficiency", "--weak", *folders, "--output", tmp_path)
    assert "weak scaling" in ended.stdout and " 80.0%" in ended.stdout


def test_one_run_has_a_picture_of_its_ranks_and_regions_below(folders: list[Path]) -> None:
    ended = npc("program", "efficiency", folders[2])
    assert (folders[2] / "efficiency.png").exists()
    assert "scaling" not in ended.stdout
    assert "Regions of n4:" in ended.stdout and "solve" in ended.stdout
    (run,) = read_runs([folders[2]])
    chart: Chart = chart_of([run], weak=False)
    outside, inside, mean = chart.traces
    assert [mark.y for mark in outside.marks] == pytest.approx([rank.computing for rank in run.ranks])
    assert [mark.y for mark in inside.marks] == pytest.approx([rank.mpi for rank in run.ranks])
    assert mean.lines[0][0][1] == pytest.approx(run.efficiency.computing)
    assert npc("program", "efficiency", folders[2], "--region", "solve").returncode == 0


def test_every_line_of_the_picture_is_of_the_runs(folders: list[Path]) -> None:
    chart = chart_of(read_runs(folders), weak=False)
    named = {trace.name: [(mark.x, mark.y) for mark in trace.marks] for trace in chart.traces}
    assert [x for x, _ in named["load balance"]] == [2, 4, 8]
    assert [y for _, y in named["load balance"]] == pytest.approx([2.2 / 2.4, 4.2 / 4.8, 8.2 / 9.6], rel=1e-4)
    assert "OpenMP, at most" not in named
    assert all(0 <= chart.y.share(y) <= 1 for line in named.values() for _, y in line)
    twice = chart_of(read_runs([*folders, folders[0] / "raw" / "0000.observed.json"]), weak=False)
    assert twice.x.title == "Run" and len(twice.x.ticks) == 4


def test_several_observations_of_a_folder_are_runs_of_their_own(tmp_path: Path) -> None:
    for number in range(2):
        keep(tmp_path / "runs", job_of(2).profiles(), number)
    assert [run.name for run in read_runs([tmp_path / "runs"])] == ["runs 0000", "runs 0001"]


def test_threads_have_a_line_of_their_own(tmp_path: Path) -> None:
    ranks = [replace(each, openmp_threads=4, cpu_seconds=100.0) for each in job_of(2).profiles()]
    ended = npc("program", "efficiency", keep(tmp_path / "hybrid", ranks))
    assert "2 (8 threads)" in ended.stdout and "OpenMP (at most)" in ended.stdout
    unknown = [replace(each, openmp_threads=4) for each in job_of(2).profiles()]
    ended = npc("program", "efficiency", keep(tmp_path / "unknown", unknown))
    assert "unavailable: parallel efficiency, OpenMP (at most): the CPU time" in ended.stdout


def test_the_gpus_efficiencies_come_from_a_file(tmp_path: Path) -> None:
    folder = keep(tmp_path / "n2", job_of(2).profiles())
    table = tmp_path / "gpu.csv"
    table.write_text("rank,sm_efficiency,warp_execution_efficiency\n0,96%,100\n1,80,100.0 %\n")
    ended = npc("program", "efficiency", folder, "--gpu", table, "--json")
    (run,) = json.loads(ended.stdout)["runs"]
    assert run["efficiency"]["imbalance"] == pytest.approx(0, abs=1e-4)
    table.write_text("rank,sm_efficiency,warp_execution_efficiency\n0,96,100\n")
    ended = npc("program", "efficiency", folder, "--gpu", table)
    assert ended.returncode == 2 and "it has no rank 1" in ended.stderr
    table.write_text("rank,sm\n0,96\n")
    ended = npc("program", "efficiency", folder, "--gpu", table)
    assert ended.returncode == 2 and "expected columns rank, sm_efficiency" in ended.stderr
    table.write_text("rank,sm_efficiency,warp_execution_efficiency\n0,960,100\n")
    assert "percentages above 0" in npc("program", "efficiency", folder, "--gpu", table).stderr
    assert npc("program", "efficiency", folder, folder, "--gpu", table).returncode == 2


def test_runs_without_a_profile_or_a_region_are_a_line_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ended = npc("program", "efficiency", tmp_path / "empty")
    assert ended.returncode == 1 and "no profile of what ranks did" in ended.stderr
    ended = npc("program", "efficiency", keep(tmp_path / "none", []))
    assert ended.returncode == 1 and ended.stdout == ""
    ended = npc("program", "efficiency", keep(tmp_path / "n2", job_of(2).profiles()), "--region", "setup")
    assert ended.returncode == 1 and "no rank was in region 'setup'" in ended.stderr


def test_damaged_and_absent_files_are_a_line_and_exit_code_2(tmp_path: Path) -> None:
    folder = keep(tmp_path / "n2", job_of(2).profiles())
    file = folder / "raw" / "0000.observed.json"
    file.write_text(file.read_text()[:-40])
    ended = npc("program", "efficiency", folder)
    assert ended.returncode == 2 and "0000.observed.json" in ended.stderr and "Traceback" not in ended.stderr
    assert npc("program", "efficiency", tmp_path / "absent").returncode == 2
    gone = tmp_path / "gone"
    gone.mkdir()
    (gone / "0001.observed.json").symlink_to("removed")
    ended = npc("program", "efficiency", gone)
    assert ended.returncode == 2
    assert f"{gone / '0001.observed.json'}: No such file or directory" in " ".join(ended.stderr.split())
    assert "Errno" not in ended.stderr
    file.write_text('{"schema": 2, "profile": {"ranks": 3}}')
    assert npc("program", "efficiency", folder).returncode == 2


def test_waits_are_read_as_they_were_written(folders: list[Path]) -> None:
    found = read_profile(folders[0] / "raw" / "0000.observed.json")
    assert found is not None and found.waits is not None
    (of_call,) = found.waits.collectives
    assert (of_call.call, of_call.calls, of_call.late[0].rank) == ("MPI_Allreduce", 10, 7)
    assert found.waits.by_rank[7][1] == pytest.approx(of_call.waited)
