"""Who waits for whom, from when ranks came to calls: without a trace, and with the clocks' error told.

A collective: the time until the last rank has come is waiting (of a broadcast, until the root has; of a
reduction to one rank only the root waits). A message: a receiver waits until its sender has begun (late
sender), a synchronous sender until its receiver has asked (late receiver). These are the wait states of
Scalasca (Geimer et al., 2010). Moments of different nodes can be compared as exactly as their clocks were:
waiting that is shorter than the error is none.

What a rank was late for is not followed further back: who comes late because it waited itself is late.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from npc.records.mpi_profile import CollectiveWait, Kind, Late, MessageWait, Wait, Waits
from observe.mpi.profile import Arrival, Message, Offset, RankProfile

#: Nobody leaves before everybody has come. (Of v-forms with empty parts one may: who left earlier than the
#: last rank came has not waited for it.)
_ALL_TO_ALL: Final = frozenset({
    "MPI_Barrier", "MPI_Allreduce", "MPI_Allgather", "MPI_Allgatherv", "MPI_Alltoall", "MPI_Alltoallv",
    "MPI_Alltoallw", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block",
})  # fmt: skip
_FROM_ROOT: Final = frozenset({"MPI_Bcast", "MPI_Scatter", "MPI_Scatterv"})
_TO_ROOT: Final = frozenset({"MPI_Reduce", "MPI_Gather", "MPI_Gatherv"})
#: Sends that may stand until the receiver has asked.
_BLOCKING_SENDS: Final = frozenset({"MPI_Send", "MPI_Ssend"})
#: Late ranks of a call, and pairs, that are told at most.
MOST_LATE: Final = 16
MOST_PAIRS: Final = 256

#: (waiting rank, rank waited for, kind, call) → seconds
_Pairs = defaultdict[tuple[int, int, Kind, str], float]
_Key = TypeVar("_Key")


def waits_of(profiles: Sequence[RankProfile]) -> Waits:
    """The wait states of a run.

    Where only every k-th call was kept, what it shows stands for the others: of a collective in the ratio of
    the time spent in it, of messages in the ratio of their numbers from one rank to another.
    """
    clocks = Clocks(profiles)
    pairs: _Pairs = defaultdict(float)
    collectives = _collectives(profiles, clocks, pairs)
    messages, contradicted = _messages(profiles, clocks, pairs)
    by_rank: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (waiting, awaited, _, _), seconds in pairs.items():
        by_rank[waiting][0] += seconds
        by_rank[awaited][1] += seconds
    ordered = [Wait(*who, seconds) for who, seconds in _largest(pairs) if seconds]
    notes = [f"the clock of {host} was not compared with the others'" for host in clocks.unknown()]
    if contradicted:
        notes.append(f"{contradicted} messages came before they were sent, so they are not compared")
    return Waits(
        collectives=tuple(collectives),
        messages=tuple(messages),
        pairs=tuple(ordered[:MOST_PAIRS]),
        by_rank={rank: (found[0], found[1]) for rank, found in sorted(by_rank.items())},
        left_out=(len(ordered[MOST_PAIRS:]), sum(pair.seconds for pair in ordered[MOST_PAIRS:])),
        notes=tuple(notes),
    )


def _largest(values: Mapping[_Key, float]) -> list[tuple[_Key, float]]:
    return sorted(values.items(), key=lambda entry: -entry[1])


# --- clocks --------------------------------------------------------------------------------------------

#: How fast two clocks drift apart at most, s/s: both crystals off by 100 ppm, a usual tolerance.
_DRIFT: Final = 2e-4


class Clocks:
    """The ranks' clocks on that of the first rank's node."""

    def __init__(self, profiles: Sequence[RankProfile]) -> None:
        home = min(profiles, key=lambda profile: profile.rank).host if profiles else ""
        self._profiles = {
            profile.rank: replace(profile, offsets=narrowed(profile.offsets)) for profile in profiles
        }
        self._errors = {profile.rank: _clock_error(profile, home) for profile in self._profiles.values()}

    def moment(self, rank: int, at: float) -> float:
        """A moment of the rank's clock."""
        return self._profiles[rank].moment(at)

    def error(self, one: int, other: int) -> float:
        """How wrong the time between moments of two ranks may be; infinite where nobody compared them."""
        if self._profiles[one].host == self._profiles[other].host:
            return 0.0
        return self._errors[one] + self._errors[other]

    def largest_error(self, ranks: Iterable[int]) -> float:
        """That of any two of them."""
        by_host = {self._profiles[rank].host: self._errors[rank] for rank in ranks}
        return sum(sorted(by_host.values())[-2:]) if len(by_host) > 1 else 0.0

    def wait(self, waiting: int, entered: float, left: float, awaited: int, came: float) -> float:
        """How long of the call from `entered` to `left` (all moments on one clock) a rank waited for another
        one to come."""
        error, gap = self.error(waiting, awaited), came - entered
        return min(gap, left - entered) if gap > error and left >= came - error else 0.0

    def unknown(self) -> list[str]:
        """Hosts whose clock nobody compared."""
        ranks = [rank for rank, error in self._errors.items() if error == math.inf]
        return sorted({self._profiles[rank].host for rank in ranks})


