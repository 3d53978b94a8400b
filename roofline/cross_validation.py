"""Which model to believe where: models of one observable, by their errors on sizes that they were not shown.

The model with the least median error is the one to believe, or the simplest of those that cannot be told from
it by the rule of one standard error (`ModelComparison`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from npc.roofline.models.fitted import FittedRange, relative_errors
from npc.roofline.sweeps import SweepSource

#: The observable that is measured over numbers of messages; all others are over sizes in bytes.
BURST: Final = "burst of messages"
#: A median's standard error is this times the median absolute deviation over √n (√(π/2)·1.4826: normal).
_OF_MEDIAN: Final = 1.858
#: Relative errors below the first count as it, those above the second as that.
_NOTHING: Final = 1e-4
_ENDLESS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """Errors of several models in one range of sizes, each size predicted by models that were not shown it.

    A model ties with the one of least error where its errors are not really larger: the median factor of its
    errors over those of the best model, size by size, is within its own standard error in ln (the rule of one
    standard error: Breiman, Friedman, Olshen, Stone, Classification and Regression Trees, 1984, 3.4.3).
    """

    #: The sweep that was predicted.
    source: SweepSource
    #: What the models predict: ``half round trip``, …
    observable: str
    #: Smallest size of the range in bytes; for `BURST` a number of messages.
    first: float
    #: Largest size of the range, likewise.
    last: float
    #: By name of a model its median relative error, the simplest model first.
    errors: Mapping[str, float]
    #: Name of the model to believe here: the simplest of those that tie with the one of least error.
    best: str
    #: Names of the others that tie with it; empty if there are none.
    tied: tuple[str, ...]

    @classmethod
    def of(
        cls,
        source: SweepSource,
        observable: str,
        first: float,
        last: float,
        errors: Mapping[str, Sequence[float]],
    ) -> ModelComparison:
        """The comparison of models, the simplest first, by their relative errors at the same sizes."""
        medians = {name: median(of_model) for name, of_model in errors.items()}
        least = min(medians, key=lambda name: medians[name])
        equal = [name for name in errors if name == least or _ties(errors[name], errors[least])]
        return cls(source, observable, first, last, medians, equal[0], tuple(equal[1:]))


def compare(
    source: SweepSource,
    x: Sequence[float],
    held_out: Mapping[str, Sequence[float]],
    parts: Sequence[FittedRange],
) -> Iterator[ModelComparison]:
    """A comparison for each part of `x`.

    held_out: model → ln(measured/predicted) at each x, the simplest model first.
    """
    errors = {name: relative_errors(of_model) for name, of_model in held_out.items()}
    for observable, first, last in parts:
        shown = {name: of_model[first : last + 1] for name, of_model in errors.items()}
        yield ModelComparison.of(source, observable, x[first], x[last], shown)


def _ties(errors: Sequence[float], least: Sequence[float]) -> bool:
    """Whether the errors are larger than the least ones by no more than one standard error
    (`ModelComparison`)."""
    more = [_logarithm(a) - _logarithm(b) for a, b in zip(errors, least, strict=True)]
    middle = median(more)
    spread = median(abs(logarithm - middle) for logarithm in more)
    return middle <= _OF_MEDIAN * spread / math.sqrt(len(more))


def _logarithm(error: float) -> float:
    return math.log(min(max(error, _NOTHING), _ENDLESS))
