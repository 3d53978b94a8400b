"""Write ``hpccinf.txt`` and ``cases.jsonl`` for HPC Challenge: ``python prepare.py --processes 4``.

The input file is that of HPL (https://www.netlib.org/benchmark/hpl/tuning.html) and five lines for PTRANS.
The order N of HPL's matrix rules all other parts, because each takes its share of the matrix' memory: one
array of STREAM is a third of it. So where neither N nor a share of the memory is asked for, N is the least
for which the STREAM arrays of all processes together are four times the last-level caches (STREAM's rule).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from npc.machine.topology import processors
from npc.validity.rules.cache import last_level_bytes

Number = TypeVar("Number", int, float)
#: STREAM: size of each array, in sizes of the last-level caches, at least.
CACHE_MULTIPLE = 4
#: Three arrays of STREAM lie in the memory of HPL's matrix.
STREAM_ARRAYS = 3
LEAST_N = 1000
#: Libraries that bring the matrix multiplication, on which HPL and DGEMM depend more than on anything else.
BLAS = re.compile(r"lib(?:[\w-]*blas[\w-]*|mkl_\w+|blis[\w-]*|sci_\w+|armpl\w*)\.so[\w.]*")

HPL = """\
HPLinpack benchmark input file
HPC Challenge of NPC
HPL.out      output file name (if any)
8            device out (6=stdout, 7=stderr, file)
1            # of problem sizes (N)
{n} Ns
1            # of NBs
{nb} NBs
0            PMAP process mapping (0=Row-, 1=Column-major)
1            # of process grids (P x Q)
{p} Ps
{q} Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criteria
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg, 1=1rM, 2=2rg, 3=2rM, 4=Lng, 5=LnM)
1            # of lookahead depth
1            DEPTHs (>= 0)
2            SWAP (0=bin-exch, 1=long, 2=mix)
64           swapping threshold
0            L1 in (0=transposed, 1=no-transposed) form
0            U  in (0=transposed, 1=no-transposed) form
1            Equilibration (0=no, 1=yes)
8            memory alignment in double (> 0)
##### a separator, which is passed over #####
0            number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""


def order_for_caches(caches_bytes: int) -> int:
    """The least N of which a third of the matrix is `CACHE_MULTIPLE` times the caches."""
    return max(LEAST_N, math.ceil(math.sqrt(CACHE_MULTIPLE * STREAM_ARRAYS * caches_bytes / 8)))


def order_for_memory(memory_bytes: int, share: float) -> int:
    """The largest N whose matrix of doubles takes no more than this share of the memory."""
    return math.isqrt(int(memory_bytes * share / 8))


def near_square(processes: int) -> tuple[int, int]:
    """P × Q as near to a square as can be, P at most Q, which is what HPL runs best on."""
    p = next(p for p in range(math.isqrt(processes), 0, -1) if processes % p == 0)
    return p, processes // p


def read_grid(text: str, processes: int) -> tuple[int, int]:
    """(P, Q) of ``2x4``. Raises ValueError unless it is of as many processes as there are."""
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None or int(match[1]) * int(match[2]) != processes:
        raise ValueError(f"hpcc_grid {text}: not P x Q of {processes} processes (example: 1x{processes})")
    return int(match[1]), int(match[2])


def number(kind: Callable[[str], Number], setting: str, text: str) -> Number:
    """A setting that is a number. Raises ValueError with the setting's name."""
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{setting} {text}: not a {'whole ' if kind is int else ''}number") from None


def blas_of(program: str) -> str:
    """The library that the dynamic linker gives the program for its matrix multiplication; "" if none."""
    try:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    for name, path in re.findall(r"(\S+) => (\S+)", listed):
        if BLAS.fullmatch(name):
            return str(Path(path).resolve())
    return ""


def main() -> str | None:
    """Write both files; returns what went wrong, for a person."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", default="hpcc", help="the program")
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--n", default="", help="order of HPL's matrix")
    parser.add_argument("--memory-share", default="", help="part of the nodes' memory, 0 to 1")
    parser.add_argument("--nb", type=int, default=192, help="block size")
    parser.add_argument("--grid", default="", help="PxQ")
    options = parser.parse_args()
    program = shutil.which(options.command)
    if program is None:
        return (
            f"unavailable: {options.command}: not found in PATH on {os.uname().nodename}: "
            "`npc doctor` says how to get HPCC here; NPC_HPCC_COMMAND names a build"
        )
    try:
        if options.processes < 1:
            raise ValueError(f"hpcc_tasks: {options.processes} processes: at least 1")
        p, q = read_grid(options.grid, options.processes) if options.grid else near_square(options.processes)
        if options.n:
            n = number(int, "hpcc_n", options.n)
        elif options.memory_share:
            share = number(float, "hpcc_memory_share", options.memory_share)
            if not 0 < share <= 1:
                raise ValueError(f"hpcc_memory_share {share:g}: not above 0 and at most 1")
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * options.nodes
            n = order_for_memory(memory, share) // options.nb * options.nb
        else:
            n = (
                -(-order_for_caches(last_level_bytes(processors()["caches"]) * options.nodes) // options.nb)
                * options.nb
            )
        if n < 1 or options.nb < 1:
            raise ValueError(f"hpcc_n {n}, hpcc_nb {options.nb}: both must be positive")
    except ValueError as error:
        return f"prepare.py: {error}"
    Path("hpccinf.txt").write_text(HPL.format(n=n, nb=options.nb, p=p, q=q))
    blas = blas_of(program)
    case = {"name": "hpcc", "values": {}, "params": {"blas": blas} if blas else {}}
    Path("cases.jsonl").write_text(json.dumps(case) + "\n")
    return None


if __name__ == "__main__":
    sys.exit(main())
