"""Ceilings from records: what this machine's compute, memory and network can do at best, as measured.

A ceiling is the median over repeated launches, taken at the message or working-set size where the median
is best. It is never the best single sample, because a maximum over noise grows with the number of samples
(Hoefler, Belli, SC'15). Only records with status ``ok`` and the tool's headline number count.

Compute: LIKWID's ``peakflops`` kernels, one ceiling a precision, of the best SIMD variant measured.
``dgemm`` is the product of matrices by the best BLAS that was measured, whose note has the others
(`npc.roofline.kernels`). Of HPC Challenge, DGEMM (all processes of a node at once, their rates added; no
network is in it) and HPL on one node are two more, of double precision: what a tuned library, and a whole
program on top of it, reach of that peak.

Memory: one ceiling a level (L1, L2, L3, MEM), of bytes as the core sees them (the cache-aware roofline:
Ilic, Pratas, Sousa, IEEE Computer Architecture Letters 13(1), 2014), from LIKWID's ``load`` kernel. Loads
are the one pattern whose counted bytes are the moved bytes at every level: a store that misses first
loads its line (write allocate), which LIKWID and STREAM do not count, so copy and triad show less than
what went over the path (Treibig, Hager, arXiv 0905.0792). Some cores load and store at the same time; where
another kernel is faster than the loads beyond both intervals, the ceiling's note says so. STREAM's triad is
a second ceiling of MEM: what compiled code with write allocates reaches. The other kernels are kept beside.

Latency: of each memory level, from the memory ladder, and what that of main memory leaves of its bandwidth
where loads wait for each other (`npc.roofline.latency`).

I/O: one ceiling a tool, file system, direction and number of nodes, of sequential access at its best block
size: by direct I/O, or where a file system refuses it by what was written out to storage. What the page cache
answers is no ceiling. Of several nodes at once it is the rate of one node, since a point is that of one node.

GPUs: matrix products by the vendor's library, one ceiling a precision; loads of memory and L2, STREAM's
triad; the way from and to the host's pinned memory. Of several GPUs the best is the ceiling, and its note
says what the slowest has.

Network: one ceiling a tool, test, number of nodes and interface, of one direction; the whole curve over the
message size is kept, since an application that sends 1 KiB messages does not see the ceiling at 4 MiB.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from npc import catalogue
from npc.catalogue.row import Test
from npc.machine.platform import PRECISION_BITS, GpuLimits, Platform, Precision
from npc.records.record import Record
from npc.records.record import replace as replaced
from npc.records.series import GPU, Series, neutral_case, placement, share_taken, test_name
from npc.records.units import METRICS, format_quantity, format_size, plural
from npc.roofline.kernels import PRODUCTS, kernel_rates, measured_text
from npc.roofline.model import message_seconds
from npc.roofline.result import IO_DIRECTIONS, Ceiling, Curve, CurvePoint, Estimate, Kind, Roofline
from npc.statistics.medians import MIN_SAMPLES, summarise
from npc.validity.disturbance import in_words
from npc.validity.rules.memory import ENOUGH_HUGE

#: What it means that a ceiling is above its nominal limit: a clock may be raised for a while, a wire's data
#: rate may not.
_ABOVE_NOMINAL: Final[Mapping[Kind, str]] = {
    "compute": "above its nominal limit: the cores were clocked higher than clock_hz, or that is wrong",
    "memory": "above its nominal limit: a cache was measured, or one of the two has a wrong unit",
    "network": "above its nominal limit, which cannot be: one of the two has a wrong unit",
    "io": "above its nominal limit: a cache was measured, or one of the two has a wrong unit",
    "GPU compute": "above its nominal limit: the GPU was clocked higher than the data sheet says",
    "GPU bandwidth": "above its nominal limit: a cache was measured, or one of the two has a wrong unit",
}
#: Tests of a GPU by their case and level → name of the ceiling.
_GPU_PATHS: Final[Mapping[tuple[str, str], str]] = {
    ("load", "L2"): "GPU L2 load",
    ("load", "MEM"): "GPU MEM load",
    ("triad", "MEM"): "GPU MEM triad",
    ("to_gpu", ""): "host to GPU",
    ("to_host", ""): "GPU to host",
}
_LEVEL: Final = re.compile(r"L[1-9]|MEM")

E = TypeVar("E", bound=Estimate)
#: Benchmark, case, nodes and parameters as JSON: what the samples of one measurement share.
_Measurement = tuple[str, str, int, str]
#: The samples of measurements by size.
_Samples = dict[_Measurement, dict[int | None, list[Record]]]
#: What has a name of its own: benchmark, case, nodes, interface.
_Place = tuple[str, str, int, str]


def find_ceilings(
    records: Sequence[Record], platform: Platform | None = None, message_size: int | None = None
) -> Roofline:
    """The roofline of one platform's records; `platform` gives the nominal limits.

    message_size: network ceilings at that size in bytes, interpolated where a test has only sizes on both
    sides of it; None: each at its best size.

    Records that are not ``ok`` are counted and never used. An empty `Roofline.ceilings` means that nothing
    could be used.
    """
    used = [record for record in records if record.ok and record.value]
    dropped = Counter(
        "zero" if record.ok else record.status.split(":")[0]
        for record in records
        if not record.ok or (not record.value and not METRICS[record.metric].may_be_zero)
    )
    memory, kernels = _memory(used, platform)
    loads = list(_loads(used))
    bandwidths, latencies = _samples(_link_tests(used, "bandwidth")), _samples(_link_tests(used, "latency"))
    peaks = {precision: platform.peak_flops(precision) for precision in PRECISION_BITS} if platform else {}
    times = [record.time for record in used]
    watts = {record.raw: record.value for record in used if record.metric == "power" and record.value}
    return Roofline(
        platform=records[0].platform if records else "",
        hosts=tuple(sorted(set().union(*{record.hosts for record in used}))),
        runs=tuple(sorted({record.run for record in used} - {""})),
        first=min(times, default=""),
        last=max(times, default=""),
        ceilings=tuple(
            replace(ceiling, watts=_watts(ceiling, watts))
            for ceiling in (
                *_compute(used, platform),
                *memory,
                *_network(bandwidths, platform, message_size),
                *_io(used, platform),
                *_gpus(used, platform),
            )
        ),
        kernels=kernels,
        latencies=(*_latencies(latencies), *loads),
        dependent=_dependent(loads),
        curves=(*_curves("bandwidth", bandwidths), *_curves("latency", latencies)),
        theoretical={precision: peak for precision, peak in peaks.items() if peak is not None},
        dropped=dict(dropped),
        disturbed=in_words(records),
    )


def measured_curves(records: Iterable[Record], wanted: Callable[[Test], bool]) -> list[Curve]:
    """Curves over the message size of the tests whose row is wanted, bandwidths first."""
    chosen = [record for record in records if wanted(catalogue.row_of(record)) and _at_its_best(record)]
    return [
        curve
        for metric in ("bandwidth", "latency")
        for curve in _curves(metric, _samples(record for record in chosen if record.metric == metric))
    ]


def _at_its_best(record: Record) -> bool:
    """Whether it is a headline number of one direction (no iperf3 ``--bidir``), and its sender was given no
    rate (iperf3 ``-b``, sockperf ``--mps``): such a rate is a setting and no ceiling."""
    params = record.params
    return (
        record.ok
        and bool(record.value)
        and "statistic" not in params
        and not params.get("direction", "").startswith("bidir")
        and params.get("bitrate", "0") == "0"
        and params.get("mps", "max") == "max"
    )


def _link_tests(records: Iterable[Record], metric: str) -> list[Record]:
    """Tests between two processes. Where a test says what was sent and what arrived, only what arrived."""
    tests = [
        record
        for record in records
        if record.metric == metric and catalogue.row_of(record).between_two and _at_its_best(record)
    ]
    received = {(r.benchmark, r.case) for r in tests if r.params.get("side") != "send"}
    return [r for r in tests if r.params.get("side") != "send" or (r.benchmark, r.case) not in received]


def _compute(records: Sequence[Record], platform: Platform | None) -> Iterator[Ceiling]:
    """The best peak kernel of each precision, double first; the matrix product of the best library; DGEMM;
    HPL on one node. HPL on several nodes depends on the network, too; DGEMM does not."""
    names = "peak double", "peak single", "dgemm", "DGEMM", "HPL"
    groups: dict[str, list[Record]] = {name: [] for name in names}
    for record in records:
        row, statistic = catalogue.row_of(record), record.params.get("statistic", "")
        if row.layer != "compute":
            continue
        if row.quantity == "peak" and not statistic:
            by_name = "single" if "_sp" in record.case else "double"
            groups[f"peak {record.params.get('precision', by_name)}"].append(record)
        elif row.quantity == "dgemm":
            groups["dgemm"].append(record)
        elif row.quantity == "DGEMM" and statistic == "sum":
            groups["DGEMM"].append(replaced(record, value=(record.value or 0.0) / record.nodes))
        elif row.quantity == "HPL" and not statistic and record.nodes == 1:
            groups["HPL"].append(record)
    products = [rate for rate in kernel_rates(records) if rate.routine in PRODUCTS]
    for name, samples in groups.items():
        if samples:
            precision: Precision = "single" if name == "peak single" else "double"
            nominal = platform.peak_flops(precision) if platform else None
            ceiling = _ceiling("compute", name, _best(_samples(samples)), nominal, precision=precision)
            note = ""
            if name == "dgemm":
                note = measured_text(products).removeprefix("dgemm reaches ")
            elif name == "DGEMM" and ceiling.nodes > 1:
                note = f"the mean of {ceiling.nodes} nodes that computed at once"
            yield _noted(ceiling, note)


def _memory(
    records: Iterable[Record], platform: Platform | None
) -> tuple[tuple[Ceiling, ...], tuple[Ceiling, ...]]:
    """(one ceiling a level and STREAM's triad, the other kernels), inner levels first."""
    groups: defaultdict[tuple[str, str], defaultdict[str, list[Record]]]
    groups = defaultdict(lambda: defaultdict(list))
    for record in records:
        quantity, level = catalogue.row_of(record).quantity, record.params.get("level", "")
        stores = record.params.get("stores", "")
        if "statistic" in record.params:
            continue
        if quantity == "STREAM":
            groups["MEM", f"STREAM {stores}".strip()][neutral_case(record.benchmark, record.case)].append(
                record
            )
        elif quantity == "memory level" and _LEVEL.fullmatch(level):
            groups[level, ""][neutral_case(record.benchmark, record.case)].append(record)
    ceilings, kernels = [], []
    for (level, stream), samples in sorted(groups.items()):
        nominal = platform.memory_bandwidth if platform and level == "MEM" else None
        by_kernel = {
            kernel: _ceiling(
                "memory", f"{stream or level} {kernel}", _best(_samples(of)), nominal, level=level
            )
            for kernel, of in samples.items()
        }
        wanted = "triad" if stream else "load"
        if wanted in by_kernel:
            leading = by_kernel.pop(wanted)
            leading = _noted(leading, "" if stream else _outdone(leading, by_kernel.values()))
        else:
            leading = by_kernel.pop(max(by_kernel, key=lambda kernel: by_kernel[kernel].value))
            leading = _noted(leading, f"no {wanted} kernel was measured")
        ceilings.append(leading)
        kernels += sorted(by_kernel.values(), key=lambda ceiling: ceiling.name)
    return tuple(ceilings), tuple(kernels)


def _outdone(load: Ceiling, others: Iterable[Ceiling]) -> str:
    """The note about kernels whose whole interval lies above that of the loads."""
    faster = [
        f"{other.case} reached {format_quantity(other.value, other.unit, 3)}"
        for other in others
        if other.low is not None and load.high is not None and other.low > load.high
    ]
    return "loads alone are not the limit here: " + ", ".join(sorted(faster)) if faster else ""


def _network(
    measurements: _Samples, platform: Platform | None, message_size: int | None
) -> Iterator[Ceiling]:
    """One ceiling a tool, test, number of nodes and interface, the fastest first."""
    groups: defaultdict[_Place, _Samples] = defaultdict(dict)
    for key, sizes in measurements.items():
        benchmark, case, nodes, params = key
        groups[benchmark, case, nodes, json.loads(params).get("interface", "")][key] = sizes
    by_place = {}
    for place, variants in groups.items():
        nominal = _link_rate(platform, place[2], place[3])
        if message_size is None:
            by_place[place] = _ceiling("network", "", _best(variants), nominal)
        elif (ceiling := _at_size(variants, message_size, nominal)) is not None:
            by_place[place] = ceiling
    for ceiling in sorted(_named(by_place), key=lambda ceiling: (-ceiling.value, ceiling.name)):
        sent = ceiling.params.get("side") == "send"
        yield _noted(ceiling, "counts what was sent, not what arrived" if sent else "")


def _io(records: Iterable[Record], platform: Platform | None) -> Iterator[Ceiling]:
    """One ceiling a tool, direction, target and number of nodes, the fastest first."""
    groups: defaultdict[tuple[str, str, str, int], list[Record]] = defaultdict(list)
    for record in records:
        quantity = catalogue.row_of(record).quantity
        if quantity in IO_DIRECTIONS and record.metric == "bandwidth" and _reaches_storage(record):
            target = record.params.get("target", "")
            a_node = replaced(record, value=(record.value or 0.0) / record.nodes)
            groups[record.benchmark, IO_DIRECTIONS[quantity], target, record.nodes].append(a_node)
    spans = Counter(place[:3] for place in groups)
    ceilings = []
    for place, of in groups.items():
        benchmark, direction, target, nodes = place
        name = " ".join(filter(None, (benchmark, direction, target if target != "run" else "")))
        if spans[place[:3]] > 1:
            name += f", {plural(nodes, 'node')}"
        nominal = platform.io_bandwidth(direction) if platform and target == "run" else None
        ceiling = _ceiling("io", name, _best(_samples(of)), nominal)
        kinds = {record.params["filesystem"] for record in of if record.params.get("filesystem")}
        at_once = f"the share of one of {nodes} nodes that did so at once" if nodes > 1 else ""
        ceilings.append(_noted(ceiling, "; ".join(filter(None, [", ".join(sorted(kinds)), at_once]))))
    yield from sorted(ceilings, key=lambda ceiling: (-ceiling.value, ceiling.name))


def _gpus(records: Iterable[Record], platform: Platform | None) -> Iterator[Ceiling]:
    """One ceiling a precision, the fastest path first."""
    limits = platform.gpu if platform else GpuLimits()
    peaks: defaultdict[str, list[Record]] = defaultdict(list)
    paths: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        row, level = catalogue.row_of(record), record.params.get("level", "")
        if row.layer != "gpu":
            continue
        name = _GPU_PATHS.get((record.case, level)) if record.metric == "bandwidth" else None
        if record.metric == "flops":
            peaks[record.params.get("precision", "")].append(record)
        elif name and record.params.get("host_memory") != "pageable":
            paths[name].append(record)
    for precision, samples in peaks.items():
        nominal = limits.flops(precision)
        best = _best(_samples(samples))
        ceiling = _ceiling("GPU compute", f"GPU {precision}", best, nominal, precision=precision)
        yield _noted(ceiling, _slowest_gpu(samples, ceiling))
    ceilings = []
    for name, samples in paths.items():
        level = samples[0].params.get("level", "")
        nominal = {"MEM": limits.memory_bandwidth, "": limits.link_bandwidth}.get(level)
        ceiling = _ceiling("GPU bandwidth", name, _best(_samples(samples)), nominal, level=level)
        ceilings.append(_noted(ceiling, _slowest_gpu(samples, ceiling)))
    yield from sorted(ceilings, key=lambda ceiling: -ceiling.value)


def _slowest_gpu(records: Iterable[Record], best: Ceiling) -> str:
    """What the slowest GPU reaches at the best one's size; nothing where there is one GPU."""
    gpus: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.size == best.size:
            gpus[" of ".join((record.params.get(GPU, ""), *record.hosts))].append(record)
    if len(gpus) < 2:
        return ""
    name, least = min(
        ((name, _median(samples)) for name, samples in gpus.items()),
        key=lambda name_and_median: name_and_median[1],
    )
    return f"the best of {len(gpus)} GPUs; the slowest, {name}, has {format_quantity(least, best.unit, 3)}"


def _reaches_storage(record: Record) -> bool:
    """Whether its bytes went to or came from storage, and not the page cache: direct I/O, or writes that were
    written out before the clock stopped. IOR does not say, but as NPC starts it its files are larger than a
    node's memory, or are read by other ranks than those that wrote them."""
    params = record.params
    written_out = any(params.get(name, "0") != "0" for name in ("end_fsync", "fsync", "fdatasync"))
    return record.benchmark == "ior" or params.get("direct") == "1" or written_out


def _named(estimates: Mapping[_Place, E]) -> Iterator[E]:
    """Named by their tests, and by nodes and interface where a test has several."""
    spans = Counter((benchmark, case) for benchmark, case, *_ in estimates)
    for (benchmark, case, nodes, interface), estimate in estimates.items():
        name = test_name(benchmark, case)
        if spans[benchmark, case] > 1:
            name += f", {plural(nodes, 'node')}" + (f", {interface}" if interface else "")
        yield replace(estimate, name=name)


def _at_size(variants: _Samples, wanted: int, nominal: float | None) -> Ceiling | None:
    """The network ceiling at one message size: as measured, else interpolated; None outside of the sizes
    measured."""
    exact: _Samples = {key: {wanted: sizes[wanted]} for key, sizes in variants.items() if wanted in sizes}
    if exact:
        return _ceiling("network", "", _best(exact), nominal)
    between = [_between(sizes, wanted, nominal) for sizes in variants.values()]
    return max((c for c in between if c is not None), key=lambda ceiling: ceiling.value, default=None)


def _between(
    sizes: Mapping[int | None, Sequence[Record]], wanted: int, nominal: float | None
) -> Ceiling | None:
    """The ceiling at a size between two that were measured: a message's time is taken to lie on a line
    between theirs.

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


def _latencies(measurements: _Samples) -> tuple[Estimate, ...]:
    """Each latency test at its smallest size; of several placements the quickest."""
    groups: defaultdict[_Place, list[list[Record]]] = defaultdict(list)
    for (benchmark, case, nodes, _), sizes in measurements.items():
        smallest = min(_repeated_enough(sizes.values()), key=lambda samples: samples[0].size or 0)
        groups[benchmark, case, nodes, ""].append(smallest)
    by_place = {
        place: Estimate(name="", **_measured(min(_repeated_enough(candidates), key=_median)))
        for place, candidates in groups.items()
    }
    return tuple(sorted(_named(by_place), key=lambda estimate: (estimate.nodes, estimate.value)))


def _loads(records: Iterable[Record]) -> Iterator[Estimate]:
    """The latency of each memory level, inner levels first; of several kinds of pages the quickest."""
    levels: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        level = record.params.get("level", "")
        if catalogue.row_of(record).quantity == "memory latency" and _LEVEL.fullmatch(level):
            levels[level].append(record)
    for level, of_level in sorted(levels.items()):
        variants = [samples for sizes in _samples(of_level).values() for samples in sizes.values()]
        yield Estimate(name=f"{level} latency", **_measured(min(_repeated_enough(variants), key=_median)))


def _dependent(loads: Iterable[Estimate]) -> Ceiling | None:
    """B/s of cache lines from main memory where every CPU has one load in flight; None where it is not known.

    The latency is that of an idle memory, so it is an upper bound.
    """
    load = next((candidate for candidate in loads if candidate.params.get("level") == "MEM"), None)
    if load is None or not all(load.params.get(name, "").isdecimal() for name in ("cpus", "line")):
        return None
    cpus, line = int(load.params["cpus"]), int(load.params["line"])

    def rate(seconds: float | None) -> float | None:
        return cpus * line / seconds if seconds else None

    values = {field.name: getattr(load, field.name) for field in fields(Estimate)}
    values |= {
        "name": "MEM dependent loads", "unit": "B/s", "value": rate(load.value), "low": rate(load.high),
        "high": rate(load.low),
    }  # fmt: skip
    note = f"on {cpus} CPUs at once, each of which loads one line of {line} B after the other"
    if float(load.params.get("huge_pages", 1)) < ENOUGH_HUGE:
        note += "; walks of the page table are included, for there were no huge pages"
    return Ceiling(kind="memory", level="MEM", note=note, **values)


def _curves(metric: str, measurements: _Samples) -> Iterator[Curve]:
    for (benchmark, case, nodes, params), sizes in measurements.items():
        points = [CurvePoint(size, summarise(_values(samples))) for size, samples in sizes.items()]
        yield Curve(
            benchmark=benchmark,
            case=case,
            metric=metric,
            unit=METRICS[metric].unit,
            nodes=nodes,
            params=json.loads(params),
            points=tuple(sorted(points, key=lambda point: point.size or 0)),
        )


def _samples(records: Iterable[Record]) -> _Samples:
    """Repeats of one measurement in one place together."""
    samples: defaultdict[_Measurement, dict[int | None, list[Record]]] = defaultdict(dict)
    for record in records:
        params = Series.of(record).by_name | placement(record.params)
        key = (record.benchmark, record.case, record.nodes, json.dumps(params, sort_keys=True))
        samples[key].setdefault(record.size, []).append(record)
    return dict(samples)


def _best(measurements: _Samples) -> list[Record]:
    """Samples with the highest median over all sizes and variants, among those repeated enough."""
    return max(
        _repeated_enough(samples for sizes in measurements.values() for samples in sizes.values()),
        key=_median,
    )


def _repeated_enough(candidates: Iterable[list[Record]]) -> list[list[Record]]:
    """The candidates with six samples or more; if there are none, those with the most samples, so that a
    lucky single one does not win."""
    repeated = list(candidates)
    enough = min(MIN_SAMPLES, max(map(len, repeated)))
    return [samples for samples in repeated if len(samples) >= enough]


def _values(samples: Sequence[Record]) -> list[float]:
    return [sample.value for sample in samples if sample.value is not None]


def _median(samples: Sequence[Record]) -> float:
    return summarise(_values(samples)).median


def _measured(samples: Sequence[Record]) -> dict[str, Any]:
    """The fields of an `Estimate` but its name."""
    first, summary = samples[0], summarise(_values(samples))._asdict()
    return {
        "value": summary.pop("median"),
        **summary,
        "unit": first.unit,
        "size": first.size,
        "benchmark": first.benchmark,
        "case": first.case,
        "params": dict(first.params),
        "nodes": first.nodes,
        "hosts": tuple(sorted({host for sample in samples for host in sample.hosts})),
        "raw": tuple(sorted({sample.raw for sample in samples if sample.raw})),
        "disturbed": sum(share_taken(sample) > 0 for sample in samples),
    }


def _ceiling(kind: Kind, name: str, samples: Sequence[Record], nominal: float | None, **more: Any) -> Ceiling:
    ceiling = Ceiling(kind=kind, name=name, nominal=nominal, **_measured(samples), **more)
    above = ceiling.share is not None and ceiling.share > 1
    return _noted(ceiling, _ABOVE_NOMINAL[kind] if above else "")


def _watts(ceiling: Ceiling, by_raw: Mapping[str, float]) -> float | None:
    """Median power of a ceiling's launches in W, of all nodes together; for I/O of one node, since its rate
    is that of a node."""
    watts = [by_raw[raw] for raw in ceiling.raw if raw in by_raw]
    nodes = ceiling.nodes if ceiling.kind == "io" else 1
    return summarise(watts).median / nodes if watts else None


def _noted(ceiling: Ceiling, note: str) -> Ceiling:
    """The ceiling with one more note; an empty one changes nothing."""
    return replace(ceiling, note="; ".join(filter(None, (ceiling.note, note))))
