"""How precisely a median is known, and whether a case that is measured again and again is known well enough.

The interval is that of `npc.statistics.medians`. It holds whenever measuring stops, so it may decide when to
stop. It becomes narrower only at `STEPS`, where one sample more is left out on each side. So a case goes on
to the next step where its interval is too wide, but would not be without these two samples, and where there
is time for the step: one outlier is worth four more launches, scatter of all launches is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from npc.statistics.medians import MIN_SAMPLES, MOST_LOOKS, order_statistic_rank


def _rank(samples: int) -> int:
    rank = order_statistic_rank(samples)
    return rank[0] if rank else 0


#: Numbers of samples from which on the interval leaves out one more on each side: 6, 10, 14, 18.
STEPS: Final = tuple(n for n in range(MIN_SAMPLES, MOST_LOOKS + 1) if _rank(n) > _rank(n - 1))


@dataclass(frozen=True, slots=True)
class Goal:
    """When a case has been measured often enough."""

    #: How far the ends of the median's interval may lie from it, as a share of the median.
    precision: float = 0.03
    #: Largest number of samples; `MOST_LOOKS` or fewer.
    most: int = 14
    #: Seconds that all launches of a case may take together if there are more than six; six are always made.
    case_s: float = 6.0

    def __post_init__(self) -> None:
        if not 0 < self.precision < 1:
            raise ValueError(f"a precision of {100 * self.precision:g} %: it lies between 0 and 100 %")
        if not MIN_SAMPLES <= self.most <= MOST_LOOKS:
            raise ValueError(
                f"{self.most} samples at most: it lies between {MIN_SAMPLES} and {MOST_LOOKS}; fewer give no "
                "95 % interval, and after more looks none holds"
            )

    def enough(self, launches: int, seconds: float, samples: Iterable[Sequence[float]]) -> bool:
        """Whether a case needs no further launch.

        launches, seconds: how many it has had, and how long they took together. samples: those of each number
        that has to be known.
        """
        if launches < MIN_SAMPLES:
            return False
        if launches >= self.at_most(seconds / launches):
            return True
        return launches in STEPS and not any(map(self._pays, samples))

    def at_most(self, seconds: float) -> int:
        """How many launches a case can have if each takes `seconds`."""
        paid = (n for n in STEPS if n <= self.most and n * seconds <= self.case_s)
        return max(paid, default=MIN_SAMPLES)

    def _pays(self, values: Sequence[float]) -> bool:
        wide = half_width(values) > self.precision
        return wide and (len(values) < MIN_SAMPLES or half_width(values, without=1) <= self.precision)


def half_width(values: Sequence[float], without: int = 0) -> float:
    """How far the farther end of the median's 95 % interval lies from the median, as a share of it.

    Infinite without an interval, and where the median is 0 and an end is not. without: leave out so many
    samples more on each side.
    """
    ordered, rank = sorted(values), _rank(len(values)) + without
    if not 0 < rank <= len(ordered) / 2:
        return math.inf
    middle = median(ordered)
    farthest = max(ordered[-rank] - middle, middle - ordered[rank - 1])
    if not farthest:
        return 0.0
    return farthest / abs(middle) if middle else math.inf


#: The goal where nobody gives another one.
USUAL: Final = Goal()
