"""The FFT runs of this node: ``python cases.py > cases.jsonl`` for ``npc records sample --cases``.

One case for each library and number of threads, which measures all transforms.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from functools import partial

from npc.jobs.cases import libraries_of, numbers_of, write

LIBRARIES = ("FFTW", "MKL")
PLANNERS = ("estimate", "measure", "patient")
_TRANSFORM = re.compile(r"[13]d:[1-9][0-9]{0,9}(?::in)?")


def cases(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """All of them. Raises ValueError for a setting that cannot be, or without a library."""
    transforms = options.sizes.split(",")
    if not all(_TRANSFORM.fullmatch(word) for word in transforms):
        raise ValueError(f"fft_sizes {options.sizes}: 1d:N or 3d:N, in place 3d:N:in, commas between")
    if options.planner not in PLANNERS:
        raise ValueError(f"fft_planner {options.planner}: one of {', '.join(PLANNERS)}")
    counts = numbers_of("fft_threads", options.threads) if options.threads else (1, options.cores)
    libraries = libraries_of("fft_libraries", options.libraries, LIBRARIES, "libfftw3-double3")
    for path, library in libraries.items():
        for threads in sorted(set(counts)):
            params = {"threads": str(threads), "planner": options.planner}
            values = {"library": path, **params, "transforms": " ".join(transforms)}
            yield {"name": f"{library} {threads}", "values": values, "params": {"library": library, **params}}


def main() -> str | None:
    """Write the cases to stdout; returns what is wrong with the settings, or that there is no library."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="threads of the node")
    parser.add_argument("--threads", default="", help="numbers with commas between; empty: 1 and all cores")
    parser.add_argument("--libraries", default="", help=f"of {', '.join(LIBRARIES)}, or paths; empty: all")
    parser.add_argument("--sizes", default="1d:4096,3d:64,3d:64:in", help="1d:N or 3d:N, in place 3d:N:in")
    parser.add_argument("--planner", default="measure", help=f"one of {', '.join(PLANNERS)}")
    return write(partial(cases, parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
