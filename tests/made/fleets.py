"""Made-up histories of fleets whose nodes differ for good, with a fault or without (`tests.bench.fleet`).

Nothing here is the model of any rule: levels are drawn from published devices or a normal distribution, noise
has heavy tails, one tail or memory, nights have something in common, nights and readings are missing. All
numbers inside are logarithms, less is worse, until a row is made of them.

Two distributions are those of real GPUs: seconds of one GEMM on 516 GPUs of Frontier and 251 of Perlmutter,
published by hpcgroup/perf-variability-ipdps26 on GitHub (IPDPS 2026), as quantiles relative to the median.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import numpy as np

from npc.machine.fabric import Group, Topology
from npc.records.history import HistoryRow, night_name
from npc.records.series import GPU, Series
from npc.statistics.arrays import Booleans, Floats, Integers
from tests.made.history import BEGUN

Rng = np.random.Generator

#: The quantiles that `EMPIRICAL` has.
QUANTILES: Final = (
    0, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 1,
)  # fmt: skip
#: By machine, the quantiles of its devices' times, per mille above the median.
EMPIRICAL: Final[Mapping[str, tuple[float, ...]]] = {
    "frontier": (
        -51.5, -29.5, -26.4, -22.0, -16.2, -10.6, -6.0, -3.0, 0, 3.8, 7.9, 13.6, 25.5, 34.0, 41.4, 50.8, 78.4,
    ),
    "perlmutter": (
        -24.7, -23.6, -22.7, -16.4, -12.2, -8.1, -5.9, -2.9, 0, 2.2, 5.2, 8.1, 13.3, 17.1, 20.2, 33.5, 54.9,
    ),
}  # fmt: skip
#: The standard deviations of their logarithms.
EMPIRICAL_SPREAD: Final[Mapping[str, float]] = {"frontier": 0.0168, "perlmutter": 0.0111}
#: The night that a fault begins with, and the one in which a node joins.
ONSET: Final = 40
JOINED: Final = 30
#: Losses of a fault that comes, and of one that was always there.
LOSS: Final = 0.05
OLD_LOSS: Final = 0.06
#: Nights until a fault has healed.
HEALING: Final = 20
#: Measurements after a fault in which its node may still be called slow.
GRACE: Final = 5
RACK: Final = 8
#: Nights that a cluster does not measure at all, and readings of nodes that are missing.
NIGHTS_LOST: Final = 0.05
READINGS_LOST: Final = 0.02

NOISES: Final = ("normal", "t3", "log-normal", "congestion", "lottery", "AR 0.5", "AR 0.9")
PLANTS: Final = (
    "healthy", "node", "old", "rack", "device", "two", "healing", "replaced", "renamed", "joined", "link",
)  # fmt: skip

#: Benchmark, case, metric, and what a healthy node has; the last but one are times.
CASES: Final = (
    ("stream", "triad", "bandwidth", 2e11),
    ("likwid", "load", "bandwidth", 3e11),
    ("blas", "dgemm", "flops", 3e12),
    ("himeno", "himeno", "flops", 5e10),
    ("memory", "latency", "latency", 9e-8),
    ("likwid", "copy", "bandwidth", 1.5e11),
)


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """A cluster, and how it is measured."""

    nodes: int = 100
    #: How much nodes differ for good: a relative standard deviation, or a machine of `EMPIRICAL`.
    spread: float | str = 0.01
    #: Relative standard deviation of one sample, half of its variance common to a night's samples.
    sigma: float = 0.01
    #: One of `NOISES`.
    noise: str = "normal"
    #: Relative standard deviation of what a night is for all nodes, by case.
    common: float = 0.005
    #: A node is measured in one night of so many.
    turn: int = 1
    #: How many benchmarks measure it, six at most.
    cases: int = 1
    #: How many values each of them gives a night.
    samples: int = 1
    #: How many devices of a node are measured, each as a series of its own.
    devices: int = 1
    nights: int = 60
    #: Whether nodes are measured two by two instead, a random matching a night.
    pairs: bool = False

    @property
    def difference(self) -> float:
        """How much nodes differ for good, as a standard deviation."""
        return EMPIRICAL_SPREAD[self.spread] if isinstance(self.spread, str) else self.spread

    @property
    def topology(self) -> Topology:
        """Racks of `RACK` nodes."""
        names = [node_name(node) for node in range(self.nodes)]
        racks = [names[first : first + RACK] for first in range(0, self.nodes, RACK)]
        return Topology(tuple(Group(f"r{i}", "rack", frozenset(rack)) for i, rack in enumerate(racks)))

    def __str__(self) -> str:
        spread = self.spread if isinstance(self.spread, str) else f"{self.spread:.1%}"
        words = [f"{self.nodes} {spread} σ {self.sigma:.2%} {self.noise}"]
        words += [f"night {self.common:.0%}"] if self.common > 0.01 else []
        words += [f"1/{self.turn}"] if self.turn > 1 else []
        words += [f"{self.cases} cases"] if self.cases > 1 else []
        words += [f"×{self.samples}"] if self.samples > 1 else []
        words += [f"{self.devices} devices"] if self.devices > 1 else []
        return " ".join(words + (["pairs"] if self.pairs else []))


@dataclass(frozen=True)
class PlantedFault:
    """Who is slow, and when."""

    #: The nodes that are slow together: one, a rack's, the two of a link.
    nodes: frozenset[str]
    #: ``node``, ``rack`` or ``link``.
    kind: str
    #: The first night, a number that counts the calendar's nights from 0.
    begin: int
    #: The first night in which naming it would be wrong again.
    end: int = 10**6


@dataclass
class FleetHistory:
    """A history with the truth about it."""

    fleet: Fleet
    rows: list[HistoryRow]
    #: Calendar nights (from 0) that were measured, by the number of the column in the panel.
    nights: list[int]
    #: By calendar night, the groups of hosts that were measured.
    measured: Mapping[int, set[frozenset[str]]]
    #: What has become slow.
    faults: list[PlantedFault] = field(default_factory=list)
    #: The node that was always slow; empty for none.
    always_slow: str = ""


def node_name(node: int, renamed: bool = False) -> str:
    """The name of a node by its number."""
    return f"{'m' if renamed else 'n'}{node:04d}"


def fleet_history(fleet: Fleet, plant: str, seed: int) -> FleetHistory:
    """The history of a fleet with one of `PLANTS` in it."""
    rng = np.random.default_rng([seed, *plant.encode()])
    nodes, nights = fleet.nodes, fleet.nights
    columns = fleet.cases * fleet.devices
    values = np.zeros((nodes, nights, columns)) + _levels(fleet, rng)[:, None]
    there = _turns(fleet, rng) & (rng.random((nodes, nights)) >= READINGS_LOST)
    there[:, rng.random(nights) < NIGHTS_LOST] = False
    victims = rng.choice(nodes, 4, replace=False).tolist()
    first = victims[0]
    fault = np.zeros(nights)
    fault[ONSET:] = np.log1p(-LOSS)
    faults, always_slow, link, renamed = [], "", (-1, -1), np.zeros(nodes, dtype=bool)
    if plant in ("node", "two"):
        for victim in victims[: 2 if plant == "two" else 1]:
            values[victim] += fault[:, None]
            faults.append(PlantedFault(frozenset([node_name(victim)]), "node", ONSET))
    elif plant == "old":
        values[first] = np.log1p(-OLD_LOSS)
        always_slow = node_name(first)
    elif plant == "rack":
        own = first // RACK * RACK + np.arange(min(RACK, nodes - first // RACK * RACK))
        values[own] += fault[:, None]
        faults.append(PlantedFault(frozenset(map(node_name, own.tolist())), "rack", ONSET))
    elif plant == "device":
        values[first, :, int(rng.integers(fleet.devices)) :: fleet.devices] += fault[:, None]
        faults.append(PlantedFault(frozenset([node_name(first)]), "node", ONSET))
    elif plant == "healing":
        left = np.clip(1 - np.arange(nights - ONSET) / HEALING, 0, 1)
        values[first, ONSET:] += (left * np.log1p(-LOSS))[:, None]
        end = ONSET + HEALING + GRACE * fleet.turn
        faults.append(PlantedFault(frozenset([node_name(first)]), "node", ONSET, end))
    elif plant == "replaced":  # two become better, two worse, all as nodes of the fleet are
        values[victims] = fleet.difference * np.array([-0.5, 0.5, -0.5, 0.5])[:, None, None]
        values[victims, ONSET:] *= -1
    elif plant == "renamed":
        renamed[rng.random(nodes) < 0.5] = True
    elif plant == "joined":
        there[first, :JOINED] = False
    elif plant == "link":
        link = (first, victims[1])
        faults.append(PlantedFault(frozenset(map(node_name, link)), "link", ONSET))
    elif plant != "healthy":
        raise ValueError(f"{plant!r} is none of {', '.join(PLANTS)}")
    noise = _noise(fleet, rng)
    if fleet.pairs:
        rows, measured = _pair_rows(fleet, rng, values, noise, there, link)
    else:
        rows, measured = _node_rows(fleet, rng, values + noise, there, renamed)
    return FleetHistory(fleet, rows, sorted(measured), measured, faults, always_slow)


def write_csv(rows: list[HistoryRow], file: Path) -> None:
    """The rows as another tool would write them: a file of a history's folder."""
    with file.open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(("time", "run", "benchmark", "case", "metric", "value", "nodes", "hosts", "params"))
        for row in rows:
            key = row.key
            out.writerow((
                row.time, row.run, key.benchmark, key.case, key.metric, row.value, key.nodes,
                ";".join(row.hosts), key.params,
            ))  # fmt: skip


