"""Which algorithm a collective ran by: found by its messages in real Open MPI, forced to each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc import parsers
from npc.observe.monitoring import RankFlow
from npc.observe.mpi.algorithms import algorithms_of
from npc.observe.mpi.patterns import Messages, patterns
from npc.observe.mpi.records import Algorithms, profile_of
from tests.lab.npb_job import MPI_ENVIRONMENT, mpirun
from tests.made.profiles import Job

#: 10 all-reduces, 7 broadcasts from rank 1 and 5 all-gathers, of 8000 B.
PROGRAM = """
import numpy
from mpi4py import MPI
world = MPI.COMM_WORLD
own, found = numpy.zeros(1000), numpy.zeros(1000 * world.size)
for _ in range(10):
    world.Allreduce(own, found[:1000])
for _ in range(7):
    world.Bcast(own, 1)
for _ in range(5):
    world.Allgather(own, found)
"""


def named(operation: str, ranks: int, name: str, root: int = 0) -> Messages:
    """The messages of the first variant of an algorithm."""
    return next(
        messages for names, messages in patterns(operation, ranks, root) if name in names.split(" or ")
    )


def sends(messages: Messages) -> Counter[int]:
    """How many ranks send how many messages."""
    by_rank: Counter[int] = Counter()
    for (source, _), number in messages.items():
        by_rank[source] += number
    return Counter(by_rank.values())


def test_recursive_doubling_of_40_ranks_sends_what_was_counted_in_lammps() -> None:
    """Eberius (2020), section 3.8, its formula for the remaining ranks corrected."""
    assert sends(named("allreduce", 40, "recursive doubling")) == {1: 8, 6: 8, 5: 24}


def test_ring_and_rabenseifner_send_as_many_messages_as_their_formulas() -> None:
    """2 (P − 1) messages of each rank; 2 lg P of each where P is a power of two."""
    assert sends(named("allreduce", 7, "ring")) == {12: 7}
    assert sends(named("allreduce", 8, "Rabenseifner")) == {6: 8}


@given(st.integers(2, 40), st.data())
def test_every_rank_but_the_root_gets_a_broadcast_once(ranks: int, data: st.DataObject) -> None:
    root = data.draw(st.integers(0, ranks - 1))
    trees = [
        each for each in patterns("bcast", ranks, root) if "Geijn" not in each[0] and "and" not in each[0]
    ]
    assert trees
    for name, messages in trees:
        got: Counter[int] = Counter()
        for (_, target), number in messages.items():
            got[target] += number
        assert got == dict.fromkeys(set(range(ranks)) - {root}, 1), name


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 13])
def test_an_all_reduce_brings_every_rank_the_value_of_every_other(ranks: int) -> None:
    """Whatever the order of the messages: from each rank a way leads to each other one."""
    for name, messages in patterns("allreduce", ranks):
        reached = {rank: {rank} for rank in range(ranks)}
        for _ in range(ranks):
            for source, target in messages:
                reached[target] |= reached[source]
        assert all(len(each) == ranks for each in reached.values()), name


def made(job: Job, messages: Mapping[tuple[int, int], int]) -> Algorithms:
    flows = [RankFlow("internal", *way, 8 * number, number) for way, number in messages.items()]
    found = algorithms_of(job.profiles(), flows)
    assert found is not None
    return found


def called(ranks: int, *calls: tuple[str, int, int]) -> Job:
    """Calls of a name and size, so often."""
    job = Job(ranks)
    for call, size, number in calls:
        for _ in range(number):
            job.collective(call, bytes=size, root=0 if call == "MPI_Bcast" else None)
    return job


def times(messages: Messages, number: int) -> Messages:
    return Counter({way: number * each for way, each in messages.items()})


def test_a_library_that_changes_its_algorithm_with_the_size_is_told_by_size() -> None:
    job = called(6, ("MPI_Allreduce", 8, 30), ("MPI_Allreduce", 1 << 20, 12))
    sent = times(named("allreduce", 6, "recursive doubling"), 30) + times(named("allreduce", 6, "ring"), 12)
    small, large = sorted(made(job, sent).ran, key=lambda each: each.first or 0)
    assert (small.algorithms, small.calls, small.first, small.last) == (("recursive doubling",), 30, 8, 15)
    assert (large.algorithms, large.calls, large.first) == (("ring",), 12, 1 << 20)


def test_a_captured_run_is_told_by_size_whatever_mpi_sends_for_a_new_communicator() -> None:
    """OSU's all-reduce on 4 ranks under Open MPI 4.1.4, as it was counted: 1200 calls of each size up to 8
    KiB, 110 of each above; 15 barriers; one MPI_Comm_dup, whose 18 messages are no collective's."""
    sizes = [("MPI_Allreduce", 1 << power, 1200 if power < 14 else 110) for power in range(2, 17)]
    job = called(4, *sizes, ("MPI_Barrier", 0, 15))
    sent = {
        (0, 1): 16278, (0, 2): 16278, (0, 3): 15, (1, 0): 16278, (1, 3): 16263, (2, 0): 16278,
        (2, 3): 16260, (3, 0): 15, (3, 1): 16260, (3, 2): 16263,
    }  # fmt: skip
    small, large, barrier = sorted(made(job, sent).ran, key=lambda each: (each.operation, each.first))
    assert (small.algorithms, small.calls, small.first, small.last) == (
        ("recursive doubling",),
        13200,
        4,
        8191,
    )
    assert (large.algorithms, large.calls, large.first) == (("Rabenseifner",), 1530, 8192)
    assert barrier.algorithms == ("linear",)


