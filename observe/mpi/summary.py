"""Where a program's time went inside MPI and who waited for whom, in at most ten lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from npc.observe.mpi.records import Efficiency, Profile
from npc.observe.mpi.wait_records import CollectiveWait, Waits
from npc.records.units import format_quantity, format_size, plural

#: Most calls and regions that are named.
_MOST_CALLS: Final = 4
_MOST_REGIONS: Final = 3
#: Share of its time that a rank is on a CPU where nothing disturbs it.
_BUSY: Final = 0.9
#: What takes a smaller share of all ranks' time is left out.
_LEAST: Final = 0.001


def summary(profile: Profile) -> list[str]:
    """The lines; none of a profile without ranks."""
    if not profile.ranks or profile.efficiency is None:
        return []
    return [
        _calls(profile),
        *_off_cpu(profile),
        *_efficiencies(profile.efficiency),
        *_imbalance(profile, profile.efficiency),
        *(_waiting(profile, profile.waits) if profile.waits else ()),
        *_regions(profile),
    ]


def _calls(profile: Profile) -> str:
    """The calls that took longest, with their shares of all ranks' time and their sizes."""
    total = profile.total
    parts = [
        f"{call} {_share(spent, total)}{_size(profile, call)}"
        for call, spent in profile.by_call.items()
        if spent > _LEAST * total
    ][:_MOST_CALLS]
    ranks = plural(len(profile.ranks), "rank")
    inside = _share(sum(rank.mpi for rank in profile.ranks), total)
    words = f"inside MPI: {inside} of the time of {ranks}, {_seconds(profile.seconds)} each"
    return ": ".join(filter(None, (words, ", ".join(parts))))


def _size(profile: Profile, call: str) -> str:
    """The class of sizes in which most of a call's time was spent."""
    seconds: defaultdict[int, float] = defaultdict(float)
    for stats in profile.calls:
        if stats.call == call:
            seconds[stats.size_class] += stats.seconds
    place = max(seconds, key=lambda size_class: seconds[size_class], default=0)
    return f" ({format_size(2 ** (place - 1))} to {format_size(2**place)})" if place else ""


def _off_cpu(profile: Profile) -> Iterator[str]:
    """Ranks of one thread that had no CPU for a part of their time. (Inside MPI they poll.)"""
    known = [rank for rank in profile.ranks if rank.cpu is not None and rank.threads == 1]
    total = sum(member.seconds for member in known)
    running = sum(member.cpu or 0.0 for member in known)
    if total and running < _BUSY * total:
        yield (
            f"the ranks were on a CPU for {_share(running, total)} of the time: there are more ranks "
            "than CPUs, other programs compute there, or the ranks sleep"
        )


def _efficiencies(efficiency: Efficiency) -> Iterator[str]:
    """The products of Eq. 3.7 to 3.9 and 3.14."""
    if efficiency.load_balance is None or efficiency.communication is None or efficiency.mpi is None:
        return
    parts = f"load balance {efficiency.load_balance:.0%} × communication {efficiency.communication:.0%}"
    if efficiency.openmp is not None and efficiency.parallel is not None:
        openmp = f"OpenMP {efficiency.openmp:.0%} at most"
        yield f"parallel efficiency {efficiency.parallel:.0%} = {parts} × {openmp}"
    elif efficiency.parallel is None:
        openmp = f"OpenMP's part: {efficiency.reasons['openmp']}"
        yield f"MPI's parallel efficiency {efficiency.mpi:.0%} = {parts}; {openmp}"
    else:
        yield f"parallel efficiency {efficiency.parallel:.0%} = {parts}"


