"""Records made by hand for tests: a value, repeated with a known spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from npc.records.record import Record
from npc.records.units import METRICS

#: Seven samples around 1: median 1, and [0.9, 1.1] covers it with 98.4 %.
AROUND = (1.0, 0.9, 1.05, 0.95, 1.1, 0.98, 1.02)


def records(
    benchmark: str,
    case: str,
    value: float,
    *,
    metric: str = "bandwidth",
    spread: Sequence[float] = AROUND,
    **fields: Any,
) -> Iterator[Record]:
    """One record for each factor in `spread`."""
    for sample, factor in enumerate(spread):
        yield Record(
            time=f"2026-11-2{sample}T08:00:00+00:00",
            platform="fuchs",
            benchmark=benchmark,
            case=case,
            metric=metric,
            value=value * factor,
            unit=METRICS[metric].unit,
            sample=sample,
            hosts=("node1",),
            raw=f"raw/{benchmark}-{case}-{sample}.out",
            **fields,
        )


def peak(case: str, value: float, **fields: Any) -> Iterator[Record]:
    return records("likwid", case, value, metric="flops", **fields)


def level(name: str, case: str, value: float, **fields: Any) -> Iterator[Record]:
    return records("likwid", case, value, params={"level": name}, **fields)


def products(
    library: str, flops: float, threads: int = 2, routine: str = "dgemm", n: int = 1536, version: str = "1.0"
) -> Iterator[Record]:
    """A matrix product of `blas`."""
    params = {"library": library, "threads": str(threads), "n": str(n), "thread_cpus": "0-1"}
    size = 24 * n * n * (2 if routine == "zgemm" else 1)
    return records(
        "blas", routine, flops, metric="flops", params=params, size=size, tool_version=version
    )  # fmt: skip
