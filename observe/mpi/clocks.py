"""Compares the clocks of nodes by the times that the ranks noted; no message is sent for it.

A message is received after it was sent, and a collective call ends after the ranks that it needs have begun
it. Each such event bounds the difference of two nodes' clocks from one side (Duda et al., ICDCS 1987);
messages in both directions bound it from both sides. Where a time service tells the kernel how wrong the
node's time may be (adjtimex(2)), that is a bound, too. The difference over time is taken as a straight line
within all bounds. Many lines fit, and none is more likely than another: the result is the middle between the
outermost ones, and half of their distance is its error (the convex hull of Hofmann and Hilgers, PDP 1998).
Where no line fits, the run is halved.

A node that does everything late by the same time cannot be told from a node with a wrong clock. The error is
then as large as that time. Whoever uses a time difference must check that it is larger than the error.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from npc.observe.mpi.matching import FROM_ROOT, TO_ROOT, CollectiveCall, collective_calls, matched_messages
from npc.observe.mpi.profile import ClockReading, RankProfile

#: How fast two clocks drift apart at most, s/s: both crystals off by 100 ppm, a usual tolerance.
DRIFT: Final = 2e-4
#: How often a run is halved at most.
_HALVINGS: Final = 6
#: Largest rounding error of a moment, in seconds since the node was started.
_ROUNDED_S: Final = 1e-9
#: Calls that no rank leaves before all have come. (The v-forms are not among them: parts may be empty.)
_NEED_ALL: Final = frozenset({
    "MPI_Barrier", "MPI_Allreduce", "MPI_Allgather", "MPI_Alltoall", "MPI_Reduce_scatter_block",
})  # fmt: skip
_NEED_ROOT: Final = FROM_ROOT - {"MPI_Scatterv"}
_NEEDED_BY_ROOT: Final = TO_ROOT - {"MPI_Gatherv"}


class Offset(NamedTuple):
    """How far the first rank's node is ahead of this one, by their clocks, at a moment."""

    #: On this node's clock (s).
    at: float
    #: The first rank's clock less this node's (s).
    seconds: float
    #: Of `seconds`, at most (s); infinite where nothing tells.
    error: float


