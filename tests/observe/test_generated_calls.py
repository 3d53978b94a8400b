"""The table of MPI's calls, and the wrappers that are generated from it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from observe.mpi.generate import Call, read_calls, sources

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


def _declared(compiler: str) -> dict[str, list[str]]:
    """The functions that mpi.h declares and the types of their arguments, without const and names."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler}: npc/setup.sh --tests")
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
