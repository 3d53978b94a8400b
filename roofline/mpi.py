"""The MPI roofline: operations a second over operations per byte, for each kind of operation.

A message of s bytes that takes t seconds is 1/s operations per byte at 1/t operations a second, so a
bandwidth is a slope and a message rate is flat: the same picture as the roofline's, with MPI calls for FLOP
(Bartelheimer, Zhu, Neuwirth 2023, section 6.2). Its ceilings are measured curves over the message size, one
a kind: messages back to back (OSU bandwidth tests: bandwidth/size), one at a time (latency tests:
1/latency), and collectives.

An application's own mix decides which part of which curve counts: n_k operations of kind k and size s_k, one
after another, take at least Σ n_k·t_k(s_k), so it makes at most Σ n_k / Σ n_k·t_k(s_k) operations a second
and rank. What a collective takes depends on the number of its processes (ibid.), so each call is compared
with the ceilings of the numbers nearest to that of its communicator. Where only Open MPI counted, which
tells the class of a collective but not its name, the sum has a range, from the quickest of the class to the
slowest.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from npc import catalogue
from npc.catalogue.row import Timing
from npc.records.record import Record
from npc.records.series import OBSERVED
from npc.records.units import format_quantity
from npc.roofline.applications import by_launch, inside_mpi, program_of
from npc.roofline.ceilings import measured_curves
from npc.roofline.result import ApplicationMessages, Curve, MpiCeiling, Operations, Rate, ranks_text

BACK_TO_BACK: Final = "messages back to back"
ONE_AT_A_TIME: Final = "messages one at a time"
#: How a test of messages is timed → their kind; that of a collective is its operation.
_MESSAGES: Final[Mapping[Timing, str]] = {
    "interval between messages": BACK_TO_BACK,
    "half round trip": ONE_AT_A_TIME,
}


def mpi_ceilings(records: Iterable[Record]) -> list[MpiCeiling]:
    """The measured curve of every kind, test and number of nodes and ranks: of several placements the
    quickest."""
    quickest: dict[tuple[str, str, int, int], MpiCeiling] = {}
    for curve in measured_curves(records, lambda row: bool(row.operation)):
        row = catalogue.find(curve.benchmark, curve.case, curve.metric)
        kind = _MESSAGES.get(row.timing, row.operation)
        rates, ranks = tuple(_rates(curve)), int(curve.params.get("ranks", 0))
        key = (kind, curve.case, curve.nodes, ranks)
        if rates and (key not in quickest or quickest[key].rates[0].rate < rates[0].rate):
            quickest[key] = MpiCeiling(kind, curve.case, curve.nodes, rates, ranks)
    return [quickest[key] for key in sorted(quickest)]


def _rates(curve: Curve) -> Iterable[Rate]:
    for point in curve.points:
        if not point.size:
            continue
        value, low, high = point.summary.median, point.summary.low, point.summary.high
        if curve.metric == "bandwidth":
            size = point.size
            yield Rate(size, value / size, low and low / size, high and high / size)
        else:
            yield Rate(point.size, 1 / value, high and 1 / high, low and 1 / low)


def find_callers(records: Iterable[Record]) -> list[ApplicationMessages]:
    """Applications whose MPI messages were counted, by name and number of nodes."""
    groups: defaultdict[tuple[str, int, int], list[_MpiRun]] = defaultdict(list)
    observed = [
        record
        for record in records
        if record.case == OBSERVED
        and (record.metric == "time" or record.params.get("layer", "").startswith("mpi"))
    ]
    for launch in by_launch(observed):
        mpi = [record for record in launch if record.params.get("layer") == "mpi"]
        seconds = [r.value for r in launch if r.metric == "time" and "part" not in r.params]
        if not mpi or not seconds or not seconds[0]:
            continue
        messages = sum(_value(r) for r in mpi if r.metric == "messages" and r.size is None)
        calls = _calls(launch, int(mpi[0].params.get("ranks", "1")))
        if not messages and not calls:
            continue
        traffic = sum(_value(r) for r in mpi if r.metric == "traffic")
        sizes = {r.size: _value(r) for r in mpi if r.metric == "messages" and r.size is not None}
        key = (program_of(mpi[0]), mpi[0].nodes, int(mpi[0].params.get("ranks", "1")))
        groups[key].append(_MpiRun(seconds[0], messages, traffic, sizes, calls, inside_mpi(launch)))
    return [
        ApplicationMessages(
            name=name,
            nodes=nodes,
            ranks=ranks,
            seconds=median(run.seconds for run in runs),
            rate=median(run.messages / run.seconds / ranks for run in runs),
            size=median(run.traffic / run.messages if run.messages else 0.0 for run in runs),
            by_size=tuple(sorted(runs[-1].by_size.items())),
            calls=runs[-1].calls,
            inside=median(known) if (known := [r.inside for r in runs if r.inside is not None]) else None,
        )
        for (name, nodes, ranks), runs in sorted(groups.items())
    ]


class _MpiRun(NamedTuple):
    """One observed run of a program."""

    #: Its time in s.
    seconds: float
    #: Number of messages of all ranks.
    messages: float
    #: Bytes of these messages.
    traffic: float
    #: By the least size of a class in bytes, the number of messages of all ranks.
    by_size: dict[int, float]
    #: What the program itself called, a rank; empty if collectives were not counted.
    calls: tuple[Operations, ...]
    #: Share of its time inside MPI, of 1; None where it was not counted.
    inside: float | None


def _calls(launch: Iterable[Record], ranks: int) -> tuple[Operations, ...]:
    """What the program itself called: messages, and collectives by their class or, where that was counted, by
    their name (`Test.operation`). Empty if collectives were not counted."""
    totals: defaultdict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for record in launch:
        kind = record.params.get("kind", "")
        if record.params.get("layer") == "mpi collectives":
            totals[kind, int(record.params.get("communicator", 0))][record.metric] = _value(record)
        elif kind == "user":
            totals[ONE_AT_A_TIME, 0][record.metric] = _value(record)
    if not totals.keys() - {(ONE_AT_A_TIME, 0)}:
        return ()
    return tuple(
        Operations(kind, values["messages"] / ranks, _size(kind, members, values), members)
        for (kind, members), values in sorted(totals.items())
        if values.get("messages")
    )


def _size(kind: str, members: int, values: Mapping[str, float]) -> float:
    """Mean bytes of a call as its test counts them. A rank's all-to-all has the bytes for all processes; the
    test counts those for one (`npc.roofline.models.collectives.OPERATIONS`)."""
    size = values["traffic"] / values["messages"]
    return size / members if kind == "alltoall" and members else size


def _value(record: Record) -> float:
    return record.value or 0.0


def verdict(caller: ApplicationMessages, ceilings: Sequence[MpiCeiling]) -> str:
    """What the application's messages are, and the least part of its time that they need."""
    sent = (
        f"each rank sends {format_quantity(caller.rate, '1/s', 3)} messages, of "
        f"{format_quantity(caller.size, 'B', 3)} on average"
    )
    sent = sent if caller.rate else "its ranks send no messages of their own"
    text = f"{caller.name}, {ranks_text(caller.ranks, caller.nodes)}: {sent}."
    if caller.inside is not None:
        text += f" It is inside MPI for {100 * caller.inside:.3g} % of its time, waiting included."
    fitting = _nearest(caller, ceilings)
    single = [c for c in fitting if c.kind == ONE_AT_A_TIME]
    if caller.calls and single:
        return f"{text} {_mix(caller, ceilings)}"
    allowed = [(rate, c) for c in single if (rate := caller.bound(c)) is not None]
    if not allowed:
        return text + " No latency test over as many nodes was measured, so their least time is not known."
    rate, ceiling = max(allowed, key=lambda pair: pair[0])
    part = caller.rate / rate
    return (
        f"{text} One after another, its own mix of sizes could go at {format_quantity(rate, '1/s', 3)} "
        f"({_source(ceiling)}): they need {100 * part:.3g} % of the run time if nothing overlaps."
    )


