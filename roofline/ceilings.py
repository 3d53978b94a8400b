"""Ceilings from records: what this machine's compute, memory and network can do at best, as measured.

A ceiling is the median over repeated launches, taken at the message or working-set size where the median
is best. It is never the best single sample, because a maximum over noise grows with the number of samples
(Hoefler, Belli, SC'15). Only records with status ``ok`` and the tool's headline number count.

Compute: LIKWID's ``peakflops`` kernels, one ceiling a precision, of the best SIMD variant measured. Of HPC
Challenge, DGEMM (all processes of a node at once, their rates added; no network is in it) and HPL on one node
are two more, of double precision: what a tuned library, and a whole program on top of it, make of that peak.

Memory: one ceiling a level (L1, L2, L3, MEM), of bytes as the core sees them (the cache-aware roofline:
Ilic, Pratas, Sousa, IEEE Computer Architecture Letters 13(1), 2014), from LIKWID's ``load`` kernel. Loads
are the one pattern whose counted bytes are the moved bytes at every level: a store that misses first
loads its line (write allocate), which LIKWID and STREAM do not count, so copy and triad show less than
what went over the path (Treibig, Hager, arXiv 0905.0792). Some cores load and store at the same time; where
another kernel is faster than the loads beyond both intervals, the ceiling's note says so. STREAM's triad is
a second ceiling of MEM: what compiled code with write allocates reaches. The other kernels are kept beside.

Network: one ceiling a tool, test, number of nodes and interface, of one direction; the whole curve over the
message size is kept, since an application that sends 1 KiB messages does not see the ceiling at 4 MiB.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Literal

from npc.machine.platform import PRECISION_BITS, Platform, Precision
from npc.records.record import Record
from npc.records.record import replace as replaced
from npc.records.units import METRICS, format_quantity, format_size
from npc.statistics.medians import MIN_SAMPLES, Summary, summarise
from roofline.model import message_seconds, ridge_point
from roofline.sweeps import size_params

if TYPE_CHECKING:
    from roofline.mpi import Caller, MpiCeiling
    from roofline.points import Application

Kind = Literal["compute", "memory", "network"]

#: Tests whose bandwidth is that of one direction between two processes: benchmark → patterns of cases.
NETWORK_BANDWIDTH: Final[Mapping[str, tuple[str, ...]]] = {
    "qperf": ("tcp_bw", "udp_bw", "sctp_bw", "sdp_bw", "rds_bw", "*rc_bw", "u[cd]_bw", "*_rdma_*_bw"),
    "sockperf": ("*throughput*",),
    "osu": ("osu_bw", "osu_get_bw", "osu_put_bw"),
    "imb": ("PingPong", "Uniband"),
    "netpipe": ("pingpong",),
    "iperf3": ("*",),
    "nuttcp": ("*",),
    "perftest": ("ib_send_bw", "ib_write_bw", "ib_read_bw"),
}
#: Tests whose latency is half the round trip of one message on an idle link.
NETWORK_LATENCY: Final[Mapping[str, tuple[str, ...]]] = {
    "qperf": ("tcp_lat", "udp_lat", "sctp_lat", "sdp_lat", "rds_lat", "*rc_lat", "u[cd]_lat", "*_write_lat"),
    "sockperf": ("*ping*pong*",),
    "osu": ("osu_latency",),
    "netpipe": ("pingpong",),
    "imb": ("PingPong",),
    "perftest": ("ib_send_lat", "ib_write_lat"),
}
#: A clock may be raised for a while, a wire's data rate may not.
_ABOVE_NOMINAL: Final[Mapping[Kind, str]] = {
    "compute": "above its nominal limit: the cores were clocked higher than clock_hz, or that is wrong",
    "memory": "above its nominal limit: a cache was measured, or one of the two has a wrong unit",
    "network": "above its nominal limit, which cannot be: one of the two has a wrong unit",
}
_PEAK: Final = {"likwid": ("peakflops*",)}
#: Ceilings of a library on one node: name → case and statistic of HPC Challenge.
_LIBRARY: Final = {"DGEMM": ("StarDGEMM", "sum"), "HPL": ("HPL", "")}
_LEVEL: Final = re.compile(r"L[1-9]|MEM")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A median with its interval and its source.

    value, low, high: in `unit`; the interval covers the median with probability `coverage`, and all three
    are None where fewer than six samples were taken. size: bytes. raw: the samples' raw files, relative to
    their run.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling(Estimate):
    """An upper limit: compute in FLOP/s, with its `precision`; memory (with its `level`) and network in B/s.

    nominal: what the platform's data sheet promises, None if unknown. note: what to know before believing it.
    """

    kind: Kind
    level: str = ""
    precision: str = ""
    nominal: float | None = None
    note: str = ""

    @property
    def share(self) -> float | None:
        """The measured part of the nominal limit; above 1, the note says what that may mean."""
        return None if self.nominal is None else self.value / self.nominal


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


@dataclass(frozen=True, slots=True)
class Point:
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
    points: tuple[Point, ...]

    @property
    def times(self) -> list[tuple[float, float]]:
        """(bytes, seconds of one such message) of a bandwidth's medians, from small to large."""
        return [(p.size, p.size / p.summary.median) for p in self.points if p.size and p.summary.median]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """All that was found: drawn by `roofline.plot` and `roofline.page`, kept as ``roofline.json``.

    kernels: memory kernels that are no ceiling. dropped: how many records were not used, by reason.
    first, last: times of the oldest and the newest record used. job_nodes: nodes that the ceilings are for.
    applications, mpi, callers: what `roofline.points` and `roofline.mpi` found (`roofline.analyse`).
    """

    platform: str
    hosts: tuple[str, ...] = ()
    first: str = ""
    last: str = ""
    ceilings: tuple[Ceiling, ...] = ()
    kernels: tuple[Ceiling, ...] = ()
    latencies: tuple[Estimate, ...] = ()
    curves: tuple[Curve, ...] = ()
    theoretical: Mapping[Precision, float] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    job_nodes: int = 1
    applications: tuple[Application, ...] = ()
    mpi: tuple[MpiCeiling, ...] = ()
    callers: tuple[Caller, ...] = ()

    @property
    def title(self) -> str:
        """What the roofline is of."""
        job = f", a job of {self.job_nodes} nodes" if self.job_nodes > 1 else ""
        return f"Roofline of {self.platform}{job}"

    def of_kind(self, *kinds: Kind) -> list[Ceiling]:
        """Ceilings of some kinds, in order."""
        return [ceiling for ceiling in self.ceilings if ceiling.kind in kinds]

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
        """Ridge points of every bandwidth ceiling with every measured compute ceiling."""
        return [
            _ridge(compute, bandwidth)
            for compute in self.of_kind("compute")
            for bandwidth in self.of_kind("memory", "network")
        ]


