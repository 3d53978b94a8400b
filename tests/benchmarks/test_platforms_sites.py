"""platforms/slurm on clusters that limit memory: what jobs of whole nodes ask for, and that they then run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from npc.records.record import read_csv
from tests.lab.cluster import Cluster
from tests.lab.jube_job import NPC, SMALL
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

#: A job gets 100 MB for each of a node's two CPUs unless it asks for more, and is killed if it takes more.
MEMORY = {
    "SelectTypeParameters": "CR_Core_Memory",
    "DefMemPerCPU": "100",
    "JobAcctGatherType": "jobacct_gather/linux",
    "JobAcctGatherFrequency": "task=1",
    "JobAcctGatherParams": "OverMemoryKill",
}
#: Nodes have 4000 MB and two CPUs.
PARTITIONS = {
    "all": "Nodes=ALL Default=YES",
    "of_node": "Nodes=ALL MaxMemPerNode=800",
    "of_cpu": "Nodes=ALL MaxMemPerCPU=300",
    "of_both": "Nodes=ALL MaxMemPerCPU=3000",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, partitions=PARTITIONS, extra_conf=MEMORY) as two:
        yield two


def submit(cluster: Cluster, benchmark: str, outpath: Path, **settings: str) -> None:
    jube = ["jube", "run", f"benchmarks/{benchmark}/benchmark.xml", "--hide-animation", "--outpath", outpath]
    jube += ["--include-path", "platforms/slurm"]
    cluster.run("head", jube, env={**SMALL, **settings}, cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("settings", "memory"),
    [
        ({"NPC_QUEUE": "all;;of_node;;of_cpu;;of_both"}, ["8000M", "1600M", "1200M", "8000M"]),
        (
            {
                "NPC_ADDITIONAL_JOB_CONFIG": "#SBATCH --hold --mem=500;;#SBATCH --hold --mem-per-cpu=150;;"
                '#SBATCH --hold --mem-bind=none --comment="one"'
            },
            ["1000M", "300M", "8000M"],
        ),
        ({"NPC_JOB_MEMORY": "700;;none"}, ["1400M", "200M"]),
        ({"NPC_EXCLUSIVE": "user;;no"}, ["200M", "200M"]),
    ],
    ids=["partitions", "own lines", "setting", "shared nodes"],
)
def test_a_job_of_whole_nodes_asks_for_the_memory_that_slurm_lets_it_have(
    cluster: Cluster, tmp_path: Path, settings: dict[str, str], memory: list[str]
) -> None:
    """On two nodes, in all; held, they have as many CPUs as they ask for. Slurm refuses more than
    MaxMemPerCPU, and lets more than MaxMemPerNode wait for ever."""
    submit(cluster, "iperf3", tmp_path, **{"NPC_ADDITIONAL_JOB_CONFIG": "#SBATCH --hold", **settings})
    show = ["squeue", "--noheader", "--sort=i", "--Format=tres-alloc:80"]
    rows = cluster.run("head", show, check=True).stdout
    cluster.run("head", ["scancel", "--user=root"], check=True)
    assert re.findall(r"mem=(\w+)", rows) == memory


@pytest.mark.parametrize(("benchmark", "settings"), [
    ("stream", {}), ("iperf3", {"NPC_MPI_STARTER": "srun --mpi=pmix;;mpirun"}),
])  # fmt: skip
def test_it_runs_where_a_job_that_takes_more_than_it_asked_for_is_killed(
    cluster: Cluster, tmp_path: Path, benchmark: str, settings: dict[str, str]
) -> None:
    """STREAM's arrays are four times the caches."""
    submit(cluster, benchmark, tmp_path, **settings)
    waited = cluster.run("head", [NPC, "records", "wait", tmp_path, "--least", "0.3s"], timeout=120)
    assert waited.returncode == 0, waited.stdout + waited.stderr
    cluster.run("head", [NPC, "records", "collect", tmp_path], check=True)
    assert {record.status for record in read_csv(tmp_path / "000000/records.csv")} == {"ok"}


@pytest.mark.parametrize(("starter", "words"), [
    ("srun", "srun does not start ranks with the PMI of this MPI: mpirun does, or srun with another --mpi"),
    ("srun --mpi=pmix_v9", "srun: error: Invalid MPI type 'pmix_v9', --mpi=list for acceptable types"),
])  # fmt: skip
def test_a_starter_without_the_pmi_of_the_mpi_is_the_reason(
    cluster: Cluster, tmp_path: Path, starter: str, words: str
) -> None:
    """srun and Open MPI print dozens of lines, and srun's last ones are exit codes of ranks."""
    submit(cluster, "iperf3", tmp_path, NPC_MPI_STARTER=starter)
    waited = cluster.run("head", [NPC, "records", "wait", tmp_path, "--least", "0.3s"], timeout=120)
    assert waited.returncode == 1
    cluster.run("head", [NPC, "records", "collect", tmp_path])
    (record,) = read_csv(tmp_path / "000000/records.csv")
    assert f"; last words: {words}" in record.status
