"""Sweeps from records: which series of measurements a communication model can be fitted to.

A test's records become one sweep for each platform, run-time placement and set of parameters; what repeats,
the launches, become its columns. How a test is timed (`npc.catalogue`) decides what is made of it:

- a ping-pong's latency is half the round trip of one message; its bandwidth says the same and is not used;
- a windowed test's bandwidth tells the interval between messages, size/bandwidth, and nothing of latency;
- a collective's latency is what the formulas of its algorithms, made of messages, predict;
- the ``models`` benchmark times the patterns that the other models are made of.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from npc import catalogue
from npc.catalogue.row import Timing
from npc.records.record import Record
from npc.records.series import Series, placement, test_name
from npc.roofline.models.collectives import OPERATIONS
from npc.roofline.models.piecewise import Sweep

#: The metric that tells each timing; the bandwidth of a ping-pong would tell its latency a second time.
_METRICS: Final[Mapping[Timing, str]] = {
    "half round trip": "latency",
    "interval between messages": "bandwidth",
    "pattern": "time",
}
#: With fewer sizes a line cannot be told from its errors.
LEAST_SIZES: Final = 5


class SweepSource(NamedTuple):
    """Where a sweep comes from."""

    #: Name of the platform.
    platform: str
    #: Name of the benchmark.
    benchmark: str
    #: The tool's test; empty for what all patterns of one benchmark share.
    case: str
    #: Number of nodes.
    nodes: int
    #: Names of the hosts, as the records have them.
    hosts: tuple[str, ...]
    #: Params that identify the series, and its placement: sorted JSON, so that sources can be compared.
    params: str

    @property
    def name(self) -> str:
        """The benchmark and its case."""
        return test_name(self.benchmark, self.case)

    @property
    def by_name(self) -> dict[str, str]:
        """The values of `params`."""
        return dict(json.loads(self.params))


@dataclass(frozen=True, slots=True)
class SweepTimes:
    """The measured times of one sweep."""

    #: Where they come from.
    source: SweepSource
    #: How they were measured.
    kind: Timing
    #: By size in bytes (0 of a barrier) and launch, in s.
    times: Mapping[int, Mapping[str, float]]
    #: The raw files that they were read from, as records name them.
    raw: tuple[str, ...]

    @property
    def sizes(self) -> list[int]:
        """Sizes in bytes, ascending."""
        return sorted(self.times)

    def sweep(self, launches: Sequence[str] = (), sizes: Sequence[int] = ()) -> Sweep:
        """The sweep of all launches and sizes, or of those named."""
        named = launches or sorted({launch for by_launch in self.times.values() for launch in by_launch})
        sizes = sizes or self.sizes
        rows = [[self.times[size].get(launch, np.nan) for launch in named] for size in sizes]
        return Sweep(np.array(sizes, dtype=float), np.array(rows, dtype=float))


def find_series(records: Iterable[Record]) -> list[SweepTimes]:
    """Every series over the size that a model may be fitted to, in the order of their sources."""
    groups: defaultdict[tuple[SweepSource, Timing], list[tuple[Record, float]]] = defaultdict(list)
    for record in records:
        if kind := kind_of(record):
            groups[_source(record), kind].append((record, _time(record, kind)))
    return [_series(source, kind, groups[source, kind]) for source, kind in sorted(groups)]


def kind_of(record: Record) -> Timing:
    """How the record's number is timed, where it can be used for a model; "" where it cannot."""
    headline = record.ok and not record.params.keys() & {"statistic", "side", "direction", "validation"}
    if not headline or not record.value:  # a zero is below the tool's resolution
        return ""
    row = catalogue.row_of(record)
    if row.timing == "collective":
        return row.timing if row.operation in OPERATIONS else ""
    sized = record.size or (record.size is not None and row.timing in ("half round trip", "pattern"))
    return row.timing if sized and _METRICS.get(row.timing) == record.metric else ""


def _time(record: Record, kind: Timing) -> float:
    """Seconds of one message."""
    assert record.value
    return (record.size or 0) / record.value if kind == "interval between messages" else record.value


def _source(record: Record) -> SweepSource:
    series = Series.of(record)
    params = json.dumps(series.by_name | placement(record.params), sort_keys=True)
    return SweepSource(series.platform, series.benchmark, series.case, series.nodes, record.hosts, params)


def _series(source: SweepSource, kind: Timing, records: Sequence[tuple[Record, float]]) -> SweepTimes:
    """The times by size and launch. If a launch has a second time for a size, it counts as another launch."""
    times: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for record, time in records:
        of_size = times[record.size or 0]
        again = 0
        while (launch := f"{record.run}/{record.sample}/{again}") in of_size:
            again += 1
        of_size[launch] = time
    return SweepTimes(
        source, kind, dict(times), tuple(sorted({record.raw for record, _ in records if record.raw}))
    )
