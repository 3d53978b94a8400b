"""Ranks that lack the profiling library among others that have it: the program must not notice."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from npc.observe.mpi.generate import CALLED
from npc.observe.mpi.rank_file import read_rank_file
from tests.lab.mpis import MPIS
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.lab.profiled import compiled, run
from tests.paths import ROOT

#: What the library asks of MPI beside the call that it stands before. All of these are local.
LOCAL = {
    "Comm_get_name", "Comm_group", "Comm_rank", "Comm_remote_group", "Comm_size", "Comm_test_inter",
    "File_get_group", "Get_elements_x", "Get_library_version", "Group_free", "Group_rank", "Group_size",
    "Group_translate_ranks", "Initialized", "Query_thread", "Test_cancelled", "Type_get_name", "Type_size",
    "Type_size_x", "Win_get_group", "Topo_test", "Cartdim_get", "Cart_shift", "Graph_neighbors_count",
    "Dist_graph_neighbors_count", "T_init_thread", "T_pvar_get_num", "T_pvar_get_info",
    "T_pvar_session_create", "T_pvar_handle_alloc", "T_pvar_start", "T_pvar_read",
}  # fmt: skip


def test_the_library_asks_nothing_of_mpi_that_another_rank_would_have_to_answer() -> None:
    lines = [
        line
        for path in (ROOT / "observe/mpi/library").glob("*.[ch]")
        for line in path.read_text(encoding="utf-8").splitlines()
        if not line.startswith(" *")
    ]
    asked = {name for line in lines for name in re.findall(r"\bPMPI_(\w+)\(", line)}
    assert asked and asked <= LOCAL
    assert set(CALLED) <= LOCAL


#: Each rank believes to be the only one on its node, by the variables of all launchers.
SEVERAL_NODES = """#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
export OMPI_COMM_WORLD_LOCAL_SIZE=1 MPI_LOCALNRANKS=1 PMI_LOCAL_SIZE=1
"""
#: What a rank's own script does before the program.
WAYS = {
    "binds at once": "export LD_BIND_NOW=1",
    "may write no file": "{ trap '' XFSZ; ulimit -f 1; }",  # by the signal Open MPI alone would end
    "loads nothing before it": "unset LD_PRELOAD",
    "has no file to count in": "export NPC_MPI_PROFILE=/nowhere/file",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "way"),
    # MPICH's own shared memory is a file, and a limit ends it alone, too
    [(name, way) for name in MPIS for way in WAYS if (name, way) != ("mpich", "may write no file")],
)
def test_a_rank_that_lacks_the_library_holds_up_nobody(name: str, way: str, tmp_path: Path) -> None:
    mpi = MPIS[name]
    if "/" in mpi.launcher and not Path(mpi.launcher).exists():
        pytest.skip(f"no {mpi.launcher}: npc/fetch_mpi.sh mpich impi")
    program = compiled(mpi, "many", tmp_path)
    script = tmp_path / "script"
    script.write_text(f"{SEVERAL_NODES}[ $rank = 1 ] && {WAYS[way]}\nexec {program}\n")
    script.chmod(0o755)
    ended = run(mpi, 3, tmp_path / "ranks", script)
    assert (ended.code, ended.out) == (0, "sum 3\n"), ended.err
    if [profile.rank for profile in ended.profiles] == [0, 1, 2]:  # MPI is found nonetheless
        assert way == "binds at once" and not ended.notes
    else:
        assert [profile.rank for profile in ended.profiles] == [0, 2]
        (note,) = ended.notes
        assert note.startswith("inside MPI: unavailable of rank 1: the program has called no MPI that")
        assert all(profile.finalized for profile in ended.profiles)


#: Starts a launcher's daemon of a host here, under that host's name; on n1 with a cache of its own.
AGENT = """#!/bin/sh
host=$1; shift
exec unshare --uts --mount sh -c "hostname $host; [ $host = n0 ] || mount -t tmpfs tmpfs $CACHE; exec $*"
"""


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.netns
def test_nodes_that_do_not_share_the_cache_load_the_library_from_the_ranks_folder(tmp_path: Path) -> None:
    mpi = MPIS["openmpi"]
    program = compiled(mpi, "many", tmp_path)
    cache, agent = tmp_path / "cache", tmp_path / "agent"
    cache.mkdir(mode=0o700)
    agent.write_text(AGENT.replace("$CACHE", str(cache)))
    agent.chmod(0o755)
    hosts = ["--host", "n0:1,n1:1", "--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1"]
    ended = subprocess.run(
        [
            Path(sys.executable).with_name("npc"), "observe", "--output", tmp_path / "observed", "--",
            mpi.launcher, *hosts, "-n", "2", program,
        ],
        env={**os.environ, **MPI_ENVIRONMENT, "XDG_CACHE_HOME": str(cache)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "sum 2\n"), ended.stderr
    ranks = tmp_path / "observed/raw/0000.ranks"
    assert {file.name for file in ranks.glob("*.mpi")} == {"n0.0.mpi", "n1.1.mpi"}, ended.stderr
    assert all(read_rank_file(file).finalized for file in ranks.glob("*.mpi"))
    assert not list(ranks.glob("*.so")), "it is there while the ranks run"


def test_a_node_without_the_library_says_so_and_runs_the_program(tmp_path: Path) -> None:
    """As where neither the cache nor the folder is shared."""
    mpi = MPIS["openmpi"]
    program = compiled(mpi, "many", tmp_path)
    ended = run(mpi, 2, tmp_path / "ranks", program, library="/nowhere/libnpcmpi.so")
    assert (ended.code, ended.out) == (0, "sum 2\n"), ended.err
    (note,) = ended.notes
    assert note.startswith("inside MPI: unavailable of 2 ranks (0-1): /nowhere/libnpcmpi.so is not on ")