#: Samples of one measurement by size; the key is what they share.
_Key = tuple[str, str, int, str]
_Series = dict[_Key, dict[int | None, list[Record]]]


def find_ceilings(
    records: Sequence[Record], platform: Platform | None = None, message_size: int | None = None
) -> Roofline:
    """The roofline of one platform's records; `platform` gives the nominal limits.

    message_size: network ceilings at that size in bytes, interpolated where a test has sizes on both sides of
    it only; without one, each at its best size.

    Records that are not ``ok`` are counted and never used. An empty `Roofline.ceilings` means that nothing
    could be used.
    """
    used: list[Record] = []
    unused: list[Record] = []
    for record in records:
        (used if record.ok and record.value else unused).append(record)
    dropped = Counter(
        record.status.split(":")[0] if not record.ok else "zero"
        for record in unused
        if not record.ok or METRICS[record.metric].better != "neither"
    )
    headline = [record for record in used if "statistic" not in record.params]
    memory, kernels = _memory(headline, platform)
    bandwidths = _series(_preferring_received(_matching(headline, "bandwidth", NETWORK_BANDWIDTH)))
    latencies = _series(_matching(headline, "latency", NETWORK_LATENCY))
    times = [record.time for record in used]
    return Roofline(
        platform=records[0].platform if records else "",
        hosts=tuple(sorted(set().union(*{record.hosts for record in used}))),
        first=min(times, default=""),
        last=max(times, default=""),
        ceilings=(
            *_compute(headline, platform),
            *_library(used, platform),
            *memory,
            *_network(bandwidths, platform, message_size),
        ),
        kernels=kernels,
        latencies=_latencies(latencies),
        curves=tuple(_curve("bandwidth", *item) for item in bandwidths.items())
        + tuple(_curve("latency", *item) for item in latencies.items()),
        theoretical=_theoretical(platform),
        dropped=dict(dropped),
    )


