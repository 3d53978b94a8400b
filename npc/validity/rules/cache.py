"""Arrays that lie in a cache: STREAM's, and those of programs that count their own bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from npc.records.record import Record
from npc.records.series import CACHED
from npc.records.units import format_quantity, format_size
from npc.validity.rule import Circumstances, rule, rule_of_run

_MULTIPLE: Final = 4
_ARRAYS: Final = 3
#: Least size of STREAM's three arrays together, in multiples of the last-level caches.
WORKING_SET: Final = _MULTIPLE * _ARRAYS
_SOURCE: Final = (
    "McCalpin, stream.c 5.10, instructions 1: each array at least 4 × the sum of all last-level caches used"
)
#: Cases of programs that count the bytes that they move, and whose `Record.size` is all their arrays.
_COUNTING: Final = ("himeno", "HPCG")


@rule(
    "arrays",
    "STREAM arrays smaller than four times the last-level caches",
    _SOURCE,
)
def arrays_in_cache(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """STREAM, alone or in HPCC, whose three arrays are `Record.size`, against the caches of its node.

    HPCC's Star kernels run in every process at once, so that their arrays add up.
    """
    if record.size is None or not (record.benchmark == "stream" or "STREAM" in record.case):
        return
    caches = last_level_bytes(circumstances.environment(record, "cpu", "caches"))
    processes = int(record.params.get("processes", "1")) if record.case.startswith("Star") else 1
    array = record.size // _ARRAYS * max(1, processes // record.nodes)
    if array < _MULTIPLE * caches:
        yield (
            f"an array of {format_quantity(array, 'B')} is less than {_MULTIPLE} × the "
            f"{format_quantity(caches, 'B')} of last-level cache: the cache was measured"
        )


@rule_of_run(
    CACHED, "a program whose arrays caches may hold", f"{_SOURCE}; here of all arrays together", level="note"
)
def program_in_cache(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """Himeno and HPCG. Their rates are right, but their bytes need not be main memory's. Where the file of
    the node is gone, the record's mark tells it."""
    cache_sizes = caches_of_small(records, circumstances)
    for place, record in enumerate(records):
        text = record.params.get(CACHED) or cache_sizes.get(place)
        if text and record.size is not None and record.metric == "bandwidth":
            caches = format_size(float(text))
            yield (
                place,
                f"its arrays, {format_size(record.size)}, are less than {WORKING_SET} × the "
                f"{caches} of last-level cache: what it loads need not come from main memory",
            )


def caches_of_small(records: Sequence[Record], circumstances: Circumstances) -> dict[int, str]:
    """By the place of a record whose program has small arrays, the bytes of its nodes' last-level caches."""
    cache_sizes = {}
    for place, record in enumerate(records):
        if record.size is None or record.case not in _COUNTING:
            continue
        caches = record.nodes * last_level_bytes(circumstances.environment(record, "cpu", "caches"))
        if record.size < WORKING_SET * caches:
            cache_sizes[place] = str(caches)
    return cache_sizes


def last_level_bytes(caches: Any) -> int:
    """Bytes of all caches of the last level, from ``cpu.caches`` of ``environment.json``; 0 if unknown."""
    known = [cache for cache in caches or () if cache.get("level") and cache.get("size_bytes")]
    last = max((cache["level"] for cache in known), default=0)
    return sum(
        int(cache["size_bytes"]) * int(cache.get("instances") or 1)
        for cache in known
        if cache["level"] == last and cache.get("type") != "instruction"
    )
