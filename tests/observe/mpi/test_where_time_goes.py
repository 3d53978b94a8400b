"""Where the time of real programs goes inside MPI, against what they write down of themselves.

Alone: a rank that loses its CPU between what it notes and the call that it notes is another truth.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from npc.observe.mpi.records import Profile, read_profile
from tests.lab.in_process import npc
from tests.lab.mpis import MPIS
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.measures]

RANKS = 3
#: Of the second node's clock.
AHEAD_S = 5000


class Line(NamedTuple):
    """A call as the program saw it."""

    region: str
    call: str
    peer: int
    entered: float
    left: float


class Run(NamedTuple):
    """What was observed, what was printed, and what the ranks wrote."""

    profile: Profile
    printed: str
    truth: Mapping[int, list[Line]]


def build(source: Path | str, target: Path, compiler: str = "mpicc.openmpi") -> Path:
    """`target`, compiled from a file or a text."""
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    words = [compiler, "-O1", "-w", "-fopenmp", "-x", "c", "-", "-o", str(target), "-lm"]
    subprocess.run(words, input=text, text=True, check=True)
    return target


#: Starts Open MPI's daemon of a host here, with that host's name and a clock that is ahead of the machine's.
AGENT = f"""#!/bin/sh
host=$1; shift
[ $host = n1 ] && ahead={AHEAD_S} || ahead=0
exec unshare --uts --time --monotonic $ahead --fork sh -c "hostname $host; $*"
"""


@pytest.fixture(
    scope="module", params=[*MPIS, pytest.param("two clocks", marks=pytest.mark.netns)], name="run"
)
def observed_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """On one node under every MPI; or rank 0 on n0 and the others on n1, whose clock is far ahead."""
    folder = tmp_path_factory.mktemp("late")
    mpi, options, ahead = MPIS.get(request.param, MPIS["openmpi"]), ["-n", str(RANKS)], [0] * RANKS
    program = build(ROOT / "tests/observe/programs/late_ranks.c", folder / "late_ranks", mpi.compiler)
    if request.param == "two clocks":
        agent = folder / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        options += ["--host", "n0:1,n1:2", "--mca", "plm_rsh_agent", str(agent)]
        options += ["--mca", "plm_rsh_no_tree_spawn", "1"]
        ahead = [0, AHEAD_S, AHEAD_S]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in mpi.environment.items():
            patch.setenv(name, value)
        ended = npc("observe", "--", mpi.launcher, *options, program, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    profile = read_profile(folder / "observed" / "raw" / "0000.observed.json")
    assert profile is not None, ended.stderr
    truth = {rank: list(lines_of(folder / f"truth.{rank}", ahead[rank])) for rank in range(RANKS)}
    return Run(profile, ended.stderr, truth)


def lines_of(path: Path, ahead: float) -> Iterator[Line]:
    """What a rank wrote, on the machine's clock."""
    for line in path.read_text().splitlines():
        region, call, peer, entered, left = line.split()
        yield Line(region, call, int(peer), float(entered) - ahead, float(left) - ahead)


def computed(lines: list[Line], region: str) -> float:
    """Seconds of a region outside MPI."""
    places = [place for place, line in enumerate(lines) if line.region == region]
    within = lines[places[0] : places[-1] + 1]
    (begin,), (end,) = ([line for line in within if line.call == call] for call in ("begin", "end"))
    inside = [line for line in within if line.entered >= begin.left and line.left <= end.entered]
    return (
        end.entered - begin.left - sum(line.left - line.entered for line in inside if line.call[:3] == "MPI")
    )


def calls(run: Run, rank: int, call: str, peer: int = -1) -> list[Line]:
    return [line for line in run.truth[rank] if line.call == call and line.peer == peer]


def waits_of(run: Run, call: str) -> dict[int, float]:
    """rank → how long it waited for the last one in a collective."""
    found: defaultdict[int, float] = defaultdict(float)
    for together in zip(*(calls(run, rank, call) for rank in range(RANKS)), strict=True):
        last = max(line.entered for line in together)
        for rank, line in enumerate(together):
            found[rank] += last - line.entered
    return found


def waited(run: Run, waiting: int, awaited: int, call: str) -> float:
    """What was found of it."""
    assert run.profile.waits is not None
    return sum(
        pair.seconds
        for pair in run.profile.waits.pairs
        if (pair.waiting, pair.awaited, pair.call) == (waiting, awaited, call)
    )


@pytest.mark.parametrize(("region", "planted"), [("twenty", 0.2), ("fifty", 0.5)])
def test_a_planted_imbalance_is_found_within_two_percent(run: Run, region: str, planted: float) -> None:
    loads = [computed(run.truth[rank], region) for rank in range(RANKS)]
    truth = max(loads) / (sum(loads) / RANKS)
    found = run.profile.regions[region]
    assert found.imbalance is not None and found.imbalance + 1 == pytest.approx(truth, rel=0.02)
    assert found.slowest == loads.index(max(loads))
    assert found.computing == pytest.approx(sum(loads) / RANKS, rel=0.02)
    assert planted / 2 < truth - 1 < 2 * planted


def within(run: Run, call: str, seconds: float, number: int) -> float:
    """2 %, and the clocks' error for each of `number` waits in that call."""
    assert run.profile.waits is not None
    found = (*run.profile.waits.collectives, *run.profile.waits.messages)
    return 1e-4 + 0.02 * seconds + number * max(each.error for each in found if each.call == call)


