"""The parameter ``mpi``: each MPI's launcher with its own library, and OSU's C programs built for it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from npc import parsers
from npc.records.record import OK, read_csv
from tests.lab.jube_job import NPC, finish, run_jube, states
from tests.lab.npb_job import environment_of_test
from tests.paths import ROOT

CACHE = Path(sys.prefix) / "share/npc/mpi"
MPIS = {"openmpi": "Open MPI", "mpich": "MPICH", "impi": "Intel(R) MPI Library"}
WORLD = "from mpi4py import MPI; print(MPI.Get_library_version().split()[0], MPI.COMM_WORLD.size)"

CONFIGURE = """\
AC_INIT([pingpong], [1.0])
AC_PROG_CC
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
"""
MAKEFILE = """\
prefix = @prefix@
exec_prefix = @exec_prefix@
programs = osu_latency osu_allreduce
all: $(programs)
osu_%: %.c
\t@CC@ @CFLAGS@ $< -o $@
install: all
\tmkdir -p @libexecdir@/suite/mpi
\tcp $(programs) @libexecdir@/suite/mpi
"""
#: A ping-pong and a sum of our own that print as OSU does.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    int rank, size, most = 64;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i < argc - 1; i++)
        if (!strcmp(argv[i], "-m")) most = atoi(argv[i + 1]);
    if (size != 2) { fprintf(stderr, "This test requires exactly two processes\n"); return 1; }
    if (!rank) printf("\n# OSU MPI TITLE Latency Test v7.4\n# Datatype: MPI_CHAR.\n");
    if (!rank) printf("# Size       Avg Latency(us)\n");
    char *one = calloc(most, 1), *other = calloc(most, 1);
    for (int bytes = 1; bytes <= most; bytes *= 2) {
        double start = MPI_Wtime();
        for (int i = 0; i < 20; i++) CALL;
        if (!rank) printf("%-10d%18.2f\n", bytes, (MPI_Wtime() - start) * 1e6 / 40);
    }
    MPI_Finalize();
    return 0;
}
"""
CALLS = {
    "latency": (
        "",
        "if (rank) { MPI_Recv(one, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);"
        " MPI_Send(one, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD); } else {"
        " MPI_Send(one, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);"
        " MPI_Recv(one, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }",
    ),
    "allreduce": ("Allreduce ", "MPI_Allreduce(one, other, bytes, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD)"),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive as the benchmarks' makers publish theirs: configure, Makefile.in and C programs."""
    folder = tmp_path_factory.mktemp("source") / "suite-1.0"
    folder.mkdir()
    (folder / "configure.ac").write_text(CONFIGURE)
    (folder / "Makefile.in").write_text(MAKEFILE)
    for name, (title, call) in CALLS.items():
        text = PROGRAM.replace("TITLE ", title).replace("CALL", call)
        (folder / f"{name}.c").write_text(text)
    subprocess.run(["autoconf"], cwd=folder, check=True, capture_output=True)
    archive = folder.parent / "suite-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    return archive


def in_job(
    mpi: str, cache: Path, folder: Path, command: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    script = f". {ROOT}/benchmarks/mpi.sh {mpi} {cache}\n{command}\n"
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment_of_test(environment),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_an_mpi_that_is_not_here_is_unavailable_and_ends_the_job(tmp_path: Path) -> None:
    no_module = "module load nosuch/1.2 failed|none of openmpi, mpich, impi"  # with modules, without them
    for mpi, reason in [("impi", "make setup-mpi"), ("nosuch/1.2", no_module)]:
        ended = in_job(mpi, tmp_path / "none", tmp_path, "echo went on")
        assert ended.returncode == 1 and not ended.stdout
        assert re.match(f"unavailable: mpi={mpi}: .*({reason})", ended.stderr.splitlines()[-1])


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, str]:
    """A site's modules, whose command a /bin/sh between dropped: one of them, Open MPI as it is here."""
    (tmp_path / "site/init").mkdir(parents=True)
    (tmp_path / "site/init/bash").write_text(
        'module() { [ "$*" = "load OpenMPI/4.1.5" ] && export LOADED=yes; }\nPATH=/usr/bin\n'
    )
    return {"MODULESHOME": f"{tmp_path}/site"}


def test_a_module_is_loaded_where_the_command_was_lost_on_the_way(
    tmp_path: Path, modules: dict[str, str]
) -> None:
    ended = in_job("OpenMPI/4.1.5", tmp_path, tmp_path, 'echo "$LOADED $MPI4PY_MPIABI $PATH"', **modules)
    loaded, abi, path = ended.stdout.strip().split(" ", 2)
    assert (loaded, abi) == ("yes", "openmpi") and path.startswith(environment_of_test({})["PATH"])
    ended = in_job("NoSuch/1", tmp_path, tmp_path, "echo went on", **modules)
    assert ended.stderr == "unavailable: mpi=NoSuch/1: module load NoSuch/1 failed\n" and not ended.stdout


def test_the_default_changes_nothing(tmp_path: Path) -> None:
    ended = in_job("default", tmp_path, tmp_path, 'test -z "${MPI4PY_MPIABI:-}" && echo "$PATH"')
    assert ended.stdout.strip() == environment_of_test({})["PATH"]


@pytest.mark.slow
@pytest.mark.parametrize("mpi", MPIS)
def test_the_launcher_and_the_library_are_of_one_mpi(tmp_path: Path, mpi: str) -> None:
    ended = in_job(mpi, CACHE, tmp_path, f"mpirun -n 2 {sys.executable} -c '{WORLD}'")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count(MPIS[mpi].split()[0]) == 2, ended.stdout


@pytest.mark.slow
def test_debians_mpich_serves_programs_of_the_common_abi(tmp_path: Path) -> None:
    ended = in_job("mpich", tmp_path / "none", tmp_path, f"mpirun -n 2 {sys.executable} -c '{WORLD}'")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "mpi/lib/libmpi.so.12").resolve().name.startswith("libmpich.so.12")
    assert ended.stdout.count("MPICH") == 2


