"""What a night of a long history costs beside one of a short: CPU time of keeping and judging ten records.

Run by `make bench-nights`. A night goes through all nights before it once, so that its time may grow with
their number, and no faster: ten times as many nights, at most ten times the time. 1 if it grows faster.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from npc.cron.nightly import judge_night
from npc.records.history import History, of_night
from npc.records.journal import Journal
from npc.records.record import Record
from tests.made.history import BEGUN, a_record

NIGHTS = (30, 300)
#: How often a night asks for the journal.
JOURNAL_READ = 5


def measure(folder: Path, nights: int) -> float:
    """CPU seconds of the last of some nights: the least of three."""
    history, journal = History(folder), Journal(folder)
    platform = folder.parent

    def records(night: int) -> list[Record]:
        return [
            a_record(
                number % 5, night, case=f"tcp_{number // 5}", value=1e9 + (7919 * (night + number)) % 1e7
            )
            for number in range(10)
        ]

    for night in range(nights):
        name = f"night{night:04}"
        journal.note(name, "begun", folder=f"runs/{night}", words=[])
        journal.note(name, "ended", verdict="PASS")
        if night < nights - 3:
            history.append(of_night(records(night), name))
    spent = []
    for night in range(nights - 3, nights):
        begun, log = time.process_time(), Journal(folder)
        history.append(of_night(records(night), f"night{night:04}"))
        for _ in range(JOURNAL_READ):
            log.entries()
        judge_night(platform, history, f"night{night:04}", BEGUN + timedelta(days=night))
        spent.append(time.process_time() - begun)
    history.close()
    return min(spent)


def main() -> int:
    """Measure both; 1 if the long history's night costs more than its share."""
    took = []
    for nights in NIGHTS:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "bench"
            folder.mkdir()
            took.append(measure(folder, nights))
            print(f"night {nights} of ten records: {1e3 * took[-1]:.0f} ms of CPU")
    ratio, most = took[1] / took[0], NIGHTS[1] / NIGHTS[0]
    print(f"ratio {ratio:.1f}, at most {most:.0f}")
    return int(ratio > most)


if __name__ == "__main__":
    sys.exit(main())