def test_a_large_broadcast_goes_in_pieces() -> None:
    found = made(called(5, ("MPI_Bcast", 1 << 20, 3)), times(named("bcast", 5, "pipeline"), 3 * 16))
    (ran,) = found.ran
    assert (ran.algorithms, ran.calls, ran.pieces) == (("pipeline",), 3, 16.0)


def test_algorithms_that_send_the_same_are_not_told_apart() -> None:
    (ran,) = made(called(4, ("MPI_Alltoall", 64, 2)), times(named("alltoall", 4, "linear"), 2)).ran
    assert ran.algorithms == ("pairwise or linear",)


def test_messages_of_no_known_algorithm_are_said_to_be_so() -> None:
    found = made(called(5, ("MPI_Allreduce", 8, 10)), {(0, 1): 7, (3, 2): 11})
    assert (found.ran, found.explained) == ((), None)
    assert found.reasons == {"allreduce": "the messages are those of no algorithms known here"}


def test_a_few_messages_of_mpi_s_own_do_not_hide_an_algorithm() -> None:
    sent = times(named("allreduce", 5, "ring"), 100) + Counter({(0, 4): 3, (4, 0): 3})
    found = made(called(5, ("MPI_Allreduce", 8, 100)), sent)
    assert [each.algorithms for each in found.ran] == [("ring",)]
    assert found.explained is not None and 0.99 < found.explained < 1


def test_without_a_count_of_messages_nothing_is_said() -> None:
    assert algorithms_of(called(4, ("MPI_Allreduce", 8, 10)).profiles(), []) is None


def forced(folder: Path, ranks: int, **algorithms: int) -> Algorithms:
    """What npc observe says of `PROGRAM` where Open MPI must take these of its algorithms (coll/tuned)."""
    (folder / "collectives.py").write_text(PROGRAM)
    settings = {f"OMPI_MCA_coll_tuned_{name}_algorithm": str(one) for name, one in algorithms.items()}
    environment = {
        **os.environ, **MPI_ENVIRONMENT, **settings, "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll": "^han,xhc,sm",
    }  # fmt: skip
    command = [mpirun(), "-n", str(ranks), sys.executable, str(folder / "collectives.py")]
    npc = Path(sys.executable).with_name("npc")
    words = [npc, "observe", "--output", folder / "observed", "--background", "0", "--", *command]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    text = (folder / "observed/raw/0000.observed.json").read_text()
    assert {each.status for each in parsers.parse("observed", text)} == {"ok"}
    profile = profile_of(json.loads(text))
    assert profile is not None and profile.algorithms is not None, ended.stderr
    return profile.algorithms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "algorithms", "ran"),
    [
        (5, {"allreduce": 3, "bcast": 6, "allgather": 2}, ["recursive doubling", "binomial", "Bruck"]),
        (6, {"allreduce": 6, "bcast": 3, "allgather": 5}, ["Rabenseifner", "pipeline", "neighbour exchange"]),
    ],
)
def test_open_mpi_runs_the_algorithm_that_it_was_told_to(
    tmp_path: Path, ranks: int, algorithms: dict[str, int], ran: Sequence[str]
) -> None:
    found = forced(tmp_path, ranks, **algorithms)
    assert found.explained == 1.0
    told = {each.operation: each for each in found.ran}
    assert list(told) == ["allreduce", "bcast", "allgather"]
    for each, name in zip(told.values(), ran, strict=True):
        assert len(each.algorithms) == 1 and name in each.algorithms[0].split(" or "), each
    assert [each.calls for each in told.values()] == [10, 7, 5]
    assert (told["bcast"].root, told["bcast"].pieces) == (1, 1.0)
