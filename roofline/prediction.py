"""Times that nobody measured: of a message, and of collectives made of messages, from fitted models.

Each message's time is that of the model that is believed at its size (`BelievedModels`).

The interval has two parts. The parameters' own interval carries over to the time, which is linear in them.
And a model has some error at every size: the bound of its errors on sizes it was not shown
(`npc.roofline.models.fitted.held_out_bound`) widens the interval, as if all messages had that error in the
same direction. Both hold together with at least the sum of their coverages less one (Bonferroni).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, NamedTuple

from npc.roofline.cross_validation import ModelComparison
from npc.roofline.models.collectives import OPERATIONS, Round
from npc.roofline.models.estimate import EstimatedNumber
from npc.roofline.models.fitted import held_out_bound
from npc.roofline.models.piecewise import PiecewiseFit

#: A message may have so many times the largest size fitted. Beyond, another protocol, another cache, or the
#: small error of a slope may give any number.
REACH: Final = 4.0


@dataclass(frozen=True, slots=True)
class PredictedTime:
    """The time of an operation that nobody measured."""

    #: Name of the operation, as `OPERATIONS` has it.
    operation: str
    #: Name of the algorithm, likewise.
    algorithm: str
    #: Number of processes.
    processes: int
    #: Bytes, as the OSU benchmarks count them; None of a barrier.
    size: int | None
    #: The prediction, in s.
    time: float
    #: Lower end of its interval, in s; None where there is none.
    low: float | None
    #: Upper end of its interval, likewise.
    high: float | None
    #: Probability with which the interval holds; None where there is none.
    coverage: float | None
    #: Bytes of messages that lie outside of the sizes fitted, ascending; empty if there are none.
    beyond: tuple[int, ...]
    #: Whether one of these is more than `REACH` times the largest size fitted.
    far: bool
    #: Whether its algorithm is the fastest of the operation; False where there is only one, or where the
    #: prediction of one of them is `far`.
    fastest: bool = False


class Range(NamedTuple):
    """A range of sizes, and the model to believe there."""

    #: Smallest size, in bytes.
    first: float
    #: Largest size, in bytes.
    last: float
    #: Name of the model.
    model: str
    #: Names of others that could not be told from it; empty if there are none.
    tied: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BelievedModels:
    """The models of one sweep, and which of them to believe where."""

    #: By name of a model the lines that predict.
    models: Mapping[str, PiecewiseFit]
    #: At least one; they ascend and do not overlap.
    ranges: tuple[Range, ...]

    @classmethod
    def alone(cls, name: str, pieces: PiecewiseFit) -> BelievedModels:
        """A model without others beside it."""
        return cls({name: pieces}, (Range(float(pieces.x[0]), float(pieces.x[-1]), name),))

    @classmethod
    def among(
        cls, models: Mapping[str, PiecewiseFit], comparisons: Sequence[ModelComparison]
    ) -> BelievedModels:
        """The models that `comparisons` of one sweep say to believe. Where such a model is not among
        `models`, the one there with the least error takes its place. Without comparisons it is the first of
        `models`. Raises StopIteration where a comparison has none of them."""
        if not comparisons:
            return cls.alone(*next(iter(models.items())))
        ranges = []
        for comparison in comparisons:
            order = [comparison.best, *sorted(comparison.errors, key=lambda name: comparison.errors[name])]
            believed = next(name for name in order if name in models)
            tied = tuple(name for name in comparison.tied if name in models)
            ranges.append(Range(float(comparison.first), float(comparison.last), believed, tied))
        return cls({part.model: models[part.model] for part in ranges}, tuple(ranges))

    @property
    def misses(self) -> list[float]:
        """`PiecewiseFit.misses` at each size of the model that is believed there."""
        return [
            miss
            for part in self.ranges
            for x, miss in zip(
                self.models[part.model].x, self.models[part.model].misses.tolist(), strict=True
            )
            if part.first <= x <= part.last
        ]

    def outside(self, size: float) -> bool:
        """Whether a size lies outside of what was measured."""
        return not self.ranges[0].first <= size <= self.ranges[-1].last

    def at(self, size: float, side: int) -> tuple[str, int]:
        """(model, its piece) for a size; for one between two ranges, or pieces, those below (`side` 0) or
        above it (-1)."""
        after = next((at for at, part in enumerate(self.ranges) if size <= part.last), len(self.ranges) - 1)
        between = after > 0 and size < self.ranges[after].first
        name = self.ranges[after - 1 if between and side == 0 else after].model
        return name, self.models[name].pieces_at(size)[side]


def predict(
    believed: BelievedModels,
    operations: Sequence[str],
    processes: Sequence[int],
    sizes: Sequence[int],
    reduction: float | None = None,
) -> Iterator[PredictedTime]:
    """Predictions for every operation, number of processes and size; `fastest` marks the best algorithm of
    each, where none is `far`.

    reduction: seconds that reducing a byte takes; None leaves arithmetic out. Raises KeyError for an
    operation that is none of `OPERATIONS`.
    """
    for operation in operations:
        for ranks in processes if operation != "send" else (2,):
            for size in sizes if operation != "barrier" else (None,):
                predictions = [
                    _predict(believed, operation, algorithm, ranks, size, reduction or 0.0)
                    for algorithm in OPERATIONS[operation]
                ]
                best = min(prediction.time for prediction in predictions)
                marked = len(predictions) > 1 and not any(prediction.far for prediction in predictions)
                yield from (
                    replace(prediction, fastest=marked and prediction.time == best)
                    for prediction in predictions
                )


def _predict(
    believed: BelievedModels,
    operation: str,
    algorithm: str,
    processes: int,
    size: int | None,
    reduction: float,
) -> PredictedTime:
    rounds = OPERATIONS[operation][algorithm](processes, size or 0)
    arithmetic = reduction * sum(part.messages * part.reduced for part in rounds)
    numbers = _times(believed, rounds)
    bound, chance = held_out_bound(believed.misses)
    intervals = [number.interval() for number in numbers]
    lows = [interval.low for interval in intervals if interval.low is not None]
    highs = [interval.high for interval in intervals if interval.high is not None]
    known = len(lows) == len(numbers) and math.isfinite(bound)
    coverage = min((interval.coverage or 0.0 for interval in intervals), default=0.0) + chance - 1
    beyond = tuple(sorted({part.size for part in rounds if believed.outside(part.size)}))
    return PredictedTime(
        operation,
        algorithm,
        processes,
        size,
        _middle(numbers) + arithmetic,
        max(0.0, min(lows) * math.exp(-bound)) + arithmetic if known else None,
        max(highs) * math.exp(bound) + arithmetic if known else None,
        coverage if known else None,
        beyond,
        max(beyond, default=0) > REACH * believed.ranges[-1].last,
    )


def message_time(believed: BelievedModels, rounds: Sequence[Round]) -> float:
    """Seconds of messages one after the other."""
    return _middle(_times(believed, rounds))


def _times(believed: BelievedModels, rounds: Sequence[Round]) -> list[EstimatedNumber]:
    """The time of all messages, twice: with sizes between two protocols counted to the lower one, and to the
    upper one."""
    return [_sum(believed, rounds, side) for side in (0, -1)]


def _middle(numbers: Sequence[EstimatedNumber]) -> float:
    return sum(number.value for number in numbers) / len(numbers)


def _sum(believed: BelievedModels, rounds: Sequence[Round], side: int) -> EstimatedNumber:
    """The time of all messages, those between two pieces counted to the one on `side`."""
    counts: defaultdict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
    for part in rounds:
        name, piece = believed.at(part.size, side)
        messages, volume = counts[name].get(piece, (0.0, 0.0))
        counts[name][piece] = (messages + part.messages, volume + part.messages * part.size)
    return reduce(
        EstimatedNumber.along, (believed.models[name].combine(sums) for name, sums in counts.items())
    )
