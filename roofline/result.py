"""What the analysis found: ceilings, curves, ridge points, MPI operations. Other modules draw, print and keep
it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from npc import catalogue
from npc.machine.platform import Precision
from npc.records.units import plural
from npc.roofline.applications import MIDDLE, Application, Direction
from npc.roofline.model import message_seconds
from npc.statistics.medians import Summary

Kind = Literal["compute", "memory", "network", "io", "GPU compute", "GPU bandwidth"]
#: By kind of peak, the kinds of bandwidths on the way to what computes: a node's cores, or its GPUs.
ROOFS: Final[Mapping[Kind, tuple[Kind, ...]]] = {
    "compute": ("memory", "network", "io"),
    "GPU compute": ("GPU bandwidth",),
}
#: Sequential access to one file, or to one a process, by its quantity in the catalogue.
IO_DIRECTIONS: Final[Mapping[str, Direction]] = {
    "file read": "read",
    "file read of many nodes": "read",
    "file write": "write",
    "file write of many nodes": "write",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A median with its interval and its source."""

    #: What was measured, as tables and pictures call it.
    name: str
    #: The median, in `unit`.
    value: float
    #: ``B/s``, ``FLOP/s`` or ``s``.
    unit: str
    #: Lower end of its interval, in `unit`; None where fewer than six samples were taken.
    low: float | None
    #: Upper end of its interval, likewise.
    high: float | None
    #: Probability with which the interval covers the true median; None where there is no interval.
    coverage: float | None
    #: Number of samples; 0 of a theoretical peak.
    n: int
    #: Size of the message, the working set or the like in bytes; None if there is none.
    size: int | None
    #: Name of the benchmark; empty of a theoretical peak.
    benchmark: str
    #: The tool's test, likewise.
    case: str
    #: Params of the first sample, by their names.
    params: Mapping[str, str]
    #: Number of nodes that the samples were measured on.
    nodes: int
    #: Names of the hosts of all samples.
    hosts: tuple[str, ...]
    #: Raw files of the samples, relative to their run.
    raw: tuple[str, ...]
    #: How many of the samples were measured while others used the CPUs.
    disturbed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling(Estimate):
    """An upper limit of a node or of a job, in FLOP/s or B/s."""

    #: What it limits; of a GPU the bandwidths are those of its memory, its L2 and its way to the host.
    kind: Kind
    #: Level of the memory or cache: ``L1``, ``MEM``; empty of others.
    level: str = ""
    #: Precision of the arithmetic: ``double``; empty of bandwidths.
    precision: str = ""
    #: What the platform's data sheet promises, in `unit`; None if unknown.
    nominal: float | None = None
    #: What to know before believing it; empty if there is nothing.
    note: str = ""
    #: Median power of its launches in W, of all nodes together, for I/O of a node; None where nothing
    #: measures it.
    watts: float | None = None

    @property
    def per_watt(self) -> float | None:
        """FLOP/s a watt (FLOP a joule), or bytes a joule."""
        return self.value / self.watts if self.watts else None

    @property
    def share(self) -> float | None:
        """The measured part of the nominal limit; above 1, the note says what that may mean."""
        return None if self.nominal is None else self.value / self.nominal


def direction_of(ceiling: Ceiling) -> Direction:
    """Whether an I/O ceiling is of reading or of writing."""
    return IO_DIRECTIONS[catalogue.find(ceiling.benchmark, ceiling.case, "bandwidth").quantity]


@dataclass(frozen=True, slots=True)
class Ridge:
    """Where a bandwidth ceiling meets a compute ceiling."""

    #: Name of the compute ceiling.
    compute: str
    #: Name of the bandwidth ceiling.
    bandwidth: str
    #: Where they meet, in FLOP/byte.
    intensity: float
    #: The compute ceiling, in FLOP/s.
    performance: float
    #: Lower end of the interval of `intensity`, P_low/b_high; None where one of the two ceilings has no
    #: interval.
    low: float | None
    #: Upper end of that interval, P_high/b_low; None likewise.
    high: float | None
    #: Least probability with which the interval holds, from those of both ceilings (Bonferroni); None
    #: likewise.
    coverage: float | None


