"""How long a report takes and how large its page is: a usual run, and a history of a million rows.

Run by `make bench-report`. The history is written here, rows as `npc night run` appends them: 500 series over
400 nights, five samples each, with noise, a step, two slow nodes and missing nights. A report of it must take
less than 10 s and stay below 10 MB; a page of one run below 5 MB. The time that counts is the processor's: it
is the clock's where nothing else runs, and does not grow as much where something does.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

from npc.records.history import History
from npc.records.record import COLUMNS
from tests.made.run_folder import make_run

NPC = Path(sys.executable).with_name("npc")
SERIES, NIGHTS, SAMPLES = 500, 400, 5


def write_history(
    folder: Path, series: int = SERIES, nights: int = NIGHTS, samples: int = SAMPLES, seed: int = 1
) -> int:
    """Monthly files below `folder`; the number of their rows."""
    chance = random.Random(seed)
    begun = datetime(2025, 10, 1, 2, 30, tzinfo=timezone.utc)
    folder.mkdir(parents=True)
    rows = 0
    months: dict[str, list[str]] = {}
    for night in range(nights):
        moment = begun + timedelta(days=night)
        run, month = moment.strftime("%Y%m%dT%H%M%SZ"), moment.strftime("%Y-%m")
        lines = months.setdefault(month, [",".join(COLUMNS)])
        for number in range(series):
            if chance.random() < 0.01:
                continue
            size, node = 2 ** (number % 20), (number + night) % 40
            level = 1e6 * (1 + number) * (0.9 if number % 50 == 7 and night > 300 else 1.0)
            level *= 0.85 if node in (16, 17) else 1.0
            for sample in range(samples):
                value = level * chance.gauss(1, 0.02)
                lines.append(
                    f"{moment.isoformat()},bench,osu,osu_bw_{number // 20},bandwidth,{value!r},B/s,{size},2,"
                    f"n{node:03d};n{(node + 1) % 40:03d},,{run},{sample},ok,7.4,,{run}/raw/{number:04d}.out"
                )
                rows += 1
    for month, lines in months.items():
        (folder / f"{month}.csv").write_text("\n".join(lines) + "\n")
    return rows


def report(*words: str | Path) -> tuple[float, float, dict[str, object]]:
    """Seconds of the processor and of the clock that the command took, and what it says of the page."""
    begun, used = time.perf_counter(), os.times()
    ended = subprocess.run([NPC, "report", *words, "--json"], capture_output=True, text=True, check=True)
    now = os.times()
    seconds = now.children_user + now.children_system - used.children_user - used.children_system
    return seconds, time.perf_counter() - begun, json.loads(ended.stdout)


def main() -> int:
    """Measure both; 1 if a limit is passed."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = write_history(folder / "history" / "bench")
        History(folder / "history" / "bench").nights()  # its cache is there, as npc night run leaves it
        seconds, clock, page = report("--history", folder / "history", "--output", folder / "history.html")
        size = int(str(page["bytes"]))
        print(
            f"history of {rows} rows: {seconds:.1f} s of the processor (at most 10), {clock:.1f} s by the "
            f"clock, {size / 1e6:.1f} MB (at most 10)"
        )
        good = seconds < 10 and size < 10e6
        run = make_run(folder / "run")
        seconds, _, page = report(run)
        size, records = int(str(page["bytes"])), sum(1 for _ in (run / "records.csv").open()) - 1
        print(f"run of {records} records: {seconds:.1f} s, {size / 1e6:.1f} MB (at most 5)")
        good = good and size < 5e6
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
