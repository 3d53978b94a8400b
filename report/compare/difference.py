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
  fewer, other runs of the same machine have to say how its runs differ. Each series has its own standard
  deviation between runs (the sizes and kernels of one run go up and down together: they are one witness of
  it, not several). How often two runs are a multiple of the deviation apart is counted over every two runs of
  every series, each measured by the deviation of the other runs, as a studentised residual is: no
  distribution is assumed, and what comes once in a while is in it. Where no runs say it, two sides may
  differ, but whether the machine did is not known (`Difference.run_to_run` is None).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist, fmean, median
from typing import Final, NamedTuple

from npc.statistics.distributions import at_least, student_quantile, student_two_sided
from npc.statistics.medians import LEVEL
from npc.statistics.rank_sum import rank_test, shift_interval

#: Degrees of freedom that other runs of the machine must give: 15 runs of one state. What happens in one run
#: of k (others on the machine, a bad node) is not among n runs, and then in one of two, with a probability of
#: 2/k·(1 − 1/k)ⁿ, which is below 5 % from n = 15 on, whatever k is.
LEAST_FREEDOM: Final = 14
#: Tools print three digits or four: values that are all the same differ by less than this, as a share.
_LEAST_SPREAD: Final = 1e-4
#: From four runs on each side the run is the unit.
ENOUGH_RUNS: Final = 4
#: Fewer launches on a side have no 95 % interval of the ratio: 1 − 2/C(8, 4) = 97.1 %, but 90 % for three.
LEAST_LAUNCHES: Final = 4
#: Share of a sample that Yuen's test sets aside at either end.
_TRIM: Final = 0.2
#: Fewer cases tell nothing about drift.
_LEAST_CASES: Final = 5
#: Share of the runs without drift that are taken for ones with it.
_DRIFT_ALARM: Final = 0.1
#: A drift that leaves less than one launch of ten is a broken run; the estimate itself is not better known.
_MOST_DRIFT: Final = 10.0


class LaunchValue(NamedTuple):
    """One launch's value."""

    #: When it was made (ISO 8601).
    time: str
    #: Name of the run that the launch is of.
    run: str
    #: What it measured, in the metric's unit.
    value: float


class RunSpread(NamedTuple):
    """How much the medians of runs of one machine differ in a series."""

    #: Standard deviation of the logarithms of these medians.
    sd: float
    #: How many standard deviations of the other runs' median differences every two of them are apart; none
    #: where `sd` was given.
    apart: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNoise:
    """What is known of a side beside its launches."""

    #: How many launches that follow each other count as one (design effect), at least 1.
    drift: float = 1.0
    #: How medians of its machine's runs differ; None where nothing is known of that.
    spread: RunSpread | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """What two samples tell about the ratio of their medians."""

    #: B over A; None where a value is zero.
    ratio: float | None
    #: Lower end of the 95 % interval of `ratio`; None where it has none.
    low: float | None
    #: Upper end of the 95 % interval of `ratio`; None where it has none.
    high: float | None
    #: p-value (0 to 1) of no difference, two-sided.
    p: float
    #: The standard deviation between runs that is in them, as a share; None where it is not known, and they
    #: are of these launches alone.
    run_to_run: float | None


