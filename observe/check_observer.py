"""``npc observe --check-observer``: the program's run time with and without watching it.

Runs with and without take turns in blocks of four, each ABBA or BAAB by lot, so a machine that drifts does so
for both alike; two neighbours are a pair. The overhead is the median of the pairs' ratios, less 1, with the
nonparametric interval of order statistics (`npc.statistics.medians`); every figure follows from the rows that
are printed.

A run takes from the moment when its last rank is let go to the end of the last one: without the time that
watchers need to begin. In the runs without, `npc.observe.rank` stands before the program as well, and only
waits.
"""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from npc.jobs.sample import turns
from npc.machine.command import exit_words
from npc.observe.observer import RunPlan
from npc.observe.rank_files import read_ranks
from npc.observe.run import RANKS, run
from npc.records.overhead import MeasuredOverhead, percent
from npc.statistics.medians import MIN_SAMPLES, summarise


class RunFailed(RuntimeError):
    """A run failed, with this exit code: there is nothing to compare."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def check(
    command: Sequence[str],
    plain: Sequence[str],
    place: int,
    stem: Path,
    plan: RunPlan,
    pairs: int,
) -> MeasuredOverhead:
    """Run it 2 · `pairs` times; what it prints goes to ``STEM-check-NN-with.out`` and the like. plain: the
    command without watching. Raises `RunFailed`."""
    watching, lot = replace(plan, background_s=0.0), random.Random()
    rows: list[tuple[float, float]] = []
    pair: dict[bool, float] = {}
    click.echo(f"npc observe: {2 * pairs} more runs, half of them without watching", err=True)
    for number, (watched, _) in enumerate(turns(pairs, lot)):
        one = stem.with_name(f"{stem.name}-check-{number:02d}-{'with' if watched else 'without'}")
        words, how = (command, watching) if watched else (plain, RunPlan())
        code = run(words, place, one, how, keep=True, silent=True).code
        if code:
            raise RunFailed(code, f"run {number} of the check ended with {exit_words(code)}: {one}.err")
        ranks = one.with_name(f"{one.name}.{RANKS}")
        pair[watched] = _seconds(ranks)
        shutil.rmtree(ranks)
        if len(pair) == 2:
            rows.append((pair[False], pair[True]))
            pair = {}
            click.echo(_row(len(rows), *rows[-1]), err=True)
    return measured(rows)


def measured(rows: Sequence[tuple[float, float]]) -> MeasuredOverhead:
    """Of seconds without and with, of each pair."""
    ratios = summarise([with_it / without for without, with_it in rows])
    return MeasuredOverhead(
        median=ratios.median - 1,
        low=None if ratios.low is None else ratios.low - 1,
        high=None if ratios.high is None else ratios.high - 1,
        coverage=ratios.coverage,
        pairs=ratios.n,
        seconds=tuple(rows),
    )


def table(overhead: MeasuredOverhead) -> Iterator[str]:
    """The rows, and what follows from them."""
    yield "pair     without        with  difference  with / without"
    for number, (without, with_it) in enumerate(overhead.seconds, 1):
        difference = f"{with_it - without:+.4f} s"
        yield f"{number:4} {without:9.4f} s {with_it:9.4f} s {difference:>11} {with_it / without:15.4f}"
    ratios = f"median of the ratios {1 + overhead.median:.4f}"
    if overhead.low is None or overhead.high is None or overhead.coverage is None:
        yield f"{ratios}: too few pairs for an interval: {MIN_SAMPLES} at least"
    else:
        bounds = f"{1 + overhead.low:.4f} to {1 + overhead.high:.4f}"
        judgement = _judged(overhead.low, overhead.high)
        yield f"{ratios}, {100 * overhead.coverage:.1f} % interval {bounds}: {judgement}"


def _judged(low: float, high: float) -> str:
    if low > 0:
        return f"watching makes it slower, by {percent(low)} at least"
    if high < 0:
        return "faster with watching: something else differs between the runs"
    return f"no difference shown, and none above {percent(high)}"


def _row(number: int, without: float, with_it: float) -> str:
    return f"  pair {number}: {without:.4f} s without, {with_it:.4f} s with"


def _seconds(ranks: Path) -> float:
    """From the last rank's begin to the last one's end, on the node that began last."""
    moments = defaultdict[str, list[tuple[float, float]]](list)
    for rank in read_ranks(ranks)[0]:
        moments[rank.host].append((rank.begin.time, rank.end.time))
    if not moments:
        raise RunFailed(1, "no rank was seen: is this folder visible on every node?")
    return min(
        max(end for _, end in moment) - max(begin for begin, _ in moment) for moment in moments.values()
    )
