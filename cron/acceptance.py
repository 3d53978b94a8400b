"""Acceptances: who took which state as the baseline, when and why. Nothing else moves a baseline.

``accepted.jsonl`` beside the history's files, one JSON object a line, only ever appended to: ``time``,
``who``, ``reason``, ``pattern`` (as somebody gave it), ``baselines``, for each series its key, the
accepted ``value`` in SI units (null: the series is given up and no longer missing) and ``since``, the
name of the night from which its nights are the new normal, and ``nodes``, the same night for each node that
had become worse.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final, NamedTuple

from npc.cron.series import case_of, matches
from npc.cron.verdict import NightVerdict
from npc.files import InvalidFile, append_line, parse_json, read_bytes
from npc.records.series import Series
from npc.records.verdicts import Verdict

ACCEPTED: Final = "accepted.jsonl"


class InvalidAcceptance(InvalidFile):
    """An acceptance that cannot be made or read; the message says why."""


class Baseline(NamedTuple):
    """What was accepted for one series."""

    #: In the metric's SI unit; None: the series is given up.
    value: float | None
    #: The night that it counts from; empty for all nights.
    since: str


class Acceptance(NamedTuple):
    """One line of ``accepted.jsonl``."""

    #: ISO 8601.
    time: str
    #: Who accepted it.
    who: str
    #: Why, in the words of that person; never empty.
    reason: str
    #: Of the series, as somebody gave it.
    pattern: str
    #: By series the state that is usual from now on.
    baselines: dict[Series, Baseline]
    #: By node that had become worse the night from which on that is usual.
    nodes: dict[str, str] = {}  # noqa: RUF012 (never changed)


def accept(folder: Path, night: NightVerdict, reason: str, who: str, pattern: str = "*") -> Acceptance:
    """Take the state of a judged night as the baseline of all series that `pattern` names, and record it.

    A changed or degraded series is accepted as it is since its change began; one that was not measured is
    given up; any other keeps its reference. A node that is named for one of these cases is accepted as it is
    since then, too. Raises `InvalidAcceptance` without a reason, or where nothing is named, and OSError where
    it cannot be written.
    """
    if not reason.strip():
        raise InvalidAcceptance("a baseline moves for a reason only: --reason 'new switch firmware'")
    baselines: dict[Series, Baseline] = {}
    for series in night.series:
        if not matches(pattern, series.key):
            continue
        level = series.value if series.reference is None else series.reference
        if series.verdict is Verdict.MISSING:
            baselines[series.key] = Baseline(None, night.run)
        elif series.value is not None and level is not None:
            if series.since:
                level = series.value if series.effect is None else level * (1 + series.effect)
            baselines[series.key] = Baseline(level, series.since)
    if not baselines:
        raise InvalidAcceptance(f"{pattern!r} names no series that {night.platform} measured in {night.run}")
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    cases = {case_of(key) for key in baselines}
    named = (
        suspect for suspect in night.suspects if suspect.named and cases.intersection(suspect.benchmarks)
    )
    nodes = {node: suspect.since for suspect in named for node in suspect.nodes}
    acceptance = Acceptance(now, who, reason.strip(), pattern, baselines, nodes)
    rows = [{**key._asdict(), **baseline._asdict()} for key, baseline in baselines.items()]
    append_line(folder / ACCEPTED, {**acceptance._asdict(), "baselines": rows})
    return acceptance


def read_acceptances(folder: Path) -> list[Acceptance]:
    """All acceptances, the oldest first. Raises `InvalidAcceptance` naming the line of a damaged one.

    Half a line at the end, of a writer that was killed, is none.
    """
    path = folder / ACCEPTED
    if not path.exists():
        return []
    acceptances = []
    for number, line in enumerate(read_bytes(path).split(b"\n")[:-1], 1):
        try:
            acceptances.append(_acceptance(parse_json(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidAcceptance(f"{path}:{number}: no acceptance: {error}") from None
    return acceptances


def baselines_of(acceptances: Iterable[Acceptance]) -> dict[Series, Baseline]:
    """By series, what was accepted last; where that names no new beginning, the one before it stays."""
    baselines: dict[Series, Baseline] = {}
    for acceptance in acceptances:
        for key, baseline in acceptance.baselines.items():
            before = baselines.get(key)
            since = baseline.since or (before.since if before else "")
            baselines[key] = Baseline(baseline.value, since)
    return baselines


def accepted_nodes(acceptances: Iterable[Acceptance]) -> dict[str, str]:
    """By node, the night from which on its state was accepted last."""
    return {node: since for acceptance in acceptances for node, since in acceptance.nodes.items()}


def _acceptance(plain: dict[str, Any]) -> Acceptance:
    rows = plain["baselines"]
    baselines = {Series.of_row(row): Baseline(row["value"], str(row["since"])) for row in rows}
    words = {name: str(plain[name]) for name in ("time", "who", "reason", "pattern")}
    nodes = {str(node): str(since) for node, since in plain.get("nodes", {}).items()}
    return Acceptance(**words, baselines=baselines, nodes=nodes)
