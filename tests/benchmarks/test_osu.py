"""The OSU benchmarks as MPI ranks: C programs where a prefix names them, ports of mpi4py elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npc import parsers
from npc.records.record import OK
from tests.lab.npb_job import environment_of_test, mpirun
from tests.paths import ROOT

FOLDER = ROOT / "benchmarks/osu"
SCRIPT = FOLDER / "osu.py"
PORTS = Path(sys.prefix) / "share/npc/osu-mpi4py"
#: The tests of the benchmark's spec → what the first row of each says.
TESTS = {
    "latency": ("osu_latency", "latency"),
    "bw": ("osu_bw", "bandwidth"),
    "bibw": ("osu_bibw", "bandwidth"),
    "multi_lat": ("osu_multi_lat", "latency"),
    "allreduce": ("osu_allreduce", "latency"),
    "bcast": ("osu_bcast", "latency"),
    "alltoall": ("osu_alltoall", "latency"),
    "allgather": ("osu_allgather", "latency"),
    "barrier": ("osu_barrier", "latency"),
}
#: Stands in for a C benchmark: says with what it was started, and that it is the rank itself.
PROGRAM = r"""
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    printf("%d", (int)getpid());
    for (int i = 0; i < argc; i++)
        printf(" %s", argv[i]);
    printf("\n");
    return 7;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("osu")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", folder / "program.c", "-o", folder / "program"], check=True)
    return folder / "program"


def install(program: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(program.read_bytes())
    path.chmod(0o755)


def osu(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *words], capture_output=True, text=True, check=False, timeout=60
    )


