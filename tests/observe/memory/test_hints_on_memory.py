"""What is said of a program's memory: planted faults are named, without them there is silence."""

from __future__ import annotations

import msgspec
import pytest

from npc.observe.memory.hints import hints_of
from npc.observe.memory.merge import merge
from npc.observe.memory.records import MemoryHint, RankMemory
from npc.observe.memory.reduce import RankFile, rank_memory
from tests.made.memory_tables import PAGE_BYTES, MadeTables

MS = 1_000_000
HEAP = 0x7F0000000000
PAGES = 64


def _rules(memory: RankMemory) -> dict[str, MemoryHint]:
    return {each.rule: each for each in hints_of([memory]) if each.rule != "heaviest structure"}


def _array(made: MadeTables, step: int = 8) -> range:
    made.objects.append((HEAP, PAGES * PAGE_BYTES, 0, 0, (0x1000,)))
    return range(HEAP, HEAP + PAGES * PAGE_BYTES, step)


def _computed_by(threads: int, first: str, step: int = 8) -> MadeTables:
    """An array that threads compute on, each on its part; set up by thread 0 or by its users."""
    made = MadeTables(cpus={thread: thread for thread in range(threads)})
    words = _array(made, step)
    part = len(words) // threads
    for thread in range(threads):
        mine = words[thread * part : (thread + 1) * part]
        made.write(0 if first == "one" else thread, 1 * MS, mine)
        made.read(thread, 30 * MS, mine, times=3)
        made.write(thread, 30 * MS, mine, times=3)
    made.read(0, 60 * MS, words)
    return made


def test_an_array_that_one_thread_sets_up_for_all_is_a_bad_first_touch():
    memory = rank_memory(_computed_by(4, "one").table(), 0, "here", nodes={0: 0, 1: 0})
    assert [*_rules(memory)] == ["first touch"]
    assert "thread 0 touched 100% of its 64 pages first" in _rules(memory)["first touch"].evidence
    assert not _rules(rank_memory(_computed_by(4, "users").table(), 0, "here", nodes={0: 0}))


def test_where_pages_lie_tells_what_another_first_touch_brings():
    made = _computed_by(4, "one")
    made.places = {HEAP // PAGE_BYTES + page: 0 for page in range(PAGES)}
    memory = rank_memory(made.table(), 0, "here", nodes={0: 0, 1: 0, 2: 1, 3: 1})
    (numa,) = memory.numa
    on_one = sum(each.times * len(each.addresses) for each in made.accesses if each.thread in (2, 3))
    total = sum(each.times * len(each.addresses) for each in made.accesses)
    lost = sum(
        each.times * len(each.addresses)
        for each in made.accesses
        if each.thread == 0 and each.page >= HEAP // PAGE_BYTES + PAGES // 2
    )
    assert numa.pages == {0: PAGES}
    assert numa.remote == pytest.approx(on_one / total)
    assert (numa.interleaved, numa.local) == (0.5, pytest.approx(lost / total))
    assert f"{numa.remote:.0%} are remote" in _rules(memory)["first touch"].gain


def test_pages_that_lie_well_are_no_hint_whoever_touched_them_first():
    made = _computed_by(4, "one")
    made.places = {HEAP // PAGE_BYTES + page: page // 32 for page in range(PAGES)}
    assert not _rules(rank_memory(made.table(), 0, "here", nodes={0: 0, 1: 0, 2: 1, 3: 1}))


def test_one_word_of_each_line_wastes_memory_traffic():
    hint = _rules(rank_memory(_computed_by(2, "users", step=64).table(), 0, "here", nodes={0: 0}))[
        "unused words"
    ]
    assert "of the 8 words of each of its 4096 cache lines in use 1 are ever touched" in hint.evidence
    assert hint.gain.startswith("8 times less")


def test_a_table_that_all_threads_read_may_be_copied():
    made = MadeTables()
    words = _array(made)
    made.write(0, 1 * MS, words)
    for thread in range(4):
        made.read(thread, 30 * MS, words, times=10)
    rules = _rules(rank_memory(made.table(), 0, "here", nodes={0: 0}))
    assert "2.4% of its accesses are writes" in rules["read-only data"].evidence


def test_pages_that_threads_write_in_turns_are_write_shared():
    made = MadeTables()
    words = _array(made)
    for thread in range(4):
        for time in (30, 35, 40):
            made.write(thread, time * MS, words[thread::4], times=10)
    rules = _rules(rank_memory(made.table(), 0, "here", nodes={0: 0}))
    assert "64 of its 64 pages" in rules["write-shared pages"].evidence
    assert "(0 of them in the same words)" in rules["write-shared pages"].evidence


def test_contended_counters_come_first_with_what_each_thread_uses():
    made = _computed_by(4, "one")
    made.objects.append((HEAP + 1024 * PAGE_BYTES, 64, 0, 0, (0x2000,)))
    for thread in range(4):
        made.write(thread, 30 * MS, [HEAP + 1024 * PAGE_BYTES + 8 * thread], times=9000)
    hints = hints_of([rank_memory(made.table(), 0, "here", nodes={0: 0})])
    assert [each.rule for each in hints[:2]] == ["false sharing", "first touch"]
    assert "thread 1 writes malloc#2, bytes 8 to 15" in hints[0].evidence


def test_a_hint_of_several_ranks_is_told_once():
    memories = [rank_memory(_computed_by(4, "one").table(), rank, "here", nodes={0: 0}) for rank in range(3)]
    (hint,) = [each for each in hints_of(memories) if each.rule == "first touch"]
    assert (hint.ranks, hint.rank) == (3, 0)


def test_many_ranks_stay_small_and_lose_no_access():
    made = _computed_by(70, "users")
    rank = rank_memory(made.table(), 0, "here", nodes={0: 0})
    (structure,) = rank.structures
    assert structure.density is not None
    assert (structure.density.group, len(structure.density.threads)) == (2, 35)
    many = tuple(structure._replace(name=f"a{number}") for number in range(12))
    files = [
        RankFile(memory=RankMemory(rank=number, host="here", seconds=1.0, threads=70, reads=number, writes=1,
                                   structures=many))
        for number in range(20)
    ]  # fmt: skip
    found = merge([*files, RankFile(status="no room")])
    assert len(msgspec.json.encode(found)) < 1_000_000
    assert (found.ranks_seen, len(found.ranks), len(found.rest)) == (21, 8, 12)
    assert [each.rank for each in found.ranks] == [0, 1, 2, 3, 16, 17, 18, 19]
    assert found.rest[0].reads == 12 * structure.reads
    for each in found.ranks[0].structures:
        assert each.density is not None
        assert sum(map(sum, each.density.reads)) == structure.reads
        assert sum(map(sum, each.density.writes)) == structure.writes
    assert found.notes[0] == "1 of 21 ranks left nothing: no room"
