"""Tables of a process's memory, made of single accesses: the truth can be counted from these another way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from npc.observe.memory.table import (
    COUNTING,
    HEADER,
    INTERVAL,
    OBJECT,
    PAGE,
    PLACE,
    SAMPLING,
    SLOT_NS,
    THREAD,
    TOUCH,
    RankTable,
)

PAGE_BYTES = 4096
#: Accesses between two of which the words are noted as those that a thread comes back to.
OFTEN = 1021


@dataclass
class Access:
    """Accesses of a thread to each of some words of a page, at a moment in ns."""

    thread: int
    time: int
    addresses: tuple[int, ...]
    written: bool
    times: int = 1

    @property
    def page(self) -> int:
        """Its number."""
        return self.addresses[0] // PAGE_BYTES


@dataclass
class MadeTables:
    """A run. objects: (address, bytes, born, freed, callers)."""

    accesses: list[Access] = field(default_factory=list)
    objects: list[tuple[int, int, int, int, tuple[int, ...]]] = field(default_factory=list)
    places: Mapping[int, int] = field(default_factory=dict)
    cpus: Mapping[int, int] = field(default_factory=dict)
    maps: str = ""

    def read(self, thread: int, time: int, addresses: Iterable[int], times: int = 1) -> None:
        """Of each address."""
        self._add(thread, time, addresses, False, times)

    def write(self, thread: int, time: int, addresses: Iterable[int], times: int = 1) -> None:
        """Of each address."""
        self._add(thread, time, addresses, True, times)

    def _add(self, thread: int, time: int, addresses: Iterable[int], written: bool, times: int) -> None:
        for _, words in groupby(addresses, lambda address: address // PAGE_BYTES):
            self.accesses.append(Access(thread, time, tuple(words), written, times))

    @property
    def end(self) -> int:
        """ns."""
        return max((each.time for each in self.accesses), default=0)

    @property
    def slot_ns(self) -> int:
        """The run in 64 parts at most."""
        scale = 0
        while self.end // (SLOT_NS << scale) >= 64:
            scale += 1
        return SLOT_NS << scale

    def sampled(self, interval: int) -> RankTable:
        """As one that samples leaves it: of each page, thread and interval (ns) the first word."""
        touches = np.zeros(len(self.accesses), TOUCH)
        seen = set()
        for each in sorted(self.accesses, key=lambda access: access.time):
            key = (each.page, each.thread, each.time // interval)
            if key in seen:
                continue
            entry = touches[len(seen)]
            entry["address"], entry["time"] = each.addresses[0], each.time
            entry["thread"], entry["written"], entry["interval"] = each.thread, each.written, key[2] + 1
            seen.add(key)
        counted = self.table()
        intervals = np.zeros(self.end // interval + 1, INTERVAL)
        intervals["number"] = np.arange(len(intervals)) + 1
        intervals["begin"] = np.arange(len(intervals)) * interval
        intervals["end"] = intervals["begin"] + interval
        intervals["tracked"], intervals["guarded"] = 10, 5
        counted.header["mode"] = SAMPLING
        return counted._replace(pages={}, touches=touches[: len(seen)], intervals=intervals)

    def table(self) -> RankTable:
        """As a library that counts every access leaves it."""
        pages: dict[tuple[int, int], np.ndarray] = {}
        slot_ns = self.slot_ns
        scale = (slot_ns // SLOT_NS).bit_length() - 1
        for each in sorted(self.accesses, key=lambda access: access.time):
            key = (each.thread, each.page)
            if key not in pages:
                pages[key] = np.zeros(1, PAGE)
                pages[key]["page"], pages[key]["first"], pages[key]["slot_scale"] = key[1], each.time, scale
            _count(pages[key][0], each, slot_ns)
        threads = sorted({thread for thread, _ in pages})
        header = np.zeros(1, HEADER)
        header["mode"], header["page_bytes"], header["ended"] = COUNTING, PAGE_BYTES, self.end
        header["threads"] = len(threads)
        known = np.zeros(len(threads), THREAD)
        for number, thread in enumerate(threads):
            known[number]["tid"], known[number]["number"] = 100 + thread, thread
            known[number]["cpu"] = self.cpus.get(thread, 0)
        objects = np.zeros(len(self.objects), OBJECT)
        for number, (address, size, born, freed, callers) in enumerate(self.objects):
            entry = objects[number]
            entry["address"], entry["bytes"], entry["born"], entry["freed"] = address, size, born, freed
            entry["kind"], entry["callers"][: len(callers)] = 1, callers
        places = np.zeros(len(self.places), PLACE)
        places["page"], places["node"] = list(self.places), list(self.places.values())
        mine = {
            thread: np.concatenate(
                [page for (of, _), page in sorted(pages.items(), key=lambda i: i[0]) if of == thread]
            )
            for thread in threads
        }
        return RankTable(
            header[0], mine, objects, known, np.empty(0, TOUCH), np.empty(0, INTERVAL), places, self.maps
        )


def _count(page: np.ndarray, each: Access, slot_ns: int) -> None:
    words = np.array(each.addresses) % PAGE_BYTES // 8
    way, bits = ("writes", "written") if each.written else ("reads", "read")
    flags = np.zeros(PAGE_BYTES // 8, np.bool_)
    flags[words] = True
    packed = np.packbits(flags, bitorder="little").view(np.uint64)
    page[way] += np.uint64(each.times * len(words))
    page["last"] = each.time
    page[f"{bits}_words"] |= packed
    np.add.at(page[f"line_{way}"], words // 8, np.uint32(each.times))
    if each.times >= OFTEN:
        page["often"] |= packed
    page[f"{bits}_slots"] |= np.uint64(1 << each.time // slot_ns)
