"""How often a program accessed its memory, as readings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from npc.observe.memory.records import MEMORY, MemoryUse
from npc.records.observed import part_of
from npc.records.reading import OK, Reading
from npc.records.series import OBSERVED

#: In a run with this part nothing else that was measured counts, since the program was slowed down.
ALONE: Final = MEMORY


def readings(document: dict[str, Any]) -> Iterator[Reading]:
    """Accesses of all ranks as far as they were seen, or why there are none. Raises ValueError for a part
    that is not whole."""
    memory = part_of(document, MEMORY, MemoryUse)
    if memory is None:
        return
    params = {"layer": "memory", "part": "accesses", "side": memory.mode, "ranks": str(document["ranks"])}
    if memory.status != OK:
        yield Reading(OBSERVED, "events", None, None, memory.status, params)
        return
    for kind in ("reads", "writes"):
        number = sum(getattr(part, kind) for part in (*memory.ranks, *memory.rest))
        yield Reading(OBSERVED, "events", number, None, OK, params | {"kind": kind})
