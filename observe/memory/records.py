"""Where a program's memory went, by structure, page and thread: the key `memory` of ``*.observed.json``.

Counts are accesses where every one was counted, and first accesses of a page in an interval where they were
sampled. Sizes are bytes, times seconds since the rank's start. A structure is a variable, or all allocations
of one place in the source.
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
#: By the threads whose accesses to a page overlap in time (Beniamine 2016, §4.2): one alone; several that
#: only read; several of which some write the same words; several of which some write, each other words.
Sharing = Literal["private", "read-shared", "write-shared", "false-shared"]
SHARINGS: Final[tuple[Sharing, ...]] = ("private", "read-shared", "write-shared", "false-shared")


class Density(NamedTuple):
    """Accesses to a structure by thread (rows) and by bins of `pages` pages each (columns), aggregated as far
    as the eye needs. Bins begin at the structure's first touched page; several allocations follow one after
    the other. threads: the first thread of each row, which stands for `group` threads from this one on, as
    far as they touched it. first: which thread first touched most pages of the bin; −1: nobody."""

    pages: int
    threads: tuple[int, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    first: tuple[int, ...]
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
    """A variable, the allocations of one place, a stack.

    name: of the variable (``B``, ``malloc#3`` where none is known), once in a rank; where: ``matmul.c:12``
    or empty; bytes: at most at a time; allocations: how many (1 of a global). pages: that were touched, and
    of these by sharing. threads: how many touched it. first_thread touched most of its pages first:
    `first_share` of them. lines, words: cache lines that were touched, and their words of 8 bytes.
    """

    name: str
    kind: StructureKind
    where: str
    bytes: int
    allocations: int
    reads: int
    writes: int
    pages: int
    sharing: Mapping[Sharing, int]
    threads: int
    first_thread: int
    first_share: float
    density: Density | None = None
    lines: int = 0
    words: int = 0


def _check_densities(structures: Iterable[Structure]) -> None:
    """Raises ValueError for a density that was damaged."""
    for structure in structures:
        if structure.density and not _is_whole(structure.density):
            raise ValueError(f"the density of {structure.name} is no table of threads and bins")


class SharedLine(NamedTuple):
    """A cache line that threads contend for though they use different words of it (false sharing), or the
    same ones (`kind` write-shared). offset: of the line in its structure, bytes. words: of each thread what
    it uses, as text (``thread 1 writes counts[1]``). reads, writes: accesses of all threads."""

    structure: str
    where: str
    offset: int
    kind: Sharing
    threads: tuple[int, ...]
    reads: int
    writes: int
    words: tuple[str, ...]


class SharingInterval(NamedTuple):
    """A part of the run: touched pages of a structure by sharing."""

    begin: float
    end: float
    structure: str
    sharing: Mapping[Sharing, int]


class NumaUse(NamedTuple):
    """Of a structure on a node with several NUMA nodes. pages: by the node on which they lie. remote: share
    of the accesses from CPUs of another node than the page's; interleaved, local: that share at best if
    pages were spread evenly, and if each lay where most of its accesses come from."""

    structure: str
    pages: Mapping[int, int]
    remote: float
    interleaved: float
    local: float


class MemoryHint(NamedTuple):
    """What looks wrong, what was seen, and what to do. rule: its short name (``false sharing``, ``first
    touch``); gain: of what at most, as text, where it can be told. rank: where it was seen most; ranks: how
    many show it."""

    rule: str
    structure: str
    evidence: str
    do: str
    gain: str = ""
    rank: int = 0
    ranks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """One rank's. reads, writes: of all structures. seconds: of the run as observed, which is never the timed
    one. threads: seen. guarded: sampling, the share of the pages that was looked at in an interval at a time.
    """

    rank: int
    host: str
    seconds: float
    threads: int
    reads: int
    writes: int
    structures: tuple[Structure, ...] = ()
    lines: tuple[SharedLine, ...] = ()
    intervals: tuple[SharingInterval, ...] = ()
    numa: tuple[NumaUse, ...] = ()
    numa_reason: str = ""
    guarded: float = 1.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_densities(self.structures)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """status: ``ok`` or why there is nothing. source: what looked (``instrumented by gcc 12.2``, ``mprotect
    every 0.1 s``). page_bytes, line_bytes: of the machine. ranks: those that are kept in detail, of
    `ranks_seen`; rest: the structures of all others, summed up. slowdown: run time over that without
    looking, None where it is not known."""

    status: str
    mode: MemoryMode = "counting"
    source: str = ""
    page_bytes: int = 4096
    line_bytes: int = 64
    ranks_seen: int = 0
    ranks: tuple[RankMemory, ...] = ()
    rest: tuple[Structure, ...] = ()
    hints: tuple[MemoryHint, ...] = ()
    slowdown: float | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_densities(self.rest)

    @property
    def slower(self) -> str:
        """``7.1 times as long as without (…)``, with what the tool took that this one follows; empty where it
        is not known."""
        if not self.slowdown:
            return ""
        paper = "Tabarnac, of the NAS benchmarks: 10 to 30; Beniamine 2016, figure 4.9"
        return f"{self.slowdown:.3g} times as long as without ({paper})"
