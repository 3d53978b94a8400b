"""Verdicts on many nodes: who is named, who is not, and what is said when it cannot be told."""

from __future__ import annotations

import json
import math
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from npc.machine.fabric import parse
from npc.npb.localise import localise_pairs
from npc.npb.worst_pairs import worst_pairs
from npc.records.pair_verdicts import Better, Localisation, PairResult
from tests.bench import blame as bench_blame
from tests.made.pairs import FOUR_LEAVES, Cluster, crossing, slow_client, slow_link, slow_node


def named(verdict: Localisation) -> list[str]:
    """Suspects as ``kind name``; a link's ends in order."""
    return [f"{suspect.kind} {'–'.join(sorted(suspect.name.split('–')))}" for suspect in verdict.suspects]


# The simulation that `make bench-blame` runs at length


@pytest.mark.slow
@pytest.mark.parametrize("scenario", bench_blame.SCENARIOS, ids=lambda scenario: scenario.name)
def test_eight_random_rounds_name_the_culprits_first_and_nobody_on_a_healthy_machine(
    scenario: bench_blame.Scenario,
) -> None:
    outcomes = [
        bench_blame.trial(seed, scenario, nodes=nodes, rounds=8, noise=0.02, again=True)
        for nodes, trials in ((1024, 3), (4096, 1))
        for seed in range(trials)
    ]
    if scenario is bench_blame.HEALTHY:
        assert [outcome.innocent for outcome in outcomes] == [0] * len(outcomes)
    else:
        assert all(outcome.first for outcome in outcomes)


@pytest.mark.slow
def test_nodes_three_per_cent_slow_are_found_in_sixteen_rounds() -> None:
    slight = bench_blame.Scenario("", nodes=5, loss=0.03)
    outcomes = [
        bench_blame.trial(seed, slight, nodes=1024, rounds=16, noise=0.02, again=True) for seed in range(8)
    ]
    assert sum(outcome.first for outcome in outcomes) >= 7  # one of the five may hide in the noise
    assert not any(outcome.innocent for outcome in outcomes)


# Small clusters, all pairs


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize("noise", [0.01, 0.05])
@pytest.mark.parametrize("n", [6, 7, 12])
def test_on_a_healthy_cluster_nobody_is_named(n: int, noise: float, better: Better) -> None:
    for seed in range(20):
        verdict = Cluster(n, noise=noise, seed=seed, better=better).verdict()
        assert verdict.healthy, verdict.table()
        assert verdict.judged == n


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize("n", [6, 7, 12])
def test_one_slow_node_is_named_and_nobody_else(n: int, better: Better) -> None:
    for seed in range(20):
        verdict = Cluster(n, slow_node(2, 0.2), noise=0.03, seed=seed, better=better).verdict()
        assert named(verdict) == ["node n2"], verdict.table()


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize("n", [6, 7, 12])
def test_one_slow_link_is_named_and_neither_of_its_nodes(n: int, better: Better) -> None:
    for seed in range(20):
        verdict = Cluster(n, slow_link(2, 5, 0.2), noise=0.03, seed=seed, better=better).verdict()
        assert named(verdict) == ["link n2–n5"], verdict.table()


def test_two_slow_nodes_of_eight_are_both_named() -> None:
    for seed in range(20):
        both = Cluster(8, lambda a, b: 0.5 if {a, b} & {3, 7} else 1.0, seed=seed).verdict()
        assert sorted(named(both)) == ["node n3", "node n7"], both.table()


def test_a_disturbance_that_has_passed_is_nobody_s_fault() -> None:
    cluster = Cluster(8)
    results = cluster.rounds()
    disturbed = structs.replace(results[5], value=3e8)
    results[5] = disturbed
    assert (disturbed.a, disturbed.b) in worst_pairs(results)
    once = localise_pairs(results)
    assert once.suspects == ()
    assert any(f"{disturbed.a}–{disturbed.b}" in sentence for sentence in once.undecided)
    again = localise_pairs([*results, cluster.measure(disturbed.a, disturbed.b, None, 1)])
    assert again.healthy
    assert again.undecided == ()


