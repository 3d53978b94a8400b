"""The file of one process's memory, as library/table.h lays it out: header, then chunks of entries."""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from npc.files import open_regular

MAGIC: Final = b"NPCMEM\n\0"
COUNTING: Final = 1
SAMPLING: Final = 2
#: Header and chunks begin at multiples of it.
CHUNK_BYTES: Final = 4096
#: ns of a slot of scale 0 (`npc_page`).
SLOT_NS: Final = 1 << 20

HEADER: Final = np.dtype(
    [
        ("magic", "S8"), ("version", "<u4"), ("mode", "<u4"), ("page_bytes", "<u4"), ("threads", "<u4"),
        ("began", "<u8"), ("ended", "<u8"), ("used", "<u8"), ("lost", "<u8"), ("inside", "<u8"),
        ("process", "<u8"), ("tick", "<u8"), ("slot", "<u8"), ("small", "<u8"), ("others", "<u8"),
        ("obstacles", "<u8"), ("library", "<u8", 2), ("spare", "<u8"),
    ]
)  # fmt: skip
_CHUNK: Final = np.dtype([("kind", "<u4"), ("thread", "<u4"), ("bytes", "<u8")])
PAGE: Final = np.dtype(
    [
        ("page", "<u8"), ("reads", "<u8"), ("writes", "<u8"), ("first", "<u8"), ("last", "<u8"),
        ("read_words", "<u8", 8), ("written_words", "<u8", 8), ("often", "<u8", 8),
        ("read_slots", "<u8"), ("written_slots", "<u8"), ("slot_scale", "<u4"), ("spare", "<u4"),
        ("line_reads", "<u4", 64), ("line_writes", "<u4", 64),
    ]
)  # fmt: skip
OBJECT: Final = np.dtype(
    [
        ("address", "<u8"), ("bytes", "<u8"), ("born", "<u8"), ("freed", "<u8"), ("kind", "<u4"),
        ("thread", "<u4"), ("callers", "<u8", 6),
    ]
)  # fmt: skip
THREAD: Final = np.dtype(
    [
        ("tid", "<u8"), ("born", "<u8"), ("ended", "<u8"), ("stack_low", "<u8"), ("stack_high", "<u8"),
        ("start", "<u8"), ("number", "<u4"), ("cpu", "<u4"),
    ]
)  # fmt: skip
TOUCH: Final = np.dtype(
    [
        ("address", "<u8"), ("ip", "<u8"), ("time", "<u8"), ("interval", "<u4"), ("thread", "<u2"),
        ("cpu", "<u2"), ("written", "<u4"), ("spare", "<u4"),
    ]
)  # fmt: skip
INTERVAL: Final = np.dtype(
    [("number", "<u8"), ("begin", "<u8"), ("end", "<u8"), ("tracked", "<u8"), ("guarded", "<u8")]
)
PLACE: Final = np.dtype([("page", "<u8"), ("node", "<i4"), ("spare", "<i4"), ("time", "<u8")])
_PAGES, _OBJECTS, _THREADS, _TOUCHES, _INTERVALS, _MAPS, _PLACES = range(1, 8)
_KINDS: Final = {
    _PAGES: PAGE, _OBJECTS: OBJECT, _THREADS: THREAD, _TOUCHES: TOUCH, _INTERVALS: INTERVAL, _PLACES: PLACE,
}  # fmt: skip

Entries = npt.NDArray[Any]


class RankTable(NamedTuple):
    """Entries in use, of the types above. pages: by thread. maps: text of /proc/self/maps."""

    header: Any
    pages: dict[int, Entries]
    objects: Entries
    threads: Entries
    touches: Entries
    intervals: Entries
    places: Entries
    maps: str


def read_table(path: Path) -> RankTable:
    """Raises ValueError for a file that is none, OSError."""
    with open_regular(path, math.inf) as stream:
        begin = stream.read(HEADER.itemsize)
        if len(begin) < HEADER.itemsize or not begin.startswith(MAGIC):
            raise ValueError(f"{path}: no table of a program's memory")
        header = np.frombuffer(begin, HEADER)[0]
        used = min(int(header["used"]), os.fstat(stream.fileno()).st_size)  # the file is larger by far
        data = mmap.mmap(stream.fileno(), used, access=mmap.ACCESS_READ)
    found: dict[int, list[Entries]] = {kind: [] for kind in _KINDS}
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
        if kind == _MAPS:
            maps = data[place : place + size].rstrip(b"\0").decode(errors="replace")
        elif kind in _KINDS:
            entries = np.frombuffer(data, _KINDS[kind], size // _KINDS[kind].itemsize, place)
            entries = entries[entries[entries.dtype.names[0]] != 0]  # type: ignore[index]
            (pages.setdefault(int(chunk["thread"]), []) if kind == _PAGES else found[kind]).append(entries)
        place += int(chunk["bytes"])

    def whole(kind: int) -> Entries:
        return np.concatenate([np.empty(0, _KINDS[kind]), *found[kind]])

    return RankTable(
        header, {thread: np.concatenate(parts) for thread, parts in sorted(pages.items())},
        whole(_OBJECTS), whole(_THREADS), whole(_TOUCHES), whole(_INTERVALS), whole(_PLACES), maps,
    )  # fmt: skip
