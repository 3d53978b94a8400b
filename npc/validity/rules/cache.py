"""STREAM in a cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from npc.records.record import Record
from npc.records.units import format_quantity
from npc.validity.rule import Circumstances, rule

_MULTIPLE: Final = 4
_ARRAYS: Final = 3


@rule(
    "arrays",
    "STREAM arrays smaller than four times the last-level caches",
    "McCalpin, stream.c 5.10, instructions 1: each array at least 4 × the sum of all last-level caches used",
)
def arrays_in_cache(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """STREAM, alone or in HPCC, whose three arrays are `Record.size`, against the caches of its node.

    HPCC's Star kernels run in every process at once, so that their arrays add up.
    """
    for place, record in enumerate(records):
        if record.size is None or not (record.benchmark == "stream" or "STREAM" in record.case):
            continue
        caches = last_level_bytes(circumstances.environment(record, "cpu", "caches"))
        processes = int(record.params.get("processes", "1")) if record.case.startswith("Star") else 1
        array = record.size // _ARRAYS * max(1, processes // record.nodes)
        if array < _MULTIPLE * caches:
            reason = (
                f"an array of {format_quantity(array, 'B')} is less than {_MULTIPLE} × the "
                f"{format_quantity(caches, 'B')} of last-level cache: the cache was measured"
            )
            yield place, reason


def last_level_bytes(caches: Any) -> int:
    """Bytes of all caches of the last level, from ``cpu.caches`` of ``environment.json``; 0 if unknown."""
    known = [cache for cache in caches or () if cache.get("level") and cache.get("size_bytes")]
    last = max((cache["level"] for cache in known), default=0)
    return sum(
        int(cache["size_bytes"]) * int(cache.get("instances") or 1)
        for cache in known
        if cache["level"] == last and cache.get("type") != "instruction"
    )
