"""How much the members of a fleet differ for good: τ, of the nodes of one run and of those of all nights.

Levels are logarithms, less is worse. The middle of the members says by how much they differ, or their slow
tail where that is wider, as it is in published fleets. A few bad members move the middle hardly, and the tail
no further than `LONGEST_TAIL`. A small fleet cannot say by how much its members differ, so what is known of
other fleets counts as some members more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npc.statistics.distributions import normal_quantile

if TYPE_CHECKING:
    from npc.statistics.arrays import Floats

#: The slow tail widens τ so many times at most: all devices of a bad node together are no tail.
LONGEST_TAIL: Final = 2.0
#: The tail is this share of the members, two of a small fleet, a quarter at most.
_TAIL: Final = 0.05
_MOST_OF_TAIL: Final = 0.25


class KnownSpread(NamedTuple):
    """τ before any member of a fleet is seen."""

    #: As it is published of other fleets, in log units.
    tau: float
    #: How many members it counts for.
    members: int

    def with_members(self, variance: Floats | float, number: Floats | float) -> Floats:
        """τ of a fleet. variance: of its members, without noise; number: of the members it is from."""
        total = number * variance + self.members * self.tau**2
        tau: Floats = np.sqrt(total / (number + self.members))
        return tau


def centres_and_deviations(levels: Floats) -> tuple[Floats, Floats]:
    """By row, the median of levels, and their standard deviation with their noise; both NaN of none.

    levels: fleets × members, NaN for none.
    """
    number = levels.shape[1] - np.isnan(levels).sum(axis=1)
    centre = medians(levels)
    off = np.sort(levels - centre[:, None], axis=1)  # NaN last
    share = np.maximum(_TAIL, np.minimum(2 / np.maximum(number, 1), _MOST_OF_TAIL))
    place = np.minimum((share * number).astype(np.intp), off.shape[1] - 1)
    different, which = np.unique(share, return_inverse=True)
    quantile = np.array([normal_quantile(share) for share in different.tolist()])[which]
    tail = -np.take_along_axis(off, place[:, None], axis=1)[:, 0] / quantile
    middle = 1.4826 * medians(np.abs(off))
    deviation: Floats = np.fmax(middle, np.minimum(tail, LONGEST_TAIL * middle))
    return centre, deviation


def medians(values: Floats) -> Floats:
    """The median of each row of values that are no NaN; NaN of none. A sort takes a tenth of the time of
    `numpy.nanmedian`, which goes row by row."""
    count = values.shape[1] - np.isnan(values).sum(axis=1)
    both = np.maximum(np.stack([count - 1, count], axis=1) // 2, 0)
    middles: Floats = np.take_along_axis(np.sort(values, axis=1), both, axis=1).sum(axis=1) / 2
    return middles
