"""The MPI roofline: operations a second over operations per byte, for each kind of operation.

A message of s bytes that takes t seconds is 1/s operations per byte at 1/t operations a second, so a
bandwidth is a slope and a message rate is flat: the same picture as the roofline's, with MPI calls for FLOP
(Bartelheimer, Zhu, Neuwirth 2023, section 6.2). Its ceilings are measured curves over the message size, one
a kind: messages back to back (OSU bandwidth tests: bandwidth/size), one at a time (latency tests:
1/latency), and collectives.

An application's own mix decides which part of a curve counts: n_k messages of size s_k, one after another,
take at least Σ n_k·t(s_k), so it makes at most Σ n_k / Σ n_k·t(s_k) messages a second and rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from npc.record import Record
from npc.units import format_quantity
from roofline.ceilings import Curve, measured_curves
from roofline.model import message_seconds
from roofline.points import OBSERVED, by_launch, program_of

BACK_TO_BACK: Final = "messages back to back"
ONE_AT_A_TIME: Final = "messages one at a time"
#: Tests of MPI operations: benchmark → case → kind. A bandwidth is that of messages back to back.
KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "osu": {
        "osu_bw": BACK_TO_BACK,
        "osu_latency": ONE_AT_A_TIME,
        "osu_allreduce": "allreduce",
        "osu_bcast": "bcast",
        "osu_alltoall": "alltoall",
        "osu_allgather": "allgather",
        "osu_reduce": "reduce",
    },
    "imb": {
        "Uniband": BACK_TO_BACK,
        "PingPong": ONE_AT_A_TIME,
        "Allreduce": "allreduce",
        "Bcast": "bcast",
        "Alltoall": "alltoall",
        "Allgather": "allgather",
        "Reduce": "reduce",
    },
}


class Rate(NamedTuple):
    """Operations of `size` bytes a second, by their median; low and high as far as there is an interval."""

    size: int
    rate: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class MpiCeiling:
    """A kind of operation as one test measured it, over sizes above zero from small to large."""

    kind: str
    source: str
    nodes: int
    rates: tuple[Rate, ...]

    @property
    def name(self) -> str:
        """``allreduce (osu_allreduce, 2 nodes)``."""
        where = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"{self.kind} ({self.source}, {where})"

    def seconds(self, size: float) -> float:
        """Time of one operation of `size` bytes (`roofline.model.message_seconds`)."""
        return message_seconds([(rate.size, 1 / rate.rate) for rate in self.rates], size)


@dataclass(frozen=True, slots=True)
class Caller:
    """An application's MPI messages: medians over its runs, a rank.

    rate: messages a second and rank. size: mean bytes of a message. by_size: (least bytes of the class,
    messages of all ranks); an entry stands for sizes up to twice its own.
    """

    name: str
    nodes: int
    ranks: int
    seconds: float
    rate: float
    size: float
    by_size: tuple[tuple[int, float], ...]

    def bound(self, ceiling: MpiCeiling) -> float | None:
        """Messages a second and rank that `ceiling` allows its mix; None without sizes."""
        total = sum(count for _, count in self.by_size)
        least = sum(count * ceiling.seconds(1.5 * size) for size, count in self.by_size)
        return total / least if least else None


def mpi_ceilings(records: Iterable[Record]) -> list[MpiCeiling]:
    """The measured curve of every kind, test and number of nodes: of several placements the quickest."""
    usable = list(records)
    tests = {benchmark: tuple(cases) for benchmark, cases in KINDS.items()}
    found: dict[tuple[str, str, int], MpiCeiling] = {}
    for metric in ("bandwidth", "latency"):
        for curve in measured_curves(usable, metric, tests):
            kind = KINDS[curve.benchmark][curve.case]
            rates = tuple(_rates(curve))
            if not rates or (metric == "bandwidth") != (kind == BACK_TO_BACK):
                continue  # the bandwidth of a ping-pong is its latency again
            key = (kind, curve.case, curve.nodes)
            if key not in found or found[key].rates[0].rate < rates[0].rate:
                found[key] = MpiCeiling(kind, curve.case, curve.nodes, rates)
    return [found[key] for key in sorted(found)]


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


def find_callers(records: Iterable[Record]) -> list[Caller]:
    """Applications whose MPI messages were counted, by name and number of nodes."""
    groups: defaultdict[tuple[str, int, int], list[tuple[float, float, float, dict[int, float]]]]
    groups = defaultdict(list)
    observed = [
        record
        for record in records
        if record.case == OBSERVED and (record.metric == "time" or record.params.get("layer") == "mpi")
    ]
    for launch in by_launch(observed):
        mpi = [record for record in launch if record.params.get("layer") == "mpi"]
        seconds = [record.value for record in launch if record.metric == "time"]
        if not mpi or not seconds or not seconds[0]:
            continue
        messages = sum(_value(r) for r in mpi if r.metric == "messages" and r.size is None)
        if not messages:
            continue
        traffic = sum(_value(r) for r in mpi if r.metric == "traffic")
        sizes = {r.size: _value(r) for r in mpi if r.metric == "messages" and r.size is not None}
        key = (program_of(mpi[0]), mpi[0].nodes, int(mpi[0].params.get("ranks", "1")))
        groups[key].append((seconds[0], messages, traffic, sizes))
    return [
        Caller(
            name=name,
            nodes=nodes,
            ranks=ranks,
            seconds=median(seconds for seconds, *_ in runs),
            rate=median(messages / seconds / ranks for seconds, messages, _, _ in runs),
            size=median(traffic / messages for _, messages, traffic, _ in runs),
            by_size=tuple(sorted(runs[-1][3].items())),
        )
        for (name, nodes, ranks), runs in sorted(groups.items())
    ]


def _value(record: Record) -> float:
    return record.value or 0.0


def verdict(caller: Caller, ceilings: Sequence[MpiCeiling]) -> str:
    """What the application's messages are, and the least part of its time that they need."""
    where = f"{caller.ranks} ranks on {caller.nodes} node{'s' if caller.nodes > 1 else ''}"
    said = (
        f"{caller.name}, {where}: each rank sends {format_quantity(caller.rate, '1/s', 3)} messages, of "
        f"{format_quantity(caller.size, 'B', 3)} on average."
    )
    fitting = [c for c in ceilings if c.kind == ONE_AT_A_TIME and (c.nodes > 1) == (caller.nodes > 1)]
    allowed = [(rate, c) for c in fitting if (rate := caller.bound(c)) is not None]
    if not allowed:
        return said + " No latency test over as many nodes was measured, so their least time is not known."
    rate, ceiling = max(allowed, key=lambda pair: pair[0])
    part = caller.rate / rate
    return (
        f"{said} One after another, its own mix of sizes could go at {format_quantity(rate, '1/s', 3)} "
        f"({ceiling.source}): they need {100 * part:.3g} % of the run time if nothing overlaps."
    )
