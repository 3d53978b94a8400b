"""Reduces a rank's table, which may be gigabytes, to a small file, on its node after the rank has ended.

    python observe/memory/reduce.py TABLE FILE ABOUT

ABOUT: a JSON object with ``rank``, ``host``, ``source`` and ``notes``; with ``reason`` there is no table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

if not __package__:  # started by its path
    sys.path[0] = str(Path(__file__).absolute().parents[3])

import msgspec
import numpy as np

from npc import own_folder
from npc.observe.memory import names, sharing
from npc.observe.memory.accesses import Integers, accesses_of
from npc.observe.memory.owners import ThreadPieces, pieces_of, starts_of
from npc.observe.memory.placement import cpu_of_threads, node_of_cpus, numa_uses
from npc.observe.memory.records import Density, MemoryMode, RankMemory, Structure
from npc.observe.memory.table import LAYOUT, SAMPLING, Entries, RankTable, read_table
from npc.terminal import guard

#: Structures with a smaller share of the accesses (Tabarnac: 0.01 %, Beniamine 2016, 4.1.3), and those beyond
#: the first ones, are put together; still fewer have pictures.
_LEAST_SHARE: Final = 1e-4
_MOST_STRUCTURES: Final = 40
_MOST_PICTURES: Final = 12
_BINS: Final = 128
_ROWS: Final = 64
_OTHERS: Final = "all others"
#: What a bit of the header's `obstacles` (npc_obstacle) means.
_OBSTACLES: Final = {
    "NPC_NO_CATCHING": "nothing was seen: no Syscall User Dispatch (Linux 5.11 on x86-64 and later)",
    "NPC_MANY_STACKS": "the program runs on stacks of its own making, whose accesses were seen in part",
    "NPC_OTHER_THREADS": "threads that were made past pthread_create were not seen",
    "NPC_KERNEL_RINGS": "io_uring or aio: what the kernel reads and writes without a call was not seen",
    "NPC_UNKNOWN_CALLS": (
        "a thread slept in a system call whose reach is not known: pages were open meanwhile"
    ),
    "NPC_UNSETTLED": (
        "a thread was long in a call, or had SIGSEGV or SIGSYS blocked: pages were open meanwhile"
    ),
}


class RankFile(msgspec.Struct, kw_only=True):
    """What a rank leaves."""

    #: ``ok``, or why there is nothing else.
    status: str = "ok"
    #: How accesses were seen.
    mode: MemoryMode = "counting"
    #: What saw them, in words.
    source: str = ""
    #: Size of a page (B).
    page_bytes: int = 4096
    #: None where there is nothing, for `status`.
    memory: RankMemory | None = None


def main(arguments: list[str]) -> int:
    """Exit code 1, with a line, where the table cannot be read."""
    table, path, about = Path(arguments[0]), Path(arguments[1]), msgspec.json.decode(arguments[2])
    try:
        left = RankFile(status=about["reason"]) if about.get("reason") else reduced(read_table(table), about)
        own_folder.save(path, [msgspec.json.encode(left)])
    except (OSError, ValueError) as error:
        print(f"npc observe: memory of rank {about.get('rank', 0)}: {error}", file=sys.stderr)
        return 1
    return 0


def reduced(table: RankTable, about: Mapping[str, object]) -> RankFile:
    """What the rank leaves. about: ``rank``, ``host``, ``source``, ``notes``."""
    sampled = int(table.header["mode"]) == SAMPLING
    return RankFile(
        mode="sampling" if sampled else "counting",
        source=str(about.get("source", "")),
        page_bytes=int(table.header["page_bytes"]),
        memory=rank_memory(
            table, int(str(about.get("rank", 0))), str(about.get("host", "")), _notes(table, about)
        ),
    )


def rank_memory(
    table: RankTable,
    rank: int,
    host: str,
    notes: tuple[str, ...] = (),
    nodes: Mapping[int, int] | None = None,
) -> RankMemory:
    """The memory of a process, reduced. nodes: CPU → its NUMA node, by default of this machine."""
    sampled = int(table.header["mode"]) == SAMPLING
    accesses = accesses_of(table)
    for own in names.pages_of_table(table.maps):
        pages = accesses.pages["page"]
        programs = (pages < own.start) | (pages >= own.stop)
        if not programs.all():
            accesses = accesses._replace(pages=accesses.pages[programs], threads=accesses.threads[programs])
    layout = names.layout(table, np.unique(accesses.pages["page"]))
    pieces, structures = pieces_of(accesses, layout)
    shared = sharing.shared_pages(pieces)
    amount = np.bincount(pieces.structure, pieces.reads + pieces.writes, len(structures)).astype(np.int64)
    contended = sharing.contended_lines(accesses, pieces, shared, sampled)
    shared = sharing.without_false_sharing(pieces, shared, contended)
    lines = sharing.told_lines(contended, accesses, pieces, structures, layout.extents)
    order = [int(number) for number in np.argsort(-amount, kind="stable") if amount[number]]
    with_lines = {line.structure for line in lines}
    chosen = [
        number
        for place, number in enumerate(order)
        if structures[number].name in with_lines
        or (place < _MOST_STRUCTURES and amount[number] >= _LEAST_SHARE * amount.sum())
    ]
    described = [
        _structure(number, structures[number], pieces, shared, layout.extents, place < _MOST_PICTURES)
        for place, number in enumerate(chosen)
    ]
    left = [number for number in order if number not in set(chosen)]
    if left:
        described.append(_others(left, pieces, shared))
    pictured = {number: structures[number].name for number in chosen[:_MOST_PICTURES]}
    end_s = (int(table.header["ended"]) or int(accesses.pages["last"].max(initial=0))) / 1e9
    numa, reason = numa_uses(
        pieces,
        pictured,
        table.places,
        cpu_of_threads(table.threads, table.touches),
        node_of_cpus() if nodes is None else nodes,
    )
    tracked, guarded = (int(table.intervals[name].sum()) for name in ("tracked", "guarded"))
    return RankMemory(
        rank=rank,
        host=host,
        seconds=end_s,
        threads=len(table.threads) or len(np.unique(accesses.threads)),
        reads=int(pieces.reads.sum()),
        writes=int(pieces.writes.sum()),
        structures=tuple(described),
        lines=tuple(lines),
        intervals=tuple(sharing.intervals(pieces, shared, pictured, accesses.slot_ns, end_s)),
        numa=tuple(numa),
        numa_reason=reason,
        guarded=guarded / tracked if tracked else 1.0,
        notes=notes,
    )


def _notes(table: RankTable, about: Mapping[str, object]) -> tuple[str, ...]:
    given = about.get("notes") or ()
    notes = [str(note) for note in given] if isinstance(given, list) else []
    if lost := int(table.header["lost"]):
        notes.append(f"{lost} accesses or allocations had no room in the table and are missing")
    obstacles = int(table.header["obstacles"])
    notes += [text for bit, text in _OBSTACLES.items() if obstacles & LAYOUT.numbers[bit]]
    if small := int(table.header["small"]):
        notes.append(f"{small} allocations below a page were not kept apart: their accesses are the heap's")
    if others := int(table.header["others"]):
        notes.append(f"{others} other processes of the rank were not looked at")
    if not int(table.header["ended"]):
        notes.append("the process did not come to its end")
    return tuple(notes)


def _structure(
    number: int,
    known: names.NamedStructure,
    pieces: ThreadPieces,
    shared: sharing.SharingGroups,
    extents: Entries,
    pictured: bool,
) -> Structure:
    mine = np.flatnonzero(pieces.structure == number)
    classes = shared.classes[pieces.structure[shared.starts] == number]
    some = pieces.take(mine)
    starts = starts_of(some.page)
    first = _first_threads(some, starts)
    threads, times = np.unique(first, return_counts=True)
    used = np.bitwise_or.reduceat(some.read_words | some.written_words, starts, axis=0)
    return Structure(
        name=known.name,
        kind=known.kind,
        where=known.where,
        bytes=known.bytes,
        allocations=known.allocations,
        reads=int(some.reads.sum()),
        writes=int(some.writes.sum()),
        pages=len(starts),
        sharing=sharing.counted(classes),
        threads=len(np.unique(some.thread)),
        first_thread=int(threads[times.argmax()]),
        first_share=float(times.max() / len(starts)),
        density=_density(some, starts, first, extents[extents["structure"] == number]) if pictured else None,
        lines=int(np.count_nonzero(used.view(np.uint8))),
        words=int(np.bitwise_count(used).sum()),
    )


def _others(numbers: list[int], pieces: ThreadPieces, shared: sharing.SharingGroups) -> Structure:
    """The structures that are not kept one by one, as one."""
    mine = np.isin(pieces.structure, numbers)
    of_group = np.isin(pieces.structure[shared.starts], numbers)
    return Structure(
        f"{_OTHERS} ({len(numbers)})", "other", "", 0, len(numbers), int(pieces.reads[mine].sum()),
        int(pieces.writes[mine].sum()), int(of_group.sum()), sharing.counted(shared.classes[of_group]),
        len(np.unique(pieces.thread[mine])), -1, 0.0,
    )  # fmt: skip


def _first_threads(pieces: ThreadPieces, starts: Integers) -> Integers:
    """Of each page, the thread that touched it first; of several at the same time the one with the smallest
    number."""
    group = np.repeat(np.arange(len(starts)), np.diff([*starts, len(pieces.page)]))
    order = np.lexsort((pieces.thread, pieces.first, group))
    return pieces.thread[order][starts]


def _density(pieces: ThreadPieces, starts: Integers, first: Integers, extents: Entries) -> Density:
    place = _positions(pieces.page, extents)
    pages_a_bin = -(-(int(place.max()) + 1) // _BINS)
    column = place // pages_a_bin
    columns = int(column.max()) + 1
    group = 1
    while len(np.unique(pieces.thread // group)) > _ROWS:
        group *= 2
    rows, row = np.unique(pieces.thread // group * group, return_inverse=True)

    def counts(amount: Integers) -> tuple[tuple[int, ...], ...]:
        table = np.zeros((len(rows), columns), np.int64)
        np.add.at(table, (row, column), amount)
        return tuple(map(tuple, table.tolist()))

    return Density(
        pages_a_bin, tuple(map(int, rows)), counts(pieces.reads), counts(pieces.writes),
        tuple(_most_common(first, column[starts], columns)), group,
    )  # fmt: skip


def _positions(pages: Entries, extents: Entries) -> Integers:
    """Pages counted from the first that was touched, without what lies between allocations."""
    if not len(extents):
        return np.asarray(np.unique(pages, return_inverse=True)[1], np.int64)
    begin = (extents["begin"] // names.PAGE_BYTES).astype(np.int64)
    end = ((extents["end"] - np.uint64(1)) // names.PAGE_BYTES).astype(np.int64)
    step = np.where(begin[1:] <= end[:-1], begin[1:] - begin[:-1], end[:-1] + 1 - begin[:-1])
    offset = np.concatenate([[0], np.cumsum(step)])
    mine = np.maximum(np.searchsorted(begin, pages.astype(np.int64), "right") - 1, 0)
    place = pages.astype(np.int64) - begin[mine] + offset[mine]
    return np.asarray(place - place.min())


def _most_common(threads: Integers, column: Integers, columns: int) -> Iterator[int]:
    """Of each column, the thread that is in it most often; −1 where none is."""
    for number in range(columns):
        of_column, times = np.unique(threads[column == number], return_counts=True)
        yield int(of_column[times.argmax()]) if len(of_column) else -1


if __name__ == "__main__":
    guard()
    sys.exit(main(sys.argv[1:]))
