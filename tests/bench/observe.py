"""What the profiling library costs a call of MPI: `make bench-observe`.

    python -m tests.bench.observe [--mpi NAME…] [--blocks N]

A call as it is, with two readings of the clock around it, and through the library, in turn in one process
(tests/observe/programs/cost.c); medians over blocks of 2000 calls. Fails where the library costs a call that
moves nothing more than 1.3 times the two readings.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from npc.observe.mpi.build import library_for, mpi_of
from npc.observe.mpi.place import ProfileFile
from npc.statistics.medians import summarise
from tests.lab.npb_job import MPI_ENVIRONMENT
from tests.paths import ROOT

MOST = 1.3
CALLS = 2000
#: Messages have more to be kept of them: printed, not judged.
JUDGED = ("MPI_Iprobe", "MPI_Barrier")
#: Measured once on a virtual machine with two cores; an empty MPI_Iprobe, µs.
OTHERS = """\
for comparison, an empty MPI_Iprobe measured once on another machine with two cores:
  alone 0.2 to 0.3 µs, with two clock_gettime 0.42 µs,
  with mpiP 3.5 without stacks 0.58 to 0.67 µs, with mpiP as it comes 12.4 to 13.5 µs"""


def costs(mpi: str, blocks: int, folder: Path) -> dict[str, list[tuple[float, float, float]]]:
    """Call → of each block: ns of one as it is, with two readings of the clock, with the library."""
    program = folder / f"cost.{mpi}"
    source = ROOT / "tests/observe/programs/cost.c"
    subprocess.run([f"mpicc.{mpi}", "-O2", source, "-o", program, "-ldl"], check=True)
    launch = [f"mpirun.{mpi}", "-n", "1"]
    profile = ProfileFile(str(library_for(launch, str(program))))
    found = profile.environment(os.getpid())
    command = [*launch, "env", *(f"{name}={text}" for name, text in found.items())]
    said = subprocess.run(
        [*command, program, str(mpi_of(str(program))), str(CALLS), str(blocks)],
        env={**os.environ, **MPI_ENVIRONMENT}, stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    by_call = defaultdict(list)
    for line in said.splitlines():
        name, *numbers = line.split()
        plain, clocks, profiled = map(float, numbers)
        by_call[name].append((plain, clocks, profiled))
    if not profile.keep(folder / f"{mpi}.mpi") == "":
        raise RuntimeError(f"{mpi}: nothing was counted")
    return by_call


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mpi", nargs="+", default=["openmpi", "mpich"], help="Debian's names of MPIs")
    parser.add_argument("--blocks", type=int, default=300)
    options = parser.parse_args()
    print(f"{'MPI':8} {'call':13} {'alone':>8} {'2 clocks':>9} {'library':>8} {'library / 2 clocks':>19}")
    bad = 0
    with tempfile.TemporaryDirectory(prefix="npc-bench-") as folder:
        for mpi in options.mpi:
            for call, rows in costs(mpi, options.blocks, Path(folder)).items():
                plain, clocks, profiled = (summarise(column).median for column in zip(*rows, strict=True))
                ratio = (profiled - plain) / (clocks - plain)
                dear = call in JUDGED and ratio > MOST
                bad += dear
                print(
                    f"{mpi:8} {call:13} {plain:5.1f} ns {clocks:6.1f} ns {profiled:5.1f} ns {ratio:19.2f}"
                    + ("   too much" if dear else "" if call in JUDGED else "   a send and a receive")
                )
    print(OTHERS)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
