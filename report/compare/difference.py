"""What two samples of one series tell about the ratio of their medians.

The model is a shift of logarithms: B's values are A's times a ratio. Three things make two runs of one
machine differ, and all three are in the interval and in the p-value:

- **Launches.** The unit of repetition is the launch, since samples inside one launch are not independent
  (Hunold, Carpen-Amarie, arXiv 1505.07734). The ratio is the median of all pairwise ratios, with the exact
  interval of the rank sum test (Hodges, Lehmann 1963; Hollander, Wolfe, Chasten, Nonparametric Statistical
  Methods, 3rd ed., section 4.3). The p-value is that of Yuen's test on the logarithms, 20 % trimmed (Yuen,
  Biometrika 61(1), 1974): a rank test of six against six launches has no p below 0.002, which is none at all
  among hundreds of series.
- **Drift within a run.** Launches that follow each other are alike, so six of them know less than six
  independent ones. The design effect says how much: the squared difference between a run's first and second
  half over what it would be if launches were independent, as the median over the cases of the run
  (`design_effect`).
- **Runs.** A run is one draw of the machine's state (placement of memory, clocks, neighbours). With four runs
  a side or more the run is the unit: each series' run medians are compared, and nothing else is needed. With
  two or three, their spread is pooled over the series of a benchmark. With one run a side it cannot be seen,
  and `RUN_TO_RUN` stands for it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean, median
from typing import Final, NamedTuple

from npc.statistics.distributions import at_least, student_quantile, student_two_sided
from npc.statistics.medians import LEVEL

#: Standard deviation of the logarithms of a machine's medians from run to run, beyond what launches and drift
#: tell; assumed where there is but one run. The paper's 30 runs in 15 days had 0.7 % (Bartelheimer, Zhu,
#: Neuwirth 2023, section 5.4).
RUN_TO_RUN: Final = 0.01
#: From four runs on each side the run is the unit.
ENOUGH_RUNS: Final = 4
#: Fewer launches on a side have no 95 % interval of the ratio: 1 − 2/C(8, 4) = 97.1 %, but 90 % for three.
LEAST_LAUNCHES: Final = 4
#: Share of a sample that Yuen's test sets aside at either end.
_TRIM: Final = 0.2
#: Ranks are counted up to forty values on both sides together; beyond, their sum is normal to three digits.
_EXACT: Final = 40
#: Fewer cases tell nothing about drift.
_LEAST_CASES: Final = 5
#: Share of the runs without drift that are taken for ones with it.
_DRIFT_ALARM: Final = 0.1
#: A drift that leaves less than one launch of ten is a broken run; the estimate itself is not better known.
_MOST_DRIFT: Final = 10.0


class Observation(NamedTuple):
    """One launch's value: when it was made (ISO 8601), and in which run."""

    time: str
    run: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNoise:
    """What is known of a side beside its launches.

    drift: design effect, at least 1. run_to_run: standard deviation of the logarithms from run to run.
    """

    drift: float = 1.0
    run_to_run: float = RUN_TO_RUN


@dataclass(frozen=True, slots=True)
class Difference:
    """ratio: B over A, None where a value is zero. low, high: its interval, None where there are too few
    launches for one. p: of no difference, two-sided."""

    ratio: float | None
    low: float | None
    high: float | None
    p: float


