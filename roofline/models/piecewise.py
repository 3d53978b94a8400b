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

Neither a message's start nor a byte takes less than no time: where the best line of a piece would have α or β
below zero, the other one alone is fitted.

Every size is also left out once, the pieces searched and fitted without it, and its time predicted:
`Pieces.held_out`. That is the error on sizes not shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from npc.statistics.medians import MIN_SAMPLES
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

    A launch that lacks a size has NaN there; every size has at least one time. `middle` is the median of each
    size's launches. Raises `TooFewSizes`, and
    ValueError for times that are not positive.
    """

    x: Array
    times: Array
    middle: Array = field(init=False)

    def __post_init__(self) -> None:
        import numpy as np

        if len(self.x) < LEAST:
            raise TooFewSizes(f"{len(self.x)} sizes, a line needs {LEAST}")
        missing = np.isnan(self.times)
        positive = bool((self.times[~missing] > 0).all() and not missing.all(axis=1).any())
        if not (positive and (np.diff(self.x) > 0).all()):
            raise ValueError("every size needs a positive time, and sizes ascend")
        median = np.nanmedian if missing.any() else np.median
        object.__setattr__(self, "middle", median(self.times, axis=1))

    @property
    def whole_launches(self) -> Array:
        """The columns of launches that have every size."""
        import numpy as np

        return self.times[:, ~np.isnan(self.times).any(axis=0)]


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
        return self.fit.number(2 * piece), self.fit.number(2 * piece + 1)

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

    n = len(x)
    index = np.arange(n)
    # for each size left out the first and last index of its piece, and of those it lies at the edge of
    own, below, above = (np.zeros((n, 2), dtype=int) for _ in range(3))
    for left_out, splits in enumerate(without):
        place = next(place for place, (_, last) in enumerate(splits) if left_out <= last)
        first, last = own[left_out] = below[left_out] = above[left_out] = splits[place]
        if left_out == first and place > 0:
            below[left_out] = splits[place - 1]
        if left_out == last and place + 1 < len(splits):
            above[left_out] = splits[place + 1]
    times = []
    for piece in (own, below, above):
        shown = (index >= piece[:, :1]) & (index <= piece[:, 1:]) & ~aside & (index != index[:, None])
        times.append(_predicted(x, middle, shown))
    low, high = np.minimum.reduce(times), np.maximum.reduce(times)
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.log(middle / np.where(times[0] > 0, times[0], np.nan))
        misses = np.log(middle / np.clip(middle, np.where(low > 0, low, np.nan), high))
    return np.where(np.isnan(errors), np.inf, errors), np.where(np.isnan(misses), np.inf, misses)


def _predicted(x: Array, middle: Array, shown: Array) -> Array:
    """The time at size i as a line through the sizes shown in row i tells it; NaN where that are too few."""
    import numpy as np

    scaled = x / x[-1]
    u, v = 1 / middle, scaled / middle
    sums = shown @ np.column_stack([u * u, u * v, v * v, u, v])
    alpha, beta, _ = _solve(*sums.T)
    return np.where(shown.sum(axis=1) >= 2, alpha + beta * scaled, np.nan)


def _solve(uu: Array, uv: Array, vv: Array, u: Array, v: Array) -> tuple[Array, Array, Array]:
    """α and β, not below zero, that minimise Σ (1 − αu − βv)² from its sums of products, and how far it lies
    below Σ 1."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        determinant = uu * vv - uv * uv
        determinant = np.where(determinant > 0, determinant, np.nan)
        alpha, beta = (vv * u - uv * v) / determinant, (uu * v - uv * u) / determinant
        falling, through_zero = beta < 0, alpha < 0
        alpha = np.where(falling, u / uu, np.where(through_zero, 0.0, alpha))
        beta = np.where(falling, 0.0, np.where(through_zero, v / vv, beta))
    return alpha, beta, alpha * u + beta * v


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
    explained = _solve(uu, uv, vv, u1, v1)[2]
    enough = (count >= LEAST) & ~np.isnan(explained)
    return np.where(enough, np.maximum(count - explained, 0.0), np.inf)


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
    """Weighted least squares of all pieces, with the evidence that the launches give; nothing below zero."""
    import numpy as np

    design = design_of(sweep.x, splits)
    launches = sweep.whole_launches
    if launches.shape[1] >= MIN_SAMPLES:
        return _not_below_zero(design, sweep.middle, launches)
    known = ~np.isnan(sweep.times) & shown[:, None]
    rows = np.repeat(np.arange(len(sweep.x)), known.sum(axis=1))
    return _not_below_zero(design[rows], sweep.times[known], None)


def _not_below_zero(design: Array, times: Array, launches: Array | None) -> Linear:
    """`fit_linear`, with coefficients that would be negative left out. What is left of its piece is a single
    column of positive numbers, so that one is positive."""
    free = fit_linear(design, times, launches)
    positive = free.values >= 0
    if positive.all():
        return free
    return fit_linear(design[:, positive], times, launches).placed(positive, free)


def fit_linear(
    design: Array, times: Array, launches: Array | None = None, scale_of_errors: Array | None = None
) -> Linear:
    """θ of times ≈ design·θ; a column of `launches` is one launch's times.

    Errors are relative to the fitted times, or to `scale_of_errors` for times that are differences and so may
    be near or below zero.
    """
    import numpy as np

    if scale_of_errors is None:
        theta, fitted, weight = reweighted_fit(design, times)
    else:
        weight = scale_of_errors
        theta, fitted = weighted_fit(design, times, weight)
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


def reweighted_fit(
    design: Array, times: Array, shown: NDArray[np.bool_] | None = None
) -> tuple[Array, Array, Array]:
    """(θ, fitted times, weight): errors relative to the fitted times.

    As `weighted_fit`, with times that are not `shown` left out.
    """
    import numpy as np

    hidden = np.where(shown, 1.0, np.inf) if shown is not None else 1.0
    weight = times * hidden
    theta, fitted = weighted_fit(design, times, weight)
    for _ in range(_ROUNDS):
        # a fitted time may come out at or below zero for data that are no line: then the measured one counts
        weight = np.where(fitted > 0.1 * times, fitted, times) * hidden
        theta, fitted = weighted_fit(design, times, weight)
    return theta, fitted, weight


def weighted_fit(design: Array, times: Array, weight: Array) -> tuple[Array, Array]:
    """(θ, fitted times) that minimise Σ ((t − design·θ)/weight)², with columns scaled alike.

    design: times × coefficients, or several such; a time of infinite weight is left out.
    """
    import numpy as np

    columns = design / weight[..., None]
    scale = np.abs(columns).max(axis=-2, keepdims=True)
    scale[scale == 0] = 1
    if design.ndim == 2:  # twice as quick as pinv, but only for one design
        theta = np.linalg.lstsq(columns / scale, times / weight, rcond=None)[0] / scale[0]
        return theta, design @ theta
    theta = (np.linalg.pinv(columns / scale) @ (times / weight)[..., None])[..., 0] / scale[..., 0, :]
    return theta, (design @ theta[..., None])[..., 0]
