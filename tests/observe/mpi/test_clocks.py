"""How the clocks of nodes differ, of runs that were made so that it is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.observe.mpi.clocks import Clocks
from npc.observe.mpi.profile import Message, RankProfile
from tests.made.profiles import Job

CALLS = st.sampled_from([
    "MPI_Allreduce", "MPI_Barrier", "MPI_Alltoall", "MPI_Bcast", "MPI_Reduce", "message", "synchronous",
])  # fmt: skip
PLANS = st.lists(
    st.tuples(
        st.lists(st.floats(0, 2).map(lambda value: round(value, 1)), min_size=6, max_size=6),
        CALLS,
        st.permutations(range(6)),
    ),
    min_size=1, max_size=25,
)  # fmt: skip


@given(PLANS, st.floats(-1e5, 1e5), st.floats(-9e-5, 9e-5), st.sampled_from([None, 1e-6, 1e-2]))
def test_the_true_difference_is_always_within_the_error(
    plan: list[tuple[list[float], str, list[int]]], ahead: float, drift: float, error: float | None
) -> None:
    """Of three nodes, whatever their ranks do."""
    job = Job(6, per_node=2, ahead=ahead, drift=drift, error=error)
    for computing, what, (first, second, *_) in plan:
        job.compute(*computing)
        if what in ("message", "synchronous"):
            job.message(first, second, synchronous=what == "synchronous")
        else:
            job.collective(what, root=first if what in ("MPI_Bcast", "MPI_Reduce") else None)
    clocks = Clocks(job.profiles())
    for rank in (2, 4):
        for share in (0.0, 0.3, 1.0):
            at = share * job.now[rank]
            apart = clocks.moment(rank, job.clock(rank, at)) - job.clock(0, at)
            assert abs(apart) <= clocks.error(0, rank) + 1e-9


def ping_pongs(shown: Callable[[float], float], seconds: int, way_s: float = 5e-6) -> list[RankProfile]:
    """Two ranks on two nodes that send each other a message every second; `shown`: by the second's clock."""
    first, last = Job(2, per_node=1).profiles()
    draw = random.Random(1)
    kept: dict[str, list[Message]] = {name: [] for name in ("sent", "received", "sent back", "received back")}
    for number in range(seconds):
        there = number + way_s * draw.uniform(1, 3)
        back = there + way_s * draw.uniform(1, 3)
        kept["sent"].append(Message("world", 0, 1, number, "MPI_Send", number, number, 8))
        kept["received"].append(
            Message("world", 0, 0, number, "MPI_Recv", shown(number), shown(there), 8, shown(number))
        )
        kept["sent back"].append(Message("world", 1, 0, number, "MPI_Send", shown(there), shown(there), 8))
        kept["received back"].append(Message("world", 1, 1, number, "MPI_Recv", number, back, 8, number))
    return [
        replace(first, began=0.0, ended=float(seconds), sent=kept["sent"], received=kept["received back"]),
        replace(
            last, began=shown(0), ended=shown(seconds), sent=kept["sent back"], received=kept["received"]
        ),
    ]


@pytest.mark.parametrize("bend", [0.0, 2e-5])
def test_short_messages_tell_it_to_microseconds_also_of_a_clock_that_changes_its_rate(bend: float) -> None:
    """A time service slows it half way: no straight line is within what the messages allow."""

    def shown(at: float) -> float:
        return 500.0 + at * (1 + 5e-5) - bend * max(0.0, at - 133.0)

    clocks = Clocks(ping_pongs(shown, 300))
    assert clocks.error(0, 1) < 2e-5
    # at the bend itself, as much as the messages leave open: a way there and back
    most = clocks.error(0, 1) + 1e-9 if bend == 0 else 3e-5
    assert max(abs(clocks.moment(1, shown(at)) - at) for at in range(300)) <= most


def test_a_time_service_that_contradicts_the_messages_is_not_believed() -> None:
    job = Job(2, per_node=1, ahead=10.0, error=1e-3)
    for _ in range(10):
        job.compute(1.0)
        job.message(0, 1)
        job.message(1, 0)
    home, node = job.profiles()
    wrong = replace(node, clock=[reading._replace(unix=reading.unix + 0.5) for reading in node.clock])
    clocks = Clocks([home, wrong])
    assert clocks.error(0, 1) < 1e-4
    assert clocks.moment(1, node.ended) == pytest.approx(job.clock(0, job.now[1]), abs=1e-4)


def test_a_call_that_hands_over_nothing_bounds_nothing() -> None:
    """Of an MPI_Allreduce of no elements a rank may be gone before the others come."""
    job = Job(2, per_node=1, ahead=10.0)
    job.compute(1.0, 3.0)
    job.collective("MPI_Allreduce", bytes=0)
    home, node = job.profiles()
    early = replace(home, arrivals=[home.arrivals[0]._replace(left=home.arrivals[0].entered)])
    assert Clocks([early, node]).unknown() == ["n1"]


def test_nodes_that_talk_to_their_neighbours_only_are_compared_from_one_to_the_next() -> None:
    job = Job(4, per_node=1, ahead=100.0)
    for _ in range(5):
        job.compute(1.0)
        for rank in range(3):
            job.message(rank, rank + 1)
            job.message(rank + 1, rank)
    clocks = Clocks(job.profiles())
    assert clocks.unknown() == []
    for rank in range(4):
        assert clocks.moment(rank, job.clock(rank, 4.0)) == pytest.approx(job.clock(0, 4.0), abs=1e-4)


def test_messages_that_no_clock_can_explain_make_it_unknown() -> None:
    profiles = ping_pongs(lambda at: at, 8)
    wrong = [
        send._replace(entered=send.entered + 5) if send.sequence == 3 else send for send in profiles[0].sent
    ]
    assert Clocks([replace(profiles[0], sent=wrong), profiles[1]]).unknown() == ["n1"]