class CurvePoint(NamedTuple):
    """One size of a curve."""

    #: Bytes of a message; None where the test has no size.
    size: int | None
    #: Median with its interval, in the curve's unit.
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A tool's bandwidth or latency over the message size."""

    #: Name of the benchmark.
    benchmark: str
    #: The tool's test.
    case: str
    #: ``bandwidth`` or ``latency``.
    metric: str
    #: ``B/s`` or ``s``.
    unit: str
    #: Number of nodes.
    nodes: int
    #: Params that identify the series, and its placement, by their names.
    params: Mapping[str, str]
    #: From small to large sizes.
    points: tuple[CurvePoint, ...]

    @property
    def times(self) -> list[tuple[float, float]]:
        """(bytes, seconds of one such message) of a bandwidth's medians, from small to large."""
        return [(p.size, p.size / p.summary.median) for p in self.points if p.size and p.summary.median]


class Rate(NamedTuple):
    """How often an operation of one size can be done."""

    #: Bytes of an operation.
    size: int
    #: Median of the operations a second.
    rate: float
    #: Lower end of its interval, in 1/s; None where there is none.
    low: float | None
    #: Upper end of its interval, likewise.
    high: float | None


@dataclass(frozen=True, slots=True)
class MpiCeiling:
    """One kind of MPI operation, as one test measured it."""

    #: Messages back to back or one at a time (`npc.roofline.mpi`), or the name of a collective.
    kind: str
    #: The tool's test: ``osu_allreduce``.
    source: str
    #: Number of nodes.
    nodes: int
    #: By size, from small to large; sizes of 0 are left out.
    rates: tuple[Rate, ...]
    #: Number of processes; 0 where the test does not say.
    ranks: int = 0

    @property
    def where(self) -> str:
        """``4 ranks on 2 nodes``."""
        return ranks_text(self.ranks, self.nodes)

    @property
    def name(self) -> str:
        """``allreduce (osu_allreduce, 4 ranks on 2 nodes)``."""
        return f"{self.kind} ({self.source}, {self.where})"

    def seconds(self, size: float) -> float:
        """Time of one operation of `size` bytes (`npc.roofline.model.message_seconds`)."""
        return message_seconds([(rate.size, 1 / rate.rate) for rate in self.rates], size)


def ranks_text(ranks: int, nodes: int) -> str:
    """``4 ranks on 2 nodes``; without the ranks where they are not known (0)."""
    where = plural(nodes, "node")
    return f"{plural(ranks, 'rank')} on {where}" if ranks else where


class Operations(NamedTuple):
    """Operations of one kind in a run, a rank."""

    #: Name of the operation, or of its class where only that was counted.
    kind: str
    #: How many a rank makes; it is a mean over the ranks.
    number: float
    #: Mean bytes of one, as its test counts them.
    size: float
    #: Number of processes that take part in one; 0 where that is not known.
    ranks: int = 0