@pytest.mark.slow
def test_how_slow_is_said_with_an_interval_that_holds_the_truth() -> None:
    inside = 0
    for seed in range(40):
        (suspect,) = Cluster(24, slow_node(4, 0.8), seed=seed).verdict().suspects
        assert suspect.low is not None and suspect.high is not None and suspect.slowdown is not None
        assert suspect.low < suspect.slowdown < suspect.high
        inside += suspect.low <= 0.2 <= suspect.high
    assert inside >= 34  # 95 % nominally: P(fewer than 34 of 40) = 0.3 %


def test_latency_says_how_much_more_it_takes() -> None:
    (suspect,) = Cluster(12, slow_node(4, 0.5), better="lower").verdict().suspects
    assert suspect.slowdown == pytest.approx(1.0, abs=0.05)


@given(st.integers(0, 1000), st.floats(1e-9, 1e9), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_neither_unit_nor_order_nor_direction_changes_who_is_named(
    seed: int, scale: float, shuffler: random.Random
) -> None:
    results = Cluster(10, slow_node(3, 0.85), seed=seed).rounds()
    expected = named(localise_pairs(results))
    scaled = [structs.replace(result, value=(result.value or 0) * scale) for result in results]
    shuffler.shuffle(scaled)
    assert named(localise_pairs(scaled)) == expected
    turned = [
        structs.replace(result, value=1 / (result.value or 1), a=result.b, b=result.a) for result in results
    ]
    assert named(localise_pairs(turned, better="lower")) == expected


# One role, one direction


@pytest.mark.parametrize(("runs", "n", "loss"), [(1, 6, 0.9), (1, 12, 0.3), (2, 6, 0.3), (3, 6, 0.2)])
def test_a_node_that_is_slow_as_client_only_is_named_so_and_no_link_of_it(
    runs: int, n: int, loss: float
) -> None:
    for seed in range(10):
        verdict = Cluster(n, slow_client(4, 1 - loss), seed=seed).verdict(runs=runs)
        assert [suspect.whom for suspect in verdict.suspects] == ["node n4 as client"], verdict.table()


def test_who_sends_is_told_where_the_tool_is_known() -> None:
    results = Cluster(8, slow_client(4, 0.5)).rounds(runs=2)
    sentences = {
        sender: localise_pairs(results, sender=sender).table(rule=False).split(" (")[0]
        for sender in ("", "client", "server")
    }
    assert sentences == {
        "": "to blame: node n4 as client",
        "client": "to blame: node n4 as sender",
        "server": "to blame: node n4 as receiver",
    }


@pytest.mark.parametrize("runs", [1, 2])
def test_a_node_that_is_slow_both_ways_is_not_blamed_for_one_of_them(runs: int) -> None:
    for seed in range(20):
        verdict = Cluster(6, slow_node(2, 0.85), seed=seed).verdict(runs=runs)
        assert [suspect.whom for suspect in verdict.suspects] == ["node n2"], verdict.table()


@pytest.mark.parametrize("runs", [2, 3])
def test_a_link_that_is_slow_in_one_direction_is_named_with_it(runs: int) -> None:
    for seed in range(10):
        cluster = Cluster(8, lambda a, b: 0.5 if (a, b) == (5, 2) else 1.0, seed=seed)
        (suspect,) = localise_pairs(
            [
                *(first := cluster.rounds(runs=runs)),
                *(cluster.measure(*pair, None, 1) for pair in worst_pairs(first)),
            ],
            sender="client",
        ).suspects
        assert (suspect.whom, suspect.nodes, suspect.role) == ("link n2→n5", ("n2", "n5"), "sender")
        assert "not of the other" in suspect.evidence
        assert "`n5 n2`" in suspect.closer  # the server first, as a file of pairs has it


def test_a_link_is_not_named_while_its_nodes_were_measured_with_nobody_else() -> None:
    cluster = Cluster(24, slow_node(2, 0.5))
    results = cluster.rounds("bisection")
    slow = next((result.a, result.b) for result in results if "n2" in (result.a, result.b))
    once_more = localise_pairs([*results, *(cluster.measure(*slow, None, 1) for _ in range(3))])
    assert once_more.suspects == ()
    assert any("measured with nobody else" in sentence for sentence in once_more.undecided)


# Switches and racks


@pytest.mark.parametrize("pattern", ["all", "sample:12"])
def test_a_slow_uplink_is_named_instead_of_all_nodes_below_it(pattern: str) -> None:
    for seed in range(10):
        cluster = Cluster(24, crossing(range(7, 13), 0.8), seed=seed, topology=FOUR_LEAVES)
        verdict = cluster.verdict(pattern)
        assert named(verdict) == ["uplink leaf2"], verdict.table()
        assert set(verdict.suspects[0].nodes) == {f"n{i}" for i in range(7, 13)}


def test_an_uplink_whose_readings_scatter_is_named_all_the_same() -> None:
    """A run in which the slow readings scattered by 30 σ, their median between them; both passes of it."""
    healthy = [
        "n3n2", "n7n2", "n8n2", "n1n3", "n7n3", "n1n4", "n2n4", "n8n4", "n1n7", "n4n7", "n1n8", "n3n8",
        "n2n1", "n4n3", "n7n8", "n6n5",
    ]  # fmt: skip
    first = {
        "n5n1": 8.258, "n6n1": 7.143, "n6n2": 7.733, "n5n4": 7.471, "n2n5": 4.26, "n3n5": 8.323,
        "n3n6": 8.126, "n4n6": 7.209, "n7n6": 8.126, "n8n6": 7.733, "n5n7": 8.258, "n5n8": 8.192,
    }  # fmt: skip
    again = {
        "n5n1": 8.258, "n6n1": 7.93, "n6n2": 8.126, "n5n4": 8.192, "n2n5": 8.258, "n3n5": 7.93,
        "n3n6": 8.258, "n4n6": 8.258, "n7n6": 6.75, "n8n6": 8.126, "n5n7": 8.258, "n5n8": 7.93, "n6n5": 11.93,
    }  # fmt: skip
    usual = {pair: 11.93 if number % 3 == 0 else 11.99 for number, pair in enumerate(healthy)}
    results = [
        PairResult(pair[:2], pair[2:], 1e6 * value, attempt=attempt)
        for attempt, values in ((0, usual), (0, first), (1, again))
        for pair, value in values.items()
    ]
    leaves = parse("leaf1: n[1-2]\nleaf2: n[3-4]\nleaf3: n[5-6]\nleaf4: n[7-8]\n")
    (suspect,) = localise_pairs(results, topology=leaves).suspects
    assert (suspect.kind, suspect.name) == ("uplink", "leaf3")
    assert suspect.slowdown == pytest.approx(0.31, abs=0.01)


# the crossings of leaf3's uplink, in MB/s, first and once more; the last of each is within leaf3
CROSSED = [
    "n4n5", "n6n3", "n6n7", "n1n5", "n2n6", "n5n3", "n8n5", "n6n4", "n7n5", "n6n8", "n5n2", "n1n6", "n5n6",
]  # fmt: skip
BESIDE = [
    "n8n1", "n2n7", "n7n4", "n2n8", "n3n1", "n8n3", "n4n2", "n4n8", "n7n1", "n3n7", "n1n2", "n2n3", "n4n1",
    "n8n7", "n3n4",
]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (
            [4.915, 7.537, 6.685, 7.864, 8.258, 5.571, 7.864, 8.061, 7.995, 8.061, 7.995, 8.126, 11.993],
            [7.209, 6.16, 8.126, 7.93, 8.192, 8.323, 8.323, 7.864, 8.323, 7.864, 8.323, 8.126, 11.928],
        ),
        (
            [7.274, 6.029, 7.471, 8.323, 6.685, 5.571, 8.323, 3.736, 7.274, 5.112, 8.389, 5.964, 11.993],
            [8.323, 6.619, 7.93, 7.668, 7.668, 8.258, 8.258, 7.799, 7.471, 7.995, 8.258, 8.111, 11.993],
        ),
        (
            [4.325, 7.012, 6.75, 7.864, 8.323, 6.685, 7.995, 7.864, 7.537, 8.323, 7.143, 8.323, 11.993],
            [8.192, 8.258, 7.995, 8.192, 4.588, 6.291, 7.143, 8.126, 4.653, 7.733, 7.799, 8.061, 11.993],
        ),
    ],
    ids=[
        "its nodes explain as much",
        "the others' scatter hides each node",
        "one of its nodes explains more",
    ],
)
def test_an_uplink_that_two_pairs_share_at_times_is_named_not_its_nodes(
    first: list[float], again: list[float]
) -> None:
    """Runs beside busy programs, by which a pair shared the uplink or had it alone."""
    usual = [11.993 if number % 3 == 1 else 11.928 for number in range(len(BESIDE))]
    results = [
        PairResult(pair[:2], pair[2:], 1e6 * value, attempt=attempt)
        for attempt, pairs, values in ((0, BESIDE, usual), (0, CROSSED, first), (1, CROSSED, again))
        for pair, value in zip(pairs, values, strict=True)
    ]
    leaves = parse("leaf1: n[1-2]\nleaf2: n[3-4]\nleaf3: n[5-6]\nleaf4: n[7-8]\n")
    assert named(localise_pairs(results, topology=leaves)) == ["uplink leaf3"]