def _nearest(
    caller: ApplicationMessages, ceilings: Iterable[MpiCeiling], taking_part: int = 0
) -> list[MpiCeiling]:
    """Of every kind the ceilings with the numbers of ranks and nodes that are nearest, by their ratios, to
    the application's; for ranks to those `taking_part` in a call, if that is known.

    Only ceilings within a node if the application ran on one node, and only those between nodes if not.
    """

    def distance(ceiling: MpiCeiling) -> tuple[bool, float]:
        ranks = math.log(ceiling.ranks / (taking_part or caller.ranks)) if ceiling.ranks else 0.0
        return not ceiling.ranks, abs(ranks) + abs(math.log(ceiling.nodes / caller.nodes))

    fitting = [candidate for candidate in ceilings if (candidate.nodes > 1) == (caller.nodes > 1)]
    least = {
        kind: min(distance(candidate) for candidate in fitting if candidate.kind == kind)
        for kind in {candidate.kind for candidate in fitting}
    }
    return [candidate for candidate in fitting if distance(candidate) == least[candidate.kind]]


def _source(ceiling: MpiCeiling) -> str:
    return f"{ceiling.source}, {ceiling.where}"


def _mix(caller: ApplicationMessages, ceilings: Sequence[MpiCeiling]) -> str:
    """The calls that the program made, and their least time: a range where only a class is known."""
    costs = [_cost(call, _nearest(caller, ceilings, call.ranks)) for call in caller.calls]
    least = sum(cost.least for cost in costs)
    most = None if any(cost.most is None for cost in costs) else sum(cost.most or 0.0 for cost in costs)
    named = [_named(call) for call in caller.calls]
    used = dict.fromkeys(source for cost in costs for source in cost.sources)
    sources = "; ".join(map(_source, used))
    made = sum(call.number for call in caller.calls)
    words = (
        f"The program's own calls, a rank: {', '.join(named)}; {format_quantity(caller.call_rate, '1/s', 3)} "
        f"in all. One after another this mix could go at "
    )
    collective = [(call.ranks or caller.ranks, cost) for call, cost in zip(caller.calls, costs, strict=True)]
    far = {
        ranks
        for ranks, cost in collective
        if any(measured.kind != ONE_AT_A_TIME and measured.ranks != ranks for measured in cost.sources)
    }
    wanted = " and ".join(map(str, sorted(far)))
    note = f" Measured with the number of ranks nearest to its {wanted}." if far else ""
    rate, part = format_quantity(made / least, "1/s", 3), 100 * least / caller.seconds
    if most is None:
        return (
            f"{words}{rate} at most ({sources}; not every collective was measured): "
            f"it needs at least {part:.3g} % of the run time if nothing overlaps.{note}"
        )
    if most == least:
        return f"{words}{rate} ({sources}): it needs {part:.3g} % of the run time if nothing overlaps.{note}"
    slowest, longest = format_quantity(made / most, "1/s", 3), 100 * most / caller.seconds
    return (
        f"{words}{slowest} to {rate} ({sources}), depending on which collective of its class each was: "
        f"it needs {part:.3g} to {longest:.3g} % of the run time if nothing overlaps.{note}"
    )


