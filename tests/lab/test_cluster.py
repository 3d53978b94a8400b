"""The Slurm cluster that tests run on: it works like one, and leaves nothing behind however a test ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cluster import Cluster, until
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

TAKES_ALL = """
import socket
listener = socket.create_server(("", 5001))
print("listening", flush=True)
connection, _ = listener.accept()
while connection.recv(65536):
    pass
"""
SENDS = "import socket; socket.create_connection(('n1', 5001)).sendall(bytes(3_000_000))"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=4) as four:
        yield four


def processes_with(text: str) -> list[str]:
    """Command lines of living processes that contain a text, or that work below a folder of that name."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                mounts = (entry / "mountinfo").read_text()
            except OSError:
                continue
            if text in words or text in mounts:
                found.append(words)
    return found


def gone(folder: Path) -> bool:
    """No process knows the folder, no mount is below it, and it does not exist."""
    return not folder.exists() and not processes_with(folder.name)


def states(cluster: Cluster) -> dict[str, str]:
    listed = cluster.run("head", ["sinfo", "--noheader", "--Node", "--partition=all", "--format=%N %T"])
    return dict(line.split() for line in listed.stdout.splitlines())


def test_two_clusters_run_side_by_side_and_leave_nothing() -> None:
    with Cluster(nodes=2) as first, Cluster(nodes=1) as second:
        folders = [first.folder, second.folder]
        assert states(first) == {"n1": "idle", "n2": "idle"}
        assert states(second) == {"n1": "idle"}
        assert all(processes_with(folder.name) for folder in folders)
    for folder in folders:
        assert gone(folder), processes_with(folder.name)


def test_jobs_run_on_every_node_under_its_own_name(cluster: Cluster) -> None:
    told = cluster.run("head", ["srun", "--nodes=4", "--label", "hostname"], check=True).stdout
    assert sorted(told.split()) == ["0:", "1:", "2:", "3:", "n1", "n2", "n3", "n4"]
    for partition, nodes in (("cluster", "n[1-2]"), ("booster", "n[3-4]")):
        asked = ["scontrol", "show", "partition", partition]
        assert f" Nodes={nodes}\n" in cluster.run("head", asked, check=True).stdout


def test_what_crosses_a_link_is_counted_at_both_ends(cluster: Cluster) -> None:
    before = {host: cluster.bytes(host) for host in ("n1", "n2")}
    server = cluster.popen("n1", [sys.executable, "-c", TAKES_ALL], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "listening\n"
    cluster.run("n2", [sys.executable, "-c", SENDS], check=True)
    assert server.wait(10) == 0
    for host, direction in (("n1", 0), ("n2", 1)):
        moved = cluster.bytes(host)[direction] - before[host][direction]
        assert 3e6 < moved < 3.3e6, host


def test_processes_left_to_a_node_are_collected(cluster: Cluster) -> None:
    cluster.run("n1", ["sh", "-c", "(sleep 0.2 &)"], check=True)
    until(lambda: "sleep" not in cluster.run("n1", ["ps", "-A", "-o", "comm="]).stdout, "sleep is gone")
    assert "Z" not in cluster.run("n1", ["ps", "-A", "-o", "stat="]).stdout


def test_a_killed_node_is_lost_and_comes_back(tmp_path: Path) -> None:
    with Cluster(nodes=2, extra_conf={"SlurmdTimeout": "3", "MessageTimeout": "3"}) as two:
        two.kill_node("n2")
        until(lambda: states(two)["n2"] in ("down", "down*"), "n2 is down", limit_s=40)
        two.start_slurmd("n2")
        two.await_idle(["n2"])
        assert two.run("head", ["srun", "--nodelist=n2", "hostname"], check=True).stdout == "n2\n"


def test_the_controller_goes_and_comes_back_with_its_jobs(cluster: Cluster) -> None:
    job = cluster.run(
        "head", ["sbatch", "--parsable", "--output=/dev/null", "--wrap", "sleep 60"], check=True
    )
    cluster.stop_controller()
    assert cluster.run("head", ["timeout", "1", "squeue"]).returncode != 0
    cluster.start_controller()
    known = cluster.run("head", ["squeue", "--noheader", "--format=%i"], check=True).stdout
    assert job.stdout in known
    cluster.run("head", ["scancel", job.stdout.strip()], check=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_the_test_itself_is_killed(number: signal.Signals) -> None:
    code = (
        "from tests.lab.cluster import Cluster\n"
        "with Cluster(nodes=2) as cluster:\n"
        "    left = ['sh', '-c', 'setsid sleep 300 & exec sleep 300']\n"
        "    for host in ('head', 'n1'):\n"
        "        cluster.popen(host, left)\n"
        "    cluster.run('head', ['sbatch', '--output=/dev/null', '--wrap', 'sleep 300'])\n"
        "    print(cluster.folder, flush=True)\n"
        "    input()\n"
    )
    test = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert test.stdout is not None
    folder = Path(test.stdout.readline().strip())
    assert processes_with(folder.name)
    test.send_signal(number)
    test.communicate()
    until(lambda: gone(folder), "everything is gone")


def test_nothing_is_left_when_the_cluster_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as own:
        monkeypatch.setattr(tempfile, "tempdir", own)
        with (
            pytest.raises(RuntimeError, match="did not start"),
            Cluster(nodes=1, extra_conf={"SelectType": "select/of-no-kind"}),
        ):
            pass
        assert not list(Path(own).iterdir())
        until(lambda: not processes_with(own), "its processes have ended", 10)


def test_from_the_command_line_it_stays_until_it_is_told_to_go(tmp_path: Path) -> None:
    folder = tmp_path / f"cluster-of-{os.getpid()}"

    def cluster(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.lab.cluster", "--folder", str(folder), *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert "no cluster is up" in cluster("down").stdout
    assert "make cluster-up" in cluster("run", "head", "true").stderr
    try:
        started = cluster("up", "--nodes", "2")
        assert started.returncode == 0, started.stderr
        assert "is up already" in cluster("up").stderr
        assert cluster("run", "head", "srun", "-N", "2", "-l", "hostname").stdout.count("n") == 2
        assert cluster("run", "n2", "sh", "-c", "hostname; exit 3").returncode == 3
        assert "no host n3" in cluster("run", "n3", "hostname").stderr
        assert cluster("shape", "n1", "100").returncode == 0
        assert "rate 100Mbit" in cluster("run", "n1", "tc", "qdisc", "show", "dev", "eth0").stdout
    finally:
        ended = cluster("down")
    assert "the cluster is down" in ended.stdout
    until(lambda: gone(folder), "everything is gone")