def test_slow_nodes_below_a_switch_with_one_that_is_not_are_named_themselves() -> None:
    slow = {9: 0.5, 10: 0.6, 11: 0.7, 12: 0.8, 8: 0.4}  # n7 is as the others are
    for seed in range(10):
        cluster = Cluster(
            24, lambda a, b: min(slow.get(a, 1.0), slow.get(b, 1.0)), seed=seed, topology=FOUR_LEAVES
        )
        assert sorted(named(cluster.verdict())) == sorted(f"node n{number}" for number in slow)


def test_a_switch_that_is_slow_inside_too_is_told_from_its_uplink() -> None:
    for seed in range(10):
        cluster = Cluster(24, crossing(range(7, 13), 0.8, 0.8), seed=seed, topology=FOUR_LEAVES)
        assert named(cluster.verdict()) == ["switch leaf2"]


def test_a_slow_node_is_not_blamed_on_its_switch() -> None:
    for seed in range(10):
        verdict = Cluster(24, slow_node(9, 0.8), seed=seed, topology=FOUR_LEAVES).verdict()
        assert named(verdict) == ["node n9"]


def test_without_a_topology_the_nodes_below_a_slow_uplink_are_named_themselves() -> None:
    verdict = Cluster(48, crossing(range(7, 11), 0.8)).verdict()
    assert sorted(named(verdict)) == sorted(f"node n{i}" for i in range(7, 11))


