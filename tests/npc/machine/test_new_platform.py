"""npc platform new: a platform from what Slurm and a node say, whose files are right or say what to check."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from npc.machine.new_platform import NodeKind, parse_partitions, platform_toml, platform_xml
from npc.machine.platform import read_platform
from npc.records.record import read_csv
from npc.report.plan.command import _machine
from tests.captured import text_of
from tests.lab.cluster import Cluster
from tests.lab.jube_job import NPC, SMALL
from tests.paths import ROOT

PARTITIONS = {
    each.name: each
    for each in parse_partitions(text_of("slurm", "sinfo.txt"), text_of("slurm", "show_partition.txt"))
}


MODULE = {"bank": None, "type": "DDR4", "size_bytes": 2**34, "transfers_s": 2_666_000_000}
MEMORY = {"dimms": [{**MODULE, "locator": f"A{slot}"} for slot in range(1, 13)], "channels": 12}


def test_partitions_have_the_cores_of_their_smallest_nodes() -> None:
    """Nodes c1 and c2 have 2 × 12 cores with two threads each, n1 and n2 have 2 cores."""
    assert set(PARTITIONS) == {"batch", "booster"}, "one without nodes is of no use"
    batch, booster = PARTITIONS["batch"], PARTITIONS["booster"]
    assert (batch.default, batch.nodes, len(booster.kinds)) == (True, 4, 1)
    assert batch.kinds == (
        NodeKind(nodes=("n1", "n2"), cores=2, cpus=2, memory_mb=4000),
        NodeKind(nodes=("c1", "c2"), cores=24, cpus=48, memory_mb=191000),
    )
    assert (batch.features, batch.exclusive) == (("booster", "cluster", "edr"), "EXCLUSIVE")
    assert (booster.default, booster.nodes, booster.smallest.cores) == (False, 2, 64)
    assert booster.gres == ("gpu:a100:4", "gpu:v100:1")
    assert (booster.time_limit, booster.short) == ("01:00:00", "")


def test_a_feature_chooses_nodes_of_one_kind() -> None:
    (edr,) = parse_partitions(text_of("slurm", "sinfo.txt"), text_of("slurm", "show_partition.txt"), "edr")
    assert (edr.name, edr.constraint, edr.nodes, edr.smallest.cores) == ("batch", "edr", 2, 24)
    assert ':-edr}"' in platform_xml("mine", edr, "") and ':-edr}"' not in platform_xml(
        "mine", PARTITIONS["batch"], ""
    )


@pytest.mark.parametrize(
    ("limit", "written"),
    [
        ("00:20:00", "00:20:00"),
        ("00:30:00", ""),
        ("12:00:00", ""),
        ("2-00:00:00", ""),
        ("UNLIMITED", ""),
        ("", ""),
    ],
)
def test_jobs_take_no_longer_than_their_partition_lets_them(limit: str, written: str) -> None:
    partition = dataclasses.replace(PARTITIONS["booster"], time_limit=limit)
    assert re.findall(r"NPC_TIMELIMIT:-(.*)}", platform_xml("mine", partition, "")) == [written] * bool(
        written
    )


def test_the_limits_are_those_of_the_node_and_unknown_ones_are_comments(tmp_path: Path) -> None:
    link = {
        "driver": "mlx5_core",
        "state": "up",
        "rdma_devices": [],
        "speed_bit_s": None,
        "type": "ethernet",
        "addresses": [],
    }
    node = {
        "cpu": {
            "model": "Intel(R) Xeon(R) Gold 6146 CPU @ 3.20GHz", "cores": 24, "flags": ["avx512f", "fma"]
        },
        "memory": MEMORY,
        "interfaces": [
            {**link, "name": "ib0", "type": "infiniband", "rdma_devices": ["mlx5_0"]},
            {**link, "name": "eno1", "speed_bit_s": 25_000_000_000},
            {**link, "name": "eno2", "speed_bit_s": 1_000_000_000, "state": "down"},
            {**link, "name": "bond0", "speed_bit_s": 20_000_000_000, "driver": None},
            {**link, "name": "veth12", "driver": None},
            {**link, "name": "eth0", "driver": None, "addresses": ["10.0.0.1"]},
            {**link, "name": "lo", "type": "loopback", "driver": None},
        ],
        "rdma": [{"device": "mlx5_0", "rate": "100 Gb/sec (4X EDR)"}],
        "gpus": [{"name": "NVIDIA H100 80GB HBM3"}],
    }  # fmt: skip
    path = tmp_path / "platform.toml"
    path.write_text(platform_toml("mine", PARTITIONS["booster"], node))
    platform = read_platform(path)
    assert (platform.cores, platform.clock_hz, platform.simd_bits, platform.fma) == (24, 3.2e9, 512, True)
    assert platform.simd_units == 2 and platform.peak_flops("double") == 24 * 3.2e9 * 8 * 2 * 2
    assert platform.memory_bandwidth == 12 * 8 * 2666e6
    assert platform.proposed == ("clock_hz", "simd_bits", "simd_units", "fma", "memory_bandwidth")
    unsure = platform.confirmed
    assert (unsure.cores, unsure.clock_hz, unsure.memory_bandwidth) == (24, None, None)
    assert unsure.peak_flops("double") is None and unsure.interfaces == platform.interfaces
    rates = {name: interface.data_rate for name, interface in platform.interfaces.items()}
    assert rates == {"ib0": 12.5e9, "eno1": 25e9 / 8}
    assert '# [interfaces."bond0"]\n# link = "20 GbE"' in path.read_text()
    assert '# the node does not say how fast it is\n# [interfaces."eth0"]\n# link = "' in path.read_text()
    commented = path.read_text().partition("# one of the node's GPUs (NVIDIA H100 80GB HBM3)")[2].splitlines()
    path.write_text(path.read_text() + "\n".join(line.removeprefix("# ") for line in commented[1:]))
    assert read_platform(path).gpu.double_flops == 67e12
    assert "veth12" not in path.read_text(), "without an address nobody measures over it"
    assert (
        "# proposed: 12 channels (of the memory controllers) × 8 B × 2666 MT/s (DDR4)\n" in path.read_text()
    )


def test_without_a_node_to_ask_there_is_what_slurm_knows(tmp_path: Path) -> None:
    path = tmp_path / "platform.toml"
    path.write_text(platform_toml("mine", PARTITIONS["booster"], {}))
    platform = read_platform(path)
    assert platform.cores == 64
    assert platform.clock_hz is platform.simd_bits is platform.fma is None
    assert not platform.interfaces and "# [interfaces.ib0]" in path.read_text()
    assert "# simd_units = 2 " in path.read_text() and "# memory_bandwidth = " in path.read_text()
    assert platform.proposed == () and platform.confirmed == platform


def test_the_xml_says_what_to_check_and_is_valid() -> None:
    text = platform_xml("mine", PARTITIONS["batch"], "physics")
    ET.fromstring(text)
    for words in (
        "4 nodes",
        "not alike",
        "c1, c2: 24 cores, 48 CPUs, 191 GB",
        "OverSubscribe=EXCLUSIVE",
        "edr",
        ":-batch}",
        ":-physics}",
    ):
        assert words in text
    odd = dataclasses.replace(PARTITIONS["batch"], features=("a--b", "<c>", "d-"))
    ET.fromstring(platform_xml("mine", odd, "a&b"))


# -- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout to write into."""
    folder = tmp_path / "npc-copy"
    for name in ("npc", "packaging", "platforms"):
        shutil.copytree(
            ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "jube.yml", folder)
    return folder


