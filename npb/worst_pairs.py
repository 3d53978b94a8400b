"""Which pairs to measure once more before judging: of suspicious nodes, slow ones, and some that failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from npc.machine.fabric import Topology
from npc.npb.pair_readings import NodeEnd, NodePair, PairReadings, partners_of
from npc.npb.slow_groups import GroupSearch
from npc.npb.slow_links import LINK_READINGS, LinkSearch, link_search
from npc.npb.unreachable import unreachable
from npc.records.pair_verdicts import Better, PairResult

#: Measured again before judging: nodes with at least this score, how many of them at most, and in how many of
#: their pairs.
CANDIDATE_SCORE: Final = 2.5
CANDIDATES: Final = 16
PAIRS_PER_CANDIDATE: Final = 16
#: Slow pairs measured again.
SLOW_PAIRS: Final = 16


def worst_pairs(
    results: Sequence[PairResult],
    *,
    better: Better = "higher",
    topology: Topology | None = None,
    most: int = 512,
) -> list[tuple[str, str]]:
    """Pairs to measure once more before judging, at most `most`, the most suspicious first.

    The pairs of the nodes with the highest scores (`CANDIDATES`, `PAIRS_PER_CANDIDATE`), in the role in which
    they are suspicious; single pairs that were slow (`SLOW_PAIRS`), twice as they were, once the other way;
    and pairs that failed although both nodes answer others. Server first. Give the results of both passes to
    `npc.npb.localise.localise_pairs`.
    """
    readings = PairReadings(results, better)
    search = GroupSearch(readings, topology, partners=LINK_READINGS)
    search.suspects()
    links = link_search(readings, search)
    failed = [(result.a, result.b) for result in unreachable(results, readings.failures).unexplained]
    return [*(_suspicious_pairs(readings, search, links) if links else []), *failed][:most]


def _suspicious_pairs(
    readings: PairReadings, search: GroupSearch, links: LinkSearch
) -> list[tuple[str, str]]:
    """Pairs of suspicious nodes, in the role in which they are; then slow pairs, both ways, and one that
    shows whether an end of them is slow with others.

    Server first; slow pairs twice in the direction in which they were.
    """
    slow, partners = list(links.slow)[:SLOW_PAIRS], partners_of(readings.pairs)
    candidates = _candidates(readings, search)
    for pair in slow:
        # What is grossly slow may scatter so much that no single slowdown fits it.
        ends = [NodeEnd(node, end) for end, node in enumerate(pair)]
        for node, end in links.slow_with_others(ends, links.slow[pair], partners):
            candidates.setdefault(node, end)
    times: dict[NodePair, int] = {}
    for node, end in candidates.items():
        for pair in _pairs_of(readings, node, end):
            if end is not None or pair[::-1] not in times:
                times[pair] = 1
    for pair in slow:
        back = pair[::-1]
        if pair in times or back in times:
            continue
        times |= {pair: 2, back: 1}
        for end, node in enumerate(pair):
            others = partners[NodeEnd(node, None)].difference(pair)
            others = others or set(range(len(readings.names))).difference(pair)
            if len(partners[NodeEnd(node, end)]) == 1 and others:
                other = min(others)
                times[(node, other) if end == 0 else (other, node)] = 1
    return [
        (readings.names[server], readings.names[client])
        for (server, client), count in times.items()
        for _ in range(count)
    ]


def _candidates(readings: PairReadings, search: GroupSearch) -> dict[int, int | None]:
    """Nodes to measure again, each as a whole or at one end, the most suspicious first."""
    candidates: dict[int, int | None] = {}
    most = min(CANDIDATES, max(len(readings.names) // 2, 1))
    for label, score in sorted(search.suspicion(), key=lambda suspicion: -suspicion[1]):
        if score < CANDIDATE_SCORE or len(candidates) >= most:
            break
        candidates.setdefault(readings.names.index(label.name), label.end)
    return candidates


def _pairs_of(readings: PairReadings, node: int, end: int | None) -> list[NodePair]:
    """The first pairs of a node, one a partner; turned so that it stands at `end`, if that is one."""
    first = np.flatnonzero((readings.server == node) | (readings.client == node))[: 2 * PAIRS_PER_CANDIDATE]
    pairs: dict[int, NodePair] = {}
    for pair in (readings.pairs[number] for number in first.tolist()):
        other = pair[pair[0] == node]
        turned = pair if end is None else (node, other) if end == 0 else (other, node)
        pairs.setdefault(other, turned)
    return list(pairs.values())[:PAIRS_PER_CANDIDATE]