def measured_curves(
    records: Iterable[Record], metric: str, tests: Mapping[str, Sequence[str]]
) -> list[Curve]:
    """Curves of `metric` over the message size of some tests (benchmark → patterns of cases)."""
    matching = _matching(records, metric, tests)  # few of many, so it comes first
    headline = [r for r in matching if r.ok and r.value and "statistic" not in r.params]
    return [_curve(metric, *item) for item in _series(headline).items()]


def _compute(records: Iterable[Record], platform: Platform | None) -> Iterator[Ceiling]:
    """The best peak kernel of each precision, double first."""
    by_precision: defaultdict[str, list[Record]] = defaultdict(list)
    for record in _matching(records, "flops", _PEAK):
        single = record.params.get("precision", "single" if "_sp" in record.case else "double") == "single"
        by_precision["single" if single else "double"].append(record)
    for precision in PRECISION_BITS:
        if by_precision[precision]:
            samples = _best(_series(by_precision[precision]))
            nominal = platform.peak_flops(precision) if platform else None
            yield _ceiling("compute", f"peak {precision}", samples, nominal, precision=precision)


def _library(records: Sequence[Record], platform: Platform | None) -> Iterator[Ceiling]:
    """DGEMM and HPL of one node; in HPL over several the network has its part, in DGEMM it has none."""
    of_hpcc = [r for r in records if r.benchmark == "hpcc" and r.metric == "flops"]
    for name, wanted in _LIBRARY.items():
        found = [r for r in of_hpcc if (r.case, r.params.get("statistic", "")) == wanted]
        if name == "DGEMM":
            found = [_a_node(record) for record in found]
        else:
            found = [record for record in found if record.nodes == 1]
        if found:
            nominal = platform.peak_flops("double") if platform else None
            ceiling = _ceiling("compute", name, _best(_series(found)), nominal, precision="double")
            several = f"the mean of {ceiling.nodes} nodes that computed at once" if ceiling.nodes > 1 else ""
            yield _noted(ceiling, several)


def _a_node(record: Record) -> Record:
    """What one of its nodes did, on average."""
    return record if record.nodes == 1 else replaced(record, value=(record.value or 0.0) / record.nodes)


