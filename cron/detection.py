"""Step detection over all series and nodes of a panel, night by night: what every verdict is made of.

A series is DEGRADED from the night on in which its score exceeds `THRESHOLD` and, over all series of that
night, the Benjamini–Hochberg procedure (1995) with a false discovery rate of `FALSE_DISCOVERY` rejects "as
always" for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from npc.cron.acceptance import Baseline
from npc.cron.common_mode import CommonMode
from npc.cron.fleet_nights import FleetNights
from npc.cron.missed import MissedSeries
from npc.cron.series import Panel
from npc.cron.step_detection import JudgedNight, StepDetection, first_low
from npc.records.series import Series
from npc.statistics.arrays import Booleans, Floats, Integers
from npc.statistics.distributions import normal_quantile, upper_tail
from npc.statistics.medians import false_discovery

#: Score from which on a single series is worse (or better) than it was: once in 25 years of quiet nights.
THRESHOLD: Final = round(normal_quantile(1 / 25 / 365), 2)
#: Score of tonight's draws alone from which on a series is watched.
WATCHED: Final = 3.0
#: Expected share of false names among the series called DEGRADED in one night.
FALSE_DISCOVERY: Final = 0.01


class DetectionState(NamedTuple):
    """What step detection has after a night; it is valid until the next one."""

    #: S × T values of the nights so far, logarithms; NaN for none.
    values: Floats
    #: What the series have in common.
    common_mode: CommonMode
    #: The night, by series.
    judged: JudgedNight
    #: By series, the value (log units) below which the night was to be measured again; NaN without a past.
    limit: Floats
    #: By series, whether it was below that.
    hit: Booleans
    #: By series, whether the night should have measured it and has no record of it (`npc.cron.missed`).
    missed: Booleans
    #: The nodes.
    fleet: FleetNights
    #: By series, the night that its accepted baseline counts from; -1 where that is the beginning.
    begins: Integers
    #: By series, the night that it is DEGRADED since; -1 where it is not.
    degraded_since: Integers


def detect_steps(
    panel: Panel, baselines: Mapping[Series, Baseline], nodes: Mapping[str, str] | None = None
) -> Iterator[DetectionState]:
    """Step detection over all nights: its state after each one, to be used before the next one."""
    first, again = panel.logarithms(panel.value), panel.logarithms(panel.again)
    series, nights = first.shape
    steps = StepDetection(series, THRESHOLD)
    common_mode = CommonMode(panel.keys, nights, THRESHOLD, WATCHED)
    values = np.full((series, nights), np.nan)
    begins, missed = _begins(panel, baselines), MissedSeries(panel)
    fleet = FleetNights(panel, begins, nodes)
    degraded_since = np.full(series, -1)
    for t in range(nights):
        fleet.night(t)
        restarted = begins == t
        if restarted.any():
            steps.restart(restarted)
        limit = steps.limit.copy()
        judged = steps.night(first[:, t], again[:, t])
        values[:, t] = np.where(np.isnan(first[:, t]), np.nan, judged.value)
        common_mode.night(values[:, t], judged)
        hit = first[:, t] < limit
        degraded_since[judged.alarm >= 0] = -1
        for s in np.flatnonzero(_evident(judged) & (degraded_since < 0)).tolist():
            from_usual = values[s, : t + 1] - judged.location[s]
            degraded_since[s] = first_low(from_usual, float(judged.effect[s]))
        until_now, missing = values[:, : t + 1], missed.night(t)
        yield DetectionState(
            until_now, common_mode, judged, limit, hit, missing, fleet, begins, degraded_since
        )


def _begins(panel: Panel, baselines: Mapping[Series, Baseline]) -> Integers:
    """By series the night that its accepted baseline counts from; -1 where that is the beginning."""
    place = {run: t for t, run in enumerate(panel.runs)}
    since = (baselines[key].since if key in baselines else "" for key in panel.keys)
    return np.array([place.get(run, -1) for run in since], dtype=np.intp)


def _evident(judged: JudgedNight) -> Booleans:
    """Which series are evidently worse, by threshold and by Benjamini and Hochberg over all that could be
    judged."""
    evident = judged.score >= THRESHOLD
    if not evident.any():
        return evident
    tested = ~np.isnan(judged.location)
    chances = [upper_tail(value) if value > 0 else 1.0 for value in judged.score[tested].tolist()]
    evident[tested] &= np.array(false_discovery(chances)) <= FALSE_DISCOVERY
    return evident & tested
