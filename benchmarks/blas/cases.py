"""The BLAS runs of this node: ``python cases.py > cases.jsonl`` for ``npc sample --cases``.

One case for each library and number of threads, which measures all routines at all sizes. By default the
size grows with the threads' root, so that a thread's part of a matrix stays the same.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import sys

from npc.machine.libraries import chosen

LIBRARIES = ("OpenBLAS", "BLIS", "MKL")
#: Order of the matrix of one thread by default: one with which a core reaches what it can, and one that shows
#: how much of that is left for small ones. A complex product of half the order has half of the FLOP.
ORDERS = {"dgemm": (256, 768), "zgemm": (128, 384)}
#: Of the kernels' blocks: no order leaves a rest.
MULTIPLE = 64


def numbers(text: str) -> list[int]:
    """Numbers with commas between. Raises ValueError."""
    found = [int(word) for word in text.split(",") if word]
    if any(number < 1 for number in found):
        raise ValueError
    return found


def main() -> str | None:
    """Write the cases to stdout; returns what is wrong with the settings, or that there is no library."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="threads of the node")
    parser.add_argument("--threads", default="", help="numbers with commas between; empty: 1 and all cores")
    parser.add_argument("--libraries", default="", help=f"of {', '.join(LIBRARIES)}, or paths; empty: all")
    parser.add_argument("--routines", default="dgemm,zgemm", help="of dgemm, zgemm")
    parser.add_argument("--sizes", default="", help="orders of the matrices; empty: by the threads")
    options = parser.parse_args()
    routines = [word for word in options.routines.split(",") if word]
    if not routines or not set(routines) <= set(ORDERS):
        return f"cases.py: blas_routines {options.routines}: of {', '.join(ORDERS)}"
    for name in ("threads", "sizes"):
        try:
            setattr(options, name, numbers(getattr(options, name)))
        except ValueError:
            given = getattr(options, name)
            return f"cases.py: blas_{name} {given}: whole numbers of at least 1, commas between"
    try:
        libraries = chosen(options.libraries, LIBRARIES)
    except ValueError as error:
        return f"cases.py: blas_libraries {error}"
    if not libraries:
        return (
            f"unavailable: none of {', '.join(LIBRARIES)} on {socket.gethostname()}: apt-get install "
            "libopenblas0-pthread, load a module, or name one by --set blas_libraries=PATH"
        )
    for path, library in libraries.items():
        for threads in sorted(set(options.threads or (1, options.cores))):
            orders = {
                routine: options.sizes or (small, MULTIPLE * math.ceil(large * math.sqrt(threads) / MULTIPLE))
                for routine, (small, large) in ORDERS.items()
            }
            words = [f"{routine}:{order}" for routine in routines for order in orders[routine]]
            values = {"library": path, "threads": str(threads), "products": " ".join(words)}
            params = {"library": library, "threads": str(threads)}
            print(json.dumps({"name": f"{library} {threads}", "values": values, "params": params}))
    return None


if __name__ == "__main__":
    sys.exit(main())
