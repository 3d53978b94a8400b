"""Memory bandwidth and FLOP rate above what a node can do."""

from __future__ import annotations

from collections.abc import Iterator
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
def above_memory(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """Bandwidths of main memory against ``node.memory_bandwidth``: above it, a cache was measured."""
    limit = circumstances.platform.memory_bandwidth if circumstances.platform else None
    if limit is None or record.value is None or not of_memory(record):
        return
    ceiling = limit * record.nodes
    if record.value > ceiling * _TOLERANCE:
        yield (
            f"{format_quantity(record.value, 'B/s')} is above the node's memory bandwidth of "
            f"{format_quantity(ceiling, 'B/s')}: a cache was measured, or a unit is wrong"
            + likely_slip(record.value, ceiling, "B/s")
        )


@rule(
    "peak",
    "FLOP/s above the theoretical peak",
    "cores × Hz × SIMD bits/precision bits × SIMD units × 2 with FMA "
    "(Bartelheimer, Zhu, Neuwirth 2023, table 4), at the highest clock",
)
def above_peak(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """FLOP rates against the peak at the CPU's highest clock, at twice the nominal one if that is unknown."""
    peak = _peak(record, circumstances)
    if peak is None or record.value is None:
        return
    highest = circumstances.environment(record, "cpu", "frequency", "max_hz")
    nominal = circumstances.platform.clock_hz if circumstances.platform else None
    boost = max(1.0, highest / nominal) if highest and nominal else _HIGHEST_CLOCK
    if record.value > peak * boost * _TOLERANCE:
        yield (
            f"{format_quantity(record.value, 'FLOP/s')} is above the peak of "
            f"{format_quantity(peak * boost, 'FLOP/s')} ({boost:.3g} × the nominal clock)"
            + likely_slip(record.value, peak * boost, "FLOP/s")
        )


@rule(
    "raised_clock",
    "FLOP/s above the peak at the nominal clock",
    "the same peak at clock_hz; a CPU may raise its clock while its power allows",
    level="note",
)
def above_nominal(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """What only a raised clock explains: true, but clock_hz is not what the cores hold."""
    peak = _peak(record, circumstances)
    if peak is not None and record.value is not None and record.value > peak * _TOLERANCE:
        yield (
            f"{format_quantity(record.value, 'FLOP/s')} is {record.value / peak:.0%} of the peak at "
            "clock_hz: the clock was raised, or clock_hz is too low"
        )


def _peak(record: Record, circumstances: Circumstances) -> float | None:
    """The theoretical peak of a FLOP rate in FLOP/s, where the platform tells it."""
    if record.metric != "flops" or circumstances.platform is None:
        return None
    precision = record.params.get("precision", "double")
    peaks = (circumstances.platform.peak_flops(known) for known in PRECISION_BITS if known == precision)
    peak = next(peaks, None)
    return None if peak is None else peak * _nodes_worth(record, circumstances)


def _nodes_worth(record: Record, circumstances: Circumstances) -> float:
    """To how many nodes the cores that computed amount: fewer than the record's nodes where it tells how many
    computed.

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