def compare_samples(
    a: Sequence[LaunchValue],
    b: Sequence[LaunchValue],
    noise_a: RunNoise,
    noise_b: RunNoise,
    apart: Sequence[float] = (),
) -> Difference:
    """The ratio of B to A. Raises ValueError for fewer than `LEAST_LAUNCHES` on a side.

    apart: `RunSpread.apart` of all series together, sorted; without any, a normal distribution.
    """
    if min(len(a), len(b)) < LEAST_LAUNCHES:
        raise ValueError(f"{len(a)} and {len(b)} launches, at least {LEAST_LAUNCHES} each are needed")
    medians_a, medians_b = run_medians(a), run_medians(b)
    enough = min(len(medians_a), len(medians_b)) >= ENOUGH_RUNS
    if any(launch.value <= 0 for launch in (*a, *b)):
        units = (medians_a, medians_b) if enough else ([x.value for x in a], [x.value for x in b])
        return Difference(None, None, None, rank_test(*units), 0.0 if enough else None)
    if enough:
        logs_a, logs_b = ([math.log(value) for value in medians] for medians in (medians_a, medians_b))
        return _by_ranks(logs_a, logs_b, run_to_run=_deviation([logs_a, logs_b]))
    logs_a, logs_b = ([math.log(launch.value) for launch in sample] for sample in (a, b))
    drift = noise_a.drift, noise_b.drift
    if noise_a.spread is None or noise_b.spread is None:
        return _by_ranks(logs_a, logs_b, drift)
    between = noise_a.spread.sd**2 / len(medians_a) + noise_b.spread.sd**2 / len(medians_b)
    known = math.sqrt((noise_a.spread.sd**2 + noise_b.spread.sd**2) / 2)
    if not apart:
        return _by_ranks(logs_a, logs_b, drift, between, known)
    return _by_runs(_by_ranks(logs_a, logs_b, drift, run_to_run=known), math.sqrt(between), apart)


def _by_ranks(
    a: Sequence[float],
    b: Sequence[float],
    drift: tuple[float, float] = (1.0, 1.0),
    between: float = 0.0,
    run_to_run: float | None = None,
) -> Difference:
    """The difference of two samples of logarithms, whose values are launches or medians of runs.

    between: the variance that runs add to it.
    """
    low, middle, high = shift_interval(a, b)
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)

    def widened(half: float) -> float:
        return math.sqrt(half**2 * max(drift) + z**2 * between)

    parts = _trimmed(a, drift[0]), _trimmed(b, drift[1])
    shift, variance = abs(parts[1].mean - parts[0].mean), sum(part.variance for part in parts) + between
    return Difference(
        math.exp(middle),
        math.exp(middle - widened(middle - low)),
        math.exp(middle + widened(high - middle)),
        _yuen(shift, variance, parts),
        run_to_run,
    )


def _by_runs(launches: Difference, error: float, apart: Sequence[float]) -> Difference:
    """By how often runs of the machine differ so much; no more certain than the launches allow.

    error: standard deviation of the difference.
    """
    assert launches.ratio and launches.low and launches.high
    middle, low, high = (math.log(ratio) for ratio in (launches.ratio, launches.low, launches.high))
    usual = apart[min(math.ceil(LEVEL * (len(apart) + 1)), len(apart)) - 1]
    larger = len(apart) - bisect_left(apart, abs(middle) / error)
    return Difference(
        launches.ratio,
        math.exp(min(low, middle - usual * error)),
        math.exp(max(high, middle + usual * error)),
        (1 + larger) / (1 + len(apart)),
        launches.run_to_run,
    )


def run_medians(sample: Iterable[LaunchValue]) -> list[float]:
    """The median of each run, the oldest first."""
    runs: dict[str, list[LaunchValue]] = {}
    for launch in sample:
        runs.setdefault(launch.run, []).append(launch)
    ordered = sorted(runs.values(), key=lambda run: min(launch.time for launch in run))
    return [median(launch.value for launch in run) for run in ordered]


def spread_of_runs(groups: Iterable[Sequence[float]]) -> RunSpread | None:
    """How runs of one machine differ; None where fewer than `LEAST_FREEDOM` degrees of freedom say it.

    groups: medians of runs; what differs between groups is not counted.
    """
    logs = [[math.log(value) for value in group] for group in groups if len(group) > 1 and min(group) > 0]
    freedom = sum(len(group) - 1 for group in logs)
    if freedom < LEAST_FREEDOM:
        return None
    squares = [_squares(group) for group in logs]
    apart = []
    for group, own in zip(logs, squares, strict=True):
        n, centre, dof = len(group), fmean(group), freedom - min(2, len(group) - 1)
        rest = sum(squares) - own
        for x, y in combinations([x - centre for x in group], 2):
            # the squares of the others about their own mean, which is −(x + y)/(n − 2)
            others = own - x**2 - y**2 - (x + y) ** 2 / (n - 2) if n > 2 else 0.0
            sd = max(math.sqrt(max(rest + others, 0.0) / dof), _LEAST_SPREAD)
            apart.append(abs(x - y) / (sd * math.sqrt(2)))
    return RunSpread(max(_deviation(logs), _LEAST_SPREAD), tuple(apart))


