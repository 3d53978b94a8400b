"""The verdicts on the series of a night: of each the gravest that holds, with its reason."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from npc.cron.acceptance import Baseline
from npc.cron.acceptance_bands import Band, band_of
from npc.cron.changes import Change, changed
from npc.cron.detection import THRESHOLD, WATCHED, DetectionState
from npc.cron.series import Panel, direction, logarithm
from npc.cron.step_detection import HEALING, MIN_NIGHTS, first_low
from npc.cron.verdict import SeriesVerdict
from npc.records.series import Series
from npc.records.units import METRICS, format_quantity
from npc.records.verdicts import Direction, Verdict
from npc.statistics.distributions import upper_tail
from npc.validity.disturbance import taken

#: Below the accepted baseline by more is FAIL, if it lasts.
TOLERANCE: Final = 0.10
#: Nights of the last three that must be below the accepted baseline.
LASTING: Final = 2


def series_verdicts(
    panel: Panel, state: DetectionState, baselines: Mapping[Series, Baseline], bands: Sequence[Band]
) -> list[SeriesVerdict]:
    """The verdicts on all series that the last night of a panel measured, or should have measured.

    state: of step detection after that night.
    """
    begins = np.where(state.begins < len(panel.runs), state.begins, -1)  # of a later night: not yet
    measured = np.flatnonzero(panel.has_values()).tolist()
    keys = [panel.keys[s] for s in measured]
    return [
        _series_verdict(panel, s, state, baselines.get(key), band_of(key, bands, keys), int(begins[s]))
        for s, key in zip(measured, keys, strict=True)
        if (panel.has_record(s) or state.missed[s])
        and not _is_given_up(panel, s, baselines.get(key))
        and not _is_invalid_sent(panel, s)
    ]


def _series_verdict(
    panel: Panel,
    s: int,
    state: DetectionState,
    baseline: Baseline | None,
    band: Band | None,
    begin: int,
) -> SeriesVerdict:
    """The gravest verdict that holds. begin: the night that the accepted baseline counts from, or -1."""
    key, lies = panel.keys[s], panel.lies(s)
    value, again = _number(panel.value[s, -1]), _number(panel.again[s, -1])
    healthy = _measured_values(panel, s, state)
    verdict_with = functools.partial(dataclasses.replace, healthy)
    if value is None:
        if lies:
            return verdict_with(verdict=Verdict.INVALID, reason=lies[0])
        reasons = (
            *panel.at(s).statuses,
            *panel.failures.get(key.benchmark, ()),
            "measured before, not tonight",
        )
        return verdict_with(verdict=Verdict.MISSING, reason=reasons[0])
    if band and band.broken_by(value) and (again is None or band.broken_by(again)):
        reason = f"beyond the band {band.name!r} of platform.toml: {_in_words(band, key)}"
        return verdict_with(
            verdict=Verdict.FAIL, reason=reason, floor=_limit_of(band, value), direction="worse"
        )
    if baseline and baseline.value and _lasting(panel, s, baseline.value):
        accepted = format_quantity(baseline.value, METRICS[key.metric].unit)
        reason = f"for {LASTING} of 3 nights worse than the accepted {accepted} by more than {TOLERANCE:.0%}"
        return verdict_with(
            verdict=Verdict.FAIL, reason=reason, direction="worse", since=_since(panel, s, state)
        )
    if state.degraded_since[s] >= 0 and direction(key):
        return _degraded(panel, s, state, healthy)
    if change := changed(state.values[s, max(begin, 0) :]):
        return _changed(panel, s, healthy, change._replace(night=change.night + max(begin, 0)))
    if state.judged.tonight[s] >= WATCHED and direction(key):
        reason = "worse tonight" + (
            ", measured again too" if again is not None else ", not measured again yet"
        )
        return verdict_with(verdict=Verdict.WATCH, reason=reason, direction="worse")
    if healthy.reference is None:
        nights = np.count_nonzero(~np.isnan(panel.value[s, max(begin, 0) : -1]))
        few = f"{nights} nights to compare with, too few to judge: {MIN_NIGHTS} quiet ones are needed"
        return verdict_with(reason=few)
    return healthy


def with_disturbance(series: SeriesVerdict) -> SeriesVerdict:
    """The verdict on numbers that were measured while others used the CPUs: whether the machine is worse
    cannot be told from them."""
    bad = series.verdict in (Verdict.DEGRADED, Verdict.FAIL)
    return dataclasses.replace(
        series,
        verdict=Verdict.INVALID if bad else series.verdict,
        reason="; ".join(filter(None, (series.reason, taken([series.disturbed])))),
    )


def _is_given_up(panel: Panel, s: int, baseline: Baseline | None) -> bool:
    """Somebody accepted that the series is gone, and it has not come back."""
    return baseline is not None and baseline.value is None and bool(np.isnan(panel.value[s, -1]))


def _is_invalid_sent(panel: Panel, s: int) -> bool:
    """Whether it is a sender's count that tonight's loss made invalid: the receiver's count is judged."""
    sender = panel.keys[s].by_name.get("side") == "send"
    return sender and bool(np.isnan(panel.value[s, -1])) and bool(panel.lies(s))


