"""Who does not answer: nodes and links whose measurements fail more often than by accident.

A failure belongs to two nodes. The node with the most failures that no other suspect explains is taken first,
its failures are set aside, and so on; what remains may be a link. The rate of accidental failures is
estimated from the failures in which the suspect has no part.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from npc.npb.suspects import pair_suspect
from npc.records.pair_verdicts import PairResult, PairSuspect
from npc.statistics.distributions import chance_of_failures
from npc.statistics.suspect import Kind

#: Chance, over all nodes or pairs, that what is named dead only failed by accident.
FALSE_DEAD: Final = 0.01
#: Fewer failures name nobody.
MIN_FAILURES: Final = 2


class UnreachableSuspects(NamedTuple):
    """What the failed measurements say."""

    #: Nodes and links that do not answer.
    suspects: list[PairSuspect]
    #: Failures that blame nobody, one of each pair that never succeeded.
    unexplained: list[PairResult]


def unreachable(results: Sequence[PairResult], failures: Sequence[PairResult]) -> UnreachableSuspects:
    """Dead nodes, then dead links, those with most failures first; `failures` are the results of no use."""
    if len(failures) == len(results):  # the tool, its command line or the whole network: nobody in particular
        return UnreachableSuspects(
            [], list({frozenset((result.a, result.b)): result for result in failures}.values())
        )
    open_failures = list(failures)
    total = Counter(name for result in results for name in (result.a, result.b))
    failed = Counter(name for result in open_failures for name in (result.a, result.b))
    suspects: list[PairSuspect] = []
    while open_failures:
        count = Counter(name for result in open_failures for name in (result.a, result.b))
        name = max(count, key=lambda name: (count[name], failed[name] / total[name], name))
        own = [result for result in open_failures if name in (result.a, result.b)]
        rest = [result for result in open_failures if name not in (result.a, result.b)]
        chance = len(total) * chance_of_failures(len(own), total[name], len(rest), len(results))
        # Two nodes with the same failures are a link, unless one of them never answers anybody.
        shared = any(other != name and count[other] == count[name] for other in count)
        answers = failed[name] < total[name]
        if len(own) < MIN_FAILURES or chance > FALSE_DEAD or (shared and answers):
            break
        suspects.append(_suspect("node", name, own, total[name], chance))
        open_failures = rest
    links = _links(open_failures, results)
    return UnreachableSuspects(suspects + links.suspects, links.unexplained)


def _links(failures: Sequence[PairResult], results: Sequence[PairResult]) -> UnreachableSuspects:
    attempts = {pair: len(made) for pair, made in _by_pair(results).items()}
    suspects, unexplained = [], []
    for pair, own in sorted(_by_pair(failures).items(), key=lambda item: -len(item[1])):
        if len(own) < attempts[pair]:
            continue
        others = len(failures) - len(own)
        chance = len(attempts) * chance_of_failures(len(own), len(own), others, len(results))
        if len(own) >= MIN_FAILURES and chance <= FALSE_DEAD:
            suspects.append(_suspect("link", f"{own[0].a}–{own[0].b}", own, attempts[pair], chance))
        else:
            unexplained.append(own[0])
    return UnreachableSuspects(suspects, unexplained)


def _by_pair(results: Sequence[PairResult]) -> dict[frozenset[str], list[PairResult]]:
    by_pair: dict[frozenset[str], list[PairResult]] = defaultdict(list)
    for result in results:
        by_pair[frozenset((result.a, result.b))].append(result)
    return by_pair


def _suspect(kind: Kind, name: str, own: Sequence[PairResult], total: int, chance: float) -> PairSuspect:
    reasons = Counter(result.status.removeprefix("failed: ") for result in own).most_common(2)
    why = "; ".join(f"{reason}, {times}×" if times > 1 else reason for reason, times in reasons)
    servers = {result.a == name for result in own}
    where = (
        f", all as {'server' if True in servers else 'client'}"
        if kind == "node" and len(servers) == 1
        else ""
    )
    return pair_suspect(
        kind,
        name,
        (name,) if kind == "node" else (own[0].a, own[0].b),
        evidence=f"{len(own)} of {total} measurements failed{where} ({why})",
        chance=chance,
        measurements=own,
        readings=total,
    )
