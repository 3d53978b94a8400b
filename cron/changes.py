"""Change points: has a series another level than it had when it was last accepted, and since which night?

The values, logarithms of nightly medians, are freed of single outliers (Hampel, J. Am. Stat. Assoc. 69,
1974), then cut into pieces of constant level (kernel change point detection with a linear kernel, Arlot,
Celisse, Harchaoui, J. Mach. Learn. Res. 20, 2019, by `ruptures`). A change counts if the levels of today's
piece and of the first one differ by 2 % at least and by `THRESHOLD` standard errors; those are learned from
the nights before the change, and allow for nights that resemble the ones before them. The threshold is that
high because every night asks again, at every place: so a change needs no confirmation by a second look.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from cron.step_detection import MIN_EFFECT, autocorrelation, rms, shrunk
from npc.statistics.distributions import normal_score
from npc.statistics.mixture import MIN_NOISE

if TYPE_CHECKING:
    from npc.statistics.arrays import Floats, Integers

#: Standard errors between two levels that are not the same.
THRESHOLD: Final = 5.0
#: Nights that a level needs at least: a weekend is none.
MIN_NIGHTS: Final = 7
#: Nights before the newest that are looked at, at most.
WINDOW: Final = 730
#: Hampel filter: threshold (σ) and half window (nights).
HAMPEL_SIGMAS: Final = 3.0
HAMPEL_NIGHTS: Final = 3
#: Cost of a change, in units of σ² and log(nights): about that of the Bayesian information criterion, twice.
PENALTY: Final = 4.0


class Change(NamedTuple):
    """night: index of the first night at the new level. effect: change of the level in log units. score: in
    standard errors."""

    night: int
    effect: float
    score: float


def changed(values: Floats) -> Change | None:
    """How today's level differs from the first one, and since when; None if it does not.

    values: T logarithms, NaN for nights without one.
    """
    measured = np.flatnonzero(~np.isnan(values))[-WINDOW:]
    if len(measured) < 2 * MIN_NIGHTS:
        return None
    clean = without_outliers(values[measured])
    sigma = noise_of(clean)
    pieces = levels(clean, sigma)
    return _against_first(clean, pieces, measured) if len(pieces) > 1 else None


def levels(clean: Floats, sigma: float) -> list[tuple[int, int]]:
    """The pieces of constant level as half-open ranges of nights."""
    from ruptures import KernelCPD  # here, because it loads SciPy

    search = KernelCPD(kernel="linear", min_size=MIN_NIGHTS)
    penalty = PENALTY * sigma**2 * math.log(len(clean))
    ends = search.fit(clean[:, None]).predict(pen=penalty)
    return list(zip([0, *ends[:-1]], ends, strict=True))


def without_outliers(values: Floats) -> Floats:
    """The values with each outlier replaced by the median about it (Hampel's filter)."""
    width = 2 * HAMPEL_NIGHTS + 1
    padded = np.pad(values, HAMPEL_NIGHTS, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    # The medians of an odd number; `np.median` takes three times as long.
    middle = np.partition(windows, HAMPEL_NIGHTS, axis=1)[:, HAMPEL_NIGHTS]
    apart = np.abs(windows - middle[:, None])
    spread = 1.4826 * np.partition(apart, HAMPEL_NIGHTS, axis=1)[:, HAMPEL_NIGHTS]
    # Seven nights say little about the spread; the typical one is known better.
    limit = HAMPEL_SIGMAS * np.maximum(spread, np.median(spread))
    return np.where(np.abs(values - middle) > limit, middle, values)


def noise_of(clean: Floats) -> float:
    """Standard deviation from night to night, whatever the levels: from differences of neighbours."""
    steps = np.abs(np.diff(clean))
    return max(1.4826 * float(np.median(steps)) / math.sqrt(2), MIN_NOISE)


def _against_first(clean: Floats, pieces: list[tuple[int, int]], measured: Integers) -> Change | None:
    """Today's level against the first one."""
    (_, end), (begin, _) = pieces[0], pieces[-1]
    normal = float(np.median(clean[:end]))
    towards = math.copysign(1.0, float(np.median(clean[begin:])) - normal)
    for a, b in reversed(pieces[1:-1]):
        # A piece before it that differs in the same direction belongs to the change.
        if towards * (float(np.median(clean[a:b])) - normal) < MIN_EFFECT:
            break
        begin = a
    effect = float(np.median(clean[begin:])) - normal
    before, nights = clean[:begin] - normal, len(clean) - begin
    # what the series has gone through for as many nights in a row
    windows = np.lib.stride_tricks.sliding_window_view(before, min(nights, begin))
    earlier = np.median(windows, axis=1)
    memory = shrunk(autocorrelation(before[None], begin // 2), begin)[0, 1:]
    # of medians, which need π/2 times the nights of means, and are no matter of single nights
    night = math.pi / 2 * max(float(rms(before[None])[0]), MIN_NOISE) ** 2
    variance = max(night * _of_mean(memory, nights), float(np.mean(earlier**2))) + night * _of_mean(
        memory, end
    )
    score = float(normal_score(abs(effect) / math.sqrt(variance), begin / (1 + 2 * memory @ memory)))
    new = abs(effect) > float((towards * earlier).max())
    return (
        Change(int(measured[begin]), effect, score)
        if new and abs(effect) >= MIN_EFFECT and score >= THRESHOLD
        else None
    )


def _of_mean(memory: Floats, nights: int) -> float:
    """Variance of the mean of nights, in units of one night's; memory: autocorrelations from lag 1 on."""
    lags = np.arange(1, min(len(memory), nights - 1) + 1)
    return max(1 + 2 * float((1 - lags / nights) @ memory[: len(lags)]), 1.0) / nights
