"""Who waits for whom, of runs that were made so that it is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.observe.mpi.profile import Calls, Communicator, Message
from npc.observe.mpi.waits import Waits, waits_of
from tests.made.profiles import Job


def pairs_of(found: Waits) -> dict[tuple[int, int, str], float]:
    return {(pair.waiting, pair.awaited, pair.call): pair.seconds for pair in found.pairs}


def waited_in(pairs: Mapping[tuple[int, int, str], float]) -> dict[tuple[int, str], float]:
    """(rank, call) → how long it waited: for whom may be a matter of chance where two come together."""
    found: Counter[tuple[int, str]] = Counter()
    for (waiting, _, call), seconds in pairs.items():
        found[waiting, call] += seconds  # type: ignore[assignment]
    return {who: seconds for who, seconds in found.items() if seconds > 0.01}


def test_the_late_rank_of_a_collective_is_named_with_what_it_costs() -> None:
    """Rank 2 comes 0.3 s later than the others, 50 times, on clocks that are hours apart."""
    job = Job(4, per_node=2, ahead=7200.0, drift=1e-6, error=2e-6)
    for _ in range(50):
        job.compute(1.0, 1.0, 1.3, 1.0)
        job.collective("MPI_Allreduce", seconds=0.1)
    found = waits_of(job.profiles())
    (of_call,) = found.collectives
    assert (of_call.call, of_call.ranks, of_call.calls, of_call.kept) == ("MPI_Allreduce", 4, 50, 50)
    assert of_call.seconds == pytest.approx(50 * (3 * 0.4 + 0.1), rel=1e-5)
    assert of_call.waited == pytest.approx(50 * 3 * 0.3, rel=1e-3)
    assert 0 < of_call.error <= 2.1e-6
    (late,) = of_call.late
    assert (late.rank, late.times) == (2, 50)
    assert late.seconds == of_call.waited and late.alone == pytest.approx(50 * 0.3, rel=1e-3)
    assert pairs_of(found) == pytest.approx(job.waited, rel=1e-3)
    assert found.by_rank[2] == (0, pytest.approx(45, rel=1e-3))
    assert found.by_rank[0] == (pytest.approx(15, rel=1e-3), 0)


def test_waiting_shorter_than_the_clocks_error_is_none_and_on_one_node_every_microsecond_is() -> None:
    job = Job(4, per_node=2, ahead=1.0, error=1e-3)
    for _ in range(20):
        job.compute(1.0, 1.0 + 1e-5, 1.0 + 5e-4, 1.0 + 5e-4)
        job.collective("MPI_Barrier", seconds=1e-2)
    found = waits_of(job.profiles())
    assert {(pair.waiting, pair.awaited) for pair in found.pairs} <= {(2, 3), (3, 2), (0, 1)}
    (of_call,) = found.collectives
    assert 5e-4 < of_call.error <= 1.1e-3
    assert not any(late.times for late in of_call.late if late.rank in (0, 1))
    alone = Job(2)
    alone.compute(1.0, 1.0 + 1e-6)
    alone.collective("MPI_Barrier")
    assert pairs_of(waits_of(alone.profiles())) == {(0, 1, "MPI_Barrier"): pytest.approx(1e-6, abs=1e-9)}


def test_of_a_broadcast_the_root_is_awaited_and_of_a_reduction_the_root_waits() -> None:
    job = Job(3)
    job.compute(2.0, 1.0, 5.0)
    job.collective("MPI_Bcast", root=0)
    assert waits_of(job.profiles()).pairs[0][:2] == (1, 0)
    assert pairs_of(waits_of(job.profiles())) == pytest.approx({(1, 0, "MPI_Bcast"): 1.0}, rel=1e-4)
    job.compute(1.0)
    job.collective("MPI_Reduce", root=1)
    assert pairs_of(waits_of(job.profiles())) == pytest.approx(job.waited, rel=1e-4)
    job.collective("MPI_Gather")
    unknown = next(each for each in waits_of(job.profiles()).collectives if each.call == "MPI_Gather")
    assert unknown.waited is None and unknown.reason == "its root is not known"


def test_whom_a_rank_awaits_in_a_prefix_sum_is_not_guessed() -> None:
    job = Job(3)
    job.compute(1.0, 2.0, 3.0)
    job.collective("MPI_Scan")
    (found,) = waits_of(job.profiles()).collectives
    assert found.waited is None and "do not show" in found.reason and found.late == ()


@pytest.mark.parametrize("keep", [1, 4])
def test_late_senders_and_late_receivers_are_told_apart(keep: int) -> None:
    job = Job(4, per_node=2, ahead=-50.0, error=1e-6)
    for _ in range(40):
        job.compute(1.5, 1.0, 1.0, 1.0)
        job.message(0, 1)
        job.message(0, 3, tag=7)
        job.compute(0.0, 0.0, 1.0, 0.25)
        job.message(3, 2, tag=1, synchronous=True)
        job.collective("MPI_Barrier")
    found = waits_of(job.profiles(keep))
    assert {(each.kind, each.call): (each.messages, each.kept) for each in found.messages} == {
        ("late sender", "MPI_Recv"): (120, 120 // keep),
        ("late receiver", "MPI_Send"): (80, 80 // keep),
        ("late receiver", "MPI_Ssend"): (40, 40 // keep),
    }
    assert waited_in(pairs_of(found)) == pytest.approx(waited_in(job.waited), rel=0.01)
    kinds = {(pair.waiting, pair.awaited): pair.kind for pair in found.pairs if pair.call != "MPI_Barrier"}
    assert kinds[1, 0] == kinds[3, 0] == "late sender" and kinds[3, 2] == "late receiver"


def test_a_call_that_waits_for_several_messages_waits_once_for_the_last_sender() -> None:
    """MPI_Waitall for messages of ranks 1 and 2, which begin after 1 and 3 s of the wait."""
    job = Job(3)
    job.compute(0.0, 1.0, 3.0)
    ranks = job.profiles()
    received = [Message("world", 0, peer, 0, "MPI_Waitall", 1000.0, 1003.1, 8, 999.0) for peer in (1, 2)]
    sent = [Message("world", 0, 0, 0, "MPI_Isend", 1000.0 + at, 1000.0 + at, 8) for at in (1, 3)]
    calls = job.profiles()[0].calls
    made = [
        replace(
            ranks[0], received=received, calls=[*calls, Calls("", "MPI_Waitall", "world", 4, 1, 3.1, 16)]
        ),
        replace(ranks[1], sent=sent[:1]),
        replace(ranks[2], sent=sent[1:]),
    ]
    found = waits_of(made)
    assert pairs_of(found) == {(0, 2, "MPI_Waitall"): pytest.approx(3.0)}
    assert found.messages[0][:4] == ("late sender", "MPI_Waitall", 2, 2)


def test_a_communicator_whose_calls_were_not_kept_by_all_says_so() -> None:
    """Of two calls in turn, every second one kept: one call is known, of the other nothing is."""
    job = Job(2)
    for _ in range(10):
        job.compute(1.0, 2.0)
        job.collective("MPI_Allreduce")
        job.collective("MPI_Bcast", root=0)
    allreduce, bcast = waits_of(job.profiles(keep=2)).collectives
    assert (allreduce.call, allreduce.calls, allreduce.kept) == ("MPI_Allreduce", 10, 10)
    assert allreduce.waited == pytest.approx(10, rel=1e-3)
    assert (bcast.call, bcast.calls, bcast.kept, bcast.waited) == ("MPI_Bcast", 10, 0, None)
    assert "have all ranks kept" in bcast.reason


def test_clocks_between_which_nothing_went_both_ways_tell_nothing() -> None:
    job = Job(4, per_node=2, ahead=1.0)
    job.compute(1.0, 1.5, 1.0, 2.0)
    job.message(1, 0)
    job.message(3, 1)
    job.collective("MPI_Bcast", root=3)
    found = waits_of(job.profiles())
    assert found.collectives[0].waited is None and "nothing tells" in found.collectives[0].reason
    assert pairs_of(found) == {(0, 1, "MPI_Recv"): pytest.approx(0.5, rel=1e-3)}
    (note,) = found.notes
    assert note.startswith("n1: nothing tells how the clocks")


@pytest.mark.parametrize("answered", [False, True], ids=["one way of looking at it", "with answers"])
def test_a_node_that_is_always_late_is_told_from_one_with_another_clock_only_where_something_tells(
    answered: bool,
) -> None:
    """By 0.3 s in each call, on a clock that nobody keeps right. A message that waits for its answer shows
    what time it is there."""
    job = Job(2, per_node=1, ahead=7200.0)
    for _ in range(20):
        job.compute(1.0, 1.3)
        job.collective("MPI_Allreduce")
        if answered:
            job.message(0, 1)
            job.message(1, 0)
    found = waits_of(job.profiles())
    of_call = next(each for each in found.collectives if each.call == "MPI_Allreduce")
    if answered:
        assert of_call.waited == pytest.approx(20 * 0.3, rel=1e-3)
        assert [late.rank for late in of_call.late] == [1]
    else:
        assert of_call.waited is None and not of_call.late and not found.pairs
        assert of_call.reason == (
            "its calls take 150 ms, and the clocks of its nodes are known to 150 ms only"
        )


def test_of_messages_as_short_as_the_clocks_error_nobody_is_blamed() -> None:
    job = Job(2, per_node=1, ahead=-3.0)
    for _ in range(20):
        job.compute(1.0, 1.2)
        job.message(0, 1)
        job.compute(0.2, 0.0)
        job.message(1, 0)
    job.collective("MPI_Barrier")
    late = Job(2, per_node=1)
    for _ in range(20):
        late.compute(1.0, 1.5)
        late.message(1, 0)
        late.message(0, 1)
    for run, waiting in ((job, set()), (late, {0})):
        found = waits_of(run.profiles())
        assert {pair.waiting for pair in found.pairs if pair.seconds > 0.01} == waiting
        assert any("who waited in messages between n0 and n1" in note for note in found.notes) == (
            not waiting
        )


def test_messages_that_contradict_each_other_are_left_out() -> None:
    """A receive that is over before its message was sent is not that message's."""
    job = Job(2)
    job.compute(1.0, 0.5)
    job.message(0, 1)
    sender, receiver = job.profiles()
    early = receiver.received[0]._replace(entered=999.0, left=999.5)
    found = waits_of([sender, replace(receiver, received=[early])])
    assert found.messages == () and "1 messages came before" in found.notes[0]


