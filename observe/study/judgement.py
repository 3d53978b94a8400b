"""What came of a study: its expectations judged, its placements in order, by ranks alone.

The ratio of two conditions' times is the median of all pairwise ratios, with the exact interval of the rank
sum test (`npc.statistics.rank_sum`): launches are the unit, and no distribution is assumed.

Placements are compared with the one whose median is least. That one was chosen by the same numbers, so every
comparison has the level 1 − 0.05/(m − 1) of m placements: the truly best is among those that are not told
apart from the first with at least 95 % (its m − 1 comparisons hold together; Hsu, Multiple Comparisons, 1996,
chapter 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from npc.observe.study.records import Expectation, Placement, ProgramModel, Study
from npc.statistics.medians import LEVEL, summarise
from npc.statistics.rank_sum import ratio_interval, tells_apart

#: More launches than this nobody makes to tell two placements apart.
_MOST_RUNS: Final = 1000


def judged(study: Study) -> Study:
    """The study with its expectations and placements judged by the runs that it has."""
    return replace(
        study,
        expectations=tuple(judge(expectation, study) for expectation in study.expectations),
        best=placements_of(study),
        model=model_of(study),
    )


def model_of(study: Study) -> ProgramModel | None:
    """How the time follows from what each resource gives; None where no condition changed one."""
    if all(condition.usual for condition in study.conditions):
        return None
    from npc.observe.study.program_model import fit

    try:
        return fit(study)
    except ValueError:  # the reference has no run that worked
        return None


def judge(expectation: Expectation, study: Study) -> Expectation:
    """The expectation with what came of it: held where its whole interval is on the expected side."""
    left, right = study.seconds(expectation.left), study.seconds(expectation.right)
    if not left or not right:
        return expectation._replace(held="not measured", ratio=None, low=None, high=None)
    low, ratio, high = ratio_interval(left, right)  # of speeds: the times' ratio turned round
    answered = expectation._replace(ratio=ratio, low=low, high=high)
    if low is None or high is None:
        return answered._replace(held="undecided")
    above, below = low >= expectation.factor, high < expectation.factor
    if expectation.sign == "<=":
        above, below = high <= expectation.factor, low > expectation.factor
    return answered._replace(held="held" if above else "not held" if below else "undecided")


def placements_of(study: Study) -> tuple[Placement, ...]:
    """The conditions of the machine's usual state, the fastest first, and what each loses against it."""
    measured = {
        condition.name: seconds
        for condition in study.conditions
        if condition.usual and (seconds := study.seconds(condition.name))
    }
    if not measured:
        return ()
    order = sorted(measured, key=lambda name: median(measured[name]))
    best = measured[order[0]]
    level = level_of(len(order))
    placements = []
    for name in order:
        summary = summarise(measured[name])
        low, ratio, high = (
            ratio_interval(best, measured[name], level) if name != order[0] else (1.0, 1.0, 1.0)
        )
        placements.append(
            Placement(
                name, summary.median, summary.low, summary.high, ratio - 1,
                None if low is None else low - 1, None if high is None else high - 1,
            )
        )  # fmt: skip
    return tuple(placements)


def level_of(placements: int) -> float:
    """The level of each comparison with the best of a number of placements."""
    return 1 - (1 - LEVEL) / max(1, placements - 1)


def tied(best: Sequence[Placement]) -> list[Placement]:
    """Those that are not told apart from the first."""
    return [placement for placement in best[1:] if placement.loses_low is None or placement.loses_low <= 0]


def runs_needed(placements: int) -> int:
    """The least number of runs of each that can tell this number of placements apart at all."""
    level = level_of(placements)
    return next(runs for runs in range(1, _MOST_RUNS) if tells_apart(runs, runs, level))
