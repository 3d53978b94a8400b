"""Which benchmarks and nodes a night measures, and in which order: what tells most first, within a budget.

Nothing here runs a command or reads a file: the choice follows from the nights so far, the states of the
nodes, the budget and what measuring has cost, so that a year of nights can be simulated in seconds. Nights
are counted: 0 is the first of the history, and tonight is the number of those before.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from npc.statistics.arrays import Booleans, Floats, Integers

#: Every node is due after this share of the nights that it may wait: the rest is for the nights in which it
#: is busy, and for those in which the budget went to suspects.
DUE: Final = 3 / 4
#: Suspects get this share of a budget at most, or one that lasts would end the rotation.
SUSPECTS: Final = 1 / 2
#: The name of work on nodes.
NODES: Final = "nodes"
#: Nights whose median is what a benchmark costs, which is not known from fewer: one night in which it
#: took ten times as long shall not make it too dear for ever.
COSTS: Final = 10
KNOWN: Final = 3
#: Half of a night's nodes are those that wait longest; their partners are chosen among this many times the
#: night's nodes. Were the partners, too, those that wait longest, the same nodes would always wait together.
CHOICE: Final = 2
#: What a pair of an idle and a busy node costs; one that met yesterday costs 1.
MIXED: Final = 10.0
#: What a pair below one switch costs: it decides between pairs that met equally long ago, as never.
ONE_SWITCH: Final = 1e-4
#: Less than this is nothing saved.
SAVING: Final = 1e-9


class NodeState(NamedTuple):
    """A node tonight."""

    #: Whether a job may start on it, now or later.
    usable: bool = True
    #: Whether a job may start on it at once.
    idle: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNights:
    """What the nights before say of nodes; nights are numbers."""

    #: Number of the night that is planned: as many were before it.
    tonight: int
    #: By node the last night that measured it.
    measured: Mapping[str, int] = field(default_factory=dict)
    #: By node the last night that was to measure it.
    tried: Mapping[str, int] = field(default_factory=dict)
    #: By two nodes the last night that measured them together.
    met: Mapping[frozenset[str], int] = field(default_factory=dict)
    #: Nodes that the last night suspects.
    suspects: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """What is measured as a whole: a benchmark on any nodes, or the node benchmarks on two nodes (one, where
    there is no second) and the test between them."""

    #: Of the benchmark, or `NODES`.
    name: str
    #: Which nodes; empty for a benchmark on any.
    nodes: tuple[str, ...] = ()
    #: Number of the night that measured it last; -1 for never.
    last: int = -1
    #: Whether the last night has something bad about it.
    suspect: bool = False
    #: Expected node time in seconds (nodes × time of its jobs); None where it is not known.
    cost_s: float | None = None


def pace(within: int) -> int:
    """In how many nights the rotation goes round, so that every node is measured in `within` nights."""
    return max(1, math.floor(DUE * within))


def quota(usable: int, within: int) -> int:
    """Nodes a night."""
    return math.ceil(usable / pace(within))


def due_pairs(
    states: Mapping[str, NodeState],
    past: NodeNights,
    within: int,
    cost_s: float | None = None,
    switches: Mapping[str, str] = MappingProxyType({}),
) -> list[WorkItem]:
    """The nodes whose turn it is, by twos, so that in the course of the nights every two of them meet evenly.

    cost_s: of two of them. switches: by node the one that it hangs on, where that is known. Of pairs that
    never met those of two switches come first.

    First come suspects, then nodes that are due, those that nobody tried for longest before others and idle
    ones before busy ones; then idle ones that will be due next. Busy ones that are not due wait for a night
    in which they are idle.
    """
    tonight = past.tonight

    def rank(node: str) -> tuple[bool, bool, bool, int, int]:
        last = past.measured.get(node)
        due = last is None or tonight - last >= pace(within)
        tried = max(past.tried.get(node, -1), -1 if last is None else last)
        return (
            node not in past.suspects,
            not due,
            not states[node].idle,
            tried,
            -1 if last is None else last,
        )

    def has_turn(node: str) -> bool:
        not_suspect, not_due, busy, *_ = rank(node)
        return not (not_suspect and not_due and busy)

    usable = [node for node, state in states.items() if state.usable]
    turn = sorted(filter(has_turn, usable), key=rank)
    number = quota(len(usable), within) + sum(node in past.suspects for node in turn)
    number = min(number + number % 2, len(turn))
    # One of two is the one that waits longest. Where this alone brings all in time, any may be the other one.
    choice = turn if len(usable) <= within * (number // 2) else turn[: CHOICE * number]
    # Where all are measured, whoever is left alone is, too.
    needed = {*past.suspects, *(turn[: number // 2] if number < len(turn) else ())}
    works, last = [], -1
    for pair in _by_twos(choice, number, needed, states, past, switches):
        # whatever sorts them by age leaves them in this order
        last = max(last, min(past.measured.get(node, -1) for node in pair))
        suspect = not set(pair).isdisjoint(past.suspects)
        works.append(WorkItem(name=NODES, nodes=pair, last=last, suspect=suspect, cost_s=cost_s))
    return works


def _by_twos(
    nodes: Sequence[str],
    number: int,
    needed: Collection[str],
    states: Mapping[str, NodeState],
    past: NodeNights,
    switches: Mapping[str, str],
) -> list[tuple[str, ...]]:
    """`number` of the nodes by twos, the last one alone if that is odd.

    A matching of low cost: a pair costs the more the more recently it met. Node after node takes its
    cheapest partner; then partners change as long as that saves anything (2-opt, as of tours). Nodes come in
    the order of their age; those `needed` are never exchanged for others.
    """
    place = {node: i for i, node in enumerate(nodes)}
    cost = np.zeros((len(nodes), len(nodes)))
    for pair, night in past.met.items():
        i, j = (place.get(node, -1) for node in pair)
        if i >= 0 and j >= 0:
            cost[i, j] = cost[j, i] = 1 / max(1, past.tonight - night)
    idle = np.array([states[node].idle for node in nodes], dtype=bool)
    cost += MIXED * (idle[:, None] != idle)
    leaves = {switch: i for i, switch in enumerate(dict.fromkeys(switches.values()))}
    leaf = np.array([leaves[switches[node]] if node in switches else -1 for node in nodes], dtype=np.intp)
    cost += ONE_SWITCH * ((leaf[:, None] == leaf) & (leaf >= 0))
    pairs, free = _greedy_pairs(cost, number // 2)
    fixed = np.array([node in needed for node in nodes], dtype=bool)
    while _exchange_free(cost, pairs, free, fixed) or _exchange_partners(cost, pairs):
        pass
    pairs = pairs[np.argsort(pairs.min(axis=1), kind="stable")]
    alone = free[: number % 2].tolist()
    return [(nodes[min(pair)], nodes[max(pair)]) for pair in pairs.tolist()] + [(nodes[i],) for i in alone]


def _greedy_pairs(cost: Floats, number: int) -> tuple[Integers, Integers]:
    """That many pairs, each of the first node that is left and its cheapest partner; and who is left."""
    left = np.ones(len(cost), dtype=bool)
    pairs = np.empty((number, 2), dtype=np.intp)
    for pair in pairs:
        pair[0] = np.argmax(left)
        left[pair[0]] = False
        pair[1] = np.argmin(np.where(left, cost[pair[0]], np.inf))
        left[pair[1]] = False
    return pairs, np.flatnonzero(left)


def _exchange_partners(cost: Floats, pairs: Integers) -> bool:
    """Let two pairs change partners wherever that saves anything; whether any did."""
    a, b = pairs.T
    own = cost[a, b]
    now = own[:, None] + own
    parallel = now - cost[np.ix_(a, a)] - cost[np.ix_(b, b)]
    across = now - cost[np.ix_(a, b)] - cost[np.ix_(b, a)]
    best = np.maximum(parallel, across)
    np.fill_diagonal(best, 0.0)
    partner = best.argmax(axis=1) if len(pairs) else np.empty(0, dtype=np.intp)
    saved = best[np.arange(len(pairs)), partner]
    changed: set[int] = set()
    for i in np.argsort(-saved, kind="stable").tolist():
        j = int(partner[i])
        if saved[i] <= SAVING:
            break
        if changed.isdisjoint((i, j)):
            changed.update((i, j))
            (a1, b1), (a2, b2) = pairs[i].tolist(), pairs[j].tolist()
            pairs[[i, j]] = [(a1, a2), (b1, b2)] if parallel[i, j] >= across[i, j] else [(a1, b2), (a2, b1)]
    return bool(changed)


def _exchange_free(cost: Floats, pairs: Integers, free: Integers, fixed: Booleans) -> bool:
    """Let a node that is free take the place of one that need not be measured, where that saves anything."""
    changed = False
    for pair in pairs if len(free) else ():
        for side in (0, 1):
            if not fixed[pair[side]]:
                costs = cost[pair[1 - side], free]
                best = int(costs.argmin())
                if costs[best] < cost[pair[0], pair[1]] - SAVING:
                    pair[side], free[best] = free[best], pair[side]
                    changed = True
    return changed


def choose_within_budget(
    works: Iterable[WorkItem], budget_s: float | None, reserve_s: float = 0.0
) -> tuple[list[WorkItem], list[WorkItem]]:
    """What a night measures, in this order, and what it leaves out for its budget.

    First suspects, then what has not been measured for longest. What has an unknown cost is measured before
    the rest, once. budget_s: node time in seconds, None without end; reserve_s of it, half at most, is
    kept for measuring again. The oldest is measured if the budget is enough for it alone.
    """
    by_age = sorted(works, key=lambda work: (work.last, work.name))
    suspects = [work for work in by_age if work.suspect]
    unknown = [work for work in by_age if not work.suspect and work.cost_s is None]
    rest = [work for work in by_age if not work.suspect and work.cost_s is not None]
    if budget_s is None:
        return [*suspects, *unknown, *rest], []
    budget_s = max(budget_s - reserve_s, SUSPECTS * budget_s)
    # All pairs of nodes have one name: what the first one costs is known of the others then.
    first: dict[str, WorkItem] = {}
    for work in unknown:
        first.setdefault(work.name, work)
    unknown = list(first.values())
    oldest = next((work.cost_s for work in rest if work.cost_s and work.cost_s <= budget_s), 0.0)
    chosen = fitting(suspects, min(SUSPECTS * budget_s, budget_s - oldest))
    chosen += unknown
    others = [work for work in by_age if work not in chosen and work.cost_s is not None]
    chosen += fitting(others, budget_s - sum(work.cost_s or 0.0 for work in chosen))
    return chosen, [work for work in by_age if work not in chosen]


def fitting(works: Iterable[WorkItem], budget_s: float) -> list[WorkItem]:
    """Those that fit into the budget one after the other; what has an unknown cost always does."""
    chosen = []
    for work in works:
        if (work.cost_s or 0.0) <= budget_s:
            chosen.append(work)
            budget_s -= work.cost_s or 0.0
    return chosen


def expected_cost_s(costs: Mapping[str, Sequence[float]], benchmarks: Mapping[str, int]) -> float | None:
    """Node time (s) of some benchmarks, each with its number; None where one was measured too seldom.

    costs: by benchmark its node time in the nights so far, the last one last.
    """
    if any(len(costs.get(name, ())) < KNOWN for name in benchmarks):
        return None
    return sum(times * median(costs[name][-COSTS:]) for name, times in benchmarks.items())