def new(copy: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "npc", "platform", "new", *words],
        cwd=copy, env={**os.environ, "NPC_WORKPLACE": "", **env},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_where_there_is_no_slurm_it_is_this_machine_alone(copy: Path, tmp_path: Path) -> None:
    ended = new(copy, "mine", PATH=str(tmp_path))
    folder = copy / "platforms/mine"
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"{folder}: this machine alone, without a scheduler\n")
    assert read_platform(folder / "platform.toml").cores == psutil.cpu_count(logical=False)
    assert {path.name for path in folder.iterdir()} == {"platform.toml", "platform.xml", "submit.job.in"}
    sets = {(each.tag, each.get("name")): each for each in ET.parse(folder / "platform.xml").getroot()}
    assert sets["parameterset", "systemParameter"].get("init_with") == "../localhost/platform.xml"
    parameters = {each.get("name"): each.text for each in sets["parameterset", "systemParameter"]}
    assert parameters == {"npc_platform_name": "mine"}
    assert _machine(str(folder), None).one_machine


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("slurm", "exists: choose another name"),
        ("../x", "no name"),
        ("x --alone --partition=batch", "--alone asks no Slurm"),
    ],
)
def test_what_cannot_be_meant_is_usage(copy: Path, name: str, told: str) -> None:
    ended = new(copy, *name.split())
    assert ended.returncode == 2 and told in ended.stderr


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=4) as four:
        yield four


