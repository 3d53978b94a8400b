"""How long a roofline with many application points takes, from a cold start: `make bench-roofline`.

    python -m tests.bench.roofline [--points N] [--repeat N]

Each run is a fresh process: read records.csv, analyse, print, write JSON, PNG, SVG and page. Beside it the
start of Python with matplotlib alone, so that a loaded machine shows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from npc.records.record import Record, replace, save_csv
from tests.made.measured import level, peak, records
from tests.made.observed import launch

APPLICATIONS = 20


def many(points: int) -> Iterator[Record]:
    """A machine, and `points` runs of `APPLICATIONS` programs over a year of nights."""
    yield from peak("peakflops_avx_fma", 400e9)
    yield from level("MEM", "load", 80e9)
    yield from records("qperf", "tcp_bw", 1e9, nodes=2)
    for number in range(points):
        program, run = number % APPLICATIONS, number // APPLICATIONS
        factor = 1 + (number * 7919 % 101 - 50) / 1000
        day = f"2026-{run % 12 + 1:02d}-{run % 28 + 1:02d}"
        observed = launch(
            f"app{program}", 2, (5 + program) * 1e9 * factor, 1e12, 1e9 * (1 + program), 1e9, day=day
        )
        for record in observed:
            yield replace(record, run=f"{run:06d}")


def seconds(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.csv"
        save_csv(many(options.points), path)
        draw = [str(Path(sys.executable).with_name("npc")), "roofline", str(path)]
        bare = [sys.executable, "-c", "import matplotlib.figure, matplotlib.backends.backend_agg"]
        for _ in range(options.repeat):
            print(
                f"{options.points} points {seconds(draw):.2f} s, "
                f"Python with matplotlib alone {seconds(bare):.2f} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
