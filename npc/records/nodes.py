"""How nodes compare with each other: within a night only.

From one night to the next something may have changed for all nodes: a node that was measured in slow nights
only is not slow for that. What only one group of nodes measured in a night is not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from npc.records.series import Series
from npc.records.units import METRICS

Hosts = tuple[str, ...]


def relative(value: float, normal: float, better: str) -> float:
    """How good a value is beside what is normal, as a ratio: below 1 is worse. better: ``higher`` or
    ``lower``."""
    if value <= 0 or normal <= 0:
        return 1.0 if value == normal else 0.0
    return normal / value if better == "lower" else value / normal


def beside_others(
    series: Series, values: Mapping[Hosts, Sequence[float]], least: int = 2
) -> dict[Hosts, float]:
    """How the groups of hosts that measured a series in one night compare: the median of each as a ratio to
    the median of all of these medians; below 1 is worse.

    values: the samples of each group, in the metric's unit, one at least. Empty where fewer than `least`
    groups measured the series, where neither direction is better, and for percentiles and other statistics,
    which repeat what another series says.
    """
    better = METRICS[series.metric].better
    if better == "neither" or len(values) < least or "statistic" in series.by_name:
        return {}
    medians = {hosts: float(median(samples)) for hosts, samples in values.items()}
    normal = median(medians.values())
    return {hosts: relative(value, normal, better) for hosts, value in medians.items()}
