"""Straight lines by pieces: where a protocol switches is found from the data.

The error of a time is taken as proportional to the time, so squares of relative residuals are minimised:
Σ ((t − α − βx)/t)². For each number of pieces K the best split is found exactly by dynamic programming over
all splits (Bellman, Roth, Journal of the American Statistical Association 64, 1969); lines of neighbouring
pieces need not meet, since a rendezvous adds a handshake. K is the one that minimises

    C(K) = n·ln(RSS_K/(n − 2K)) + PENALTY·(K − 1)·ln(n),

n being the number of sizes: Schwarz's criterion (Annals of Statistics 6, 1978) with the unbiased variance
and a heavier penalty. Schwarz's own would be 3, for the three parameters that a piece adds (its line, and
where it begins), but with K searched over all splits it splits a third of all sweeps of 20 sizes that are
one line. `PENALTY` splits 1 to 2 % of those, 5 % at 12 sizes and 8 % at 8 (1000 simulated sweeps each). A
piece has at least three sizes, so that its residuals say something.

The lines are then fitted once more with weights from the fitted times instead of the measured ones, which
takes away the bias towards small values (iteratively reweighted least squares).

Every size is also left out once, the pieces searched and fitted without it, and its time predicted:
`Pieces.held_out`. That is the error on sizes not shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from npc.statistics import MIN_SAMPLES
from roofline.models.estimate import Linear, Number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Splits = tuple[tuple[int, int], ...]

PENALTY: Final = 5.0
#: Sizes that a piece has at least.
LEAST: Final = 3
MOST_PIECES: Final = 6
#: How much longer than a larger message a message must have taken to count as disturbed.
DISTURBED: Final = 1.5
#: Relative residuals below this are rounding, not noise.
_RESOLUTION: Final = 1e-5
_ROUNDS: Final = 3


class TooFewSizes(ValueError):
    """A line needs at least three sizes."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Times of a sweep: `x` ascending (sizes in bytes), `times` in s, one row a size, one column a launch.

    A launch that lacks a size has NaN there; every size has at least one time. Raises `TooFewSizes`, and
    ValueError for times that are not positive.
    """

    x: Array
    times: Array

    def __post_init__(self) -> None:
        import numpy as np

        if len(self.x) < LEAST:
            raise TooFewSizes(f"{len(self.x)} sizes, a line needs {LEAST}")
        known = ~np.isnan(self.times)
        if not (known.any(axis=1).all() and (self.times[known] > 0).all() and (np.diff(self.x) > 0).all()):
            raise ValueError("every size needs a positive time, and sizes ascend")

    @property
    def whole_launches(self) -> Array:
        """The columns of launches that have every size."""
        import numpy as np

        return self.times[:, ~np.isnan(self.times).any(axis=0)]

    @property
    def middle(self) -> Array:
        """The time of each size: median over the launches."""
        import numpy as np

        return np.asarray(np.nanmedian(self.times, axis=1))


class Prediction(NamedTuple):
    """Times predicted at one x: one, or two where x lies between two pieces and nobody knows the switch."""

    numbers: tuple[Number, ...]
    extrapolated: bool


@dataclass(frozen=True, slots=True)
class Pieces:
    """Lines by pieces.

    splits: (first, last) index of each piece's sizes. fit: α₀, β₀, α₁, β₁, … residuals: (measured −
    fitted)/fitted of each size's median. held_out: ln(measured/predicted) of each size, predicted without
    it. misses: the same, but 0 at a size between two pieces whose time lies between theirs, and else from
    the nearer one: `predict` gives both. set_aside: True for sizes whose measurement was disturbed
    (`disturbed`): not fitted.
    """

    x: Array
    middle: Array
    splits: Splits
    fit: Linear
    residuals: Array
    held_out: Array
    misses: Array
    set_aside: NDArray[np.bool_]

    def line(self, piece: int) -> tuple[Number, Number]:
        """(α, β) of a piece."""
        return self.combine({piece: (1.0, 0.0)}), self.combine({piece: (0.0, 1.0)})

    def range(self, piece: int) -> tuple[float, float]:
        """The smallest and the largest x that a piece was fitted on."""
        first, last = self.splits[piece]
        return float(self.x[first]), float(self.x[last])

    def combine(self, counts: dict[int, tuple[float, float]]) -> Number:
        """Σ over pieces of a·α + b·β, for {piece: (a, b)}."""
        weights = [0.0] * (2 * len(self.splits))
        for piece, (a, b) in counts.items():
            weights[2 * piece : 2 * piece + 2] = [a, b]
        return self.fit.combine(weights)

    def pieces_at(self, x: float) -> tuple[int, ...]:
        """The piece that x belongs to, or the two that it lies between; beyond the ends the outer one."""
        ends = [self.range(piece) for piece in range(len(self.splits))]
        after = next((piece for piece, (_, last) in enumerate(ends) if x <= last), len(ends) - 1)
        if after and x < ends[after][0]:
            return after - 1, after
        return (after,)

    def outside(self, x: float) -> bool:
        """Whether x lies outside of what was measured."""
        return not float(self.x[0]) <= x <= float(self.x[-1])

    def predict(self, x: float) -> Prediction:
        """Times at x."""
        numbers = tuple(self.combine({piece: (1.0, x)}) for piece in self.pieces_at(x))
        return Prediction(numbers, self.outside(x))


def fit_pieces(sweep: Sweep, most: int = MOST_PIECES) -> Pieces:
    """The best lines by pieces, at most `most` of them."""
    import numpy as np

    n = len(sweep.x)
    aside = disturbed(sweep)
    shown = np.vstack([np.ones(n), 1.0 - np.eye(n)])  # all sizes; then each left out
    shown[:, aside] = 0
    splits = search(sweep.x, sweep.middle, shown, most)
    return _pieces(sweep, splits[0], splits[1:], aside)


def fit_on(sweep: Sweep, splits: Splits) -> Pieces:
    """Lines on pieces that are given, such as those of another sweep over the same sizes."""
    import numpy as np

    return _pieces(sweep, splits, [splits] * len(sweep.x), np.zeros(len(sweep.x), dtype=bool))


def disturbed(sweep: Sweep) -> NDArray[np.bool_]:
    """Sizes that took longer than `DISTURBED` times a larger size, in fewer than six launches.

    A message needs no longer than a larger one, so something else ran meanwhile; over six launches the
    median passes over that by itself, and what it still shows is the machine's. At least two thirds of the
    sizes stay.
    """
    import numpy as np

    least_of_larger = np.minimum.accumulate(sweep.middle[::-1])[::-1]
    found = sweep.middle > DISTURBED * least_of_larger
    few = sweep.whole_launches.shape[1] < MIN_SAMPLES
    return np.asarray(found & few & (found.sum() * 3 <= len(found)) & (len(found) - found.sum() >= LEAST))


def _pieces(sweep: Sweep, splits: Splits, without: Sequence[Splits], aside: NDArray[np.bool_]) -> Pieces:
    """The lines on `splits`; `without` are the splits that were found without each size in turn."""
    fit = _fit(sweep, splits, ~aside)
    fitted = design_of(sweep.x, splits) @ fit.values
    residuals = (sweep.middle - fitted) / fitted
    errors = _held_out(sweep.x, sweep.middle, without, aside)
    return Pieces(sweep.x, sweep.middle, splits, fit, residuals, *errors, aside)


def _held_out(
    x: Array, middle: Array, without: Sequence[Splits], aside: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """(`Pieces.held_out`, `Pieces.misses`)."""
    import numpy as np

    errors = np.full(len(x), math.inf)
    misses = np.full(len(x), math.inf)
    for left_out, splits in enumerate(without):
        shown = ~aside
        shown[left_out] = False
        place = next(place for place, (_, last) in enumerate(splits) if left_out <= last)
        first, last = splits[place]
        beside = [place - 1] * (left_out == first and place > 0)
        beside += [place + 1] * (left_out == last and place + 1 < len(splits))
        times = [_predicted(x, middle, splits[each], shown, left_out) for each in (place, *beside)]
        time = float(middle[left_out])
        if times[0] > 0:
            errors[left_out] = math.log(time / times[0])
        if min(times) > 0:
            misses[left_out] = math.log(time / min(max(time, min(times)), max(times)))
    return errors, misses


def _predicted(x: Array, middle: Array, piece: tuple[int, int], shown: NDArray[np.bool_], at: int) -> float:
    """The time at a size as the shown sizes of a piece tell it."""
    import numpy as np

    index = np.flatnonzero(shown[piece[0] : piece[1] + 1]) + piece[0]
    if len(index) < 2:
        return math.nan
    design = np.column_stack([np.ones(len(index)), x[index]])
    theta, _ = _weighted(design, middle[index], middle[index])
    return float(theta[0] + theta[1] * x[at])


def search(x: Array, y: Array, shown: Array, most: int = MOST_PIECES) -> list[Splits]:
    """The best splits of (x, y) for each row of `shown`, which has a 0 for a size that must not be looked at.

    A size not shown belongs to the piece of the nearer of its neighbours (in ln x).
    """
    import numpy as np

    cost = _costs(x, y, shown)
    batch, n, _ = cost.shape
    counts = shown.sum(axis=1)
    best = [cost[:, 0, :]]
    came_from = [np.zeros((batch, n), dtype=int)]
    for _ in range(1, max(1, min(most, n // LEAST))):
        # best of K pieces ending at j: the least over the start i of the last piece
        before = np.concatenate([np.full((batch, 1), np.inf), best[-1][:, :-1]], axis=1)
        candidates = before[:, :, None] + cost
        came_from.append(candidates.argmin(axis=1))
        best.append(candidates.min(axis=1))
    rss = np.stack([each[:, -1] for each in best])
    floor = counts * _RESOLUTION**2
    number = np.arange(len(best))[:, None]
    dof = counts - 2 * (number + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        criterion = counts * np.log(np.maximum(rss, floor) / dof) + PENALTY * number * np.log(counts)
    criterion = np.where(dof > 0, criterion, np.inf)
    criterion[0] = np.where(dof[0] > 0, criterion[0], 0.0)
    chosen = criterion.argmin(axis=0)
    return [_trace(came_from, row, int(chosen[row]), shown[row], x) for row in range(batch)]


def _costs(x: Array, y: Array, shown: Array) -> Array:
    """Least Σ ((y − α − βx)/y)² over the shown points i…j: cost[row, i, j]; infinite below `LEAST` points."""
    import numpy as np

    scaled = x / x[-1]
    u, v = 1 / y, scaled / y  # the weighted columns of the design; the weighted y is 1 everywhere
    sums = [np.cumsum(shown * column, axis=1) for column in (u * u, u * v, v * v, u, v, np.ones_like(u))]
    before = [np.concatenate([np.zeros((len(shown), 1)), total[:, :-1]], axis=1) for total in sums]
    uu, uv, vv, u1, v1, count = (
        total[:, None, :] - start[:, :, None] for total, start in zip(sums, before, strict=True)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        determinant = uu * vv - uv * uv
        alpha = (vv * u1 - uv * v1) / determinant
        beta = (uu * v1 - uv * u1) / determinant
        rss = count - alpha * u1 - beta * v1
    enough = (count >= LEAST) & (determinant > 0)
    return np.where(enough, np.maximum(rss, 0.0), np.inf)


def _trace(came_from: list[NDArray[np.int_]], row: int, pieces: int, shown: Array, x: Array) -> Splits:
    """The splits that led to the best cost."""
    found = []
    last = len(x) - 1
    for number in range(pieces, -1, -1):
        first = int(came_from[number][row, last]) if number else 0
        found.append((first, last))
        last = first - 1
    found.reverse()
    (hidden,) = (shown == 0).nonzero()
    for place in hidden:
        # the dynamic programme counts it to either side for nothing
        for left, ((a, b), (c, d)) in enumerate(list(pairwise(found))):
            if place in (b, c):
                low, high = (place - 1, place + 1)
                joins_left = x[place] ** 2 <= max(x[low], 1) * x[high]
                edge = place if joins_left else place - 1
                found[left], found[left + 1] = (a, int(edge)), (int(edge) + 1, d)
    return tuple(found)


def design_of(x: Array, splits: Splits) -> Array:
    """Columns 1 and x of each piece."""
    import numpy as np

    design = np.zeros((len(x), 2 * len(splits)))
    for piece, (first, last) in enumerate(splits):
        design[first : last + 1, 2 * piece] = 1
        design[first : last + 1, 2 * piece + 1] = x[first : last + 1]
    return design


def _fit(sweep: Sweep, splits: Splits, shown: NDArray[np.bool_]) -> Linear:
    """Weighted least squares of all pieces, with the evidence that the launches give."""
    import numpy as np

    design = design_of(sweep.x, splits)
    launches = sweep.whole_launches
    if launches.shape[1] >= MIN_SAMPLES:
        return fit_linear(design, sweep.middle, launches)
    known = ~np.isnan(sweep.times) & shown[:, None]
    rows = np.repeat(np.arange(len(sweep.x)), known.sum(axis=1))
    return fit_linear(design[rows], sweep.times[known])


def fit_linear(
    design: Array, times: Array, launches: Array | None = None, scale_of_errors: Array | None = None
) -> Linear:
    """θ of times ≈ design·θ; a column of `launches` is one launch's times.

    Errors are relative to the fitted times, or to `scale_of_errors` for times that are differences and so may
    be near or below zero.
    """
    import numpy as np

    weight = times if scale_of_errors is None else scale_of_errors
    theta, fitted = _weighted(design, times, weight)
    for _ in range(_ROUNDS if scale_of_errors is None else 0):
        # a fitted time may come out at or below zero for data that are no line: then the measured one counts
        weight = np.where(fitted > 0.1 * times, fitted, times)
        theta, fitted = _weighted(design, times, weight)
    weighted = design / weight[:, None]
    dof = len(times) - design.shape[1]
    residual = (times - fitted) / weight
    scale = np.abs(weighted).max(axis=0)
    inverse = np.linalg.pinv((weighted / scale).T @ (weighted / scale)) / np.outer(scale, scale)
    variance = float(residual @ residual) / dof if dof > 0 else math.nan
    each = np.zeros((0, design.shape[1]))
    if launches is not None:
        each = (inverse @ (weighted.T @ (launches / weight[:, None]))).T
    return Linear(theta, variance * inverse, float(dof), each)


def _weighted(design: Array, times: Array, weight: Array) -> tuple[Array, Array]:
    """(θ, fitted times) that minimise Σ ((t − design·θ)/weight)², with columns scaled alike."""
    import numpy as np

    columns = design / weight[:, None]
    scale = np.abs(columns).max(axis=0)
    scale[scale == 0] = 1
    theta = np.linalg.lstsq(columns / scale, times / weight, rcond=None)[0] / scale
    return theta, design @ theta
