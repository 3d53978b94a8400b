"""mpirun is killed at any moment of npb's start: nothing of npb or of MPI stays.

A driver starts npb with a pause at one place, so that what is a matter of microseconds otherwise happens surely.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.lab.npb_job import Job, free_port, listening_server, mpirun

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
from npb.cli import main
sys.exit(main())
"""

#: Where it is killed → what the driver executes.
PLACES = {
    "while Python starts": "pause('python')",
    "before the agent is forked": "import npb.rank; around(npb.rank, 'adopt_orphans', before=True)",
    "before MPI": "import npb.rank; around(npb.rank, '_start_mpi', before=True)",
    "within MPI": "import npb.rank; around(npb.rank, '_receive', only=lambda _: 'mpi4py.MPI' in sys.modules)",
    "after the coordinator was forked": "import npb.rank; around(npb.rank, '_start_coordinator')",
    "after MPI": "import npb.rank; "
    "around(npb.rank, '_send', before=True, only=lambda _, message: 'control' in message)",
    "before the agent serves": "import npb.agent; around(npb.agent.Agent, 'serve', before=True)",
}


def start(tmp_path: Path, prepare: str, client: str = "sleep 100") -> Job:
    """A job whose ranks execute `prepare` first."""
    from tests.paths import ROOT

    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER.format(root=str(ROOT)))
    (tmp_path / "places").mkdir()
    server = listening_server(free_port())
    return Job(command=[
        mpirun(), "-np", "2", sys.executable, str(driver), str(tmp_path / "places"), prepare,
        "--servercmd", server, "--clientcmd", client, "--parser", "raw", "--killserver",
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
