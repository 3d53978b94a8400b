"""Kernels of mathematical libraries: what each reaches here, as `blas` and `fft` measured it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from npc.records.record import Record
from npc.records.units import format_quantity, plural
from npc.statistics.medians import MIN_SAMPLES, Summary, summarise

_BENCHMARKS: Final = ("blas", "fft")
#: The routines that libraries are compared by.
PRODUCTS: Final = ("dgemm", "zgemm")


class KernelRate(NamedTuple):
    """How fast a library's routine is with some threads, at its best size."""

    #: Case of the benchmark `blas` or `fft`: ``dgemm``.
    routine: str
    #: Name of the library; empty if the record does not say.
    library: str
    #: Its version; empty if the tool does not say.
    version: str
    #: Number of threads; 0 if unknown.
    threads: int
    #: Size at which it is fastest, as `Record.size`; None if it has none.
    size: int | None
    #: Median FLOP/s with its interval.
    flops: Summary


def kernel_rates(records: Iterable[Record]) -> list[KernelRate]:
    """What was measured, the fastest first: the best median over sizes and variants, of those repeated often
    enough."""
    by_kind: defaultdict[tuple[str, str, str], dict[tuple[object, ...], list[Record]]]
    by_kind = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.benchmark in _BENCHMARKS and record.metric == "flops" and record.ok and record.value:
            params = record.params
            key = record.case, params.get("library", ""), params.get("threads", "0")
            variant = record.size, params.get("place"), params.get("planner"), record.nodes
            by_kind[key][variant].append(record)
    rates = []
    for (routine, library, threads), variants in by_kind.items():
        enough = min(MIN_SAMPLES, max(map(len, variants.values())))
        candidates = [
            (summarise([record.value for record in same if record.value]), same)
            for same in variants.values()
            if len(same) >= enough
        ]
        best, same = max(candidates, key=lambda pair: pair[0].median)
        last = max(same, key=lambda record: record.time)
        rates.append(KernelRate(routine, library, last.tool_version, int(threads), last.size, best))
    return sorted(rates, key=lambda rate: -rate.flops.median)


def measured_text(rates: Sequence[KernelRate]) -> str:
    """``dgemm reaches 99 GFLOP/s by OpenBLAS 0.3.21 with 2 threads, 52 GFLOP/s with 1; 97 GFLOP/s by …``."""
    by_routine: defaultdict[str, defaultdict[str, list[KernelRate]]] = defaultdict(lambda: defaultdict(list))
    for rate in rates:
        by_routine[rate.routine][f"{rate.library} {rate.version}".strip()].append(rate)
    return "; ".join(
        f"{routine} reaches " + "; ".join(_of_library(name, of) for name, of in libraries.items())
        for routine, libraries in by_routine.items()
    )


def _of_library(name: str, rates: Sequence[KernelRate]) -> str:
    several = sorted(rates, key=lambda rate: -rate.threads)
    texts = [
        f"{format_quantity(rate.flops.median, 'FLOP/s', 3)}{{}} with {plural(rate.threads, 'thread')}"
        for rate in several
    ]
    nominal = " (nominal)" if rates[0].routine.startswith("fft") else ""
    return ", ".join([texts[0].format(f"{nominal} by {name}"), *(text.format("") for text in texts[1:])])