def on_head(cluster: Cluster, copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "npc", "platform", "new", *words]
    return cluster.run("head", command, cwd=copy, env={"NPC_WORKPLACE": ""})


@pytest.mark.slow
@pytest.mark.slurm
def test_a_platform_written_on_a_cluster_is_one_that_runs(
    cluster: Cluster, copy: Path, tmp_path: Path
) -> None:
    written = on_head(cluster, copy, "lab", "--partition", "booster")
    assert written.returncode == 0, written.stderr
    folder = copy / "platforms/lab"
    assert written.stdout.startswith(f"{folder}: partition booster, 2 nodes with 2 cores\n")
    platform = read_platform(folder / "platform.toml")
    node = json.loads(cluster.run("n3", [NPC, "doctor", "--environment"], check=True).stdout)
    assert platform.cores == node["cpu"]["cores"], "the node's own word"
    assert platform.description.startswith("lab: ")
    assert not platform.interfaces, "the rate of a veth is made up"
    assert '# [interfaces."eth0"]' in (folder / "platform.toml").read_text()
    jube = ["jube", "run", "benchmarks/iperf3/benchmark.xml", "--hide-animation", "--include-path", folder]
    runs = tmp_path / "runs"
    cluster.run("head", [*jube, "--outpath", runs], env=SMALL, cwd=ROOT, check=True)
    waited = cluster.run("head", [NPC, "records", "wait", runs, "--least", "0.3s"], check=False)
    assert waited.returncode == 0, waited.stderr
    cluster.run("head", [NPC, "records", "collect", runs], check=True)
    records = list(read_csv(runs / "000000/records.csv"))
    assert {(record.platform, record.status, record.hosts) for record in records} == {
        ("lab", "ok", ("n3", "n4"))
    }


@pytest.mark.slow
@pytest.mark.slurm
def test_no_free_node_a_wrong_partition_and_slurm_s_own_errors(cluster: Cluster, copy: Path) -> None:
    held = cluster.run("head", ["sbatch", "--parsable", "--exclusive", "-N2", "-pbooster", "-o/dev/null",
                                "--wrap", "sleep 100"], check=True).stdout.strip()  # fmt: skip
    written = on_head(cluster, copy, "busy", "--partition", "booster", "--patience", "1")
    cluster.run("head", ["scancel", held], check=True)
    assert written.returncode == 0
    assert (
        "no node could be asked (srun: " in written.stderr and "has only what Slurm knows" in written.stderr
    )
    assert read_platform(copy / "platforms/busy/platform.toml").cores == 2
    wrong = on_head(cluster, copy, "other", "--partition", "nowhere")
    assert wrong.returncode == 2 and "--partition nowhere: there are all, cluster, booster" in wrong.stderr
    (copy / "slurm.conf").write_text("Nonsense=1\n")
    broken = new(copy, "other", SLURM_CONF=str(copy / "slurm.conf"))
    assert broken.returncode == 1 and "Slurm does not answer here (scontrol: fatal: " in broken.stderr
    assert "Traceback" not in broken.stderr and not (copy / "platforms/other").exists()


# -- sites --------------------------------------------------------------------------------------------------

#: The second half of the nodes is larger. Only operators of Slurm see nodes.
SITE = {
    "partitions": {"all": "Nodes=ALL Default=YES", "short": "Nodes=ALL MaxTime=20"},
    "own_conf": dict.fromkeys(("n3", "n4"), "CoresPerSocket=4 RealMemory=8000"),
    "extra_conf": {"PrivateData": "nodes"},
}


@pytest.fixture(scope="module")
def site() -> Iterator[Cluster]:
    with Cluster(nodes=4, **SITE) as four:
        yield four


