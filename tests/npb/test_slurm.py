"""npb under Slurm, on nodes of a real cluster: by srun and by mpirun, cancelled, and losing a node."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from npc.machine.load import WATCH
from npc.records.launch import read_launches
from npc.records.record import read_csv
from tests.lab.cluster import HEAD, Cluster, until
from tests.lab.jube_job import NPC
from tests.lab.npb_job import MPI_ENVIRONMENT, NPB, mpirun

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

#: Slurm 22.05's fence over a tree, its default, lets a rank send to one that is still in MPI_Init: now and
#: then Open MPI 4.1 dies of that where processes start slowly.
ENVIRONMENT = {**MPI_ENVIRONMENT, "SLURM_PMIX_FENCE": "ring"}
SRUN = ("srun", "--mpi=pmix", "--ntasks-per-node=1")
#: Two leaf switches below one spine, in the form that slurm.conf(5)'s topology/tree reads.
TREE = "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\nSwitchName=spine Switches=leaf[1-2]\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        nodes=4, extra_conf={"TopologyPlugin": "topology/tree"}, files={"topology.conf": TREE}
    ) as four:
        for node in four.nodes:
            four.shape(node, 100)  # what two nodes send each other by memory takes both CPUs
        yield four


def npb(seconds: int, out: Path, *options: str) -> list[str]:
    client = f"qperf HOSTNAME -t {seconds} -uu tcp_bw"
    words = [str(NPB), "--servercmd", "qperf", "--clientcmd", client, "--killserver", "--output", str(out)]
    return [*words, *options]


def submit(cluster: Cluster, command: list[str], log: Path, *options: str) -> str:
    """A batch job on four nodes; its last line says how the command ended."""
    script = log.with_suffix(".sh")
    script.write_text(f'#!/bin/sh\n{shlex.join(command)}\necho "exit $?"\n')
    return cluster.run(
        HEAD,
        ["sbatch", "--parsable", "--nodes=4", "--ntasks-per-node=1", f"--output={log}", *options, script],
        check=True,
        env=ENVIRONMENT,
    ).stdout.strip()


def await_end(cluster: Cluster, job: str, limit_s: float) -> None:
    until(
        lambda: not cluster.run(HEAD, ["squeue", "--noheader", f"--jobs={job}"]).stdout, "job ended", limit_s
    )
    until(lambda: not left_behind(cluster), "no process is left", 5)


def left_behind(cluster: Cluster) -> list[str]:
    """Processes of npb and its tools on the nodes."""
    problems = []
    for host in cluster.nodes:
        listed = cluster.run(host, ["ps", "-A", "-o", "args="]).stdout.splitlines()
        problems += [f"{host}: {words}" for words in listed if "qperf" in words]
    return problems


def written(out: Path) -> int:
    """Launches that are on the disk."""
    return len(read_launches(out).launches) if (out / "launches.jsonl").exists() else 0


def test_one_pair_under_srun(cluster: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = cluster.run(HEAD, [*SRUN, "--nodes=2", *npb(1, out)], env=ENVIRONMENT)
    assert ended.returncode == 0, ended.stderr
    (record,) = read_csv(out / "records.csv")
    assert record.hosts == ("n1", "n2") and record.value and record.ok
    assert record.job.isdecimal(), "Slurm's number of the job"
    assert not left_behind(cluster)


#: Loses datagrams in a full buffer of its own, on the second node of a job alone.
LOSES = """
import os, socket
receiver, sender = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
receiver.bind(("127.0.0.1", 0))
for _ in range(500 if os.environ["SLURM_NODEID"] == "1" else 0):
    sender.sendto(bytes(1000), receiver.getsockname())
