"""What the measuring costs and brings against six launches of everything (``make bench-precision``).

The whole suite by turns with `FIXED`, as it was before, and with the defaults, in alternating order, so that
a drift of the machine favours neither. Printed are the wall time, the seconds inside tools, in all and by
benchmark, and of every ceiling how far its 95 % interval reaches from the median. What is shorter by no
setting (checks of results, orders of matrices) is shorter on both sides, so a checkout of before can be named
(``--before``), whose ``npc`` the fixed side then is. On an idle machine: what others compute makes numbers
invalid, and then there is no ceiling to compare. A run that fails is said and left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import NamedTuple

from npc.columns import columns
from npc.records.launch import LAUNCHES, read_launches
from npc.statistics.precision import USUAL
from tests.paths import ROOT

#: The settings that were the defaults when every case had six launches.
FIXED = {
    "samples": "6",
    "sweep_samples": "3",
    "sockperf_tests": "ping-pong,throughput",
    "sockperf_throughput_sizes": "16,256,4K,32K",
    "short_start": "no",
}
#: At most this part of the time, and intervals that are no wider for this part of the ceilings.
GOAL_TIME, GOAL_CEILINGS = 0.5, 0.9
RUN_S = 900


class Run(NamedTuple):
    """wall_s: of the whole command; tools_s: inside tools, in all and by benchmark; ceilings and how wide
    their intervals are, infinite without any."""

    wall_s: float
    tools_s: float
    by_benchmark: Mapping[str, float]
    launches: int
    ceilings: Mapping[str, float]
    widths: Mapping[str, float]


def measure(npc: Path, settings: Mapping[str, str], part: Sequence[str], folder: Path) -> Run | None:
    """One characterisation of a part of the suite; None, and why, where it came to nothing."""
    # a checkout of before does not know all of them
    environ = os.environ | {f"NPC_{name.upper()}": value for name, value in settings.items()}
    begun = time.monotonic()
    try:
        ended = subprocess.run(
            [npc, "characterise", *part, "--output", folder], env=environ, cwd=npc.parents[2],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=RUN_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        print(f"a run took more than {RUN_S} s", flush=True)
        return None
    wall_s = time.monotonic() - begun
    launches = 0
    seconds: Counter[str] = Counter()
    for log in folder.glob(f"000000/*/work/*/{LAUNCHES}"):
        read = read_launches(log.parent)
        launches += len(read.launches)
        seconds[read.tool] += sum(launch.seconds for launch in read.launches)
    if not launches:
        print("a run without launches; its end:", *ended.stdout.splitlines()[-8:], sep="\n  ", flush=True)
        return None
    drawn = folder / "000000/roofline.json"  # not where no test gives a ceiling, or all were disturbed
    ceilings = json.loads(drawn.read_bytes())["ceilings"] if drawn.exists() else []
    values = {each["name"]: each["value"] for each in ceilings}
    widths = {each["name"]: width(each) for each in ceilings}
    return Run(wall_s, seconds.total(), seconds, launches, values, widths)


def width(ceiling: Mapping[str, float]) -> float:
    """How far the farther end of its interval lies from it, as a part."""
    low, high, value = ceiling["low"], ceiling["high"], ceiling["value"]
    return math.inf if low is None else max(high - value, value - low) / value


def table(fixed: Sequence[Run], auto: Sequence[Run]) -> Iterator[str]:
    """Times, values and widths side by side, each the median of the runs, and what came of the goals. A
    value's ratio tells whether shorter launches measure the same."""
    if not fixed or not auto:
        yield "nothing to compare: no run of one side came to its end"
        return
    rows = [("", "fixed", "auto", "auto/fixed", "value")]
    shares = {}
    for name, unit in (("wall_s", "wall time"), ("tools_s", "inside tools")):
        times = [median(getattr(run, name) for run in side) for side in (fixed, auto)]
        shares[name] = times[1] / times[0]
        rows.append((unit, f"{times[0]:.0f} s", f"{times[1]:.0f} s", f"{shares[name]:.2f}", ""))
    for name in fixed[0].by_benchmark:
        times = [median(run.by_benchmark.get(name, 0.0) for run in side) for side in (fixed, auto)]
        rows.append((f"  {name}", f"{times[0]:.1f} s", f"{times[1]:.1f} s", f"{times[1] / times[0]:.2f}", ""))
    counts = [median(run.launches for run in side) for side in (fixed, auto)]
    rows.append(("launches", f"{counts[0]:.0f}", f"{counts[1]:.0f}", f"{counts[1] / counts[0]:.2f}", ""))
    names = [name for run in fixed for name in run.widths]
    both = [name for name in dict.fromkeys(names) if any(name in run.widths for run in auto)]
    ratios = []
    narrow = known = 0
    for name in both:
        before, after = (
            median(run.widths[name] for run in side if name in run.widths) for side in (fixed, auto)
        )
        narrow += after <= before
        known += after <= max(before, USUAL.precision)
        ratio = ""
        if 0 < before < math.inf and 0 < after < math.inf:
            ratios.append(after / before)
            ratio = f"{ratios[-1]:.2f}"
        values = [median(run.ceilings[name] for run in side if name in run.widths) for side in (fixed, auto)]
        rows.append((name, percent(before), percent(after), ratio, f"{values[1] / values[0]:.3f}"))
    yield from columns(rows, right=(1, 2, 3, 4))
    yield f"time inside tools: {shares['tools_s']:.0%} of fixed, goal {GOAL_TIME:.0%}"
    goal = f"goal {GOAL_CEILINGS:.0%}"
    yield f"no wider than fixed: {narrow} of {len(both)} ceilings, {goal}"
    if ratios:  # of six launches either side a single interval is narrower by chance
        yield f"width of fixed, geometric mean of {len(ratios)} ceilings: {geometric_mean(ratios):.0%}"
    yield f"no wider than fixed, or known to ±{USUAL.precision:.0%}: {known} of {len(both)} ceilings, {goal}"


def percent(part: float) -> str:
    """``±3.1 %``, or that there is no interval."""
    return f"±{100 * part:.2g} %" if part < math.inf else "none"


def main() -> int:
    """Print every run, and after each round the comparison of all so far."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.precision", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side (3)")
    parser.add_argument("--tag", nargs="+", default=[], help="part of the suite (default: all of it)")
    parser.add_argument("--benchmark", help="this one alone")
    parser.add_argument(
        "--before", type=Path, default=ROOT, help="checkout, set up, of the fixed side (default: this one)"
    )
    options = parser.parse_args()
    part = [word for tag in options.tag for word in ("--tag", tag)]
    part += ["--benchmark", options.benchmark] if options.benchmark else []
    sides: dict[str, list[Run]] = {"fixed": [], "auto": []}
    settings: dict[str, tuple[Path, dict[str, str]]] = {
        "fixed": (options.before.absolute() / ".venv/bin/npc", FIXED), "auto": (ROOT / ".venv/bin/npc", {})
    }  # fmt: skip
    for number in range(options.rounds):
        for name in ["fixed", "auto"] if number % 2 == 0 else ["auto", "fixed"]:
            with tempfile.TemporaryDirectory(prefix="npc-bench-") as folder:
                run = measure(*settings[name], part, Path(folder))
            if run:
                sides[name].append(run)
                told = f"{run.wall_s:.0f} s, {run.tools_s:.0f} s in {run.launches} launches"
                print(f"round {number + 1}, {name}: {told}, {len(run.widths)} ceilings", flush=True)
        print(*table(sides["fixed"], sides["auto"]), "", sep="\n", flush=True)
    return 0 if all(sides.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
