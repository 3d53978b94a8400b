"""Which structure each access was to: pages are divided among the structures that lie in them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from npc.observe.memory.accesses import Accesses, Flags, Integers, Words
from npc.observe.memory.names import PAGE_BYTES, Layout, NamedStructure
from npc.observe.memory.table import Entries

_WORD: Final = 8
_WORDS: Final = PAGE_BYTES // _WORD
_TAKEN: Final = (
    "page", "reads", "writes", "first", "last", "read_words", "written_words", "read_slots", "written_slots",
)  # fmt: skip
_ALL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
#: The structure of cache lines in which a thread used several heap blocks that are smaller than a page.
SMALL_BLOCKS: Final = "small heap blocks"


class ThreadPieces(NamedTuple):
    """What threads did to parts of pages, in columns. A piece is one thread's use of one page, as far as the
    page belongs to one structure. Pieces are in the order of structures, pages and threads."""

    #: Place in `Accesses.pages`.
    entry: Integers
    #: Its number.
    structure: Integers
    #: The page's number.
    page: Words
    #: The thread's number.
    thread: Integers
    #: Accesses.
    reads: Integers
    #: Accesses.
    writes: Integers
    #: The first access, since the rank's start (ns).
    first: Words
    #: The last access, since the rank's start (ns).
    last: Words
    #: Words of 8 bytes that it read, a bit each, (pieces, 8).
    read_words: Words
    #: Words of 8 bytes that it wrote, a bit each, (pieces, 8).
    written_words: Words
    #: Parts of the run in which it read, a bit each of `Accesses.slot_ns`.
    read_slots: Words
    #: Parts of the run in which it wrote, a bit each of `Accesses.slot_ns`.
    written_slots: Words
    #: Cache lines of the page that belong to the structure, a bit each.
    lines: Words

    def take(self, which: Integers | Flags) -> ThreadPieces:
        """Some of the pieces."""
        return ThreadPieces(*(column[which] for column in self))  # type: ignore[arg-type]


class _Claims(NamedTuple):
    """Which structure claims which words of which page, in columns."""

    #: Its place among the touched pages.
    page: Integers
    #: Its number.
    structure: Integers
    #: Words of 8 bytes, a bit each, (claims, 8).
    words: Words


def pieces_of(accesses: Accesses, layout: Layout) -> tuple[ThreadPieces, list[NamedStructure]]:
    """The pieces and their structures: those of the layout, one for small blocks, one for unknown memory."""
    structures = [
        *layout.structures,
        NamedStructure(SMALL_BLOCKS, "small", "", 0, 0),
        NamedStructure("unknown", "other", "", 0, 0),
    ]
    pages, page_of_entry = np.unique(accesses.pages["page"], return_inverse=True)
    claims = _claims(pages, layout.extents)
    number = np.bincount(claims.page, minlength=len(pages))
    begin = np.concatenate([[0], np.cumsum(number)])[:-1]
    # One row for each pair of an entry and a claim of its page.
    of_entry = number[page_of_entry]
    entry = np.repeat(np.arange(len(page_of_entry)), of_entry)
    claim = (
        np.arange(len(entry))
        - np.repeat(np.cumsum(of_entry) - of_entry, of_entry)
        + begin[page_of_entry][entry]
    )
    used = accesses.used
    touched = used[entry] & claims.words[claim]
    some = touched.any(axis=1)
    entry, structure, touched = entry[some], claims.structure[claim[some]], touched[some]
    alone = np.bincount(entry, minlength=len(used))[entry] == 1
    alone &= (touched == used[entry]).all(axis=1)
    whole = _pieces(accesses, entry[alone], structure[alone], np.full(int(alone.sum()), _ALL))
    lines = _lines_of(entry[~alone], structure[~alone], touched[~alone], used, layout, len(structures))
    parts = _pieces(accesses, *lines)
    nobody = np.setdiff1d(np.arange(len(used)), entry)
    rest = _pieces(accesses, nobody, np.full(len(nobody), len(structures) - 1), np.full(len(nobody), _ALL))
    both = ThreadPieces(*(np.concatenate(columns) for columns in zip(whole, parts, rest, strict=True)))
    both = both.take(np.lexsort((both.thread, both.page, both.structure)))
    return both, structures


def _claims(pages: Entries, extents: Entries) -> _Claims:
    """The claims by page and structure; words that several claim go to the smallest kind
    (`Layout.extents`)."""
    begin, end = extents["begin"], extents["end"]
    low = np.searchsorted(pages, begin // PAGE_BYTES)
    high = np.searchsorted(pages, (end + np.uint64(PAGE_BYTES - 1)) // PAGE_BYTES)
    number = np.maximum(high - low, 0)
    extent = np.repeat(np.arange(len(extents)), number)
    page = np.arange(len(extent)) - np.repeat(np.cumsum(number) - number, number) + low[extent]
    at = pages[page] * np.uint64(PAGE_BYTES)
    first = np.where(begin[extent] > at, begin[extent] - at, 0) // _WORD
    last = (
        np.where(
            end[extent] < at + np.uint64(PAGE_BYTES), end[extent] - at + np.uint64(_WORD - 1), PAGE_BYTES
        )
        // _WORD
    )
    words = _mask(first.astype(np.int64), last.astype(np.int64))
    structure, kind = extents["structure"][extent], extents["kind"][extent]
    order = np.lexsort((structure, kind, page))
    page, structure, kind, words = page[order], structure[order], kind[order], words[order]
    starts = starts_of(page, structure)
    if not len(starts):
        return _Claims(page, structure, words)
    words = np.bitwise_or.reduceat(words, starts, axis=0)
    page, structure = page[starts], structure[starts]
    kind = kind[starts]
    for better in np.unique(kind)[:-1]:  # words that a smaller kind claims are taken from the others
        taken = np.zeros((len(pages), words.shape[1]), np.uint64)
        mine = kind == better
        np.bitwise_or.at(taken, page[mine], words[mine])
        later = kind > better
        words[later] &= ~taken[page[later]]
    return _Claims(page, structure, words)


def _mask(first: Integers, last: Integers) -> Words:
    """Bits first … last − 1 of a page's words, (n, 8)."""
    begin = np.arange(0, _WORDS, 64)

    def below(end: Integers) -> Words:
        bits = np.clip(end[:, None] - begin, 0, 64)
        part = np.left_shift(np.uint64(1), np.minimum(bits, 63).astype(np.uint64)) - np.uint64(1)
        return np.where(bits == 64, _ALL, part)

    return np.asarray(below(last) & ~below(first))


