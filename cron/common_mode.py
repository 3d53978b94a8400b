"""What most series of a night have in common: if everything is slower, that is one event, not hundreds.

The median over all series of how much they differ from their usual is judged as a series of its own, by
`npc.cron.step_detection` and `npc.cron.changes`: how far healthy series go up and down together is learned
from it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from npc.cron.changes import changed
from npc.cron.series import Panel, direction
from npc.cron.step_detection import MIN_EFFECT, JudgedNight, StepDetection, first_low
from npc.cron.verdict import SeriesVerdict
from npc.records.series import Series
from npc.records.verdicts import CommonEvent, Verdict
from npc.statistics.arrays import Floats

#: Fewer series have nothing in common that one of them could not make alone.
LEAST_SERIES: Final = 10
#: A series is explained if what is left of its effect is within this multiple (σ) of its own noise.
EXPLAINED: Final = 3.0


class CommonMode:
    """The median over all series of how far they are from their usual, night by night, the oldest first."""

    def __init__(self, keys: Sequence[Series], nights: int, threshold: float, watched: float) -> None:
        """threshold, watched: scores of DEGRADED, and of tonight alone for WATCH."""
        self._threshold, self._watched = threshold, watched
        self._judgeable = np.array([direction(key) != 0 for key in keys], dtype=bool)
        self._steps = StepDetection(1, threshold)
        #: By night, the median (log units); NaN where too few series were measured.
        self.values = np.full(nights, np.nan)
        #: How many nights it has taken.
        self.nights = 0
        #: The last night of the median series, and the one that its alarm began with.
        self.judged: JudgedNight | None = None
        self.since = -1
        #: By series, how far the last night is from its usual, and its noise (log units); NaN where unknown.
        self.from_usual = self.sigma = np.full(len(keys), np.nan)

    def night(self, values: Floats, judged: JudgedNight) -> None:
        """S values of a night (log units, smaller is worse), and the noise that each was judged by."""
        self.from_usual = np.where(self._judgeable, values - judged.location, np.nan)
        self.sigma = judged.sigma
        known = self.from_usual[~np.isnan(self.from_usual)]
        middle = np.array([np.median(known) if len(known) >= LEAST_SERIES else np.nan])
        self.values[self.nights] = middle[0]
        self.nights += 1
        # many series are as good as a second draw
        self.judged = judged = self._steps.night(middle, middle)
        if judged.alarm[0] >= 0:
            self.since = -1
        elif self.since < 0:
            self.since = first_low(self.values[: self.nights] - judged.location[0], float(judged.effect[0]))

    def event(self, panel: Panel) -> CommonEvent | None:
        """What the last night's series have in common, if that is worse than usual."""
        judged, values = self.judged, self.values[: self.nights]
        if judged is None or np.isnan(values[-1]):
            return None
        effect, score, night = float(judged.effect[0]), float(judged.score[0]), -1
        if self.since >= 0:
            verdict, night = Verdict.DEGRADED, self.since
            effect = effect if score >= self._threshold else float(judged.alarm[0])
        elif (change := changed(values)) and change.effect < 0:
            verdict, effect, score, night = Verdict.CHANGED, change.effect, change.score, change.night
        elif judged.tonight[0] >= self._watched and effect <= -MIN_EFFECT:
            verdict, score = Verdict.WATCH, float(judged.tonight[0])
        else:
            return None
        known = np.flatnonzero(~np.isnan(self.from_usual))
        disturbed = sum(panel.at(s).disturbed > 0 for s in known.tolist())
        if verdict is Verdict.DEGRADED and 2 * disturbed > len(known):
            verdict = Verdict.INVALID
        return CommonEvent(
            verdict=verdict, effect=math.expm1(effect), score=score, series=len(known), disturbed=disturbed,
            worse=int((self.from_usual[known] < effect / 2).sum()),
            since=panel.runs[night] if night >= 0 else "",
        )  # fmt: skip


def fold_common_mode(
    panel: Panel, common_mode: CommonMode, verdicts: Sequence[SeriesVerdict]
) -> tuple[CommonEvent | None, list[SeriesVerdict]]:
    """The event, and the verdicts without those that it explains: they are PASS, and say so."""
    event = common_mode.event(panel)
    if event is None:
        return None, list(verdicts)
    left = common_mode.from_usual - math.log1p(event.effect)
    place = {key: s for s, key in enumerate(panel.keys)}
    return event, [
        dataclasses.replace(series, verdict=Verdict.PASS, reason="as everything tonight")
        if series.verdict in (Verdict.WATCH, Verdict.CHANGED, Verdict.DEGRADED)
        and series.direction == "worse"
        and abs(left[s := place[series.key]]) <= max(MIN_EFFECT, EXPLAINED * common_mode.sigma[s])
        else series
        for series in verdicts
    ]
