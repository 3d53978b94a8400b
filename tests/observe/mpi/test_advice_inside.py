"""Advice from inside MPI: planted imbalances, slow nodes and late senders are found, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from npc.observe.mpi.profile import RankProfile, Snapshot, Variable
from npc.records.record import save_csv
from npc.report.advice import Advice, advise, gather
from npc.report.advice.rule import Hint
from tests.made.inside import observed_runs
from tests.made.measured import records
from tests.made.profiles import Job

RULES = {
    "load_imbalance", "slow_host", "late_senders", "unexpected_messages", "message_size", "unexplained_mpi",
}  # fmt: skip


def judged(*folders: Path) -> Advice:
    return advise(gather(folders))


def hints(*folders: Path) -> dict[str, Hint]:
    """The hints of these rules, one a rule."""
    found = [(rule.name, hint) for rule, hint in judged(*folders).hints if rule.name in RULES]
    assert len(dict(found)) == len(found)
    return dict(found)


def iterations(*loads: float, per_node: int = 2, number: int = 10) -> Job:
    """Ranks that compute for these times and meet, `number` times."""
    job = Job(len(loads), per_node=per_node, error=0.01)  # a time service keeps the nodes
    for _ in range(number):
        job.compute(*loads)
        job.collective("MPI_Allreduce")
    return job


def mpi_tests(folder: Path, latency: float = 2e-6, allreduce: float = 1e-5) -> Path:
    """Tests of MPI on two nodes."""
    folder.mkdir()
    found = []
    for size in (1, 1024, 1 << 20):
        ranks = {"ranks": "2"}
        found += records("osu", "osu_latency", latency, metric="latency", size=size, nodes=2, params=ranks)
        ranks = {"ranks": "4"}
        found += records(
            "osu", "osu_allreduce", allreduce, metric="latency", size=size, nodes=2, params=ranks
        )
    save_csv(found, folder / "records.csv")
    return folder


def test_without_profiles_every_rule_says_what_it_lacks(tmp_path: Path) -> None:
    lacking = judged(mpi_tests(tmp_path / "tests")).lacking
    assert lacking.keys() >= RULES


def test_nothing_is_said_of_a_program_that_is_well(tmp_path: Path) -> None:
    job = iterations(1.0, 1.0, 1.0, 1.0)
    job.compute(1e-3, 1e-3, 0.0, 0.0)
    job.message(0, 2, bytes=100_000)
    advice = judged(observed_runs(tmp_path / "app", job.profiles()), mpi_tests(tmp_path / "tests"))
    assert not [rule.name for rule, _ in advice.hints if rule.name in RULES]
    assert set(advice.silent) >= RULES


def test_a_rank_that_computes_longer_is_an_imbalance_with_what_balance_brings(tmp_path: Path) -> None:
    """10 times 1, 1, 1, 2 s: balanced it is 12.5 s instead of 20."""
    ((name, hint),) = hints(
        observed_runs(tmp_path / "app", iterations(1.0, 1.0, 1.0, 2.0).profiles())
    ).items()
    assert name == "load_imbalance"
    assert (
        "app, 4 ranks on 2 nodes: rank 3 on n1 computes for 20 s, the mean of the ranks is 12.5 s"
        in hint.seen
    )
    assert hint.gain == pytest.approx(20 / 12.5, rel=1e-3)
    assert hint.raw == ("raw/0000.observed.json",)


def test_an_imbalance_of_one_region_names_it(tmp_path: Path) -> None:
    job = iterations(1.0, 1.0, 1.0, 1.0)
    with job.region("halo"):
        job.compute(1.0, 1.0, 1.0, 6.0)
        job.collective("MPI_Allreduce")
    found = hints(observed_runs(tmp_path / "app", job.profiles()))
    assert "most of it in the region halo" in found["load_imbalance"].seen


def test_a_node_all_of_whose_ranks_are_slow_is_named(tmp_path: Path) -> None:
    found = hints(observed_runs(tmp_path / "app", iterations(1.0, 1.0, 1.0, 1.0, 1.5, 1.5).profiles()))
    hint = found["slow_host"]
    assert "the ranks on n2 (ranks 4, 5) compute 1.5 times as long" in hint.seen
    assert "n2" in hint.do
    assert hint.gain == pytest.approx(1.5, rel=1e-2)
    assert "every rank on n2 is slower than all others" in found["load_imbalance"].seen


def shifted(profiles: list[RankProfile]) -> list[RankProfile]:
    """The same nodes, each with the ranks of the node before it."""
    hosts = [each.host for each in profiles]
    return [replace(each, rank=(each.rank + 1) % len(profiles), host=hosts[each.rank]) for each in profiles]


def test_a_single_slow_rank_is_a_slow_node_only_where_the_rank_changes_and_the_host_stays(
    tmp_path: Path,
) -> None:
    """With a rank a node one run cannot tell more work from a slow node, two with other ranks can."""
    first = iterations(1.0, 1.0, 1.5, per_node=1).profiles()
    alike = observed_runs(tmp_path / "alike", first, first)
    assert "slow_host" not in hints(alike)
    other = observed_runs(tmp_path / "other", first, shifted(first))
    assert "in all 2 runs that it took part in" in hints(other)["slow_host"].seen


def test_a_node_that_was_slow_in_one_run_only_is_not_blamed(tmp_path: Path) -> None:
    slow, well = iterations(1.0, 1.0, 1.5, 1.5).profiles(), iterations(1.0, 1.0, 1.0, 1.0).profiles()
    assert "slow_host" not in hints(observed_runs(tmp_path / "app", slow, well))


def test_a_sender_that_waits_for_nobody_is_an_imbalance_and_not_late(tmp_path: Path) -> None:
    """Rank 0 sends 1 s late in each of 10 rounds of 2 s: sent earlier, the run would take as long."""
    job = Job(2, per_node=1)
    for _ in range(10):
        job.compute(2.0, 1.0)
        job.message(0, 1)
    assert set(hints(observed_runs(tmp_path / "app", job.profiles()))) == {"load_imbalance"}


def test_late_senders_are_named_with_what_their_punctuality_brings_at_most(tmp_path: Path) -> None:
    job = Job(2, per_node=1)
    for _ in range(10):
        job.compute(2.0, 1.0)
        job.message(0, 1)
        job.compute(1.0, 2.0)
        job.message(1, 0)
    hint = hints(observed_runs(tmp_path / "app", job.profiles()))["late_senders"]
    assert "ranks wait 25 % of their time, most in MPI_Recv" in hint.seen
    assert "for rank 0 10 s" in hint.seen or "for rank 1 10 s" in hint.seen
    assert hint.gain == pytest.approx(4 / 3, rel=0.05)


def counting(profiles: list[RankProfile], unexpected: float) -> Iterator[RankProfile]:
    """Each rank's library counted `unexpected` messages."""
    variable = Variable(name="OMPI_SPC_UNEXPECTED", kind="counter", description="", unit="")
    for each in profiles:
        taken = [Snapshot(each.ended, {variable.name: unexpected})]
        yield replace(each, variables=[variable], snapshots=taken)


