"""The table of MPI's calls, and the wrappers that are generated from it."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from npc.observe.mpi.build import library_for
from npc.observe.mpi.calls import Call, read_calls
from npc.observe.mpi.generate import sources
from npc.observe.mpi.profile import RankProfile
from npc.observe.mpi.rank_file import read_rank_file
from tests.paths import ROOT

PROGRAMS = ROOT / "tests/observe/programs"
LIBRARY = Path("observe/mpi/library").resolve()
#: Debian's MPIs; the one has all of MPI-4, the other MPI-3.1.
COMPILERS = ("mpicc.mpich", "mpicc.openmpi")


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    return read_calls()


def test_every_call_is_there_once_and_in_order(calls: list[Call]) -> None:
    names = [call.name for call in calls]
    assert names == sorted(set(names))
    assert {name.removesuffix("_c") for name in names} == {call.counted for call in calls}


@pytest.mark.parametrize(
    "name",
    [
        "MPI_Issend", "MPI_Send_init_c", "MPI_Isendrecv_replace", "MPI_Imrecv", "MPI_Psend_init",
        "MPI_Testsome", "MPI_Iallreduce", "MPI_Alltoallw_init_c", "MPI_Ineighbor_alltoallv",
        "MPI_Rget_accumulate", "MPI_Win_allocate_shared_c", "MPI_File_iread_at_all",
        "MPI_File_write_ordered_begin_c", "MPI_File_read_all_end", "MPI_Comm_idup_with_info",
        "MPI_Comm_spawn_multiple",
    ],
)  # fmt: skip
def test_forms_of_calls(calls: list[Call], name: str) -> None:
    assert name in {call.name for call in calls}


def test_large_counts_are_those_of_the_plain_call(calls: list[Call]) -> None:
    by_name = {call.name: call for call in calls}
    large = by_name["MPI_Gatherv_c"]
    assert large.counted == "MPI_Gatherv"
    assert large.args["recvcounts"] == "const MPI_Count *"
    assert large.args["displs"] == "const MPI_Aint *"
    assert by_name["MPI_Gatherv"].args["displs"] == "const int *"
    assert "MPI_Barrier_c" not in by_name
    assert "MPI_Psend_init_c" not in by_name


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_bindings_are_those_of_mpi_h(calls: list[Call], compiler: str) -> None:
    declared = _declared(compiler)
    for call in calls:
        if call.name in declared and call.name != "MPI_Pcontrol":
            types = [_without_const(text) for text in call.args.values()]
            assert types == declared[call.name], call.name
    known = {call.name for call in calls}
    if compiler == "mpicc.mpich":  # MPI-4
        assert known <= set(declared)
    missing = {name for name in declared if name not in known and _counts(name, declared[name])}
    assert missing == _LEFT_OUT & set(declared)


#: Calls with bytes or a communicator that only ask or describe, and take no time.
_LEFT_OUT = {"MPI_Pack", "MPI_Reduce_local", "MPI_Unpack", "MPI_Reduce_local_c"}


def _counts(name: str, types: list[str]) -> bool:
    """Whether a call of mpi.h moves bytes, or has to do with a request."""
    if name.startswith(("MPI_Pack_", "MPI_Unpack_", "MPI_Grequest", "MPI_Request_c2f", "MPI_Request_get_")):
        return False
    return "MPI_Request*" in types or ("void*" in types and "MPI_Datatype" in types and "_attr" not in name)


def test_only_declared_calls_are_wrapped() -> None:
    made = sources({"MPI_Send", "MPI_Send_c", "MPI_Recv", "MPI_Comm_rank"})
    assert re.findall(r"NPC_\w+", made["calls.h"]) == ["NPC_MPI_Recv", "NPC_MPI_Send", "NPC_CALLS"]
    assert set(re.findall(r'__asm__\("(\w+)"\)', made["wrappers.c"])) == {
        "MPI_Recv", "PMPI_Recv", "MPI_Send", "PMPI_Send", "MPI_Send_c", "PMPI_Send_c",
    }  # fmt: skip


# --- with MPI ------------------------------------------------------------------------------------------

#: A program under the library; each rank counts in a file of its own.
RANK = """
folder=$1 library=$2; shift 2
profile=$folder/${OMPI_COMM_WORLD_RANK-$PMI_RANK}
: > "$profile"
NPC_MPI_PROFILE=$profile LD_PRELOAD=$library exec "$@"
"""


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe"):
        monkeypatch.setenv(f"OMPI_{name}", "1")


def _need(*commands: str) -> None:
    for command in commands:
        if shutil.which(command) is None:
            pytest.skip(f"no {command}: npc/setup.sh --tests")


def _profiles(folder: Path, mpi: str, ranks: int, *program: str | Path) -> list[RankProfile]:
    library = library_for([f"mpirun.{mpi}"], str(program[0]))
    command = [f"mpirun.{mpi}", "-n", str(ranks), "sh", "-c", RANK, "rank", folder, library, *program]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    (folder / "stdout").write_text(done.stdout)
    return [read_rank_file(folder / str(rank)) for rank in range(ranks)]


def _counted(profile: RankProfile) -> dict[str, tuple[int, int]]:
    """Calls and bytes by name."""
    number: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for calls in profile.calls:
        number[calls.call] += calls.calls
        size[calls.call] += calls.bytes
    return {name: (number[name], size[name]) for name in number}


@pytest.mark.slow
@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_the_library_compiles_without_a_warning(tmp_path: Path, mpi: str) -> None:
    for name, text in sources(frozenset(_declared(f"mpicc.{mpi}"))).items():
        (tmp_path / name).write_text(text)
    for unit in (tmp_path / "wrappers.c", *LIBRARY.glob("*.c")):
        done = subprocess.run(
            [f"mpicc.{mpi}", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
             f"-I{tmp_path}", f"-I{LIBRARY}", unit],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_counts_are_those_of_the_program(tmp_path: Path, mpi: str) -> None:
    _need(f"mpicc.{mpi}", f"mpirun.{mpi}")
    program = tmp_path / "calls"
    subprocess.run([f"mpicc.{mpi}", "-w", "-o", program, PROGRAMS / "calls.c"], check=True)
    profiles = _profiles(tmp_path, mpi, 4, program, tmp_path / "written")
    mpi_4 = mpi == "mpich"
    for rank, profile in enumerate(profiles):
        counted = _counted(profile)
        assert 1 <= counted["MPI_Waitsome"][0] <= 3
        assert counted.pop("MPI_Waitsome")[1] == 12
        assert counted.pop("MPI_Test")[1] == 0
        assert counted == {name: each for name, each in _in_c(rank, mpi_4).items() if each[0]}
        assert profile.finalized
        sent = {(peer.rank, peer.kind): (peer.messages, peer.bytes) for peer in profile.peers}
        even, following, other = mpi_4 and rank % 2 == 0, (rank + 1) % 4, (rank + 2) % 4
        assert sent == {
            (following, "user"): (10 + even + mpi_4, 180 + 48 * even + 48 * mpi_4),
            (other, "user"): (1, 16),
            (following, "put"): (6, 84),
            (following, "get"): (3, 24),
            ((rank - 1) % 4, "get"): (1, 24),
        }


def _in_c(rank: int, mpi_4: bool) -> dict[str, tuple[int, int]]:
    """Calls and bytes of a rank of calls.c: 4 bytes an int."""
    even, odd = mpi_4 and rank % 2 == 0, mpi_4 and rank % 2 == 1
    neighbours = 1 if rank in (0, 3) else 2
    return {
        "MPI_Accumulate": (1, 12),
        "MPI_Allgather": (1, 8),
        "MPI_Allgatherv": (1, 4 * (rank + 1)),
        "MPI_Allreduce": (int(mpi_4), 8 * mpi_4),
        "MPI_Allreduce_init": (int(mpi_4), 0),
        "MPI_Alltoall": (1, 4 * 12),
        "MPI_Alltoallv": (1, 4 * 4 * (rank + 1)),
        "MPI_Alltoallw": (1, 2 * 4 + 2 * 3),
        "MPI_Barrier": (1, 0),
        "MPI_Bcast": (1, 0 if rank == 1 else 20),
        "MPI_Cart_create": (1, 0),
        "MPI_Comm_disconnect": (1, 0),
        "MPI_Comm_dup": (1, 0),
        "MPI_Comm_idup": (1, 0),
        "MPI_Comm_free": (5, 0),
        "MPI_Comm_split": (1, 0),
        "MPI_Compare_and_swap": (1, 8),
        "MPI_Dist_graph_create_adjacent": (1, 0),
        "MPI_Fetch_and_op": (1, 8),
        "MPI_File_close": (1, 0),
        "MPI_File_iwrite_at": (1, 8),
        "MPI_File_open": (1, 0),
        "MPI_File_read_at": (1, 16),
        "MPI_File_read_at_all": (1, 32),
        "MPI_File_seek": (1, 0),
        "MPI_File_sync": (2, 0),
        "MPI_File_write_all_begin": (1, 32),
        "MPI_File_write_all_end": (1, 0),
        "MPI_File_write_at": (1, 24),
        "MPI_Gather": (1, {0: 12, 1: 12, 2: 0, 3: 24}[rank]),
        "MPI_Gatherv": (1, 4 * (rank + 1)),
        "MPI_Get": (1, 24),
        "MPI_Get_accumulate": (1, 32),
        "MPI_Iallreduce": (1, 32),
        "MPI_Ibcast": (1, 40),
        "MPI_Intercomm_create": (1, 0),
        "MPI_Irecv": (5, 0),
        "MPI_Isend": (1, 28),
        "MPI_Mprobe": (1, 0),
        "MPI_Mrecv": (1, 28),
        "MPI_Neighbor_allgather": (1, 20),
        "MPI_Neighbor_alltoall": (2, 12 * neighbours + 4),
        "MPI_Neighbor_alltoallv": (1, 8 * neighbours),
        "MPI_Pready": (int(mpi_4), 0),
        "MPI_Pready_range": (int(mpi_4), 0),
        "MPI_Precv_init": (int(mpi_4), 0),
        "MPI_Psend_init": (int(mpi_4), 0),
        "MPI_Put": (2, 40),
        "MPI_Recv": (2 + odd, 16 + 48 * odd),
        "MPI_Recv_init": (1, 0),
        "MPI_Reduce": (1, 20),
        "MPI_Reduce_scatter": (1, 40),
        "MPI_Reduce_scatter_block": (1, 48),
        "MPI_Request_free": (2 + 3 * mpi_4, 0),
        "MPI_Rput": (1, 8),
        "MPI_Rsend": (1, 0),
        "MPI_Scan": (1, 24),
        "MPI_Scatter": (1, 32 if rank == 0 else 8),
        "MPI_Scatterv": (1, 40 if rank == 2 else 4 * (rank + 1)),
        "MPI_Send": (6 + even, 32 + 48 * even),
        "MPI_Send_init": (1, 0),
        "MPI_Sendrecv": (1, 88),
        "MPI_Ssend": (1, 20),
        "MPI_Start": (2 * mpi_4, 32 * mpi_4),
        "MPI_Startall": (3 + mpi_4, 72 + 48 * mpi_4),
        "MPI_Wait": (6 + 2 * mpi_4, 20),
        "MPI_Waitall": (4 + mpi_4, 72 + 48 * mpi_4),
        "MPI_Waitany": (1, 4),
        "MPI_Win_allocate": (1, 0),
        "MPI_Win_complete": (1, 0),
        "MPI_Win_fence": (2, 0),
        "MPI_Win_flush": (1, 0),
        "MPI_Win_free": (1, 0),
        "MPI_Win_lock": (1, 0),
        "MPI_Win_post": (1, 0),
        "MPI_Win_start": (1, 0),
        "MPI_Win_unlock": (1, 0),
        "MPI_Win_wait": (1, 0),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mpi", "flags"),
    [
        ("openmpi", ["-DF08"]),
        ("openmpi", []),
        ("mpich", ["-DF08"]),
        ("mpich", ["-DMPIF_H", "-fsecond-underscore", "-fallow-argument-mismatch"]),  # mpi_send__
    ],
)
def test_fortran_is_counted_once(tmp_path: Path, mpi: str, flags: list[str]) -> None:
    _need(f"mpifort.{mpi}", "gfortran")
    program = tmp_path / "calls"
    subprocess.run([f"mpifort.{mpi}", "-w", *flags, "-o", program, PROGRAMS / "calls.F90"], check=True)
    for rank, profile in enumerate(_profiles(tmp_path, mpi, 3, program)):
        assert _counted(profile) == {
            "MPI_Allreduce": (1, 32),
            "MPI_Barrier": (1, 0),
            "MPI_Comm_free": (1, 0),
            "MPI_Comm_split": (1, 0),
            "MPI_Gather": (1, 16),
            "MPI_Irecv": (8, 0),
            "MPI_Isend": (7, 2240),
            "MPI_Recv": (2, 80),
            "MPI_Request_free": (1, 0),
            "MPI_Send": (1, 400),
            "MPI_Send_init": (1, 0),
            "MPI_Sendrecv": (1, 48),
            "MPI_Start": (2, 80),
            "MPI_Wait": (3, 400),
            "MPI_Waitall": (7, 2240),
        }
        [peer] = profile.peers
        assert (peer.rank, peer.messages, peer.bytes) == ((rank + 1) % 3, 11, 2240 + 24 + 80 + 400)
        assert {calls.call for calls in profile.calls if calls.region == "7"} == {
            "MPI_Recv", "MPI_Start", "MPI_Wait",
        }  # fmt: skip


#: A profiling library of someone else, as `mpiP` is, and a program that is linked with it.
TOOL = """
#include <mpi.h>
#include <stdio.h>
static int sends;
int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}
int MPI_Finalize(void)
{
    printf("%d sends\\n", sends);
    return PMPI_Finalize();
}
"""
TOOLED = """
#include <mpi.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 5; i++)
        MPI_Send(&i, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_another_profiling_library_still_sees_its_calls(tmp_path: Path, shared: bool) -> None:
    _need("mpicc.openmpi", "mpirun.openmpi")
    tool, source, program = tmp_path / "libtool.so", tmp_path / "tooled.c", tmp_path / "tooled"
    (tmp_path / "tool.c").write_text(TOOL)
    source.write_text(TOOLED)
    if shared:
        subprocess.run(["mpicc.openmpi", "-shared", "-fPIC", "-o", tool, tmp_path / "tool.c"], check=True)
    with_it = [tool, f"-Wl,-rpath,{tmp_path}"] if shared else [tmp_path / "tool.c"]
    subprocess.run(["mpicc.openmpi", "-o", program, source, *with_it], check=True)
    [profile] = _profiles(tmp_path, "openmpi", 1, program)
    assert _counted(profile) == {"MPI_Send": (5, 0)}
    assert (tmp_path / "stdout").read_text() == "5 sends\n"


@pytest.mark.slow
def test_a_program_with_a_graph_of_processes_is_not_harmed(tmp_path: Path) -> None:
    """Open MPI's monitoring would crash it."""
    _need("mpicc.openmpi", "mpirun.openmpi")
    program, output = tmp_path / "calls", tmp_path / "observed"
    subprocess.run(["mpicc.openmpi", "-w", "-o", program, PROGRAMS / "calls.c"], check=True)
    command = ["mpirun.openmpi", "-n", "4", program, tmp_path / "written"]
    done = subprocess.run(
        [sys.executable, "-m", "npc", "observe", "--output", output, "--", *command],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "npc observe: Open MPI's monitoring stays off" in done.stderr
    assert "MPI user: 784 B in 44 messages" in done.stderr
    profiles = [read_rank_file(file) for file in sorted((output / "raw").rglob("*.mpi"))]
    assert [profile.finalized for profile in profiles] == [True] * 4


#: A program that loads MPI for one of its parts only, as Python does for a module.
PART = """
#include <mpi.h>
void part(void)
{
    MPI_Init(0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
"""
HOST = """
#include <dlfcn.h>
int main(int argc, char **argv)
{
    void *part = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    ((void (*)(void))dlsym(part, "part"))();
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_mpi_that_is_loaded_late_and_for_one_part_is_counted(tmp_path: Path, mpi: str) -> None:
    _need(f"mpicc.{mpi}", f"mpirun.{mpi}")
    part, host = tmp_path / "part.so", tmp_path / "host"
    (tmp_path / "part.c").write_text(PART)
    (tmp_path / "host.c").write_text(HOST)
    subprocess.run([f"mpicc.{mpi}", "-shared", "-fPIC", "-o", part, tmp_path / "part.c"], check=True)
    subprocess.run(["cc", "-o", host, tmp_path / "host.c", "-ldl"], check=True)
    [profile] = _profiles(tmp_path, mpi, 1, host, part)
    assert _counted(profile) == {"MPI_Barrier": (1, 0)}


@functools.cache
def _declared(compiler: str) -> dict[str, list[str]]:
    """The functions that mpi.h declares and the types of their arguments, without const and names."""
    _need(compiler)
    text = subprocess.run(
        [compiler, "-E", "-P", "-x", "c", "-include", "mpi.h", "/dev/null"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = re.findall(r"\bint\s+(MPI_\w+)\s*\(([^()]*)\)", text)
    return {
        name: [_without_name(arg) for arg in args.split(",") if arg.strip() not in ("", "void")]
        for name, args in found
    }


def _without_const(text: str) -> str:
    return re.sub(r"\bconst\b|\s", "", text)


def _without_name(arg: str) -> str:
    """``const int recvcounts[]`` → ``int*``"""
    arrays = len(re.findall(r"\[[^\]]*\]", arg))
    words = re.sub(r"\[[^\]]*\]|\bconst\b", " ", arg)
    of_type = re.match(r"\s*(\w+|\.\.\.)([\s*]*)", words)
    assert of_type is not None
    return of_type[1] + "*" * (of_type[2].count("*") + arrays)
