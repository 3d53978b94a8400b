"""What the analysis found: ceilings, curves, ridge points, MPI operations; drawn, said and kept by others."""

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
#: Peaks, and the bandwidths of the paths that bytes take to what computes: of a node's cores, of its GPUs.
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
    """A median with its interval and its source.

    value, low, high: in `unit`; the interval covers the median with probability `coverage`, and all three
    are None where fewer than six samples were taken. size: bytes. raw: the samples' raw files, relative to
    their run. disturbed: how many samples were measured while others used the CPUs.
    """

    name: str
    value: float
    unit: str
    low: float | None
    high: float | None
    coverage: float | None
    n: int
    size: int | None
    benchmark: str
    case: str
    params: Mapping[str, str]
    nodes: int
    hosts: tuple[str, ...]
    raw: tuple[str, ...]
    disturbed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling(Estimate):
    """An upper limit: compute in FLOP/s, with its `precision`; memory (with its `level`), network and I/O in
    B/s; of a GPU what it computes, and the bandwidths of its memory, its L2 and its way to the host.

    nominal: what the platform's data sheet promises, None if unknown. note: what to know before believing it.
    watts: what the launches took meanwhile (their median), None where nothing counts it.
    """

    kind: Kind
    level: str = ""
    precision: str = ""
    nominal: float | None = None
    note: str = ""
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
    """Where a bandwidth ceiling meets a compute ceiling: FLOP/byte, and the peak's FLOP/s there.

    low and high combine both intervals (P_low/b_high, P_high/b_low); they hold together with at least
    `coverage` (Bonferroni). None where one of the two has no interval.
    """

    compute: str
    bandwidth: str
    intensity: float
    performance: float
    low: float | None
    high: float | None
    coverage: float | None


class CurvePoint(NamedTuple):
    """The median at one size of a curve, in the curve's unit."""

    size: int | None
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A tool's bandwidth or latency as a function of the message size, from small to large."""

    benchmark: str
    case: str
    metric: str
    unit: str
    nodes: int
    params: Mapping[str, str]
    points: tuple[CurvePoint, ...]

    @property
    def times(self) -> list[tuple[float, float]]:
        """(bytes, seconds of one such message) of a bandwidth's medians, from small to large."""
        return [(p.size, p.size / p.summary.median) for p in self.points if p.size and p.summary.median]


class Rate(NamedTuple):
    """Operations of `size` bytes a second, by their median; low and high as far as there is an interval."""

    size: int
    rate: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class MpiCeiling:
    """A kind of operation as one test measured it with `ranks` processes on `nodes` nodes, over sizes above
    zero from small to large. ranks: 0 where the test does not say."""

    kind: str
    source: str
    nodes: int
    rates: tuple[Rate, ...]
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
    """Operations of a run, a rank: their kind or class, how many, and their mean bytes. ranks: those that
    take part in one, 0 where that is not known."""

    kind: str
    number: float
    size: float
    ranks: int = 0


@dataclass(frozen=True, slots=True)
class ApplicationMessages:
    """An application's MPI messages: medians over its runs, a rank.

    rate: messages a second and rank. size: mean bytes of a message. by_size: (least bytes of the class,
    messages of all ranks); an entry stands for sizes up to twice its own. calls: its own messages and its
    collectives, as the program made them; none where collectives were not counted. inside: the part of its
    ranks' time inside MPI, as it was measured; None where it was not.
    """

    name: str
    nodes: int
    ranks: int
    seconds: float
    rate: float
    size: float
    by_size: tuple[tuple[int, float], ...]
    calls: tuple[Operations, ...] = ()
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
    """All that was found: drawn by `roofline.plot` and `npc.roofline.page`, kept as ``roofline.json``.

    kernels: memory kernels that are no ceiling. dropped: how many records were not used, by reason.
    disturbed: how many of the others were measured while others used the CPUs, in words; empty if none was.
    dependent: what latency leaves of main memory's bandwidth where every CPU of a node has one load in flight
    (`npc.roofline.latency`). runs: their names. first, last: times of the oldest and the newest record used.
    job_nodes: nodes that the ceilings are for. applications, mpi, callers: what `npc.roofline.points` and
    `npc.roofline.mpi` found (`npc.roofline.analyse`).
    """

    platform: str
    hosts: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    first: str = ""
    last: str = ""
    ceilings: tuple[Ceiling, ...] = ()
    kernels: tuple[Ceiling, ...] = ()
    latencies: tuple[Estimate, ...] = ()
    dependent: Ceiling | None = None
    curves: tuple[Curve, ...] = ()
    theoretical: Mapping[Precision, float] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    disturbed: str = ""
    job_nodes: int = 1
    applications: tuple[Application, ...] = ()
    mpi: tuple[MpiCeiling, ...] = ()
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