def _memory(
    records: Iterable[Record], platform: Platform | None
) -> tuple[tuple[Ceiling, ...], tuple[Ceiling, ...]]:
    """(one ceiling a level and STREAM's triad, the other kernels), inner levels first."""
    groups: defaultdict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        level = record.params.get("level", "MEM")
        if record.metric != "bandwidth" or not _LEVEL.fullmatch(level):
            continue
        words = record.case.lower().split("_")
        kernel = "_".join(words[: 2 if "mem" in words[1:2] else 1])  # copy_mem: stores past the caches
        if record.benchmark == "likwid" and "level" in record.params and kernel != "peakflops":
            groups[level, "", kernel].append(record)
        elif record.benchmark == "stream":
            stores = record.params.get("stores", "")
            groups[level, f"STREAM {stores + ' ' if stores else ''}", kernel].append(record)

    ceilings, kernels = [], []
    for level, source in sorted({(level, source) for level, source, _ in groups}):
        nominal = platform.memory_bandwidth if platform and level == "MEM" else None
        found = {
            kernel: _ceiling(
                "memory",
                f"{source or level + ' '}{kernel}",
                _best(_series(samples)),
                nominal,
                level=level,
            )
            for (of_level, of_source, kernel), samples in groups.items()
            if (of_level, of_source) == (level, source)
        }
        leading = found.pop("triad" if source else "load", None)
        if leading is None:
            leading = found.pop(max(found, key=lambda kernel: found[kernel].value))
            leading = _noted(leading, f"no {'triad' if source else 'load'} kernel was measured")
        elif not source:
            leading = _noted(leading, _outdone(leading, found.values()))
        ceilings.append(leading)
        kernels += sorted(found.values(), key=lambda ceiling: ceiling.name)
    return tuple(ceilings), tuple(kernels)


def _outdone(load: Ceiling, others: Iterable[Ceiling]) -> str:
    """The note for kernels that are faster than the loads beyond both intervals."""
    faster = [
        f"{other.case} reached {format_quantity(other.value, other.unit, 3)}"
        for other in others
        if other.low is not None and load.high is not None and other.low > load.high
    ]
    return "loads alone are not the limit here: " + ", ".join(sorted(faster)) if faster else ""


def _network(series: _Series, platform: Platform | None, message_size: int | None) -> Iterator[Ceiling]:
    """One ceiling a tool, test, number of nodes and interface, the fastest first."""
    groups: defaultdict[tuple[str, str, int, str], _Series] = defaultdict(dict)
    for key, sizes in series.items():
        benchmark, case, nodes, params = key
        groups[benchmark, case, nodes, json.loads(params).get("interface", "")][key] = sizes
    found = {}
    for group, variants in groups.items():
        nominal = _link_rate(platform, group[2], group[3])
        if message_size is None:
            found[group] = _ceiling("network", "", _best(variants), nominal)
        elif (ceiling := _at_size(variants, message_size, nominal)) is not None:
            found[group] = ceiling
    spans = Counter((benchmark, case) for benchmark, case, _, _ in found)
    named = []
    for (benchmark, case, nodes, interface), ceiling in found.items():
        name = case if case.startswith(benchmark) else f"{benchmark} {case}"
        if spans[benchmark, case] > 1:
            name += f", {nodes} node{'s' if nodes > 1 else ''}" + (f", {interface}" if interface else "")
        sent = ceiling.params.get("side") == "send"
        noted = _noted(ceiling, "counts what was sent, not what arrived" if sent else "")
        named.append(replace(noted, name=name))
    yield from sorted(named, key=lambda ceiling: (-ceiling.value, ceiling.name))


def _at_size(variants: _Series, wanted: int, nominal: float | None) -> Ceiling | None:
    """The network ceiling at one message size: as measured, else between neighbours; None outside them."""
    exact: _Series = {key: {wanted: sizes[wanted]} for key, sizes in variants.items() if wanted in sizes}
    if exact:
        return _ceiling("network", "", _best(exact), nominal)
    between = [_between(sizes, wanted, nominal) for sizes in variants.values()]
    return max((c for c in between if c is not None), key=lambda ceiling: ceiling.value, default=None)


