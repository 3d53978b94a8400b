"""Nodes whose measurements fail more often than by accident, in the last nights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from npc.cron.measurements import BenchmarkAttempt
from npc.cron.series import Panel
from npc.machine.fabric import natural
from npc.records.verdicts import NightSuspect
from npc.statistics.distributions import chance_of_failures, normal_quantile

#: Nights in which failures are counted.
FAILING_NIGHTS: Final = 7
#: Fewer failures make nobody a suspect.
MIN_FAILURES: Final = 2


def failing_nodes(panel: Panel, least_score: float, false_name: float) -> list[NightSuspect]:
    """Nodes that fail more often than by accident, at the rate at which the others do.

    least_score: suspects have this standard normal score at least. false_name: named is who fails as often by
    accident in fewer healthy nights than this.
    """
    runs = panel.runs[-FAILING_NIGHTS:]
    attempts = [(run, attempt) for run in runs for attempt in panel.attempts.get(run, ())]
    failures = [(run, attempt) for run, attempt in attempts if attempt.failed]
    attempts_of = Counter(host for _, attempt in attempts for host in set(attempt.hosts))
    failures_of = Counter(host for _, attempt in failures for host in set(attempt.hosts))
    suspects = []
    for name in sorted(failures_of, key=natural):
        failed, total = failures_of[name], attempts_of[name]
        others = len(attempts) - total
        if failed < MIN_FAILURES or not others:
            continue
        chance = chance_of_failures(failed, total, len(failures) - failed, others)
        chance = min(chance * len(attempts_of), 1.0)
        score = normal_quantile(chance / len(attempts_of))
        if score >= least_score:
            suspects.append(_suspect(name, total, chance, score, failures, false_name))
    return suspects


def _suspect(
    name: str,
    total: int,
    chance: float,
    score: float,
    failures: Sequence[tuple[str, BenchmarkAttempt]],
    false_name: float,
) -> NightSuspect:
    """total: attempts on the node. failures: of all nodes, each with its night."""
    own = [(run, attempt) for run, attempt in failures if name in attempt.hosts]
    partners = {host for _, attempt in own for host in attempt.hosts if host != name}
    in_all = (host for host in partners if all(host in attempt.hosts for _, attempt in own))
    rivals = sorted(in_all, key=natural)
    runs = tuple(dict.fromkeys(run for run, _ in own))
    return NightSuspect(
        kind="node",
        name=name,
        nodes=(name,),
        benchmarks=tuple(dict.fromkeys(attempt.benchmark for _, attempt in own)),
        since=runs[0],
        evidence=f"{len(own)} of its {total} attempts failed, of {len(failures)} failures on all nodes",
        chance=chance,
        score=score,
        named=chance <= false_name and not rivals,
        rivals=tuple(f"node {host}" for host in rivals),
        runs=runs,
    )
