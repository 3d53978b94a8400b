"""What all ranks left of their memory, as one: some ranks in detail, the others summed up."""

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
#: Ranks in detail: those with most accesses, and as many with most shared pages.
_MOST_RANKS: Final = 8
_MOST_REST: Final = 40
#: Of the whole part, bytes of JSON; a picture has fewer bins for it.
_LARGEST: Final = 900_000
_MOST_NOTES: Final = 20
#: What to do where nothing was seen.
_LONGER: Final = {"sampling": ": let it run longer, or a shorter --interval"}


def read_memory(folder: Path, damaged: list[str]) -> MemoryUse | None:
    """Of the files that the ranks left in `folder`; None where there are none. What cannot be read is noted
    in `damaged`."""
    ranks = list(decoded(folder, f".{MEMORY}", RankFile, damaged))
    return merge(ranks) if ranks else None


def merge(files: Sequence[RankFile]) -> MemoryUse:
    """All ranks'. Those without a table are noted."""
    told = [(each, each.memory) for each in files if each.memory is not None]
    reasons = sorted({each.status for each in files if each.memory is None})
    if not told:
        return MemoryUse(status=f"unavailable: {'; '.join(reasons)}", ranks_seen=len(files))
    memories = [memory for _, memory in told]
    first = told[0][0]
    if not any(each.reads + each.writes for each in memories):
        longest = max(each.seconds for each in memories)
        reason = f"no access was seen in {longest:.3g} s ({first.source}){_LONGER.get(first.mode, '')}"
        return MemoryUse(status=f"unavailable: {reason}", mode=first.mode, ranks_seen=len(files))
    kept = _in_detail(memories)
    left = [each for each in memories if each.rank not in {kept_one.rank for kept_one in kept}]
    missing = f"{len(files) - len(told)} of {len(files)} ranks left nothing: {'; '.join(reasons)}"
    notes: defaultdict[str, list[int]] = defaultdict(list)
    for each in memories:
        for note in each.notes:
            notes[note].append(each.rank)
    found = MemoryUse(
        status=OK,
        mode=first.mode,
        source=first.source,
        page_bytes=first.page_bytes,
        ranks_seen=len(files),
        ranks=tuple(kept),
        rest=_summed(left),
        hints=hints_of(memories, first.mode),
        notes=(*([missing] if len(told) < len(files) else []), *_of_ranks(notes, len(files))),
    )
    return _small_enough(found)


def _of_ranks(notes: Mapping[str, Sequence[int]], ranks: int) -> Iterator[str]:
    """Each note once."""
    for note, where in list(notes.items())[:_MOST_NOTES]:
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        yield f"rank {where[0]}{more}: {note}" if ranks > 1 else note


def _in_detail(ranks: Sequence[RankMemory]) -> list[RankMemory]:
    """In the order of their numbers."""
    if len(ranks) <= _MOST_RANKS:
        return sorted(ranks, key=lambda each: each.rank)
    by_accesses = sorted(ranks, key=lambda each: (-(each.reads + each.writes), each.rank))
    by_sharing = sorted(ranks, key=lambda each: (-_shared_pages(each), each.rank))
    kept = {each.rank: each for each in by_accesses[: _MOST_RANKS // 2]}
    for each in by_sharing:
        if len(kept) < _MOST_RANKS:
            kept[each.rank] = each
    return [kept[rank] for rank in sorted(kept)]


def _shared_pages(rank: RankMemory) -> int:
    return sum(
        number for each in rank.structures for kind, number in each.sharing.items() if kind != "private"
    )


def _summed(ranks: Iterable[RankMemory]) -> tuple[Structure, ...]:
    """Structures of the same name and place as one: sums, and the most threads of a rank."""
    same: defaultdict[tuple[str, str], list[Structure]] = defaultdict(list)
    for rank in ranks:
        for each in rank.structures:
            same[each.name, each.where].append(each)
    summed = []
    for parts in same.values():
        sharing: defaultdict[Sharing, int] = defaultdict(int)
        for each in parts:
            for kind, number in each.sharing.items():
                sharing[kind] += number
        pages = sum(each.pages for each in parts)
        summed.append(
            parts[0]._replace(
                bytes=sum(each.bytes for each in parts),
                allocations=sum(each.allocations for each in parts),
                reads=sum(each.reads for each in parts),
                writes=sum(each.writes for each in parts),
                pages=pages,
                sharing=dict(sharing),
                threads=max(each.threads for each in parts),
                first_share=sum(each.first_share * each.pages for each in parts) / pages if pages else 0.0,
                density=None,
                lines=sum(each.lines for each in parts),
                words=sum(each.words for each in parts),
            )
        )
    summed.sort(key=lambda each: -(each.reads + each.writes))
    return tuple(summed[:_MOST_REST])


def _small_enough(found: MemoryUse) -> MemoryUse:
    """With pictures as coarse as it takes."""
    for _ in range(16):
        if len(msgspec.json.encode(found)) <= _LARGEST:
            return found
        found = replace(
            found,
            ranks=tuple(
                replace(rank, structures=tuple(_coarser(each) for each in rank.structures))
                for rank in found.ranks
            ),
        )
    return found


def _coarser(each: Structure) -> Structure:
    """Half as many bins, and half as many rows where these are more."""
    density = each.density
    if density is None:
        return each
    columns = len(density.first)
    if len(density.threads) > columns:
        return each._replace(density=_half_as_many_rows(density))
    if columns < 2:
        return each._replace(density=None)

    def joined(rows: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(sum(row[place : place + 2]) for place in range(0, columns, 2)) for row in rows)

    first = tuple(
        next((one for one in density.first[place : place + 2] if one >= 0), -1)
        for place in range(0, columns, 2)
    )
    return each._replace(
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