def compare_samples(
    a: Sequence[Observation], b: Sequence[Observation], noise_a: RunNoise, noise_b: RunNoise
) -> Difference:
    """The ratio of B to A. Raises ValueError for fewer than `LEAST_LAUNCHES` on a side."""
    if min(len(a), len(b)) < LEAST_LAUNCHES:
        raise ValueError(f"{len(a)} and {len(b)} launches, at least {LEAST_LAUNCHES} each are needed")
    if any(each.value <= 0 for each in (*a, *b)):
        return Difference(None, None, None, rank_test([x.value for x in a], [x.value for x in b]))
    runs_a, runs_b = by_run(a), by_run(b)
    if min(len(runs_a), len(runs_b)) >= ENOUGH_RUNS:
        logs_a, logs_b = ([math.log(median(run)) for run in runs] for runs in (runs_a, runs_b))
        drift_a = drift_b = 1.0
        between = 0.0
    else:
        logs_a, logs_b = ([math.log(each.value) for each in sample] for sample in (a, b))
        drift_a, drift_b = noise_a.drift, noise_b.drift
        between = noise_a.run_to_run**2 / len(runs_a) + noise_b.run_to_run**2 / len(runs_b)
    low, middle, high = shift_interval(logs_a, logs_b)
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    drift = max(drift_a, drift_b)

    def widened(half: float) -> float:
        return math.sqrt(half**2 * drift + z**2 * between)

    parts = [_trimmed(logs, factor) for logs, factor in ((logs_a, drift_a), (logs_b, drift_b))]
    variance = sum(part.variance for part in parts) + between
    shift = abs(parts[1].mean - parts[0].mean)
    return Difference(
        math.exp(middle),
        math.exp(middle - widened(middle - low)),
        math.exp(middle + widened(high - middle)),
        _yuen(shift, variance, parts),
    )


def by_run(sample: Iterable[Observation]) -> list[list[float]]:
    """The values of each run."""
    runs: dict[str, list[float]] = {}
    for each in sample:
        runs.setdefault(each.run, []).append(each.value)
    return list(runs.values())


def shift_interval(
    a: Sequence[float], b: Sequence[float], level: float = LEVEL
) -> tuple[float, float, float]:
    """(low, middle, high) of what has to be added to `a` to become `b`: exact, by ranks.

    The whole range of pairwise differences where even that does not reach `level`.
    """
    differences = sorted(y - x for x in a for y in b)
    k = _rank_for(len(a), len(b), level)
    return differences[k], median(differences), differences[-1 - k]


@lru_cache(maxsize=256)
def _rank_for(n: int, m: int, level: float) -> int:
    """How many pairwise differences to leave out at each end: the largest k with P(U ≤ k) ≤ (1 − level)/2."""
    if n + m > _EXACT:
        sigma = math.sqrt(n * m * (n + m + 1) / 12)
        return math.floor(n * m / 2 - NormalDist().inv_cdf((1 + level) / 2) * sigma - 0.5)
    counts = _rank_sum_counts(tuple(range(2, 2 * (n + m) + 1, 2)), n)
    total, tail, k = math.comb(n + m, n), 0, 0
    least = n * (n + 1)  # doubled ranks
    while (tail := tail + counts.get(least + 2 * k, 0)) / total <= (1 - level) / 2:
        k += 1
    return max(0, k - 1)


@lru_cache(maxsize=4096)
def _rank_sum_counts(doubled_ranks: tuple[int, ...], n: int) -> dict[int, int]:
    """Sum of `n` of the doubled ranks → in how many choices."""
    chosen: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(n)]
    for rank in doubled_ranks:
        for size in range(n, 0, -1):
            into = chosen[size]
            for total, count in chosen[size - 1].items():
                into[total + rank] = into.get(total + rank, 0) + count
    return chosen[n]


