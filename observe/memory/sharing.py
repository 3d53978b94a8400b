"""Which pages threads share, and the cache lines that they contend for.

Two threads share a page if they touched it in the same part of the run (Beniamine 2016, 6.1.3: accesses whose
intervals intersect). If one of them wrote, they must have done so in several parts: a page that one thread
sets up for another, or looks at in the end, is not shared. A shared page is write-shared if one thread wrote
a word that another one used, and false-shared if some wrote but no word was used by two threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from npc.observe.memory.accesses import SLOTS, Accesses, Flags, Integers
from npc.observe.memory.names import PAGE_BYTES, NamedStructure
from npc.observe.memory.owners import ThreadPieces, starts_of
from npc.observe.memory.records import SHARINGS, SharedLine, Sharing, SharingInterval
from npc.observe.memory.table import LAYOUT, Entries

LINE_BYTES: Final = LAYOUT.numbers["NPC_LINE_BYTES"]
_WORD: Final = 8
PRIVATE, READ_SHARED, WRITE_SHARED, FALSE_SHARED = range(4)
#: A thread contends for a line if it has at least this share of the accesses of the thread with most; others
#: only set it up, or look at the result.
_TAKES_PART: Final = 0.01
#: Fewest accesses of such a thread, counted and sampled. A line that moves between cores takes about 100 ns
#: (Levinthal 2009: 75 to 300 cycles), so a thousand take a tenth of a millisecond; a sampled access is the
#: first of an interval.
_LEAST_ACCESSES: Final = 1000
_LEAST_TOUCHES: Final = 3
#: Fewest parts of the run in which two threads touched a page and one wrote: in fewer it may have been handed
#: over from one to the other.
_TOGETHER: Final = 3
_MOST_LINES: Final = 20
_MOST_WORDS: Final = 8
#: Parts of the run in the picture.
_INTERVALS: Final = 32
_MOST_PAIRS: Final = 1 << 16
#: Entries that are processed at a time.
_MOST_ENTRIES: Final = 1 << 14

Classes = npt.NDArray[np.int8]


class SharingGroups(NamedTuple):
    """How pages are shared. A group is the pieces of one page and structure."""

    #: Where the groups begin among the pieces.
    starts: Integers
    #: Of each group, a place in `SHARINGS`.
    classes: Classes
    #: Of each piece, whether another thread used the page in the same part of the run.
    overlaps: Flags


def shared_pages(pieces: ThreadPieces) -> SharingGroups:
    """How the pages of each structure are shared."""
    starts = starts_of(pieces.structure, pieces.page)
    number = len(pieces.page)
    group = np.repeat(np.arange(len(starts)), np.diff([*starts, number]))
    used = pieces.read_words | pieces.written_words
    slots = pieces.read_slots | pieces.written_slots
    overlaps = np.zeros(number, np.bool_)
    shared, written, same = (np.zeros(len(starts), np.bool_) for _ in range(3))
    widest = int(np.diff([*starts, number]).max(initial=0))
    for apart in range(1, widest):
        pairs = np.flatnonzero(group[:-apart] == group[apart:])
        for begin in range(0, len(pairs), _MOST_PAIRS):
            one = pairs[begin : begin + _MOST_PAIRS]
            one = one[(slots[one] & slots[one + apart]) != 0]
            other = one + apart
            overlaps[one] = overlaps[other] = True
            wrote = (pieces.written_slots[one] & slots[other]) | (slots[one] & pieces.written_slots[other])
            changed = np.bitwise_count(wrote) >= _TOGETHER
            shared[group[one[changed | (slots[one] & slots[other] & ~wrote != 0)]]] = True
            written[group[one[changed]]] = True
            mine, others = pieces.written_words[one], pieces.written_words[other]
            both = ((mine & used[other]) | (others & used[one])).any(axis=1) & changed
            same[group[one[both]]] = True
    classes = np.full(len(starts), PRIVATE, np.int8)
    classes[shared] = READ_SHARED
    classes[written] = FALSE_SHARED
    classes[same] = WRITE_SHARED
    return SharingGroups(starts, classes, overlaps)


def counted(classes: Classes) -> dict[Sharing, int]:
    """Sharing → pages, without kinds that no page has."""
    number = np.bincount(classes, minlength=len(SHARINGS))
    return {name: int(pages) for name, pages in zip(SHARINGS, number, strict=True) if pages}


def intervals(
    pieces: ThreadPieces, shared: SharingGroups, names: Mapping[int, str], slot_ns: int, end_s: float
) -> Iterator[SharingInterval]:
    """Touched pages of some structures (number → name) by sharing, in each part of the run. Where several
    threads touched a page in a part, it counts as it is shared in the whole run."""
    slots = pieces.read_slots | pieces.written_slots
    group = np.repeat(np.arange(len(shared.starts)), np.diff([*shared.starts, len(slots)]))
    last = SLOTS - _leading_zeros(int(np.bitwise_or.reduce(slots, initial=np.uint64(0))))
    width = -(-last // _INTERVALS) if last else 1
    structure = pieces.structure[shared.starts]
    for begin in range(0, last, width):
        mask = np.uint64(((1 << width) - 1) << begin & (1 << SLOTS) - 1)
        here = (slots & mask) != 0
        threads = np.bincount(group[here], minlength=len(structure))
        wrote = np.bincount(group[here & ((pieces.written_slots & mask) != 0)], minlength=len(structure)) > 0
        classes = np.where(
            (threads < 2) | (shared.classes == PRIVATE), PRIVATE, np.where(wrote, shared.classes, READ_SHARED)
        )
        ends = min((begin + width) * slot_ns / 1e9, end_s) if end_s else (begin + width) * slot_ns / 1e9
        for number, name in names.items():
            mine = classes[(structure == number) & (threads > 0)]
            if len(mine):
                yield SharingInterval(begin * slot_ns / 1e9, ends, name, counted(mine))


def _leading_zeros(bits: int) -> int:
    return SLOTS - bits.bit_length()


# --- lines -------------------------------------------------------------------------------------------------


class ContendedLine(NamedTuple):
    """A cache line that threads contend for."""

    #: In memory.
    address: int
    #: Of the threads that take part, places in `Accesses.pages`.
    entries: Integers
    #: Of each entry, words of the line that the thread uses much, a bit each.
    words: tuple[int, ...]
    #: Of each entry, those of them that it writes.
    written: tuple[int, ...]
    #: Of all threads that use the line.
    accesses: int
    #: ``false-shared`` where they use different words, ``write-shared`` where they use the same.
    kind: Sharing


def contended_lines(
    accesses: Accesses, pieces: ThreadPieces, shared: SharingGroups, sampled: bool
) -> list[ContendedLine]:
    """The contended lines, those with most accesses first.

    A thread uses a word if it comes back to it. So one thread may set all words of a line to zero before
    others use one each, and the words are still not shared.
    """
    overlapping = np.unique(pieces.entry[shared.overlaps])
    return sorted(_lines(accesses, overlapping, sampled), key=lambda line: -line.accesses)


def without_false_sharing(
    pieces: ThreadPieces, shared: SharingGroups, lines: Sequence[ContendedLine]
) -> SharingGroups:
    """The groups with the classes of pages computed again, without the words of falsely shared lines."""
    false = [line.address for line in lines if line.kind == "false-shared"]
    some = np.isin(pieces.page, [address // PAGE_BYTES for address in false])
    if not some.any():
        return shared
    again = pieces.take(some)
    for address in false:
        here = again.page == address // PAGE_BYTES
        for words in (again.read_words, again.written_words):
            words.view(np.uint8)[here, address % PAGE_BYTES // LINE_BYTES] = 0
    classes = shared.classes.copy()
    classes[some[shared.starts]] = shared_pages(again).classes
    return shared._replace(classes=classes)


def told_lines(
    lines: Sequence[ContendedLine],
    accesses: Accesses,
    pieces: ThreadPieces,
    structures: Sequence[NamedStructure],
    extents: Entries,
) -> list[SharedLine]:
    """The first lines, with their structures. extents: of the layout."""
    owners = _owners(pieces, {int(entry) for line in lines[:_MOST_LINES] for entry in line.entries})
    return [_shared_line(line, accesses, owners, structures, extents) for line in lines[:_MOST_LINES]]


def _lines(accesses: Accesses, entries: Integers, sampled: bool) -> Iterator[ContendedLine]:
    """The contended lines, found for some pages at a time, among threads with enough accesses to the page."""
    least = _LEAST_TOUCHES if sampled else _LEAST_ACCESSES
    entries = entries[accesses.pages["reads"][entries] + accesses.pages["writes"][entries] >= least]
    starts = starts_of(accesses.pages["page"][entries])
    ends = np.append(starts[1:], len(entries))
    begin = 0
    while begin < len(starts):
        after = int(np.searchsorted(ends, starts[begin] + _MOST_ENTRIES, "right"))
        after = max(after, begin + 1)
        yield from _lines_of(accesses, entries[starts[begin] : ends[after - 1]], least)
        begin = after


def _lines_of(accesses: Accesses, entries: Integers, least: int) -> Iterator[ContendedLine]:
    pages = accesses.pages[entries]
    starts = starts_of(pages["page"])
    reads, writes = pages["line_reads"].astype(np.int64), pages["line_writes"].astype(np.int64)
    both = reads + writes
    group = np.repeat(np.arange(len(starts)), np.diff([*starts, len(pages)]))
    takes_part = both >= np.maximum(least, _TAKES_PART * np.maximum.reduceat(both, starts, axis=0))[group]
    writers = np.add.reduceat((takes_part & (writes > 0)).astype(np.int64), starts, axis=0)
    members = np.add.reduceat(takes_part.astype(np.int64), starts, axis=0)
    used = (pages["read_words"] | pages["written_words"]).view(np.uint8).reshape(-1, LINE_BYTES)
    wrote = np.ascontiguousarray(pages["written_words"]).view(np.uint8).reshape(-1, LINE_BYTES)
    often = np.ascontiguousarray(pages["often"]).view(np.uint8).reshape(-1, LINE_BYTES)
    ends = [*starts[1:], len(pages)]
    for number, line in np.argwhere((members > 1) & (writers > 0)):
        here = np.arange(starts[number], ends[number])
        here = here[takes_part[here, line]]
        words = [int(often[slot, line] or used[slot, line]) for slot in here]
        written = [int(wrote[slot, line]) & mine for slot, mine in zip(here, words, strict=True)]
        once = twice = 0
        for mine in words:
            twice |= once & mine
            once |= mine
        if not any(written):
            continue
        kind: Sharing = (
            "write-shared" if any(words_written & twice for words_written in written) else "false-shared"
        )
        address = int(pages["page"][here[0]]) * PAGE_BYTES + int(line) * LINE_BYTES
        yield ContendedLine(
            address, entries[here], tuple(words), tuple(written), int(both[here, line].sum()), kind
        )


def _owners(pieces: ThreadPieces, wanted: set[int]) -> dict[tuple[int, int], int]:
    """(entry, line of the page) → structure."""
    rows: dict[tuple[int, int], int] = {}
    for place in np.flatnonzero(np.isin(pieces.entry, list(wanted))):
        lines = int(pieces.lines[place])
        for line in range(PAGE_BYTES // LINE_BYTES):
            if lines >> line & 1:
                rows.setdefault((int(pieces.entry[place]), line), int(pieces.structure[place]))
    return rows


def _shared_line(
    line: ContendedLine,
    accesses: Accesses,
    owners: Mapping[tuple[int, int], int],
    structures: Sequence[NamedStructure],
    extents: Entries,
) -> SharedLine:
    row = line.address % PAGE_BYTES // LINE_BYTES
    numbers = [owners.get((int(entry), row), len(structures) - 1) for entry in line.entries]
    number = max(set(numbers), key=numbers.count)
    structure = structures[number]
    mine = extents[extents["structure"] == number]
    mine = mine[(mine["begin"] < line.address + LINE_BYTES) & (mine["end"] > line.address)]
    begin = int(mine["begin"][0]) if len(mine) else line.address
    words = []
    for entry, used, written in zip(line.entries, line.words, line.written, strict=True):
        thread = int(accesses.threads[entry])
        does = "writes" if written else "reads"
        what = _elements(structure, begin, line.address, written or used)
        words.append(f"thread {thread} {does} {what}")
    entries = accesses.pages[line.entries]
    return SharedLine(
        structure.name, structure.where, max(line.address - begin, 0), line.kind,
        tuple(int(accesses.threads[entry]) for entry in line.entries),
        int(entries["line_reads"][:, row].sum(dtype=np.int64)),
        int(entries["line_writes"][:, row].sum(dtype=np.int64)),
        tuple(words[:_MOST_WORDS]),
    )  # fmt: skip


def _elements(structure: NamedStructure, begin: int, line: int, words: int) -> str:
    """``counts[1]``, ``counts[4…7]``; bytes where the size of an element is not known."""
    runs: list[tuple[int, int]] = []
    for word in range(LINE_BYTES // _WORD):
        if words >> word & 1:
            first = line + word * _WORD - begin
            if runs and runs[-1][1] == first:
                first = runs.pop()[0]
            runs.append((first, line + (word + 1) * _WORD - begin))
    parts = []
    for first, after in runs:
        first = max(first, 0)
        if 0 < structure.element < structure.bytes:
            low, high = first // structure.element, (after - 1) // structure.element
            parts.append(f"{structure.name}[{low}]" if low == high else f"{structure.name}[{low}…{high}]")
        elif structure.element and structure.bytes == structure.element:
            parts.append(structure.name)
        else:
            parts.append(f"{structure.name}, bytes {first} to {after - 1}")
    return ", ".join(dict.fromkeys(parts))
