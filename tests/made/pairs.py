"""Measurements of pairs of nodes as npb makes them: all rounds of a pattern, then the worst once more."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

from npc.machine.fabric import Topology, parse
from npc.npb.localise import localise_pairs
from npc.npb.schedule import schedule
from npc.npb.worst_pairs import worst_pairs
from npc.records.pair_verdicts import Better, Localisation, PairResult

FOUR_LEAVES = parse("leaf1: n[1-6]\nleaf2: n[7-12]\nleaf3: n[13-18]\nleaf4: n[19-24]\ncore: leaf[1-4]")


class Cluster:
    """`n` nodes n1…n whose pairs reach a factor, by the numbers of server and client; 0 is one that fails."""

    def __init__(
        self,
        n: int,
        factor: Callable[[int, int], float] = lambda a, b: 1.0,
        *,
        noise: float = 0.02,
        seed: int = 1,
        better: Better = "higher",
        topology: Topology | None = None,
    ) -> None:
        self.names = [f"n{i + 1}" for i in range(n)]
        self._factor, self._noise, self._better, self._topology = factor, noise, better, topology
        self._draw = random.Random(seed)
        self._seed = seed

    def measure(self, a: str, b: str, round_: int | None = None, attempt: int = 0) -> PairResult:
        factor = self._factor(int(a[1:]), int(b[1:]))
        if factor == 0:
            return PairResult(a, b, None, "failed: no route to host", round_, attempt)
        speed = factor * math.exp(self._noise * self._draw.gauss(0, 1))
        value = 1e9 * speed if self._better == "higher" else 2e-5 / speed
        return PairResult(a, b, value, "ok", round_, attempt)

    def rounds(self, pattern: str = "all", runs: int = 1) -> list[PairResult]:
        plan = schedule(pattern, self.names, seed=self._seed)
        return [
            self.measure(self.names[a], self.names[b], run * len(plan) + number)
            for run in range(runs)
            for number, pairs in enumerate(plan.of_run(run))
            for a, b in pairs
        ]

    def verdict(self, pattern: str = "all", again: bool = True, runs: int = 1) -> Localisation:
        how: Mapping[str, object] = {"better": self._better, "topology": self._topology}
        results = self.rounds(pattern, runs)
        if again:
            results += [self.measure(a, b, None, 1) for a, b in worst_pairs(results, **how)]  # type: ignore[arg-type]
        return localise_pairs(results, nodes=self.names, **how)  # type: ignore[arg-type]


def slow_node(bad: int, factor: float) -> Callable[[int, int], float]:
    return lambda a, b: factor if bad in (a, b) else 1.0


def slow_client(bad: int, factor: float) -> Callable[[int, int], float]:
    return lambda a, b: factor if b == bad else 1.0


def slow_link(one: int, other: int, factor: float) -> Callable[[int, int], float]:
    return lambda a, b: factor if {a, b} == {one, other} else 1.0


def crossing(leaf: range, factor: float, inside: float = 1.0) -> Callable[[int, int], float]:
    def measured(a: int, b: int) -> float:
        if a in leaf and b in leaf:
            return inside
        return factor if a in leaf or b in leaf else 1.0

    return measured
