"""What each thread did to each page, in one form for counted and for sampled accesses."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from npc.observe.memory.table import LAYOUT, PAGE, SAMPLING, SLOT_NS, Entries, RankTable

#: Bits of a mask of times, each for one part of the run.
SLOTS: Final = LAYOUT.numbers["NPC_SLOTS"]
#: Sampling intervals in one part of the run, at least. A page is seen once in an interval, so with fewer of
#: them a second thread that shares the page may be missed.
_INTERVALS_A_SLOT: Final = 4

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


class Accesses(NamedTuple):
    """What each thread did to each page."""

    #: `npc.observe.memory.table.PAGE`: an entry for each thread that touched a page, in the order of pages.
    pages: Entries
    #: Of each entry, the thread's number.
    threads: Integers
    #: What a bit of ``read_slots`` and ``written_slots`` stands for (ns).
    slot_ns: int

    @property
    def used(self) -> Words:
        """Words of 8 bytes that a thread read or wrote, a bit each, (entries, 8)."""
        return np.asarray(self.pages["read_words"] | self.pages["written_words"])


def accesses_of(table: RankTable) -> Accesses:
    """The accesses in a process's table. Its pages are removed from the table, since they may be
    gigabytes."""
    if int(table.header["mode"]) == SAMPLING:
        return _sampled(table)
    number = [len(part) for part in table.pages.values()]
    threads = np.repeat(np.fromiter(table.pages, np.int64, len(number)), number)
    order = np.lexsort((threads, np.concatenate([np.empty(0, np.uint64), *_column(table, "page")])))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    pages = np.empty(len(order), PAGE)
    begin = 0
    for thread in list(table.pages):
        part = table.pages.pop(thread)
        pages[place[begin : begin + len(part)]] = part
        begin += len(part)
    # A short run may see no tick of the coarse clock.
    pages["last"] = np.maximum(pages["last"], pages["first"])
    return Accesses(pages, threads[order], _same_scale(pages))


def _column(table: RankTable, name: str) -> list[Entries]:
    return [part[name] for part in table.pages.values()]


def _same_scale(pages: Entries) -> int:
    """Fold masks of earlier scales, two parts into one, until all have the last scale. Returns the length
    of a part in ns. Raises ValueError for an impossible scale."""
    scale = int(pages["slot_scale"].max(initial=0))
    if scale >= SLOTS:
        raise ValueError(f"damaged: a part of the run has 2^{scale} times what it begins with")
    for _ in range(scale):
        old = pages["slot_scale"] < scale
        for name in ("read_slots", "written_slots"):
            pages[name][old] = fold(pages[name][old])
        pages["slot_scale"][old] += 1
    return SLOT_NS << scale


def fold(slots: Words) -> Words:
    """Bits 2k and 2k + 1 into bit k (interleaved bits: Warren, Hacker's Delight, 7-2)."""
    folded = np.bitwise_and(slots | slots >> np.uint64(1), np.uint64(0x5555555555555555))
    for shift, mask in (
        (1, 0x3333333333333333), (2, 0x0F0F0F0F0F0F0F0F), (4, 0x00FF00FF00FF00FF), (8, 0x0000FFFF0000FFFF),
        (16, 0x00000000FFFFFFFF),
    ):  # fmt: skip
        folded = np.bitwise_and(folded | folded >> np.uint64(shift), np.uint64(mask))
    return folded


def _sampled(table: RankTable) -> Accesses:
    """The accesses of a sampled program: those that were seen, and the words that they touched."""
    touches = table.touches
    intervals = table.intervals
    end = int(max(touches["time"].max(initial=0), intervals["end"].max(initial=0)))
    longest = int((intervals["end"] - intervals["begin"]).max(initial=0)) if len(intervals) else 0
    slot_ns = max(-(-(end + 1) // SLOTS), _INTERVALS_A_SLOT * longest, 1)
    page_bytes = int(table.header["page_bytes"])
    key = np.empty(len(touches), [("page", "<u8"), ("thread", "<u2")])
    key["page"], key["thread"] = touches["address"] // page_bytes, touches["thread"]
    keys, place = np.unique(key, return_inverse=True)
    pages = np.zeros(len(keys), PAGE)
    pages["page"], pages["first"] = keys["page"], np.iinfo(np.uint64).max
    np.minimum.at(pages["first"], place, touches["time"])
    np.maximum.at(pages["last"], place, touches["time"])
    offset = touches["address"] % page_bytes
    bits = np.left_shift(np.uint64(1), offset // 8 % 64)
    slots = np.left_shift(np.uint64(1), touches["time"] // np.uint64(slot_ns))
    for written, (number, words, lines, times) in enumerate(
        (("reads", "read_words", "line_reads", "read_slots"),
         ("writes", "written_words", "line_writes", "written_slots"))
    ):  # fmt: skip
        mine = touches["written"] == written
        np.add.at(pages[number], place[mine], 1)
        np.bitwise_or.at(pages[words], (place[mine], offset[mine] // 512), bits[mine])
        np.add.at(pages[lines], (place[mine], offset[mine] // 64), 1)
        np.bitwise_or.at(pages[times], place[mine], slots[mine])
    return Accesses(pages, keys["thread"].astype(np.int64), slot_ns)  # np.unique has put them in order