class _Cost(NamedTuple):
    """What all calls of one kind cost a rank, if they go one after another."""

    #: Seconds if each was the quickest that it may have been; what was not measured counts as a message.
    least: float
    #: Seconds if each was the slowest that it may have been; None where one of these was not measured.
    most: float | None
    #: The tests that `least` and, if it is known, `most` are from.
    sources: tuple[MpiCeiling, ...]


def _cost(call: Operations, ceilings: Sequence[MpiCeiling]) -> _Cost:
    """What the calls cost, each kind by its quickest test. A kind that was not measured costs a message at
    least."""
    kinds = catalogue.CLASSES.get(call.kind, (call.kind,))
    tests = [[c for c in ceilings if c.kind == kind] for kind in kinds]
    whole = all(tests)
    if not whole:
        tests.append([c for c in ceilings if c.kind == ONE_AT_A_TIME])

    def seconds(ceiling: MpiCeiling) -> float:
        return ceiling.seconds(call.size)

    nearest = sorted((min(curves, key=seconds) for curves in tests if curves), key=seconds)
    least, most = call.number * seconds(nearest[0]), call.number * seconds(nearest[-1])
    return _Cost(least, most, (nearest[0], nearest[-1])) if whole else _Cost(least, None, (nearest[0],))


def least_seconds(caller: ApplicationMessages, ceilings: Sequence[MpiCeiling]) -> tuple[float, float] | None:
    """Seconds of a rank's own calls one after another by the tests of their kind and size: the least, and the
    most where only the class of a collective is known; None where a kind was not measured."""
    if not any(candidate.kind == ONE_AT_A_TIME for candidate in _nearest(caller, ceilings)):
        return None
    costs = [_cost(call, _nearest(caller, ceilings, call.ranks)) for call in caller.calls]
    most = [cost.most for cost in costs if cost.most is not None]
    return (sum(cost.least for cost in costs), sum(most)) if costs and len(most) == len(costs) else None


def _named(call: Operations) -> str:
    kind = f"collectives {call.kind}" if call.kind in catalogue.CLASSES else call.kind
    kind = "messages" if call.kind == ONE_AT_A_TIME else kind
    among = f" of {call.ranks} ranks" if call.ranks else ""
    return f"{call.number:.4g} {kind}{among} of {format_quantity(call.size, 'B', 3)}"
