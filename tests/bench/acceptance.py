"""How good the nightly verdicts are, on simulated histories (``make bench-acceptance``).

Noise is of many kinds (`tests.made.noise`), with outliers in 3 % of draws; who is hit is measured again.
False alarms are counted as beginnings of DEGRADED (or CHANGED) in a year in which nothing has changed, after
60 nights; a step is detected in the first night that says so. Beside it stands the best test: the likelihood
ratio of that very step, which knows the noise, its waves and its drift and sees no outlier, at the same rate
of false alarms. Compared with a plain threshold (below the median of 30 nights by max(4 · 1.4826 · MAD, 3 %),
two nights of three, each confirmed by its re-measurement) and with Otava's defaults, which look at one value
a night.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npc.cron.changes import changed
from npc.cron.detection import THRESHOLD
from npc.cron.judge import judge_last_night
from npc.cron.localise import localise_nights
from npc.cron.series import Panel, panel
from npc.cron.step_detection import StepDetection
from npc.records.history import INDEXES, History, HistoryRow
from npc.records.record import Record
from npc.records.series import Series
from tests.made import noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Rng = np.random.Generator

OUTLIERS = 0.03
YEAR = 365
#: Nights before the year that is looked at.
KNOWN_NIGHTS = 60
STEP = 0.05
#: Nights that the best test looks at.
LAGS_OF_BEST = 40
#: False alarms per series and year that are allowed: of kinds whose best test is known, and of others.
GOAL, GOAL_OTHERS = 0.05, 0.1
#: The best test may find so much more.
GOAL_POWER = 0.15
OTAVA = "apache-otava==0.8.0"


class Noise(NamedTuple):
    """Relative standard deviation, and whether the tails are heavy."""

    sigma: float
    heavy: bool = False

    def __str__(self) -> str:
        return f"{self.sigma:.0%} {'heavy-tailed' if self.heavy else 'normal'}"

    def draw(self, rng: Rng, shape: int | tuple[int, ...], outliers: float = OUTLIERS) -> Floats:
        """Logarithms of healthy values."""
        normal = rng.standard_t(4, shape) / np.sqrt(2) if self.heavy else rng.standard_normal(shape)
        low = np.log1p(-rng.uniform(0.1, 0.5, shape))
        values: Floats = self.sigma * normal + np.where(rng.random(shape) < outliers, low, 0.0)
        return values


class Simulated(NamedTuple):
    """What step detection made of S series in T nights."""

    #: S × T scores.
    scores: Floats
    #: S × T: whether an alarm lasts.
    alarms: NDArray[np.bool_]
    #: S × T: what the nights count with.
    values: Floats
    #: Share of the nights after `KNOWN_NIGHTS` that were measured again.
    again: float


def simulate(
    kind: str, seed: int, shape: tuple[int, int], step: float = 0.0, last: int = 3, nights: int = 1
) -> Simulated:
    """Series that are lower by `step` in the last nights; it comes within `nights` of them."""
    fault = np.log1p(-step) * np.clip(np.arange(1 + last - shape[1], 1 + last) / nights, 0.0, 1.0)
    first, second, _ = noise.nights(kind, np.random.default_rng(seed), shape, fault)
    steps = StepDetection(shape[0], THRESHOLD)
    (scores, values), (alarms, hits) = np.zeros((2, *shape)), np.zeros((2, *shape), dtype=bool)
    for t in range(shape[1]):
        hits[:, t] = first[:, t] < steps.limit
        judged = steps.night(first[:, t], np.where(hits[:, t], second[:, t], np.nan))
        scores[:, t], values[:, t], alarms[:, t] = judged.score, judged.value, judged.alarm < 0
    return Simulated(scores, alarms, values, float(hits[:, KNOWN_NIGHTS:].mean()))


def best_scores(kind: str, seed: int, shape: tuple[int, int], step: float = 0.0) -> Floats:
    """S × T log-likelihood ratios of a 5 % step in the last three nights against none, by who knows all."""
    fault = np.repeat([0.0, np.log1p(-step)], [shape[1] - 3, 3])
    first, _, lows = noise.nights(kind, np.random.default_rng(seed), shape, fault, outliers=0.0)
    values, shift = first - lows, float(np.log1p(-STEP))
    if kind == "two levels":
        ratios = _log_density_of_levels(values - shift) - _log_density_of_levels(values)
        return ratios + np.roll(ratios, 1, axis=1) + np.roll(ratios, 2, axis=1)
    phi = float(kind.split()[1]) if kind.startswith("AR(1)") else 0.0
    between = noise.SIGMA**2 * (1 - noise.WITHIN) * (0.5 if kind == "weekly wave" else 1.0)
    lags = np.arange(LAGS_OF_BEST)
    covariance = between * phi**lags + np.where(lags == 0, noise.SIGMA**2 * noise.WITHIN, 0.0)
    covariance[0] += 0.01**2 / 12 if kind.startswith("rounded") else 0.0
    matrix = covariance[np.abs(np.subtract.outer(lags, lags))]
    weights = np.linalg.solve(matrix, np.where(lags < 3, shift, 0.0))
    padded = np.pad(values, ((0, 0), (LAGS_OF_BEST - 1, 0)))
    filtered: Floats = (
        np.lib.stride_tricks.sliding_window_view(padded, LAGS_OF_BEST, axis=1)[..., ::-1] @ weights
    )
    return filtered


def _log_density_of_levels(values: Floats) -> Floats:
    share, by = noise.LOW_SHARE, noise.LOW_BY
    variance = noise.SIGMA**2 - share * (1 - share) * by**2
    parts = [
        weight * np.exp(-((values - middle) ** 2) / (2 * variance))
        for weight, middle in ((1 - share, share * by), (share, share * by - by))
    ]
    logarithms: Floats = np.log(parts[0] + parts[1])
    return logarithms


def beginnings(alarms: NDArray[np.bool_]) -> int:
    """How many alarms begin in S × T nights."""
    return int((alarms[:, 1:] & ~alarms[:, :-1]).sum() + alarms[:, 0].sum())


def plain_threshold(first: Floats, second: Floats) -> NDArray[np.bool_]:
    """S × T alarms of a threshold as often written: the median of 30 nights, MAD, two nights of three."""
    series, nights = first.shape
    low = np.zeros((series, nights), dtype=bool)
    for t in range(30, nights):
        past = first[:, t - 30 : t]
        middle = np.median(past, axis=1)
        limit = np.maximum(4 * 1.4826 * np.median(np.abs(past - middle[:, None]), axis=1), 0.03)
        low[:, t] = (first[:, t] < middle - limit) & (second[:, t] < middle - limit)
    three = low.astype(int)
    three[:, 1:] += low[:, :-1]
    three[:, 2:] += low[:, :-2]
    return low & (three >= 2)


# -- blame ---------------------------------------------------------------------------------------------


def cluster_nights(
    rng: Rng,
    noise: Noise,
    nodes: int = 200,
    nights: int = 30,
    bad: int = -1,
    loss: float = 0.0,
    last: int = 0,
) -> Iterator[HistoryRow]:
    """One random round of pairs a night, all nodes in it; pairs that are low are measured again."""
    key = Series("simulated", "qperf", "tcp_bw", "bandwidth", 65536, 2, "{}")
    for t in range(nights):
        order = rng.permutation(nodes).reshape(-1, 2)
        fault = np.where((order == bad).any(axis=1) & (t >= nights - last), np.log1p(-loss), 0.0)
        first = noise.draw(rng, len(order)) + fault
        second = noise.draw(rng, len(order)) + fault
        for draws, chosen in ((first, first == first), (second, first < -0.5 * noise.sigma)):
            for (a, b), value in zip(order[chosen].tolist(), draws[chosen].tolist(), strict=True):
                hosts = f"n{a:03d}", f"n{b:03d}"
                bandwidth = 1e9 * float(np.exp(value))
                yield HistoryRow(key, f"{t:03d}", _day(t), bandwidth, "ok", hosts, draws is second)


def accuse(seed: int, loss: float, last: int) -> tuple[bool, bool, bool]:
    """Of one cluster: whether the bad node leads the list, whether it is named, whether somebody else is."""
    rng = np.random.default_rng(seed)
    bad = int(rng.integers(200)) if loss else -1
    suspects = localise_nights(panel(cluster_nights(rng, Noise(0.02), bad=bad, loss=loss, last=last)))
    name = f"n{bad:03d}"
    named = {suspect.name for suspect in suspects if suspect.named}
    return bool(suspects) and suspects[0].name == name, name in named, bool(named - {name})


def disturbed_nights(rng: Rng, sigma: float, nodes: int = 6, nights: int = 25) -> Iterator[HistoryRow]:
    """Healthy nights of one pair each; one in ten is disturbed, mostly until it has been measured again."""
    key = Series("simulated", "qperf", "tcp_bw", "bandwidth", 65536, 2, "{}")
    for t in range(nights):
        hosts = tuple(f"n{node}" for node in rng.choice(nodes, 2, replace=False))
        loss = rng.exponential(0.05) if rng.random() < 0.1 else 0.0
        first = sigma * rng.standard_normal() - loss
        second = sigma * rng.standard_normal() - loss * rng.uniform(0.7, 1.3) * (rng.random() < 0.7)
        for value in (first, second) if first < -0.5 * sigma else (first,):
            bandwidth = 1e9 * float(np.exp(value))
            yield HistoryRow(key, f"{t:03d}", _day(t), bandwidth, "ok", hosts, value is second)


def _day(night: int) -> str:
    """When a night began."""
    return (datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(days=night)).isoformat()


def accuse_innocent(seed: int, sigma: float) -> bool:
    """Whether anybody is named after disturbed nights."""
    rng = np.random.default_rng(seed)
    return any(suspect.named for suspect in localise_nights(panel(disturbed_nights(rng, sigma))))


# -- change points ---------------------------------------------------------------------------------------


def year_of_changes(kind: str, seed: int, series: int) -> int:
    """False changes in a year that is looked at every third night, sixty nights being known before."""
    values = simulate(kind, seed, (series, KNOWN_NIGHTS + YEAR), last=0).values
    nights = range(KNOWN_NIGHTS, KNOWN_NIGHTS + YEAR, 3)
    return beginnings(np.array([[changed(of[:night]) is not None for night in nights] for of in values]))


def delays_of_change(kind: str, seed: int, series: int, step: float, nights: int = 1) -> list[int]:
    """By series the nights until a step, or a drift of as many nights, after 100 nights is called CHANGED, of
    61 looked at every third; 99 if it is not."""

    def delay(values: Floats) -> int:
        by_night = ((night, changed(values[: 100 + night])) for night in range(1, 62, 3))
        return next((night for night, change in by_night if change and change.effect < 0), 99)

    values = simulate(kind, seed, (series, 161), step, 61, nights).values
    return [delay(of) for of in values]


# -- Otava -------------------------------------------------------------------------------------------------

_OTAVA_SCRIPT = """
import json, sys
from otava.series import Metric, Series, AnalysisOptions
for line in sys.stdin:
    values = json.loads(line)
    series = Series("s", None, list(range(len(values))), {"v": Metric(1, 1.0)}, {"v": values}, {})
    points = series.analyze(AnalysisOptions()).change_points["v"]
    print(json.dumps([int(point.index) for point in points]), flush=True)