def test_what_a_collective_waits_for_is_found_within_two_percent(run: Run) -> None:
    assert run.profile.waits is not None
    for call in ("MPI_Allreduce", "MPI_Barrier"):
        (of_call,) = [each for each in run.profile.waits.collectives if each.call == call]
        truth, number = waits_of(run, call), len(calls(run, 0, call))
        assert of_call.calls == of_call.kept == number
        assert (of_call.error == 0) == (len(set(run.profile.hosts.values())) == 1)
        for rank, seconds in truth.items():
            found = sum(waited(run, rank, other, call) for other in range(RANKS))
            assert found == pytest.approx(seconds, abs=within(run, call, seconds, number))


def test_the_rank_that_is_late_on_purpose_is_named(run: Run) -> None:
    """Rank 2 has most to do before every MPI_Allreduce."""
    assert run.profile.waits is not None
    (allreduce,) = [each for each in run.profile.waits.collectives if each.call == "MPI_Allreduce"]
    assert allreduce.late[0].rank == 2
    assert allreduce.error or allreduce.late[0].times > allreduce.calls / 2
    assert re.search(r"the last one is rank \d \(\S+\) in [\d.]+% of the calls", run.printed)


def late(waiting: list[Line], awaited: list[Line]) -> float:
    """How long calls waited for others to begin."""
    return sum(max(0.0, b.entered - a.entered) for a, b in zip(waiting, awaited, strict=True))


def test_late_senders_and_late_receivers_are_found_within_two_percent(run: Run) -> None:
    received = calls(run, 0, "MPI_Recv", 2)
    sent = calls(run, 2, "MPI_Send", 0)[: len(received)]
    truth = late(received, sent)
    assert waited(run, 0, 2, "MPI_Recv") == pytest.approx(
        truth, abs=within(run, "MPI_Recv", truth, len(sent))
    )
    stood, received = calls(run, 2, "MPI_Ssend", 1), calls(run, 1, "MPI_Recv", 2)
    assert waited(run, 2, 1, "MPI_Ssend") == pytest.approx(late(stood, received), rel=0.02)
    assert waited(run, 1, 2, "MPI_Recv") == pytest.approx(late(received, stood), rel=0.02, abs=1e-4)


def test_of_several_messages_the_last_sender_is_awaited(run: Run) -> None:
    times = len(calls(run, 0, "MPI_Waitall"))
    senders = [calls(run, rank, "MPI_Send", 0)[-times:] for rank in (1, 2)]
    truth = {1: 0.0, 2: 0.0}
    for wait, *sends in zip(calls(run, 0, "MPI_Waitall"), *senders, strict=True):
        last = max((1, 2), key=lambda rank: sends[rank - 1].entered)
        truth[last] += max(0.0, sends[last - 1].entered - wait.entered)
    for sender, seconds in truth.items():
        most = within(run, "MPI_Waitall", seconds, times)
        assert waited(run, 0, sender, "MPI_Waitall") == pytest.approx(seconds, abs=most)
    assert sum(truth.values()) > 0.1


def test_the_messages_that_compare_clocks_are_not_the_program_s(run: Run) -> None:
    """Open MPI counts what the profiling library sends as well."""
    (counted,) = re.findall(r"MPI user: .* in (\d+) messages", run.printed)
    assert int(counted) == sum(pair.messages for pair in run.profile.peers.rows)


def test_the_ten_lines_say_it(run: Run) -> None:
    text = run.printed
    assert re.search(r"inside MPI: \d+% of the time of 3 ranks", text)
    assert re.search(r"parallel efficiency \d+% = load balance \d+% × communication \d+%", text)
    assert "waiting for the last rank of collectives" in text and "late sender" in text
    assert "regions: " in text


def test_a_thread_that_has_nothing_to_do_is_openmps_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(ROOT / "tests/observe/programs/idle_thread.c", tmp_path / "idle_thread")
    for name, value in {**MPI_ENVIRONMENT, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}.items():
        monkeypatch.setenv(name, value)
    ended = npc("observe", "--", "mpirun.openmpi", "-n", "1", "--bind-to", "none", program, cwd=tmp_path)
    raw = tmp_path / "observed" / "raw"
    cpu, seconds = map(float, (raw / "0000.out").read_text().split())
    profile = read_profile(raw / "0000.observed.json")
    assert profile is not None and profile.efficiency is not None
    assert profile.efficiency.threads == 2
    assert profile.efficiency.openmp == pytest.approx(cpu / (2 * seconds), rel=0.02)
    assert re.search(r"× OpenMP \d+% at most", ended.stderr)


# --- the tutorial ----------------------------------------------------------------------------------------


def test_the_tutorial_finds_its_planted_imbalance_and_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks, of which the second has three quarters of the work: 50 % more than the mean."""
    page = (ROOT / "docs" / "mpi.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"(?:^    (?:mpicc|npc) .*\n)+(?<=blocks cyclic\n)", page, re.MULTILINE)
    build(source, tmp_path / "triangle")
    for name, value in MPI_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    printed = []
    for line in shown.splitlines():
        words = line.replace("mpirun", "mpirun.openmpi").split()
        if words[0] == "npc":
            ended = npc(*words[1:], cwd=tmp_path)
            assert ended.returncode == 0, ended.stderr
            printed.append(ended)
    blocks, _, both = printed
    assert re.search(r"load imbalance \d+%: rank 1 ", blocks.stderr)
    assert re.search(r"the last one is rank 1 \(\S+\) in [\d.]+% of the calls", blocks.stderr)
    found = [read_profile(tmp_path / name / "raw/0000.observed.json") for name in ("blocks", "cyclic")]
    before, after = (each.efficiency.imbalance for each in found if each and each.efficiency)
    assert before is not None and after is not None
    assert 0.3 < before < 0.7 and after < before / 2
    assert both.stdout.split()[:2] == ["blocks", "cyclic"] and "load imbalance" in both.stdout