def rank_test(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p of the rank sum test, ties by mean rank: exact, or normal above `_EXACT` values."""
    together = sorted((*a, *b))
    if together[0] == together[-1]:
        return 1.0
    doubled = {value: bisect_left(together, value) + bisect_right(together, value) + 1 for value in together}
    observed = sum(doubled[value] for value in a)
    expected = len(a) * (len(together) + 1)
    if len(together) > _EXACT:
        from scipy.stats import mannwhitneyu

        return float(mannwhitneyu(a, b, use_continuity=False, method="asymptotic").pvalue)
    counts = _rank_sum_counts(tuple(doubled[value] for value in together), len(a))
    extreme = sum(c for total, c in counts.items() if abs(total - expected) >= abs(observed - expected))
    return extreme / math.comb(len(together), len(a))


class _Trimmed(NamedTuple):
    """Trimmed mean, its variance (with the design effect), and the degrees of freedom of that."""

    mean: float
    variance: float
    dof: int


def _trimmed(values: Sequence[float], drift: float) -> _Trimmed:
    ordered = sorted(values)
    n, cut = len(ordered), math.floor(_TRIM * len(ordered))
    kept = ordered[cut : n - cut]
    winsorised = [min(max(value, kept[0]), kept[-1]) for value in ordered]
    centre = fmean(winsorised)
    squares = sum((value - centre) ** 2 for value in winsorised)
    h = len(kept)
    return _Trimmed(fmean(kept), squares / (h * (h - 1)) * drift, h - 1)


def _yuen(shift: float, variance: float, parts: Sequence[_Trimmed]) -> float:
    if variance == 0:
        return 1.0 if shift == 0 else 0.0
    spread = sum(part.variance**2 / part.dof for part in parts)
    dof = variance**2 / spread if spread else 1e6
    return student_two_sided(shift / math.sqrt(variance), min(dof, 1e6))


def design_effect(cases: Iterable[Sequence[Sequence[Observation]]]) -> float:
    """How many launches count as one: 1 where they are independent.

    cases: for each case its series, which share launches (the sizes of a sweep). In each series the launches'
    first and second half in time are compared: F = (mean of one − mean of the other)² over its expectation
    from the variance within the halves. Of a case the median counts once; the design effect is the median
    over the cases relative to that of F(1, n − 2) itself. It is 1 unless more cases lie above that than
    chance puts there in one run of ten (sign test).
    """
    ratios = []
    for series in cases:
        found = [ratio for each in series if (ratio := _halves(each)) is not None]
        if found:
            ratios.append(median(found))
    above, n = sum(ratio > 1 for ratio in ratios), len(ratios)
    if n < _LEAST_CASES or at_least(above, n, 0.5) > _DRIFT_ALARM:
        return 1.0
    return min(max(1.0, median(ratios)), _MOST_DRIFT)


def _halves(sample: Sequence[Observation]) -> float | None:
    """F of one series in units of its median without drift; None where it tells nothing."""
    n = len(sample)
    if n < LEAST_LAUNCHES or any(each.value <= 0 for each in sample):
        return None
    # launches of one moment stay as they came: sorted by value they would look like a drift
    logs = [math.log(each.value) for each in sorted(sample, key=lambda each: each.time)]
    halves = logs[: n // 2], logs[n // 2 :]
    centres = [fmean(half) for half in halves]
    within = sum((x - c) ** 2 for half, c in zip(halves, centres, strict=True) for x in half) / (n - 2)
    if within == 0:
        return None
    expected = within * sum(1 / len(half) for half in halves)
    # the median of F(1, n − 2) is the square of the upper quartile of Student's t
    return (centres[1] - centres[0]) ** 2 / expected / student_quantile(0.75, n - 2) ** 2


def run_to_run(series: Iterable[Sequence[Observation]], assumed: float = RUN_TO_RUN) -> float:
    """Standard deviation of the logarithms of run medians, pooled over series of two runs or more.

    Root of the median variance over its expectation (χ²: Wilson, Hilferty, PNAS 17, 1931); never below
    `assumed`, which is given back where there are not enough series.
    """
    variances = []
    for sample in series:
        runs = [math.log(median(run)) for run in by_run(sample) if min(run) > 0]
        if len(runs) > 1:
            centre, freedom = fmean(runs), len(runs) - 1
            typical = (1 - 2 / (9 * freedom)) ** 3  # median of χ² over its degrees of freedom
            variances.append(sum((x - centre) ** 2 for x in runs) / freedom / typical)
    if len(variances) < _LEAST_CASES:
        return assumed
    return max(assumed, math.sqrt(median(variances)))
