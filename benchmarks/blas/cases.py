"""The BLAS runs of this node: ``python cases.py > cases.jsonl`` for ``npc records sample --cases``.

One case for each library and number of threads, which measures all routines at all sizes. By default the
size grows with the threads' root, so that a thread's part of a matrix stays the same.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator
from functools import partial

from npc.jobs.cases import libraries_of, numbers_of, words_of, write

LIBRARIES = ("OpenBLAS", "BLIS", "MKL")
#: Order of the matrix of one thread by default: one with which a core reaches what it can, and one that shows
#: how much of that is left for small ones. A complex product of half the order has half of the FLOP.
ORDERS = {"dgemm": (256, 768), "zgemm": (128, 384)}
#: Of the kernels' blocks: no order leaves a rest.
MULTIPLE = 64


def cases(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """All of them. Raises ValueError for a setting that cannot be, or without a library."""
    routines = words_of("blas_routines", options.routines, ORDERS)
    counts = numbers_of("blas_threads", options.threads) if options.threads else (1, options.cores)
    sizes = numbers_of("blas_sizes", options.sizes) if options.sizes else []
    libraries = libraries_of("blas_libraries", options.libraries, LIBRARIES, "libopenblas0-pthread")
    for path, library in libraries.items():
        for threads in sorted(set(counts)):
            orders = {
                routine: sizes or (small, MULTIPLE * math.ceil(large * math.sqrt(threads) / MULTIPLE))
                for routine, (small, large) in ORDERS.items()
            }
            words = [f"{routine}:{order}" for routine in routines for order in orders[routine]]
            values = {"library": path, "threads": str(threads), "products": " ".join(words)}
            params = {"library": library, "threads": str(threads)}
            yield {"name": f"{library} {threads}", "values": values, "params": params}


def main() -> str | None:
    """Write the cases to stdout; returns what is wrong with the settings, or that there is no library."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="threads of the node")
    parser.add_argument("--threads", default="", help="numbers with commas between; empty: 1 and all cores")
    parser.add_argument("--libraries", default="", help=f"of {', '.join(LIBRARIES)}, or paths; empty: all")
    parser.add_argument("--routines", default="dgemm,zgemm", help="of dgemm, zgemm")
    parser.add_argument("--sizes", default="", help="orders of the matrices; empty: by the threads")
    return write(partial(cases, parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
