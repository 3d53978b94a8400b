"""Whom the nights name where nodes differ for good: a simulation (``make bench-fleet``).

Fleets of 8 to 4000 nodes (`tests.made.fleets`: no rule's model) are judged night by night. A night is what
`npc.cron.judge.judge_last_night` says of the history that ends with it, as a cluster would have been told
then. The bars:

- healthy fleets end with exit code 13 in at most 1 % of their nights;
- somebody innocent is named in fewer than 1 % of nights, whatever is wrong elsewhere. Who was always slow is
  innocent; that is told once, among the findings;
- what became slow is named within three nights that measured it, in 95 % of fleets (of one kind of fleet, in
  so many that fewer would be no chance). Where the noise is normal, the best test stands beside it: it knows
  the noise and the fleet's spread, and names somebody innocent in 1 % of nights. Where even that finds less,
  the nights must come as near to it as `NEAR`.

Exit code 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from math import comb
from multiprocessing import Pool
from typing import Final, NamedTuple

import numpy as np

from npc.cron.judge import judge_last_night, replay
from npc.cron.series import panel
from npc.cron.verdict import NightVerdict
from npc.records.verdicts import NightSuspect, Verdict
from npc.statistics.distributions import normal_quantile, upper_tail
from tests.made.fleets import (
    LOSS,
    OLD_LOSS,
    ONSET,
    Fleet,
    FleetHistory,
    PlantedFault,
    fleet_history,
    measurements,
)

#: Shares of nights and of fleets: the bars.
FALSE: Final = 0.01
FOUND: Final = 0.95
#: The best test may find so much more where it does not reach `FOUND` by far.
NEAR: Final = 0.15
#: The chance below which too few named faults are no chance: none of one is none where it is 95 %.
UNLIKELY: Final = 0.051
#: A fault is to be named in one of its first measurements.
MEASUREMENTS: Final = 3
#: Always slower by so many standard deviations of the fleet is no longer as its nodes are.
UNLIKE: Final = 5.0


class Scenario(NamedTuple):
    """Fleets of one kind with one thing planted."""

    fleet: Fleet
    plant: str
    #: How many histories.
    histories: int
    #: Calendar nights that are judged, besides those in which a fault is to be named; None for all.
    judged: range | None = None

    def __str__(self) -> str:
        return f"{self.plant}: {self.fleet}"


class Outcome(NamedTuple):
    """What the nights said of one history."""

    #: Nights that were judged, and those of them in which nothing was wrong.
    nights: int
    quiet: int
    #: Quiet nights with exit code 13; those of them in which a suspect is the only reason.
    degraded: int
    by_suspects: int
    #: Innocents named, and nights in which one was.
    innocents: int
    accused: int
    #: By fault, after how many of its measurements it was named; 0 for never.
    named_after: tuple[int, ...]
    #: By fault, whether it was named in the last night that was judged.
    stays: tuple[bool, ...]
    #: How often the always slow node is told as new; -1 where verdicts have no findings.
    told: int
    #: Seconds.
    took: float


def judged_nights(history: FleetHistory, scenario: Scenario) -> Iterator[tuple[int, NightVerdict]]:
    """The verdicts by number of the night in the panel."""
    nights, topology = panel(history.rows), history.fleet.topology
    if scenario.judged is None:
        yield from enumerate(replay(nights, "made", topology=topology))
        return
    first = {
        column for fault in history.faults for column in islice(measurements(history, fault), MEASUREMENTS)
    }
    for column, night in enumerate(history.nights):
        if night in scenario.judged or column in first:
            yield column, judge_last_night(nights.until(column), "made", topology=topology)


def is_right(suspect: NightSuspect, faults: Sequence[PlantedFault]) -> bool:
    """Whether a suspect is at fault: the node, one of the rack, the rack, the link."""
    named = frozenset(suspect.nodes)
    if suspect.kind in ("switch", "rack"):
        return any(fault.kind == "rack" and named == fault.nodes for fault in faults)
    if suspect.kind == "link":
        return any(fault.kind == "link" and named == fault.nodes for fault in faults)
    return any(fault.kind != "link" and named <= fault.nodes for fault in faults)


def is_named(fault: PlantedFault, suspects: Sequence[NightSuspect]) -> bool:
    """Whether a fault is named; a rack also by its nodes, all of them."""
    mine = [frozenset(suspect.nodes) for suspect in suspects if is_right(suspect, [fault])]
    return frozenset().union(*mine) == fault.nodes


def told_as_new(night: NightVerdict, node: str) -> bool:
    """Whether a night's findings tell of a node that was not told of before."""
    findings = getattr(night, "findings", ())
    return any(node in finding.nodes and getattr(finding, "new", True) for finding in findings)


