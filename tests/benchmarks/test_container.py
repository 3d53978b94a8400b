"""The benchmarks in a container: the tools and MPI programs inside, npb and npc outside."""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from npc.records.record import Record, read_csv
from tests.lab.cluster import Cluster
from tests.lab.containers import missing, stand_in
from tests.lab.jube_job import NPC, SMALL
from tests.lab.npb_job import environment_of_test
from tests.paths import ROOT

#: What measures storage, reads what the machine's own tools say of it, or builds on the node's libraries.
OUTSIDE = {"fio", "hpcc", "ior", "likwid", "mdtest"}
ENTERED = '"$NPC_IN_CONTAINER"'


def specifications() -> dict[str, dict[str, str]]:
    """Benchmark → its parameters of ``systemParameter``."""
    files = [*sorted((ROOT / "benchmarks").glob("*/benchmark_spec.xml")), ROOT / "cron/pairs/benchmark.xml"]
    sets = {file.parent.name: ET.parse(file).getroot().findall("parameterset") for file in files}
    return {
        name: {
            str(parameter.get("name")): parameter.text or ""
            for parameters in of_one
            if parameters.get("name") == "systemParameter"
            for parameter in parameters
        }
        for name, of_one in sets.items()
    }


def test_every_benchmark_starts_its_tool_in_the_container_or_is_named_as_one_that_does_not() -> None:
    outside = set()
    for name, parameters in specifications().items():
        entered = (
            parameters["args_exec"].count(ENTERED) == 2
            if parameters["executable"] == "$npc_bin/npb"
            else parameters["executable"].startswith("$npc_ranks_in_container ")
        )
        # before anything that builds, or looks for a program inside
        assert ("$use_container" in parameters["preprocess"].split("$NPC_IN_CONTAINER")[0]) == entered, name
        if not entered:
            outside.add(name)
    assert outside == OUTSIDE
    (named,) = (
        line for line in (ROOT / "docs/cluster.md").read_text().splitlines() if "run outside of it" in line
    )
    assert all(name in named.lower() for name in OUTSIDE)