@pytest.mark.slow
def test_one_run_compares_all_mpis_on_c_programs_built_from_a_source(tmp_path: Path, source: Path) -> None:
    ended = run_jube(
        "benchmarks/osu/benchmark.xml", tmp_path, NPC_OSU_SOURCE=str(source),
        NPC_MPI="openmpi,mpich,impi", NPC_OSU_MAX_SIZE="16", NPC_OSU_KINDS="pt2pt",
        NPC_OSU_CACHE=f"{tmp_path}/cache",
    )  # fmt: skip
    assert states(ended)["osu"]["all"] == 3
    finish(NPC, "records", "collect", tmp_path)
    records = list(read_csv(tmp_path / "000000/records.csv"))
    measured = [record for record in records if record.case == "osu_latency"]
    assert {record.params["mpi"] for record in measured} == set(MPIS)
    for record in measured:
        assert record.value and record.value < 0.1 and record.tool_version == "7.4"
        assert record.size in (1, 2, 4, 8, 16) and record.params["ranks"] == "2"
    for environment in (tmp_path / "000000").rglob("work/environment.json"):
        log = (environment.parent / "submit.job").read_text()
        name = next(mpi for mpi in MPIS if f"--param mpi={mpi} " in log)
        assert MPIS[name] in json.loads(environment.read_text())["mpi"]["library"]
    lacking = {record.status for record in records if record.value is None}
    assert lacking and all(
        status.startswith("unavailable: no osu_bw below") or "osu_" in status for status in lacking
    )


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", ["osu", "imb"])
def test_a_module_may_have_a_slash_in_its_name(
    tmp_path: Path, modules: dict[str, str], benchmark: str
) -> None:
    run_jube(
        f"benchmarks/{benchmark}/benchmark.xml", tmp_path, **modules, NPC_MPI="OpenMPI/4.1.5",
        NPC_OSU_KINDS="pt2pt", NPC_OSU_MAX_SIZE="2", NPC_OSU_PREFIX="/opt/{mpi}",
        NPC_IMB_PREFIX="/opt/{mpi}",
    )  # fmt: skip
    finish(NPC, "records", "collect", tmp_path)
    records = list(read_csv(tmp_path / "000000/records.csv"))
    assert records
    for record in records:
        assert record.status.startswith("unavailable: no ") and "_prefix /opt/OpenMPI/4.1.5" in record.status