def _between(
    sizes: Mapping[int | None, Sequence[Record]], wanted: int, nominal: float | None
) -> Ceiling | None:
    """The ceiling at a size between two that were measured, where a message's time lies between theirs.

    Its interval takes both lows and both highs, which hold together with at least its coverage (Bonferroni).
    """
    known = sorted(size for size in sizes if size)
    place = bisect_left(known, wanted)
    if not 0 < place < len(known):
        return None
    small, large = known[place - 1], known[place]
    below, above = (_ceiling("network", "", sizes[size], nominal) for size in (small, large))

    def at(first: float | None, second: float | None) -> float | None:
        if not first or not second:
            return None
        return wanted / message_seconds([(small, small / first), (large, large / second)], wanted)

    coverage = None
    if below.coverage is not None and above.coverage is not None:
        coverage = below.coverage + above.coverage - 1
    return _noted(
        replace(
            below,
            value=at(below.value, above.value) or 0.0,
            low=at(below.low, above.low),
            high=at(below.high, above.high),
            coverage=coverage,
            n=min(below.n, above.n),
            size=wanted,
            hosts=tuple(sorted({*below.hosts, *above.hosts})),
            raw=tuple(sorted({*below.raw, *above.raw})),
        ),
        f"not measured at this size: interpolated between {format_size(small)} and {format_size(large)}",
    )


def _link_rate(platform: Platform | None, nodes: int, interface: str) -> float | None:
    """The nominal data rate that a measurement ran over: of its interface, or of the only one there is.

    None within one node, where no link is used.
    """
    if platform is None or nodes < 2:
        return None
    if not interface and len(platform.interfaces) == 1:
        interface = next(iter(platform.interfaces))
    return platform.interfaces[interface].data_rate if interface in platform.interfaces else None


def _latencies(series: _Series) -> tuple[Estimate, ...]:
    """Each latency test at its smallest size; of several placements the quickest."""
    groups: defaultdict[tuple[str, str, int], list[list[Record]]] = defaultdict(list)
    for (benchmark, case, nodes, _), sizes in series.items():
        enough = _enough(sizes.values())
        smallest = min((size for size in sizes if len(sizes[size]) >= enough), key=lambda size: size or 0)
        groups[benchmark, case, nodes].append(sizes[smallest])
    spans = Counter((benchmark, case) for benchmark, case, _ in groups)
    found = []
    for (benchmark, case, nodes), candidates in groups.items():
        name = case if case.startswith(benchmark) else f"{benchmark} {case}"
        if spans[benchmark, case] > 1:
            name += f", {nodes} node{'s' if nodes > 1 else ''}"
        enough = _enough(candidates)
        samples = min((each for each in candidates if len(each) >= enough), key=_median)
        found.append(Estimate(name=name, **_measured(samples)))
    return tuple(sorted(found, key=lambda estimate: (estimate.nodes, estimate.value)))


def _curve(metric: str, key: _Key, sizes: Mapping[int | None, Sequence[Record]]) -> Curve:
    benchmark, case, nodes, params = key
    points = [Point(size, summarise(_values(samples))) for size, samples in sizes.items()]
    return Curve(
        benchmark=benchmark,
        case=case,
        metric=metric,
        unit=METRICS[metric].unit,
        nodes=nodes,
        params=json.loads(params),
        points=tuple(sorted(points, key=lambda point: point.size or 0)),
    )


def _theoretical(platform: Platform | None) -> dict[Precision, float]:
    peaks = {precision: platform.peak_flops(precision) for precision in PRECISION_BITS} if platform else {}
    return {precision: peak for precision, peak in peaks.items() if peak is not None}


def _matching(records: Iterable[Record], metric: str, tests: Mapping[str, Sequence[str]]) -> Iterator[Record]:
    """Records of `metric` whose benchmark and case are among `tests`, of one direction and at full speed."""
    for record in records:
        if record.metric != metric or record.benchmark not in tests:
            continue
        if not _bidirectional(record) and not _throttled(record):
            patterns = tests[record.benchmark]
            if any(fnmatchcase(record.case.lower(), pattern.lower()) for pattern in patterns):
                yield record


def _bidirectional(record: Record) -> bool:
    """Whether both directions were loaded at once (iperf3 ``--bidir``)."""
    return record.params.get("direction", "").startswith("bidir")


