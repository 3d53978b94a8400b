"""What the profiles of all ranks tell together: exact sums, small for many ranks, read back as written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from npc import parsers
from npc.observe.mpi.digest import digest
from npc.observe.mpi.profile import Calls, Peer, RankProfile, Snapshot, Variable
from npc.observe.mpi.records import CallTotals, PairTraffic, operation, profile_of, read_profile
from npc.observe.observation import Observation, read_observation, to_document, to_text
from tests.made.profiles import Job, MadeProfiles


def observed(profiles: list[RankProfile], folder: Path) -> Observation:
    """An observation of the profiles' ranks alone."""
    reading = {"time": 0.0, "counters": {}}
    for each in profiles:
        seen = {"host": each.host, "rank": each.rank, "ranks": each.ranks, "idle": reading, "begin": reading}
        (folder / f"{each.host}.{each.rank}.json").write_text(json.dumps({**seen, "end": reading}))
    return read_observation(folder, ["./app"], observers=[MadeProfiles(profiles)])


def a_job() -> Job:
    """Two nodes of 2 ranks: 3 all-reduces of 8 B, a broadcast of 4 KiB by two ranks, 10 messages."""
    job = Job(4, per_node=2)
    for _ in range(3):
        job.compute(1.0, 1.0, 1.0, 2.0)
        job.collective("MPI_Allreduce", bytes=8)
    job.collective("MPI_Bcast", members=(0, 2), root=0, bytes=4096)
    for _ in range(5):
        job.message(0, 1, bytes=1000)
        job.message(0, 3, bytes=10)
    return job


def test_calls_are_added_up_over_the_ranks_by_name_communicator_and_size() -> None:
    found = profile_of({"profile": digest(a_job().profiles())})
    assert found is not None
    made = {
        (each.call, each.members): each for each in found.calls if each.size_class != 4 or each.bytes > 50
    }
    reduced = made["MPI_Allreduce", 4]
    assert reduced == CallTotals("", "MPI_Allreduce", 4, 4, 12, pytest.approx(9.0, rel=1e-4), 96)
    assert made["MPI_Bcast", 2][3:5] == (13, 2)
    assert made["MPI_Send", 4][3:] == (10, 5, pytest.approx(5e-5), 5000)
    assert found.peers.rows == (PairTraffic(0, 1, 5000, 5), PairTraffic(0, 3, 50, 5))


def test_messages_are_counted_under_every_mpi(tmp_path: Path) -> None:
    """Without Open MPI's monitoring what collectives sent is not known, so neither is what crossed nodes."""
    observation = observed(a_job().profiles(), tmp_path)
    messages = observation.messages
    assert messages is not None
    assert messages.kinds == {"user": (5050, 10)}
    assert (messages.by_size[10], messages.by_size[4], sum(messages.by_size)) == (5, 5, 10)
    assert (messages.sent, messages.received, messages.between_nodes) == ({"n0": 50}, {"n1": 50}, None)
    assert messages.collectives == {"allreduce": (96.0, 12), "bcast": (8192.0, 2)}


def test_what_goes_nowhere_is_no_message_and_both_ways_of_an_exchange_are_two(tmp_path: Path) -> None:
    """Each of two ranks exchanges 600 B with the other one 5 times, and sends to MPI_PROC_NULL 3 times."""
    calls = [
        Calls("", "MPI_Sendrecv", "world", 11, 5, 1.0, 5 * 1200),
        Calls("", "MPI_Send", "world", 0, 3, 0.0, 0),
    ]
    profiles = [
        replace(each, calls=calls, peers=[Peer(1 - each.rank, 5 * 600, 5)]) for each in Job(2).profiles()
    ]
    messages = observed(profiles, tmp_path).messages
    assert messages is not None
    assert messages.by_size == (*[0] * 10, 10)


def test_what_crossed_nodes_is_known_where_there_was_no_collective(tmp_path: Path) -> None:
    job = Job(2, per_node=1)
    job.message(0, 1, bytes=1000)
    messages = observed(job.profiles(), tmp_path).messages
    assert messages is not None
    assert messages.between_nodes == 1000


def test_open_mpi_s_exact_count_of_messages_stays_and_collectives_get_their_names(tmp_path: Path) -> None:
    (tmp_path / "mpi.0.prof").write_text("E\t0\t1\t5000 bytes\t5 msgs sent\nI\t0\t1\t32 bytes\t2 msgs sent\n")
    messages = observed(a_job().profiles(), tmp_path).messages
    assert messages is not None
    assert messages.kinds == {"user": (5000, 5), "internal": (32, 2)}
    assert set(messages.collectives) == {"allreduce", "bcast"}


def test_what_is_fetched_goes_to_whom_fetches_it(tmp_path: Path) -> None:
    first, second = Job(2, per_node=1).profiles()
    fetching = replace(first, peers=[Peer(1, 700, 7, "get"), Peer(1, 20, 1, "put"), Peer(1, 3, 1)])
    observation = observed([fetching, second], tmp_path)
    assert observation.messages is not None
    assert observation.messages.kinds == {"get": (700, 7), "put": (20, 1), "user": (3, 1)}
    assert (observation.messages.sent, observation.messages.received) == (
        {"n1": 700, "n0": 23}, {"n0": 700, "n1": 23},
    )  # fmt: skip
    assert observation.parts["profile"]["peers"]["rows"] == [[0, 1, 23, 2], [1, 0, 700, 7]]