def prefixes(folder: Path, programs: Sequence[str], *arguments: str) -> tuple[int, list[str], str]:
    """(exit code, what stands before a tool and before ranks, the last line of the errors) of
    ``container.sh`` on a node that has these programs besides the shell's."""
    place = folder / "bin"
    place.mkdir()
    for name in ("hostname", "grep", "id"):
        (place / name).symlink_to(f"/usr/bin/{name}")
    for name in programs:
        (place / name).write_text("#!/bin/sh\necho --container-image=[USER@][REGISTRY#]IMAGE[:TAG]\n")
        (place / name).chmod(0o755)
    script = (
        f'. {ROOT}/benchmarks/container.sh "$@"\nprintf "%s\\n" "$NPC_IN_CONTAINER" "$npc_ranks_in_container"'
    )
    env = environment_of_test({"PATH": str(place)})
    ended = subprocess.run(
        ["/bin/bash", "-c", script, "bash", *arguments, "/suite"], cwd=folder, env=env,
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout.splitlines(), ended.stderr.strip()


@pytest.mark.parametrize(
    ("programs", "runtime", "begins"),
    [
        (["apptainer", "singularity", "podman"], "", "apptainer --silent exec --bind "),
        (["singularity", "srun"], "", "singularity --silent exec --bind "),
        (["podman"], "", "podman run --rm "),
        (["apptainer", "podman"], "podman", "podman run --rm "),
    ],
)
def test_what_the_node_has_starts_the_image(
    programs: Sequence[str], runtime: str, begins: str, tmp_path: Path
) -> None:
    code, (tool, ranks), _ = prefixes(tmp_path, programs, "/i.sif", runtime, "mpirun")
    assert code == 0 and tool == ranks, "ranks are started as any tool"
    assert tool.startswith(begins) and tool.endswith(" /i.sif")
    assert str(tmp_path) in tool and "/suite" in tool, "the job's folder and the suite are to be seen inside"


def test_pyxis_starts_ranks_by_options_of_srun_and_a_tool_by_enroot(tmp_path: Path) -> None:
    code, (tool, ranks), _ = prefixes(tmp_path, ["srun", "enroot"], "/i.sqsh", "", "srun --mpi=pmix")
    assert code == 0
    assert tool == f"enroot start -m {tmp_path}:{tmp_path} -m /suite:/suite /i.sqsh"
    assert ranks == (
        f"--container-image=/i.sqsh --container-mounts={tmp_path}:{tmp_path},/suite:/suite "
        f"--container-workdir={tmp_path}"
    )


def test_a_node_without_any_runtime_makes_it_unavailable(tmp_path: Path) -> None:
    code, printed, reason = prefixes(tmp_path, [], "/i.sif", "", "mpirun")
    assert code == 1 and not printed
    assert reason.startswith("unavailable: container=/i.sif: ") and "set container_runtime" in reason


# -- on a cluster --------------------------------------------------------------------------------------


def measured(cluster: Cluster, benchmark: str, folder: Path, **settings: str) -> list[Record]:
    """The records of a benchmark on the platform for Slurm."""
    runs = folder / "runs"
    programs, image = stand_in(folder)
    env = {
        **SMALL, "NPC_CONTAINER": str(image), "PATH": f"{programs}:{cluster.environment()['PATH']}",
        "NPC_ENV": "export OMPI_MCA_mpi_yield_when_idle=1", **settings,
    }  # fmt: skip
    jube = ["jube", "run", f"benchmarks/{benchmark}/benchmark.xml", "--hide-animation", "--outpath", runs]
    submitted = cluster.run(
        "head", [*jube, "--include-path", "platforms/slurm"], env=env, timeout=120, cwd=ROOT
    )
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    wait = [NPC, "records", "wait", runs, "--least", "0.3s", "--most", "0.5s"]
    cluster.run("head", wait, timeout=200)
    cluster.run("head", [NPC, "records", "collect", runs])
    return list(read_csv(runs / "000000/records.csv"))


def described(folder: Path) -> list[dict[str, Any]]:
    """What each job noted of its container."""
    files = (folder / "runs").rglob("work/environment.json")
    return [json.loads(file.read_text())["container"] for file in files]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Any:
    if problem := missing():
        pytest.skip(problem)
    with Cluster(nodes=2) as two:
        yield two


@pytest.mark.slow
@pytest.mark.slurm
def test_a_network_tool_measures_between_two_containers(cluster: Cluster, tmp_path: Path) -> None:
    records = measured(cluster, "qperf", tmp_path, NPC_QPERF_KINDS="latency")
    (record,) = records
    assert (record.status, record.case, record.hosts) == ("ok", "tcp_lat", ("n1", "n2"))
    assert record.params["container"] == "tools.sif"
    (line,) = (tmp_path / "runs").rglob("work/launches/launches.jsonl")
    argv = json.loads(line.read_text().splitlines()[1])["argv"]
    assert argv[:3] == ["apptainer", "--silent", "exec"] and "qperf" in argv
    (container,) = described(tmp_path)
    assert container["image"] == "tools.sif" and container["single_copy"] is False


@pytest.mark.slow
@pytest.mark.slurm
def test_an_mpi_program_is_built_and_runs_in_containers_of_two_nodes(
    cluster: Cluster, tmp_path: Path
) -> None:
    records = measured(
        cluster, "himeno", tmp_path, NPC_HIMENO_NODES="2", NPC_HIMENO_TASKS="1", NPC_HIMENO_CC="mpicc.inside"
    )
    (record,) = (record for record in records if record.metric == "flops")
    assert (record.status.partition(":")[0], record.hosts) in {
        (status, ("n1", "n2")) for status in ("ok", "invalid")
    }, "the arrays are small, and others compute"
    assert record.value and record.params["container"] == "tools.sif"


@pytest.mark.slow
@pytest.mark.slurm
def test_an_image_that_is_not_there_is_the_records_reason(cluster: Cluster, tmp_path: Path) -> None:
    (record, *_) = measured(
        cluster, "qperf", tmp_path, NPC_QPERF_KINDS="latency", NPC_CONTAINER=f"{os.sep}no/such.sif"
    )
    assert record.value is None
    assert "could not open image /no/such.sif: no such file or directory" in record.status