"""


def otava(histories: list[list[float]]) -> list[list[int]] | str:
    """The change points of Otava's defaults in each history; a sentence where it cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            venv.create(folder, with_pip=True)
            python = Path(folder, "bin", "python")
            subprocess.run(
                [python, "-m", "pip", "install", "-q", OTAVA], check=True, capture_output=True, timeout=600
            )
            done = subprocess.run(
                [python, "-c", _OTAVA_SCRIPT],
                input="".join(f"{json.dumps(history)}\n" for history in histories),
                capture_output=True, text=True, check=True, timeout=1800,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            printed = getattr(error, "stderr", "") or b""
            last = (printed.decode() if isinstance(printed, bytes) else printed).strip().splitlines()[-1:]
            return f"{OTAVA} cannot be had: {' '.join(last) or error}"
    return [json.loads(line) for line in done.stdout.splitlines()]


# -- speed -------------------------------------------------------------------------------------------------


def simulated_panel(series: int, nights: int, noise: Noise, seed: int = 1) -> Panel:
    """A panel of quiet series, four nights in ten measured again."""
    rng = np.random.default_rng(seed)
    runs = tuple(f"{t:05d}" for t in range(nights))
    again = np.where(rng.random((series, nights)) < 0.4, np.exp(noise.draw(rng, (series, nights))), np.nan)
    return Panel(
        keys=tuple(Series("s", "qperf", f"c{i}", "bandwidth", 65536, 2, "{}") for i in range(series)),
        runs=runs,
        times=runs,
        value=1e9 * np.exp(noise.draw(rng, (series, nights))),
        again=1e9 * again,
    )


def night_of_records(day: int, series: int, samples: int) -> list[Record]:
    """The records of one simulated night."""
    moment = f"{2020 + day // 336}-{1 + day % 336 // 28:02d}-{1 + day % 28:02d}T02:00:00.000+00:00"
    return [
        Record(
            time=moment, platform="simulated", benchmark="qperf", case=f"c{case}", metric="bandwidth",
            value=1e9 + 1000 * day + sample, unit="B/s", size=65536, nodes=2, hosts=("n001", "n002"),
            job=str(day), run=f"night{day:05d}", sample=sample, params={"runtime": "10"},
            raw=f"first/000000/{case:06d}/launches/raw/{sample:04d}.out",
        )
        for case in range(series)
        for sample in range(samples)
    ]  # fmt: skip


def speed(rows: int) -> None:
    """Print how long a night's judgement, an append and a query take."""
    quiet = simulated_panel(500, YEAR, Noise(0.02))
    took = _timed(partial(judge_last_night, quiet, "s"))
    print(f"500 series × 365 nights judged: {took:.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder))
        nights = rows // 2000
        for day in range(0, nights, 28):
            month = range(day, min(day + 28, nights))
            history.append(record for night in month for record in night_of_records(night, 400, 5))
        records = night_of_records(nights, 400, 5)
        key = history.points().keys[17]  # as the judgement of the night before did: all rows are in the index
        append = _timed(partial(history.append, records))
        history.points()
        query = _timed(lambda: list(history.records(key)))
        history.close()
        shutil.rmtree(Path(folder) / INDEXES)
        rebuild = _timed(lambda: History(Path(folder)).points())
        print(
            f"history of {nights * 2000} rows: 2000 appended in {1e3 * append:.0f} ms, one series of "
            f"{nights * 5} rows read in {1e3 * query:.0f} ms, index made anew in {rebuild:.1f} s"
        )


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# -- all of it ---------------------------------------------------------------------------------------------

Map = Callable[..., list[object]]


def judged_table(pool_map: Callable[..., list[Any]], series: int) -> bool:
    """Print false alarms, power and the best test's, kind by kind; whether the goals are reached."""
    print(
        f"\n{KNOWN_NIGHTS} nights known, then a year with false DEGRADED and CHANGED; steps of 5 % and 10 % "
        "that are DEGRADED in 3 and in 2 nights; nights until 5 %, and 10 % in 60 nights, are CHANGED"
    )
    print(
        "noise                    DEGRADED/year   5 %  best test  10 % in 2  measured again"
        "   CHANGED/year   5 %   10 % in 60"
    )
    good, chunk = True, (100, KNOWN_NIGHTS + YEAR)
    for kind in noise.ALL:
        seeds = range(max(series // chunk[0], 1))
        quiet = pool_map(simulate, [(kind, seed, chunk) for seed in seeds])
        alarms = sum(beginnings(scored.alarms[:, KNOWN_NIGHTS:]) for scored in quiet)
        rate = alarms / (chunk[0] * len(seeds))
        again = float(np.mean([scored.again for scored in quiet]))
        within_three, in_two = (
            _found(pool_map(simulate, [(kind, 1000 + seed, chunk, step) for seed in seeds]), nights)
            for step, nights in ((STEP, 3), (0.10, 2))
        )
        best, goal = float("nan"), GOAL_OTHERS
        if kind in noise.KNOWN:
            best, goal = (
                power_of_best(kind, max(rate, 1 / chunk[0] / len(seeds)), pool_map, seeds, chunk),
                GOAL,
            )
            good &= best - within_three <= GOAL_POWER
        few = range(2 * len(seeds)), 10
        false = sum(pool_map(year_of_changes, [(kind, seed, few[1]) for seed in few[0]]))
        changes = false / (few[1] * len(few[0]))
        delays = [
            np.median(pool_map(delays_of_change, [(kind, seed, few[1], *what) for seed in few[0]]))
            for what in ((STEP,), (0.10, 60))
        ]
        good &= rate <= goal and again < 0.1 and changes <= goal
        known = "" if np.isnan(best) else f"{best:.0%}"
        cells = " ".join(f"{f'{delay:.0f}' if delay <= 61 else '> 60':>9}" for delay in delays)
        print(
            f"{kind:24} {rate:7.3f} ({alarms:3d}) {within_three:6.0%} {known:>10} {in_two:10.0%} "
            f"{again:13.1%} {changes:9.2f} ({false:3d}) {cells}",
            flush=True,
        )
    return good


def _found(stepped: list[Simulated], nights: int) -> float:
    """In which share of series a step is found in the first nights of it."""
    scores = np.concatenate([scored.scores[:, -3:][:, :nights] for scored in stepped])
    return float((scores >= THRESHOLD).any(axis=1).mean())


def power_of_best(
    kind: str, rate: float, pool_map: Callable[..., list[Any]], seeds: range, shape: tuple[int, int]
) -> float:
    """How often the best test finds a 5 % step in three nights, at a rate of false alarms."""
    quiet = np.concatenate(pool_map(best_scores, [(kind, seed, shape) for seed in seeds]))[:, KNOWN_NIGHTS:]
    low, high = 0.0, float(quiet.max())
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if beginnings(quiet >= middle) > rate * len(quiet) else (low, middle)
    stepped = np.concatenate(pool_map(best_scores, [(kind, 1000 + seed, shape, STEP) for seed in seeds]))
    return float((stepped[:, -3:] >= high).any(axis=1).mean())


def compare(trials: int) -> None:
    """Print what a plain threshold and Otava make of the same histories: 2 % of noise."""
    noise, rng = Noise(0.02), np.random.default_rng(7)
    first, second = noise.draw(rng, (trials * 10, 30 + YEAR)), noise.draw(rng, (trials * 10, 30 + YEAR))
    false = beginnings(plain_threshold(first, second)) / (trials * 10)
    stepped = noise.draw(rng, (trials * 10, 33)), noise.draw(rng, (trials * 10, 33))
    for draws in stepped:
        draws[:, 30:] += np.log(0.95)
    share = plain_threshold(*stepped)[:, -3:].any(axis=1).mean()
    print(
        f"\nplain threshold, 2 % normal: {false:.4f} false alarms a year, a 5 % step in 3 nights {share:.1%}"
    )
    histories = np.exp(noise.draw(rng, (trials, YEAR)))
    broken = np.exp(noise.draw(rng, (trials, 103)))
    broken[:, 100:] *= 0.95
    answers = otava([*histories.tolist(), *broken.tolist()])
    if isinstance(answers, str):
        print(f"Otava: skipped: {answers}")
        return
    quiet, steps = answers[:trials], answers[trials:]
    wrong = sum(map(len, quiet)) / trials
    right = sum(any(point >= 98 for point in points) for points in steps) / trials
    print(
        f"{OTAVA}, 2 % normal: {wrong:.2f} false change points in a year looked at once, in "
        f"{sum(map(bool, quiet)) / trials:.0%} of series; a 5 % step in 3 nights {right:.1%}"
    )


def blame_table(pool_map: Callable[..., list[tuple[bool, bool, bool]]], trials: int) -> bool:
    """Print how often the right node leads; whether that is in 95 % of cases."""
    print("\none bad node of 200, one round of pairs a night, 2 % of noise")
    good = True
    for loss, last in ((0.05, 3), (0.05, 5), (0.10, 1), (0.10, 2), (0.0, 0)):
        outcomes = np.array(pool_map(accuse, [(seed, loss, last) for seed in range(trials)]))
        first, named, wrong = outcomes.mean(axis=0)
        what = f"{loss:.0%} slow for {last} nights" if loss else "nobody is slow"
        print(
            f"{what:22} first {first:6.1%}   named {named:6.1%}   somebody else named {wrong:6.1%}",
            flush=True,
        )
        good &= bool(first >= 0.95 or loss == 0 or (loss, last) == (0.10, 1))
    for sigma in (0.002, 0.01, 0.03):
        wrong = np.mean(pool_map(accuse_innocent, [(seed, sigma) for seed in range(10 * trials)]))
        print(
            f"six nodes, a pair a night, {sigma:.1%} of noise, disturbed: somebody named {wrong:6.1%}",
            flush=True,
        )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=int, default=600, help="series a year each, for step detection")
    parser.add_argument("--trials", type=int, default=200, help="for the slower ones")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the history whose speed is measured")
    options = parser.parse_args()
    speed(options.rows)
    with Pool() as pool:

        def run(work, arguments):  # type: ignore[no-untyped-def]
            return pool.starmap(work, arguments, chunksize=1)

        good = judged_table(run, options.series)
        good &= blame_table(run, options.trials)
    compare(options.trials)
    print("\nthe goals are reached" if good else "\nthe goals are NOT reached")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
