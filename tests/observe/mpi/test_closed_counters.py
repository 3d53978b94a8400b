"""Descriptors that the profiling library holds in a program, which may close them and open others there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.lab.mpis import MPIS
from tests.lab.profiled import compiled, run
from tests.paths import ROOT

pytestmark = pytest.mark.slow

CLOSED = "no counters of instructions and cycles: the program has closed them"


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
@pytest.mark.parametrize("first", ["keeps", "pipe", "file"])
def test_what_stands_in_the_place_of_a_counter_is_not_read(name: str, first: str, tmp_path: Path) -> None:
    """A pipe with nothing in it would block MPI_Finalize, and a file would lose eight bytes."""
    hardware = tmp_path / "hardware_events.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", ROOT / "tests/lab/hardware_events.c", "-o", hardware, "-ldl"], check=True
    )
    mpi = MPIS[name]
    program = compiled(mpi, "closes", tmp_path)
    preloading = mpi._replace(environment={**mpi.environment, "LD_PRELOAD": str(hardware)})
    ended = run(preloading, 1, tmp_path / "ranks", program, first)
    assert (ended.code, ended.out) == (0, "2 counters, 0 files read\n"), ended.err
    (profile,) = ended.profiles
    assert profile.finalized
    assert (profile.instructions is None) == (CLOSED in profile.notes) == (first != "keeps")
