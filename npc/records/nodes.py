"""How nodes compare with each other: within a night only.

Between two nights everything may have changed for all of them: who was measured only in the slow ones is no
slow node. What only one group of nodes measured in a night is compared with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from npc.records.series import Series
from npc.records.units import METRICS

Hosts = tuple[str, ...]


def relative(value: float, normal: float, better: str) -> float:
    """How good a value is beside what is normal: below 1 is worse. better: ``higher`` or ``lower``."""
    if value <= 0 or normal <= 0:
        return 1.0 if value == normal else 0.0
    return normal / value if better == "lower" else value / normal


def beside_others(
    series: Series, values: Mapping[Hosts, Sequence[float]], least: int = 2
) -> dict[Hosts, float]:
    """The groups of hosts that measured a series in one night: each one's median as a ratio to the median of
    all of theirs; below 1 is worse.

    values: the samples of each group, in the metric's unit, one at least. None are compared where fewer than
    `least` groups measured it, where neither direction is better, and percentiles and the like are not: they
    say again what the series beside them says.
    """
    better = METRICS[series.metric].better
    if better == "neither" or len(values) < least or "statistic" in series.by_name:
        return {}
    medians = {hosts: float(median(samples)) for hosts, samples in values.items()}
    normal = median(medians.values())
    return {hosts: relative(value, normal, better) for hosts, value in medians.items()}
