"""What a program loses to a probe that is refused: `make bench-guard`.

    python -m tests.bench.guard [--turns N]

A program whose function is called ten million times a second, alone and with a probe on that function, in
turn; the least of each, since what else runs only makes a run longer. Fails above the 2 % that `--overhead`
allows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from npc.observe.probes.costs import costs
from tests.lab.guarded import build, guarded

MOST = 1.02
PROGRAM = ("24000000", "40")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=20, help="runs of each kind")
    turns = parser.parse_args().turns
    price = costs()["function"]
    alone, asked = [], []
    with tempfile.TemporaryDirectory(prefix="npc-bench-") as folder:
        calls = build(Path(folder))
        for _ in range(turns):
            said = subprocess.run([calls, *PROGRAM], stdout=subprocess.PIPE, text=True, check=True).stdout
            alone.append(float(said.split()[0]))
            ended = guarded(calls, *PROGRAM, price=price)
            if ended.judgement.status != "refused":
                raise RuntimeError(f"the probe was {ended.judgement.status}: {ended.judgement.reason}")
            asked.append(ended.seconds)
    ratio = min(asked) / min(alone)
    print(f"alone     {min(alone):.3f} s (to {max(alone):.3f} s), {turns} runs")
    print(f"refused   {min(asked):.3f} s (to {max(asked):.3f} s), an event at {price * 1e6:.1f} µs")
    print(f"ratio     {ratio:.4f}, at most {MOST}" + ("   too much" if ratio > MOST else ""))
    return ratio > MOST


if __name__ == "__main__":
    sys.exit(main())
