"""Where a program's memory went, by structure, page and thread: the key `memory` of ``*.observed.json``.

Numbers of accesses are exact where every access was counted. Where accesses were sampled, they are first
accesses to a page in an interval. Sizes are bytes, times seconds since the rank's start. A structure is a
variable, or all allocations of one place in the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

#: The key of an observation.
MEMORY: Final = "memory"

#: counting: every access of code that was built for it. sampling: first accesses of an interval.
MemoryMode = Literal["counting", "sampling"]
StructureKind = Literal["global", "heap", "mapped", "stack", "small", "other"]
#: How threads share a page in the same part of the run (Beniamine 2016, §4.2): one thread alone; several that
#: only read; several that use the same words, which some write; several that write, each different words.
Sharing = Literal["private", "read-shared", "write-shared", "false-shared"]
SHARINGS: Final[tuple[Sharing, ...]] = ("private", "read-shared", "write-shared", "false-shared")


class Density(NamedTuple):
    """Accesses to a structure by thread (rows) and page (columns), as coarse as a picture can show. Columns
    begin at the structure's first touched page; several allocations follow one after the other."""

    #: Pages of a column.
    pages: int
    #: The first thread of each row.
    threads: tuple[int, ...]
    #: By row and column.
    reads: tuple[tuple[int, ...], ...]
    #: By row and column.
    writes: tuple[tuple[int, ...], ...]
    #: Of each column, the thread that touched most of its pages first; −1 where that is not known.
    first: tuple[int, ...]
    #: A row stands for this many threads, from its first one on.
    group: int = 1


def _is_whole(density: Density) -> bool:
    """Whether every thread has a row, and every row as many bins."""
    rows = (density.reads, density.writes)
    return (
        bool(density.threads and density.first and density.pages > 0 and density.group > 0)
        and all(len(table) == len(density.threads) for table in rows)
        and all(len(row) == len(density.first) for table in rows for row in table)
    )


class Structure(NamedTuple):
    """A variable, all allocations of one place in the source, or a stack."""

    #: The variable's; ``malloc#3`` where none is known. A rank has each name once.
    name: str
    #: What it is.
    kind: StructureKind
    #: ``matmul.c:12`` of an allocation, a file's name of a variable; empty where nothing tells.
    where: str
    #: Most bytes at a time (B).
    bytes: int
    #: How many; 1 of a variable.
    allocations: int
    #: Accesses of all threads.
    reads: int
    #: Accesses of all threads.
    writes: int
    #: That were touched.
    pages: int
    #: How threads share its touched pages → pages; kinds without any are left out.
    sharing: Mapping[Sharing, int]
    #: How many touched it.
    threads: int
    #: The thread that touched most of its pages first; −1 where several structures are put together.
    first_thread: int
    #: Share of its touched pages that `first_thread` touched first (0 to 1).
    first_share: float
    #: Accesses by thread and page; None of structures that have no picture.
    density: Density | None = None
    #: Cache lines that were touched.
    lines: int = 0
    #: Words of 8 bytes that were touched.
    words: int = 0


def _check_densities(structures: Iterable[Structure]) -> None:
    """Raises ValueError for a density that was damaged."""
    for structure in structures:
        if structure.density and not _is_whole(structure.density):
            raise ValueError(f"the density of {structure.name} is no table of threads and bins")


class SharedLine(NamedTuple):
    """A cache line that several threads use and some of them write."""

    #: Name of the structure that it belongs to.
    structure: str
    #: That structure's place in the source.
    where: str
    #: Of the line from the structure's begin (B).
    offset: int
    #: ``false-shared`` where they use different words of it, ``write-shared`` where they use the same.
    kind: Sharing
    #: Those that use it much.
    threads: tuple[int, ...]
    #: Accesses of all of `threads`.
    reads: int
    #: Accesses of all of `threads`.
    writes: int
    #: What each thread uses of it, as text: ``thread 1 writes counts[1]``.
    words: tuple[str, ...]


class SharingInterval(NamedTuple):
    """How a structure was shared in a part of the run."""

    #: Since the rank's start (s).
    begin: float
    #: Since the rank's start (s).
    end: float
    #: Its name.
    structure: str
    #: How threads share pages that were touched in this part → pages.
    sharing: Mapping[Sharing, int]


class NumaUse(NamedTuple):
    """Where the pages of a structure lie, on a machine with several NUMA nodes."""

    #: Its name.
    structure: str
    #: NUMA node → pages that lie there.
    pages: Mapping[int, int]
    #: Share of the accesses that come from CPUs of another NUMA node than the page's (0 to 1).
    remote: float
    #: The same share if pages were spread evenly over the NUMA nodes.
    interleaved: float
    #: The same share if each page lay where most of its accesses come from.
    local: float


class MemoryHint(NamedTuple):
    """What looks wrong with a structure, and what to do."""

    #: Its short name: ``false sharing``, ``first touch``.
    rule: str
    #: The structure's name.
    structure: str
    #: What was seen.
    evidence: str
    #: What to do.
    do: str
    #: What that brings at most, as text; empty where nothing tells.
    gain: str = ""
    #: The rank in which it weighs most.
    rank: int = 0
    #: How many ranks show it.
    ranks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """The memory of one rank."""

    #: Number in MPI_COMM_WORLD; 0 of a program without MPI.
    rank: int
    #: The node that it ran on.
    host: str
    #: From its start to its end as it was observed, so slowed down (s).
    seconds: float
    #: How many were seen.
    threads: int
    #: Accesses to all structures.
    reads: int
    #: Accesses to all structures.
    writes: int
    #: Those with most accesses first.
    structures: tuple[Structure, ...] = ()
    #: Cache lines that threads contend for, those with most accesses first.
    lines: tuple[SharedLine, ...] = ()
    #: Sharing over time, of the structures that have pictures.
    intervals: tuple[SharingInterval, ...] = ()
    #: Where pages lie; empty where nothing tells, for `numa_reason`.
    numa: tuple[NumaUse, ...] = ()
    #: Why `numa` is empty.
    numa_reason: str = ""
    #: Share of the pages that were looked at in an interval, where accesses were sampled (0 to 1).
    guarded: float = 1.0
    #: What was odd, a sentence each.
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_densities(self.structures)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """The memory of all ranks of a program."""

    #: ``ok``, or why there is nothing.
    status: str
    #: How accesses were seen.
    mode: MemoryMode = "counting"
    #: What saw them, in words: ``first accesses of a page, every 0.1 s``.
    source: str = ""
    #: Size of a page (B).
    page_bytes: int = 4096
    #: Size of a cache line (B).
    line_bytes: int = 64
    #: Ranks that were observed.
    ranks_seen: int = 0
    #: Those that are kept in detail.
    ranks: tuple[RankMemory, ...] = ()
    #: Structures of all other ranks, those of the same name and place summed.
    rest: tuple[Structure, ...] = ()
    #: What looks wrong, what harms most first.
    hints: tuple[MemoryHint, ...] = ()
    #: Run time over that of the program alone; None where it is not known.
    slowdown: float | None = None
    #: What was odd, a sentence each.
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_densities(self.rest)

    @property
    def slower(self) -> str:
        """``7.1 times as long as without (…)``, with the slowdown of the tool that this one follows; empty
        where it is not known."""
        if not self.slowdown:
            return ""
        paper = "Tabarnac, of the NAS benchmarks: 10 to 30; Beniamine 2016, figure 4.9"
        return f"{self.slowdown:.3g} times as long as without ({paper})"
