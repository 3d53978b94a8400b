"""How much the nodes of one run differ for good, and which of them lie beyond that.

Nodes of one fleet are never equal: published rates of one matrix product differ by 1 to 2 % between the GPUs
of a machine, ten times what one GPU repeats by, with a slow tail (516 GPUs of Frontier: 1.7 %, the slowest
7.5 %; repeats 0.13 %; hpcgroup/perf-variability-ipdps26). So a node is compared with how its fleet is spread,
not with the noise of its readings alone:

    reading of server s and client c  =  level[s] + level[c] + end[0][s] + end[1][c] + noise

The levels of all nodes are fitted at once, so two bad nodes do not hide each other. Everything is in log
units, slow is negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npc.statistics.localiser import MIN_READINGS
from npc.statistics.mixture import MIN_NOISE, quantiles, robust_spread
from npc.statistics.spread import KnownSpread, centres_and_deviations

if TYPE_CHECKING:
    from npc.machine.fabric import GroupMembers
    from npc.npb.pair_readings import PairReadings
    from npc.statistics.arrays import Booleans, Floats

#: At most this share of the nodes lies beyond the spread of the others.
MOST_BEYOND: Final = 1 / 3
#: A node lies beyond the spread where it is slower than the slowest of the others by so many τ…
BEYOND: Final = 4.2
#: …in a small fleet by so much more, as a share of it, divided by the number of nodes that τ is from…
_FEW_NODES: Final = 4.0
#: …and at least so many times as far from the median.
_TIMES: Final = 2.0
#: τ of a fleet before any of its nodes is seen, the widest one published. It counts for more nodes than at
#: night (`npc.statistics.fleet`): nobody's past shows here that it always was in a small fleet's slow tail.
KNOWN_SPREAD: Final = KnownSpread(0.017, 8)
#: Nodes differ where their levels vary by so many times what noise explains; less than that is considered
#: with the noise (`npc.statistics.localiser.node_spread`).
_MORE_THAN_NOISE: Final = 1.4
#: Levels of nodes within so many τ are usual.
_USUAL: Final = 3.0
#: Huber's constant: a residual counts up to so many σ. Steps until the fit has settled.
_HUBER: Final = 1.5
_STEPS: Final = 12
#: How nodes differ at their ends is known from more readings than so many times the nodes.
_READINGS_FOR_ENDS: Final = 6
#: A median has this standard error, as a multiple of the mean's.
_MEDIAN_ERROR: Final = 1.25


class NodeLevels(NamedTuple):
    """What each node adds to the logarithms of its readings; NaN where it has too few of them."""

    #: By node, at both ends of its pairs, relative to the median node.
    level: Floats
    #: By node, standard error of `level`.
    error: Floats
    #: By end and node, how much the node differs there from its level.
    end: Floats
    #: By end and node, standard error of `end`.
    end_error: Floats


class Spread(NamedTuple):
    """How much nodes (or groups of them) differ for good, and who lies beyond that."""

    #: By node, whether it is slower than how the others differ for good explains; noise is judged elsewhere.
    beyond: Booleans
    #: By node, the share of its level that is no noise, from 0 to 1.
    own_share: Floats
    #: Standard deviation τ between the others, without noise; 0 where noise explains all.
    tau: float


def node_levels(readings: PairReadings, values: Floats, active: Booleans) -> NodeLevels:
    """Fit the levels of all nodes at once to the active readings, by Huber's M-estimate.

    It starts from the upper tercile of each node's readings, since a bad node spoils all of its own and few
    of anybody else's.
    """
    count = len(readings.names)
    ends = readings.server[active], readings.client[active]
    values = values[active]
    own = np.concatenate(ends)
    number = np.bincount(own, minlength=count)
    enough = number >= MIN_READINGS
    if not enough.any():
        nothing = np.full(count, np.nan)
        return NodeLevels(nothing, nothing, np.stack([nothing] * 2), np.stack([nothing] * 2))
    (level,) = quantiles(np.concatenate([values, values]), own, count, 2 / 3)
    level = np.where(enough, level - np.median(level[enough]), 0.0)
    residual = values - level[ends[0]] - level[ends[1]]
    residual -= np.median(residual)
    for _ in range(_STEPS):
        sigma = max(robust_spread(residual)[1], MIN_NOISE)
        clipped = np.clip(residual, -_HUBER * sigma, _HUBER * sigma)
        step = np.bincount(own, np.concatenate([clipped, clipped]), count) / np.maximum(number, 1)
        # Both ends of a pair move at once; three quarters of a step do not swing.
        level += np.where(enough, 0.75 * step, 0.0)
        level -= np.where(enough, np.median(level[enough]), 0.0)
        residual = values - level[ends[0]] - level[ends[1]]
        residual -= np.median(residual)
    # The fit has taken a degree of freedom for each level, and takes two more for the ends of each node.
    nodes, total = int(enough.sum()), len(values)
    sigma *= math.sqrt(total / max(total - nodes, 1))
    at_end = [np.bincount(end, minlength=count) * (total > _READINGS_FOR_ENDS * nodes) for end in ends]
    middle = [quantiles(residual, end, count, 0.5)[0] for end in ends]
    return NodeLevels(
        np.where(enough, level, np.nan),
        # The partners' levels are estimates, too: with m of them about σ²/(m - 2) instead of σ²/m.
        sigma / np.sqrt(np.maximum(number - 2, 1)),
        np.stack([np.where(n >= MIN_READINGS, m, np.nan) for n, m in zip(at_end, middle, strict=True)]),
        np.stack([_MEDIAN_ERROR * sigma / np.sqrt(np.maximum(n, 1)) for n in at_end]),
    )


def spread_of(level: Floats, error: Floats) -> Spread:
    """What lies beyond the spread of a fleet, found in its own levels.

    The slowest k stand apart where the gap between them and the next one is too wide for the rest. Of all
    such k the largest is taken: bad nodes neither hide each other nor widen what is usual. τ is that of the
    rest (`npc.statistics.spread`), less what noise gives to it.

    level, error: by node, in log units; NaN where nothing is known.
    """
    known = np.flatnonzero(~np.isnan(level))
    apart, beyond = np.zeros((2, len(level)), dtype=bool)
    own_share = np.zeros(len(level))
    if len(known) < 2:
        return Spread(beyond, own_share, 0.0)
    order = known[np.argsort(level[known], kind="stable")]
    slowness = -level[order]
    for k in range(max(int(MOST_BEYOND * len(order)), 1), 0, -1):
        slowest, gap = slowness[k] - np.median(slowness[k:]), slowness[k - 1] - slowness[k]
        # Most gaps are narrower than that, and τ takes longer.
        if gap <= (_TIMES - 1) * slowest:
            continue
        if gap > _widest_gap(_variance(slowness[k:]), len(slowness) - k, slowest):
            apart[order[:k]] = True
            break
    rest = -level[~apart & ~np.isnan(level)]
    middle = float(np.median(rest))
    variance, noise = _variance(rest), float(np.median(error[known] ** 2))
    of_middle = robust_spread(rest)[1] ** 2
    # The standard error of a variance by the median absolute deviation is 2.33/√n of it. Where the middle
    # of the fleet differs by no more than noise, its nodes are equal: a slow tail is bad nodes or noise.
    error_of_middle = 2.33 / math.sqrt(len(rest))
    at_least = noise * max(1 + 2 * error_of_middle, _MORE_THAN_NOISE)
    real = max(variance - noise, 0.0) if of_middle > at_least else 0.0
    slowest = (float(np.max(rest)) - middle) * math.sqrt(real / variance) if variance else 0.0
    limit = slowest + _widest_gap(real, len(rest), slowest)
    beyond[known] = -level[known] - middle > limit
    tau = (
        math.sqrt(of_middle - noise) if of_middle > max(at_least, noise * (1 + 3 * error_of_middle)) else 0.0
    )
    own_share[known] = tau**2 / (tau**2 + error[known] ** 2)
    return Spread(beyond, own_share, tau)


def _variance(slowness: Floats) -> float:
    """Of the levels of nodes, with their noise."""
    return float(centres_and_deviations(-slowness[None])[1][0]) ** 2


def _widest_gap(variance: float, count: int, slowest: float) -> float:
    """How far a healthy node may lie from the slowest of `count` others, in log units. variance: τ² of these;
    slowest: how far the slowest of them lies from their median."""
    tau = float(KNOWN_SPREAD.with_members(variance, count - 1))
    few = _FEW_NODES / (count - 1 + KNOWN_SPREAD.members)
    return max(BEYOND * (1 + few) * tau, (_TIMES - 1) * slowest)


class FleetSpread:
    """The levels of all nodes of a run, the spread of them, of their ends and of the groups they are in."""

    def __init__(
        self, readings: PairReadings, groups: Sequence[GroupMembers], values: Floats, active: Booleans
    ) -> None:
        """groups: switches and racks of the topology. values: of all readings; active: those to be judged."""
        self._levels = levels = node_levels(readings, values, active)
        #: Of the nodes, at both ends of their pairs.
        self.nodes: Spread = spread_of(levels.level, levels.error)
        self._ends = [spread_of(*of_end) for of_end in zip(levels.end, levels.end_error, strict=True)]
        #: By name and kind of the group, whether it lies beyond the spread of its like.
        self._groups = self._groups_beyond(groups)
        shifted = self._shift_of_groups(groups)
        within = ~self.nodes.beyond | ~np.isnan(shifted)
        level = np.nan_to_num(np.where(np.isnan(shifted), levels.level, levels.level - shifted))
        # Below a slow switch each node keeps what is usual; more than that may be its own fault.
        level = np.where(
            np.isnan(shifted), level, np.clip(level, -_USUAL * self.nodes.tau, _USUAL * self.nodes.tau)
        )
        own = np.where(within, level * self.nodes.own_share, 0.0)
        #: By reading, what its nodes are slower or faster by as nodes of this fleet are.
        self.of_readings: Floats = np.zeros(readings.count)
        for number, node in enumerate((readings.server, readings.client)):
            spread = self._ends[number]
            at_end = np.where(within & ~spread.beyond, np.nan_to_num(levels.end[number]), 0.0)
            self.of_readings += (own + at_end * spread.own_share)[node]

    def slowness(self) -> Floats:
        """By node, by how much it is slower than the median node, in log units; NaN where that is unknown."""
        return -self._levels.level

    def score(self) -> Floats:
        """By node, its slowness in standard errors of it."""
        score: Floats = np.nan_to_num(-self._levels.level / self._levels.error)
        return score

    def is_beyond(self, node: int, end: int | None, delta: float) -> bool:
        """Whether a node that is slower by `delta`, at both ends of its pairs or at one, is slower than nodes
        of this fleet are."""
        if self.nodes.beyond[node]:
            return True
        if end is None:
            return False
        # With too few readings at this end to know how nodes differ there, it is what is known of others.
        unknown = bool(np.isnan(self._levels.end[end][node]))
        return delta > _widest_gap(0.0, 1, 0.0) if unknown else bool(self._ends[end].beyond[node])

    @property
    def has_slow_groups(self) -> bool:
        """Whether any switch or rack is slower than its like."""
        return bool(self._groups)

    def is_group_beyond(self, kind: str, name: str) -> bool:
        """Whether a switch or rack is slower than others of this machine are."""
        return ("rack" if kind == "rack" else "switch", name) in self._groups

    def _groups_beyond(self, groups: Sequence[GroupMembers]) -> dict[tuple[str, str], float]:
        """The groups beyond the spread of their like, with their level relative to these."""
        beyond: dict[tuple[str, str], float] = {}
        level = self._levels.level
        noise = robust_spread(level[~np.isnan(level)])[1] if (~np.isnan(level)).any() else 0.0
        like: dict[tuple[str, int], list[GroupMembers]] = {}
        for members in groups:
            like.setdefault((members.group.kind, members.group.level), []).append(members)
        for alike in like.values():
            masks = [members.below & ~np.isnan(level) for members in alike]
            # What is in none of them is one more to compare with.
            masks.append(~np.any([members.below for members in alike], axis=0) & ~np.isnan(level))
            middle = np.array([np.median(level[mask]) if mask.any() else np.nan for mask in masks])
            count = np.array([max(int(mask.sum()), 1) for mask in masks])
            spread = spread_of(middle, _MEDIAN_ERROR * noise / np.sqrt(count))
            if not spread.beyond.any():
                continue
            usual = float(np.median(middle[~spread.beyond & ~np.isnan(middle)]))
            for members, at, far in zip(alike, middle.tolist(), spread.beyond.tolist(), strict=False):
                if far:
                    beyond[members.group.kind, members.group.name] = at - usual
        return beyond

    def _shift_of_groups(self, groups: Sequence[GroupMembers]) -> Floats:
        """By node, how much slower the smallest group around it is that lies beyond its like; else NaN."""
        shift = np.full(len(self._levels.level), np.nan)
        for members in sorted(groups, key=lambda members: -int(members.below.sum())):
            if (at := self._groups.get((members.group.kind, members.group.name))) is not None:
                shift[members.below] = at
        return shift


def slow_by_chance(inside: Floats, outside: Floats) -> float:
    """The chance that of all these readings, dealt out at random, those `inside` are as slow as they are.

    Whatever the noise: the least of four, times four. Three are exact, hypergeometric tails: of the readings
    as slow as the median, the upper quartile or all of those inside, so many are inside. The fourth is of the
    rank sum, by its normal approximation, the tails of which are wider.
    """
    from npc.statistics.distributions import drawn_at_least, upper_tail

    count, others = len(inside), len(outside)
    if not count or not others:
        return 1.0
    limits = np.quantile(inside, (1 / 2, 3 / 4, 1), method="higher").tolist()
    slow = [(int((inside <= limit).sum()), int((outside <= limit).sum())) for limit in limits]
    chances = [drawn_at_least(own, count, own + other, count + others) for own, other in slow]
    ordered = np.sort(inside)
    slower = (np.searchsorted(ordered, outside) + np.searchsorted(ordered, outside, "right")).sum() / 2
    error = math.sqrt((count + others + 1) / 12 / count / others)
    chances.append(upper_tail((float(slower) / count / others - 0.5) / error))
    return min(1.0, len(chances) * min(chances))