def _deviation(groups: Sequence[Sequence[float]]) -> float:
    """Standard deviation within groups."""
    freedom = sum(len(group) - 1 for group in groups)
    return math.sqrt(sum(map(_squares, groups)) / freedom)


def _squares(values: Sequence[float]) -> float:
    centre = fmean(values)
    return sum((x - centre) ** 2 for x in values)


class _Trimmed(NamedTuple):
    """The trimmed mean of a sample."""

    #: Mean of the values without the lowest and the highest fifth; values are logarithms.
    mean: float
    #: Variance of that mean, with the design effect.
    variance: float
    #: Degrees of freedom of the variance.
    dof: int


def _trimmed(values: Sequence[float], drift: float) -> _Trimmed:
    ordered = sorted(values)
    n, cut = len(ordered), math.floor(_TRIM * len(ordered))
    inner = ordered[cut : n - cut]
    winsorised = [min(max(value, inner[0]), inner[-1]) for value in ordered]
    centre = fmean(winsorised)
    squares = sum((value - centre) ** 2 for value in winsorised)
    h = len(inner)
    return _Trimmed(fmean(inner), squares / (h * (h - 1)) * drift, h - 1)


def _yuen(shift: float, variance: float, parts: Sequence[_Trimmed]) -> float:
    if variance == 0:
        return 1.0 if shift == 0 else 0.0
    spread = sum(part.variance**2 / part.dof for part in parts)
    dof = variance**2 / spread if spread else 1e6
    return student_two_sided(shift / math.sqrt(variance), min(dof, 1e6))


def design_effect(cases: Iterable[Sequence[Sequence[LaunchValue]]]) -> float:
    """How many launches count as one: 1 where they are independent.

    cases: for each case its series, which share launches (the sizes of a sweep). In each series the launches'
    first and second half in time are compared: F = (mean of one − mean of the other)² over its expectation
    from the variance within the halves. Of a case the median counts once; the design effect is the median
    over the cases relative to that of F(1, n − 2) itself. It is 1 unless more cases lie above that than
    chance puts there in one run of ten (sign test).
    """
    ratios = []
    for series in cases:
        of_case = [ratio for sample in series if (ratio := _halves(sample)) is not None]
        if of_case:
            ratios.append(median(of_case))
    above, n = sum(ratio > 1 for ratio in ratios), len(ratios)
    if n < _LEAST_CASES or at_least(above, n, 0.5) > _DRIFT_ALARM:
        return 1.0
    return min(max(1.0, median(ratios)), _MOST_DRIFT)


def _halves(sample: Sequence[LaunchValue]) -> float | None:
    """F of one series in units of its median without drift; None where it tells nothing."""
    n = len(sample)
    if n < LEAST_LAUNCHES or any(launch.value <= 0 for launch in sample):
        return None
    # launches of one moment stay as they came: sorted by value they would look like a drift
    logs = [math.log(launch.value) for launch in sorted(sample, key=lambda launch: launch.time)]
    halves = logs[: n // 2], logs[n // 2 :]
    centres = [fmean(half) for half in halves]
    within = sum((x - c) ** 2 for half, c in zip(halves, centres, strict=True) for x in half) / (n - 2)
    if within == 0:
        return None
    expected = within * sum(1 / len(half) for half in halves)
    # the median of F(1, n − 2) is the square of the upper quartile of Student's t
    return (centres[1] - centres[0]) ** 2 / expected / student_quantile(0.75, n - 2) ** 2
