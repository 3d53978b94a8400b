"""Change points: has a series another level than it had when it was last accepted, and since which night?

The nights, logarithms, are split where least squares put the change, freed of single outliers. The means of
the two levels are compared by Student's t: nights that resemble each other count for less (`memory`), and the
evidence grows with the nights on both sides. It grows to a limit: levels may always differ by a share of the
noise (`WANDER`), and as much as the means of as many nights in a row have differed before. A difference that
is large even against single nights needs no more. If nothing is clear there, the nights before are split
again, and so on, since what comes slowly or in several steps has an earlier beginning.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from npc.cron.step_detection import CAP, MIN_EFFECT, autocorrelation, resolution, spread
from npc.statistics.arrays import Floats
from npc.statistics.distributions import normal_score

#: Score of a change: a chance of 1 in 300 000, since every night asks again, at every place.
THRESHOLD: Final = 4.5
#: Nights that a level needs at least: a weekend is none.
MIN_NIGHTS: Final = 7
#: Nights before the newest that are looked at, at most.
WINDOW: Final = 730
#: So many stretches, one after the other, the past has to hold to tell how their means wander.
STRETCHES: Final = 8
#: Standard deviations between the tenths of normal noise.
TENTHS: Final = 2.563
#: An autocorrelation of n nights is chance below this over √n.
BY_CHANCE: Final = 0.7
#: Levels may differ by this share of a night's standard deviation, though that was never seen: noise that
#: wanders for longer than the past is long has no other mark.
WANDER: Final = 0.35


class Change(NamedTuple):
    """A change to another level."""

    #: Number of the first night at the new level.
    night: int
    #: Change of the median (log units).
    effect: float
    #: Standard normal score of the evidence.
    score: float


def changed(values: Floats) -> Change | None:
    """How today's level differs from the one before, and since when; None if it does not.

    values: T logarithms, NaN for nights without one.
    """
    measured = np.flatnonzero(~np.isnan(values))[-WINDOW:]
    nights, end = values[measured], len(measured)
    if end < 2 * MIN_NIGHTS:
        return None
    today = float(np.sort(nights[-MIN_NIGHTS:])[MIN_NIGHTS // 2])  # the median
    usual = np.cumsum(nights)[MIN_NIGHTS - 1 : -MIN_NIGHTS] / np.arange(MIN_NIGHTS, end - MIN_NIGHTS + 1)
    if np.abs(today - usual).max() < MIN_EFFECT:
        return None
    # Of every three nights the middle one: no single outlier is left, and a step stays where it is.
    smooth = nights.copy()
    smooth[1:-1] = np.sort((nights[:-2], nights[1:-1], nights[2:]), axis=0)[1]
    while end >= 2 * MIN_NIGHTS:
        begin = split(smooth[:end])
        score = level_score(nights[:begin], nights[begin:end], today)
        if score >= THRESHOLD:
            effect = float(np.median(nights[begin:]) - np.median(nights[:begin]))
            return Change(int(measured[begin]), effect, score)
        end = begin
    return None


def split(nights: Floats) -> int:
    """The night with which another level begins, by least squares; each is at least `MIN_NIGHTS` long."""
    count = len(nights)
    begin = np.arange(MIN_NIGHTS, count - MIN_NIGHTS + 1)
    sums = np.cumsum(nights)
    apart = count * sums[begin - 1] - begin * sums[-1]
    return int(begin[np.argmax(apart**2 / (begin * (count - begin)))])


def level_score(before: Floats, after: Floats, today: float) -> float:
    """Evidence that a level changed, a standard normal score; 0 if it did not.

    It did not either if today's level is the old one.

    before, after: the nights of both levels, logarithms. today: median of the newest nights.
    """
    least = float(resolution(before[None])[0, 0])
    before, after = without_outliers(before, least), without_outliers(after, least)
    usual = float(before.mean())
    effect, now = float(after.mean()) - usual, today - usual
    if min(abs(effect), math.copysign(now, effect * now)) < MIN_EFFECT:
        return 0.0
    noise = np.append(before - usual, after - after.mean())
    variance = max(before.var(ddof=1), (noise**2).sum() / (len(noise) - 2), least**2)

    def error(tau: float) -> float:
        return math.sqrt(variance * (tau / len(before) + tau / len(after) + WANDER**2))

    if abs(effect) < THRESHOLD * error(1.0):
        return 0.0  # not even if all nights were independent
    tau, dof = memory(noise)
    ups_and_downs = wandering(before * math.copysign(1.0, -effect), len(after), least)
    score = normal_score(abs(effect) / max(error(tau), ups_and_downs), dof)
    # As much as both levels would differ by if the nights of each were worth a single one.
    alone = normal_score(abs(effect) / math.sqrt(2 * variance), len(noise) - 2)
    return float(max(score, alone))


def wandering(before: Floats, count: int, least: float) -> float:
    """How far means of `count` nights in a row, or of as many as the past has `STRETCHES` times, have been
    from each other: root mean square, of those that were lower if that is more."""
    stretch = max(min(count, len(before) // STRETCHES), 1)
    sums = np.cumsum(np.append(0.0, before))
    means = (sums[stretch:] - sums[:-stretch]) / stretch
    (usual,), _ = spread((means - means.mean())[None], least / math.sqrt(stretch))
    return float(usual)


def without_outliers(nights: Floats, least: float) -> Floats:
    """The nights, none further from their median than noise reaches."""
    by_size, tenth = np.sort(nights), len(nights) // 10
    middle = by_size[len(nights) // 2]
    scale = 1.4826 * np.sort(np.abs(nights - middle))[len(nights) // 2]
    sigma = max(scale, (by_size[-1 - tenth] - by_size[tenth]) / TENTHS, least)
    return nights.clip(middle - CAP * sigma, middle + CAP * sigma)


def memory(nights: Floats) -> tuple[float, float]:
    """Integrated autocorrelation time, 1 at least: so many nights are worth an independent one; and the
    degrees of freedom of a variance that is estimated with it.

    The sum ends where two lags in a row are no more than chance (Geyer, Statistical Science 7, 1992, section
    3.3); its bias and its error are those of Sokal (Functional Integration, 1997, section 3) and Wolff
    (Comput. Phys. Commun. 156, 2004).
    """
    count = len(nights)
    lags = autocorrelation(nights[None], max(count // 2, 3))[0]
    chance = lags[1:] < BY_CHANCE / math.sqrt(count)
    ends = np.flatnonzero(chance[:-1] & chance[1:])
    window = int(ends[0]) if len(ends) else len(lags) - 1
    width = 2 * window + 1
    tau = (1 + 2 * float(lags[1 : window + 1].sum())) * (1 + width / count)
    return max(tau, 1.0), max(count / width - 2, 1.0)
