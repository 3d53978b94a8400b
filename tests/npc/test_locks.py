"""Locks: one at a time, who holds it, who died with it; and the same where the file system knows no locks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from npc.locks import LockHeld, holder, only_one
from tests.lab import no_flock
from tests.lab.cluster import until
from tests.lab.jube_job import NPC, finish, start
from tests.paths import ROOT

HOLDS = """
import sys
from pathlib import Path
from npc.locks import only_one
with only_one(Path(sys.argv[1]), 60):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def without_locks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return no_flock.environment(tmp_path_factory.mktemp("library"))


@pytest.fixture(params=["locks of the kernel", "no locks"])
def file_system(request: pytest.FixtureRequest) -> dict[str, str]:
    """What to set for a command that finds such a file system."""
    return request.getfixturevalue("without_locks") if request.param == "no locks" else {}


@contextlib.contextmanager
def other(path: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its stdin ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, path], cwd=ROOT, text=True, env={**os.environ, **environment},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def held_by(path: Path, environment: dict[str, str]) -> str:
    """Who holds the lock, as a third process hears; empty where that process gets it."""
    asked = subprocess.run(
        [sys.executable, "-c", HOLDS, path], cwd=ROOT, text=True, env={**os.environ, **environment},
        input="", capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert asked.returncode == 0 or "npc.locks.LockHeld" in asked.stderr, asked.stderr
    return asked.stderr.rpartition("npc.locks.LockHeld: ")[2]


def test_a_lock_is_held_by_one_and_says_by_whom(tmp_path: Path, file_system: dict[str, str]) -> None:
    path = tmp_path / "lock"
    with other(path, file_system) as process:
        assert f"process {process.pid} on {os.uname().nodename}, since " in held_by(path, file_system)
        process.communicate()
    assert not held_by(path, file_system)
    assert holder(path) is None, "it was given back in order"
    assert [each.name for each in tmp_path.iterdir()] == ["lock"]


def test_a_holder_that_was_killed_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with other(path, {}) as process:
        process.kill()
        process.wait()
        with only_one(path, 60) as lock:
            assert lock.died is not None and lock.died.pid == process.pid
    with only_one(path, 60) as lock:
        assert lock.died is None


def test_what_a_killed_holder_left_is_free(tmp_path: Path, file_system: dict[str, str]) -> None:
    with other(tmp_path / "lock", file_system) as process:
        process.kill()
        process.wait()
    assert not held_by(tmp_path / "lock", file_system)


def test_a_link_in_the_place_of_a_lock_is_not_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("thesis")
    for target in (precious, tmp_path / "new"):
        link = tmp_path / f"{target.name}.lock"
        link.symlink_to(target)
        with pytest.raises(OSError, match="symbolic links"), only_one(link):
            pass
    assert precious.read_text() == "thesis" and not (tmp_path / "new").exists()


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    with other(tmp_path / "lock", {}) as process, pytest.raises(LockHeld, match=f"process {process.pid} "):
        only_one(tmp_path / "lock", wait_s=0.2).__enter__()
    with only_one(tmp_path / "lock", wait_s=10):
        pass


@pytest.mark.parametrize(
    ("change", "free"),
    [
        ({}, False),  # alive, on a file system whose locks nobody sees
        ({"begun": 1}, True),  # another process has its pid by now
        ({"boot": "an earlier one"}, True),
        ({"host": "elsewhere"}, False),  # who knows, until its time is over
        ({"host": "elsewhere", "until": 0.0}, True),
    ],
)
def test_where_locks_do_not_reach_the_file_says_who_lives(
    tmp_path: Path, change: dict[str, object], free: bool
) -> None:
    path = tmp_path / "lock"
    with other(path, {}):
        told = json.loads(path.read_text())
        path.rename(tmp_path / "of the other")
        path.write_text(json.dumps({**told, **change}))
        with contextlib.ExitStack() as stack:
            if not free:
                stack.enter_context(pytest.raises(LockHeld))
            stack.enter_context(only_one(path, 60))


@pytest.mark.parametrize(("until_s", "free"), [(0.0, False), (1.0, True), (4e9, False)])
def test_without_locks_another_hosts_lock_is_free_when_its_time_is_over(
    tmp_path: Path, without_locks: dict[str, str], until_s: float, free: bool
) -> None:
    path = tmp_path / "lock"
    told = {"host": "elsewhere", "pid": 1, "begun": 1, "boot": "", "since": 0.0, "until": until_s}
    path.write_text(json.dumps(told))
    (tmp_path / "lock.held").write_text("1\nelsewhere\n")
    heard = held_by(path, without_locks)
    assert not heard if free else "process 1 on elsewhere" in heard and "remove" in heard


# -- whole commands where the file system knows no locks --------------------------------------------------

APPENDS = """
import sys
from pathlib import Path
from npc.records.history import History
from npc.records.record import Record
for number in range(20):
    record = Record(
        time=f"2026-11-22T00:00:{number:02d}Z", platform="p", benchmark="qperf", case="tcp_bw",
        metric="bandwidth", value=1.0, unit="B/s", hosts=("n1",), run=sys.argv[2],
    )
    History(Path(sys.argv[1])).append([record])
"""


def test_a_history_is_appended_to_by_two_at_once(tmp_path: Path, without_locks: dict[str, str]) -> None:
    command = [sys.executable, "-c", APPENDS, tmp_path]
    environment = {**os.environ, **without_locks}
    both = [subprocess.Popen([*command, run], cwd=ROOT, env=environment) for run in ("one", "two")]
    assert [process.wait(60) for process in both] == [0, 0]
    assert len((tmp_path / "2026-11.csv").read_text().splitlines()) == 41


@pytest.mark.slow
def test_a_characterisation_runs_and_refuses_a_second(tmp_path: Path, without_locks: dict[str, str]) -> None:
    words = [NPC, "characterise", "--output", tmp_path, "--benchmark", "qperf"]
    job = start(*words, **without_locks)
    try:
        until((tmp_path / "000000/.jube.lock").exists, "JUBE runs")
        second = finish(*words, **without_locks)
        ended = job.wait(100)
    finally:
        job.kill()
    assert second.returncode == 1 and "another characterisation is running" in second.stderr
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "000000/records.csv").exists()


#: Of a source that "installs" itself and counts how often; the option --prefix is its last.
CONFIGURE = r"""#!/bin/sh
for last; do :; done
sleep 0.3
printf 'all:\ninstall:\n\tmkdir -p %s\n\techo built >> LOG\n' "${last#--prefix=}" > Makefile
"""


@pytest.mark.slow
def test_two_jobs_build_osu_once(tmp_path: Path, file_system: dict[str, str]) -> None:
    source = tmp_path / "osu"
    source.mkdir()
    (source / "configure").write_text(CONFIGURE.replace("LOG", f"{tmp_path}/log"))
    (source / "configure").chmod(0o755)
    with tarfile.open(tmp_path / "osu.tar", "w") as archive:
        archive.add(source, "osu")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mpicc").symlink_to("/usr/bin/cc")
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    script = ROOT / "benchmarks/osu/build.sh"
    jobs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        jobs.append(
            subprocess.Popen(
                ["bash", script, tmp_path / "osu.tar", tmp_path / "cache", ""],
                cwd=tmp_path / name,
                env={**os.environ, **file_system, "PATH": path},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for job in jobs:
        _, told = job.communicate(timeout=60)
        assert job.returncode == 0, told
    assert (tmp_path / "log").read_text() == "built\n"
    assert not list((tmp_path / "cache").glob("*.held"))
