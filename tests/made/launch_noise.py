"""Simulated runs of one machine for tests of comparisons, with the kinds of noise that launches have.

A run is made of cases; the sizes of a case share their launches, and launches follow each other in time, so
that drift is common to what was measured at the same moment.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from npc.records.record import Record

CASES: Final = 12
SIZES: Final = (8, 1024, 65536, 1048576)
LAUNCHES: Final = 6

#: The logarithm of what one launch adds.
Noise = Callable[[random.Random], float]


def normal(rng: random.Random) -> float:
    """2 % of normal noise."""
    return rng.gauss(0, 0.02)


def heavy(rng: random.Random) -> float:
    """Student's t with three degrees of freedom, 2 %."""
    return 0.02 * rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2) / 3)


def outliers(rng: random.Random) -> float:
    """2 % of noise, and one launch in ten that is 10 to 50 % slow."""
    return rng.gauss(0, 0.02) + (math.log(rng.uniform(0.5, 0.9)) if rng.random() < 0.1 else 0)


def two_modes(rng: random.Random) -> float:
    """Launches that come out on one of two levels 15 % apart, by placement."""
    return rng.gauss(0, 0.01) + (0.15 if rng.random() < 0.4 else 0)


NOISES: Final[Mapping[str, Noise]] = {
    "normal": normal,
    "heavy-tailed": heavy,
    "outliers": outliers,
    "two modes": two_modes,
}


#: The levels (logarithms) of a number of runs after each other, by about 2 %.
RunNoise = Callable[[random.Random, int], list[float]]


def each(of_one: Callable[[random.Random], float]) -> RunNoise:
    """Runs that know nothing of each other."""
    return lambda rng, runs: [of_one(rng) for _ in range(runs)]


def resembling(rng: random.Random, runs: int) -> list[float]:
    """AR(1) with a correlation of 0.9."""
    state, found = rng.gauss(0, 0.02), []
    for _ in range(runs):
        found.append(state)
        state = 0.9 * state + math.sqrt(1 - 0.9**2) * rng.gauss(0, 0.02)
    return found


def drifting(rng: random.Random, runs: int) -> list[float]:
    """8 % up or down from the first to the last."""
    slope = rng.choice((-0.08, 0.08)) / runs
    return [slope * run + rng.gauss(0, 0.007) for run in range(runs)]


RUN_NOISES: Final[Mapping[str, RunNoise]] = {
    "normal": each(lambda rng: rng.gauss(0, 0.02)),
    "heavy-tailed": each(heavy),
    "7 % bad runs": each(
        lambda rng: rng.gauss(0, 0.01) + (math.log(rng.uniform(0.6, 0.9)) if rng.random() < 0.07 else 0)
    ),
    "two levels": each(lambda rng: rng.gauss(0, 0.002) - (0.06 if rng.random() < 0.3 else 0)),
    "resembling": resembling,
    "drifting": drifting,
    "rounded": each(lambda rng: round(rng.gauss(0, 0.02) / 0.02) * 0.02),
}


def simulated(
    rng: random.Random,
    noise: Noise,
    *,
    run: str = "000000",
    drift: float = 0.0,
    between: float = 0.0,
    factors: Mapping[str, float] | None = None,
    day: int = 21,
    sizes: Sequence[int] = SIZES,
) -> list[Record]:
    """The records of one run: latencies of `CASES` tests at each of `sizes`.

    drift: standard deviation of an AR(1) process (correlation 0.9 from one launch to the next) that all
    launches see in the order in which they were made. between: of each case's level from run to run.
    factors: case → what its latency is multiplied by. day: of November.
    """
    order = [(f"test{case}", sample) for sample in range(LAUNCHES) for case in range(CASES)]
    rng.shuffle(order)
    level = {f"test{case}": rng.gauss(0, between) for case in range(CASES)}
    state = rng.gauss(0, drift)
    found = []
    for moment, (case, sample) in enumerate(order):
        state = 0.9 * state + math.sqrt(1 - 0.9**2) * rng.gauss(0, drift)
        launch = noise(rng) + state + level[case]
        for size in sizes:
            value = (factors or {}).get(case, 1.0) * size * 1e-9 * math.exp(launch + rng.gauss(0, 0.003))
            found.append(
                Record(
                    time=f"2026-11-{day:02d}T08:{moment // 60:02d}:{moment % 60:02d}+00:00",
                    platform="fuchs",
                    benchmark="osu",
                    case=case,
                    metric="latency",
                    value=value,
                    unit="s",
                    size=size,
                    run=run,
                    sample=sample,
                    raw=f"{run}/{case}-{sample}.out",
                )
            )
    return found