# -- C programs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout",
    [
        "bin/osu_latency",
        "libexec/osu-micro-benchmarks/mpi/pt2pt/osu_latency",
        "libexec/osu-micro-benchmarks/mpi/pt2pt/standard/osu_latency",
        "osu_latency",
    ],
)
def test_the_c_program_takes_the_ranks_place(tmp_path: Path, program: Path, layout: str) -> None:
    install(program, tmp_path / layout)
    started = subprocess.Popen(
        [sys.executable, SCRIPT, "latency", "--prefix", tmp_path, "--max-size", "4096"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    out, _ = started.communicate(timeout=30)
    assert out == f"{started.pid} {tmp_path / layout} -m 4096\n"
    assert started.returncode == 7, "its exit code is the program's"


def test_a_barrier_has_no_size(tmp_path: Path, program: Path) -> None:
    install(program, tmp_path / "bin/osu_barrier")
    assert osu("barrier", "--prefix", tmp_path).stdout.split()[1:] == [str(tmp_path / "bin/osu_barrier")]


def test_only_a_program_of_that_very_name_counts(tmp_path: Path, program: Path) -> None:
    install(program, tmp_path / "bin/osu_latency_mt")
    (tmp_path / "share").mkdir()
    (tmp_path / "share/osu_latency").write_text("notes, not executable")
    (tmp_path / "src/osu_latency").mkdir(parents=True)
    ended = osu("latency", "--prefix", tmp_path)
    assert ended.returncode == 1
    assert ended.stderr == f"unavailable: no osu_latency below osu_prefix {tmp_path}\n"


def test_a_prefix_that_does_not_exist_is_unavailable(tmp_path: Path) -> None:
    ended = osu("bw", "--prefix", tmp_path / "nowhere")
    assert ended.returncode == 1 and ended.stderr.startswith("unavailable: no osu_bw below osu_prefix")


# -- ports ---------------------------------------------------------------------------------------------


def test_a_test_without_a_port_is_unavailable_and_says_how_to_get_one() -> None:
    ended = osu("no_such_test")
    assert ended.returncode == 1 and not ended.stdout
    assert ended.stderr.startswith("unavailable: mpi4py has no port of osu_no_such_test")
    assert "npc.machine.fetch osu" in ended.stderr and "NPC_OSU_PREFIX" in ended.stderr


def test_the_spec_asks_for_these_tests() -> None:
    text = (FOLDER / "benchmark_spec.xml").read_text()
    asked = re.search(r'\{"pt2pt": "([a-z_,]+)", "collective": "([a-z_,]+)"', text)
    of_two_nodes = TESTS.keys() - {"multi_lat"}  # of one pair it is the latency
    assert asked and sorted(f"{asked[1]},{asked[2]}".split(",")) == sorted(of_two_nodes)


def test_the_ports_are_where_set_up_puts_them() -> None:
    assert (PORTS / "osu_latency.py").exists(), f"make setup fetches them into {PORTS}"
    assert not list(FOLDER.glob("osu_[!a]*.py")), "they stay out of the repository"


def run_port(test: str, ranks: int = 2, size: int = 64) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [mpirun(), "-n", str(ranks), sys.executable, str(SCRIPT), test, "--max-size", str(size)],
        capture_output=True, text=True, check=False, timeout=60, env=environment_of_test({}),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS)
def test_a_port_runs_with_two_ranks_and_its_table_is_read(test: str) -> None:
    ended = run_port(test)
    assert ended.returncode == 0, ended.stderr
    readings = parsers.parse("osu", ended.stdout, ["python", "osu.py", test])
    case, metric = TESTS[test]
    assert {(reading.case, reading.metric, reading.status) for reading in readings} == {(case, metric, OK)}
    values = [reading.value for reading in readings if reading.value is not None]
    measured = [reading.size for reading in readings]
    if test == "barrier":
        assert measured == [None]
    else:
        assert measured[-1] == 64 and measured == sorted(measured, key=lambda size: size or 0)
    if metric == "latency":
        assert all(1e-9 < value < 0.1 for value in values), "seconds"
    else:  # 64 bytes take from a nanosecond to a millisecond
        assert 64e3 < values[-1] < 64e9, "bytes per second"


@pytest.mark.slow
@pytest.mark.parametrize("test", ["allreduce", "alltoall"])
def test_one_rank_is_refused_with_the_reason(test: str) -> None:
    ended = run_port(test, ranks=1)
    assert ended.returncode != 0 and not ended.stdout
    assert f"osu_{test} needs two ranks, and this one is alone" in ended.stderr


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("mpirun.mpich"), reason="MPICH's launcher: apt-get install mpich")
def test_ranks_that_the_launcher_of_another_mpi_started_are_alone_and_refused() -> None:
    ended = subprocess.run(
        ["mpirun.mpich", "-n", "2", sys.executable, str(SCRIPT), "alltoall", "--max-size", "8"],
        capture_output=True, text=True, check=False, timeout=60,
        env=environment_of_test({"MPI4PY_MPIABI": "openmpi"}),
    )  # fmt: skip
    assert ended.returncode != 0 and "Latency" not in ended.stdout
    assert re.search(r"this one is alone: is what started it the launcher of Open MPI v", ended.stderr)


@pytest.mark.slow
def test_allreduce_gives_every_rank_the_sum() -> None:
    """The loop measures what it says: four bytes a number, summed over the ranks."""
    code = (
        f"import sys; sys.path.insert(0, {str(FOLDER)!r}); from array import array; import osu_allreduce\n"
        "from mpi4py import MPI\n"
        "comm, seen = MPI.COMM_WORLD, []\n"
        "class Counting:\n"
        "    def __getattr__(self, name): return getattr(comm, name)\n"
        "    def Allreduce(self, out, into, op):\n"
        "        comm.Allreduce(out, into, op=op); seen.append((out[1], op == MPI.SUM))\n"
        "class World: COMM_WORLD = Counting(); FLOAT = MPI.FLOAT; SUM = MPI.SUM; Wtime = MPI.Wtime\n"
        "osu_allreduce.MPI = World\n"
        "osu_allreduce.osu_allreduce(skip=1, loop=2, MAX_MSG_SIZE=16)\n"
        "assert seen == [(n, True) for n in (1, 2, 4) for _ in range(3)], seen\n"
    )
    ended = subprocess.run(
        [mpirun(), "-n", "2", sys.executable, "-c", code],
        capture_output=True, text=True, check=False, timeout=60, env=environment_of_test({}),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert os.linesep.join(line.split()[0] for line in ended.stdout.splitlines()[2:]) == "4\n8\n16"
