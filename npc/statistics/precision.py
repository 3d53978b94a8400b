"""How precisely a median is known, and whether a case that is measured again and again is known well enough.

The interval is that of `npc.statistics.medians`, which holds whenever one stops looking, so it may decide
when to stop. Since its k is 1 up to nine samples, a case that is not known after six can be known after ten
at the earliest, and then after fourteen and eighteen: more samples only widen a range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from npc.statistics.medians import MIN_SAMPLES, MOST_LOOKS, order_statistic_rank, summarise


@dataclass(frozen=True, slots=True)
class Goal:
    """When a case has been measured often enough.

    precision: how far the ends of the interval may lie from the median, as a part of it. most: samples at
    most, `MOST_LOOKS` or fewer. case_s: seconds of a case's launches; beyond the first six there are none if
    these would be over before the interval could become narrower.
    """

    precision: float = 0.03
    most: int = 10
    case_s: float = 12.0

    def __post_init__(self) -> None:
        if not 0 < self.precision < 1:
            raise ValueError(f"a precision of {100 * self.precision:g} %: it lies between 0 and 100 %")
        if not MIN_SAMPLES <= self.most <= MOST_LOOKS:
            raise ValueError(
                f"{self.most} samples at most: fewer than {MIN_SAMPLES} give no 95 % interval, and who looks "
                f"after each of more than {MOST_LOOKS} has none"
            )

    def enough(self, launches: int, seconds: float, width: float) -> bool:
        """Whether a case with so many launches, which took so long, gets no further one; width: `half_width`
        of its samples."""
        if launches < MIN_SAMPLES:
            return False
        if width <= self.precision or launches >= self.most:
            return True
        return seconds / launches * min(next_narrower(launches), self.most) > self.case_s

    def at_most(self, seconds: float) -> int:
        """Launches of a case, each of which takes so long, where its interval stays too wide."""
        made = MIN_SAMPLES
        while not self.enough(made, made * seconds, math.inf):
            made += 1
        return made


def next_narrower(samples: int) -> int:
    """With how many samples, more than these, the interval leaves out more of them than before."""
    ranks = [rank[0] if (rank := order_statistic_rank(n)) else 0 for n in range(MOST_LOOKS + 1)]
    found = (n for n in range(samples + 1, MOST_LOOKS + 1) if ranks[n] > ranks[n - 1])
    return next(found, MOST_LOOKS)


def half_width(values: Sequence[float]) -> float:
    """How far the farther end of the median's 95 % interval lies from it, as a part of it.

    Infinite without an interval, and where the median is 0 and an end is not.
    """
    summary = summarise(values)
    if summary.low is None or summary.high is None:
        return math.inf
    farthest = max(summary.high - summary.median, summary.median - summary.low)
    if not farthest:
        return 0.0
    return farthest / abs(summary.median) if summary.median else math.inf


#: What is aimed at where nobody says otherwise.
USUAL: Final = Goal()
