"""The file of one process's memory: a header, then chunks of entries.

Its structures are those of library/table.h; fields have the names that they have there.
"""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from npc.files import open_regular
from npc.observe.c_header import dtype, read_header

LAYOUT: Final = read_header(Path(__file__).with_name("library") / "table.h")
_NUMBERS: Final = LAYOUT.numbers
MAGIC: Final = LAYOUT.texts["NPC_MEMORY_MAGIC"] + b"\0"
COUNTING: Final = _NUMBERS["NPC_COUNTING"]
SAMPLING: Final = _NUMBERS["NPC_SAMPLING"]
#: Header and chunks begin at multiples of this (B).
CHUNK_BYTES: Final = _NUMBERS["NPC_CHUNK_BYTES"]
#: Length of a slot of scale 0 in ns (`npc_page`).
SLOT_NS: Final = _NUMBERS["NPC_SLOT_NS"]

HEADER: Final = dtype(LAYOUT.structures["npc_table"])
_CHUNK: Final = dtype(LAYOUT.structures["npc_chunk"])
PAGE: Final = dtype(LAYOUT.structures["npc_page"])
OBJECT: Final = dtype(LAYOUT.structures["npc_object"])
THREAD: Final = dtype(LAYOUT.structures["npc_thread"])
TOUCH: Final = dtype(LAYOUT.structures["npc_touch"])
INTERVAL: Final = dtype(LAYOUT.structures["npc_interval"])
PLACE: Final = dtype(LAYOUT.structures["npc_place"])
#: What the entries of a chunk are, by its kind.
_ENTRIES: Final = {
    _NUMBERS[kind]: entry
    for kind, entry in {
        "NPC_PAGES": PAGE, "NPC_OBJECTS": OBJECT, "NPC_THREADS": THREAD, "NPC_TOUCHES": TOUCH,
        "NPC_INTERVALS": INTERVAL, "NPC_PLACES": PLACE,
    }.items()
}  # fmt: skip

Entries = npt.NDArray[Any]


class RankTable(NamedTuple):
    """What is in a process's file, without entries that were never used."""

    #: One `HEADER`.
    header: Any
    #: Thread → its `PAGE` entries.
    pages: dict[int, Entries]
    #: `OBJECT`: allocations.
    objects: Entries
    #: `THREAD`.
    threads: Entries
    #: `TOUCH`: accesses that were seen; empty of a program that was counted.
    touches: Entries
    #: `INTERVAL`: of sampling; empty of a program that was counted.
    intervals: Entries
    #: `PLACE`: on which NUMA node pages lie.
    places: Entries
    #: The text of /proc/self/maps.
    maps: str


def read_table(path: Path) -> RankTable:
    """The table in a file. Raises OSError, and ValueError for a file without a table."""
    with open_regular(path, math.inf) as stream:
        begin = stream.read(HEADER.itemsize)
        if len(begin) < HEADER.itemsize or not begin.startswith(MAGIC):
            raise ValueError(f"{path}: no table of a program's memory")
        header = np.frombuffer(begin, HEADER)[0]
        used = min(int(header["used"]), os.fstat(stream.fileno()).st_size)  # the file is larger by far
        data = mmap.mmap(stream.fileno(), used, access=mmap.ACCESS_READ)
    chunks: dict[int, list[Entries]] = {kind: [] for kind in _ENTRIES}
    pages: dict[int, list[Entries]] = {}
    maps = ""
    place, end = CHUNK_BYTES, len(data)
    while place + CHUNK_BYTES <= end:
        chunk = np.frombuffer(data, _CHUNK, 1, place)[0]
        kind, size = int(chunk["kind"]), min(int(chunk["bytes"]), end - place - _CHUNK.itemsize)
        if kind == 0:  # taken and never used
            place += CHUNK_BYTES
            continue
        place += _CHUNK.itemsize
        if kind == _NUMBERS["NPC_MAPS"]:
            maps = data[place : place + size].rstrip(b"\0").decode(errors="replace")
        elif kind in _ENTRIES:
            entries = np.frombuffer(data, _ENTRIES[kind], size // _ENTRIES[kind].itemsize, place)
            entries = entries[entries[entries.dtype.names[0]] != 0]  # type: ignore[index]
            if kind == _NUMBERS["NPC_PAGES"]:
                pages.setdefault(int(chunk["thread"]), []).append(entries)
            else:
                chunks[kind].append(entries)
        place += int(chunk["bytes"])

    def whole(name: str) -> Entries:
        kind = _NUMBERS[name]
        return np.concatenate([np.empty(0, _ENTRIES[kind]), *chunks[kind]])

    return RankTable(
        header=header,
        pages={thread: np.concatenate(parts) for thread, parts in sorted(pages.items())},
        objects=whole("NPC_OBJECTS"),
        threads=whole("NPC_THREADS"),
        touches=whole("NPC_TOUCHES"),
        intervals=whole("NPC_INTERVALS"),
        places=whole("NPC_PLACES"),
        maps=maps,
    )
