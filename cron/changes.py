"""Change points: has a series another level than it had when it was last accepted, and since which night?

The nights, logarithms, are split where least squares put the change, freed of single outliers. How far the
mean of the nights since then lies from that of the nights before is judged as a step is
(`npc.cron.step_detection`): by the spread of the very same statistic over the past, the means of as many
nights in a row, and by as many degrees of freedom as those are worth. What has wandered before may wander
on. If nothing is clear there, the nights before are split again, and so on, since what comes slowly or in
several steps has an earlier beginning.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from npc.cron.step_detection import MIN_EFFECT, spread
from npc.statistics.arrays import Floats
from npc.statistics.distributions import normal_score
from npc.statistics.mixture import MIN_NOISE

#: Score of a change: a chance of 1 in 300 000, since every night asks again, at every place.
THRESHOLD: Final = 4.5
#: Nights that a level needs at least: a weekend is none.
MIN_NIGHTS: Final = 7
#: Nights before the newest that are looked at, at most.
WINDOW: Final = 730
#: The past has to hold as many stretches, one after the other, as the nights whose mean is judged are long.
STRETCHES: Final = 8


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
        end = split(smooth[:end])
        score = level_score(nights, end, today)
        if score >= THRESHOLD:
            before, since = np.split(nights, [end])
            return Change(int(measured[end]), float(np.median(since) - np.median(before)), score)
    return None


def split(nights: Floats) -> int:
    """The night with which another level begins, by least squares; each is at least `MIN_NIGHTS` long."""
    count = len(nights)
    begin = np.arange(MIN_NIGHTS, count - MIN_NIGHTS + 1)
    sums = np.cumsum(nights)
    apart = count * sums[begin - 1] - begin * sums[-1]
    return int(begin[np.argmax(apart**2 / (begin * (count - begin)))])


def level_score(nights: Floats, begin: int, today: float) -> float:
    """Evidence that the level changed with a night; 0 if it did not, or if today's is not another one."""
    after = nights[begin : 2 * begin]  # how it goes up and down in a longer time is not known
    stretch = max(min(len(after), begin // STRETCHES), 1)
    sums = np.cumsum(np.append(0.0, nights[:begin]))
    means = (sums[stretch:] - sums[:-stretch]) / stretch
    effect, now = (level - float(means.mean()) for level in (float(after.mean()), today))
    if min(abs(effect), math.copysign(now, effect * now)) < MIN_EFFECT:
        return 0.0
    same_way = math.copysign(1.0, -effect) * (means - means.mean())
    (usual,), (dof,) = spread(same_way[None], MIN_NOISE)
    # The mean of the past and its spread are both estimated, from `dof` + 1 stretches.
    known = math.sqrt(max(dof - 1, 0.0) / (dof + 1))
    return float(normal_score(abs(effect) * known / usual, dof))
