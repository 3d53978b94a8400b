"""Change points: has a series another level than it had when it was last accepted, and since which night?

The values, logarithms of nightly medians, are freed of single outliers (Hampel, J. Am. Stat. Assoc. 69,
1974), then cut into pieces of constant level (kernel change point detection with a linear kernel, Arlot,
Celisse, Harchaoui, J. Mach. Learn. Res. 20, 2019, by `ruptures`). A change counts if the levels of today's
piece and of the first one differ by 2 % at least and by `THRESHOLD` standard errors; those allow for nights
that resemble the ones before them (first-order autocorrelation). The threshold is that high because every
night asks again, at every place: so a change needs no confirmation by a second look.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from cron.step_detection import MIN_EFFECT, evidence, fit_noise, tail
from npc.statistics.mixture import MIN_NOISE

if TYPE_CHECKING:
    from npc.statistics.arrays import Floats, Integers

#: Standard errors between two levels that are not the same.
THRESHOLD: Final = 5.0
#: Nights that a level needs at least.
MIN_NIGHTS: Final = 5
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
    if np.ptp(clean) < MIN_EFFECT:  # no two levels differ by more
        return None
    sigma = noise_of(clean)
    pieces = levels(clean, sigma)
    return _against_first(values[measured], clean, pieces, measured) if len(pieces) > 1 else None


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


def _against_first(
    values: Floats, clean: Floats, pieces: list[tuple[int, int]], measured: Integers
) -> Change | None:
    """Today's level against the first one, by the values as measured; outliers weigh little."""
    (_, end), (begin, _) = pieces[0], pieces[-1]
    normal = float(np.median(clean[:end]))
    towards = math.copysign(1.0, float(np.median(clean[begin:])) - normal)
    for a, b in reversed(pieces[1:-1]):
        # A piece before it that differs in the same direction belongs to the change.
        if towards * (float(np.median(clean[a:b])) - normal) < MIN_EFFECT:
            break
        begin = a
    middles = [np.median(clean[a:b]) for a, b in pieces]
    residuals = values - np.repeat(middles, [b - a for a, b in pieces])
    noise = fit_noise(residuals[None, :])
    first = fit_noise(values[None, :end])
    long = tail(residuals[None, :], noise)
    sigma = noise.sigma * _memory(np.clip(residuals, -3 * noise.sigma, 3 * noise.sigma))
    noise = noise._replace(location=first.location, sigma=sigma, readings=first.readings)
    found = evidence(values[None, begin:] - first.location[:, None], noise, long)
    effect, score = float(found.delta[0]), float(found.score[0])
    if abs(effect) < MIN_EFFECT or score < THRESHOLD:
        return None
    return Change(int(measured[begin]), effect, score)


def _memory(residuals: Floats) -> float:
    """By how much nights that resemble the ones before make an average less certain."""
    follow = float(residuals[:-1] @ residuals[1:]) / max(float(residuals @ residuals), 1e-30)
    # Without memory it is about 1/√n, of either sign.
    return math.sqrt((1 + follow) / (1 - follow)) if follow > 2 / math.sqrt(len(residuals)) else 1.0
