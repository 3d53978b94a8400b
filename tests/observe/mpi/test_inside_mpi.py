"""The report's section on programs' MPI: who, in which call, to whom and when, of few and of many ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from npc.figures.grid import Grid
from npc.figures.scale import DEPTHS, linear_scale, log_scale
from npc.figures.svg import draw_grid
from npc.machine.fabric import Topology, load
from npc.observe.mpi import section as inside_mpi
from npc.observe.mpi.digest import digest
from npc.observe.mpi.figure import calls_grid, kind_of, peers_grid, rows_of, snapshots_grid
from npc.observe.mpi.profile import RankProfile, Snapshot, Variable
from npc.observe.mpi.records import Profile, profile_of
from npc.observe.observation import read_observation, to_text
from npc.report.runs import Report, read_runs
from npc.report.sections import NothingToShow
from tests.made.inside import observed_runs
from tests.made.measured import peak
from tests.made.profiles import Job, MadeProfiles


def told(profiles: list[RankProfile]) -> Profile:
    found = profile_of({"profile": digest(profiles)})
    assert found is not None
    return found


def a_job(ranks: int, per_node: int, slow: int = 1) -> Job:
    """Every rank computes 1 s and `slow` 2 s; then each sends 1000 B to the next one."""
    job = Job(ranks, per_node=per_node)
    job.compute(*[2.0 if rank == slow else 1.0 for rank in range(ranks)])
    job.collective("MPI_Allreduce")
    for rank in range(ranks):
        job.message(rank, (rank + 1) % ranks, bytes=1000)
    return job


def snapped(profiles: list[RankProfile]) -> Iterator[RankProfile]:
    """Each second a rank counts as many as its number; the length of its queue is always 7."""
    variables = [
        Variable(name="unexpected", kind="counter", description="Unexpected messages", unit="messages"),
        Variable(name="queue", kind="level", description="Length of the queue", unit=""),
    ]
    for each in profiles:
        taken = [
            Snapshot(each.began + at, {"unexpected": float(each.rank * at), "queue": float(each.rank)})
            for at in range(1, 6)
        ]
        yield replace(each, snapshots=taken, variables=variables)


def amounts(grid: Grid) -> dict[tuple[str, str], float]:
    """(name of the row, of the column) → amount."""
    return {(grid.rows[c.row], grid.columns[c.column]): c.value or 0.0 for c in grid.cells}


def test_a_rank_that_computes_longer_is_the_pale_row() -> None:
    profile = told(a_job(4, 2).profiles())
    grid = calls_grid(profile, rows_of(profile), "c1", "made")
    assert grid.groups == (("n0", 2), ("n1", 2))
    found = amounts(grid)
    assert found["rank 0", "Allreduce"] == pytest.approx(1.0, rel=1e-3)
    assert found["rank 1", "Allreduce"] == pytest.approx(1e-5, rel=1e-3)
    depth = {row: grid.scale.depth(found[row, "all of MPI"]) for row in grid.rows}
    assert depth == {"rank 0": DEPTHS, "rank 1": 1, "rank 2": DEPTHS, "rank 3": DEPTHS}
    assert "rank 1 on n0" in {cell.tip.partition("\n")[0] for cell in grid.cells}


def test_of_many_ranks_rows_are_nodes_and_of_many_nodes_groups_of_neighbours() -> None:
    nodes = told(Job(300, per_node=10).profiles())
    rows = rows_of(nodes)
    assert (len(rows), kind_of(rows), rows[2].name, len(rows[2].ranks)) == (30, "node", "n2", 10)
    groups = rows_of(told(Job(300, per_node=2).profiles()))
    assert (len(groups), kind_of(groups), len(groups[0].ranks)) == (50, "group of nodes", 6)
    assert sum(len(row.ranks) for row in groups) == 300


def test_the_matrix_of_peers_adds_up_what_nodes_sent() -> None:
    profile = told(a_job(80, 10).profiles())
    grid = peers_grid(profile, None, "c1", "made")
    assert grid is not None
    found = amounts(grid)
    assert len(grid.rows) == 8
    assert (found["n0", "n0"], found["n0", "n1"], found["n7", "n0"]) == (9000.0, 1000.0, 1000.0)
    assert "80 kB in all, 72 kB of it within a node" in grid.text


def test_nodes_stand_by_rack_where_the_topology_tells(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text("SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n[0,4-7]\n")
    topology: Topology = load(str(tmp_path / "topology.conf"))
    grid = peers_grid(told(a_job(80, 10).profiles()), topology, "c1", "made")
    assert grid is not None
    assert grid.groups == (("switch a", 3), ("switch b", 5))
    assert grid.rows == ("n1", "n2", "n3", "n0", "n4", "n5", "n6", "n7")
    assert amounts(grid)["n7", "n0"] == 1000.0


def test_who_sent_nothing_has_no_matrix() -> None:
    job = Job(2)
    job.collective("MPI_Barrier", bytes=0)
    assert peers_grid(told(job.profiles()), None, "c1", "made") is None


def test_counters_are_shown_by_what_they_gained_and_levels_as_they_are() -> None:
    profile = told(list(snapped(Job(4, per_node=2).profiles())))
    grid = snapshots_grid(profile, "unexpected", "c1", "made")
    assert grid.columns == ("1", "2", "3", "4", "5")
    assert {amounts(grid)["rank 3", column] for column in grid.columns} == {3.0}
    level = amounts(snapshots_grid(profile, "queue", "c2", "made"))
    assert level["rank 2", "5"] == 2.0


@pytest.mark.parametrize(
    ("values", "unit", "words"),
    [
        ([0.0, 7.3], "s", ["none", "to 1.5 s", "1.5 s to 3 s", "3 s to 4.5 s", "4.5 s to 6 s", "above 6 s"]),
        ([6.0], "1", ["none", "to 1", "1 to 2", "2 to 3", "3 to 4", "4 to 5", "above 5"]),
        ([0.0], "s", ["none", "any"]),
        ([], "s", ["none", "any"]),
    ],
)  # fmt: skip
def test_classes_of_a_linear_scale_are_equally_wide(values: list[float], unit: str, words: list[str]) -> None:
    scale = linear_scale(values, unit)
    assert [meaning for _, meaning in scale.words()] == words
    assert scale.depth(0.0) == 0
    if max(values, default=0.0):
        assert scale.depth(max(values)) == DEPTHS


def test_a_logarithmic_scale_tells_eight_bytes_from_a_gigabyte() -> None:
    scale = log_scale([8.0, 1e4, 2e9], "B")
    assert scale.depth(8.0) < scale.depth(1e4) < scale.depth(2e9) == DEPTHS
    assert log_scale([5.0], "B").depth(5.0) == 1


def page(*folders: Path, topology: Topology | None = None) -> str:
    """The text of the section on the page of some folders."""
    report = Report(read_runs(folders), folders[0], topology=topology)
    return str(list(inside_mpi.build(report)))


def test_the_section_shows_summary_heat_map_waits_peers_and_counters(tmp_path: Path) -> None:
    profiles = list(snapped(a_job(4, 2).profiles()))
    text = page(observed_runs(tmp_path / "app", profiles))
    for words in (
        "app, 4 ranks on 2 nodes", "load imbalance 60%", "Seconds inside MPI: app", "Who waits for whom",
        "rank 1 (n0) in 1", "Bytes sent: app", "unexpected over time: app", "queue over time: app",
    ):  # fmt: skip
        assert words in text, words


def test_without_a_program_the_section_says_what_makes_it(tmp_path: Path) -> None:
    from npc.records.record import save_csv

    save_csv(peak("peakflops_avx", 390e9), tmp_path / "records.csv")
    with pytest.raises(NothingToShow, match="npc observe"):
        list(inside_mpi.build(Report(read_runs([tmp_path]), tmp_path)))


def test_of_several_runs_of_a_program_the_newest_is_drawn(tmp_path: Path) -> None:
    text = page(observed_runs(tmp_path / "app", a_job(2, 1, 0).profiles(), a_job(2, 1, 1).profiles()))
    assert text.count("Heading(text='app, 2 ranks on 2 nodes')") == 1
    assert "rank 1 (n1) computes 2 s" in text


def test_hostile_names_of_hosts_and_counters_stay_text() -> None:
    evil = "<img src=x onerror=alert(1)>"
    profiles = [replace(each, host=evil + each.host) for each in a_job(4, 2).profiles()]
    profile = told(profiles)
    grid = calls_grid(profile, rows_of(profile), "c1", evil)
    assert "<img" not in str(draw_grid(grid))


def test_the_algorithms_of_collectives_stand_with_their_sizes(tmp_path: Path) -> None:
    job = Job(2)
    for _ in range(3):
        job.collective("MPI_Allreduce", bytes=8)
    folder = observed_runs(tmp_path / "app", job.profiles())
    ranks = folder / "raw/0000.ranks"
    for rank in (0, 1):
        line = f"I\t{rank}\t{1 - rank}\t24 bytes\t3 msgs sent\n"
        (ranks / f"mpi.{rank}.prof").write_text(line)
    text = to_text(read_observation(ranks, ["app"], observers=[MadeProfiles(job.profiles())]))
    (folder / "raw/0000.observed.json").write_text(text)
    shown = page(folder)
    for words in ("allreduce of 2 ranks", "8 B … 16 B", "recursive doubling"):
        assert words in shown
