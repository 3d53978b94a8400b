"""Working sets that were to lie in huge pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from npc.records.record import Record
from npc.validity.rule import Circumstances, rule

#: Where this share of the memory lies in huge pages, the rest does not matter.
ENOUGH_HUGE: Final = 0.9


@rule(
    "huge_pages",
    "huge pages that were asked for and not given",
    "madvise(2), MADV_HUGEPAGE; Linux, Documentation/admin-guide/mm/transhuge.rst",
    level="note",
)
def without_huge_pages(record: Record, _: Circumstances) -> Iterator[str]:
    """The memory ladder: its large sets then also wait for walks of the page table."""
    params = record.params
    if params.get("pages") == "huge" and float(params.get("huge_pages", 1)) < ENOUGH_HUGE:
        yield (
            f"{params['huge_pages']} of the memory lay in huge pages: they are off "
            "(/sys/kernel/mm/transparent_hugepage/enabled) or memory is fragmented"
        )