def _imbalance(profile: Profile, efficiency: Efficiency) -> Iterator[str]:
    """Who is slow, who is longest inside MPI, and what balance would bring."""
    if efficiency.imbalance is None or len(profile.ranks) == 1:
        return
    slow = next(rank for rank in profile.ranks if rank.rank == efficiency.slowest)
    idle = max(profile.ranks, key=lambda rank: rank.mpi)
    slowest = f"{_rank(profile, slow.rank)} computes {_seconds(slow.computing)}"
    gain = f"{_seconds(efficiency.gain)} ({_share(efficiency.gain, efficiency.seconds)})"
    yield (
        f"load imbalance {efficiency.imbalance:.0%}: {slowest} "
        f"where the mean is {_seconds(efficiency.computing)}; "
        f"balanced, the run would be at most {gain} shorter"
    )
    if idle.rank == slow.rank:
        return
    yield (
        f"{_rank(profile, slow.rank)} is inside MPI {_share(slow.mpi, slow.seconds)} of its time, "
        f"{_rank(profile, idle.rank)} {_share(idle.mpi, idle.seconds)}"
    )


def _waiting(profile: Profile, waits: Waits) -> Iterator[str]:
    """How much is waiting for other ranks; the collective and the message that cost most."""
    total = profile.total
    kinds = {
        "the last rank of collectives": sum(collective.waited or 0.0 for collective in waits.collectives),
        "late senders": sum(message.waited for message in waits.messages if message.kind == "late sender"),
        "late receivers": sum(
            message.waited for message in waits.messages if message.kind == "late receiver"
        ),
    }
    waited_kinds = [
        f"{name} {_share(waited, total)}" for name, waited in kinds.items() if waited > _LEAST * total
    ]
    if not waits.collectives and not waits.messages:
        return
    rest = max(0.0, sum(rank.mpi for rank in profile.ranks) - sum(kinds.values()))
    waiting = (
        f"waiting for {', '.join(waited_kinds)}"
        if waited_kinds
        else "no rank waits noticeably for another one"
    )
    yield f"{waiting}; transfer and all else inside MPI {_share(rest, total)}"
    known = [
        collective
        for collective in waits.collectives
        if collective.waited and collective.waited > _LEAST * total
    ]
    if known:
        yield from _collective(profile, max(known, key=lambda wait: wait.waited or 0.0))
    for pair in waits.pairs:
        if pair.kind != "collective" and pair.seconds > _LEAST * total:
            yield (
                f"{pair.kind}: {_rank(profile, pair.waiting)} waits {_seconds(pair.seconds)} for "
                f"{_rank(profile, pair.awaited)} in {pair.call}"
            )
            break


def _collective(profile: Profile, wait: CollectiveWait) -> Iterator[str]:
    """The collective in which ranks wait longest, and for whom."""
    calls = plural(wait.calls, "call")
    calls += "" if wait.kept == wait.calls else f" ({wait.kept} were kept)"
    waiting = f"{_share(wait.waited or 0.0, wait.seconds)} of its {_seconds(wait.seconds)} is waiting"
    error = f", moments are known to {_seconds(wait.error)}" if wait.error else ""
    yield f"{wait.call} of {wait.ranks} ranks: {calls}; {waiting}{error}"
    late = wait.late[0]
    hosts = {profile.hosts[late.rank] for late in wait.late if late.times}
    together = len(wait.late) > 1 and len(hosts) == 1 and len(set(profile.hosts.values())) > 1
    often = f"{_rank(profile, late.rank)} in {_share(late.times, wait.calls)} of the calls"
    node = f"; all late ranks are on {hosts.pop()}" if together else ""
    yield f"the last one is {often}; others wait {_seconds(late.seconds)} for it{node}"


def _regions(profile: Profile) -> Iterator[str]:
    """The longest regions."""
    longest = sorted(profile.regions.items(), key=lambda entry: -entry[1].seconds)[:_MOST_REGIONS]
    parts = [
        f"{name or 'outside of all'} {_seconds(stats.seconds)}"
        + (f", efficiency {stats.mpi:.0%}" if stats.mpi is not None else "")
        + (f", imbalance {stats.imbalance:.0%}" if stats.imbalance is not None else "")
        for name, stats in longest
    ]
    if parts:
        yield f"regions: {'; '.join(parts)}"


def _rank(profile: Profile, rank: int) -> str:
    return f"rank {rank} ({profile.hosts.get(rank, 'unknown host')})"


def _seconds(seconds: float) -> str:
    return format_quantity(seconds, "s", 3)


def _share(part: float, whole: float) -> str:
    """A percentage, with a digit more where it is small."""
    share = part / whole if whole else 0.0
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"
