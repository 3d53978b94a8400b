"""Merges what all ranks left about their memory: some ranks are kept in detail, the others summed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from npc.observe.memory.hints import hints_of
from npc.observe.memory.records import MEMORY, Density, MemoryUse, RankMemory, Sharing, Structure
from npc.observe.memory.reduce import RankFile
from npc.observe.rank_files import decoded

OK: Final = "ok"
#: Ranks that are kept in detail: half of them those with most accesses, half those with most shared pages.
_MOST_RANKS: Final = 8
_MOST_REST: Final = 40
#: Largest size of the whole part as JSON (B); pictures get fewer bins until it fits.
_LARGEST: Final = 900_000
_MOST_NOTES: Final = 20
#: What to do where nothing was seen.
_LONGER: Final = {"sampling": ": let it run longer, or a shorter --interval"}


def read_memory(folder: Path, damaged: list[str]) -> MemoryUse | None:
    """The memory of all ranks from their files in `folder`; None without files. What cannot be read is
    noted in `damaged`."""
    ranks = list(decoded(folder, f".{MEMORY}", RankFile, damaged))
    return merge(ranks) if ranks else None


def merge(files: Sequence[RankFile]) -> MemoryUse:
    """The memory of all ranks; ranks without a table are noted."""
    ranks_with_memory = [(file, file.memory) for file in files if file.memory is not None]
    reasons = sorted({file.status for file in files if file.memory is None})
    if not ranks_with_memory:
        return MemoryUse(status=f"unavailable: {'; '.join(reasons)}", ranks_seen=len(files))
    memories = [memory for _, memory in ranks_with_memory]
    first = ranks_with_memory[0][0]
    if not any(one.reads + one.writes for one in memories):
        longest = max(one.seconds for one in memories)
        reason = f"no access was seen in {longest:.3g} s ({first.source}){_LONGER.get(first.mode, '')}"
        return MemoryUse(status=f"unavailable: {reason}", mode=first.mode, ranks_seen=len(files))
    detailed = _in_detail(memories)
    left = [one for one in memories if one.rank not in {kept_one.rank for kept_one in detailed}]
    missing = (
        f"{len(files) - len(ranks_with_memory)} of {len(files)} ranks left nothing: {'; '.join(reasons)}"
    )
    notes: defaultdict[str, list[int]] = defaultdict(list)
    for one in memories:
        for note in one.notes:
            notes[note].append(one.rank)
    use = MemoryUse(
        status=OK,
        mode=first.mode,
        source=first.source,
        page_bytes=first.page_bytes,
        ranks_seen=len(files),
        ranks=tuple(detailed),
        rest=_summed(left),
        hints=hints_of(memories, first.mode),
        notes=(*([missing] if len(ranks_with_memory) < len(files) else []), *_of_ranks(notes, len(files))),
    )
    return _small_enough(use)


def _of_ranks(notes: Mapping[str, Sequence[int]], ranks: int) -> Iterator[str]:
    """Each note once, with the ranks that have it."""
    for note, where in list(notes.items())[:_MOST_NOTES]:
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        yield f"rank {where[0]}{more}: {note}" if ranks > 1 else note


def _in_detail(ranks: Sequence[RankMemory]) -> list[RankMemory]:
    """The ranks that are kept in detail, in the order of their numbers."""
    if len(ranks) <= _MOST_RANKS:
        return sorted(ranks, key=lambda one: one.rank)
    by_accesses = sorted(ranks, key=lambda one: (-(one.reads + one.writes), one.rank))
    by_sharing = sorted(ranks, key=lambda one: (-_shared_pages(one), one.rank))
    detailed = {by_access.rank: by_access for by_access in by_accesses[: _MOST_RANKS // 2]}
    for one in by_sharing:
        if len(detailed) < _MOST_RANKS:
            detailed[one.rank] = one
    return [detailed[rank] for rank in sorted(detailed)]


def _shared_pages(rank: RankMemory) -> int:
    return sum(
        number
        for structure in rank.structures
        for kind, number in structure.sharing.items()
        if kind != "private"
    )


def _summed(ranks: Iterable[RankMemory]) -> tuple[Structure, ...]:
    """Structures of the same name and place as one: sums, and the most threads of a rank."""
    same: defaultdict[tuple[str, str], list[Structure]] = defaultdict(list)
    for rank in ranks:
        for structure in rank.structures:
            same[structure.name, structure.where].append(structure)
    summed = []
    for parts in same.values():
        sharing: defaultdict[Sharing, int] = defaultdict(int)
        for part in parts:
            for kind, number in part.sharing.items():
                sharing[kind] += number
        pages = sum(part.pages for part in parts)
        summed.append(
            parts[0]._replace(
                bytes=sum(part.bytes for part in parts),
                allocations=sum(part.allocations for part in parts),
                reads=sum(part.reads for part in parts),
                writes=sum(part.writes for part in parts),
                pages=pages,
                sharing=dict(sharing),
                threads=max(part.threads for part in parts),
                first_share=sum(part.first_share * part.pages for part in parts) / pages if pages else 0.0,
                density=None,
                lines=sum(part.lines for part in parts),
                words=sum(part.words for part in parts),
            )
        )
    summed.sort(key=lambda one: -(one.reads + one.writes))
    return tuple(summed[:_MOST_REST])


def _small_enough(use: MemoryUse) -> MemoryUse:
    """The same with pictures so coarse that it is small enough."""
    for _ in range(16):
        if len(msgspec.json.encode(use)) <= _LARGEST:
            return use
        use = replace(
            use,
            ranks=tuple(
                replace(rank, structures=tuple(_coarser(structure) for structure in rank.structures))
                for rank in use.ranks
            ),
        )
    return use


def _coarser(structure: Structure) -> Structure:
    """A structure with a coarser picture: half as many columns, or half as many rows if there are more
    rows."""
    density = structure.density
    if density is None:
        return structure
    columns = len(density.first)
    if len(density.threads) > columns:
        return structure._replace(density=_half_as_many_rows(density))
    if columns < 2:
        return structure._replace(density=None)

    def joined(rows: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(sum(row[place : place + 2]) for place in range(0, columns, 2)) for row in rows)

    first = tuple(
        next((one for one in density.first[place : place + 2] if one >= 0), -1)
        for place in range(0, columns, 2)
    )
    return structure._replace(
        density=density._replace(
            pages=density.pages * 2, reads=joined(density.reads), writes=joined(density.writes), first=first
        )
    )


def _half_as_many_rows(density: Density) -> Density:
    group = density.group * 2
    rows: defaultdict[int, list[int]] = defaultdict(list)
    for place, thread in enumerate(density.threads):
        rows[thread // group * group].append(place)

    def joined(table: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(map(sum, zip(*(table[place] for place in places), strict=True))) for places in rows.values()
        )

    return density._replace(
        threads=tuple(rows), reads=joined(density.reads), writes=joined(density.writes), group=group
    )
