"""All ranks' profiles as one `npc.observe.mpi.records.Profile`, small enough for the observation document.

4000 ranks may leave gigabytes in their own files; here a few megabytes are kept. Calls are added up over the
ranks by region, name, size of communicator and class of size. Who sent to whom is kept by rank where that is
a sparse matrix, else by host. Snapshots are kept for as many ranks or groups of hosts, and as many moments,
as a picture can show. The ranks' own files have the rest.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any, Final

from npc.machine.fabric import in_order, neighbours
from npc.observe.monitoring import RankFlow
from npc.observe.mpi.algorithms import algorithms_of
from npc.observe.mpi.clocks import Clocks
from npc.observe.mpi.efficiency import efficiency_by_region, efficiency_of, load_of
from npc.observe.mpi.profile import Calls, RankProfile, Snapshot
from npc.observe.mpi.records import (
    CallTotals,
    PairTraffic,
    PeerMatrix,
    Profile,
    Snapshots,
    VariableTotals,
    operation,
)
from npc.observe.mpi.unexpected import unexpected_of
from npc.observe.mpi.waits import waits_of
from npc.records.observed import CollectiveCalls

#: Calls that send a message; a persistent one is sent by MPI_Start.
SENDS: Final = frozenset((
    "MPI_Send", "MPI_Bsend", "MPI_Ssend", "MPI_Rsend", "MPI_Isend", "MPI_Ibsend", "MPI_Issend", "MPI_Irsend",
    "MPI_Sendrecv", "MPI_Sendrecv_replace", "MPI_Isendrecv", "MPI_Isendrecv_replace", "MPI_Start",
    "MPI_Startall",
))  # fmt: skip
#: Entries of the matrix of peers, and of the table of calls, at most.
_MOST_PAIRS: Final = 20_000
_MOST_CALLS: Final = 5_000
#: Moments and names of a picture of snapshots at most, and numbers in all.
_MOST_MOMENTS: Final = 120
_MOST_NAMES: Final = 128
_MOST_NUMBERS: Final = 400_000


def digest(profiles: Sequence[RankProfile], flows: Iterable[RankFlow] = ()) -> dict[str, Any] | None:
    """The key `profile` of the observation document, a `Profile` as JSON has it, with six significant digits;
    None without profiles. What a rank left out is no error.

    flows: as MPI itself counted them, including messages within collectives.
    """
    if not profiles:
        return None
    shortened: dict[str, Any] = _short(asdict(_merged(profiles, flows)))
    return shortened


def _merged(profiles: Sequence[RankProfile], flows: Iterable[RankFlow]) -> Profile:
    ordered = sorted(profiles, key=lambda profile: profile.rank)
    first = ordered[0]
    clocks = Clocks(ordered)
    loads = [load_of(profile) for profile in ordered]
    return Profile(
        library=first.library,
        thread_level=first.thread_level,
        threads=max(profile.threads for profile in ordered),
        profiles=len(ordered),
        finalized=sum(profile.finalized for profile in ordered),
        ranks=tuple(loads),
        calls=tuple(_calls(ordered)),
        peers=_peers(ordered),
        efficiency=efficiency_of(loads),
        regions=efficiency_by_region(loads),
        waits=waits_of(ordered, clocks),
        variables=tuple(_variables(ordered)),
        snapshots=_snapshots(ordered, clocks),
        unexpected=unexpected_of(ordered, clocks),
        algorithms=algorithms_of(ordered, flows),
        notes=tuple(_notes(ordered)),
    )


def flows_of(profiles: Iterable[RankProfile]) -> list[RankFlow]:
    """What ranks sent, put and fetched, as Open MPI's monitoring would say it, without the sizes."""
    return [
        RankFlow(peer.kind, profile.rank, peer.rank, peer.bytes, peer.messages)
        for profile in profiles
        for peer in profile.peers
    ]


def collectives_of(profiles: Iterable[RankProfile]) -> dict[str, CollectiveCalls]:
    """Operation → collective calls, one for each rank that took part, with their own bytes. Calls on
    communicators of one rank do not count."""
    collectives: dict[str, CollectiveCalls] = {}
    for profile in profiles:
        alone = {communicator.key for communicator in profile.communicators if communicator.size == 1}
        for calls in profile.calls:
            name = operation(calls.call)
            if name and calls.communicator not in alone:
                size, number = collectives.get(name, CollectiveCalls(0.0, 0))
                collectives[name] = CollectiveCalls(size + calls.bytes, number + calls.calls)
    return collectives