def _throttled(record: Record) -> bool:
    """Whether the sender was told a rate (iperf3 ``-b``, sockperf ``--mps``): a setting, no ceiling."""
    return record.params.get("bitrate", "0") != "0" or record.params.get("mps", "max") != "max"


def _preferring_received(records: Iterable[Record]) -> list[Record]:
    """Without what was sent, wherever the same test also says what arrived."""
    found = list(records)
    received = {(r.benchmark, r.case) for r in found if r.params.get("side") != "send"}
    return [r for r in found if r.params.get("side") != "send" or (r.benchmark, r.case) not in received]


def _series(records: Iterable[Record]) -> _Series:
    """Repeats of one measurement together; a parameter that only repeats the size separates nothing."""
    found = list(records)
    of_test: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in found:
        of_test[record.benchmark, record.case].append(record)
    repeats_size = {test: size_params(samples) for test, samples in of_test.items()}
    series: defaultdict[_Key, dict[int | None, list[Record]]] = defaultdict(dict)
    for record in found:
        test = (record.benchmark, record.case)
        params = {name: text for name, text in record.params.items() if name not in repeats_size[test]}
        key = (*test, record.nodes, json.dumps(params, sort_keys=True))
        series[key].setdefault(record.size, []).append(record)
    return dict(series)


def _best(series: _Series) -> list[Record]:
    """Samples with the highest median over all sizes and variants, among those repeated enough."""
    candidates = [samples for sizes in series.values() for samples in sizes.values()]
    enough = _enough(candidates)
    return max((samples for samples in candidates if len(samples) >= enough), key=_median)


def _enough(candidates: Iterable[Sequence[Record]]) -> int:
    """Six samples where there are any; else as many as there are: one lucky sample must not win."""
    return min(MIN_SAMPLES, max(map(len, candidates)))


def _values(samples: Sequence[Record]) -> list[float]:
    return [sample.value for sample in samples if sample.value is not None]


def _median(samples: Sequence[Record]) -> float:
    return summarise(_values(samples)).median


def _measured(samples: Sequence[Record]) -> dict[str, Any]:
    """The fields of an `Estimate` but its name."""
    first = samples[0]
    summary = summarise(_values(samples))
    return {
        "value": summary.median,
        "unit": first.unit,
        "low": summary.low,
        "high": summary.high,
        "coverage": summary.coverage,
        "n": summary.n,
        "size": first.size,
        "benchmark": first.benchmark,
        "case": first.case,
        "params": dict(first.params),
        "nodes": first.nodes,
        "hosts": tuple(sorted({host for sample in samples for host in sample.hosts})),
        "raw": tuple(sorted({sample.raw for sample in samples if sample.raw})),
    }


def _ceiling(
    kind: Kind,
    name: str,
    samples: Sequence[Record],
    nominal: float | None,
    *,
    level: str = "",
    precision: str = "",
) -> Ceiling:
    ceiling = Ceiling(
        kind=kind, name=name, level=level, precision=precision, nominal=nominal, **_measured(samples)
    )
    above = ceiling.share is not None and ceiling.share > 1
    return _noted(ceiling, _ABOVE_NOMINAL[kind] if above else "")


def _noted(ceiling: Ceiling, note: str) -> Ceiling:
    """With one more note."""
    return replace(ceiling, note="; ".join(filter(None, (ceiling.note, note))))


def _ridge(compute: Ceiling, bandwidth: Ceiling) -> Ridge:
    low = high = coverage = None
    if compute.low and compute.high and bandwidth.low and bandwidth.high:
        low, high = ridge_point(compute.low, bandwidth.high), ridge_point(compute.high, bandwidth.low)
        coverage = (compute.coverage or 0) + (bandwidth.coverage or 0) - 1
    return Ridge(
        compute=compute.name,
        bandwidth=bandwidth.name,
        intensity=ridge_point(compute.value, bandwidth.value),
        performance=compute.value,
        low=low,
        high=high,
        coverage=coverage,
    )