@pytest.mark.slow
def test_a_build_is_made_once_and_a_broken_source_says_why(tmp_path: Path, source: Path) -> None:
    build = f"bash {ROOT}/benchmarks/osu/build.sh"
    for _ in range(2):
        ended = in_job("openmpi", CACHE, tmp_path, f"{build} {source} {tmp_path}/cache {CACHE}")
        assert ended.returncode == 0, ended.stderr
    (program,) = (tmp_path / "osu-build").rglob("osu_latency")
    made = [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]
    assert len(made) == 1 and program.is_relative_to(tmp_path / "osu-build")
    run = in_job("openmpi", CACHE, tmp_path, f"mpirun -n 2 {program} -m 8")
    readings = parsers.parse("osu", run.stdout)
    assert [reading.size for reading in readings] == [1, 2, 4, 8]
    assert {(reading.case, reading.status) for reading in readings} == {("osu_latency", OK)}

    broken = tmp_path / "broken"
    broken.mkdir()
    with tarfile.open(source) as tar:
        tar.extractall(broken, filter="data")
    (broken / "suite-1.0/latency.c").write_text("int main( nonsense")
    ended = in_job("openmpi", CACHE, tmp_path, f"{build} {broken}/suite-1.0 {tmp_path}/cache {CACHE}")
    assert ended.returncode == 1 and "does not build: latency.c" in ended.stderr
    ended = in_job("openmpi", CACHE, tmp_path, f"{build} {tmp_path}/nowhere {tmp_path}/cache {CACHE}")
    assert ended.returncode == 1 and ended.stderr.startswith("osu_source: cannot read")


@pytest.mark.slow
def test_each_source_has_a_build_of_its_own_however_it_was_packed(tmp_path: Path, source: Path) -> None:
    """Folders older than the root directory as well, and an archive of ``./suite-1.0``."""
    sources = []
    for name in ("one", "other"):
        with tarfile.open(source) as tar:
            tar.extractall(tmp_path / name, filter="data")
        sources.append(tmp_path / name / "suite-1.0")
    program = sources[1] / "latency.c"
    program.write_text(program.read_text().replace("Latency Test v7.4", "Latency Test v7.5"))
    for path in (path for folder in sources for path in folder.iterdir()):
        os.utime(path, (1e9, 1e9))
    dotted = tmp_path / "dotted.tar.gz"
    subprocess.run(["tar", "czf", dotted, "-C", source.parent, "./suite-1.0"], check=True)
    build = f"bash {ROOT}/benchmarks/osu/build.sh"
    built = []
    for each in (*sources, dotted):
        ended = in_job("openmpi", CACHE, tmp_path, f"{build} {each} {tmp_path}/cache {CACHE}")
        assert ended.returncode == 0, ended.stderr
        built.append((tmp_path / "osu-build").resolve())
    assert len(set(built)) == 3
    assert b"v7.5" in next(built[1].rglob("osu_latency")).read_bytes()


@pytest.mark.slow
def test_the_intel_benchmarks_run_under_two_mpis_and_never_as_singletons(tmp_path: Path) -> None:
    ended = run_jube(
        "benchmarks/imb/benchmark.xml", tmp_path, NPC_MPI="openmpi,mpich,impi",
        NPC_IMB_TESTS="PingPong", NPC_IMB_MSGLOG="3:5", NPC_IMB_OPTIONS="-iter 20",
    )  # fmt: skip
    assert states(ended)["imb"]["error"] == 1
    finish(NPC, "records", "collect", tmp_path)
    records = list(read_csv(tmp_path / "000000/records.csv"))
    (refused,) = (record for record in records if record.value is None)
    assert refused.status.startswith("unavailable: IMB-MPI1 needs libmpi.so.12, which this MPI has not")
    latencies = [record for record in records if record.metric == "latency"]
    assert {(record.params["mpi"], record.size) for record in latencies if record.value} == {
        (mpi, size) for mpi in ("mpich", "impi") for size in (0, 8, 16, 32)
    }
    assert {record.params["ranks"] for record in latencies if record.value} == {"2"}
