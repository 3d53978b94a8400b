"""What rules see of real histories (``make bench-histories``): published series with known steps, and quiet
stretches of these with steps that are planted.

A rule is asked night by night, with what was known then. After an alarm somebody accepts the level: the past
begins anew with the night that the rule says. A step is seen if an alarm comes within `SOON` nights; any
other alarm is one too many. Beside our rule stand XDMoD's control chart, three standard deviations, and the
rules of asv and Otava, where these are installed (``pip install asv apache-otava``).
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from multiprocessing import Pool
from typing import NamedTuple, Protocol

import numpy as np

from npc.cron.changes import changed
from npc.cron.detection import THRESHOLD
from npc.cron.step_detection import StepDetection, first_low
from tests.paths import ROOT

DATA = ROOT / "tests/data/histories"
#: Nights within which an alarm belongs to a step.
SOON = 30
YEAR = 365
#: Nights of a quiet stretch, and those of them before a step that is planted.
STRETCH, BEFORE = 120, 90
#: No stretch begins or ends so near to a known step.
APART = 10


class PublishedSeries(NamedTuple):
    """A series of ``published.csv``."""

    #: As its column is called.
    name: str
    #: Logarithms by night; smaller is worse.
    values: list[float]
    #: Nights with which a known step begins.
    steps: tuple[int, ...]
    #: Whether the rule was looked at with it before it stood.
    tuned: bool


class Rule(Protocol):
    """What is asked night by night."""

    def night(self, value: float) -> int | None:
        """Take a night (logarithm); the one that another level began with, counted from the first; None for
        no alarm."""


class Counted(NamedTuple):
    """What became of a rule's alarms."""

    #: Steps that it told, of how many.
    seen: int
    steps: int
    #: Other alarms.
    others: int
    #: Nights that were looked at.
    nights: int

    def __str__(self) -> str:
        return f"{f'{self.seen} of {self.steps}':>10} {self.others / self.nights * YEAR:8.2f}"