def _levels(fleet: Fleet, rng: Rng) -> Floats:
    """What each node has for good, by column: mostly the same for all of its cases, each device its own."""
    shape = fleet.nodes, fleet.devices
    if isinstance(fleet.spread, str):
        above = np.interp(rng.random(shape), QUANTILES, EMPIRICAL[fleet.spread]) / 1000
        of_devices = -np.log1p(above)
    else:
        of_devices = fleet.spread * rng.standard_normal(shape)
    of_cases = 0.5 * fleet.difference * rng.standard_normal((fleet.nodes, fleet.cases, 1))
    levels: Floats = of_devices[:, None] + (of_cases if fleet.cases > 1 else 0.0)
    return levels.reshape(fleet.nodes, -1)


def _turns(fleet: Fleet, rng: Rng) -> Booleans:
    """Nodes × nights: whose turn it is. Mostly the same nodes together, a tenth a night late."""
    slot = rng.permutation(fleet.nodes) % fleet.turn
    there = np.zeros((fleet.nodes, fleet.nights), dtype=bool)
    for begin in range(0, fleet.nights, fleet.turn):
        late = (rng.random(fleet.nodes) < 0.1) if fleet.turn > 1 else np.zeros(fleet.nodes, dtype=bool)
        night = begin + (slot + late) % fleet.turn
        node = np.flatnonzero(night < fleet.nights)
        there[node, night[node]] = True
    return there


