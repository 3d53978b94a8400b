"""Who shares which page and line: tables made of single accesses, the truth counted from these."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npc.observe.memory.accesses import fold
from npc.observe.memory.records import RankMemory
from npc.observe.memory.reduce import rank_memory
from tests.made.memory_tables import PAGE_BYTES, MadeTables

MS = 1_000_000
HEAP = 0x7F0000000000
CODE = (0x1000, 0x2000)


def _pages(made: MadeTables) -> Counter[str]:
    """The classes of all pages, each from its accesses one by one."""
    by_page = defaultdict(list)
    for each in made.accesses:
        by_page[each.page].append(each)
    found: Counter[str] = Counter()
    for accesses in by_page.values():
        shared = written = same = False
        for one, other in combinations({each.thread for each in accesses}, 2):
            slots = [
                {each.time // made.slot_ns for each in accesses if each.thread == who} for who in (one, other)
            ]
            writes = [
                {each.time // made.slot_ns for each in accesses if each.thread == who and each.written}
                for who in (one, other)
            ]
            words = [
                {word for each in accesses if each.thread == who for word in each.addresses}
                for who in (one, other)
            ]
            changed = [
                {word for each in accesses if each.thread == who and each.written for word in each.addresses}
                for who in (one, other)
            ]
            meetings = writes[0] & slots[1] | writes[1] & slots[0]
            here = len(meetings) >= 3
            shared |= here or bool(slots[0] & slots[1] - meetings)
            written |= here
            same |= here and bool(changed[0] & words[1] or changed[1] & words[0])
        found[
            "write-shared" if same else "false-shared" if written else "read-shared" if shared else "private"
        ] += 1
    return found


def _seen(memory: RankMemory) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in memory.structures:
        found.update(each.sharing)
    return found


accesses = st.tuples(
    st.integers(0, 2),
    st.integers(0, 9).map(lambda part: 5 * MS * part),
    st.integers(0, PAGE_BYTES // 8).map(lambda word: HEAP + 16 * word),
    st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(accesses, min_size=1, max_size=90))
def test_every_page_has_the_class_that_its_accesses_give_it(drawn):
    made = MadeTables(objects=[(HEAP, 3 * PAGE_BYTES, 0, 0, CODE)])
    for thread, time, address, written in drawn:
        (made.write if written else made.read)(thread, time, [address])
    memory = rank_memory(made.table(), 0, "here", nodes={0: 0})
    assert _seen(memory) == _pages(made)
    (structure,) = memory.structures
    assert structure.reads + structure.writes == len(drawn)
    assert structure.words == len({address for _, _, address, _ in drawn})
    assert structure.lines == len({address // 64 for _, _, address, _ in drawn})
    assert structure.density is not None
    assert np.sum(structure.density.reads) + np.sum(structure.density.writes) == len(drawn)
    first = {}
    for thread, time, address, _ in sorted(drawn, key=lambda each: (each[1], each[0])):
        first.setdefault(address // PAGE_BYTES, thread)
    most = max(Counter(first.values()).values())
    assert structure.first_share == pytest.approx(most / len(first))


def test_what_one_thread_sets_up_and_looks_at_in_the_end_stays_private():
    made = MadeTables(objects=[(HEAP, 4 * PAGE_BYTES, 0, 0, CODE)])
    words = range(HEAP, HEAP + 4 * PAGE_BYTES, 8)
    made.write(0, 1 * MS, words)
    for thread in range(1, 5):
        begin = HEAP + (thread - 1) * PAGE_BYTES
        made.write(thread, 30 * MS, range(begin, begin + PAGE_BYTES, 8), times=100)
    made.read(0, 60 * MS, words)
    (structure,) = rank_memory(made.table(), 0, "here", nodes={0: 0}).structures
    assert structure.sharing == {"private": 4}
    assert (structure.first_thread, structure.first_share, structure.threads) == (0, 1.0, 5)


def test_counters_of_threads_in_one_line_are_false_sharing_though_one_thread_zeroed_them_all():
    made = MadeTables(objects=[(HEAP, 64, 0, 0, CODE)])
    counters = [HEAP, HEAP + 8]
    made.write(0, 1 * MS, counters)
    for thread, address in enumerate(counters):
        made.read(thread, 30 * MS, [address], times=5000)
        made.write(thread, 30 * MS, [address], times=5000)
    made.read(0, 60 * MS, counters)
    (line,) = rank_memory(made.table(), 0, "here", nodes={0: 0}).lines
    assert (line.kind, line.threads, line.reads, line.writes) == ("false-shared", (0, 1), 10002, 10002)
    assert line.words == ("thread 0 writes malloc#1, bytes 0 to 7", "thread 1 writes malloc#1, bytes 8 to 15")


def test_a_counter_that_all_write_is_write_shared_and_one_that_few_use_is_nothing():
    made = MadeTables(objects=[(HEAP, 64, 0, 0, CODE), (HEAP + 4096, 64, 0, 0, CODE)])
    for thread in range(3):
        made.write(thread, 30 * MS, [HEAP], times=4000)
        made.write(thread, 30 * MS, [HEAP + 4096 + 8 * thread], times=20)
    (line,) = rank_memory(made.table(), 0, "here", nodes={0: 0}).lines
    assert (line.kind, line.threads) == ("write-shared", (0, 1, 2))


def test_sharing_over_time_has_each_page_in_the_part_in_which_it_was_touched():
    made = MadeTables(objects=[(HEAP, PAGE_BYTES, 0, 0, CODE)])
    made.write(0, 1 * MS, [HEAP])
    for time in (20 * MS, 30 * MS):
        made.read(1, time, [HEAP])
        made.read(2, time, [HEAP])
    made.write(1, 50 * MS, [HEAP])
    found = rank_memory(made.table(), 0, "here", nodes={0: 0}).intervals
    told = {round(each.begin * 1e3): each.sharing for each in found}
    assert list(told.values()) == [
        {"private": 1},
        {"read-shared": 1},
        {"read-shared": 1},
        {"private": 1},
    ]
    for begin, moment in zip(told, (1, 20, 30, 50), strict=True):
        assert begin <= moment < begin + 3


def test_sampled_accesses_are_the_first_of_their_intervals():
    made = MadeTables(objects=[(HEAP, 2 * PAGE_BYTES, 0, 0, CODE)])
    for part in range(1000):
        made.write(0, part * MS, [HEAP, HEAP + 8])
        made.read(part % 2, part * MS + 10, [HEAP + PAGE_BYTES])
    memory = rank_memory(made.sampled(100 * MS), 0, "here", nodes={0: 0})
    (structure,) = memory.structures
    # in each of ten intervals thread 0 writes the first page, and both threads read the second one
    assert (structure.writes, structure.reads, structure.pages) == (10, 20, 2)
    assert structure.sharing == {"private": 1, "read-shared": 1}
    assert structure.words == 2
    assert (memory.guarded, memory.seconds) == (0.5, made.end / 1e9)


@given(st.integers(0, 2**64 - 1))
def test_two_parts_of_the_run_become_one(bits):
    truth = sum(1 << place for place in range(32) if bits >> 2 * place & 3)
    assert int(fold(np.array([bits], np.uint64))[0]) == truth
