"""How often `npc compare` is wrong about identical runs, and how often it sees a difference:
`make bench-compare`.

    python -m tests.bench.compare [--pairs N]          simulated runs with several kinds of noise
    python -m tests.bench.compare --real N [--keep D]  N real runs of this machine, every two compared

A row is right if at most 5 % of the series of identical runs are called different.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from npc.records.record import Record, save_csv
from npc.report.compare.comparison import Comparison, compare_sides
from npc.report.compare.matching import Choice
from npc.report.compare.sides import Side, read_side
from tests.made.launch_noise import CASES, NOISES, RUN_NOISES, SIZES, Noise, RunNoise, simulated
from tests.paths import ROOT

MOST_WRONG = 0.05
#: The part of the slower series that must be found, where launches alone are noisy.
LEAST_FOUND = 0.9

BIN = Path(sys.executable).parent


def side(name: str, *runs: Sequence[Record]) -> Side:
    return Side(name, {f"{name}{number}": run for number, run in enumerate(runs)})


def called(comparison: Comparison) -> float:
    """Share of the series that can be compared which are called different."""
    compared = [pair for pair in comparison.series if pair.verdict != "not comparable"]
    return len(comparison.of("better", "worse", "different")) / len(compared)


def wrong(pairs: int, noise: Noise, runs: int = 1, drift: float = 0.0, between: float = 0.0) -> float:
    """Share of series called different, of `pairs` pairs of identical machines."""
    rng = random.Random(1)
    values = []
    for _ in range(pairs):
        sides = [
            side(name, *(simulated(rng, noise, drift=drift, between=between) for _ in range(runs)))
            for name in "AB"
        ]
        values.append(called(compare_sides(sides[0], sides[1], Choice())))
    return sum(values) / len(values)


def wrong_single(pairs: int, between: RunNoise, earlier: int = 20, slower: float = 0.0) -> float:
    """Share of series called better or worse, of `pairs` pairs of single runs that follow `earlier` ones.

    Half of the cases share the luck of their run, as the kernels of one tool do. slower: by how much the
    latency of those is multiplied in the last run; then the share of theirs that is called worse.
    """
    rng = random.Random(3)
    cases = [f"test{case}" for case in range(CASES)]
    together = cases[: CASES // 2]
    shares = []
    for _ in range(pairs):
        runs = earlier + 2
        shared = between(rng, runs)
        levels = {case: shared if case in together else between(rng, runs) for case in cases}
        made = []
        for run in range(runs):
            bad = 1 + slower if run == runs - 1 else 1.0
            factors = {
                case: math.exp(-level[run]) * (bad if case in together else 1.0)
                for case, level in levels.items()
            }
            made.append(simulated(rng, NOISES["normal"], factors=factors, day=run + 1, sizes=SIZES[:1]))
        past = {"fuchs": side("E", *made[:earlier])}
        comparison = compare_sides(side("A", made[-2]), side("B", made[-1]), Choice(), past)
        if slower:
            worse = {pair.test.split(" ")[1] for pair in comparison.of("worse")}
            shares.append(len(worse & set(together)) / len(together))
        else:
            shares.append(len(comparison.of("better", "worse")) / len(comparison.series))
    return sum(shares) / len(shares)


def found(pairs: int, noise: Noise, slower: float, runs: int = 1, drift: float = 0.0) -> float:
    """Share of the series of two slower cases, among all others alike, that are called worse."""
    rng = random.Random(2)
    hits = total = 0
    factors = {"test3": 1 + slower, "test7": 1 + slower}
    for _ in range(pairs):
        a = side("A", *(simulated(rng, noise, drift=drift) for _ in range(runs)))
        b = side("B", *(simulated(rng, noise, drift=drift, factors=factors) for _ in range(runs)))
        for pair in compare_sides(a, b, Choice(run_to_run=0.01)).series:
            if pair.test.split(" ")[1] in factors:
                total += 1
                hits += pair.verdict == "worse"
    return hits / total


def real_run(folder: Path) -> Path:
    """One short run of this machine: memory and caches by LIKWID, MPI by the OSU ports; six launches each."""
    from npc.parsers.run.collect import collect_run

    sample = [str(BIN / "npc"), "records", "sample", "--output"]
    likwid = ["likwid-bench", "-t", "{kernel}", "-w", "{work}", "-i", "{loops}"]
    cases = folder / "cases.jsonl"
    folder.mkdir(parents=True)
    cases.write_text(
        "".join(
            f'{{"name": "{kernel} {level}", "values": {{"kernel": "{kernel}", "work": "S0:{size}:1", '
            f'"loops": "{loops}"}}, "params": {{"level": "{level}"}}}}\n'
            for kernel, size, loops, level in (
                ("load", "16kB", 200000, "L1"),
                ("copy", "16kB", 200000, "L1"),
                ("load", "512kB", 6000, "L2"),
                ("load", "200MB", 3, "MEM"),
                ("triad", "200MB", 2, "MEM"),
            )
        )
    )
    osu = ["mpirun", "-n", "2", str(BIN / "python"), str(ROOT / "benchmarks/osu/osu.py"), "{test}"]
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for words in (
        [*sample, str(folder / "likwid"), "--tool", "likwid", "--cases", str(cases), "--", *likwid],
        [*sample, str(folder / "osu"), "--tool", "osu", "--each", "test=latency,allreduce", "--",
         *osu, "--max-size", "1024"],
    ):  # fmt: skip
        subprocess.run(words, check=True, capture_output=True, env={**os.environ, **allowed})
    records = [record for tool in ("likwid", "osu") for record in collect_run(folder / tool, "here")]
    save_csv(records, folder / "records.csv")
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--real", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    if arguments.real:
        return _real(arguments.real, arguments.keep)
    pairs, bad = arguments.pairs, 0
    columns = ("one run", "drift 2 %", "5 runs")
    print(f"{'noise':14}" + "".join(f" {name:>9}" for name in columns) + "   10 % slower: found")
    for name, noise in NOISES.items():
        shares = [
            wrong(pairs, noise),
            wrong(pairs, noise, drift=0.02),
            wrong(pairs // 2, noise, runs=5, between=0.02),
        ]
        detected = found(pairs // 2, noise, 0.1)
        bad += sum(share > MOST_WRONG for share in shares) + (name == "normal" and detected < LEAST_FOUND)
        print(f"{name:14}" + "".join(f" {share:>9.1%}" for share in shares) + f"   {detected:.0%}")
    print(f"\n{'between runs':14} {'15 earlier':>11} {'28 earlier':>11}   15 % slower: found with 15, 28")
    for name, between in RUN_NOISES.items():
        shares = [wrong_single(pairs, between, earlier) for earlier in (15, 28)]
        powers = [wrong_single(pairs // 2, between, earlier, 0.15) for earlier in (15, 28)]
        bad += sum(share > MOST_WRONG for share in shares)
        print(
            f"{name:14}"
            + "".join(f" {share:>11.1%}" for share in shares)
            + "   "
            + ", ".join(f"{power:.0%}" for power in powers)
        )
    return bad > 0


def _real(number: int, keep: Path | None) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or Path(scratch)
        sides = [read_side(str(real_run(folder / f"run{run:02d}")), folder) for run in range(number)]
        shares = [called(compare_sides(a, b, Choice())) for a, b in combinations(sides, 2)]
    share = sum(shares) / len(shares)
    print(f"{len(shares)} pairs of {number} real runs: {share:.1%} of series called different")
    return share > MOST_WRONG


if __name__ == "__main__":
    sys.exit(main())
