"""mpirun is killed at any moment, or one of npb's processes is stopped: the job ends all the same.

A driver starts npb with a pause at one place, so that what happens within microseconds otherwise surely does.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.lab.npb_job import Job, ancestors_of, free_port, listening_server, mpirun

pytestmark = pytest.mark.slow

#: Arguments: a folder, what is executed before npb, npb's arguments.
DRIVER = """
import pathlib, sys, time
sys.path.insert(0, {root!r})
folder, prepare = pathlib.Path(sys.argv[1]), sys.argv[2]

def pause(place):
    (folder / place).touch()
    time.sleep(0.7)

def around(module, name, before=False, only=lambda *given: True):
    function = getattr(module, name)
    def paused(*given):
        if before and only(*given):
            pause(name)
        result = function(*given)
        if not before and only(*given):
            pause(name)
        return result
    setattr(module, name, paused)

exec(prepare)
sys.argv[1:3] = []
from npc.npb.cli import main
sys.exit(main())
"""

#: Where it is killed → what the driver executes.
PLACES = {
    "while Python starts": "pause('python')",
    "before the agent is forked": "from npc.npb import rank; around(rank, 'adopt_orphans', before=True)",
    "before MPI": "from npc.npb import rank; around(rank, '_start_mpi', before=True)",
    "within MPI": "from npc.npb import rank; "
    "around(rank, '_receive', only=lambda _: 'mpi4py.MPI' in sys.modules)",
    "after the coordinator was forked": "from npc.npb import rank; around(rank, '_start_coordinator')",
    "after MPI": "from npc.npb import rank; "
    "around(rank, '_send', before=True, only=lambda _, message: 'control' in message)",
    "before the agent serves": "from npc.npb import agent; around(agent.Agent, 'serve', before=True)",
}


def start(tmp_path: Path, prepare: str, *options: str, launcher: Sequence[str] = ()) -> Job:
    """A job whose ranks execute `prepare` first."""
    from tests.paths import ROOT

    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER.format(root=str(ROOT)))
    (tmp_path / "places").mkdir()
    server = listening_server(free_port())
    return Job(command=[
        mpirun(), "-np", "2", *launcher, sys.executable, str(driver), str(tmp_path / "places"), prepare,
        "--servercmd", server, "--clientcmd", "sleep 100", "--parser", "raw", "--killserver", *options,
    ])  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_nothing_outlives_a_launcher_that_was_killed_while_npb_starts(tmp_path: Path, place: str) -> None:
    job = start(tmp_path, PLACES[place])
    try:
        deadline = time.monotonic() + 20
        while not list((tmp_path / "places").iterdir()):
            assert time.monotonic() < deadline, job.processes()
            time.sleep(0.01)
        job.process.kill()
        assert not job.left_behind(10)
    finally:
        job.kill()


def test_nothing_outlives_a_launcher_that_was_killed_at_any_moment(tmp_path: Path) -> None:
    """No pause anywhere: from its start until a tool runs, in steps of some milliseconds."""
    for milliseconds in range(0, 600, 40):
        (tmp_path / str(milliseconds)).mkdir()
        job = start(tmp_path / str(milliseconds), "")
        try:
            time.sleep(milliseconds / 1000)
            job.process.kill()
            assert not job.left_behind(10), milliseconds
        finally:
            job.kill()


@pytest.mark.parametrize(
    ("victim", "silent"),
    [
        ("agent 0", "the agent of rank 0: lost "),
        ("agent 1", "the agent of rank 1: lost "),
        ("coordinator", "the coordinator on the first host did not answer"),
        ("rank 0", "the rank (process {pid}) did not answer"),
        ("rank 1", "the rank (process {pid}) did not answer"),
        ("agent 0 and coordinator", "the agent (process {pid}) did not answer"),
    ],
)
def test_the_limit_holds_although_a_process_of_npb_was_stopped(
    tmp_path: Path, victim: str, silent: str
) -> None:
    """Of the first agent and the coordinator only their rank is left to see it, where mpirun waits for it."""
    sooner = "import npc.npb.agent, npb.nodes, npb.rank; npb.nodes.ANSWER_S = npb.nodes.LEAVES_S = 4; "
    if "coordinator" in victim:
        sooner += "npc.npb.agent.LATE_S = npb.rank.AGENT_LATE_S = 1"
    patient = ("--mca", "orte_abort_on_non_zero_status", "0") if " and " in victim else ()
    job = start(tmp_path, sooner, "--total-timeout", "2", launcher=patient)
    try:
        client, server = job.await_process("sleep 100"), job.await_process("listening")
        (agent, rank, *_), (other_agent, other_rank, *_) = ancestors_of(server), ancestors_of(client)
        (coordinator,) = {pid for pid in job.processes() if next(ancestors_of(pid)) == agent} - {server}
        stopped = {
            "agent 0": (agent,),
            "agent 1": (other_agent,),
            "coordinator": (coordinator,),
            "rank 0": (rank,),
            "rank 1": (other_rank,),
            "agent 0 and coordinator": (agent, coordinator),
        }[victim]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        ended = job.wait(30)
        assert ended.returncode != 0 or patient, "mpirun's own then"
        assert silent.format(pid=stopped[0]) in ended.stderr
        assert "Traceback" not in ended.stderr
        assert not job.left_behind(10)
    finally:
        job.kill()
