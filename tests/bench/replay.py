"""How long it takes to judge every night of a history anew: 200 series, 400 nights.

Run by `make bench-replay`. The histories are written here by a plain script, as another tool would write
them: 20 tests of 10 sizes, or 200 tests; each test is on another two of the nodes every night, so that nodes
and links can be accused. `npc night history --replay` of each must take less than 30 s by the clock where
nothing else runs.
"""

from __future__ import annotations

import csv
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

NPC = Path(sys.executable).with_name("npc")
NIGHTS = 400
#: Tests, sizes of each, and nodes.
HISTORIES = ((20, 10, 40), (200, 1, 100))
LIMIT_S = 30


def write_history(
    folder: Path, cases: int, sizes: int, nodes: int, nights: int = NIGHTS, seed: int = 1
) -> int:
    """One file of all nights: 2 % of noise, some nights missing, one test 7 % slower at last; its rows."""
    chance = random.Random(seed)
    begun = datetime(2025, 10, 1, 2, 30, tzinfo=timezone.utc)
    folder.mkdir(parents=True)
    rows = 0
    with (folder / "2025-10.plain.csv").open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(("value", "time", "metric", "benchmark", "case", "size", "nodes", "hosts"))
        for night in range(nights):
            moment = (begun + timedelta(days=night)).isoformat()
            for case in range(cases):
                if chance.random() < 0.02:
                    continue
                hosts = ";".join(f"n{node}" for node in chance.sample(range(nodes), 2))
                slow = 0.93 if case == 1 and night > 0.75 * nights else 1.0
                for size in range(sizes):
                    value = slow * 1e9 * (1 + size) * math.exp(0.02 * chance.gauss(0, 1))
                    row = value, moment, "bandwidth", "qperf", f"tcp_{case}", 64 << size, 2, hosts
                    out.writerow(row)
                    rows += 1
    return rows


def seconds(cases: int, sizes: int, nodes: int) -> float:
    """How long one history takes by the clock; the rest is printed."""
    with tempfile.TemporaryDirectory() as scratch:
        rows = write_history(Path(scratch) / "bench", cases, sizes, nodes)
        begun, used = time.perf_counter(), os.times()
        words = ["night", "history", "--replay", "--platform", "bench", "--history", scratch, "--json"]
        ended = subprocess.run([NPC, *words], capture_output=True, text=True, check=True)
        took, now = time.perf_counter() - begun, os.times()
        processor = now.children_user + now.children_system - used.children_user - used.children_system
        nights = json.loads(ended.stdout)["nights"]
    print(
        f"{cases} tests × {sizes} sizes on {nodes} nodes: {rows} rows, {len(nights)} nights judged in "
        f"{took:.1f} s by the clock (at most {LIMIT_S}), {processor:.1f} s of "
        f"{len(os.sched_getaffinity(0))} processors; the last night: {nights[-1]['verdict']}"
    )
    return took


def main() -> int:
    """Measure them; 1 if one takes longer."""
    return 0 if max(seconds(*each) for each in HISTORIES) < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
