"""What looks wrong with a program's memory, the evidence, and what to do.

Hints follow Tabarnac's (Beniamine 2016, 4.1.3: weight of structures, first touch against use, sharing, copies
of what is only read), and add those by words and cache lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from npc.observe.memory.records import (
    Density,
    MemoryHint,
    MemoryMode,
    NumaUse,
    RankMemory,
    SharedLine,
    Structure,
)
from npc.records.units import plural

FALSE_SHARING: Final = "false sharing"
SHARED_LINES: Final = "shared lines"
FIRST_TOUCH: Final = "first touch"
WRITE_SHARED: Final = "write-shared pages"
READ_ONLY: Final = "read-only data"
UNUSED: Final = "unused words"
HEAVIEST: Final = "heaviest structure"
#: With a smaller share of all accesses a structure is not worth a change: even if 5 % of the time went away,
#: the program would be only 5 % faster.
_WORTH: Final = 0.05
#: The same for contended lines. A line that moves between caches takes 10 to 75 times as long as a hit in the
#: first cache (40 to 300 against 4 cycles, Beniamine 2016, table 3.1), so 0.1 % of the accesses may be 1 to 8
#: % of the time.
_LINE_WORTH: Final = 0.001
#: One thread touched at least the first share of the pages first, and makes less than the second share of the
#: accesses.
_ALL_FIRST: Final = 0.9
_OF_THE_FIRST: Final = 0.5
#: Fewest pages of a structure whose place matters: 16 pages fit into every second-level cache.
_FEW_PAGES: Final = 16
#: With a smaller share of writes a structure is set up once and then read (Tabarnac: mostly read).
_SELDOM_WRITTEN: Final = 0.05
#: With a smaller share of shared pages these may be the borders between the threads' parts.
_MANY_SHARED: Final = 0.1
#: With fewer used words of a line's 8, more than half of each line is loaded without use.
_USED_WORDS: Final = 4.0
_HEAVY: Final = 0.5
_WORDS_OF_A_LINE: Final = 8
#: Words of a line that are named in a hint.
_MOST_NAMED: Final = 3

#: What to do.
_DO: Final = {
    FALSE_SHARING: (
        "give each thread's part a cache line of its own (alignas(64), padding to 64 bytes), or let threads "
        "work on variables of their own and add them up in the end"
    ),
    FIRST_TOUCH: (
        "let the threads that use it set it up (the same parallel loop and schedule, threads bound: "
        "OMP_PROC_BIND=true), or interleave its pages (numactl --interleave=all)"
    ),
    SHARED_LINES: (
        "let threads change copies of their own and join these seldom (a reduction), or change it less often"
    ),
    UNUSED: (
        "put side by side what is used together: a structure of arrays in place of an array of structures, "
        "smaller types, loops in the order of the memory"
    ),
    WRITE_SHARED: (
        "let each thread have connected parts of whole pages (schedule(static) in place of dynamic), "
        "so that pages can lie where they are used"
    ),
    READ_ONLY: "where memory allows it, give each NUMA node a copy (numa_alloc_onnode, or a rank a node)",
    HEAVIEST: "begin here: where it lies and in which order it is used counts most",
}
#: What harms most comes first.
_ORDER: Final = tuple(_DO)


@dataclass(frozen=True, slots=True)
class _WeightedHint:
    """A hint, and how much it matters."""

    #: Of one rank.
    hint: MemoryHint
    #: Share of the rank's accesses that it is about (0 to 1).
    weight: float


def hints_of(ranks: Sequence[RankMemory], mode: MemoryMode = "counting") -> tuple[MemoryHint, ...]:
    """The hints of all ranks, what harms most first. A hint of several ranks is given once, for the rank
    in which it weighs most."""
    by_structure: defaultdict[tuple[str, str], list[_WeightedHint]] = defaultdict(list)
    for rank in ranks:
        for weighted in _of_rank(rank, mode):
            by_structure[weighted.hint.rule, weighted.hint.structure].append(weighted)
    merged = []
    for same in by_structure.values():
        most = max(same, key=lambda weighted: weighted.weight)
        merged.append(_WeightedHint(most.hint._replace(ranks=len(same)), most.weight))
    merged.sort(key=lambda weighted: (_ORDER.index(weighted.hint.rule), -weighted.weight))
    return tuple(weighted.hint for weighted in merged)


def _of_rank(rank: RankMemory, mode: MemoryMode) -> Iterator[_WeightedHint]:
    total = rank.reads + rank.writes
    if not total:
        return
    for hint, share in (*_contended(rank, total, mode), *_of_structures(rank, total, mode)):
        yield _WeightedHint(hint._replace(rank=rank.rank), share)


def _hint(rule: str, structure: str, evidence: str, gain: str = "") -> MemoryHint:
    return MemoryHint(rule, structure, evidence, _DO[rule], gain)


def _of_structures(rank: RankMemory, total: int, mode: MemoryMode) -> Iterator[tuple[MemoryHint, float]]:
    numa = {use.structure: use for use in rank.numa}
    for number, structure in enumerate(rank.structures):
        share = (structure.reads + structure.writes) / total
        if share < _WORTH or structure.kind in ("stack", "other", "small"):
            continue
        lies = numa.get(structure.name)
        heaviest = number == 0 and len(rank.structures) > 1
        for weighted in (
            _first_touch(structure, lies),
            _write_shared(structure),
            _read_only(structure, lies),
            _unused(structure, mode),
            _heaviest(structure, share) if heaviest else None,
        ):
            if weighted:
                yield weighted, share


def _contended(rank: RankMemory, total: int, mode: MemoryMode) -> Iterator[tuple[MemoryHint, float]]:
    by_structure: defaultdict[tuple[str, str], list[SharedLine]] = defaultdict(list)
    for line in rank.lines:
        by_structure[line.kind, line.structure].append(line)
    for (kind, structure), lines in by_structure.items():
        share = sum(line.reads + line.writes for line in lines) / total
        if share < _LINE_WORTH:
            continue
        threads = len({thread for line in lines for thread in line.threads})
        evidence = (
            f"{share:.1%} of all accesses are to {plural(len(lines), 'cache line')} of it that "
            f"{threads} threads use: {'; '.join(lines[0].words[:_MOST_NAMED])}"
        )
        if mode == "sampling":
            evidence += "; sampled accesses are no proof: count them (npc program cc, --memory=count)"
        gain = (
            f"{share:.1%} of the accesses, each up to 19 times as fast: 4 cycles in the own cache, 75 where "
            "another core has changed the line (Levinthal 2009)"
        )
        yield (
            _hint(FALSE_SHARING if kind == "false-shared" else SHARED_LINES, structure, evidence, gain),
            share,
        )


def _first_touch(structure: Structure, numa: NumaUse | None) -> MemoryHint | None:
    """One thread touches first what many threads use, so that all of it lies on that thread's NUMA node."""
    if (
        structure.threads < 2
        or structure.pages < _FEW_PAGES
        or structure.first_share < _ALL_FIRST
        or structure.density is None
    ):
        return None
    if numa and numa.remote <= numa.local + _WORTH:
        return None
    own = _part_of(structure.density, structure.first_thread)
    if own >= _OF_THE_FIRST:
        return None
    evidence = (
        f"thread {structure.first_thread} touched {structure.first_share:.0%} "
        f"of its {structure.pages} pages first and "
        f"makes {own:.0%} of the accesses; {structure.threads} threads use it"
    )
    if numa is None:
        gain = "nothing on one NUMA node; on more, accesses from other nodes become local"
        return _hint(FIRST_TOUCH, structure.name, evidence, gain)
    gain = (
        f"of its accesses {numa.remote:.0%} are remote: {numa.local:.0%} where each page lies where it is "
        f"used most, {numa.interleaved:.0%} where pages are interleaved"
    )
    return _hint(FIRST_TOUCH, structure.name, evidence, gain)