def test_a_rack_is_named_where_its_nodes_hang_on_different_switches() -> None:
    racks = parse(
        "".join(f"leaf{i}: n[{6 * i - 5}-{6 * i}]\n" for i in range(1, 5)) + "rack r1: n1,n7,n13,n19\n"
    )
    verdict = Cluster(24, lambda a, b: 0.8 if {a, b} & {1, 7, 13, 19} else 1.0, topology=racks).verdict()
    assert named(verdict) == ["rack r1"]


def test_a_distance_that_is_slower_for_all_is_normal() -> None:
    def distance(a: int, b: int) -> float:
        return 1.0 if (a - 1) // 6 == (b - 1) // 6 else 0.6

    for seed in range(10):
        cluster = Cluster(24, distance, seed=seed, better="lower", topology=FOUR_LEAVES)
        assert cluster.verdict().healthy


# What does not answer


def test_a_dead_node_is_named_and_its_partners_are_not() -> None:
    verdict = Cluster(8, lambda a, b: 0.0 if 3 in (a, b) else 1.0).verdict()
    assert named(verdict) == ["node n3"]
    assert verdict.suspects[0].dead
    assert "7 of 7 measurements failed (no route to host, 7×)" in verdict.suspects[0].evidence


def test_a_node_that_dies_half_way_is_named() -> None:
    cluster = Cluster(10)
    results = [
        structs.replace(r, value=None, status="timeout: no answer")
        if r.round is not None and r.round >= 4 and "n6" in (r.a, r.b)
        else r
        for r in cluster.rounds()
    ]
    verdict = localise_pairs(results)
    assert named(verdict) == ["node n6"]
    assert verdict.failed == 5


def test_a_node_that_fails_in_one_role_is_said_to() -> None:
    (suspect,) = Cluster(10, lambda a, b: 0.0 if a == 3 else 1.0).verdict().suspects
    assert (suspect.whom, suspect.dead) == ("node n3", True)
    assert "measurements failed, all as server (no route" in suspect.evidence


def test_two_dead_nodes_are_both_named() -> None:
    verdict = Cluster(10, lambda a, b: 0.0 if {a, b} & {3, 8} else 1.0).verdict()
    assert sorted(named(verdict)) == ["node n3", "node n8"]