"""


def test_npc_sample_looks_on_every_node_of_its_job(cluster: Cluster, tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    words = [str(NPC), "records", "sample", "--tool", "raw", "--runs", "2", "--output", str(out), "--"]
    command = ["env", "-u", WATCH, *words, "srun", "--mpi=none", sys.executable, "-c", LOSES]
    await_end(cluster, submit(cluster, command, log, "--nodes=3"), 60)
    assert log.read_text().endswith("exit 0\n"), log.read_text()
    made = read_launches(out).launches
    assert len(made) == 2
    for launch in made:
        assert launch.moved and launch.hosts == tuple(launch.moved) == ("n1", "n2", "n3")
        assert launch.moved["n2"]["udp RcvbufErrors"] > 400
        assert all("udp RcvbufErrors" not in launch.moved[host] for host in ("n1", "n3"))
        assert launch.load is not None
    listed = [cluster.run(host, ["ps", "-A", "-o", "args="]).stdout for host in cluster.nodes]
    assert not any("npc.jobs.watchers" in words for words in listed)


def test_every_pair_under_srun_with_slurms_own_topology(cluster: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [*SRUN, "--nodes=4", *npb(1, out, "--pairs", "all", "--topology", "slurm")]
    ended = cluster.run(HEAD, command, env=ENVIRONMENT)
    assert ended.returncode == 0, ended.stderr
    first = [launch for launch in read_launches(out).launches if "attempt" not in launch.params]
    assert len({frozenset(launch.hosts) for launch in first}) == len(first) == 6
    (row,) = json.loads((out / "pairs.json").read_text())
    # two pairs below one leaf and four across: too few of either to know what is normal there
    assert any("over a distance that few pairs have" in words for words in row["verdict"]["undecided"])


def test_every_pair_under_mpirun_in_a_batch_job(cluster: Cluster, tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "job.log"
    job = submit(cluster, [mpirun(), *npb(1, out, "--pairs", "all")], log)
    await_end(cluster, job, 60)
    assert log.read_text().endswith("exit 0\n"), log.read_text()
    launches = read_launches(out)
    assert launches.job == job
    assert all(launch.status == "ok" for launch in launches.launches) and len(launches.launches) >= 6


@pytest.mark.parametrize("launcher", [SRUN, (mpirun(),)], ids=["srun", "mpirun"])
def test_a_cancelled_job_keeps_what_it_measured(
    cluster: Cluster, tmp_path: Path, launcher: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    job = submit(cluster, [*launcher, *npb(3, out, "--pairs", "all")], tmp_path / "job.log")
    until(lambda: written(out) >= 2, "the first round is over", 30)
    until(lambda: len([who for who in left_behind(cluster) if "qperf 10." in who and "-t 3" in who]) >= 2,
          "the second round has begun")  # fmt: skip
    cluster.run(HEAD, ["scancel", job], check=True)
    await_end(cluster, job, 15)
    statuses = [launch.status for launch in read_launches(out).launches]
    assert statuses[:2] == ["ok"] * 2 and len(statuses) == 4
    for status in statuses[2:]:  # Slurm sends it to every process: the end of a tool may be heard first
        assert re.fullmatch("failed: (interrupted by SIGTERM|.* was ended by signal 15)", status), statuses
    records = list(read_csv(out / "records.csv"))
    assert [record.status for record in records] == statuses
    assert {record.job for record in records} == {job}


def test_a_node_that_dies_in_a_round_costs_its_pairs_only(cluster: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = cluster.popen(
        HEAD,
        [*SRUN, "--nodes=4", "--no-kill", *npb(2, out, "--pairs", "all")],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until(lambda: written(out) >= 2, "the first round is over", 30)
    cluster.kill_node("n4")
    text = job.communicate(timeout=60)[0]
    try:
        assert job.returncode == 6, text
        for launch in read_launches(out).launches[2:]:
            assert ("n4" in launch.hosts) == (launch.status != "ok"), launch
        (row,) = json.loads((out / "pairs.json").read_text())
        # a busy machine may make one of the others' links slow as well
        first = row["verdict"]["suspects"][0]
        assert (first["kind"], first["name"]) == ("node", "n4"), text
        assert all(who["kind"] == "link" for who in row["verdict"]["suspects"][1:]), text
        cluster.nodes.remove("n4")
        until(lambda: not left_behind(cluster), "no process is left", 5)
    finally:
        cluster.nodes = ["n1", "n2", "n3", "n4"]
        cluster.start_slurmd("n4")
