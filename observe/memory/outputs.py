"""A program's memory as lines for the terminal, and as CSV tables beside the observation."""

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


def memory(use: MemoryUse) -> Iterator[str]:
    """The structures of the rank with most accesses, and what looks wrong."""
    if use.status != "ok":
        yield f"memory: {use.status}"
        return
    rank = max(use.ranks, key=lambda one: one.reads + one.writes)
    what = "accesses" if use.mode == "counting" else "accesses seen"
    total = rank.reads + rank.writes
    of = f"rank {rank.rank} of {use.ranks_seen}: " if use.ranks_seen > 1 else ""
    yield (
        f"memory: {of}{format_quantity(total, '1', 4)} {what} by "
        f"{plural(rank.threads, 'thread')} in {rank.seconds:.3g} s, longer than the program takes alone "
        f"({use.source})"
    )
    yield from _table(rank, total)
    if use.slower:
        yield f"  so observed it ran {use.slower}"
    if rank.numa_reason:
        yield f"  NUMA: {rank.numa_reason}"
    for numa in rank.numa[:_MOST_SHOWN]:
        yield (
            f"  NUMA: {numa.structure}: {numa.remote:.0%} of its accesses are remote, at best "
            f"{numa.local:.0%} by placement, {numa.interleaved:.0%} interleaved"
        )
    for hint in use.hints:
        ranks = f" (on {hint.ranks} ranks, most on rank {hint.rank})" if hint.ranks > 1 else ""
        yield f"  {hint.rule}: {hint.structure}: {hint.evidence}{ranks}"
        yield f"    do: {hint.do}"
        if hint.gain:
            yield f"    brings at most: {hint.gain}"
    if not use.hints:
        yield "  no hint: nothing looks wrong by the rules of docs/memory.md"
    for note in use.notes:
        yield f"  note: {note}"


def _table(rank: RankMemory, total: int) -> Iterator[str]:
    shown = rank.structures[:_MOST_SHOWN]
    if not shown or not total:
        return
    rows = [("structure", "size", "accesses", "reads", "threads", "pages")]
    for structure in shown:
        mine = structure.reads + structure.writes
        pages = ", ".join(
            f"{structure.sharing[kind]} {kind}" for kind in SHARINGS if structure.sharing.get(kind)
        )
        reads = f"{structure.reads / max(mine, 1):.0%}"
        size, share = format_size(structure.bytes or None), f"{mine / total:.1%}"
        rows.append((_name(structure), size, share, reads, str(structure.threads), pages))
    yield from columns(rows, right=range(1, 5), indent="  ")


def _name(structure: Structure) -> str:
    place = f" ({structure.where})" if structure.where and structure.where not in structure.name else ""
    return shortened(f"{structure.name}{place}", _LONGEST_NAME)


def save_tables(use: MemoryUse, stem: Path) -> None:
    """``STEM.memory-NAME.csv``: what the pictures and hints of the page show, of the ranks in detail; rank −1
    is the sum of all others."""
    for name, (head, *rows) in _tables(use).items():
        text = StringIO()
        csv.writer(text, lineterminator="\n").writerows([head.split(), *rows])
        write_whole(stem.with_name(f"{stem.name}.memory-{name}.csv"), text.getvalue())


def _tables(use: MemoryUse) -> dict[str, list[Any]]:
    """Name of a table → its columns, then its rows."""
    ranks = use.ranks
    structures = [_row(rank.rank, structure) for rank in ranks for structure in rank.structures]
    structures += [_row(-1, remaining) for remaining in use.rest]
    lines = [
        (rank.rank, line.structure, line.where, line.offset, line.kind, " ".join(map(str, line.threads)),
         line.reads, line.writes, "; ".join(line.words))
        for rank in ranks for line in rank.lines
    ]  # fmt: skip
    sharing = [
        (rank.rank, f"{interval.begin:.6g}", f"{interval.end:.6g}", interval.structure,
         *_by_sharing(interval.sharing))
        for rank in ranks for interval in rank.intervals
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
            *(
                row
                for rank in ranks
                for structure in rank.structures
                for row in _density(rank.rank, structure)
            ),
        ],
        "sharing": [f"rank begin end structure {kinds}", *sharing],
        "hints": [" ".join(MemoryHint._fields), *use.hints],
    }


def _density(rank: int, structure: Structure) -> Iterator[tuple[object, ...]]:
    """A row for each place of the map that was accessed: `pages` pages from `first_page` on, counted from the
    first one that was touched, by `threads` threads from `thread` on."""
    density = structure.density
    for row, thread in enumerate(density.threads if density else ()):
        assert density
        for place, counts in enumerate(
            zip(density.first, density.reads[row], density.writes[row], strict=True)
        ):
            if any(counts[1:]):
                yield (
                    rank,
                    structure.name,
                    place * density.pages,
                    density.pages,
                    thread,
                    density.group,
                    *counts,
                )


def _by_sharing(sharing: Mapping[Sharing, int]) -> tuple[int, ...]:
    return tuple(sharing.get(kind, 0) for kind in SHARINGS)


def _row(rank: int, structure: Structure) -> tuple[object, ...]:
    return (
        rank, structure.name, structure.kind, structure.where, structure.bytes, structure.allocations,
        structure.reads, structure.writes, structure.pages, *_by_sharing(structure.sharing),
        structure.threads, structure.first_thread, f"{structure.first_share:.6g}", structure.lines,
        structure.words,
    )  # fmt: skip