class Clocks:
    """The clocks of all ranks, on that of the first rank's node. Empty without profiles."""

    def __init__(self, profiles: Sequence[RankProfile]) -> None:
        self._hosts = {profile.rank: profile.host for profile in profiles}
        self._offsets: dict[str, list[Offset]] = {}
        self._errors: dict[str, float] = {}
        if not profiles:
            return
        by_host: defaultdict[str, list[RankProfile]] = defaultdict(list)
        for profile in sorted(profiles, key=lambda profile: profile.rank):
            by_host[profile.host].append(profile)
        home = next(iter(by_host))
        began = {host: min(profile.began for profile in ranks) for host, ranks in by_host.items()}
        self._know(home, [Offset(began[home], 0.0, 0.0)])
        if len(by_host) > 1:
            self._compare(profiles, by_host, home)
        for host in by_host.keys() - self._offsets.keys():  # as if all had begun together
            self._know(host, [Offset(began[host], began[home] - began[host], math.inf)])

    def moment(self, rank: int, at: float) -> float:
        """A moment of the rank's clock, on that of the first rank's node."""
        offsets = self._offsets[self._hosts[rank]]
        if len(offsets) == 1:
            return at + offsets[0].seconds
        place = min(max(bisect_right(offsets, at, key=lambda offset: offset.at), 1), len(offsets) - 1)
        first, last = offsets[place - 1], offsets[place]
        if last.at <= first.at:
            return at + first.seconds
        return at + first.seconds + (last.seconds - first.seconds) * (at - first.at) / (last.at - first.at)

    def error(self, one: int, other: int) -> float:
        """How wrong the time between moments of two ranks may be (s); infinite where nothing bounds it."""
        if self._hosts[one] == self._hosts[other]:
            return 0.0
        return self._errors[self._hosts[one]] + self._errors[self._hosts[other]]

    def hosts(self, one: int, other: int) -> frozenset[str]:
        """The hosts of two ranks."""
        return frozenset((self._hosts[one], self._hosts[other]))

    def largest_error(self, ranks: Iterable[int]) -> float:
        """The largest error between any two of these ranks (s)."""
        by_host = {self._hosts[rank]: self._errors[self._hosts[rank]] for rank in ranks}
        return sum(sorted(by_host.values())[-2:]) if len(by_host) > 1 else 0.0

    def wait(self, waiting: int, entered: float, left: float, awaited: int, came: float) -> float:
        """How long a rank waited for another one to come (s), in its call from `entered` to `left`. All
        moments are on one clock."""
        error, gap = self.error(waiting, awaited), came - entered
        return min(gap, left - entered) if gap > error and left >= came - error else 0.0

    def unknown(self) -> list[str]:
        """Hosts whose clock cannot be compared with that of the first rank's."""
        return sorted(host for host, error in self._errors.items() if error == math.inf)

    def _know(self, host: str, offsets: list[Offset]) -> None:
        self._offsets[host] = offsets
        self._errors[host] = max(offset.error for offset in offsets)

    def _compare(
        self, profiles: Sequence[RankProfile], by_host: Mapping[str, Sequence[RankProfile]], home: str
    ) -> None:
        """Compares the hosts that exchange something with the first rank's host, then those that exchange
        something with these, and so on."""
        calls = list(_needing_calls(profiles))
        while unknown := by_host.keys() - self._offsets.keys():
            bounds: defaultdict[str, _Bounds] = defaultdict(_Bounds)
            self._add_messages(profiles, bounds)
            for call, needed, needing in calls:
                self._add_call(call, needed, needing, bounds)
            before = len(self._offsets)
            for host in sorted(unknown):
                ranks = by_host[host]
                known_knots = list(_by_kernels(_readings(by_host[home]), _readings(ranks)))
                moments = [
                    *(at for rank in ranks for at in (rank.began, rank.ended)),
                    *(at for at, *_ in (*bounds[host].lower, *bounds[host].upper, *known_knots)),
                ]
                if offsets := _offsets(bounds[host], known_knots, (min(moments), max(moments))):
                    self._know(host, offsets)
            if len(self._offsets) == before:
                return

    def _add_messages(self, profiles: Sequence[RankProfile], bounds: defaultdict[str, _Bounds]) -> None:
        """Adds the bounds by messages between a host whose offset is known and one whose is not."""
        for message in matched_messages(profiles):
            source, target = self._hosts[message.source], self._hosts[message.target]
            sent, received = message.send.entered, message.receive.left
            if source in self._offsets and target not in self._offsets:
                earliest = self.moment(message.source, sent) - self._errors[source]
                bounds[target].lower.append((received, earliest - received))
            elif target in self._offsets and source not in self._offsets:
                latest = self.moment(message.target, received) + self._errors[target]
                bounds[source].upper.append((sent, latest - sent))

    def _add_call(
        self,
        call: CollectiveCall,
        needed: Iterable[int],
        needing: Iterable[int],
        bounds: defaultdict[str, _Bounds],
    ) -> None:
        """Adds the bounds by a call that no rank of `needing` leaves before all of `needed` have entered
        it."""
        earliest, latest = -math.inf, math.inf
        entered: dict[str, float] = {}
        left: dict[str, float] = {}
        for rank in needed:
            host, at = self._hosts[rank], call.arrivals[rank].entered
            if host in self._offsets:
                earliest = max(earliest, self.moment(rank, at) - self._errors[host])
            else:
                entered[host] = max(entered.get(host, at), at)
        for rank in needing:
            host, at = self._hosts[rank], call.arrivals[rank].left
            if host in self._offsets:
                latest = min(latest, self.moment(rank, at) + self._errors[host])
            else:
                left[host] = min(left.get(host, at), at)
        if latest < math.inf:
            for host, at in entered.items():
                bounds[host].upper.append((at, latest - at))
        if earliest > -math.inf:
            for host, at in left.items():
                bounds[host].lower.append((at, earliest - at))


