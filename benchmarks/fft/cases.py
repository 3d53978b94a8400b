"""The FFT runs of this node: ``python cases.py > cases.jsonl`` for ``npc sample --cases``.

One case for each library and number of threads, which measures all transforms.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import sys

from npc.machine.libraries import chosen

LIBRARIES = ("FFTW", "MKL")
PLANNERS = ("estimate", "measure", "patient")
_TRANSFORM = re.compile(r"[13]d:[1-9][0-9]{0,9}(?::in)?")


def main() -> str | None:
    """Write the cases to stdout; returns what is wrong with the settings, or that there is no library."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="threads of the node")
    parser.add_argument("--threads", default="", help="numbers with commas between; empty: 1 and all cores")
    parser.add_argument("--libraries", default="", help=f"of {', '.join(LIBRARIES)}, or paths; empty: all")
    parser.add_argument("--sizes", default="1d:4096,3d:64,3d:64:in", help="1d:N or 3d:N, in place 3d:N:in")
    parser.add_argument("--planner", default="measure", help=f"one of {', '.join(PLANNERS)}")
    options = parser.parse_args()
    transforms = options.sizes.split(",")
    if not all(_TRANSFORM.fullmatch(word) for word in transforms):
        return f"cases.py: fft_sizes {options.sizes}: 1d:N or 3d:N, in place 3d:N:in, commas between"
    if options.planner not in PLANNERS:
        return f"cases.py: fft_planner {options.planner}: one of {', '.join(PLANNERS)}"
    try:
        asked = [int(word) for word in options.threads.split(",") if word]
        if any(number < 1 for number in asked):
            raise ValueError
    except ValueError:
        return f"cases.py: fft_threads {options.threads}: whole numbers of at least 1, commas between"
    try:
        libraries = chosen(options.libraries, LIBRARIES)
    except ValueError as error:
        return f"cases.py: fft_libraries {error}"
    if not libraries:
        return (
            f"unavailable: none of {', '.join(LIBRARIES)} on {socket.gethostname()}: apt-get install "
            "libfftw3-double3, load a module, or name one by --set fft_libraries=PATH"
        )
    for path, library in libraries.items():
        for threads in sorted(set(asked or (1, options.cores))):
            values = {
                "library": path,
                "threads": str(threads),
                "planner": options.planner,
                "transforms": " ".join(transforms),
            }
            params = {"library": library, "threads": str(threads), "planner": options.planner}
            print(json.dumps({"name": f"{library} {threads}", "values": values, "params": params}))
    return None


if __name__ == "__main__":
    sys.exit(main())
