"""The judgement of a night: from the history to a verdict for each series.

The history is gone through night by night by `npc.cron.detection`, so that a verdict depends on nothing but
the records and the acceptances, and comes out the same whenever it is asked for; `replay` judges every night
on the way. What most series have in common (`npc.cron.common_mode`) is one event.
"""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final

from npc.cron import changes
from npc.cron.acceptance import Acceptance, Baseline, accepted_nodes, baselines_of
from npc.cron.acceptance_bands import Band
from npc.cron.common_mode import fold_common_mode
from npc.cron.detection import FALSE_DISCOVERY, THRESHOLD, DetectionState, detect_steps
from npc.cron.localise import localise_nights
from npc.cron.series import Panel
from npc.cron.series_verdicts import LASTING, TOLERANCE, series_verdicts, with_disturbance
from npc.cron.step_detection import AGAIN, HEALING, MIN_NIGHTS, WINDOW
from npc.cron.verdict import NightVerdict
from npc.cron.worse_nodes import unlike_nodes
from npc.machine.fabric import Topology
from npc.records.record import moment
from npc.records.series import Series
from npc.records.verdicts import Verdict

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
    verdicts = series_verdicts(panel, state, baselines, bands)
    event, verdicts = fold_common_mode(panel, state.common_mode, verdicts)
    verdicts = [with_disturbance(verdict) if verdict.disturbed else verdict for verdict in verdicts]
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
    """The night with the gravest verdict of what is in it."""
    statuses = [status for of_benchmark in night.failures.values() for status in of_benchmark]
    all_invalid = bool(statuses) and all(status.startswith("invalid") for status in statuses)
    verdicts = [series.verdict for series in night.series]
    verdicts = verdicts or [Verdict.INVALID if all_invalid else Verdict.MISSING]
    if night.common:
        verdicts.append(night.common.verdict)
    if night.lost:
        verdicts.append(Verdict.MISSING)
    verdicts += [suspect.verdict for suspect in night.suspects]
    return dataclasses.replace(night, verdict=max(verdicts, key=lambda verdict: verdict.gravity))
