"""The catalogue: what each benchmark's numbers mean, said once. Whoever needs it asks here.

A row a benchmark, with one a test and one a step (`npc.catalogue.benchmarks`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from types import MappingProxyType
from typing import Final

from npc.catalogue.benchmarks import BENCHMARKS
from npc.catalogue.row import Benchmark, Layer, Sender, Step, Test
from npc.records.record import Record
from npc.records.series import RANKS, Series

_BY_NAME: Final = {benchmark.name: benchmark for benchmark in BENCHMARKS}
_OTHER_END: Final[Mapping[Sender, Sender]] = {"": "", "client": "server", "server": "client"}
#: Layers whose tests send messages, so that a size is that of a message.
MESSAGES: Final[frozenset[Layer]] = frozenset({"mpi", "tcp", "udp", "sctp", "sdp", "rds", "rdma"})
#: The class of collective calls that Open MPI counts together (`npc.observe.monitoring.CLASSES`) →
#: operations.
CLASSES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "one to all": ("bcast",),
    "all to one": ("reduce",),
    "all to all": ("allreduce", "allgather", "alltoall"),
})  # fmt: skip


@cache
def find(benchmark: str, case: str, metric: str = "*") -> Test:
    """The row of a test; one that says nothing where there is none. Without a metric, of any of its case."""
    row = _BY_NAME.get(benchmark, Benchmark(benchmark, ()))
    for test in row.tests:
        of_metric = metric == test.metric or "*" in (metric, test.metric)
        if of_metric and fnmatchcase(case.lower(), test.case.lower()):
            return test
    return Test("*", layer=row.layer)


def row_of(record: Record) -> Test:
    """The row of a record's test."""
    return find(record.benchmark, record.case, record.metric)


def sender(benchmark: str, case: str, metric: str, params: Mapping[str, str]) -> Sender:
    """Which of npb's two ends sends the bytes of a bandwidth, or the messages of a rate, if one does."""
    if metric not in ("bandwidth", "message_rate"):
        return ""
    end, direction = _sender(benchmark, case), params.get("direction", "")
    if direction in ("", "bidir_forward"):
        return end
    return _OTHER_END[end] if direction.endswith("reverse") else ""


@cache
def _sender(benchmark: str, case: str) -> Sender:
    """By the benchmark's row; by the case alone where somebody named it otherwise (``npb --benchmark``)."""
    if benchmark in _BY_NAME:
        return find(benchmark, case, "bandwidth").sender
    ends = {
        test.sender
        for benchmark_row in BENCHMARKS
        for test in benchmark_row.tests
        if test.case == case and test.sender
    }
    return ends.pop() if len(ends) == 1 else ""


def alike(record: Record) -> str:
    """The quantity that the record's test measures, if another benchmark has a test of it; else nothing."""
    quantity = row_of(record).quantity
    return quantity if len(_measured_by(quantity)) > 1 else ""


@cache
def _measured_by(quantity: str) -> frozenset[str]:
    return frozenset(b.name for b in BENCHMARKS if quantity in {test.quantity for test in b.tests} - {""})


def on_any_nodes(key: Series) -> Series:
    """What a series has in common with the same test on other numbers of nodes: ranks go with the nodes, and
    the size of a problem, which is no message's, may go with the ranks."""
    params = key.by_name
    others = {name: text for name, text in params.items() if name not in RANKS}
    messages = find(key.benchmark, key.case, key.metric).layer in MESSAGES
    size = key.size if messages or others == params else None
    return key._replace(nodes=1, size=size, params=json.dumps(others, sort_keys=True))


def place(benchmark: str) -> int:
    """The benchmark's place in the catalogue; behind all that are in it where it is not."""
    return [*_BY_NAME, benchmark].index(benchmark)


def steps(tags: Collection[str] = ()) -> Iterator[Step]:
    """The steps that any of the tags runs, without tags all."""
    for benchmark in BENCHMARKS:
        yield from (step for step in benchmark.steps if not tags or set(step.tags) & set(tags))