def published() -> list[PublishedSeries]:
    """All series."""
    steps: dict[str, list[int]] = {}
    tuned, sense = {}, {}
    with (DATA / "steps.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            tuned[row["series"]] = row["tuned"] == "1"
            sense[row["series"]] = -1 if row["metric"] == "time" else 1
            steps.setdefault(row["series"], []).extend(map(int, filter(None, [row["night"]])))
    with (DATA / "published.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [
        PublishedSeries(
            name,
            [sense[name] * math.log(float(row[name])) for row in rows if row[name]],
            tuple(steps[name]),
            tuned[name],
        )
        for name in rows[0]
    ]


# -- rules -------------------------------------------------------------------------------------------------


class OurRule:
    """DEGRADED or CHANGED. Both senses are a change here, so it is asked about the worse one."""

    def __init__(self) -> None:
        self._steps, self._values = StepDetection(1, THRESHOLD), np.empty(0)

    def night(self, value: float) -> int | None:
        judged = self._steps.night(np.array([value]), np.array([np.nan]))
        self._values = np.append(self._values, value)
        if judged.alarm[0] < 0:
            return first_low(self._values - judged.location[0], float(judged.effect[0]))
        change = changed(self._values)
        return change.night if change else None


class ControlChart:
    """XDMoD's: the mean of five nights is beyond three standard deviations of the first twenty (Simakov et
    al., Concurrency Computat.: Pract. Exper. 27, 2015)."""

    FIRST, RECENT = 20, 5

    def __init__(self) -> None:
        self._values: list[float] = []

    def night(self, value: float) -> int | None:
        self._values.append(value)
        first, count = self._values[: self.FIRST], len(self._values)
        if count < self.FIRST + self.RECENT:
            return None
        off = np.mean(self._values[-self.RECENT :]) - np.mean(first)
        return count - self.RECENT if abs(off) > 3 * np.std(first, ddof=1) else None


class ThreeSigma:
    """Tonight is beyond three standard deviations of the thirty nights before."""

    def __init__(self) -> None:
        self._values: list[float] = []

    def night(self, value: float) -> int | None:
        before, count = self._values[-30:], len(self._values)
        self._values.append(value)
        if len(before) < 30:
            return None
        return count if abs(value - np.mean(before)) > 3 * np.std(before, ddof=1) else None


class LastPoint:
    """A rule that splits a whole history: an alarm is its last change point, where it finds one."""

    def __init__(self, change_points: Callable[[list[float]], list[int]]) -> None:
        self._change_points, self._values = change_points, list[float]()

    def night(self, value: float) -> int | None:
        self._values.append(value)
        points = self._change_points(self._values) if len(self._values) > 4 else []
        return points[-1] if points else None


def asv_points(values: list[float]) -> list[int]:
    """By ``asv publish``: piecewise constant, with a penalty that it finds by itself."""
    from asv.step_detect import detect_steps

    return [left for left, *_ in detect_steps(np.exp(values).tolist())][1:]


def otava_points(values: list[float]) -> list[int]:
    """By Otava's defaults."""
    from otava.series import AnalysisOptions, Metric, Series

    plain = {"v": np.exp(values).tolist()}
    series = Series("s", None, list(range(len(values))), {"v": Metric(1, 1.0)}, plain, {})
    points = series.analyze(AnalysisOptions()).change_points
    return [int(point.index) for point in points.get("v", [])]


#: By name; those of others with the module that they need.
RULES: Mapping[str, tuple[Callable[[], Rule], str]] = {
    "NPC": (OurRule, ""),
    "XDMoD's control chart": (ControlChart, ""),
    "3 sigma of 30 nights": (ThreeSigma, ""),
    "asv": (partial(LastPoint, asv_points), "asv"),
    "Otava": (partial(LastPoint, otava_points), "otava"),
}


# -- what becomes of them ----------------------------------------------------------------------------------


def alarm_nights(rule: Callable[[], Rule], values: Sequence[float]) -> Iterator[int]:
    """The nights with an alarm, each accepted at once."""
    judge, begin, t = rule(), 0, 0
    for t, value in enumerate(values):
        changed_with = judge.night(value)
        if changed_with is None:
            continue
        yield t
        begin, judge = max(begin + changed_with, begin + 1), rule()
        for known in values[begin : t + 1]:
            judge.night(known)


def counted(rule: Callable[[], Rule], values: Sequence[float], steps: Sequence[int]) -> Counted:
    """How many steps a rule sees in a history, and what else it tells."""
    soon = {night: step for step in steps for night in range(step, step + SOON + 1)}
    nights = list(alarm_nights(rule, values))
    seen = {soon[night] for night in nights if night in soon}
    return Counted(len(seen), len(steps), sum(night not in soon for night in nights), len(values))


def total(counts: Sequence[Counted]) -> Counted:
    """The sum of several."""
    return Counted(*map(sum, zip(*counts, strict=True)))


def quiet_stretches() -> list[list[float]]:
    """Stretches of `STRETCH` nights without a known step."""
    stretches = []
    for series in published():
        borders = (0, *series.steps, len(series.values) + APART)
        for begin, end in pairwise(borders):
            free = range(begin + APART * (begin > 0), end - APART - STRETCH + 1, STRETCH)
            stretches += [series.values[first : first + STRETCH] for first in free]
    return stretches


def planted(stretch: Sequence[float], step: float) -> list[float]:
    """A stretch that is slower by a step, from night `BEFORE` on."""
    return [value + math.log1p(step) * (t >= BEFORE) for t, value in enumerate(stretch)]


def main() -> int:
    series, stretches = published(), quiet_stretches()
    print(f"{len(series)} published series: steps seen in {SOON} nights, other alarms a series and year;")
    print(
        f"{len(stretches)} quiet stretches of {STRETCH} nights: other alarms a year, and planted steps seen"
    )
    print(
        f"{'':24}{'all':>10} {'others':>8}{'held out':>11} {'others':>8}{'quiet':>8}     -5 %    -10 %   +5 %"
    )
    with Pool() as pool:
        for name, (rule, module) in RULES.items():
            if module and not find_spec(module):
                print(f"{name:24} not installed")
                continue
            counts = pool.starmap(counted, [(rule, row.values, row.steps) for row in series], chunksize=1)
            held_out = [count for count, row in zip(counts, series, strict=True) if not row.tuned]
            quiet = total(pool.starmap(counted, [(rule, row, ()) for row in stretches]))
            shares = []
            for step in (-0.05, -0.1, 0.05):
                found = total(
                    pool.starmap(counted, [(rule, planted(row, step), (BEFORE,)) for row in stretches])
                )
                shares.append(f"{found.seen / found.steps:8.0%}")
            rate = quiet.others / quiet.nights * YEAR
            print(f"{name:24}{total(counts)} {total(held_out)}{rate:8.2f} {' '.join(shares)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
