"""What `npc observe --memory` keeps of a made-up product of matrices: bad first touch and false sharing.

``A`` is read, ``C`` is written by the thread that has their rows; ``B`` is read by all; ``bins`` is written
by all, mostly in its middle; ``counts`` has a word a thread in one line; stacks are small and private.
Thread 0 initialised all but ``C``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from npc.observe.memory.records import (
    Density,
    MemoryHint,
    MemoryUse,
    NumaUse,
    RankMemory,
    SharedLine,
    Sharing,
    SharingInterval,
    Structure,
    StructureKind,
)

#: Of a map, as an observation keeps it.
ROWS, BINS = 64, 128
PAGE = 4096

#: (row, bin) as shares of all rows and bins → accesses.
Pattern = Callable[[float, float], int]


def density(threads: int, pages: int, reads: Pattern, writes: Pattern, own_first: bool = False) -> Density:
    """That of a structure all of whose pages were touched."""
    group, bins = -(-threads // ROWS), min(pages, BINS)
    numbers = tuple(range(0, threads, group))
    rows = len(numbers)

    def counts(of: Pattern) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(of(row / rows, at / bins) for at in range(bins)) for row in range(rows))

    first = tuple(numbers[at * rows // bins] if own_first else 0 for at in range(bins))
    return Density(-(-pages // bins), numbers, counts(reads), counts(writes), first, group)


def _structure(
    name: str,
    kind: StructureKind,
    where: str,
    size: int,
    threads: int,
    sharing: dict[Sharing, int],
    of: Density | None,
    *,
    own_first: bool = False,
    accesses: tuple[int, int] = (0, 0),
) -> Structure:
    if of:
        accesses = sum(map(sum, of.reads)), sum(map(sum, of.writes))
    first = 1 / threads if own_first else 1.0
    pages = max(1, size // PAGE)
    return Structure(name, kind, where, size, 1, *accesses, pages, sharing, threads, 0, first, of)


def structures(threads: int, number: int, pages: int = 4096) -> Iterator[Structure]:
    """`number` structures of the program with `threads` threads."""
    size = pages * PAGE

    def never(row: float, at: float) -> int:
        return 0

    def all_of_it(row: float, at: float) -> int:
        return 100_000

    def own(row: float, at: float) -> int:
        return 900_000 if 0 <= at - row < 1 / min(threads, ROWS) else 0

    def set_by_first(row: float, at: float) -> int:
        return 1000 if row == 0 else 0

    def middle(row: float, at: float) -> int:
        return round(200_000 * math.exp(-(((at - 0.5) / 0.1) ** 2)))

    def line(row: float, at: float) -> int:
        return 50_000_000

    heap: StructureKind = "heap"
    a, b, c = (
        density(threads, pages, *patterns)
        for patterns in ((own, set_by_first), (all_of_it, set_by_first), (own, own, True))
    )
    yield _structure("A", heap, "matmul.c:12", size, threads, {"private": pages}, a)
    yield _structure("B", heap, "matmul.c:13", size, threads, {"read-shared": pages}, b)
    edges = min(threads - 1, pages)
    split: dict[Sharing, int] = {"private": pages - edges, "false-shared": edges}
    yield _structure("C", heap, "matmul.c:14", size, threads, split, c, own_first=True)
    bins = density(threads, pages // 4, middle, middle)
    yield _structure("bins", "global", "", size // 4, threads, {"write-shared": pages // 4}, bins)
    counts = density(threads, 1, line, line)
    yield _structure("counts", "global", "", 8 * threads, threads, {"false-shared": 1}, counts)
    for other in range(number - 5):
        name, kind = f"stack of thread {other}", "stack"
        if other >= threads:
            name, kind = f"malloc#{other}", heap
        yield _structure(name, kind, "", PAGE, 1, {"private": 1}, None, accesses=(5000 + other, 1000))  # type: ignore[arg-type]


def intervals(number: int, pages: int = 4096) -> Iterator[SharingInterval]:
    """Initialisation by one thread, then all of them."""
    for place in range(number):
        begin, end = place / 10, (place + 1) / 10
        if place < number // 4:
            yield SharingInterval(begin, end, "A", {"private": pages // 2})
            continue
        yield SharingInterval(begin, end, "A", {"private": pages})
        yield SharingInterval(begin, end, "B", {"read-shared": pages})
        written = pages // 4 * (place % 5) // 5
        yield SharingInterval(begin, end, "bins", {"write-shared": written, "private": pages // 4 - written})
        yield SharingInterval(begin, end, "counts", {"false-shared": 1})


def rank_memory(
    threads: int = 2,
    number: int = 8,
    *,
    pages: int = 4096,
    moments: int = 40,
    rank: int = 0,
    numa: bool = True,
) -> RankMemory:
    """One rank's. moments: intervals of its course."""
    found = tuple(sorted(structures(threads, number, pages), key=lambda each: -(each.reads + each.writes)))
    words = tuple(f"thread {thread} writes counts[{thread}]" for thread in range(min(threads, 8)))
    line = SharedLine(
        "counts", "", 0, "false-shared", tuple(range(min(threads, 8))), 4 * 10**8, 4 * 10**8, words
    )
    place = NumaUse("B", {0: pages, 1: 0}, 0.5, 0.5, 0.02)
    return RankMemory(
        rank=rank,
        host="n0",
        seconds=4.0,
        threads=threads,
        reads=sum(each.reads for each in found),
        writes=sum(each.writes for each in found),
        structures=found,
        lines=(line,),
        intervals=tuple(intervals(moments, pages)),
        numa=(place,) if numa else (),
        numa_reason="" if numa else "this node has one NUMA node",
        notes=("2 allocations were freed by another thread",),
    )


HINTS = (
    MemoryHint(
        "false sharing",
        "counts",
        "2 threads write other words of one cache line 400 M times",
        "give each thread's counter a line of its own: alignas(64)",
        "17 s of waiting for the line",
    ),
    MemoryHint(
        "first touch",
        "B",
        "thread 0 touched all of its 4096 pages first; 2 threads use it",
        "initialise it in the same parallel loop that uses it",
    ),
)


def memory_use(*ranks: RankMemory, **more: object) -> MemoryUse:
    """Of the ranks, counted."""
    said: dict[str, object] = {
        "source": "every access of code by npc program cc",
        "slowdown": 12.0,
        "hints": HINTS,
    }
    said |= {"ranks_seen": len(ranks), **more}
    return MemoryUse(status="ok", ranks=ranks, **said)  # type: ignore[arg-type]