@pytest.fixture
def ordinary(tmp_path: Path) -> dict[str, str]:
    """What makes Slurm's commands those of an ordinary user."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sinfo", "scontrol"):
        user = "setpriv --reuid=65534 --regid=65534 --clear-groups"
        (folder / name).write_text(f'#!/bin/sh\nexec {user} {shutil.which(name)} "$@"\n')
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.slow
@pytest.mark.slurm
def test_of_unlike_nodes_the_smallest_are_described_and_a_feature_chooses_one_kind(
    site: Cluster, copy: Path
) -> None:
    written = on_head(site, copy, "lab")
    assert written.returncode == 0, written.stderr
    assert written.stdout.splitlines()[:4] == [
        f"{copy}/platforms/lab: partition all, 4 nodes with 2 cores",
        "Its nodes are not alike, and each is measured with 2 threads, as the first have cores:",
        "  n1, n2: 2 cores, 2 CPUs, 4 GB",
        "  n3, n4: 4 cores, 4 CPUs, 8 GB",
    ]
    assert "--constraint, booster, cluster" in written.stdout
    large = on_head(site, copy, "large", "--constraint", "booster", "--no-node")
    assert large.stdout.startswith(f"{copy}/platforms/large: partition all, 2 nodes with 4 cores\n")
    assert read_platform(copy / "platforms/large/platform.toml").cores == 4
    wrong = on_head(site, copy, "other", "--constraint", "gpu", "--no-node")
    assert wrong.returncode == 2 and "no node of the default partition has this feature" in wrong.stderr


@pytest.mark.slow
@pytest.mark.slurm
def test_the_node_that_is_asked_is_one_of_the_smallest(site: Cluster, copy: Path) -> None:
    taken = ["sbatch", "--parsable", "--exclusive", "-wn[1-2]", "-o/dev/null", "--wrap", "sleep 100"]
    job = site.run("head", taken, check=True).stdout.strip()
    written = on_head(site, copy, "lab", "--patience", "1")
    site.run("head", ["scancel", job], check=True)
    assert "no node could be asked" in written.stderr, "the larger ones are idle"


@pytest.mark.slow
@pytest.mark.slurm
def test_jobs_longer_than_their_partition_allows_are_refused_and_a_new_platform_makes_none(
    site: Cluster, copy: Path, tmp_path: Path
) -> None:
    words = [
        sys.executable,
        "-m",
        "npc",
        "characterise",
        "--benchmark",
        "iperf3",
        "--output",
        tmp_path / "runs",
    ]

    def characterise(*more: str) -> subprocess.CompletedProcess[str]:
        env = {**SMALL, "NPC_WORKPLACE": ""}
        return site.run("head", [*words, *more, "--limit", "1s"], cwd=ROOT, env=env)

    refused = characterise("--platform", "slurm", "--set", "queue=short")
    assert refused.returncode == 1
    assert (
        "jobs of 00:30:00 would never start in the partition short, whose MaxTime is 00:20:00"
        in refused.stderr
    )
    assert "--set timelimit=00:20:00" in refused.stderr and not (tmp_path / "runs").exists()
    assert on_head(site, copy, "lab", "--partition", "short", "--no-node").returncode == 0
    for fits in (("slurm", "--set", "queue=short", "--set", "timelimit=20"), (str(copy / "platforms/lab"),)):
        ended = characterise("--platform", *fits)
        assert "never start" not in ended.stderr and (tmp_path / "runs/000000").exists()
        site.run("head", ["scancel", "--user=root"], check=True)
        shutil.rmtree(tmp_path / "runs")


@pytest.mark.slow
@pytest.mark.slurm
def test_where_slurm_shows_no_nodes_a_node_says_what_it_is_and_jobs_run(
    site: Cluster, copy: Path, tmp_path: Path, ordinary: dict[str, str]
) -> None:
    runs = ["--benchmark", "iperf3", "--output", tmp_path / "runs", "--limit", "1s"]

    def npc(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
        env = {**SMALL, **ordinary, "NPC_WORKPLACE": ""}
        return site.run("head", [sys.executable, "-m", "npc", *words], cwd=folder, env=env)

    refused = npc(ROOT, "characterise", "--platform", "slurm", *runs)
    assert refused.returncode == 1 and "login node" not in refused.stderr
    assert "PrivateData in slurm.conf): make a platform that says how many cores they have" in refused.stderr
    written = npc(copy, "platform", "new", "lab")
    assert written.returncode == 0, written.stderr
    folder = copy / "platforms/lab"
    assert written.stdout.startswith(f"{folder}: partition all, 4 nodes\n")
    cores = read_platform(folder / "platform.toml").cores
    assert cores == psutil.cpu_count(logical=False)
    text = (folder / "platform.xml").read_text()
    assert f'"npc_cores_per_node" type="int">{cores}<' in text and '"npc_nodes_there" type="int">4<' in text
    measured = npc(ROOT, "characterise", "--platform", folder, *runs)
    site.run("head", ["scancel", "--user=root"], check=True)
    assert "PrivateData" not in measured.stderr and "iperf3 0: " in measured.stderr