def narrowed(offsets: Sequence[Offset]) -> list[Offset]:
    """Offsets measured at several moments, each made more exact by the others: clocks drift slowly."""
    found = []
    for each in offsets:
        low, high = each.seconds - each.error, each.seconds + each.error
        for other in offsets:
            error = other.error + _DRIFT * abs(other.at - each.at)
            low, high = max(low, other.seconds - error), min(high, other.seconds + error)
        contradicts = low > high
        found.append(each if contradicts else Offset(each.at, (low + high) / 2, (high - low) / 2))
    return found


def _clock_error(profile: RankProfile, home: str) -> float:
    if profile.host == home:
        return 0.0
    if not profile.offsets:
        return math.inf
    error = max(offset.error for offset in profile.offsets)
    if len(profile.offsets) == 1:
        error += _DRIFT * abs(profile.ended - profile.offsets[0].at)
    return error


# --- collectives -----------------------------------------------------------------------------------------


class _CallPlace(NamedTuple):
    """Calls that are told together: on communicators of one name and size."""

    call: str
    communicator: str
    ranks: int


@dataclass(slots=True)
class _PlaceWaits:
    """What the kept calls of a place show: number, seconds in them, who waited how long for whom, who was
    last how often and how much it alone was late."""

    kept: int = 0
    seconds: float = 0.0
    error: float = 0.0
    reason: str = ""
    waited: defaultdict[tuple[int, int], float] = field(default_factory=lambda: defaultdict(float))
    times: Counter[int] = field(default_factory=Counter)
    alone: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))


