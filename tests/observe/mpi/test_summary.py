"""Ten lines for the terminal: where the time goes, who waits, what balance would bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npc.observe.mpi.digest import digest
from npc.observe.mpi.profile import RankProfile
from npc.observe.mpi.records import profile_of
from npc.observe.mpi.summary import summary
from tests.made.profiles import Job


def lines_of(ranks: Sequence[RankProfile]) -> list[str]:
    profile = profile_of({"profile": digest(ranks)})
    return summary(profile) if profile else []


def test_ten_lines_say_where_the_time_goes_and_who_waits() -> None:
    job = Job(4, per_node=2, ahead=1.0, error=2e-6)
    for _ in range(100):
        with job.region("solve"):
            job.compute(1.0, 1.0, 1.0, 1.5)
            job.collective("MPI_Allreduce", seconds=0.1)
        job.compute(0.2, 0.0, 0.0, 0.0)
        job.message(0, 1)
    lines = lines_of(job.profiles())
    assert len(lines) <= 10
    text = "\n".join(lines)
    assert lines[0] == (
        "inside MPI: 27% of the time of 4 ranks, 160 s each: MPI_Allreduce 23% (8 B to 16 B), "
        "MPI_Recv 3.1% (8 B to 16 B)"
    )
    assert "parallel efficiency 73% = load balance 78% × communication 94%" in text
    assert "load imbalance 28%: rank 3 (n1) computes 150 s where the mean is 118 s" in text
    assert "at most 32.5 s (20%) shorter" in text
    assert "waiting for the last rank of collectives 17%, late senders 3.1%; transfer and all else" in text
    assert "MPI_Allreduce of 4 ranks: 100 calls; 73% of its 150 s is waiting, moments are known to" in text
    assert "the last one is rank 3 (n1) in 100% of the calls; others wait 110 s for it" in text
    assert "late sender: rank 1 (n0) waits 20 s for rank 0 (n0) in MPI_Recv" in text
    assert lines[-1] == "regions: solve 160 s, efficiency 70%, imbalance 33%"


def test_a_balanced_run_has_no_one_to_blame() -> None:
    job = Job(4)
    for _ in range(10):
        job.compute(1.0)
        job.collective("MPI_Barrier", seconds=0.01)
    lines = lines_of(job.profiles())
    assert "no rank waits noticeably for another one; transfer and all else inside MPI 1.0%" in lines
    assert not any("the last one is" in line for line in lines)


def test_one_rank_and_no_rank_are_no_crash() -> None:
    job = Job(1)
    job.compute(1.0)
    assert lines_of(job.profiles())[0] == "inside MPI: 0% of the time of 1 rank, 1 s each"
    assert lines_of([]) == []


def test_ranks_that_had_no_cpu_are_told() -> None:
    job = Job(2)
    job.compute(1.0)
    shared = [replace(each, cpu_seconds=0.5) for each in job.profiles()]
    assert any("on a CPU for 50% of the time" in line for line in lines_of(shared))
    alone = [replace(each, cpu_seconds=0.99) for each in job.profiles()]
    assert not any("on a CPU" in line for line in lines_of(alone))


def test_late_ranks_of_one_node_point_to_the_node() -> None:
    job = Job(4, per_node=2, error=0.01)
    for number in range(10):
        late = 2 + number % 2
        job.compute(*(1.5 if rank == late else 1.0 for rank in range(4)))
        job.collective("MPI_Allreduce")
    text = "\n".join(lines_of(job.profiles()))
    assert "in 50% of the calls" in text and "all late ranks are on n1" in text
