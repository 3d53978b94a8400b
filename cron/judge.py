"""The judgement of a night: from the history to a verdict for each series.

The history is gone through night by night by `npc.cron.step_detection`, so that a verdict depends on
nothing but the records and the acceptances, and comes out the same whenever it is asked for; `replay` judges
every night on the way. A series is called DEGRADED where its score exceeds `THRESHOLD` and, over all series
of the night, the Benjamini–Hochberg procedure (1995) with a false discovery rate of `FALSE_DISCOVERY` rejects
"as always" for it. What most series have in common (`npc.cron.common_mode`) is one event.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

import numpy as np

from npc.cron import changes
from npc.cron.acceptance import Acceptance, Baseline, accepted_nodes, baselines_of
from npc.cron.acceptance_bands import Band, band_of
from npc.cron.changes import Change, changed
from npc.cron.common_mode import CommonMode, fold_common_mode
from npc.cron.fleet_nights import FleetNights
from npc.cron.localise import localise_nights
from npc.cron.missed import MissedSeries
from npc.cron.series import Panel, direction, logarithm
from npc.cron.step_detection import (
    AGAIN,
    HEALING,
    MIN_NIGHTS,
    WINDOW,
    JudgedNight,
    StepDetection,
    first_low,
)
from npc.cron.verdict import NightVerdict, SeriesVerdict
from npc.cron.worse_nodes import unlike_nodes
from npc.machine.fabric import Topology
from npc.records.record import moment
from npc.records.series import Series
from npc.records.units import METRICS, format_quantity
from npc.records.verdicts import Direction, Verdict
from npc.statistics.arrays import Booleans, Floats, Integers
from npc.statistics.distributions import normal_quantile, upper_tail
from npc.statistics.medians import false_discovery
from npc.validity.disturbance import taken

#: Score from which on a single series is worse (or better) than it was: once in 25 years of quiet nights.
THRESHOLD: Final = round(normal_quantile(1 / 25 / 365), 2)
#: Score of tonight's draws alone from which on a series is watched.
WATCHED: Final = 3.0
#: Expected share of false names among the series called DEGRADED in one night.
FALSE_DISCOVERY: Final = 0.01
#: Below the accepted baseline by more is FAIL, if it lasts.
TOLERANCE: Final = 0.10
#: Nights of the last three that must be below the accepted baseline.
LASTING: Final = 2

#: What the launcher says of a node whose agent no longer answers, and what becomes of Slurm's NODE_FAIL.
_LOST: Final = re.compile(r"failed: (?:job \d+ )?lost (?:its node )?([\w.-]+)(?::|(?= after| at once)) (.*)")

RULE: Final = (
    f"reference: up to {WINDOW} quiet nights since the last acceptance, {MIN_NIGHTS} at least; what is lower "
    f"than all but {AGAIN:.0%} of them is measured again",
    f"DEGRADED: score {THRESHOLD:g} and false discovery rate {FALSE_DISCOVERY:g} over all series, low in two "
    f"of three nights, by 2 % at least; until the mean of {HEALING} nights is as before, or it is accepted",
    f"CHANGED: another level by 2 % at least, score {changes.THRESHOLD:g}",
    f"FAIL: beyond a band of platform.toml (the re-measurement too), or in {LASTING} of 3 nights worse than "
    f"the accepted baseline by {TOLERANCE:.0%}",
)


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


def judge_last_night(
    panel: Panel,
    platform: str,
    baselines: Mapping[Series, Baseline] | None = None,
    bands: Sequence[Band] = (),
    topology: Topology | None = None,
    nodes: Mapping[str, str] | None = None,
) -> NightVerdict:
    """The verdict on the last night of a panel (`npc.cron.series.panel` makes it end at another one).

    A night that did not run at all is one too: a column without a value. topology: switches and racks that
    may be to blame, too. nodes: by accepted node the night from which on its state was.
    """
    baselines = baselines or {}
    (state,) = deque(detect_steps(panel, baselines, nodes), maxlen=1)
    return _night_verdict(panel, state, platform, baselines, bands, topology)


def replay(
    panel: Panel,
    platform: str,
    acceptances: Sequence[Acceptance] = (),
    bands: Sequence[Band] = (),
    topology: Topology | None = None,
    processes: int = 1,
) -> Iterator[NightVerdict]:
    """The verdict on every night of a panel, the oldest first, each by the nights before it.

    Each is what `judge_last_night` says of the history that ends there, with the acceptances made before that
    night. processes: number of those that share the nights.
    """
    # By night, how many acceptances were made before it.
    accepted = [sum(moment(made.time) <= moment(time) for made in acceptances) for time in panel.times]

    def verdicts(chosen: Collection[int]) -> Iterator[NightVerdict]:
        for count, nights in groupby(range(len(panel.runs)), accepted.__getitem__):
            # Who accepts a state makes nights of the past the new normal: they are gone through anew.
            baselines = baselines_of(acceptances[:count])
            numbers = list(nights)
            nodes = accepted_nodes(acceptances[:count])
            states = detect_steps(panel.until(numbers[-1]), baselines, nodes)
            for t, state in zip(numbers, islice(states, numbers[0], None), strict=True):
                if t in chosen:
                    yield _night_verdict(panel.until(t), state, platform, baselines, bands, topology)

    def send(pipe: Connection, chosen: Collection[int]) -> None:
        for night in verdicts(chosen):
            pipe.send(night)

    if processes == 1:
        yield from verdicts(range(len(panel.runs)))
        return
    context = get_context("fork")  # the panel need not be sent
    workers, pipes = [], []
    try:
        for number in range(processes):
            mine, theirs = context.Pipe(duplex=False)
            nights = range(number, len(panel.runs), processes)
            workers.append(context.Process(target=send, args=(theirs, nights), daemon=True))
            pipes.append(mine)
            workers[-1].start()
            theirs.close()
        for t in range(len(panel.runs)):
            yield pipes[t % processes].recv()
    finally:
        for worker in workers:
            worker.terminate()


def _night_verdict(
    panel: Panel,
    state: DetectionState,
    platform: str,
    baselines: Mapping[Series, Baseline],
    bands: Sequence[Band],
    topology: Topology | None,
) -> NightVerdict:
    """The verdict on the last night of a panel; state: of step detection after that night."""
    begins = np.where(state.begins < len(panel.runs), state.begins, -1)  # of a later night: not yet
    measured = np.flatnonzero(panel.has_values()).tolist()
    keys = [panel.keys[s] for s in measured]
    verdicts = [
        _series_verdict(panel, s, state, baselines.get(key), band_of(key, bands, keys), int(begins[s]))
        for s, key in zip(measured, keys, strict=True)
        if (panel.has_record(s) or state.missed[s])
        and not _is_given_up(panel, s, baselines.get(key))
        and not _is_invalid_sent(panel, s)
    ]
    event, verdicts = fold_common_mode(panel, state.common_mode, verdicts)
    verdicts = [_with_disturbance(verdict) if verdict.disturbed else verdict for verdict in verdicts]
    verdicts.sort(key=lambda verdict: verdict.verdict.gravity, reverse=True)
    night = NightVerdict(
        platform=platform,
        run=panel.runs[-1],
        time=panel.times[-1],
        verdict=Verdict.PASS,
        series=tuple(verdicts),
        suspects=localise_nights(panel, topology, state.fleet),
        findings=unlike_nodes(panel, state.fleet),
        failures=panel.failures,
        rule=RULE,
        common=event,
    )
    matches = (_LOST.match(status) for statuses in panel.failures.values() for status in statuses)
    return with_lost(night, {match[1]: match[2] for match in matches if match})


def with_lost(night: NightVerdict, lost: Mapping[str, str]) -> NightVerdict:
    """The verdict of a night during which nodes died, MISSING at least: what they were to measure is.

    lost: by node, what was seen of it.
    """
    return _with_gravest(dataclasses.replace(night, lost={**night.lost, **lost}))


def with_confirmed(night: NightVerdict, slow: Collection[tuple[str, frozenset[str]]]) -> NightVerdict:
    """The verdict when the matrix of pairs has spoken: whom the history suspects and it found slow is named.

    slow: kind and nodes (a link's two in any order). They have no rivals any more.
    """
    suspects = [
        dataclasses.replace(
            suspect, named=True, rivals=(), evidence=f"{suspect.evidence}; confirmed by its pairs"
        )
        if (suspect.kind, frozenset(suspect.nodes)) in slow
        else suspect
        for suspect in night.suspects
    ]
    suspects.sort(key=lambda suspect: not suspect.named)
    return _with_gravest(dataclasses.replace(night, suspects=tuple(suspects)))


def _with_gravest(night: NightVerdict) -> NightVerdict:
    """The night with the gravest verdict of what is in it.

    Who is named for two nights or more degrades a night that seems healthy: one bad node among hundreds moves
    no series' median.
    """
    statuses = [status for of_benchmark in night.failures.values() for status in of_benchmark]
    all_invalid = bool(statuses) and all(status.startswith("invalid") for status in statuses)
    verdicts = [series.verdict for series in night.series]
    verdicts = verdicts or [Verdict.INVALID if all_invalid else Verdict.MISSING]
    if night.common:
        verdicts.append(night.common.verdict)
    if night.lost:
        verdicts.append(Verdict.MISSING)
    named = [suspect for suspect in night.suspects if suspect.named]
    lasting = any(len(suspect.runs) >= LASTING for suspect in named)
    verdicts.append(Verdict.DEGRADED if lasting else Verdict.WATCH if named else Verdict.PASS)
    return dataclasses.replace(night, verdict=max(verdicts, key=lambda verdict: verdict.gravity))


def _begins(panel: Panel, baselines: Mapping[Series, Baseline]) -> Integers:
    """By series the night that its accepted baseline counts from; -1 where that is the beginning."""
    place = {run: t for t, run in enumerate(panel.runs)}
    since = (baselines[key].since if key in baselines else "" for key in panel.keys)
    return np.array([place.get(run, -1) for run in since], dtype=np.intp)


def _is_given_up(panel: Panel, s: int, baseline: Baseline | None) -> bool:
    """Somebody accepted that the series is gone, and it has not come back."""
    return baseline is not None and baseline.value is None and bool(np.isnan(panel.value[s, -1]))


def _is_invalid_sent(panel: Panel, s: int) -> bool:
    """Whether it is a sender's count that tonight's loss made invalid: the receiver's count is judged."""
    sender = panel.keys[s].by_name.get("side") == "send"
    return sender and bool(np.isnan(panel.value[s, -1])) and bool(panel.lies(s))


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


def _with_disturbance(series: SeriesVerdict) -> SeriesVerdict:
    """The verdict on numbers that were measured while others used the CPUs: whether the machine is worse
    cannot be told from them."""
    bad = series.verdict in (Verdict.DEGRADED, Verdict.FAIL)
    return dataclasses.replace(
        series,
        verdict=Verdict.INVALID if bad else series.verdict,
        reason="; ".join(filter(None, (series.reason, taken([series.disturbed])))),
    )


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
