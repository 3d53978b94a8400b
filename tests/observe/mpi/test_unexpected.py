"""Unexpected messages: what MPI counts, and the bound from when receives were posted."""

from __future__ import annotations

import json
from dataclasses import replace

from npc.observe.mpi.counters import counters
from npc.observe.mpi.digest import digest
from npc.observe.mpi.profile import RankProfile, Snapshot, Variable
from npc.observe.mpi.records import profile_of
from npc.observe.mpi.unexpected import unexpected_of
from tests.made.profiles import Job


def with_variables(profile: RankProfile, *values: dict[str, float]) -> RankProfile:
    variables = tuple(Variable(name=name, kind="counter", description="", unit="") for name in values[-1])
    snapshots = tuple(Snapshot(profile.began + at, each) for at, each in enumerate(values))
    return replace(profile, variables=variables, snapshots=snapshots)


def test_a_message_whose_receive_stands_is_expected() -> None:
    job = Job(2)
    job.compute(1.0, 0.0)
    for _ in range(5):
        job.message(0, 1)
    found = unexpected_of(job.profiles())
    # the first one is waited for; the others are sent and received in turn, the receive never later
    assert (found.counted, found.known, found.possible) == (None, 5, 4)
    assert "npc doctor" in found.reasons["counted"]


def test_a_message_to_a_rank_that_computes_may_be_unexpected() -> None:
    job = Job(2)
    job.compute(0.0, 1.0)
    job.message(0, 1)
    assert unexpected_of(job.profiles()).possible == 1


def test_clocks_that_are_not_known_well_leave_the_doubt() -> None:
    """The receive is posted 1 ms before the send begins, and moments are known to 10 ms."""
    job = Job(2, per_node=1, ahead=5.0, error=0.01)
    job.compute(0.001, 0.0)
    job.message(0, 1)
    assert unexpected_of(job.profiles()).possible == 1


def test_what_mpi_counts_is_told_by_rank() -> None:
    job = Job(3)
    job.compute(1.0)
    job.collective("MPI_Barrier")
    profiles = [
        with_variables(
            profile,
            {"runtime_spc_OMPI_SPC_MAX_UNEXPECTED_IN_QUEUE": 7.0 * profile.rank},
            {
                "runtime_spc_OMPI_SPC_UNEXPECTED": 10.0 * profile.rank,
                "runtime_spc_OMPI_SPC_OUT_OF_SEQUENCE": 1.0,
                "runtime_spc_OMPI_SPC_MAX_UNEXPECTED_IN_QUEUE": 0.0,
            },
        )
        for profile in job.profiles()
    ]
    found = unexpected_of(profiles)
    assert (found.source, found.counted) == ("runtime_spc_OMPI_SPC_UNEXPECTED", 30)
    assert found.by_rank == {1: 10, 2: 20}
    assert (found.out_of_sequence, found.longest_queue) == (3, 14)
    assert set(found.reasons) == {"possible"}
    assert found.possible is None


def test_without_anything_every_number_has_its_reason() -> None:
    job = Job(2)
    job.compute(1.0)
    found = unexpected_of(job.profiles())
    assert set(found.reasons) == {"counted", "possible", "out_of_sequence", "longest_queue"}


def test_the_bound_is_told_in_a_line() -> None:
    job = Job(2)
    job.compute(0.0, 1.0)
    job.message(0, 1)
    job.compute(2.0, 0.0)
    job.message(0, 1)
    profile = profile_of({"profile": json.loads(json.dumps(digest(job.profiles())))})
    assert profile is not None
    (line,) = counters(profile)
    assert line == (
        "unexpected messages: not more than 50% (1 of 2 were sent before their receive was posted)"
    )


def test_counters_are_told_with_whose_they_are() -> None:
    job = Job(2)
    job.compute(1.0)
    profiles = [
        with_variables(profile, {"npc::calls": 3.0, "queue_bytes": 2e6 * (1 + profile.rank), "never": 0.0})
        for profile in job.profiles()
    ]
    profile = profile_of({"profile": json.loads(json.dumps(digest(profiles)))})
    assert profile is not None
    assert counters(profile) == [
        "queue_bytes: 6000000, 2000000 to 4000000 (rank 1)",
        "counters that stayed 0: 1",
    ]


def test_a_queue_that_is_empty_at_the_end_is_told_by_its_longest() -> None:
    job = Job(2)
    job.compute(1.0)
    profiles = [
        with_variables(profile, {"queue_length": 7.0 * profile.rank}, {"queue_length": 0.0})
        for profile in job.profiles()
    ]
    profiles = [
        replace(profile, variables=[replace(each, kind="level") for each in profile.variables])
        for profile in profiles
    ]
    profile = profile_of({"profile": json.loads(json.dumps(digest(profiles)))})
    assert profile is not None
    assert counters(profile) == ["queue_length: 0 in each rank at the end, 7 at most before"]