def outcome(scenario: Scenario, seed: int) -> Outcome:
    """Of one history."""
    started = time.perf_counter()
    history = fleet_history(scenario.fleet, scenario.plant, seed)
    measured = [list(measurements(history, fault)) for fault in history.faults]
    named_after, stays = [0] * len(measured), [False] * len(measured)
    nights = quiet = degraded = by_suspects = innocents = accused = told = 0
    has_findings = True
    for column, night in judged_nights(history, scenario):
        calendar = history.nights[column]
        faults = [fault for fault in history.faults if fault.begin <= calendar < fault.end]
        named = [suspect for suspect in night.suspects if suspect.named]
        nights += 1
        if not faults:
            quiet += 1
            degraded += night.verdict is Verdict.DEGRADED
            by_suspects += night.verdict is Verdict.DEGRADED and all(
                series.verdict is not Verdict.DEGRADED for series in night.series
            )
        wrong = sum(not is_right(suspect, faults) for suspect in named)
        innocents += wrong
        accused += wrong > 0
        for number, fault in enumerate(history.faults):
            stays[number] = fault in faults and is_named(fault, named)
            if stays[number] and not named_after[number]:
                named_after[number] = sum(night <= column for night in measured[number])
        has_findings = hasattr(night, "findings")
        told += told_as_new(night, history.always_slow)
    return Outcome(
        nights, quiet, degraded, by_suspects, innocents, accused, tuple(named_after), tuple(stays),
        told if has_findings else -1, time.perf_counter() - started,
    )  # fmt: skip