def _noise(fleet: Fleet, rng: Rng) -> Floats:
    """Nodes × nights × columns: what a night is for all, and for each node, half of it for all its cases."""
    shape = fleet.nodes, fleet.nights, fleet.cases * fleet.devices
    own = _unit_noise(fleet.noise, rng, shape)
    if shape[2] > 1:
        own = np.sqrt(0.5) * (own + _unit_noise(fleet.noise, rng, (*shape[:2], 1)))
    noise = np.sqrt(0.5) * fleet.sigma * own + fleet.common * rng.standard_normal((1, *shape[1:]))
    if fleet.noise == "lottery":
        lost = np.log1p(-rng.uniform(0.1, 0.4, shape[:2]))
        noise += np.where(rng.random(shape[:2]) < 0.05, lost, 0.0)[..., None]
    elif fleet.noise == "congestion":  # a third of the machine, side by side
        for night in np.flatnonzero(rng.random(fleet.nights) < 0.05):
            some = (rng.integers(fleet.nodes) + np.arange(max(fleet.nodes // 3, 1))) % fleet.nodes
            noise[some, night] -= rng.exponential(0.05) * rng.uniform(0.7, 1.3, (len(some), shape[2]))
    return noise


def _unit_noise(kind: str, rng: Rng, shape: tuple[int, ...]) -> Floats:
    """Noise with a standard deviation of 1; along the second axis it may have a memory."""
    if kind == "t3":
        return rng.standard_t(3, shape) / np.sqrt(3)
    normal = rng.standard_normal(shape)
    if kind == "log-normal":
        deviation = np.sqrt((np.e - 1) * np.e)
        one_tail: Floats = -(np.exp(normal) - np.exp(0.5)) / deviation
        return one_tail
    if kind.startswith("AR"):
        phi = float(kind.split()[1])
        for night in range(1, shape[1]):
            normal[:, night] = phi * normal[:, night - 1] + np.sqrt(1 - phi**2) * normal[:, night]
    return normal


def _samples(fleet: Fleet, rng: Rng, night: Floats) -> Floats:
    """The samples of some values of nights, an axis more."""
    own = rng.standard_normal((*night.shape, fleet.samples))
    samples: Floats = night[..., None] + np.sqrt(0.5) * fleet.sigma * own
    return samples


def _series(fleet: Fleet) -> list[Series]:
    """By column, its series."""
    devices = [{GPU: str(number)} for number in range(fleet.devices)] if fleet.devices > 1 else [{}]
    return [
        Series.of_fields("made", *CASES[case][:3], None, 1, device)
        for case in range(fleet.cases)
        for device in devices
    ]


def _night(night: int) -> tuple[str, str]:
    """The name of a night, and its time."""
    begun = BEGUN + timedelta(days=night)
    return night_name(begun), begun.isoformat()


def _node_rows(
    fleet: Fleet, rng: Rng, values: Floats, there: Booleans, renamed: Booleans
) -> tuple[list[HistoryRow], dict[int, set[frozenset[str]]]]:
    """The rows of nodes that were measured by themselves, and who was by calendar night."""
    series, rows, measured = _series(fleet), [], {}
    usual = np.repeat([case[3] for case in CASES[: fleet.cases]], fleet.devices)
    sense = np.array([-1.0 if key.metric == "latency" else 1.0 for key in series])
    for night in np.flatnonzero(there.any(axis=0)).tolist():
        run, time = _night(night)
        nodes = np.flatnonzero(there[:, night]).tolist()
        hosts = [(node_name(node, night >= ONSET and bool(renamed[node])),) for node in nodes]
        measured[night] = set(map(frozenset, hosts))
        logarithms = _samples(fleet, rng, values[nodes, night])
        numbers = (usual[:, None] * np.exp(sense[:, None] * logarithms)).tolist()
        for host, of_node in zip(hosts, numbers, strict=True):
            for key, samples in zip(series, of_node, strict=True):
                rows += [HistoryRow(key, run, time, value, "ok", host, False) for value in samples]
    return rows, measured


def _pair_rows(
    fleet: Fleet, rng: Rng, values: Floats, noise: Floats, there: Booleans, link: tuple[int, int]
) -> tuple[list[HistoryRow], dict[int, set[frozenset[str]]]]:
    """The rows of pairs, as slow as the slower of the two; and which were measured by calendar night."""
    key = Series("made", "qperf", "tcp_bw", "bandwidth", 65536, 2, "{}")
    rows, measured = [], {}
    for night in np.flatnonzero(there.any(axis=0)).tolist():
        run, time = _night(night)
        nodes: Integers = rng.permutation(np.flatnonzero(there[:, night]))
        measured[night] = set()
        for a, b in nodes[: len(nodes) // 2 * 2].reshape(-1, 2).tolist():
            value = min(values[a, night, 0], values[b, night, 0]) + noise[a, night, 0]
            if night >= ONSET and {a, b} == set(link):
                value += np.log1p(-LOSS)
            hosts = node_name(a), node_name(b)
            measured[night].add(frozenset(hosts))
            for sample in _samples(fleet, rng, np.array([value]))[0].tolist():
                rows.append(HistoryRow(key, run, time, 1.2e10 * float(np.exp(sample)), "ok", hosts, False))
    return rows, measured


def measurements(history: FleetHistory, fault: PlantedFault) -> Iterator[int]:
    """The numbers of the panel's nights, from its begin on, in which what is slow was measured."""
    for column, night in enumerate(history.nights):
        groups = history.measured[night]
        if fault.kind == "link":
            is_measured = fault.nodes in groups
        else:
            is_measured = any(group & fault.nodes for group in groups)
        if night >= fault.begin and is_measured:
            yield column
