"""Sweeps from records: which series of measurements a communication model can be fitted to.

A test's records become one sweep for each platform, run-time placement and set of parameters; what repeats,
the launches, become its columns. What a test means decides what is made of it:

- a ping-pong's latency is half the round trip of one message (OSU latency, IMB PingPong, qperf, perftest, …);
- a windowed test's bandwidth tells the interval between messages, size/bandwidth, and nothing of latency;
- IMB's PingPong prints a bandwidth, too, but that is size over latency: it is not used twice;
- a collective's latency is what the formulas of its algorithms, made of messages, predict;
- the ``models`` benchmark times the patterns that the other models are made of.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from npc.records.record import Record
from npc.records.units import parse_size

if TYPE_CHECKING:
    from roofline.models.piecewise import Sweep

Kind = Literal["half round trip", "interval between messages", "collective", "pattern"]

#: benchmark → patterns of cases. Those that load both directions, or read remotely, measure something else.
HALF_ROUND_TRIP: Final[Mapping[str, tuple[str, ...]]] = {
    "osu": ("osu_latency",),
    "imb": ("pingpong",),
    "qperf": ("tcp_lat", "udp_lat", "sctp_lat", "rds_lat", "sdp_lat", "rc_lat", "uc_lat", "ud_lat"),
    "sockperf": ("*ping*pong*",),
    "perftest": ("ib_send_lat", "ib_write_lat"),
    "netpipe": ("pingpong",),
}
WINDOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "osu": ("osu_bw", "osu_put_bw", "osu_get_bw"),
    "imb": ("uniband",),
    "qperf": ("tcp_bw", "udp_bw", "sctp_bw", "rds_bw", "sdp_bw", "rc_bw", "uc_bw", "ud_bw"),
    "perftest": ("ib_send_bw", "ib_write_bw"),
}
#: benchmark → case → operation (`roofline.models.collectives.OPERATIONS`).
COLLECTIVES: Final[Mapping[str, Mapping[str, str]]] = {
    "osu": {
        "osu_allreduce": "allreduce",
        "osu_bcast": "bcast",
        "osu_alltoall": "alltoall",
        "osu_barrier": "barrier",
    },
    "imb": {"Allreduce": "allreduce", "Bcast": "bcast", "Alltoall": "alltoall", "Barrier": "barrier"},
}
#: The benchmark whose cases are patterns; its times are in seconds.
PATTERNS: Final = "models"
#: Fewer sizes than these show no line beside its error.
LEAST_SIZES: Final = 5


class Source(NamedTuple):
    """Where a sweep comes from; `params` is sorted JSON, so that sources can be compared."""

    platform: str
    benchmark: str
    case: str
    nodes: int
    hosts: tuple[str, ...]
    params: str

    @property
    def name(self) -> str:
        """The benchmark and its case."""
        return self.case if self.case.startswith(self.benchmark) else f"{self.benchmark} {self.case}"


@dataclass(frozen=True, slots=True)
class Series:
    """One sweep's times: size (a barrier's is 0) → launch → seconds. raw: the files they were read from."""

    source: Source
    kind: Kind
    times: Mapping[int, Mapping[str, float]]
    raw: tuple[str, ...]

    @property
    def sizes(self) -> list[int]:
        """Sizes in bytes, ascending."""
        return sorted(self.times)

    def sweep(self, launches: Sequence[str] = (), sizes: Sequence[int] = ()) -> Sweep:
        """The sweep of all launches and sizes, or of those named."""
        import numpy as np

        from roofline.models.piecewise import Sweep

        named = launches or sorted({launch for each in self.times.values() for launch in each})
        sizes = sizes or self.sizes
        rows = [[self.times[size].get(launch, np.nan) for launch in named] for size in sizes]
        return Sweep(np.array(sizes, dtype=float), np.array(rows, dtype=float))


def find_series(records: Iterable[Record]) -> list[Series]:
    """Every series over the size that a model may be fitted to, in the order of their sources."""
    tests: defaultdict[tuple[str, str, Kind], list[Record]] = defaultdict(list)
    for record in records:
        kind = kind_of(record)
        if kind:
            tests[record.benchmark, record.case, kind].append(record)
    groups: defaultdict[tuple[Source, Kind], list[tuple[Record, float]]] = defaultdict(list)
    for (_, _, kind), found in tests.items():
        repeating = size_params(found)
        for record in found:
            groups[_source(record, repeating), kind].append((record, _time(record, kind)))
    return [_series(source, kind, groups[source, kind]) for source, kind in sorted(groups)]


def kind_of(record: Record) -> Kind | None:
    """What the record's test means for a model; None for one that cannot be used."""
    headline = record.ok and not record.params.keys() & {"statistic", "side", "direction", "validation"}
    if not headline or not record.value:  # a zero is below the tool's resolution
        return None
    if record.metric == "latency" and record.case in COLLECTIVES.get(record.benchmark, {}):
        return "collective"
    if record.size is None:
        return None
    if record.benchmark == PATTERNS and record.metric == "time":
        return "pattern"
    if record.metric == "latency" and _among(record, HALF_ROUND_TRIP):
        return "half round trip"
    if record.metric == "bandwidth" and record.size and _among(record, WINDOWED):
        return "interval between messages"
    return None


def _among(record: Record, tests: Mapping[str, Sequence[str]]) -> bool:
    return any(fnmatchcase(record.case.lower(), pattern) for pattern in tests.get(record.benchmark, ()))


def _time(record: Record, kind: Kind) -> float:
    """Seconds of one message."""
    assert record.value
    return (record.size or 0) / record.value if kind == "interval between messages" else record.value


def _source(record: Record, repeating: set[str]) -> Source:
    params = {name: text for name, text in sorted(record.params.items()) if name not in repeating}
    return Source(
        record.platform, record.benchmark, record.case, record.nodes, record.hosts, json.dumps(params)
    )


def size_params(records: Sequence[Record]) -> set[str]:
    """Parameters that say the size again in every record, such as the ``msg_size`` of a sweep."""
    names = set(records[0].params)
    for record in records:
        names = {name for name in names if _is_size(record.params.get(name, ""), record.size)}
    return names


def _is_size(text: str, size: int | None) -> bool:
    try:
        return parse_size(text) == size
    except ValueError:
        return False


def _series(source: Source, kind: Kind, records: Sequence[tuple[Record, float]]) -> Series:
    """The times by size and launch; what a launch says of a size a second time is a launch of its own."""
    times: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for record, time in records:
        of_size = times[record.size or 0]
        again = 0
        while (launch := f"{record.run}/{record.sample}/{again}") in of_size:
            again += 1
        of_size[launch] = time
    return Series(
        source, kind, dict(times), tuple(sorted({record.raw for record, _ in records if record.raw}))
    )
