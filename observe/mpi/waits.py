"""Who waits for whom, by the times at which ranks enter and leave calls. It needs no trace.

In a collective, ranks wait until the last one has come; in a broadcast until the root has come; in a
reduction to one rank only the root waits. A receiver waits until its sender has begun to send (late sender),
a synchronous sender until its receiver has asked for the message (late receiver). These are the wait states
of Scalasca (Geimer et al., 2010). Times of different nodes are compared only as exactly as their clocks are
(`npc.observe.mpi.clocks`): waiting that is shorter than the clocks' error does not count, and where the error
is not small against the calls, no waiting is reported.

Causes are not followed further back: a rank that comes late because it waited itself counts as late.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final, NamedTuple, TypeVar

from npc.hostlist import host_text
from npc.observe.mpi.clocks import Clocks
from npc.observe.mpi.matching import (
    ALL_TO_ALL,
    FROM_ROOT,
    TO_ROOT,
    CollectiveCall,
    MatchedMessage,
    collective_calls,
    matched_messages,
)
from npc.observe.mpi.profile import RankProfile
from npc.observe.mpi.wait_records import CollectiveWait, Kind, LateRank, MessageWait, Wait, Waits
from npc.records.units import format_quantity, plural

#: Sends that may wait until the receiver has asked for the message.
_BLOCKING_SENDS: Final = frozenset({"MPI_Send", "MPI_Ssend"})
#: Most late ranks of a call, and most pairs, that are kept.
MOST_LATE: Final = 16
MOST_PAIRS: Final = 256
#: Waiting is not reported where the clocks' error is a larger share of a call's mean time. (A node that is
#: always late makes the error as large as the waiting.)
_VAGUE: Final = 0.5

#: (waiting rank, rank waited for, kind, call) → seconds
_Pairs = defaultdict[tuple[int, int, Kind, str], float]
_Key = TypeVar("_Key")


def waits_of(profiles: Sequence[RankProfile], clocks: Clocks | None = None) -> Waits:
    """The wait states of a run.

    Where only every k-th call was kept, the kept ones stand for all: collectives are scaled by the time spent
    in them, messages by their number from one rank to another. clocks: of the ranks, if they were already
    compared.
    """
    clocks = clocks or Clocks(profiles)
    pairs: _Pairs = defaultdict(float)
    collectives = _collectives(profiles, clocks, pairs)
    messages, notes = _messages(profiles, clocks, pairs)
    by_rank: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (waiting, awaited, _, _), seconds in pairs.items():
        by_rank[waiting][0] += seconds
        by_rank[awaited][1] += seconds
    ordered = [Wait(*who, seconds) for who, seconds in _largest(pairs) if seconds]
    if unknown := clocks.unknown():
        notes.insert(0, f"{host_text(unknown)}: {_UNKNOWN}, so it is not known who waited for whom there")
    return Waits(
        collectives=tuple(collectives),
        messages=tuple(messages),
        pairs=tuple(ordered[:MOST_PAIRS]),
        by_rank={rank: (waited[0], waited[1]) for rank, waited in sorted(by_rank.items())},
        left_out=(len(ordered[MOST_PAIRS:]), sum(pair.seconds for pair in ordered[MOST_PAIRS:])),
        notes=tuple(notes),
    )


#: Why no waiting is reported where nothing bounds the difference of two clocks.
_UNKNOWN: Final = "nothing tells how the clocks of its nodes differ"


def _vague(error: float, mean_s: float, what: str) -> str:
    """Why waiting in calls of this mean time is not reported; empty where it is."""
    if error <= _VAGUE * mean_s:
        return ""
    known = f"the clocks of its nodes are known to {format_quantity(error, 's', 2)} only"
    return f"{what} {format_quantity(mean_s, 's', 2)}, and {known}"


def _largest(values: Mapping[_Key, float]) -> list[tuple[_Key, float]]:
    return sorted(values.items(), key=lambda entry: -entry[1])


# --- collectives -----------------------------------------------------------------------------------------


class _CallPlace(NamedTuple):
    """Calls that are reported together."""

    #: MPI's name.
    call: str
    #: The communicators' name.
    communicator: str
    #: Their size.
    ranks: int


@dataclass(slots=True)
class _PlaceWaits:
    """What the kept calls of a `_CallPlace` show."""

    #: How many they are.
    kept: int = 0
    #: Spent in them by all ranks (s).
    seconds: float = 0.0
    #: Largest error of the clocks against each other (s).
    error: float = 0.0
    #: Why waiting in them is not known; empty where it is.
    reason: str = ""
    #: (rank that waited, rank that it waited for) → seconds.
    waited: defaultdict[tuple[int, int], float] = field(default_factory=lambda: defaultdict(float))
    #: Rank → in how many calls it was the last.
    times: Counter[int] = field(default_factory=Counter)
    #: Rank → by how many seconds it came after the last but one, in all calls.
    alone: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))


def _collectives(profiles: Sequence[RankProfile], clocks: Clocks, pairs: _Pairs) -> list[CollectiveWait]:
    """The longest first; adds to `pairs`."""
    names = {known.key: known for profile in profiles for known in profile.communicators}
    places: defaultdict[_CallPlace, _PlaceWaits] = defaultdict(_PlaceWaits)
    for call in collective_calls(profiles):
        _add(places[_CallPlace(call.call, call.communicator.name, call.communicator.size)], call, clocks)
    totals: defaultdict[_CallPlace, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for profile in profiles:
        for stats in profile.calls:
            known = names.get(stats.communicator)
            if known and known.size > 1:
                total = totals[_CallPlace(stats.call, known.name, known.size)]
                total[0] += stats.calls / known.size
                total[1] += stats.seconds
    judged = ALL_TO_ALL | FROM_ROOT | TO_ROOT
    waits = []
    for place, (calls_made, seconds) in totals.items():
        if place in places or place.call in judged:
            waits.append(_collective(place, places[place], round(calls_made), seconds, pairs))
    return sorted(waits, key=lambda wait: -wait.seconds)


def _add(waits: _PlaceWaits, of: CollectiveCall, clocks: Clocks) -> None:
    """Adds one call with all its ranks."""
    call, arrivals, root = of.call, of.arrivals, of.root
    waits.kept += 1
    waits.seconds += sum(arrival.left - arrival.entered for arrival in arrivals.values())
    waits.error = max(waits.error, clocks.largest_error(arrivals))
    if waits.error == math.inf:
        waits.reason = _UNKNOWN
    elif call not in ALL_TO_ALL | FROM_ROOT | TO_ROOT:
        waits.reason = "the times at which ranks come do not show whom a rank waits for in it"
    elif call not in ALL_TO_ALL and root not in arrivals:
        waits.reason = "its root is not known"
    if waits.reason:
        return
    entered = {rank: clocks.moment(rank, arrival.entered) for rank, arrival in arrivals.items()}
    second, last = sorted(entered, key=lambda rank: (entered[rank], rank))[-2:]
    awaited = root if call in FROM_ROOT and root is not None else last
    for rank in (root,) if call in TO_ROOT and root is not None else entered:
        left = clocks.moment(rank, arrivals[rank].left)
        if wait := clocks.wait(rank, entered[rank], left, awaited, entered[awaited]):
            waits.waited[rank, awaited] += wait
    margin = entered[last] - entered[second]
    if awaited == last and margin > clocks.error(last, second):
        waits.times[last] += 1
        waits.alone[last] += margin


def _collective(
    place: _CallPlace, waits: _PlaceWaits, calls: int, seconds: float, pairs: _Pairs
) -> CollectiveWait:
    """Waiting in all calls, estimated from the kept ones."""
    if not waits.kept:
        waits.reason = "of none of its calls have all ranks kept the times"
    elif not waits.reason:
        waits.reason = _vague(waits.error, waits.seconds / (waits.kept * place.ranks), "its calls take")
    if waits.reason:
        return CollectiveWait(*place, calls, waits.kept, seconds, None, waits.error, (), waits.reason)
    scale = max(1.0, seconds / waits.seconds if waits.seconds else calls / waits.kept)
    often = max(1.0, calls / waits.kept)
    awaited: defaultdict[int, float] = defaultdict(float)
    for (rank, other), waited in waits.waited.items():
        awaited[other] += scale * waited
        pairs[rank, other, "collective", place.call] += scale * waited
    late = tuple(
        LateRank(rank, often * waits.times[rank], waited, scale * waits.alone[rank])
        for rank, waited in _largest(awaited)[:MOST_LATE]
    )
    return CollectiveWait(*place, calls, waits.kept, seconds, sum(awaited.values()), waits.error, late)


# --- messages --------------------------------------------------------------------------------------------


class _Waited(NamedTuple):
    """How long one message made a rank wait."""

    #: Who was late.
    kind: Kind
    #: MPI's name of the call in which the rank waited.
    call: str
    #: The rank that waited.
    waiting: int
    #: The rank that it waited for.
    awaited: int
    #: 0 where it did not wait (s).
    seconds: float
    #: The message's sender and receiver.
    way: tuple[int, int]


def _messages(
    profiles: Sequence[RankProfile], clocks: Clocks, pairs: _Pairs
) -> tuple[list[MessageWait], list[str]]:
    """The longest first, and notes about messages that could not be judged; adds to `pairs`."""
    compared, contradicted = match_messages(profiles, clocks)
    matched, notes = _told_apart(compared, clocks)
    if contradicted:
        notes.append(f"{contradicted} messages came before they were sent, so they are not compared")
    exchanged: Counter[tuple[int, int]] = Counter()
    for profile in profiles:
        exchanged.update(
            {(profile.rank, peer.rank): peer.messages for peer in profile.peers if peer.kind == "user"}
        )
    compared_messages = Counter((message.source, message.target) for message in matched)
    stands_for = {way: max(1.0, exchanged[way] / number) for way, number in compared_messages.items()}
    by_call: defaultdict[tuple[Kind, str], list[_Waited]] = defaultdict(list)
    for one_wait in (*_late_senders(matched, clocks), *_late_receivers(matched, clocks)):
        by_call[one_wait.kind, one_wait.call].append(one_wait)
    message_waits = []
    for (kind, call), waits in by_call.items():
        seconds = sum(of.seconds for profile in profiles for of in profile.calls if of.call == call)
        scaled: _Pairs = defaultdict(float)
        messages = 0.0
        for wait in waits:
            factor = stands_for[wait.way]
            messages += factor
            scaled[wait.waiting, wait.awaited, kind, call] += factor * wait.seconds
        waited = min(sum(scaled.values()), seconds)
        share = waited / sum(scaled.values()) if waited else 0.0
        for who, value in scaled.items():
            pairs[who] += share * value
        error = max(clocks.error(wait.waiting, wait.awaited) for wait in waits)
        message_waits.append(MessageWait(kind, call, round(messages), len(waits), seconds, waited, error))
    return sorted(message_waits, key=lambda wait: -wait.seconds), notes


def match_messages(profiles: Sequence[RankProfile], clocks: Clocks) -> tuple[list[MatchedMessage], int]:
    """Messages between ranks whose clocks can be compared, and how many others seem to arrive before they
    were sent."""
    matched, contradicted = [], 0
    for message in matched_messages(profiles):
        error = clocks.error(message.source, message.target)
        began = clocks.moment(message.source, message.send.entered)
        if clocks.moment(message.target, message.receive.left) < began - error:
            contradicted += 1
        elif error < math.inf:
            matched.append(message)
    return matched, contradicted


def _told_apart(matched: Sequence[MatchedMessage], clocks: Clocks) -> tuple[list[MatchedMessage], list[str]]:
    """Messages between nodes whose clocks are compared exactly enough for them, and notes about the
    others."""
    seconds: defaultdict[frozenset[str], list[float]] = defaultdict(list)
    errors = {}
    for message in matched:
        hosts = clocks.hosts(message.source, message.target)
        seconds[hosts].append(message.receive.left - message.receive.entered)
        errors[hosts] = clocks.error(message.source, message.target)
    vague = {
        hosts: reason
        for hosts, spent in seconds.items()
        if (reason := _vague(errors[hosts], fmean(spent), "they take"))
    }
    notes = []
    if vague:
        hosts, reason = min(vague.items(), key=lambda entry: sorted(entry[0]))
        more = f" (and those of {plural(len(vague) - 1, 'other pair')} of nodes)" if len(vague) > 1 else ""
        notes.append(f"who waited in messages between {' and '.join(sorted(hosts))}{more}: {reason}")
    certain = [message for message in matched if clocks.hosts(message.source, message.target) not in vague]
    return certain, notes


def _late_senders(matched: Iterable[MatchedMessage], clocks: Clocks) -> Iterator[_Waited]:
    """Where a call waited for several messages, it waited for the sender that began last."""
    calls: defaultdict[tuple[int, str, float, float], list[MatchedMessage]] = defaultdict(list)
    for message in matched:
        receive = message.receive
        calls[message.target, receive.call, receive.entered, receive.left].append(message)
    for (target, call, entered, left), messages in calls.items():
        begin, end = clocks.moment(target, entered), clocks.moment(target, left)
        came = [clocks.moment(message.source, message.send.entered) for message in messages]
        waits = [
            clocks.wait(target, begin, end, message.source, at)
            for message, at in zip(messages, came, strict=True)
        ]
        longest = waits.index(max(waits))
        for place, message in enumerate(messages):
            seconds = waits[place] if place == longest else 0.0
            yield _Waited("late sender", call, target, message.source, seconds, (message.source, target))


def _late_receivers(matched: Iterable[MatchedMessage], clocks: Clocks) -> Iterator[_Waited]:
    """Sends that waited until the receiver had asked for the message. (An eager send ends earlier.)"""
    for message in matched:
        if message.send.call not in _BLOCKING_SENDS or message.receive.posted is None:
            continue
        begin, end = (clocks.moment(message.source, at) for at in (message.send.entered, message.send.left))
        posted = clocks.moment(message.target, message.receive.posted)
        seconds = clocks.wait(message.source, begin, end, message.target, posted)
        way = (message.source, message.target)
        yield _Waited("late receiver", message.send.call, *way, seconds, way)
