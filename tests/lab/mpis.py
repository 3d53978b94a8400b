"""The MPIs that tests of programs run under: Debian's Open MPI and MPICH, Intel's wheel."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.lab.npb_job import MPI_ENVIRONMENT

WHEELS = Path(sys.prefix) / "share/npc/mpi"


class Mpi(NamedTuple):
    """How its programs are compiled and started, and how it calls itself."""

    compiler: str
    launcher: str
    environment: Mapping[str, str]
    name: str


#: Intel's package has no compiler: what MPICH's compiles runs with it (MPICH ABI).
MPIS = {
    "openmpi": Mpi("mpicc.openmpi", "mpirun.openmpi", MPI_ENVIRONMENT, "Open MPI v4"),
    "mpich": Mpi("mpicc.mpich", "mpirun.mpich", {}, "MPICH Version: 4"),
    "intel": Mpi(
        str(WHEELS / "mpich/bin/mpicc"),
        str(WHEELS / "impi/bin/mpirun"),
        {
            "LD_LIBRARY_PATH": f"{WHEELS}/impi/lib:{WHEELS}/impi/lib/libfabric",
            "I_MPI_ROOT": f"{WHEELS}/impi",
            "FI_PROVIDER_PATH": f"{WHEELS}/impi/lib",
        },
        "Intel(R) MPI Library",
    ),
}