def _part_of(density: Density, thread: int) -> float:
    """Share of the accesses that a thread, or its row, makes."""
    rows = [sum(reads) + sum(writes) for reads, writes in zip(density.reads, density.writes, strict=True)]
    mine = [
        row
        for row, first in zip(rows, density.threads, strict=True)
        if first <= thread < first + density.group
    ]
    return sum(mine) / max(sum(rows), 1)


def _write_shared(structure: Structure) -> MemoryHint | None:
    same = structure.sharing.get("write-shared", 0)
    pages = same + structure.sharing.get("false-shared", 0)
    if pages < _FEW_PAGES or pages < _MANY_SHARED * structure.pages:
        return None
    evidence = (
        f"{pages} of its {structure.pages} pages were written while another thread used them "
        f"({same} of them in "
        f"the same words); {structure.threads} threads use it"
    )
    return _hint(WRITE_SHARED, structure.name, evidence)


def _read_only(structure: Structure, numa: NumaUse | None) -> MemoryHint | None:
    """Hardly any writes: a copy on each NUMA node makes all reads local."""
    pages = structure.sharing.get("read-shared", 0)
    writes = structure.writes / (structure.reads + structure.writes)
    if pages < _FEW_PAGES or pages < _OF_THE_FIRST * structure.pages or writes > _SELDOM_WRITTEN:
        return None
    if numa and numa.remote < _WORTH:
        return None
    evidence = (
        f"{writes:.1%} of its accesses are writes, "
        f"and threads read {pages} of its {structure.pages} pages at the "
        "same time"
    )
    gain = "nothing on one NUMA node; on n nodes up to (n − 1)/n of its accesses become local"
    if numa:
        gain = f"{numa.remote:.0%} of its accesses, which are remote, become local"
    return _hint(READ_ONLY, structure.name, evidence, gain)


def _unused(structure: Structure, mode: MemoryMode) -> MemoryHint | None:
    """Much of each cache line is never used. Not for sampled accesses, which miss most words."""
    if mode == "sampling" or structure.pages < _FEW_PAGES or not structure.lines:
        return None
    used = structure.words / structure.lines
    if used > _USED_WORDS:
        return None
    evidence = (
        f"of the 8 words of each of its {structure.lines} cache lines in use {used:.2g} are ever touched"
    )
    gain = f"{_WORDS_OF_A_LINE / used:.2g} times less of it through caches and memory"
    return _hint(UNUSED, structure.name, evidence, gain)


def _heaviest(structure: Structure, share: float) -> MemoryHint | None:
    if share < _HEAVY:
        return None
    reads = structure.reads / (structure.reads + structure.writes)
    evidence = (
        f"{share:.0%} of all accesses, {reads:.0%} of them reads, by {plural(structure.threads, 'thread')}"
    )
    return _hint(HEAVIEST, structure.name, evidence)
