"""Measured collectives against what `npc model predict` says of them, and which algorithm the MPI library
uses.

Every algorithm's formula (`npc.roofline.models.collectives`) predicts each size from a ping-pong's models,
which know nothing of the collective. The nearest formula is probably that of the library, which changes its
algorithm with the size. So the sizes are split into two ranges where that brings the nearest formulas enough
nearer: by Schwarz's criterion with the penalty of `npc.roofline.models.piecewise`, on the sums of
|ln(measured/predicted)| (errors by Laplace's distribution, since single sizes may be far off).

Where `npc observe` saw the messages between ranks, they show which algorithm ran, however long it took.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median
from typing import Final, NamedTuple

from npc import catalogue
from npc.records.record import Record
from npc.roofline.cross_validation import ModelComparison, compare
from npc.roofline.messages import made_of
from npc.roofline.models.fitted import parts_of
from npc.roofline.models.piecewise import LEAST, PENALTY, Splits
from npc.roofline.prediction import BelievedModels, PredictedTime, predict
from npc.roofline.sweeps import SweepSource, SweepTimes

#: Layer of the records that say which algorithm ran, by its messages.
_LAYER: Final = "mpi algorithms"
NO_PING_PONG: Final = "no ping-pong of MPI beside it to predict it from"
#: Absolute logarithms below this are rounding, not errors.
_RESOLUTION: Final = 1e-5


class Algorithm(NamedTuple):
    """How well the formula of one algorithm predicts a measured collective."""

    #: Name of the algorithm, as `OPERATIONS` has it.
    name: str
    #: Median of |measured/predicted − 1| over the sizes.
    error: float
    #: Median of measured/predicted over the sizes.
    ratio: float
    #: At how many sizes the measured time lies in the predicted interval.
    inside: int


@dataclass(frozen=True, slots=True)
class AlgorithmAgreement:
    """A measured collective in one range of sizes, compared with the prediction of each algorithm."""

    #: The measured collective.
    source: SweepSource
    #: The ping-pong whose models predict its messages.
    predicted_from: SweepSource
    #: What was measured: ``allreduce``, …
    operation: str
    #: Number of processes.
    processes: int
    #: Smallest size of the range, in bytes; 0 of a barrier.
    first: float
    #: Largest size of the range, in bytes; 0 of a barrier.
    last: float
    #: Number of sizes in the range.
    sizes: int
    #: Every algorithm of the operation, the simplest first.
    algorithms: tuple[Algorithm, ...]
    #: Name of the algorithm with the nearest formula, or of the simplest that ties with it
    #: (`ModelComparison`).
    nearest: str
    #: Names of the others that tie with it; empty if there are none.
    tied: tuple[str, ...]
    #: Names of the algorithms that ran at some of these sizes, by the messages between ranks; empty where
    #: nobody saw these.
    ran: tuple[str, ...] = ()

    @property
    def contradicted(self) -> bool:
        """Whether its messages show another algorithm than its times suggest."""
        return bool(self.ran) and not {self.nearest, *self.tied} & set(self.ran)


class _NothingToCompare(Exception):
    """No prediction for a collective; the message says why."""


def compare_collectives(
    series: Iterable[SweepTimes], messages: Mapping[SweepSource, BelievedModels], reduction: float | None
) -> tuple[list[AlgorithmAgreement], dict[str, str]]:
    """(every measured collective compared with its predictions, by ranges of sizes; name → why there are
    none)."""
    agreements: list[AlgorithmAgreement] = []
    skipped: dict[str, str] = {}
    for times in series:
        try:
            agreements += _agreements(times, messages, reduction)
        except _NothingToCompare as reason:
            skipped[times.source.name] = str(reason)
    return agreements, skipped


def with_messages(
    agreements: Iterable[AlgorithmAgreement], records: Iterable[Record]
) -> list[AlgorithmAgreement]:
    """The same, with the algorithms that ran by the messages that `npc observe` saw on as many nodes."""
    observed = [record for record in records if record.ok and record.params.get("layer") == _LAYER]
    return [
        replace(agreement, ran=tuple(dict.fromkeys(_ran(agreement, observed)))) for agreement in agreements
    ]


def _ran(agreement: AlgorithmAgreement, records: Iterable[Record]) -> Iterable[str]:
    where = (agreement.source.platform, agreement.source.nodes)
    what = {"kind": agreement.operation, "communicator": str(agreement.processes)}
    for record in records:
        first, last = record.size or 0, int(record.params.get("largest_size", sys.maxsize))
        at_its_sizes = first <= agreement.last and last >= agreement.first
        if (
            (record.platform, record.nodes) == where
            and what.items() <= record.params.items()
            and at_its_sizes
        ):
            yield from record.params.get("algorithm", "").split(" or ")


def _agreements(
    series: SweepTimes, messages: Mapping[SweepSource, BelievedModels], reduction: float | None
) -> list[AlgorithmAgreement]:
    source = series.source
    operation = catalogue.find(source.benchmark, source.case, "latency").operation
    processes = int(source.by_name.get("ranks", 0))
    if processes < 2:
        raise _NothingToCompare(
            "a single process" if processes else "its number of processes is not known (param `ranks`)"
        )
    ping_pong = made_of(source, messages)
    if ping_pong is None:
        raise _NothingToCompare(NO_PING_PONG)
    times = {
        size: median(launches.values())
        for size, launches in series.times.items()
        if size or operation == "barrier"  # without bytes there is nothing to do
    }
    predicted = _predicted(messages[ping_pong], operation, processes, sorted(times), reduction)
    if not predicted:
        raise _NothingToCompare("the ping-pong's models say nothing about messages of its sizes")
    sizes = [float(size) for size in predicted]
    held_out = {
        name: [math.log(times[size] / by_algorithm[name].time) for size, by_algorithm in predicted.items()]
        for name in next(iter(predicted.values()))
    }
    parts = parts_of(operation, _ranges(held_out))
    return [
        _agreement(comparison, ping_pong, processes, times, predicted)
        for comparison in compare(source, sizes, held_out, parts)
    ]


def _predicted(
    believed: BelievedModels, operation: str, processes: int, sizes: Sequence[int], reduction: float | None
) -> dict[int, dict[str, PredictedTime]]:
    """size → algorithm → prediction, of sizes for which every algorithm has a usable one. Not usable are
    predictions from messages far beyond the fit, and times of zero, where the start of a message was not told
    apart from 0."""
    by_size: defaultdict[int, dict[str, PredictedTime]] = defaultdict(dict)
    for prediction in predict(believed, [operation], [processes], sizes, reduction):
        by_size[prediction.size or 0][prediction.algorithm] = prediction
    return {
        size: by_algorithm
        for size, by_algorithm in by_size.items()
        if all(one.time > 0 and not one.far for one in by_algorithm.values())
    }


def _agreement(
    comparison: ModelComparison,
    ping_pong: SweepSource,
    processes: int,
    times: Mapping[int, float],
    predicted: Mapping[int, Mapping[str, PredictedTime]],
) -> AlgorithmAgreement:
    sizes = [size for size in predicted if comparison.first <= size <= comparison.last]
    algorithms = []
    for name, error in comparison.errors.items():
        made = [(times[size], predicted[size][name]) for size in sizes]
        inside = sum(
            prediction.low is not None
            and prediction.high is not None
            and prediction.low <= time <= prediction.high
            for time, prediction in made
        )
        algorithms.append(
            Algorithm(name, error, median(time / prediction.time for time, prediction in made), inside)
        )
    return AlgorithmAgreement(
        comparison.source,
        ping_pong,
        comparison.observable,
        processes,
        comparison.first,
        comparison.last,
        len(sizes),
        tuple(algorithms),
        comparison.best,
        comparison.tied,
    )


def _ranges(held_out: Mapping[str, Sequence[float]]) -> Splits:
    """(first, last) index of one or two ranges of sizes, in each of which one algorithm is nearest."""
    sums = [list(accumulate(map(abs, errors), initial=0.0)) for errors in held_out.values()]
    n = len(sums[0]) - 1

    def distance(first: int, last: int) -> float:
        return max(min(cumulative[last] - cumulative[first] for cumulative in sums), n * _RESOLUTION)

    places = range(LEAST, n - LEAST + 1)
    best = min(places, key=lambda place: distance(0, place) + distance(place, n), default=0)
    if best and 2 * n * math.log(
        (distance(0, best) + distance(best, n)) / distance(0, n)
    ) < -PENALTY * math.log(n):
        return (0, best - 1), (best, n - 1)
    return ((0, n - 1),)