def best_power(scenario: Scenario) -> float:
    """How often the best test finds a step of `LOSS` by the third measurement (`MEASUREMENTS`), at the rate
    of false names that is allowed: `FALSE` a night, whoever of the nodes it is. NaN where it is not known.

    It knows the noise and how much nodes differ; the level of the node it has from that and from its past.
    """
    fleet = scenario.fleet
    if fleet.noise != "normal" or scenario.plant not in ("node", "two", "device") or fleet.pairs:
        return float("nan")
    cases = 1 if scenario.plant == "device" else fleet.cases
    of_night = 0.5 * (1.0 if fleet.cases * fleet.devices == 1 else 0.5 + 0.5 / cases)
    variance = fleet.sigma**2 * (of_night + 0.5 / fleet.samples / cases)
    nodes = max(fleet.nodes // fleet.turn, 1)
    variance += fleet.common**2 / nodes  # what a night is for all, it has from the nodes of that night
    of_level = 1 / (1 / max(fleet.difference, 1e-9) ** 2 + ONSET / fleet.turn / variance)
    error = np.sqrt(of_level + variance / MEASUREMENTS)
    return upper_tail(normal_quantile(FALSE / (nodes * fleet.devices)) + np.log1p(-LOSS) / error)


# -- scenarios -------------------------------------------------------------------------------------------

#: What is judged of large fleets: before the fault, and a week of it; how a fleet becomes known.
WEEK: Final = range(ONSET - 4, ONSET + 8)
BEGINNING: Final = range(20)
SPREADS: Final[tuple[float | str, ...]] = (0.0, 0.005, 0.01, 0.02, "frontier", "perlmutter")


def all_scenarios(histories: int) -> list[Scenario]:
    """histories: of each kind with 100 nodes; of larger fleets fewer, of smaller ones more."""
    few, many = max(histories // 4, 1), 2 * histories
    scenarios = []
    for spread in SPREADS:
        sigma = {"frontier": 0.0013, "perlmutter": 0.001}.get(str(spread), 0.01)
        for plant in ("healthy", "node", "old"):
            scenarios.append(Scenario(Fleet(spread=spread, sigma=sigma), plant, histories))
        small = Fleet(nodes=16, spread=spread, sigma=sigma)
        scenarios += [Scenario(small, "healthy", many), Scenario(small, "node", many)]
    for noise in ("t3", "log-normal", "congestion", "lottery", "AR 0.5", "AR 0.9"):
        for plant in ("healthy", "node"):
            scenarios.append(Scenario(Fleet(noise=noise, sigma=0.005), plant, histories))
            scenarios.append(Scenario(Fleet(nodes=16, noise=noise, sigma=0.005), plant, many))
    eight = Fleet(nodes=8)
    scenarios += [Scenario(eight, plant, many) for plant in ("healthy", "node", "old")]
    for sigma in (0.001, 0.003, 0.02):
        for plant in ("healthy", "node"):
            scenarios.append(Scenario(Fleet(sigma=sigma), plant, histories))
    wide = Fleet(common=0.03), Fleet(common=0.03, turn=14, nights=120)
    sixteen = Fleet(nodes=16, sigma=0.005, turn=14, nights=120)
    for fleet in (*wide, sixteen):
        scenarios += [Scenario(fleet, plant, histories) for plant in ("healthy", "node")]
    six = Fleet(cases=6, samples=3, sigma=0.02)
    scenarios += [Scenario(six, plant, histories) for plant in ("healthy", "node", "two")]
    for spread, sigma in ((0.01, 0.01), ("frontier", 0.0013)):
        turns = Fleet(spread=spread, sigma=sigma, turn=14, nights=120)
        scenarios += [Scenario(turns, plant, histories) for plant in ("healthy", "node", "old", "two")]
        for plant in ("rack", "two", "healing", "replaced", "renamed", "joined"):
            if (plant, spread) != (
                "replaced",
                "frontier",
            ):  # 1.7 % worse than it was, beyond all noise, is true
                scenarios.append(Scenario(Fleet(spread=spread, sigma=sigma, nights=90), plant, histories))
    turns = Fleet(cases=6, samples=3, turn=14, nights=120)
    scenarios += [Scenario(turns, plant, few) for plant in ("healthy", "node")]
    gpus = Fleet(nodes=32, spread="frontier", sigma=0.0013, devices=8)
    scenarios += [Scenario(gpus, plant, few) for plant in ("healthy", "device")]
    pairs = Fleet(nodes=8, pairs=True, nights=120)
    scenarios += [Scenario(pairs, plant, many) for plant in ("healthy", "node", "link")]
    for spread, sigma in ((0.0, 0.01), (0.01, 0.01), ("frontier", 0.0013)):
        thousand, most = (Fleet(nodes=nodes, spread=spread, sigma=sigma) for nodes in (1000, 4000))
        scenarios.append(Scenario(thousand, "healthy", few))
        scenarios += [Scenario(thousand, plant, few, WEEK) for plant in ("node", "rack")]
        scenarios.append(Scenario(thousand, "old", few, BEGINNING))
        scenarios += [Scenario(most, plant, 1, WEEK) for plant in ("healthy", "node")]
    for nodes in (1000, 4000):
        turns = Fleet(nodes=nodes, turn=14, nights=100)
        scenarios += [Scenario(turns, plant, few, range(30, 90, 4)) for plant in ("healthy", "node")]
    return scenarios


def quick_scenarios() -> list[Scenario]:
    """One of each kind."""
    frontier = Fleet(spread="frontier", sigma=0.0013)
    scenarios = [Scenario(Fleet(spread=0.0), plant, 2) for plant in ("healthy", "node")]
    scenarios += [Scenario(Fleet(), plant, 2) for plant in ("healthy", "node", "old", "rack", "two")]
    scenarios += [Scenario(frontier, plant, 2) for plant in ("healthy", "node")]
    scenarios += [Scenario(Fleet(nodes=16), plant, 3) for plant in ("healthy", "node", "replaced", "renamed")]
    scenarios += [Scenario(Fleet(turn=14, nights=100), plant, 2) for plant in ("healthy", "node")]
    scenarios += [Scenario(Fleet(noise=noise, sigma=0.005), "node", 2) for noise in ("lottery", "AR 0.9")]
    scenarios.append(Scenario(Fleet(nodes=16, spread="frontier", sigma=0.0013, devices=8), "device", 1))
    scenarios.append(Scenario(Fleet(nodes=8, pairs=True, nights=120), "link", 2))
    scenarios += [Scenario(Fleet(nodes=1000), plant, 1, WEEK) for plant in ("healthy", "node")]
    return scenarios


# -- the table -------------------------------------------------------------------------------------------


class Tally(NamedTuple):
    """What the bars count, of one kind of fleet or of all."""

    #: Nights that were judged, and those in which somebody innocent was named.
    nights: int
    accused: int
    #: Nights in which nothing was wrong, and those of them with exit code 13.
    quiet: int
    degraded: int
    #: Faults, and those of them that were named in time.
    faults: int
    in_time: int

    @property
    def false_bars(self) -> list[str]:
        """Which bars of healthy nodes are missed."""
        missed = ["exit 13 of healthy nights"] if self.degraded > FALSE * self.quiet else []
        return missed + (["innocents"] if self.accused and self.accused >= FALSE * self.nights else [])


def tally(outcomes: Sequence[Outcome]) -> Tally:
    """Of some histories."""
    after = [count for of_one in outcomes for count in of_one.named_after]
    return Tally(
        nights=sum(of_one.nights for of_one in outcomes),
        accused=sum(of_one.accused for of_one in outcomes),
        quiet=sum(of_one.quiet for of_one in outcomes),
        degraded=sum(of_one.degraded for of_one in outcomes),
        faults=len(after),
        in_time=sum(0 < count <= MEASUREMENTS for count in after),
    )


def too_few(named: int, faults: int, share: float) -> bool:
    """Whether so few would be no chance if that share were named in truth."""
    chances = (
        comb(faults, count) * share**count * (1 - share) ** (faults - count) for count in range(named + 1)
    )
    return sum(chances) < UNLIKELY


def missed_bars(scenario: Scenario, outcomes: Sequence[Outcome]) -> list[str]:
    """Which bars one kind of fleet misses."""
    count, best = tally(outcomes), best_power(scenario)
    missed = count.false_bars
    if count.faults and too_few(count.in_time, count.faults, best - NEAR if best < FOUND else FOUND):
        missed.append("not named")
    is_unlike = scenario.plant == "old" and scenario.fleet.difference * UNLIKE <= OLD_LOSS
    return missed + (["not told once"] if is_unlike and any(one.told != 1 for one in outcomes) else [])


def cells(scenario: Scenario, outcomes: Sequence[Outcome]) -> dict[str, str]:
    """A line of the table, by column."""
    count, best = tally(outcomes), best_power(scenario)
    after = [number or 99 for one in outcomes for number in one.named_after]
    stays = [stayed for one in outcomes for stayed in one.stays if scenario.plant != "healing"]
    told = [one.told for one in outcomes] if scenario.plant == "old" else []
    return {
        f"{'planted: nodes, spread, noise':50}": str(scenario),
        "nights": str(count.nights),
        "healthy: exit 13": f"{count.degraded / count.quiet:.1%}" if count.quiet else "",
        "by suspects": f"{sum(one.by_suspects for one in outcomes) / count.quiet:.1%}" if count.quiet else "",
        "accused": f"{count.accused / count.nights:.1%}",
        "innocents": f"{sum(one.innocents for one in outcomes) / count.nights:.2f}",
        "named in 3": f"{count.in_time / count.faults:.0%}" if count.faults else "",
        "best test": f"{best:.0%}" if best == best else "",
        "median": f"{np.median(after):.0f}" if after else "",
        "at the end": f"{np.mean(stays):.0%}" if stays else "",
        "told": ("never" if min(told) < 0 else f"{np.mean(told):.1f}") if told else "",
        "     s": f"{sum(one.took for one in outcomes):.1f}",
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="another number: histories that nobody has seen")
    parser.add_argument("--histories", type=int, default=6, help="of each fleet of 100 nodes")
    parser.add_argument("--quick", action="store_true", help="few fleets and histories, in two minutes")
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="scenarios by their line: 'node: 100 *', '*t3*'"
    )
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    patterns = options.only or ["*"]
    scenarios = [
        scenario
        for scenario in (quick_scenarios() if options.quick else all_scenarios(options.histories))
        if any(fnmatchcase(str(scenario), pattern) for pattern in patterns)
    ]
    if not scenarios:
        parser.error(f"no scenario is like {' or '.join(patterns)}")
    started, missed = time.perf_counter(), 0
    every: list[Outcome] = []
    findable: list[Outcome] = []
    with Pool(options.processes, partial(os.nice, 10)) as pool:
        for scenario in scenarios:
            seeds = range(1_000_000 * options.seed, 1_000_000 * options.seed + scenario.histories)
            outcomes = pool.map(partial(outcome, scenario), seeds, chunksize=1)
            line, bars = cells(scenario, outcomes), missed_bars(scenario, outcomes)
            if not every:
                print(" ".join(line))
            words = [
                f"{text:{'<' if at == 0 else '>'}{len(name)}}" for at, (name, text) in enumerate(line.items())
            ]
            print(f"{' '.join(words)}  {', '.join(bars)}".rstrip(), flush=True)
            missed += len(bars)
            every += outcomes
            findable += [] if best_power(scenario) < FOUND else outcomes
    count, named = tally(every), tally(findable)
    print(
        f"\n{len(scenarios)} kinds of fleets, seed {options.seed}, {time.perf_counter() - started:.0f} s: "
        f"exit code 13 in {count.degraded} of {count.quiet} healthy nights, somebody innocent named in "
        f"{count.accused} of {count.nights} nights, {named.in_time} of {named.faults} faults named in time"
    )
    bars = count.false_bars + (["not named"] if named.in_time < FOUND * named.faults else [])
    missed += len(bars)
    print(
        f"{missed} bars are missed{', of all together: ' if bars else ''}{', '.join(bars)}"
        if missed
        else "no bar is missed"
    )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