@dataclass(frozen=True, slots=True)
class ApplicationMessages:
    """An application's MPI messages: medians over its runs."""

    #: What the program is called.
    name: str
    #: Number of nodes.
    nodes: int
    #: Number of MPI ranks.
    ranks: int
    #: Time of a run, in s.
    seconds: float
    #: Messages a second that a rank sends.
    rate: float
    #: Mean bytes of a message; 0 where there is none.
    size: float
    #: (least bytes of a class, messages of all ranks) of the last run; a class has sizes up to twice its
    #: least.
    by_size: tuple[tuple[int, float], ...]
    #: Messages and collectives as the program called them in the last run; empty where collectives were not
    #: counted.
    calls: tuple[Operations, ...] = ()
    #: Share of its ranks' time inside MPI, of 1; None where it was not counted.
    inside: float | None = None

    @property
    def call_rate(self) -> float:
        """MPI operations a second and rank, as far as collectives were counted."""
        return sum(call.number for call in self.calls) / self.seconds

    @property
    def call_size(self) -> float:
        """Mean bytes of an operation."""
        made = sum(call.number for call in self.calls)
        return sum(call.number * call.size for call in self.calls) / made if made else 0.0

    @property
    def point(self) -> tuple[float, float] | None:
        """Operations per byte, and operations a second and rank: of its calls where they are known, else of
        its messages. None for barriers alone, which have no bytes."""
        rate, size = (self.call_rate, self.call_size) if self.calls else (self.rate, self.size)
        return (1 / size, rate) if size else None

    def bound(self, ceiling: MpiCeiling) -> float | None:
        """Messages a second and rank that `ceiling` allows its mix; None without sizes."""
        total = sum(count for _, count in self.by_size)
        least = sum(count * ceiling.seconds(MIDDLE * size) for size, count in self.by_size)
        return total / least if least else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Everything that was found: `npc.roofline.figure` and `npc.roofline.page` draw it, ``roofline.json``
    keeps it."""

    #: Name of the platform; empty without a record.
    platform: str
    #: Names of all hosts of the records used.
    hosts: tuple[str, ...] = ()
    #: Names of their runs.
    runs: tuple[str, ...] = ()
    #: Time of the oldest record used, ISO 8601; empty if none was.
    first: str = ""
    #: Time of the newest record used, likewise.
    last: str = ""
    #: What was measured; empty if no record could be used.
    ceilings: tuple[Ceiling, ...] = ()
    #: Memory kernels that are no ceiling.
    kernels: tuple[Ceiling, ...] = ()
    #: Latencies of tests between two processes, and of each memory level, in s.
    latencies: tuple[Estimate, ...] = ()
    #: What latency leaves of main memory's bandwidth where every CPU of a node has one load in flight
    #: (`npc.roofline.latency`); None where it is not known.
    dependent: Ceiling | None = None
    #: Bandwidths and latencies over the message size.
    curves: tuple[Curve, ...] = ()
    #: By precision the theoretical peak in FLOP/s; empty if the platform's file has none.
    theoretical: Mapping[Precision, float] = field(default_factory=dict)
    #: How many records were not used, by the reason.
    dropped: Mapping[str, int] = field(default_factory=dict)
    #: How many of the records used were measured while others used the CPUs, in words; empty if none was.
    disturbed: str = ""
    #: Number of nodes that the ceilings are of together.
    job_nodes: int = 1
    #: What was run under these ceilings (`npc.roofline.applications`).
    applications: tuple[Application, ...] = ()
    #: Kinds of MPI operations that were measured (`npc.roofline.mpi`).
    mpi: tuple[MpiCeiling, ...] = ()
    #: Applications whose MPI messages were counted, likewise.
    callers: tuple[ApplicationMessages, ...] = ()

    @property
    def title(self) -> str:
        """What the roofline is of."""
        job = f", a job of {self.job_nodes} nodes" if self.job_nodes > 1 else ""
        return f"Roofline of {self.platform}{job}"

    def of_kind(self, *kinds: Kind) -> list[Ceiling]:
        """Ceilings of some kinds, in order."""
        return [ceiling for ceiling in self.ceilings if ceiling.kind in kinds]

    def theoretical_peak(self, precision: str) -> Ceiling | None:
        """The theoretical peak of a precision as a ceiling without a sample; None where it is not known."""
        value = next((peak for name, peak in self.theoretical.items() if name == precision), None)
        if value is None:
            return None
        return Ceiling(
            kind="compute", name=f"theoretical peak {precision}", precision=precision, value=value,
            unit="FLOP/s", size=None, low=None, high=None, coverage=None, n=0, benchmark="", case="",
            params={}, nodes=self.job_nodes, hosts=(), raw=(),
        )  # fmt: skip

    def curve_of(self, ceiling: Ceiling) -> Curve | None:
        """The curve over the message size that a network ceiling is a point of; None without two sizes."""
        key = ("bandwidth", ceiling.benchmark, ceiling.case, ceiling.nodes)
        for curve in self.curves:
            its_own = (curve.metric, curve.benchmark, curve.case, curve.nodes) == key
            if its_own and curve.params.items() <= ceiling.params.items() and len(curve.times) > 1:
                return curve
        return None

    @property
    def ridges(self) -> list[Ridge]:
        """Ridge points of every bandwidth ceiling with every measured compute ceiling under the same roof."""
        return [ridge for peak in ROOFS for ridge in self.ridges_under(peak)]

    def ridges_under(self, peak: Kind) -> list[Ridge]:
        """Those of the compute ceilings of one kind."""
        return [
            _ridge(compute, bandwidth)
            for compute in self.of_kind(peak)
            for bandwidth in self.of_kind(*ROOFS[peak])
        ]


def _ridge(compute: Ceiling, bandwidth: Ceiling) -> Ridge:
    low = high = coverage = None
    if compute.low and compute.high and bandwidth.low and bandwidth.high:
        low, high = compute.low / bandwidth.high, compute.high / bandwidth.low
        coverage = (compute.coverage or 0) + (bandwidth.coverage or 0) - 1
    return Ridge(
        compute=compute.name,
        bandwidth=bandwidth.name,
        intensity=compute.value / bandwidth.value,
        performance=compute.value,
        low=low,
        high=high,
        coverage=coverage,
    )