@pytest.mark.parametrize(("number", "told"), [(45.0, True), (10.0, False)])
def test_messages_that_are_mostly_unexpected_are_told(tmp_path: Path, number: float, told: bool) -> None:
    job = iterations(1.0, 1.0)
    for _ in range(100):
        job.compute(0.001, 0.002)
        job.message(0, 1)
    folder = observed_runs(tmp_path / "app", list(counting(job.profiles(), number)))
    found = hints(folder)
    assert ("unexpected_messages" in found) is told
    if told:
        assert "90 messages came before they were asked for, beside 100" in found["unexpected_messages"].seen


def test_unexpected_messages_that_nobody_counted_are_no_evidence(tmp_path: Path) -> None:
    """Most may have been: they were sent before their receive was posted."""
    job = iterations(1.0, 1.0)
    for _ in range(10):
        job.compute(0.1, 0.2)
        job.message(0, 1)
    lacking = judged(observed_runs(tmp_path / "app", job.profiles())).lacking
    assert lacking["unexpected_messages"].startswith("no count of unexpected messages")


def test_small_messages_are_told_where_their_latency_alone_is_a_part_of_the_run(tmp_path: Path) -> None:
    """2 ranks send each other 1000 messages of 8 B; a test needs 50 µs for one: 50 ms a rank of 0.32 s."""
    job = Job(2, per_node=1)
    for _ in range(1000):
        job.compute(1e-4)
        job.message(0, 1, seconds=1e-4)
        job.message(1, 0, seconds=1e-4)
    folder = observed_runs(tmp_path / "app", job.profiles())
    assert "message_size" not in hints(folder, mpi_tests(tmp_path / "quick", latency=1e-6))
    hint = hints(folder, mpi_tests(tmp_path / "tests", latency=5e-5))["message_size"]
    assert "of 1000 messages a rank 1000 have less than 1 KiB" in hint.seen
    assert hint.gain is not None and hint.gain > 2  # two thirds of its time is in these calls


def test_time_inside_mpi_beyond_waiting_and_what_the_calls_need_is_told(tmp_path: Path) -> None:
    """10 all-reduces of 0.5 s, where a test needs 10 ms: 4.9 of 15 s are something else. Waiting is none."""
    job = Job(4, per_node=2)
    for _ in range(10):
        job.compute(1.0)
        job.collective("MPI_Allreduce", seconds=0.5)
    folder = observed_runs(tmp_path / "app", job.profiles())
    hint = hints(folder, mpi_tests(tmp_path / "tests", allreduce=0.01))["unexplained_mpi"]
    assert "of 5 s inside MPI a rank, 0 s are waiting" in hint.seen
    assert "4.9 s (33 % of the run) are something else" in hint.seen
    assert hint.gain == pytest.approx(15 / 10.1, rel=1e-3)
    assert not hints(folder, mpi_tests(tmp_path / "slow", allreduce=0.45))


def test_waiting_for_other_ranks_is_explained(tmp_path: Path) -> None:
    folder = observed_runs(tmp_path / "app", iterations(1.0, 1.0, 1.0, 3.0).profiles())
    assert "unexplained_mpi" not in hints(folder, mpi_tests(tmp_path / "tests"))
