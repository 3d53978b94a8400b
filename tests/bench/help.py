"""How long `npc --help` and every `npc COMMAND --help` take: `make bench-help`.

    python -m tests.bench.help [--repeat N]

CPU seconds (user and system) of a fresh process, the least of several, because they depend less on what else
runs than the clock does; beside them the bare interpreter and click. Fails above 0.25 s.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from pathlib import Path

from npc.cli import entry_points

MOST_S = 0.25
NPC = Path(sys.executable).with_name("npc")


def cpu_seconds(*words: str | Path) -> float:
    """User and system time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def least(repeat: int, *words: str | Path) -> float:
    return min(cpu_seconds(*words) for _ in range(repeat))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=7)
    repeat = parser.parse_args().repeat
    print(f"{'python -c pass':24} {least(repeat, sys.executable, '-c', 'pass'):.3f} s")
    print(f"{'python -c import click':24} {least(repeat, sys.executable, '-c', 'import click'):.3f} s")
    slow = 0
    for name in ("", *sorted(entry_points())):
        words = [*name.split(), "--help"]
        seconds = least(repeat, NPC, *words)
        slow += seconds > MOST_S
        mark = "   too slow" if seconds > MOST_S else ""
        print(f"{' '.join(['npc', *words]):24} {seconds:.3f} s{mark}")
    return slow > 0


if __name__ == "__main__":
    sys.exit(main())