def sizes_of(profiles: Sequence[RankProfile]) -> Counter[int]:
    """Class of size (`Calls.size_class`) → how many messages were sent.

    The bytes of MPI_Sendrecv are of both directions, so half of them is one message. Calls to MPI_PROC_NULL
    have no bytes and send no message; they are taken out of class 0.
    """
    sizes: Counter[int] = Counter()
    for calls in _all(profiles):
        if calls.call in SENDS:
            both_ways = "endrecv" in calls.call and calls.size_class > 0
            sizes[calls.size_class - both_ways] += calls.calls
    sent = sum(peer.messages for profile in profiles for peer in profile.peers if peer.kind == "user")
    sizes[0] = max(0, sizes[0] - max(0, sizes.total() - sent))
    return +sizes


def _all(profiles: Iterable[RankProfile]) -> Iterable[Calls]:
    return (calls for profile in profiles for calls in profile.calls)


def _calls(profiles: Sequence[RankProfile]) -> list[CallTotals]:
    """Those that took longest first."""
    totals: defaultdict[tuple[str, str, int, int], list[float]] = defaultdict(lambda: [0, 0.0, 0])
    for profile in profiles:
        members = {communicator.key: communicator.size for communicator in profile.communicators}
        for calls in profile.calls:
            kind = (calls.region, calls.call, members.get(calls.communicator, 0), calls.size_class)
            for column, value in enumerate((calls.calls, calls.seconds, calls.bytes)):
                totals[kind][column] += value
    rows = [
        CallTotals(*kind, int(number), seconds, int(size)) for kind, (number, seconds, size) in totals.items()
    ]
    return sorted(rows, key=lambda row: -row.seconds)[:_MOST_CALLS]


def _peers(profiles: Sequence[RankProfile]) -> PeerMatrix:
    """The bytes and messages that went from one to another; fetched bytes went to the rank that fetched
    them."""
    by_rank: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for flow in flows_of(profiles):
        way = (flow.target, flow.source) if flow.kind == "get" else (flow.source, flow.target)
        by_rank[way][0] += flow.bytes
        by_rank[way][1] += flow.messages
    if len(by_rank) <= _MOST_PAIRS:
        return _matrix("ranks", (), by_rank)
    placed = {profile.rank: profile.host for profile in profiles}
    hosts = in_order(set(placed.values()), None)
    number = {host: place for place, host in enumerate(hosts)}
    by_host: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for (source, target), (size, messages) in by_rank.items():
        if source in placed and target in placed:
            pair = by_host[number[placed[source]], number[placed[target]]]
            pair[0] += size
            pair[1] += messages
    return _matrix("hosts", hosts, by_host)


def _matrix(of: str, names: Sequence[str], pairs: Mapping[tuple[int, int], Sequence[int]]) -> PeerMatrix:
    """The matrix of the pairs with the most bytes."""
    ordered = sorted(pairs.items(), key=lambda item: -item[1][0])
    left = [values for _, values in ordered[_MOST_PAIRS:]]
    return PeerMatrix(
        of=of,
        names=tuple(names),
        rows=tuple(sorted(PairTraffic(*pair, *values) for pair, values in ordered[:_MOST_PAIRS])),
        left_out=(len(left), sum(size for size, _ in left), sum(messages for _, messages in left)),
    )


def _variables(profiles: Sequence[RankProfile]) -> list[VariableTotals]:
    """The library's counters at the ranks' ends: sum, least and largest value and the rank with it, and the
    largest value at any moment."""
    known = {variable.name: variable for profile in profiles for variable in profile.variables}
    values: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    peaks: dict[str, float] = {}
    for profile in profiles:
        for snapshot in profile.snapshots:
            for name, value in snapshot.values.items():
                peaks[name] = max(value, peaks.get(name, value))
        for name, value in profile.snapshots[-1].values.items() if profile.snapshots else ():
            values[name].append((value, profile.rank))
    return [
        VariableTotals(
            **asdict(variable),
            total=math.fsum(value for value, _ in values[name]),
            least=min(values[name])[0],
            most=max(values[name])[0],
            rank=max(values[name])[1],
            peak=peaks[name],
        )
        for name, variable in sorted(known.items())
        if values[name]
    ]