def _needing_calls(
    profiles: Sequence[RankProfile],
) -> Iterator[tuple[CollectiveCall, Iterable[int], Iterable[int]]]:
    """(call, ranks that must have entered it, ranks that do not leave it before).

    A call without any bytes makes nobody wait. Which calls had none is not known one by one, so all calls of
    such a name and communicator are left out.
    """
    empty = {
        (calls.call, calls.communicator)
        for profile in profiles
        for calls in profile.calls
        if calls.size_class == 0 and calls.call != "MPI_Barrier"
    }
    for call in collective_calls(profiles):
        if (call.call, call.communicator.key) in empty:
            continue
        root = [rank for rank in call.arrivals if rank == call.root]
        if call.call in _NEED_ALL:
            yield call, call.arrivals, call.arrivals
        elif call.call in _NEED_ROOT:
            yield call, root, call.arrivals
        elif call.call in _NEEDED_BY_ROOT:
            yield call, call.arrivals, root


# --- lines within bounds ---------------------------------------------------------------------------------

#: (moment, value)
_Point = tuple[float, float]


@dataclass(slots=True)
class _Bounds:
    """Bounds of an offset (s) at moments of its node's clock."""

    #: The offset is at least these.
    lower: list[_Point] = field(default_factory=list)
    #: The offset is at most these.
    upper: list[_Point] = field(default_factory=list)

    def between(self, begin: float, end: float) -> _Bounds:
        """Those of a piece of the run that are not implied by two others."""
        lower, upper = (
            [(at, sign * value) for at, value in points if begin <= at <= end]
            for sign, points in ((-1.0, self.lower), (1.0, self.upper))
        )
        return _Bounds([(at, -value) for at, value in _hull(lower)], _hull(upper))


class _Knot(NamedTuple):
    """The range of an offset at one moment."""

    #: On the node's clock (s).
    at: float
    #: Least value (s).
    low: float
    #: Largest value (s).
    high: float


def _offsets(bounds: _Bounds, known_knots: Sequence[_Knot], span: tuple[float, float]) -> list[Offset]:
    """The offset at the ends of pieces of the run; in between it is a straight line. Empty where it is not
    bounded. known_knots: by the kernels; they are left out where they contradict the messages."""
    both = _Bounds(
        [*bounds.lower, *((knot.at, knot.low) for knot in known_knots)],
        [*bounds.upper, *((knot.at, knot.high) for knot in known_knots)],
    )
    for those in (both, bounds):
        knots = _pieces(those, *span, _HALVINGS)
        if knots:
            break
    narrow = narrowed(knots)
    if not narrow or not all(math.isfinite(knot.high - knot.low) for knot in narrow):
        return []
    return [Offset(knot.at, (knot.low + knot.high) / 2, (knot.high - knot.low) / 2) for knot in narrow]


def _pieces(bounds: _Bounds, begin: float, end: float, halvings: int) -> list[_Knot]:
    """Knots of the whole run where a line fits the bounds, else of its halves; empty where none fits."""
    knots = _line(bounds.between(begin, end), begin, end)
    if knots or not halvings:
        return knots
    middle = (begin + end) / 2
    first = _pieces(bounds, begin, middle, halvings - 1)
    last = first and _pieces(bounds, middle, end, halvings - 1)
    return [*first, *last] if last else []