def _collectives(profiles: Sequence[RankProfile], clocks: Clocks, pairs: _Pairs) -> list[CollectiveWait]:
    """The longest first; adds to `pairs`."""
    names = {each.key: each for profile in profiles for each in profile.communicators}
    stamped: defaultdict[tuple[str, int], dict[int, Arrival]] = defaultdict(dict)
    for profile in profiles:
        for arrival in profile.arrivals:
            stamped[arrival.communicator, arrival.sequence][profile.rank] = arrival
    places: defaultdict[_CallPlace, _PlaceWaits] = defaultdict(_PlaceWaits)
    for (key, _), arrivals in stamped.items():
        calls = {arrival.call for arrival in arrivals.values()}
        if key in names and len(calls) == 1 and len(arrivals) == names[key].size > 1:
            place = _CallPlace(calls.pop(), names[key].name, names[key].size)
            _add(places[place], place.call, arrivals, clocks)
    totals: defaultdict[_CallPlace, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for profile in profiles:
        for each in profile.calls:
            known = names.get(each.communicator)
            if known and known.size > 1:
                total = totals[_CallPlace(each.call, known.name, known.size)]
                total[0] += each.calls / known.size
                total[1] += each.seconds
    judged = _ALL_TO_ALL | _FROM_ROOT | _TO_ROOT
    found = []
    for place, (calls_made, seconds) in totals.items():
        if place in places or place.call in judged:
            found.append(_collective(place, places[place], round(calls_made), seconds, pairs))
    return sorted(found, key=lambda each: -each.seconds)


def _add(found: _PlaceWaits, call: str, arrivals: Mapping[int, Arrival], clocks: Clocks) -> None:
    """One call of all its ranks."""
    root = next(iter(arrivals.values())).root
    found.kept += 1
    found.seconds += sum(arrival.left - arrival.entered for arrival in arrivals.values())
    found.error = max(found.error, clocks.largest_error(arrivals))
    if found.error == math.inf:
        found.reason = "the clocks of its nodes were not compared"
    elif call not in _ALL_TO_ALL | _FROM_ROOT | _TO_ROOT:
        found.reason = "whom a rank awaits in it is not told by when ranks come"
    elif call not in _ALL_TO_ALL and root not in arrivals:
        found.reason = "its root is not known"
    if found.reason:
        return
    entered = {rank: clocks.moment(rank, arrival.entered) for rank, arrival in arrivals.items()}
    second, last = sorted(entered, key=lambda rank: (entered[rank], rank))[-2:]
    awaited = root if call in _FROM_ROOT and root is not None else last
    for rank in (root,) if call in _TO_ROOT and root is not None else entered:
        left = clocks.moment(rank, arrivals[rank].left)
        if wait := clocks.wait(rank, entered[rank], left, awaited, entered[awaited]):
            found.waited[rank, awaited] += wait
    margin = entered[last] - entered[second]
    if awaited == last and margin > clocks.error(last, second):
        found.times[last] += 1
        found.alone[last] += margin


def _collective(
    place: _CallPlace, found: _PlaceWaits, calls: int, seconds: float, pairs: _Pairs
) -> CollectiveWait:
    """What the kept calls show, for all of them."""
    if not found.kept:
        found.reason = "the moments of no call were kept by all its ranks"
    if found.reason:
        return CollectiveWait(*place, calls, found.kept, seconds, None, found.error, (), found.reason)
    scale = max(1.0, seconds / found.seconds if found.seconds else calls / found.kept)
    often = max(1.0, calls / found.kept)
    awaited: defaultdict[int, float] = defaultdict(float)
    for (rank, other), waited in found.waited.items():
        awaited[other] += scale * waited
        pairs[rank, other, "collective", place.call] += scale * waited
    late = tuple(
        Late(rank, often * found.times[rank], waited, scale * found.alone[rank])
        for rank, waited in _largest(awaited)[:MOST_LATE]
    )
    return CollectiveWait(*place, calls, found.kept, seconds, sum(awaited.values()), found.error, late)


# --- messages --------------------------------------------------------------------------------------------


class Matched(NamedTuple):
    """A message whose moments both ranks kept."""

    source: int
    target: int
    send: Message
    receive: Message


class _Waited(NamedTuple):
    """How long a message from one rank to another made one of them wait for the other, in a call."""

    kind: Kind
    call: str
    waiting: int
    awaited: int
    seconds: float
    way: tuple[int, int]


def _messages(
    profiles: Sequence[RankProfile], clocks: Clocks, pairs: _Pairs
) -> tuple[list[MessageWait], int]:
    """The longest first, and how many messages came before they were sent; adds to `pairs`."""
    matched, contradicted = match_messages(profiles, clocks)
    exchanged: Counter[tuple[int, int]] = Counter()
    for profile in profiles:
        exchanged.update(
            {(profile.rank, peer.rank): peer.messages for peer in profile.peers if peer.kind == "user"}
        )
    kept = Counter((each.source, each.target) for each in matched)
    stands_for = {way: max(1.0, exchanged[way] / number) for way, number in kept.items()}
    by_call: defaultdict[tuple[Kind, str], list[_Waited]] = defaultdict(list)
    for each in (*_late_senders(matched, clocks), *_late_receivers(matched, clocks)):
        by_call[each.kind, each.call].append(each)
    found = []
    for (kind, call), waits in by_call.items():
        seconds = sum(of.seconds for profile in profiles for of in profile.calls if of.call == call)
        scaled: _Pairs = defaultdict(float)
        messages = 0.0
        for each in waits:
            factor = stands_for[each.way]
            messages += factor
            scaled[each.waiting, each.awaited, kind, call] += factor * each.seconds
        waited = min(sum(scaled.values()), seconds)
        share = waited / sum(scaled.values()) if waited else 0.0
        for who, value in scaled.items():
            pairs[who] += share * value
        error = max(clocks.error(each.waiting, each.awaited) for each in waits)
        found.append(MessageWait(kind, call, round(messages), len(waits), seconds, waited, error))
    return sorted(found, key=lambda each: -each.seconds), contradicted


def match_messages(profiles: Sequence[RankProfile], clocks: Clocks) -> tuple[list[Matched], int]:
    """Messages between ranks whose clocks can be compared, and how many others contradict themselves."""
    sent = {
        (profile.rank, each.peer, each.communicator, each.tag, each.sequence): each
        for profile in profiles
        for each in profile.sent
    }
    found, contradicted = [], 0
    for profile in profiles:
        for each in profile.received:
            send = sent.get((each.peer, profile.rank, each.communicator, each.tag, each.sequence))
            if send is None or each.peer == profile.rank:
                continue
            error = clocks.error(each.peer, profile.rank)
            began = clocks.moment(each.peer, send.entered)
            if clocks.moment(profile.rank, each.left) < began - error:
                contradicted += 1
            elif error < math.inf:
                found.append(Matched(each.peer, profile.rank, send, each))
    return found, contradicted


def _late_senders(matched: Iterable[Matched], clocks: Clocks) -> Iterator[_Waited]:
    """Of a call that waited for several messages, the one whose sender began last is the one awaited."""
    calls: defaultdict[tuple[int, str, float, float], list[Matched]] = defaultdict(list)
    for each in matched:
        calls[each.target, each.receive.call, each.receive.entered, each.receive.left].append(each)
    for (target, call, entered, left), messages in calls.items():
        begin, end = clocks.moment(target, entered), clocks.moment(target, left)
        came = [clocks.moment(each.source, each.send.entered) for each in messages]
        waits = [
            clocks.wait(target, begin, end, each.source, at) for each, at in zip(messages, came, strict=True)
        ]
        longest = waits.index(max(waits))
        for place, each in enumerate(messages):
            seconds = waits[place] if place == longest else 0.0
            yield _Waited("late sender", call, target, each.source, seconds, (each.source, target))


def _late_receivers(matched: Iterable[Matched], clocks: Clocks) -> Iterator[_Waited]:
    """A send that stood until its receiver had asked. (An eager one is over before.)"""
    for each in matched:
        if each.send.call not in _BLOCKING_SENDS or each.receive.posted is None:
            continue
        begin, end = (clocks.moment(each.source, at) for at in (each.send.entered, each.send.left))
        posted = clocks.moment(each.target, each.receive.posted)
        seconds = clocks.wait(each.source, begin, end, each.target, posted)
        way = (each.source, each.target)
        yield _Waited("late receiver", each.send.call, *way, seconds, way)
