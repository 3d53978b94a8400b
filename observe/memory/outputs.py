"""A program's memory as people read it on the terminal, and as tables beside the observation."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Final

from npc.files import write_whole
from npc.records.memory_use import SHARINGS, MemoryUse, RankMemory, Structure
from npc.records.units import format_quantity

_MOST_SHOWN: Final = 8
_LONGEST_NAME: Final = 40
STRUCTURES: Final = "memory-structures.csv"
LINES: Final = "memory-lines.csv"
_COLUMNS: Final = (
    "rank", "name", "kind", "where", "bytes", "allocations", "reads", "writes", "pages", *SHARINGS, "threads",
    "first_thread", "first_share", "lines", "words",
)  # fmt: skip


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
        f"memory: {of}{format_quantity(total, '1', 4)} {what} by {rank.threads} "
        f"thread{'s' * (rank.threads != 1)} in {rank.seconds:.3g} s, which is not the program's time "
        f"({found.source})"
    )
    yield from _table(rank, total)
    if found.slowdown:
        yield f"  looking made it {found.slowdown:.3g} times as slow"
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
    width = max(len(_name(each)) for each in shown)
    yield f"  {'structure':{width}}  {'size':>9}  {'accesses':>8}  {'reads':>5}  {'threads':>7}  pages"
    for each in shown:
        mine = each.reads + each.writes
        pages = ", ".join(f"{each.sharing[kind]} {kind}" for kind in SHARINGS if each.sharing.get(kind))
        size = format_quantity(each.bytes, "B", 3) if each.bytes else ""
        yield (
            f"  {_name(each):{width}}  {size:>9}  {mine / total:>8.1%}  {each.reads / max(mine, 1):>5.0%}  "
            f"{each.threads:>7}  {pages}"
        )


def _name(structure: Structure) -> str:
    place = f" ({structure.where})" if structure.where and structure.where not in structure.name else ""
    name = f"{structure.name}{place}"
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def save_tables(found: MemoryUse, stem: Path) -> None:
    """``STEM.memory-structures.csv`` and ``STEM.memory-lines.csv``, of the ranks in detail; rank −1 is the
    sum of all others."""
    structures = [_COLUMNS]
    structures += [_row(rank.rank, each) for rank in found.ranks for each in rank.structures]
    structures += [_row(-1, each) for each in found.rest]
    lines = [("rank", "structure", "where", "offset", "kind", "threads", "reads", "writes", "words")]
    lines += [
        (str(rank.rank), each.structure, each.where, str(each.offset), each.kind,
         " ".join(map(str, each.threads)), str(each.reads), str(each.writes), "; ".join(each.words))
        for rank in found.ranks for each in rank.lines
    ]  # fmt: skip
    for name, rows in ((STRUCTURES, structures), (LINES, lines)):
        text = StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_whole(stem.with_name(f"{stem.name}.{name}"), text.getvalue())


def _row(rank: int, each: Structure) -> tuple[str, ...]:
    return (
        str(rank), each.name, each.kind, each.where, str(each.bytes), str(each.allocations), str(each.reads),
        str(each.writes), str(each.pages), *(str(each.sharing.get(kind, 0)) for kind in SHARINGS),
        str(each.threads), str(each.first_thread), f"{each.first_share:.6g}", str(each.lines),
        str(each.words),
    )  # fmt: skip
