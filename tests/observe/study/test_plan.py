"""The plan of a study: its conditions, and what expectations mean in it."""

from __future__ import annotations

import pytest

from npc.observe.study.plan import Factors, conditions_of, expectation_of, network_of


def test_the_plan_is_the_product_without_what_cannot_be_run() -> None:
    plan, notes = conditions_of(Factors(nodes=(1, 2), ranks=("1", "2/node"), binding=("default", "core")))
    assert [each.name for each in plan] == [
        "1 node, 1 rank, 1 thread, default",
        "1 node, 1 rank, 1 thread, core",
        "1 node, 2 ranks, 1 thread, default",
        "1 node, 2 ranks, 1 thread, core",
        "2 nodes, 4 ranks, 1 thread, default",
        "2 nodes, 4 ranks, 1 thread, core",
    ]
    assert [each.ranks_per_node for each in plan] == [1, 1, 2, 2, 2, 2]
    assert notes == ["left out: 1 ranks on 2 nodes, which are not as many on each"]


def test_two_words_for_one_number_of_ranks_are_one_condition() -> None:
    plan, _ = conditions_of(Factors(nodes=(2,), ranks=("4", "2/node")))
    assert [each.name for each in plan] == ["2 nodes, 4 ranks, 1 thread"]


def test_cores_are_filled_by_ranks_with_their_threads() -> None:
    """The conditions of table 4.3 in Wang, 2023, by nodes, and what does not go into its cores."""
    plan, notes = conditions_of(Factors(nodes=(1, 2, 4, 8), cores=("64/node",), threads=(1, 2, 4)))
    assert [(each.nodes, each.ranks, each.threads) for each in plan] == [
        (1, 64, 1), (1, 32, 2), (1, 16, 4), (2, 128, 1), (2, 64, 2), (2, 32, 4),
        (4, 256, 1), (4, 128, 2), (4, 64, 4), (8, 512, 1), (8, 256, 2), (8, 128, 4),
    ]  # fmt: skip
    assert not notes
    plan, notes = conditions_of(Factors(cores=("6",), threads=(2, 4)))
    assert [each.name for each in plan] == ["1 node, 3 ranks, 2 threads"]
    assert notes == ["left out: 6 cores, which ranks of 4 threads do not fill"]


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        (Factors(ranks=("x",)), "ranks 'x'"),
        (Factors(ranks=("0",)), "ranks '0'"),
        (Factors(cores=("x",)), "cores 'x'"),
        (Factors(binding=("cores",)), "binding 'cores': expected default"),
        (Factors(nodes=(2,), ranks=("3",)), "no condition that can be run: left out: 3 ranks on 2 nodes"),
        (Factors(ranks=tuple(map(str, range(1, 62)))), "61 placements"),
    ],
)
def test_what_cannot_be_planned_is_said(factors: Factors, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        conditions_of(factors)


@pytest.mark.parametrize(
    ("text", "left", "sign", "factor", "right"),
    [
        ("4 nodes ≥ 3.5 × 1 node", "4 nodes, 8 ranks, 1 thread", ">=", 3.5, "1 node, 2 ranks, 1 thread"),
        ("4 nodes >= 3.5 x 1 node", "4 nodes, 8 ranks, 1 thread", ">=", 3.5, "1 node, 2 ranks, 1 thread"),
        ("2 nodes >= 1 node", "2 nodes, 4 ranks, 1 thread", ">=", 1.0, "1 node, 2 ranks, 1 thread"),
        (
            "1 node, 1 rank, memory 1 <= 0.8*1 node 1 rank",
            "1 node, 1 rank, 1 thread, memory 1", "<=", 0.8, "1 node, 1 rank, 1 thread",
        ),
        (
            "2 nodes, network UCX_TLS=tcp <= 0.5 x 2 nodes",
            "2 nodes, 2 ranks, 1 thread, network UCX_TLS=tcp", "<=", 0.5, "2 nodes, 4 ranks, 1 thread",
        ),
        (
            "UCX_TLS=tcp 2 nodes <= 2 nodes",
            "2 nodes, 4 ranks, 1 thread, UCX_TLS=tcp", "<=", 1.0, "2 nodes, 4 ranks, 1 thread",
        ),
    ],
)  # fmt: skip
def test_an_expectation_means_the_first_condition_that_fits_each_side(
    text: str, left: str, sign: str, factor: float, right: str
) -> None:
    plan, _ = conditions_of(Factors(nodes=(1, 2, 4), ranks=("2/node", "1/node"), memory=(None, 1.0)))
    transport, _ = conditions_of(Factors(nodes=(2,), ranks=("2/node",), variables={"UCX_TLS": ["tcp"]}))
    other, _ = conditions_of(Factors(nodes=(2,), network=(network_of("UCX_TLS=tcp"),)))
    meant = expectation_of(text, [*plan, *transport, *other])
    assert meant[2:6] == (left, sign, factor, right)
    assert meant.held == "not measured" and meant.time.startswith("20")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("faster", "it is about speed"),
        ("4 nodes > 1 node", "it is about speed"),
        ("8 nodes >= 2 x 1 node", "the plan has no condition with 8 nodes"),
        ("4 cows >= 2 x 1 node", "'4 cows' names no condition"),
        ("1 node >= 2 x 1 node", "both sides are"),
        ("4 nodes >= 0 x 1 node", "0 times a speed"),
        ("memory much >= 1 node", "no condition with memory much"),
    ],
)
def test_an_expectation_that_says_nothing_about_the_plan_is_refused(text: str, words: str) -> None:
    plan, _ = conditions_of(Factors(nodes=(1, 2, 4), ranks=("2/node",)))
    with pytest.raises(ValueError, match=words):
        expectation_of(text, plan)