def test_a_matrix_of_too_many_pairs_is_kept_by_host() -> None:
    ranks = 160
    profiles = [
        replace(each, peers=[Peer(other, 10, 1) for other in range(ranks) if other != each.rank])
        for each in Job(ranks, per_node=80).profiles()
    ]
    found = profile_of({"profile": digest(profiles)})
    assert found is not None
    assert (found.peers.of, found.peers.names) == ("hosts", ("n0", "n1"))
    within, between = 80 * 79, 80 * 80
    assert found.peers.rows == (
        PairTraffic(0, 0, 10 * within, within), PairTraffic(0, 1, 10 * between, between),
        PairTraffic(1, 0, 10 * between, between), PairTraffic(1, 1, 10 * within, within),
    )  # fmt: skip


def with_snapshots(profiles: list[RankProfile], number: int) -> Iterator[RankProfile]:
    """Every second `unexpected` grows by the rank's number; `threads` stays."""
    variables = [
        Variable(name=name, kind="counter", description="", unit="") for name in ("threads", "unexpected")
    ]
    for each in profiles:
        taken = [
            Snapshot(each.began + at, {"unexpected": float(each.rank * at), "threads": 1.0})
            for at in range(number)
        ]
        yield replace(each, snapshots=taken, variables=variables)


def test_snapshots_are_drawn_by_rank_and_moment_of_one_clock() -> None:
    """The second node's clock is 50 s ahead."""
    profiles = list(with_snapshots(Job(4, per_node=2, ahead=50.0).profiles(), 6))
    found = profile_of({"profile": digest(profiles)})
    assert found is not None and found.snapshots is not None
    assert found.snapshots.times == tuple(map(float, range(6)))
    assert (found.snapshots.of, found.snapshots.names) == ("ranks", ("0", "1", "2", "3"))
    assert found.snapshots.values == {
        "unexpected": tuple(tuple(float(rank * at) for at in range(6)) for rank in range(4))
    }
    unexpected = found.variables[1]
    assert (unexpected.total, unexpected.least, unexpected.most, unexpected.rank) == (30.0, 0.0, 15.0, 3)


@pytest.mark.slow
def test_a_thousand_ranks_make_a_document_of_less_than_a_megabyte(tmp_path: Path) -> None:
    job = Job(1000, per_node=5)
    job.collective("MPI_Allreduce")
    for rank in range(0, 1000, 4):
        job.message(rank, rank + 1)
    profiles = list(with_snapshots(job.profiles(), 130))
    text = to_text(read_observation(tmp_path, ["./app"], observers=[MadeProfiles(profiles)]))
    assert len(text) < 1e6
    (tmp_path / "0000.observed.json").write_text(text)
    found = read_profile(tmp_path / "0000.observed.json")
    assert found is not None and found.snapshots is not None
    assert (found.snapshots.of, len(found.snapshots.names)) == ("groups of hosts", 100)
    assert len(found.snapshots.times) <= 120
    assert found.snapshots.times[-1] == 129


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("MPI_Allreduce", "allreduce"), ("MPI_Ibarrier", "barrier"), ("MPI_Reduce_scatter", "reduce_scatter"),
        ("MPI_Neighbor_alltoallv_init", "neighbor_alltoallv"), ("MPI_Send", ""), ("MPI_Waitall", ""),
    ],
)  # fmt: skip
def test_a_collective_has_the_name_of_its_operation(call: str, named: str) -> None:
    assert operation(call) == named


def test_equal_notes_of_ranks_are_one() -> None:
    first, second, third = Job(3).profiles()
    profiles = [replace(first, notes=("full", "odd")), replace(second, notes=("full",)), third]
    found = digest(profiles)
    assert found is not None
    assert found["notes"] == ["2 ranks: full", "rank 0: odd"]


def test_an_observation_of_the_first_schema_still_gives_its_records(tmp_path: Path) -> None:
    document = {**to_document(observed(a_job().profiles(), tmp_path)), "schema": 1}
    del document["profile"]
    readings = parsers.parse("observed", json.dumps(document))
    assert {each.status for each in readings} == {"ok"}
    assert profile_of(document) is None


def test_the_records_tell_the_time_inside_mpi_the_efficiencies_and_calls_by_name(tmp_path: Path) -> None:
    """Three of four ranks wait 3 times 1 s for the last one, 2.25 s on average, and compute 3 s; it 6 s."""
    readings = parsers.parse("observed", to_text(observed(a_job().profiles(), tmp_path)))
    assert {each.status for each in readings} == {"ok"}
    told = {(each.metric, *sorted(each.params.items())): each.value for each in readings}
    ranks = ("ranks", "4")
    inside = told["time", ("layer", "mpi"), ("part", "inside MPI"), ranks]
    assert inside == pytest.approx(2.25, rel=1e-3)
    reducing = told["time", ("kind", "MPI_Allreduce"), ("layer", "mpi"), ("part", "in calls"), ranks]
    assert reducing == pytest.approx(2.25, rel=1e-3)
    assert told["efficiency", ("kind", "load balance"), ("layer", "mpi"), ranks] == pytest.approx(3.75 / 6)
    collective = ("layer", "mpi collectives")
    assert told["messages", ("communicator", "2"), ("kind", "bcast"), collective, ranks] == 2
    assert told["traffic", ("communicator", "4"), ("kind", "allreduce"), collective, ranks] == 96
    assert told["messages", ("kind", "user"), ("layer", "mpi"), ranks] == 10