def test_a_rank_that_is_gone_takes_only_its_own_calls_with_it() -> None:
    job = Job(3)
    for _ in range(5):
        job.compute(1.0, 1.0, 2.0)
        job.collective("MPI_Barrier")
    ranks = job.profiles()
    killed = replace(ranks[2], arrivals=ranks[2].arrivals[:3], finalized=False)
    (found,) = waits_of([*ranks[:2], killed]).collectives
    assert found.kept == 3
    assert waits_of([]).collectives == ()


def test_communicators_of_one_name_and_size_are_told_together() -> None:
    job = Job(4)
    for _ in range(3):
        job.compute(1.0, 2.0, 1.0, 3.0)
        job.collective("MPI_Allreduce", members=(0, 1))
        job.collective("MPI_Allreduce", members=(2, 3))
    rows = [
        replace(
            each, communicators=[Communicator(known.key, "row", known.size) for known in each.communicators]
        )
        for each in job.profiles()
    ]
    (found,) = waits_of(rows).collectives
    assert (found.communicator, found.ranks, found.calls, found.kept) == ("row", 2, 6, 6)
    assert {late.rank: late.times for late in found.late} == {1: 3, 3: 3}


PLANS = st.lists(
    st.tuples(
        st.lists(st.floats(0, 2).map(lambda value: round(value, 1)), min_size=4, max_size=4),
        st.sampled_from(["MPI_Allreduce", "MPI_Bcast", "MPI_Reduce", "message", "synchronous"]),
        st.permutations(range(4)),
    ),
    min_size=1, max_size=25,
)  # fmt: skip


@given(PLANS)
def test_whatever_ranks_do_waiting_is_found_as_it_was(plan: list[tuple[list[float], str, list[int]]]) -> None:
    """On nodes whose clocks are apart and drift, to within their error a call."""
    job = Job(4, per_node=2, ahead=12.0, drift=1e-5, error=1e-6)
    for computing, what, (first, second, *_) in plan:
        job.compute(*computing)
        if what in ("message", "synchronous"):
            job.message(first, second, synchronous=what == "synchronous")
        else:
            job.collective(what, root=None if what == "MPI_Allreduce" else first)
    found = pairs_of(waits_of(job.profiles()))
    eager = sum(seconds for (_, _, call), seconds in found.items() if call == "MPI_Send")
    assert eager < 1e-4 * len(plan), "an eager send waits for nobody"
    assert waited_in(found) == pytest.approx(waited_in(job.waited), rel=1e-3)
    for (waiting, awaited, call), seconds in job.waited.items():
        if call in ("MPI_Recv", "MPI_Ssend"):
            assert found.get((waiting, awaited, call), 0.0) == pytest.approx(seconds, rel=1e-3, abs=1e-4)