def starts_of(*keys: Integers | Words) -> Integers:
    """Where groups of equal keys begin, in order."""
    if not len(keys[0]):
        return np.empty(0, np.int64)
    new = np.zeros(len(keys[0]), np.bool_)
    new[0] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


def _lines_of(
    entry: Integers, structure: Integers, touched: Words, used: Words, layout: Layout, number: int
) -> tuple[Integers, Integers, Words]:
    """(entry, structure, lines): the cache lines of pages with several structures, each line for one of them.
    Small blocks that share a line are counted together; otherwise the line goes to the structure with most
    words in it."""
    small = np.isin(np.arange(number), list(layout.small))
    words = np.bitwise_count(touched.view(np.uint8)).reshape(-1, 64)
    order = np.lexsort((entry,))
    entry, structure, words = entry[order], structure[order], words[order]
    starts = starts_of(entry)
    if not len(starts):
        return entry, structure, np.empty(0, np.uint64)
    claimants = np.add.reduceat((words > 0).astype(np.int64), starts, axis=0)
    all_small = np.minimum.reduceat(
        ((words == 0) | small[structure][:, None]).astype(np.int64), starts, axis=0
    )
    most = np.maximum.reduceat(words, starts, axis=0)
    group = np.repeat(np.arange(len(starts)), np.diff([*starts, len(entry)]))
    best = (words == most[group]) & (words > 0)
    # Of several with equally many words the first one gets the line.
    before = np.cumsum(best, axis=0) - best
    best &= before == before[starts][group]
    together = (claimants > 1) & (all_small == 1)
    mine = best & ~together[group]
    left = np.bitwise_count(used[entry[starts]].view(np.uint8)).reshape(-1, 64) > 0
    nobody = left & (claimants == 0)
    parts = [
        (entry, structure, _bits(mine)),
        (entry[starts], np.full(len(starts), number - 2), _bits(together)),
        (entry[starts], np.full(len(starts), number - 1), _bits(nobody)),
    ]
    keep = [lines > 0 for _, _, lines in parts]
    return (
        np.concatenate([part[0][which] for part, which in zip(parts, keep, strict=True)]),
        np.concatenate([part[1][which] for part, which in zip(parts, keep, strict=True)]),
        np.concatenate([part[2][which] for part, which in zip(parts, keep, strict=True)]),
    )


def _bits(flags: Flags) -> Words:
    """(n, 64) flags as a word each."""
    return np.packbits(flags, axis=1, bitorder="little").view(np.uint64).reshape(-1)


def flags(bits: Words) -> Flags:
    """The reverse of `_bits`: (n, 64)."""
    return np.unpackbits(bits.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little").astype(np.bool_)


def _pieces(accesses: Accesses, entry: Integers, structure: Integers, lines: Words) -> ThreadPieces:
    """The pieces of entries, with only the cache lines that count."""
    pages = {name: accesses.pages[name][entry] for name in _TAKEN}  # not whole entries: these are large
    reads, writes = pages["reads"].astype(np.int64), pages["writes"].astype(np.int64)
    part = np.flatnonzero(lines != _ALL)
    if len(part):
        chosen = flags(lines[part])
        for sums, name in ((reads, "line_reads"), (writes, "line_writes")):
            sums[part] = (accesses.pages[name][entry[part]] * chosen).sum(axis=1, dtype=np.int64)
        bytes_of = np.where(chosen, np.uint8(255), np.uint8(0)).view(np.uint64).reshape(-1, 8)
        pages["read_words"][part] &= bytes_of
        pages["written_words"][part] &= bytes_of
    return ThreadPieces(
        entry, structure, pages["page"], accesses.threads[entry], reads, writes, pages["first"],
        pages["last"], pages["read_words"], pages["written_words"], pages["read_slots"],
        pages["written_slots"], lines,
    )  # fmt: skip
