"""Which nodes and benchmarks a night chooses: order, budget, partners, and a year on a thousand nodes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npc.cron.rotation import (
    NodeNights,
    NodeState,
    WorkItem,
    choose_within_budget,
    due_pairs,
    expected_cost_s,
    fitting,
    quota,
)

BUSY, DOWN = NodeState(idle=False), NodeState(usable=False, idle=False)


def names(count: int) -> list[str]:
    return [f"n{number:04d}" for number in range(count)]


def test_suspects_come_first_then_what_is_unknown_longest() -> None:
    works = [
        WorkItem(name="qperf", last=7, cost_s=100.0),
        WorkItem(name="osu", last=3, cost_s=100.0),
        WorkItem(name="hpcc", last=-1, cost_s=None),
        WorkItem(name="iperf3", last=9, suspect=True, cost_s=100.0),
        WorkItem(name="stream", last=3, cost_s=100.0),
    ]
    chosen, left = choose_within_budget(works, 300.0)
    assert [work.name for work in chosen] == ["iperf3", "hpcc", "osu", "stream"]
    assert [work.name for work in left] == ["qperf"]
    chosen, left = choose_within_budget(works, None)
    assert (len(chosen), left) == (5, [])


def test_suspects_that_last_do_not_end_the_rotation() -> None:
    slow = [WorkItem(name=f"slow {number}", last=9, suspect=True, cost_s=10.0) for number in range(50)]
    chosen, _ = choose_within_budget([*slow, WorkItem(name="dear", last=1, cost_s=90.0)], 100.0)
    assert [work.name for work in chosen] == ["slow 0", "dear"], "all but what the oldest takes"
    cheap = [WorkItem(name=f"cheap {number}", last=number, cost_s=10.0) for number in range(9)]
    chosen, _ = choose_within_budget([*slow, *cheap], 100.0)
    assert Counter(work.suspect for work in chosen) == {True: 5, False: 5}


def test_of_pairs_whose_cost_nobody_knows_one_is_measured() -> None:
    works = [WorkItem(name="nodes", nodes=(f"a{n}", f"b{n}")) for n in range(5)]
    chosen, left = choose_within_budget(works, 60.0)
    assert (len(chosen), len(left)) == (1, 4)


@settings(max_examples=40)
@given(
    st.lists(
        st.builds(
            WorkItem, name=st.sampled_from("abcdefgh"), last=st.integers(-1, 9),
            suspect=st.booleans(), cost_s=st.floats(1, 50),
        ),
        unique_by=lambda work: work.name, max_size=8,
    ),
    st.floats(1, 100), st.floats(0, 100),
)  # fmt: skip
def test_a_choice_stays_in_its_budget_and_forgets_nothing(
    works: list[WorkItem], budget: float, reserve: float
) -> None:
    chosen, left = choose_within_budget(works, budget, reserve)
    assert sum(work.cost_s or 0.0 for work in chosen) <= budget * (1 + 1e-9)
    assert sorted(work.name for work in [*chosen, *left]) == sorted(work.name for work in works)


def test_the_cost_of_a_pair_is_that_of_its_last_nights_and_known_from_the_third_on() -> None:
    costs = {"stream": [*[99.0] * 20, *[10.0] * 9, 1e6], "pairs": [4.0, 4.0, 5.0], "likwid": [1.0, 1.0]}
    assert expected_cost_s(costs, {"stream": 2, "pairs": 1}) == 2 * 10.0 + 4.0
    assert expected_cost_s(costs, {"stream": 2, "likwid": 2}) is None


def test_idle_nodes_come_first_and_nobody_waits_for_a_node_that_is_down() -> None:
    states = dict.fromkeys(names(8), NodeState()) | {"n0000": BUSY, "n0001": DOWN}
    turn = [work.nodes for work in due_pairs(states, NodeNights(tonight=0), within=1)]
    assert turn == [("n0002", "n0003"), ("n0004", "n0005"), ("n0006", "n0007"), ("n0000",)]
    measured = {"n0000": 3, **dict.fromkeys(names(8)[2:], 9)}
    overdue = due_pairs(states, NodeNights(tonight=10, measured=measured), within=7)
    assert overdue[0].nodes[0] == "n0000", "a busy node that is due waits in the queue"


def meetings(
    nodes: int, within: int, nights: int = 365, away: Mapping[int, Collection[str]] | None = None
) -> Counter[frozenset[str]]:
    """How often every two nodes meet. away: by night the nodes that are down."""
    count = Counter({frozenset(pair): 0 for pair in combinations(names(nodes), 2)})
    measured: dict[str, int] = {}
    met: dict[frozenset[str], int] = {}
    for night in range(nights):
        down = (away or {}).get(night, ())
        states = {node: DOWN if node in down else NodeState() for node in names(nodes)}
        past = NodeNights(tonight=night, measured=measured, tried=measured, met=met)
        works = due_pairs(states, past, within)
        tonight = [node for work in works for node in work.nodes]
        assert len(tonight) == len(set(tonight)) and not set(tonight) & set(down)
        for work in works:
            measured.update(dict.fromkeys(work.nodes, night))
            if len(work.nodes) == 2:
                met[frozenset(work.nodes)] = night
                count[frozenset(work.nodes)] += 1
        waiting = {node: night - measured.get(node, -1) for node in states if not away}
        assert max(waiting.values(), default=0) < within
    return count


@pytest.mark.parametrize("within", [1, 4, 14])
@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 6, 7, 8, 9, 12])
def test_in_a_year_every_two_nodes_meet_about_equally_often(nodes: int, within: int) -> None:
    """Also where a night measures two of them, and where their number is odd."""
    count = meetings(nodes, within)
    assert min(count.values()) >= 0.6 * count.total() / len(count)
    assert max(count.values()) <= 1.5 * count.total() / len(count)


def test_a_node_that_was_down_for_weeks_meets_everybody_again() -> None:
    gone = {night: ["n0003"] for night in range(50, 120)} | {night: ["n0001"] for night in range(90)}
    count = meetings(8, 2, 150, gone)
    assert min(count.values()) >= 3 and count[frozenset(["n0001", "n0003"])] >= 3


def test_of_many_nodes_no_two_meet_again_before_they_have_met_others() -> None:
    count = meetings(200, 14, 60)
    assert max(count.values()) == 1


@pytest.mark.parametrize(("nodes", "within"), [(1000, 1), (4000, 14)])
def test_thousands_of_nodes_are_paired(nodes: int, within: int) -> None:
    states = dict.fromkeys(names(nodes), NodeState())
    works = due_pairs(states, NodeNights(tonight=0), within)
    assert len(works) == quota(nodes, within) // 2


def test_nodes_of_two_switches_are_paired_first_and_those_of_one_in_the_end() -> None:
    switches = {node: f"leaf{place // 4}" for place, node in enumerate(names(8))}
    states = dict.fromkeys(names(8), NodeState())
    met: dict[frozenset[str], int] = {}
    for night in range(8):
        past = NodeNights(tonight=night, met=met)
        tonight = [work.nodes for work in due_pairs(states, past, 1, switches=switches)]
        across = sum(switches[a] != switches[b] for a, b in tonight)
        assert across == 4 or night >= 4, "sixteen pairs, four a night"
        met |= {frozenset(pair): night for pair in tonight}
    assert len(met) == 28, "and all others by the seventh"


def test_suspects_are_measured_whoever_else_is_chosen() -> None:
    """Of one node a night and five suspects: more than half of what is measured."""
    suspects = names(12)[5:10]
    met = {frozenset(pair): 9 for pair in combinations(names(12), 2)}
    past = NodeNights(tonight=10, measured=dict.fromkeys(names(12), 9), met=met, suspects=suspects)
    works = due_pairs(dict.fromkeys(names(12), NodeState()), past, within=14)
    assert {node for work in works for node in work.nodes} >= set(suspects)


def test_a_node_that_always_fails_does_not_take_the_turn_of_others() -> None:
    """Never measured whatever is tried: due every night, yet tried after those who wait for longer."""
    states = dict.fromkeys(names(40), NodeState())
    broken = set(names(40)[:20])
    measured: dict[str, int] = {}
    tried: dict[str, int] = {}
    for night in range(60):
        for work in due_pairs(states, NodeNights(tonight=night, measured=measured, tried=tried), within=8):
            for node in work.nodes:
                tried[node] = night
                if node not in broken:
                    measured[node] = night
    assert min(measured[node] for node in states if node not in broken) > 60 - 8


#: Node time of each benchmark (s): its median, and the shape of its log-normal tail. Of those with a shape of
#: 1.5 one in sixteen takes more than ten times the median.
NODE_COSTS = {"stream": (40.0, 0.5), "likwid": (60.0, 1.0), "pairs": (20.0, 1.5)}
OTHERS = {"qperf": (300.0, 0.5), "osu": (600.0, 1.0), "hpcc": (2000.0, 1.0), "imb": (400.0, 1.5)}


class Year:
    """A cluster and its nights: nodes fail and are repaired, jobs come and go, and so do suspicions."""

    def __init__(self, nodes: int, busy: float, budget_s: float, within: int) -> None:
        self.draw = random.Random(7)
        self.busy, self.budget_s, self.within = busy, budget_s, within
        self.states = dict.fromkeys(names(nodes), NodeState())
        self.past = NodeNights(tonight=0, measured={}, tried={}, met={})
        self.costs: dict[str, list[float]] = {}
        self.others = dict.fromkeys(OTHERS, -1)
        #: By node, the nights since it was measured in which a job could have run at once; the most of them.
        self.waited, self.longest = Counter[str](), Counter[str]()
        self.tests = Counter[str]()
        self.spent: list[float] = []

    def pass_day(self) -> None:
        """Nodes fail with 1 % a day and stay away for a week in the mean; jobs last for days."""
        for node, state in self.states.items():
            if not state.usable:
                self.states[node] = NodeState() if self.draw.random() < 1 / 7 else DOWN
            elif self.draw.random() < 0.01:
                self.states[node] = DOWN
            elif self.draw.random() < 0.4:
                self.states[node] = BUSY if self.draw.random() < self.busy else NodeState()

    def works(self) -> list[WorkItem]:
        past = replace(self.past, suspects=self.draw.sample(list(self.states), 3))
        pair_cost_s = expected_cost_s(self.costs, {"stream": 2, "likwid": 2, "pairs": 1})
        return due_pairs(self.states, past, self.within, pair_cost_s) + [
            WorkItem(name=name, last=last, cost_s=expected_cost_s(self.costs, {name: 1}))
            for name, last in self.others.items()
        ]

    def night(self) -> None:
        tonight, taken = self.past.tonight, dict[str, list[float]]()

        def measure(name: str) -> float:
            median, shape = (NODE_COSTS | OTHERS)[name]
            taken.setdefault(name, []).append(median * self.draw.lognormvariate(0.0, shape))
            return taken[name][-1]

        spent = 0.0
        for work in choose_within_budget(self.works(), self.budget_s)[0]:
            if not fitting([work], self.budget_s - spent):
                continue
            if not work.nodes:
                spent += measure(work.name)
                self.others[work.name] = tonight
            self.past.tried.update(dict.fromkeys(work.nodes, tonight))
            if work.nodes and all(self.states[node].idle for node in work.nodes):
                spent += sum(measure(name) for name in ("stream", "likwid") for _ in work.nodes)
                spent += measure("pairs")
                self.past.measured.update(dict.fromkeys(work.nodes, tonight))
                self.past.met[frozenset(work.nodes)] = tonight
                self.tests.update(work.nodes)
        for name, costs in taken.items():
            self.costs.setdefault(name, []).append(sum(costs) / len(costs))
        for node, state in self.states.items():
            self.waited[node] += state.idle
            self.longest[node] = max(self.longest[node], self.waited[node])
            if self.past.measured.get(node) == tonight:
                self.waited[node] = 0
        self.spent.append(spent)
        self.past = replace(self.past, tonight=tonight + 1)


@pytest.mark.parametrize(
    ("nodes", "nights", "busy"),
    [(60, 90, 0.0), (60, 90, 0.3), (60, 90, 0.7), pytest.param(1000, 365, 0.3, marks=pytest.mark.slow)],
)
def test_a_year_of_nights_comes_to_every_node(nodes: int, nights: int, busy: float) -> None:
    """Each node within 14 of the nights in which a job could have run on it at once."""
    within, budget_s = 14, 2 * 3600.0 + 30.0 * nodes
    year = Year(nodes, busy, budget_s, within)
    for _ in range(nights):
        year.pass_day()
        year.night()
    assert max(year.longest.values()) <= within
    assert sum(year.spent) / nights <= budget_s, "the last one of a night may take longer than expected"
    assert min(year.others.values()) >= nights - within
    partners = Counter(node for pair in year.past.met for node in pair)
    assert partners.total() >= 0.9 * year.tests.total(), "hardly anybody meets the same node twice in a year"
