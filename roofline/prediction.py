"""Times that nobody measured: of a message, and of collectives made of messages, from a fitted model.

The interval has two parts. The parameters' own interval carries over to the time, which is linear in them.
And a model is off by something at every size: the bound of its errors on sizes it was not shown
(`roofline.models.fitted.held_out_bound`) widens it, as if all messages were off by as much to the same
side. Both hold together with at least the sum of their coverages less one (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from roofline.models.collectives import OPERATIONS, Round
from roofline.models.fitted import held_out_bound

if TYPE_CHECKING:
    from roofline.models.estimate import Number
    from roofline.models.piecewise import Pieces


#: How many times the largest size fitted a message may have: beyond, another protocol, another cache and the
#: small error of a slope make any number.
REACH: Final = 4.0


@dataclass(frozen=True, slots=True)
class Predicted:
    """A time in s. size: bytes, None of a barrier. beyond: sizes of messages outside of what was fitted.
    far: whether one of these is more than `REACH` times the largest fitted."""

    operation: str
    algorithm: str
    processes: int
    size: int | None
    time: float
    low: float | None
    high: float | None
    coverage: float | None
    beyond: tuple[int, ...]
    far: bool
    fastest: bool = False


def predict(
    pieces: Pieces,
    operations: Sequence[str],
    processes: Sequence[int],
    sizes: Sequence[int],
    reduction: float | None = None,
) -> Iterator[Predicted]:
    """Predictions for every operation, number of processes and size; `fastest` marks the best algorithm of
    each, where none is `far`.

    reduction: seconds that reducing a byte takes; None leaves arithmetic out. Raises KeyError for an
    operation that is none of `OPERATIONS`.
    """

    for operation in operations:
        for ranks in processes if operation != "send" else (2,):
            for size in sizes if operation != "barrier" else (None,):
                found = [
                    _predict(pieces, operation, algorithm, ranks, size, reduction or 0.0)
                    for algorithm in OPERATIONS[operation]
                ]
                best = min(each.time for each in found)
                marked = len(found) > 1 and not any(each.far for each in found)
                for each in found:
                    yield _marked(each) if each.time == best and marked else each


def _marked(predicted: Predicted) -> Predicted:
    from dataclasses import replace

    return replace(predicted, fastest=True)


def _predict(
    pieces: Pieces, operation: str, algorithm: str, processes: int, size: int | None, reduction: float
) -> Predicted:
    rounds = OPERATIONS[operation][algorithm](processes, size or 0)
    arithmetic = reduction * sum(each.messages * each.reduced for each in rounds)
    # where a size lies between two protocols, the time is either one's
    numbers = [_sum(pieces, rounds, side) for side in (0, -1)]
    bound, kept = held_out_bound(pieces.misses.tolist())
    intervals = [number.interval() for number in numbers]
    lows = [each.low for each in intervals if each.low is not None]
    highs = [each.high for each in intervals if each.high is not None]
    known = len(lows) == len(numbers) and math.isfinite(bound)
    coverage = min((each.coverage or 0.0 for each in intervals), default=0.0) + kept - 1
    beyond = tuple(sorted({each.size for each in rounds if pieces.outside(each.size)}))
    return Predicted(
        operation,
        algorithm,
        processes,
        size,
        sum(number.value for number in numbers) / len(numbers) + arithmetic,
        max(0.0, min(lows) * math.exp(-bound)) + arithmetic if known else None,
        max(highs) * math.exp(bound) + arithmetic if known else None,
        coverage if known else None,
        beyond,
        max(beyond, default=0) > REACH * float(pieces.x[-1]),
    )


def _sum(pieces: Pieces, rounds: Sequence[Round], side: int) -> Number:
    """The time of all messages, those between two pieces counted to the one on `side`."""
    counts: dict[int, tuple[float, float]] = {}
    for each in rounds:
        piece = pieces.pieces_at(each.size)[side]
        messages, volume = counts.get(piece, (0.0, 0.0))
        counts[piece] = (messages + each.messages, volume + each.messages * each.size)
    return pieces.combine(counts)
