"""What counting costs a program that does little else than reading and writing: `make bench-counting`.

    python -m tests.bench.counting [--turns N]

CPU seconds of two loops (tests/observe/programs/memory_loops.c), as they are and built by `npc program cc`,
in turn; the least of each. Fails above 40 times.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.lab.counted import PROGRAMS, build, count

MOST = 40
LOOPS = ("matrix product", "triad")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=5, help="runs of each kind")
    turns = parser.parse_args().turns
    plain, counted = [], []
    with tempfile.TemporaryDirectory(prefix="npc-bench-") as folder:
        program = Path(folder) / "plain"
        subprocess.run(["gcc", "-O2", PROGRAMS / "memory_loops.c", "-o", program], check=True)
        counting = build("cc", "memory_loops.c", Path(folder), "-O2")
        for _ in range(turns):
            said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
            plain.append([float(word) for word in said.split()])
            counted.append([float(word) for word in count(counting).out.split()])
    bad = 0
    print(f"{'loop':16} {'as it is':>10} {'counted':>10} {'ratio':>6}   at most {MOST}, {turns} runs")
    for number, loop in enumerate(LOOPS):
        without, with_it = (min(run[number] for run in runs) for runs in (plain, counted))
        ratio = with_it / without
        bad += ratio > MOST
        print(
            f"{loop:16} {without:8.3f} s {with_it:8.3f} s {ratio:6.1f}"
            + ("   too much" if ratio > MOST else "")
        )
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
