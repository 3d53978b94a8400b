"""Curves over the message size that bend the wrong way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from npc.records.record import Record
from npc.records.series import Series
from npc.records.units import format_quantity, format_size
from npc.statistics.medians import Summary, summarise
from npc.validity.rule import Circumstances, rule_of_run
from npc.validity.traffic import of_messages

#: Nobody who reads a curve sees a smaller fall than this share.
_VISIBLE: Final = 0.05
_METRICS: Final = ("latency", "bandwidth")


@rule_of_run(
    "shape",
    "latency or bandwidth falls with the message size",
    "LogGP (Alexandrov et al., SPAA '95): time grows with the size; a switch from eager to rendezvous "
    "breaks the curve (Hoefler et al., 'Netgauge', 2007)",
    level="note",
)
def falls_with_size(records: Sequence[Record], _: Circumstances) -> Iterator[tuple[int, str]]:
    """A fall of the curve from a size to the next by 5 % or more, and by more than both intervals where there
    are any.

    It is often a protocol switch, which is true and worth knowing; else a disturbance.
    """
    curves: defaultdict[tuple[object, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, record in enumerate(records):
        if record.metric in _METRICS and record.size and of_messages(record):
            curves[Series.of(record)._replace(size=None), record.hosts][record.size].append(place)
    for sizes in curves.values():
        medians = {
            size: summarise([records[place].value or 0.0 for place in places])
            for size, places in sizes.items()
        }
        for smaller, larger in pairwise(sorted(medians)):
            if _falls(medians[smaller], medians[larger]):
                yield sizes[larger][0], _words(records[sizes[larger][0]], smaller, medians)


def _falls(before: Summary, after: Summary) -> bool:
    if after.median > before.median * (1 - _VISIBLE):
        return False
    return before.low is None or after.high is None or after.high < before.low


def _words(record: Record, smaller: int, medians: Mapping[int, Summary]) -> str:
    before, after = (
        f"{format_quantity(medians[size].median, record.unit, 3)} at {format_size(size)}"
        for size in (smaller, record.size or 0)
    )
    return f"{record.metric} falls from {before} to {after}: a protocol switch?"
