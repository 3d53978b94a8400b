"""A program's memory as people read it on the terminal, and as tables beside the observation."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, Final

from npc.columns import columns
from npc.files import write_whole
from npc.observe.memory.records import SHARINGS, MemoryHint, MemoryUse, RankMemory, Sharing, Structure
from npc.records.units import format_quantity, format_size, plural, shortened

_MOST_SHOWN: Final = 8
_LONGEST_NAME: Final = 40


def memory(found: MemoryUse) -> Iterator[str]:
    """The structures of the rank with most accesses, and what looks wrong."""
    if found.status != "ok":
        yield f"memory: {found.status}"
        return
    rank = max(found.ranks, key=lambda each: each.reads + each.writes)
    what = "accesses" if found.mode == "counting" else "accesses seen"
    total = rank.reads + rank.writes
    of = f"rank {rank.rank} of {found.ranks_seen}: " if found.ranks_seen > 1 else ""
    yield (
        f"memory: {of}{format_quantity(total, '1', 4)} {what} by "
        f"{plural(rank.threads, 'thread')} in {rank.seconds:.3g} s, which is not the program's time "
        f"({found.source})"
    )
    yield from _table(rank, total)
    if found.slower:
        yield f"  so observed it ran {found.slower}"
    if rank.numa_reason:
        yield f"  NUMA: {rank.numa_reason}"
    for each in rank.numa[:_MOST_SHOWN]:
        yield (
            f"  NUMA: {each.structure}: {each.remote:.0%} of its accesses are remote, at best "
            f"{each.local:.0%} by placement, {each.interleaved:.0%} interleaved"
        )
    for hint in found.hints:
        ranks = f" (on {hint.ranks} ranks, most on rank {hint.rank})" if hint.ranks > 1 else ""
        yield f"  {hint.rule}: {hint.structure}: {hint.evidence}{ranks}"
        yield f"    do: {hint.do}"
        if hint.gain:
            yield f"    brings at most: {hint.gain}"
    if not found.hints:
        yield "  no hint: nothing looks wrong by the rules of docs/memory.md"
    for note in found.notes:
        yield f"  note: {note}"


def _table(rank: RankMemory, total: int) -> Iterator[str]:
    shown = rank.structures[:_MOST_SHOWN]
    if not shown or not total:
        return
    rows = [("structure", "size", "accesses", "reads", "threads", "pages")]
    for each in shown:
        mine = each.reads + each.writes
        pages = ", ".join(f"{each.sharing[kind]} {kind}" for kind in SHARINGS if each.sharing.get(kind))
        reads = f"{each.reads / max(mine, 1):.0%}"
        size, share = format_size(each.bytes or None), f"{mine / total:.1%}"
        rows.append((_name(each), size, share, reads, str(each.threads), pages))
    yield from columns(rows, right=range(1, 5), indent="  ")


def _name(structure: Structure) -> str:
    place = f" ({structure.where})" if structure.where and structure.where not in structure.name else ""
    return shortened(f"{structure.name}{place}", _LONGEST_NAME)


def save_tables(found: MemoryUse, stem: Path) -> None:
    """``STEM.memory-NAME.csv``: what the pictures and hints of the page show, of the ranks in detail; rank −1
    is the sum of all others."""
    for name, (head, *rows) in _tables(found).items():
        text = StringIO()
        csv.writer(text, lineterminator="\n").writerows([head.split(), *rows])
        write_whole(stem.with_name(f"{stem.name}.memory-{name}.csv"), text.getvalue())


def _tables(found: MemoryUse) -> dict[str, list[Any]]:
    """By name: the columns, then the rows."""
    ranks = found.ranks
    structures = [_row(rank.rank, each) for rank in ranks for each in rank.structures]
    structures += [_row(-1, each) for each in found.rest]
    lines = [
        (rank.rank, each.structure, each.where, each.offset, each.kind, " ".join(map(str, each.threads)),
         each.reads, each.writes, "; ".join(each.words))
        for rank in ranks for each in rank.lines
    ]  # fmt: skip
    sharing = [
        (rank.rank, f"{each.begin:.6g}", f"{each.end:.6g}", each.structure, *_by_sharing(each.sharing))
        for rank in ranks for each in rank.intervals
    ]  # fmt: skip
    kinds = " ".join(SHARINGS)
    return {
        "structures": [
            f"rank name kind where bytes allocations reads writes pages {kinds} threads first_thread "
            "first_share lines words",
            *structures,
        ],
        "lines": ["rank structure where offset kind threads reads writes words", *lines],
        "pages": [
            "rank structure first_page pages thread threads first_thread reads writes",
            *(row for rank in ranks for each in rank.structures for row in _density(rank.rank, each)),
        ],
        "sharing": [f"rank begin end structure {kinds}", *sharing],
        "hints": [" ".join(MemoryHint._fields), *found.hints],
    }


def _density(rank: int, structure: Structure) -> Iterator[tuple[object, ...]]:
    """A row for each place of the map that was accessed: `pages` pages from `first_page` on, counted from the
    first one that was touched, by `threads` threads from `thread` on."""
    found = structure.density
    for row, thread in enumerate(found.threads if found else ()):
        assert found
        for place, counts in enumerate(zip(found.first, found.reads[row], found.writes[row], strict=True)):
            if any(counts[1:]):
                yield rank, structure.name, place * found.pages, found.pages, thread, found.group, *counts


def _by_sharing(sharing: Mapping[Sharing, int]) -> tuple[int, ...]:
    return tuple(sharing.get(kind, 0) for kind in SHARINGS)


def _row(rank: int, each: Structure) -> tuple[object, ...]:
    return (
        rank, each.name, each.kind, each.where, each.bytes, each.allocations, each.reads, each.writes,
        each.pages, *_by_sharing(each.sharing), each.threads, each.first_thread, f"{each.first_share:.6g}",
        each.lines, each.words,
    )  # fmt: skip
