"""The fifteen days of Bartelheimer, Zhu, Neuwirth (2023, section 5.4), simulated.

Noise is none that the arithmetic assumes: skewed (gamma), slow for a while now and then (telegraph), and the
last measurement drops where theirs did. It is scaled so that the mean over all measurements is the published
one, which is table 5's number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Final, NamedTuple

import numpy as np

from npc.records.record import Record, replace
from tests.made.measured import records
from tests.made.noise import telegraph
from tests.made.observed import launch

BEGUN: Final = datetime(2023, 6, 1, tzinfo=timezone.utc)
MEASUREMENTS: Final = 30
#: 178 nodes that were online, in the paper's manner: rack 24, node 1 is node24-001.
NODES: Final = tuple(f"node{20 + number // 10}-{1 + number % 10:03d}" for number in range(178))


class Configuration(NamedTuple):
    """A row of table 5, with its ranks (table 2), FLOP/s a node at the theoretical peak (table 4), whether
    the last measurement drops (figures 6 and 7), and the FLOP of all nodes and the bytes that one node
    received and sent in the companion repository's runs on this number of nodes, where it has them."""

    program: str
    nodes: int
    ranks: int
    precision: str
    peak: float
    percent: float
    drops: bool
    flop: float = 1e12
    traffic: tuple[float, float] = (1e9, 1e9)


TABLE_5: Final = (
    Configuration("himeno", 2, 20, "single", 800e9, 4.356, True),
    Configuration("himeno", 4, 40, "single", 800e9, 4.125, False),
    Configuration("himeno", 8, 80, "single", 800e9, 4.203, True),
    Configuration("HPCG", 2, 4, "double", 400e9, 1.013, False, 582831e9, (4 * 77766288, 4 * 77766599)),
    Configuration("HPCG", 4, 8, "double", 400e9, 0.981, True, 1169780e9, (4 * 156832664, 4 * 156832621)),
    Configuration("HPCG", 8, 16, "double", 400e9, 0.975, True, 2343670e9, (4 * 156886095, 4 * 156886445)),
)
#: Benchmark → of how many nodes each program was run on.
USED: Final = {"himeno": 112, "hpcg": 107, "qperf": 38}


def nights(seed: int = 1) -> Iterator[Record]:
    """All records of the fifteen days."""
    rng = np.random.default_rng(seed)
    pools = {name: rng.permutation(NODES)[:number].tolist() for name, number in USED.items()}
    taken = dict.fromkeys(USED, 0)

    def hosts(benchmark: str, number: int) -> list[str]:
        """The next free ones: everybody's turn comes."""
        pool, first = pools[benchmark], taken[benchmark]
        taken[benchmark] += number
        return [pool[at % len(pool)] for at in range(first, first + number)]

    courses = [_course(rng, each.drops) for each in TABLE_5]
    skewed = rng.gamma(3.0, size=MEASUREMENTS)
    link = 6160e6 + 43.3e6 * (skewed - skewed.mean()) / skewed.std(ddof=1)
    for night in range(MEASUREMENTS):
        begun = BEGUN + timedelta(hours=12 * night)
        common = {"time": begun.isoformat(), "run": f"{begun:%Y%m%dT%H%M%SZ}", "platform": "fuchs-csc"}
        for number, (each, course) in enumerate(zip(TABLE_5, courses, strict=True)):
            rate = each.nodes * each.peak * each.percent / 100 * course[night]
            for record in launch(
                each.program, each.nodes, rate, each.flop, *each.traffic, sample=number,
                hosts=hosts(each.program.lower(), each.nodes),
                params={"processes": str(each.ranks), "precision": each.precision},
            ):  # fmt: skip
                yield replace(record, **common)
        for record in records("qperf", "rc_bw", float(link[night]), spread=(1.0,), nodes=2, size=4 * 2**20):
            yield replace(record, **common, hosts=tuple(hosts("qperf", 2)))


def _course(rng: np.random.Generator, drops: bool) -> Sequence[float]:
    """A mean of 1 over the measurements."""
    found = 1 - 0.004 * rng.gamma(2.0, size=MEASUREMENTS) + 0.006 * telegraph(rng, 1, MEASUREMENTS)[0]
    if drops:
        found[-1] *= 0.6
    return [float(value) for value in found / found.mean()]
