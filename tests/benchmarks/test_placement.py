"""Where ranks and threads are put: what launchers are told on nodes of other makes, and what they do then."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.paths import ROOT

MPICH = Path(sys.prefix) / "share/npc/mpi/mpich/bin/mpirun"


def placed(folder: Path, *words: str, sockets: int = 2, cores: int = 10, threads: int = 2) -> dict[str, str]:
    """The variables that ``placement.sh RANKS THREADS MAPPING BINDING PLACES PROC_BIND`` sets on such a node;
    what it says under ``error``."""
    number = sockets * cores * threads
    rows = [
        f"{cpu},{cpu % (number // threads)},{cpu % (number // threads) // cores}" for cpu in range(number)
    ]
    cpus = "\n".join(f"{row},{row.rpartition(',')[2]}" for row in rows)  # a NUMA node each
    for name, says in (("lscpu", f"# a comment\n{cpus}"), ("taskset", f"pid 1's list: 0-{number - 1}")):
        (folder / name).write_text(f'#!/bin/sh\ncat <<"END"\n{says}\nEND\n')
        (folder / name).chmod(0o755)
    script = f'. {ROOT}/benchmarks/placement.sh "$@" && echo "noted=$npc_noted" && env'
    ended = subprocess.run(
        ["bash", "-c", script, "bash", *words, *[""] * (6 - len(words))],
        env={"PATH": f"{folder}:{os.environ['PATH']}"}, capture_output=True, text=True, check=False,
        timeout=20,
    )  # fmt: skip
    found = dict(line.partition("=")[::2] for line in ended.stdout.splitlines())
    return {**found, "error": ended.stderr} if ended.returncode else found


def test_one_thread_a_rank_is_the_launcher_s_business(tmp_path: Path) -> None:
    found = placed(tmp_path, "20", "1")
    assert found["OMP_NUM_THREADS"] == "1" and found["noted"] == ""
    assert not [name for name in found if name.startswith(("OMPI", "PRTE", "HYDRA", "OMP_P"))]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("2", "10"), ("core:10", "ppr:2:node:PE=10", "slot:PE=10", "cores")),
        (("2", "20"), ("hwthread:20", "ppr:2:node:PE=20", "slot:PE=20:HWTCPUS", "threads")),
        (("2", "10", "ppr:1:socket"), ("core:10", "socket:SPAN,PE=10", "package:SPAN:PE=10", "cores")),
        (("4", "5", "ppr:2:numa"), ("core:5", "numa:SPAN,PE=5", "numa:SPAN:PE=5", "cores")),
        (("2", "10", "", "hwthread"), ("hwthread:10", "ppr:2:node:PE=10", "slot:PE=10:HWTCPUS", "threads")),
        (("2", "30"), ("none", None, None, None)),
    ],
)
def test_each_launcher_is_told_in_its_own_way(
    tmp_path: Path, words: tuple[str, ...], expected: tuple[str | None, ...]
) -> None:
    """A node of two sockets with ten cores each, of two hardware threads."""
    found = placed(tmp_path, *words)
    names = (
        "HYDRA_BINDING", "OMPI_MCA_rmaps_base_mapping_policy", "PRTE_MCA_rmaps_default_mapping_policy",
        "OMP_PLACES",
    )  # fmt: skip
    assert tuple(found.get(name) for name in names) == expected


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("4", "5", "ppr:1:socket"), "mapping=ppr:1:socket makes 2 ranks on "),
        (("2", "5", "ppr:x:socket"), "mapping=ppr:x:socket: expected ppr:N:socket or ppr:N:numa"),
        (("2", "5", "socket"), "mapping=socket: expected ppr:N:socket or ppr:N:numa"),
        (("2", "5", "", "cores"), "binding=cores: expected core, hwthread or none"),
        (("2", "30", "ppr:1:socket"), "needs 30 cores or hardware threads for each of the 2 ranks"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    error = placed(tmp_path, *words)["error"]
    assert told in error and error.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("lstopo") is None, reason="no lstopo: apt-get install hwloc-nox")
def test_launchers_put_a_rank_on_each_socket_of_a_node_that_they_are_shown(tmp_path: Path) -> None:
    """Open MPI 4 simulates nodes by a topology's file, Hydra takes one for the machine's own."""
    found = placed(tmp_path, "2", "10", "ppr:1:socket")
    variables = {name: text for name, text in found.items() if name.startswith(("OMPI", "HYDRA"))}
    env = {**os.environ, **MPI_ENVIRONMENT, **variables}
    env.pop("OMPI_MCA_rmaps_base_oversubscribe", None)
    topology, synthetic = tmp_path / "node.xml", "package:2 core:10 pu:2"
    subprocess.run(["lstopo", "-i", synthetic, topology], check=True, timeout=20)
    simulator = {"ras": "simulator", "num_nodes": "2", "slots": "2", "topo_files": str(topology)}
    settings = [
        word
        for name, value in simulator.items()
        for word in ("--mca", name if name == "ras" else f"ras_simulator_{name}", value)
    ]
    command = ["mpirun", *settings, "-n", "4", "--display-devel-map", "--do-not-launch", "true"]
    shown = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    all_of, none_of = "/".join(["BB"] * 10), "/".join([".."] * 10)
    each = [f"[{all_of}][{none_of}]", f"[{none_of}][{all_of}]"]
    assert re.findall(r"Binding: (\[.*\])", shown.stdout) == 2 * each, (shown.returncode, shown.stderr)
    if MPICH.exists():
        env |= {"HWLOC_SYNTHETIC": synthetic, "HYDRA_TOPO_DEBUG": "1"}
        shown = subprocess.run(
            [MPICH, "-n", "2", "true"], env=env, capture_output=True, text=True, check=True, timeout=60
        )
        halves = ["0" * 20 + "1" * 20, "1" * 20 + "0" * 20]
        assert sorted(re.findall(r"binding: (\d+)", shown.stdout)) == halves
