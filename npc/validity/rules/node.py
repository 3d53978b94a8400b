"""Memory bandwidth and FLOP rate above what a node can do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from npc.machine.platform import PRECISION_BITS
from npc.records.record import Record
from npc.records.units import format_quantity
from npc.validity.rule import Circumstances, rule
from npc.validity.traffic import of_memory
from npc.validity.unit_errors import likely_slip

#: Data sheets round: DDR4-2933 has 23.467 GB/s a channel and is quoted with 23.5.
_TOLERANCE: Final = 1.01
#: Where nothing tells the highest clock: no server CPU holds twice its nominal clock on all cores
#: (the widest gap in vendors' lists is about 1.8, base against single-core turbo).
_HIGHEST_CLOCK: Final = 2.0


@rule(
    "memory",
    "memory bandwidth above the nominal one",
    "channels × transfers/s × 8 bytes (JEDEC DDR data sheets); McCalpin, stream.c, rule 1",
)
def above_memory(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """Bandwidths of main memory against ``node.memory_bandwidth``: above it, a cache was measured."""
    limit = circumstances.platform.memory_bandwidth if circumstances.platform else None
    for place, record in enumerate(records):
        if limit is None or record.value is None or not of_memory(record):
            continue
        ceiling = limit * record.nodes
        if record.value > ceiling * _TOLERANCE:
            reason = (
                f"{format_quantity(record.value, 'B/s')} is above the node's memory bandwidth of "
                f"{format_quantity(ceiling, 'B/s')}: a cache was measured, or a unit is wrong"
                + likely_slip(record.value, ceiling, "B/s")
            )
            yield place, reason


@rule(
    "peak",
    "FLOP/s above the theoretical peak",
    "cores × Hz × SIMD bits/precision bits × SIMD units × 2 with FMA "
    "(Bartelheimer, Zhu, Neuwirth 2023, table 4), at the highest clock",
)
def above_peak(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """FLOP rates against the peak at the CPU's highest clock, at twice the nominal one if that is unknown."""
    for place, record, peak in _with_peak(records, circumstances):
        highest = circumstances.environment(record, "cpu", "frequency", "max_hz")
        nominal = circumstances.platform.clock_hz if circumstances.platform else None
        boost = max(1.0, highest / nominal) if highest and nominal else _HIGHEST_CLOCK
        if record.value is not None and record.value > peak * boost * _TOLERANCE:
            reason = (
                f"{format_quantity(record.value, 'FLOP/s')} is above the peak of "
                f"{format_quantity(peak * boost, 'FLOP/s')} ({boost:.3g} × the nominal clock)"
                + likely_slip(record.value, peak * boost, "FLOP/s")
            )
            yield place, reason


@rule(
    "raised_clock",
    "FLOP/s above the peak at the nominal clock",
    "the same peak at clock_hz; a CPU may raise its clock while its power allows",
    level="note",
)
def above_nominal(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """What only a raised clock explains: true, but clock_hz is not what the cores hold."""
    for place, record, peak in _with_peak(records, circumstances):
        if record.value is not None and record.value > peak * _TOLERANCE:
            reason = (
                f"{format_quantity(record.value, 'FLOP/s')} is {record.value / peak:.0%} of the peak at "
                "clock_hz: the clock was raised, or clock_hz is too low"
            )
            yield place, reason


def _with_peak(
    records: Sequence[Record], circumstances: Circumstances
) -> Iterator[tuple[int, Record, float]]:
    """The FLOP rates with their theoretical peak in FLOP/s, where the platform tells it."""
    for place, record in enumerate(records):
        precision = record.params.get("precision", "double")
        if record.metric != "flops" or circumstances.platform is None:
            continue
        for known in PRECISION_BITS:
            peak = circumstances.platform.peak_flops(known)
            if known == precision and peak is not None:
                yield place, record, peak * _nodes_worth(record, circumstances)


def _nodes_worth(record: Record, circumstances: Circumstances) -> float:
    """How many nodes' peak the cores that computed have: fewer than the nodes', where the record tells it.

    LIKWID says how many threads ran, HPCG how many in each process; HPCC's Single and Star numbers are of one
    process, whose threads the job's OMP_NUM_THREADS tells.
    """
    cores = circumstances.platform.cores if circumstances.platform else None
    threads = record.params.get("threads", "")
    alone = (
        record.benchmark == "hpcc"
        and record.case.startswith(("Single", "Star"))
        and record.params.get("statistic") != "sum"
    )
    if alone:
        threads = circumstances.environment(record, "variables", "OMP_NUM_THREADS")
    if not cores or not str(threads or "").isdecimal():
        return record.nodes
    a_core = int(threads) / cores
    return min(
        float(record.nodes), a_core * int(record.params.get("processes", "1")) if not alone else a_core
    )
