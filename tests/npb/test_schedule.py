"""The schedule of pairs: its properties for every number of nodes, and what a user may ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.npb.schedule import (
    InvalidPattern,
    Round,
    circle_round,
    circle_rounds,
    disjoint_rounds,
    read_pairs,
    schedule,
)

nodes = st.integers(min_value=2, max_value=70)


def hosts(n: int) -> list[str]:
    return [f"n{rank:03d}" for rank in range(n)]


def unordered(rounds: Iterable[Round]) -> list[frozenset[int]]:
    return [frozenset(pair) for pairs in rounds for pair in pairs]


def assert_disjoint(rounds: Iterable[Round]) -> None:
    for pairs in rounds:
        busy = [rank for pair in pairs for rank in pair]
        assert len(busy) == len(set(busy))


def role_balance(rounds: Iterable[Round]) -> Counter[int]:
    """By node: rounds as server minus rounds as client."""
    balance: Counter[int] = Counter()
    for pairs in rounds:
        for server, client in pairs:
            balance[server] += 1
            balance[client] -= 1
    return balance


@given(nodes)
def test_all_measures_each_pair_once_in_the_fewest_rounds(n: int) -> None:
    rounds = list(schedule("all", hosts(n)))
    pairs = unordered(rounds)
    assert len(rounds) == (n if n % 2 else n - 1)
    assert len(pairs) == len(set(pairs)) == n * (n - 1) // 2 == schedule("all", hosts(n)).pairs
    assert all(len(pair) == 2 and pair <= set(range(n)) for pair in pairs)
    assert_disjoint(rounds)
    assert all(abs(difference) <= 1 for difference in role_balance(rounds).values())


@given(nodes, st.integers(min_value=1, max_value=80), st.integers(min_value=0))
def test_sample_draws_perfect_matchings_and_repeats_no_pair_before_all_have_come(
    n: int, count: int, seed: int
) -> None:
    drawn = schedule(f"sample:{count}", hosts(n), seed=seed)
    rounds = list(drawn)
    assert len(rounds) == len(drawn) == count
    assert all(len(pairs) == n // 2 for pairs in rounds)
    assert_disjoint(rounds)
    times = Counter(unordered(rounds)).values()
    cycle = n if n % 2 else n - 1
    assert max(times) <= -(-count // cycle)
    if n % 2:
        rested = Counter(node for pairs in rounds for node in set(range(n)) - {x for p in pairs for x in p})
        assert max(rested.values()) - (min(rested.values()) if len(rested) == n else 0) <= 1


@given(nodes, st.integers(min_value=1, max_value=20), st.integers(min_value=0))
def test_a_seed_draws_the_same_sample_again(n: int, count: int, seed: int) -> None:
    first = schedule(f"sample {count}", hosts(n), seed=seed)
    again = schedule(f"sample:{count}", hosts(n), seed=first.seed)
    assert list(first) == list(again)


def test_a_sample_without_a_seed_records_the_one_it_drew() -> None:
    drawn = schedule("sample:5", hosts(40))
    assert drawn.seed is not None
    assert list(schedule("sample:5", hosts(40), seed=drawn.seed)) == list(drawn)
    assert list(schedule("sample:5", hosts(40))) != list(drawn)


def test_the_roles_of_a_sample_are_balanced() -> None:
    rounds = list(schedule("sample:8", hosts(512), seed=1))
    assert max(abs(difference) for difference in role_balance(rounds).values()) <= 2


@given(nodes)
def test_ring_pairs_each_node_with_its_neighbours(n: int) -> None:
    rounds = list(schedule("ring", hosts(n)))
    assert sorted(map(sorted, unordered(rounds))) == sorted(
        map(sorted, {frozenset((rank, (rank + 1) % n)) for rank in range(n)})
    )
    assert len(rounds) == (1 if n == 2 else 3 if n % 2 else 2)
    assert_disjoint(rounds)


@given(nodes)
def test_one_to_all_measures_rank_0_with_every_other(n: int) -> None:
    assert list(schedule("one-to-all", hosts(n))) == [[(0, other)] for other in range(1, n)]


@given(nodes)
def test_bisection_is_one_round_of_lower_half_against_upper_half(n: int) -> None:
    (pairs,) = schedule("bisection", hosts(n))
    assert len(pairs) == n // 2
    assert_disjoint([pairs])
    assert all(server < n / 2 <= client or (n % 2 and client > n // 2 > server) for server, client in pairs)


@given(nodes, st.sampled_from(["all", "ring", "one-to-all", "bisection", "sample:3"]))
def test_serial_measures_the_same_pairs_one_at_a_time(n: int, pattern: str) -> None:
    together = schedule(pattern, hosts(n), seed=7)
    alone = schedule(pattern, hosts(n), seed=7, serial=True)
    rounds = list(alone)
    assert all(len(pairs) == 1 for pairs in rounds)
    assert len(alone) == len(rounds) == together.pairs
    assert [pair for pairs in together for pair in pairs] == [pair for pairs in rounds for pair in pairs]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] != pair[1])))
def test_a_list_of_pairs_becomes_disjoint_rounds_that_hold_each_of_them(pairs: Round) -> None:
    rounds = disjoint_rounds(pairs)
    assert Counter(pair for some in rounds for pair in some) == Counter(pairs)
    assert_disjoint(rounds)
    degree = Counter(node for pair in pairs for node in pair)
    assert len(rounds) <= max(2 * max(degree.values(), default=1) - 1, 0)


@given(nodes, st.data())
def test_rounds_of_all_can_be_taken_in_any_order(n: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(min_value=0, max_value=circle_rounds(n) - 1))
    assert circle_round(n, index) == list(schedule("all", hosts(n)))[index]


@given(nodes, st.sampled_from(["all", "ring", "bisection", "sample:3"]))
def test_roles_change_from_run_to_run(n: int, pattern: str) -> None:
    plan = schedule(pattern, hosts(n), seed=7)
    first, second, third = (list(plan.of_run(run)) for run in range(3))
    assert first == third == list(plan)
    assert second == [[(b, a) for a, b in pairs] for pairs in first]


def test_roles_that_were_asked_for_stay(tmp_path: Path) -> None:
    file = tmp_path / "pairs"
    file.write_text("n000 n001\n")
    for pattern in (str(file), "one-to-all"):
        plan = schedule(pattern, hosts(4))
        assert list(plan.of_run(1)) == list(plan)


def test_a_file_of_pairs_may_have_comments_and_short_names(tmp_path: Path) -> None:
    file = tmp_path / "pairs"
    file.write_text("# suspects\n n1 n2 # first\n\nn3.cluster n1.cluster\n")
    job = ["n1.cluster", "n2.cluster", "n3.cluster"]
    assert read_pairs(file, job) == [(0, 1), (2, 0)]
    assert list(schedule(str(file), job)) == [[(0, 1)], [(2, 0)]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n1 n9\n", r"pairs:1: no rank runs on 'n9'; hosts of this job: n1, n2, twin"),
        ("# x\nn1 twin\n", r"pairs:2: 2 ranks run on 'twin'"),
        ("n1 n2 n2\n", r"pairs:1: expected two host names, SERVER CLIENT, found 3 words"),
        ("n1 n1\n", r"pairs:1: n1 with itself is no pair"),
        ("# nothing\n", r"pairs: no pairs in it"),
    ],
)
def test_a_file_that_is_no_list_of_pairs_is_refused_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "pairs").write_text(text)
    with pytest.raises(InvalidPattern, match=message):
        schedule(str(tmp_path / "pairs"), ["n1", "n2", "twin", "twin"])


@pytest.mark.parametrize("pattern", ["everything", "sample:0", "sample", "sample:-1", ""])
def test_an_unknown_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        schedule(pattern, hosts(4))


@pytest.mark.parametrize("n", [0, 1])
def test_one_node_makes_no_pair(n: int) -> None:
    with pytest.raises(InvalidPattern, match="at least two nodes"):
        schedule("all", hosts(n))
