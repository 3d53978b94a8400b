"""PAPI's software-defined events: a library that registers one of each kind, read within `npc observe`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from npc.observe.mpi.profile import RankProfile
from npc.observe.mpi.rank_file import read_rank_file
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.paths import ROOT

PROGRAMS: Final = ROOT / "tests/observe/programs"
NPC: Final = Path(sys.executable).with_name("npc")
ITERATIONS: Final = 50
OF: Final = "sde:::Solver::"

pytestmark = pytest.mark.slow


class Run:
    """A solver, what it printed, and its ranks' profiles."""

    def __init__(self, folder: Path, *command: Path, sde: str, snapshots: str = "1", ranks: int = 2) -> None:
        done = subprocess.run(
            [NPC, "observe", "--background", "0", "--output", folder, "--sde", sde,
             "--snapshots", snapshots, "--",
             "mpirun.openmpi", "-n", str(ranks), *command],
            capture_output=True, text=True, timeout=120,
            env={**os.environ, **MPI_ENVIRONMENT},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.said = done.stdout
        self.terminal = done.stderr
        self.document = json.loads((folder / "raw/0000.observed.json").read_text())["profile"]
        profiles = [read_rank_file(path) for path in folder.glob("raw/0000.ranks/*.mpi")]
        self.ranks: dict[int, RankProfile] = {profile.rank: profile for profile in profiles}

    def residuals(self, rank: int) -> list[float]:
        return [float(text) for text in re.findall(rf"rank {rank} residual (\S+)", self.said)]

    def last(self, rank: int, event: str) -> float | None:
        return self.ranks[rank].snapshots[-1].values.get(OF + event)


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, beside its library of events."""
    folder = tmp_path_factory.mktemp("solver")
    library = folder / "libsolver_events.so"
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", PROGRAMS / "solver_events.c", "-o", library, "-lsde"],
        check=True, timeout=60,
    )  # fmt: skip
    subprocess.run(
        ["mpicc.openmpi", "-O2", PROGRAMS / "solver.c", "-o", folder / "solver", library, "-lm",
         f"-Wl,-rpath,{folder}"],
        check=True, timeout=60,
    )  # fmt: skip
    return folder / "solver"


@pytest.fixture(scope="module")
def run(solver: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("run") / "observed", solver, sde="all", snapshots="0.1")


@pytest.mark.parametrize(
    ("event", "value"),
    [
        ("iterations", ITERATIONS),
        ("squared", ITERATIONS**2),
        ("products", 3 * ITERATIONS),
        ("work", 4 * ITERATIONS),
        ("residual:CNT", ITERATIONS),
        ("raw:CNT", ITERATIONS),
        ("decades:CNT", ITERATIONS),
    ],
)
def test_each_kind_has_its_value_at_the_end(run: Run, event: str, value: float) -> None:
    assert [run.last(rank, event) for rank in (0, 1)] == [value, value]


def test_a_registered_double_is_the_program_s_own(run: Run) -> None:
    for rank in (0, 1):
        assert run.last(rank, "last") == run.residuals(rank)[-1]


def test_recorders_have_their_quartiles(run: Run) -> None:
    """PAPI's: the element at n·p/100 of the sorted ones."""
    for rank in (0, 1):
        ordered = sorted(run.residuals(rank))
        places = {":MIN": 0, ":Q1": 12, ":MED": 25, ":Q3": 37, ":MAX": 49}
        assert {mark: run.last(rank, f"residual{mark}") for mark in places} == {
            mark: ordered[place] for mark, place in places.items()
        }
        assert run.last(rank, "residual:LAST") == run.residuals(rank)[-1]


def test_a_counting_set_has_its_distinct_elements(run: Run) -> None:
    decades = set()
    for residual in run.residuals(0):
        decade, bound = 0, 0.1
        while bound > residual and decade < 15:
            decade, bound = decade + 1, bound / 10
        decades.add(decade)
    assert run.last(0, "decades:DISTINCT") == len(decades)


def test_snapshots_show_the_solver_at_work(run: Run) -> None:
    snapshots = run.ranks[1].snapshots
    assert len(snapshots) >= 4
    done = [snapshot.values[f"{OF}residual:CNT"] for snapshot in snapshots]
    assert done == sorted(done)
    residuals = run.residuals(1)
    for count, snapshot in zip(done[1:], snapshots[1:], strict=True):
        assert snapshot.values[f"{OF}residual:LAST"] == residuals[int(count) - 1]
        assert snapshot.values[f"{OF}iterations"] == count
    assert f"{OF}residual:MIN" not in snapshots[0].values, "nothing was recorded yet"


def test_records_of_a_type_of_the_library_s_own_are_counted_only(run: Run) -> None:
    assert run.last(0, "raw:MED") is None
    assert any("1 software-defined events are of an unknown type" in note for note in run.ranks[0].notes)


def test_kinds_and_descriptions_go_into_the_document(run: Run) -> None:
    variables = {each["name"]: each for each in run.document["variables"]}
    iterations = variables[f"{OF}iterations"]
    assert (iterations["kind"], iterations["total"]) == ("counter", 2 * ITERATIONS)
    assert iterations["description"] == "registered counter: iterations so far"
    assert variables[f"{OF}residual:MED"]["kind"] == "level"
    assert f"{OF}residual:CNT: 100, 50 in each rank" in run.terminal


def test_events_are_chosen_by_name_and_others_are_told(solver: Path, tmp_path: Path) -> None:
    run = Run(tmp_path / "observed", solver, sde="Solver::res*,PaRSEC::*")
    names = {each.name for each in run.ranks[0].variables if each.name.startswith("sde")}
    assert names == {f"{OF}residual:{mark}" for mark in ("CNT", "MIN", "Q1", "MED", "Q3", "MAX", "LAST")}
    assert "--sde PaRSEC::*: there is no such software-defined event" in run.ranks[0].notes


@pytest.fixture(scope="module")
def far_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("far") / "far_events"
    subprocess.run(
        ["mpicc.openmpi", "-O2", PROGRAMS / "far_events.c", "-o", program, "-ldl"], check=True, timeout=60
    )
    return program


def test_a_library_that_is_loaded_for_itself_keeps_its_events(
    solver: Path, far_events: Path, tmp_path: Path
) -> None:
    run = Run(tmp_path / "observed", far_events, solver.with_name("libsolver_events.so"), sde="all", ranks=1)
    assert run.last(0, "iterations") == 10
    assert run.last(0, "residual:LAST") == 0.1
    assert run.last(0, "residual:MED") == 1 / 5


def test_a_program_that_could_do_without_libsde_still_can(far_events: Path, tmp_path: Path) -> None:
    """The profiling library has functions of these names, but libsde is not there."""
    run = Run(tmp_path / "observed", far_events, sde="all", ranks=1)
    assert run.said.endswith("done\n")
    assert "no library of the program uses PAPI's libsde" in run.terminal


def test_threads_may_record_while_another_one_takes_a_snapshot(tmp_path: Path) -> None:
    """libsde copies a recorder without a lock: more records than it counted would not fit into the copy."""
    program = tmp_path / "threads"
    source = PROGRAMS / "recording_threads.c"
    subprocess.run(
        ["mpicc.openmpi", "-O2", source, "-o", program, "-lsde", "-lpthread"], check=True, timeout=60
    )
    run = Run(tmp_path / "observed", program, sde="all", snapshots="0.00005", ranks=1)
    snapshots = run.ranks[0].snapshots
    numbers = [snapshot.values["sde:::Threads::numbers:CNT"] for snapshot in snapshots]
    assert numbers == sorted(numbers)
    assert numbers[-1] == snapshots[-1].values["sde:::Threads::records"] == 4 * 15000
    assert all(0 <= snapshot.values.get("sde:::Threads::numbers:MED", 0) < 60000 for snapshot in snapshots)
    ends = snapshots[-1].values
    marks = [ends[f"sde:::Threads::numbers:{mark}"] for mark in ("MIN", "Q1", "MED", "Q3", "MAX")]
    assert marks == [0, 15000, 30000, 45000, 59999]