def _degraded(panel: Panel, s: int, state: DetectionState, healthy: SeriesVerdict) -> SeriesVerdict:
    since = panel.runs[state.degraded_since[s]]
    if state.judged.score[s] >= THRESHOLD:
        reason, effect = f"worse in two of three nights, score {state.judged.score[s]:.1f}", healthy.effect
    else:
        reason = f"worse since {since}, and the mean of {HEALING} nights is not as before yet"
        usual = state.judged.location[s]
        effect = panel.relative(s, usual, usual + state.judged.alarm[s])
    return dataclasses.replace(
        healthy, verdict=Verdict.DEGRADED, reason=reason, effect=effect, direction="worse", since=since
    )


def _changed(panel: Panel, s: int, healthy: SeriesVerdict, change: Change) -> SeriesVerdict:
    sense = direction(panel.keys[s])
    word: Direction = "other" if not sense else "better" if change.effect > 0 else "worse"
    unit, since = METRICS[panel.keys[s].metric].unit, panel.runs[change.night]
    level = logarithm(panel.keys[s], float(np.nanmedian(panel.value[s, change.night :])))
    before = panel.from_logarithm(s, level - change.effect)
    levels = (format_quantity(value, unit) for value in (panel.from_logarithm(s, level), before))
    return dataclasses.replace(
        healthy,
        verdict=Verdict.CHANGED,
        reason=f"{' instead of '.join(levels)} since {since}, score {change.score:.1f}",
        reference=before,
        effect=panel.relative(s, level - change.effect, level),
        score=change.score,
        direction=word,
        since=since,
    )


def _measured_values(panel: Panel, s: int, state: DetectionState) -> SeriesVerdict:
    """What the numbers say, verdict PASS."""
    key, judged = panel.keys[s], state.judged
    known, usual = not np.isnan(judged.location[s]), judged.location[s]
    score = float(max(judged.score[s], judged.tonight[s]))
    return SeriesVerdict(
        key=key,
        verdict=Verdict.PASS,
        value=_number(panel.value[s, -1]),
        again=_number(panel.again[s, -1]),
        reference=panel.from_logarithm(s, usual) if known else None,
        noise=float(judged.sigma[s]) if known else None,
        nights=int(judged.known[s]),
        limit=panel.from_logarithm(s, state.limit[s]) if not np.isnan(state.limit[s]) else None,
        effect=panel.relative(s, usual, usual + judged.effect[s])
        if known and not np.isnan(panel.value[s, -1])
        else None,
        score=score if known else None,
        chance=upper_tail(float(judged.score[s])) if known and judged.score[s] > 0 else None,
        hit=bool(state.hit[s]) and bool(direction(key)),
        disturbed=panel.at(s).disturbed,
        disturbed_on=panel.disturbed_on(s),
        hosts=panel.at(s).hosts,
    )


def _since(panel: Panel, s: int, state: DetectionState) -> str:
    """The night that the present alarm begins with."""
    usual, effect = state.judged.location[s], state.judged.effect[s]
    return panel.runs[first_low(state.values[s] - usual, effect)]


def _lasting(panel: Panel, s: int, accepted: float) -> bool:
    """Whether enough of the last three nights, tonight among them, are worse than the accepted value."""
    key = panel.keys[s]
    sense = direction(key)
    if not sense:
        return False

    def worse(value: float) -> bool:
        return bool(value < accepted * (1 - TOLERANCE) if sense > 0 else value > accepted * (1 + TOLERANCE))

    measured = np.flatnonzero(~np.isnan(panel.value[s]))[-3:]
    bad = [
        worse(panel.value[s, t]) and (np.isnan(panel.again[s, t]) or worse(panel.again[s, t]))
        for t in measured
    ]
    return len(bad) > 0 and bad[-1] and sum(bad) >= LASTING


def _in_words(band: Band, key: Series) -> str:
    unit = METRICS[key.metric].unit
    limits = ((word, limit) for word, limit in (("low", band.low), ("high", band.high)) if limit is not None)
    return ", ".join(f"{word} {format_quantity(limit, unit)}" for word, limit in limits)


def _limit_of(band: Band, value: float) -> float | None:
    return band.low if band.low is not None and value < band.low else band.high


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
