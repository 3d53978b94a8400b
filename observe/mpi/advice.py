"""What the profiles of a program's ranks show: who is slow, who waits for whom, and what MPI does meanwhile.

The gain of a change has an upper bound: without any waiting, each rank still needs the time in which it did
not wait. So the run takes at least as long as the rank with most of that time (Wang, 2023, Eq. 3.7: runtime
is at least the longest computation).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from npc.observe.mpi.launches import ProfiledLaunch, profiled_launches
from npc.observe.mpi.records import Profile, Rank
from npc.observe.mpi.wait_records import Waits
from npc.records.units import format_quantity
from npc.report.advice.rule import Hint, Judgement, add_words, hint, rule
from npc.report.observed import newest
from npc.report.runs import Run
from npc.roofline.mpi import ONE_AT_A_TIME, find_callers, least_seconds, mpi_ceilings
from npc.roofline.result import ApplicationMessages

add_words(Path(__file__).with_name("rules.toml"))
#: What costs a smaller share of the run is not worth a change.
_WORTH: Final = 0.05
#: A node is slow where its median rank computes so many times as long as that of the other nodes.
_SLOWER: Final = 1.05
#: Messages below this size (B) take about the latency of an empty one.
_SMALL: Final = 1024
#: Where most of a program's messages are unexpected, its receives come late.
_MOSTLY: Final = 0.5
#: Calls that send messages, receive them, or wait for either.
_POINT_TO_POINT: Final = re.compile(r"^mpi_\w*(send|recv|wait|test|start|probe)")
_NONE: Final = "no program whose MPI was looked into (npc observe)"


@rule("load_imbalance")
def load_imbalance(run: Run) -> Judgement:
    """Ranks that compute longer than others, wherever they run."""
    launches = newest(profiled_launches(run))
    if not launches:
        return _NONE
    hints = []
    for launch in launches:
        efficiency = launch.profile.efficiency
        if efficiency is None or not efficiency.load_balance:
            continue
        if efficiency.gain < _WORTH * efficiency.seconds:
            continue
        slow = next(rank for rank in launch.profile.ranks if rank.rank == efficiency.slowest)
        evidence = (
            f"{launch.name}: rank {slow.rank} on {slow.host} computes for {_seconds(slow.computing)}, "
            "the mean "
            f"of the ranks is {_seconds(efficiency.computing)} (load balance {efficiency.load_balance:.2g})"
        )
        where, host = _region(launch.profile), _slow_host(launch.profile)
        evidence += f"; most of it in the region {where}" if where else ""
        evidence += f"; every rank on {host[0]} is slower than all others" if host else ""
        gain = _faster(efficiency.seconds, efficiency.gain)
        hints.append(hint("load_imbalance", evidence, gain, (launch.raw,), application=launch.program))
    return hints


@rule("slow_host")
def slow_host(run: Run) -> Judgement:
    """A node all of whose ranks compute longer than those of the others, in each run that it took part in."""
    several = [launch for launch in profiled_launches(run) if len(set(launch.profile.hosts.values())) > 1]
    if not several:
        return "no program on several nodes whose MPI was looked into (npc observe)"
    by_host: defaultdict[tuple[str, str], list[tuple[ProfiledLaunch, float]]] = defaultdict(list)
    for launch in several:
        slow = _slow_host(launch.profile)
        if slow:
            by_host[launch.program, slow[0]].append((launch, slow[1]))
    hints = []
    for (program, host), runs in by_host.items():
        there = [
            launch
            for launch in several
            if launch.program == program and host in launch.profile.hosts.values()
        ]
        if len(runs) < len(there) or not _host_and_not_rank(host, [launch for launch, _ in runs]):
            continue
        launch, slower = runs[0]
        ranks = sorted(rank for rank, where in launch.profile.hosts.items() if where == host)
        evidence = (
            f"{launch.name}: the ranks on {host} ({_listed(ranks)}) compute {slower:.3g} times as long as "
            "those of the other nodes"
        )
        evidence += f", in all {len(runs)} runs that it took part in" if len(runs) > 1 else ""
        gain = _without(launch.profile, host)
        raw = tuple(launch.raw for launch, _ in runs)
        hints.append(hint("slow_host", evidence, gain, raw, application=program, host=host))
    return hints


@rule("late_senders")
def late_senders(run: Run) -> Judgement:
    """Receives that wait for messages that were not sent yet."""
    launches = newest(profiled_launches(run))
    if not launches:
        return _NONE
    compared = [launch for launch in launches if launch.profile.waits and launch.profile.waits.messages]
    if not compared:
        return "no messages between ranks whose moments were kept (npc observe)"
    hints = []
    for launch in compared:
        waits = launch.profile.waits
        assert waits is not None
        late = [wait for wait in waits.messages if wait.kind == "late sender"]
        waited = sum(wait.waited for wait in late)
        if waited < _WORTH * launch.profile.total:
            continue
        gain = _at_most(launch.profile, {rank.rank: _waited(waits, rank) for rank in launch.profile.ranks})
        if gain is None or gain < 1 + _WORTH:
            continue  # one rank waits for nobody: the others wait because it has more to do
        worst = max(late, key=lambda wait: wait.waited)
        evidence = (
            f"{launch.name}: ranks wait {_share(waited, launch.profile)} of their time, "
            f"most in {worst.call}, "
            "for messages that were not sent yet"
        )
        pair = next((pair for pair in waits.pairs if pair.kind == "late sender"), None)
        if pair:
            evidence += f", rank {pair.waiting} for rank {pair.awaited} {_seconds(pair.seconds)}"
        hints.append(hint("late_senders", evidence, gain, (launch.raw,), application=launch.program))
    return hints


@rule("unexpected_messages")
def unexpected_messages(run: Run) -> Judgement:
    """Messages that came before their receive was posted, and were copied for that."""
    launches = newest(profiled_launches(run))
    if not launches:
        return _NONE
    hints, judged = [], False
    for launch in launches:
        unexpected, profile = launch.profile.unexpected, launch.profile
        if unexpected is None:
            continue
        messages = sum(pair.messages for pair in profile.peers.rows) + profile.peers.left_out[2]
        few = unexpected.possible is not None and unexpected.possible < _MOSTLY * unexpected.known
        judged = judged or few or unexpected.counted is not None
        if not messages or not unexpected.counted or unexpected.counted < _MOSTLY * messages or few:
            continue
        evidence = (
            f"{launch.name}: {unexpected.counted} messages came before they were asked for, "
            f"beside {messages} "
            f"that the program sent ({unexpected.source})"
        )
        worst = max(unexpected.by_rank, key=lambda rank: unexpected.by_rank[rank], default=None)
        evidence += f", most of them to rank {worst}" if worst is not None else ""
        hints.append(hint("unexpected_messages", evidence, None, (launch.raw,), application=launch.program))
    return hints if judged else "no count of unexpected messages by the MPI library (npc observe --mpit)"


@rule("message_size")
def message_size(run: Run) -> Judgement:
    """Programs whose small messages need a part of their time by their number alone."""
    callers = _callers(run)
    if not callers:
        return "no program whose messages were counted (npc observe)"
    ceilings = [ceiling for ceiling in mpi_ceilings(run.records) if ceiling.kind == ONE_AT_A_TIME]
    if not ceilings:
        return "no latency test of MPI to hold a program's messages against"
    hints = []
    for caller, launch in callers:
        fitting = [ceiling for ceiling in ceilings if (ceiling.nodes > 1) == (caller.nodes > 1)]
        small = sum(count for size, count in caller.by_size if size < _SMALL) / caller.ranks
        if not fitting or not small:
            continue
        latency = min(ceiling.rates[0].rate ** -1 for ceiling in fitting)
        needed = small * latency
        if needed >= _WORTH * caller.seconds:
            all_of_them = sum(count for _, count in caller.by_size) / caller.ranks
            evidence = (
                f"{launch.name}: of {all_of_them:.4g} messages a rank {small:.4g} have less than 1 KiB; "
                "at the "
                f"{format_quantity(latency, 's', 3)} that an empty one takes they need "
                f"{_percent(needed / caller.seconds)} of the run"
            )
            gain = _at_most(launch.profile, {rank.rank: _messages(rank) for rank in launch.profile.ranks})
            hints.append(hint("message_size", evidence, gain, (launch.raw,), application=launch.program))
    return hints


@rule("unexplained_mpi")
def unexplained_mpi(run: Run) -> Judgement:
    """Time inside MPI beyond what the ranks waited for each other, and beyond what the calls need."""
    callers = [(caller, launch) for caller, launch in _callers(run) if caller.calls and launch.profile.waits]
    if not callers:
        return "no program whose calls and waits were counted (npc observe)"
    ceilings = mpi_ceilings(run.records)
    hints, judged = [], False
    for caller, launch in callers:
        needed = least_seconds(caller, ceilings)
        if needed is None:
            continue
        judged = True
        hints += _unexplained(launch, needed[1])
    return hints if judged else "no tests of all the MPI calls that a program makes (tag network)"


def _unexplained(launch: ProfiledLaunch, needed: float) -> list[Hint]:
    profile = launch.profile
    number, waits = len(profile.ranks), profile.waits
    inside = sum(rank.mpi for rank in profile.ranks) / number
    waited = waits.waited / number if waits else 0.0
    rest = inside - waited - needed
    if rest < _WORTH * profile.seconds:
        return []
    evidence = (
        f"{launch.name}: of {_seconds(inside)} inside MPI a rank, {_seconds(waited)} are waiting for other "
        f"ranks, as far as it could be seen; its calls need {_seconds(needed)} by tests of the same calls: "
        f"{_seconds(rest)} ({_percent(rest / profile.seconds)} of the run) are something else"
    )
    rests = {rank.rank: rank.mpi - needed - _waited(waits, rank) for rank in profile.ranks}
    gain = _at_most(profile, rests)
    return [hint("unexplained_mpi", evidence, gain, (launch.raw,), application=launch.program)]


def _callers(run: Run) -> list[tuple[ApplicationMessages, ProfiledLaunch]]:
    """What each program sent, with the profile of the same launch."""
    launches = newest(profiled_launches(run))
    if not launches:
        return []
    callers = {
        (messages.name, messages.nodes, messages.ranks): messages for messages in find_callers(run.records)
    }
    hints = []
    for launch in launches:
        caller = callers.get((launch.program, launch.launch.nodes, len(launch.profile.ranks)))
        if caller is not None:
            hints.append((caller, launch))
    return hints


def _slow_host(profile: Profile) -> tuple[str, float] | None:
    """The node on which every rank computes longer than all ranks elsewhere, and the ratio of the medians;
    None where there is no such node."""
    loads: defaultdict[str, list[float]] = defaultdict(list)
    for rank in profile.ranks:
        loads[rank.host].append(rank.computing)
    if len(loads) < 2:
        return None
    slow = max(loads, key=lambda host: median(loads[host]))
    others = [load for host, others_loads in loads.items() if host != slow for load in others_loads]
    typical = median(others)
    if min(loads[slow]) <= max(others) or median(loads[slow]) < _SLOWER * typical or not typical:
        return None
    return slow, median(loads[slow]) / typical


def _host_and_not_rank(host: str, runs: Sequence[ProfiledLaunch]) -> bool:
    """Whether the node is slow, and not a rank with more to do: several ranks were slow on it at once, or
    different ones in different runs."""
    placed = [frozenset(rank for rank, where in run.profile.hosts.items() if where == host) for run in runs]
    return len(set(placed)) > 1 or any(len(ranks) > 1 for ranks in placed)


def _without(profile: Profile, host: str) -> float | None:
    """How many times as fast the run is at most if the node's ranks computed only as long as the slowest rank
    elsewhere."""
    slowest = max(rank.computing for rank in profile.ranks)
    others = max(rank.computing for rank in profile.ranks if rank.host != host)
    return _faster(profile.seconds, slowest - others)


def _at_most(profile: Profile, saved: Mapping[int, float]) -> float | None:
    """How many times as fast the run is at most if each rank saved its seconds of `saved`: it then takes
    as long as the rank that is left with most."""
    still = max(rank.seconds - max(0.0, saved[rank.rank]) for rank in profile.ranks)
    return _faster(profile.seconds, profile.seconds - still)


def _waited(waits: Waits | None, rank: Rank) -> float:
    return waits.by_rank.get(rank.rank, (0.0, 0.0))[0] if waits else 0.0


def _messages(rank: Rank) -> float:
    """Seconds in point-to-point calls, including waiting."""
    return sum(made.seconds for name, made in rank.calls.items() if _POINT_TO_POINT.search(name.lower()))


def _faster(seconds: float, saved: float) -> float | None:
    return seconds / (seconds - saved) if 0 < saved < seconds else None


def _region(profile: Profile) -> str:
    """The region in which balancing would gain most, if that is more than half of the gain in the whole
    run."""
    efficiency, regions = profile.efficiency, profile.regions
    worst = max(regions, key=lambda name: regions[name].gain, default="")
    return worst if worst and efficiency and regions[worst].gain > efficiency.gain / 2 else ""


def _share(seconds: float, profile: Profile) -> str:
    return _percent(seconds / profile.total)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _seconds(seconds: float) -> str:
    return format_quantity(seconds, "s", 3)


def _listed(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:6]))}{' …' if len(ranks) > 6 else ''}"