def _snapshots(profiles: Sequence[RankProfile], clocks: Clocks) -> Snapshots | None:
    """The library's counters by moment and rank; of many ranks, means over hosts or groups of hosts. None
    where no rank has two snapshots."""
    busiest = max(profiles, key=lambda profile: len(profile.snapshots))
    if len(busiest.snapshots) < 2:
        return None
    began = min(clocks.moment(profile.rank, profile.began) for profile in profiles)
    moments = _thinned([clocks.moment(busiest.rank, snapshot.at) for snapshot in busiest.snapshots])
    late = (moments[-1] - moments[0]) / (len(moments) - 1) / 2
    kind, groups = _groups(profiles)
    read = {
        profile.rank: _at(profile, clocks, [moment + late for moment in moments])
        for _, members in groups
        for profile in members
    }
    names = {name for rows in read.values() for row in rows if row for name in row.values}
    values = {
        name: tuple(_means([read[profile.rank] for profile in members], name) for _, members in groups)
        for name in sorted(names)
    }
    changing = {name: rows for name, rows in values.items() if _varies(rows)}
    most = max(1, _MOST_NUMBERS // (len(moments) * len(groups)))
    return Snapshots(
        times=tuple(moment - began for moment in moments),
        of=kind,
        names=tuple(name for name, _ in groups),
        values=dict(list(changing.items())[:most]),
        left_out=tuple(changing)[most:],
    )


def _thinned(moments: Sequence[float]) -> list[float]:
    """At most `_MOST_MOMENTS` moments, the last one among them."""
    every = math.ceil(len(moments) / _MOST_MOMENTS)
    return list(moments[::-1][::every][::-1])


def _groups(profiles: Sequence[RankProfile]) -> tuple[str, list[tuple[str, list[RankProfile]]]]:
    """Ranks, or their hosts, or neighbouring hosts: the first of these that are not too many."""
    if len(profiles) <= _MOST_NAMES:
        return "ranks", [(str(profile.rank), [profile]) for profile in profiles]
    by_host: defaultdict[str, list[RankProfile]] = defaultdict(list)
    for profile in profiles:
        by_host[profile.host].append(profile)
    hosts = in_order(set(by_host), None)
    if len(hosts) <= _MOST_NAMES:
        return "hosts", [(host, by_host[host]) for host in hosts]
    groups = neighbours(hosts, None, _MOST_NAMES)
    return "groups of hosts", [
        (name, [p for host in members for p in by_host[host]]) for name, members in groups
    ]


def _at(profile: RankProfile, clocks: Clocks, moments: Sequence[float]) -> list[Snapshot | None]:
    """The last snapshot before each moment of rank 0's clock."""
    taken = [clocks.moment(profile.rank, snapshot.at) for snapshot in profile.snapshots]
    places = [bisect_right(taken, moment) for moment in moments]
    return [profile.snapshots[place - 1] if place else None for place in places]


def _means(ranks: Sequence[Sequence[Snapshot | None]], name: str) -> tuple[float | None, ...]:
    """The mean of some ranks' values at each moment; None while none of them has one."""
    means: list[float | None] = []
    for snapshots in zip(*ranks, strict=True):
        known = [snapshot.values[name] for snapshot in snapshots if snapshot and name in snapshot.values]
        means.append(fmean(known) if known else None)
    return tuple(means)


def _varies(rows: Iterable[Sequence[float | None]]) -> bool:
    return len({value for row in rows for value in row if value is not None}) > 1


def _notes(profiles: Sequence[RankProfile]) -> list[str]:
    """The ranks' notes, equal ones once."""
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for profile in profiles:
        for note in profile.notes:
            ranks[note].append(profile.rank)
    return [
        f"{f'rank {noted_by[0]}' if len(noted_by) == 1 else f'{len(noted_by)} ranks'}: {note}"
        for note, noted_by in ranks.items()
    ]


def _short(value: Any) -> Any:
    """The value with floats of six significant digits, which is finer than any clock here."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _short(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_short(part) for part in value]
    return value
