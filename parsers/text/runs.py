"""Readings of one run: a quantity stands in them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from npc.records.reading import OK, Reading

_SEVERAL = "invalid: numbers of several runs below one heading"


def of_one_run(readings: Iterable[Reading]) -> Iterator[Reading]:
    """`readings` of what stands below one title or heading. If one quantity is in them twice, two runs were
    put together, nothing tells which number is whose, and none is usable."""
    run = list(readings)
    quantities = Counter(map(_quantity, run))
    mixed = any(number > 1 for number in quantities.values())
    for reading in run:
        yield replace(reading, status=_SEVERAL) if mixed and reading.status == OK else reading


def _quantity(reading: Reading) -> object:
    """What a reading is of; of one without a value, itself."""
    if reading.value is None:
        return id(reading)
    return reading.case, reading.metric, reading.size, frozenset(reading.params.items())