def test_a_pair_that_fails_again_is_a_dead_link() -> None:
    verdict = Cluster(8, slow_link(2, 5, 0.0)).verdict()
    assert named(verdict) == ["link n2–n5"]
    assert verdict.suspects[0].dead


def test_a_pair_that_failed_once_blames_nobody_and_is_said() -> None:
    verdict = Cluster(8, slow_link(2, 5, 0.0)).verdict(again=False)
    assert verdict.suspects == ()
    assert any("failed too seldom to blame anybody" in sentence for sentence in verdict.undecided)


def test_when_everything_fails_nobody_is_singled_out() -> None:
    verdict = Cluster(8, lambda a, b: 0.0).verdict()
    assert verdict.suspects == ()
    assert not verdict.healthy
    assert verdict.failed >= 28


# What cannot be told


@pytest.mark.parametrize("n", [2, 3])
def test_two_or_three_nodes_are_too_few_to_blame_one(n: int) -> None:
    verdict = Cluster(n, slow_node(1, 0.2)).verdict()
    assert verdict.suspects == ()
    assert not verdict.healthy
    assert "too few measurements to blame anybody" in verdict.table()
    assert "(it takes more nodes)" in verdict.table(), "all pairs were measured"


def test_a_ring_has_too_few_measurements_of_each_node() -> None:
    verdict = Cluster(8, slow_node(2, 0.5)).verdict("ring", again=False)
    assert verdict.suspects == ()
    assert verdict.judged == 0
    assert any("8 nodes with fewer than 3 good measurements" in sentence for sentence in verdict.undecided)


def test_one_to_all_cannot_judge_the_one() -> None:
    verdict = Cluster(8, slow_node(1, 0.5)).verdict("one-to-all")
    assert verdict.suspects == ()
    assert any("no rest to compare with: n1" in sentence for sentence in verdict.undecided)


def test_nothing_measured_is_no_verdict() -> None:
    verdict = localise_pairs([], nodes=["n1", "n2"])
    assert (verdict.healthy, verdict.nodes, verdict.judged, verdict.typical) == (False, 2, 0, None)
    assert worst_pairs([]) == []


def test_values_that_cannot_be_are_failures() -> None:
    results = Cluster(6).rounds()
    results[0] = structs.replace(results[0], value=0.0)
    results[1] = structs.replace(results[1], value=math.inf)
    assert localise_pairs(results).failed == 2


# What is measured again


def test_the_worst_pairs_are_those_of_the_slow_node_first() -> None:
    chosen = worst_pairs(Cluster(24, slow_node(4, 0.7)).rounds())
    assert all("n4" in pair for pair in chosen[:16])
    assert len(chosen) == len({frozenset(pair) for pair in chosen})


def test_no_more_pairs_are_measured_again_than_asked_for() -> None:
    assert len(worst_pairs(Cluster(24, slow_node(4, 0.7)).rounds(), most=3)) == 3


def test_pairs_of_a_dead_node_are_not_tried_again() -> None:
    assert not any(
        "n3" in pair for pair in worst_pairs(Cluster(8, lambda a, b: 0.0 if 3 in (a, b) else 1.0).rounds())
    )


# How it is told


def test_a_verdict_is_plain_json_with_thresholds_and_evidence() -> None:
    plain = json.loads(json.dumps(msgspec.to_builtins(Cluster(8, slow_node(2, 0.5)).verdict())))
    (suspect,) = plain["suspects"]
    assert suspect["name"] == "n2"
    assert suspect["measurements"][0]["status"] == "ok"
    assert plain["healthy"] is False
    assert any("0.5%" in part for part in plain["rule"])


def test_the_table_says_who_how_much_why_by_what_rule_and_what_next() -> None:
    text = Cluster(8, slow_node(2, 0.5)).verdict().table()
    assert text.startswith("to blame: node n2 (8 of 8 nodes judged")
    assert "% less [" in text
    assert "with 7 nodes" in " ".join(text.split())
    assert "ethtool -S" in text
    assert "rule: the first suspect: such evidence in less than 0.5% of healthy runs" in text
    assert Cluster(8).verdict().table().startswith("nobody is to blame (8 of 8 nodes judged")