def _line(bounds: _Bounds, begin: float, end: float) -> list[_Knot]:
    """The range of all lines that fit the bounds, at `begin` and at `end`; empty where no line fits.

    A line is given by its values at both ends. The allowed pairs of values are a polygon; its corners have
    the least and the largest values.
    """
    import numpy as np

    if not (bounds.lower and bounds.upper):
        return [_one_sided(bounds, begin), _one_sided(bounds, end)]
    length, origin = max(end - begin, 1e-9), bounds.upper[0][1]
    rows, limits = [(1.0, -1.0), (-1.0, 1.0)], [DRIFT * length] * 2
    for sign, points in ((1.0, bounds.upper), (-1.0, bounds.lower)):
        for at, value in points:
            share = (at - begin) / length
            rows.append((sign * (1 - share), sign * share))
            limits.append(sign * (value - origin))
    sides, most = np.array(rows), np.array(limits)
    one, other = np.triu_indices(len(sides), 1)
    turn = sides[one, 0] * sides[other, 1] - sides[one, 1] * sides[other, 0]
    one, other, turn = (column[np.abs(turn) > 1e-12] for column in (one, other, turn))
    corners = np.stack([
        (most[one] * sides[other, 1] - most[other] * sides[one, 1]) / turn,
        (most[other] * sides[one, 0] - most[one] * sides[other, 0]) / turn,
    ])  # fmt: skip
    corners = corners[:, (sides @ corners <= most[:, None] + _ROUNDED_S).all(axis=0)]
    if corners.size == 0:
        return []
    (first_low, last_low), (first_high, last_high) = corners.min(axis=1), corners.max(axis=1)
    return [
        _Knot(begin, origin + float(first_low), origin + float(first_high)),
        _Knot(end, origin + float(last_low), origin + float(last_high)),
    ]


def _one_sided(bounds: _Bounds, at: float) -> _Knot:
    """The range at a moment where there are only lower bounds, only upper ones, or none."""
    return _Knot(
        at,
        max((value - DRIFT * abs(at - moment) for moment, value in bounds.lower), default=-math.inf),
        min((value + DRIFT * abs(at - moment) for moment, value in bounds.upper), default=math.inf),
    )


def _hull(points: Iterable[_Point]) -> list[_Point]:
    """The lower side of the convex hull (Andrew's monotone chain): a line below it is below all points."""
    chain: list[_Point] = []
    for point in sorted(points):
        if chain and chain[-1][0] == point[0]:
            continue  # not below the one before
        while len(chain) > 1 and _turns_down(chain[-2], chain[-1], point):
            chain.pop()
        chain.append(point)
    return chain


def _turns_down(first: _Point, second: _Point, third: _Point) -> bool:
    """Whether the way from `first` by `second` to `third` does not bend upwards."""
    return (second[1] - first[1]) * (third[0] - first[0]) >= (third[1] - first[1]) * (second[0] - first[0])


def narrowed(knots: Sequence[_Knot]) -> list[_Knot]:
    """The knots, each narrowed by the others, since clocks drift slowly; unchanged where the others
    contradict it."""
    narrow = []
    for knot in knots:
        low, high = knot.low, knot.high
        for other in knots:
            drift = DRIFT * abs(other.at - knot.at)
            low, high = max(low, other.low - drift), min(high, other.high + drift)
        narrow.append(knot if low > high else _Knot(knot.at, low, high))
    return narrow


# --- bounds by the kernels ---------------------------------------------------------------------------------


def _readings(ranks: Sequence[RankProfile]) -> Sequence[ClockReading]:
    return next((rank.clock for rank in ranks if rank.clock), ())


def _by_kernels(home: Sequence[ClockReading], node: Sequence[ClockReading]) -> Iterator[_Knot]:
    """The offset by the time of day on both nodes, at their begins and at their ends."""
    for there, here in zip(home, node, strict=False):
        offset = (there.at - here.at) - (there.unix - here.unix)
        error = there.error + here.error + DRIFT * abs(there.unix - here.unix)
        yield _Knot(here.at, offset - error, offset + error)
