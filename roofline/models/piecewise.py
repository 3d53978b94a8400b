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

Neither the start of a message nor a byte takes a negative time: where the best line of a piece would have α
or β below zero, only the other one is fitted.

Every size is also left out once, the pieces searched and fitted without it, and its time predicted:
`PiecewiseFit.held_out`. That is the error on sizes not shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from npc.roofline.models.estimate import EstimatedNumber, Linear
from npc.statistics.arrays import Booleans, Floats
from npc.statistics.medians import MIN_SAMPLES

Splits = tuple[tuple[int, int], ...]

PENALTY: Final = 5.0
#: Sizes that a piece has at least.
LEAST: Final = 3
MOST_PIECES: Final = 6
#: A size counts as disturbed if its message took more than so many times as long as a larger one.
DISTURBED: Final = 1.5
#: Relative residuals below this are rounding, not noise.
_RESOLUTION: Final = 1e-5
_ROUNDS: Final = 3


class TooFewSizes(ValueError):
    """A line needs at least three sizes."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The measured times of a sweep.

    Raises `TooFewSizes`, and ValueError for times that are not positive and for sizes that do not ascend.
    """

    #: Sizes in bytes (or numbers of messages), ascending.
    x: Floats
    #: In s: one row for each size, one column for each launch; NaN where a launch lacks a size. Every size
    #: has at least one time.
    times: Floats
    #: By size the median of its times, in s.
    middle: Floats = field(init=False)

    def __post_init__(self) -> None:
        if len(self.x) < LEAST:
            raise TooFewSizes(f"{len(self.x)} sizes, a line needs {LEAST}")
        missing = np.isnan(self.times)
        positive = bool((self.times[~missing] > 0).all() and not missing.all(axis=1).any())
        if not (positive and (np.diff(self.x) > 0).all()):
            raise ValueError("every size needs a positive time, and sizes ascend")
        median = np.nanmedian if missing.any() else np.median
        object.__setattr__(self, "middle", median(self.times, axis=1))

    @property
    def whole_launches(self) -> Floats:
        """The columns of launches that have every size."""
        return self.times[:, ~np.isnan(self.times).any(axis=0)]


@dataclass(frozen=True, slots=True)
class PiecewiseFit:
    """Straight lines by pieces that were fitted to a sweep; all arrays are by size."""

    #: Sizes in bytes, ascending.
    x: Floats
    #: Median of the measured times, in s.
    middle: Floats
    #: (first, last) index of the sizes of each piece.
    splits: Splits
    #: The coefficients α₀, β₀, α₁, β₁, … of the pieces, in s and s/B.
    fit: Linear
    #: (median − fitted)/fitted.
    residuals: Floats
    #: ln(measured/predicted), predicted by the lines that were found without this size.
    held_out: Floats
    #: As `held_out`; but at an edge of a piece, where nobody knows the switch, the lines of both pieces
    #: predict: 0 if the measured time lies between them, else the error of the nearer one.
    misses: Floats
    #: Whether the size was not fitted, because something disturbed its measurement (`disturbed`).
    set_aside: Booleans

    def line(self, piece: int) -> tuple[EstimatedNumber, EstimatedNumber]:
        """(α, β) of a piece."""
        return self.fit.number(2 * piece), self.fit.number(2 * piece + 1)

    def range(self, piece: int) -> tuple[float, float]:
        """The smallest and the largest x that a piece was fitted on."""
        first, last = self.splits[piece]
        return float(self.x[first]), float(self.x[last])

    def combine(self, counts: dict[int, tuple[float, float]]) -> EstimatedNumber:
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


def fit_pieces(sweep: Sweep, most: int = MOST_PIECES) -> PiecewiseFit:
    """The best lines by pieces, at most `most` of them."""
    aside = disturbed(sweep)
    splits = search(sweep.x, sweep.middle, ~aside, most)
    others = ~np.eye(len(sweep.x), dtype=bool) & ~aside
    return _pieces(sweep, splits, [search(sweep.x, sweep.middle, shown, most) for shown in others], aside)


def fit_on(sweep: Sweep, splits: Splits) -> PiecewiseFit:
    """Lines on pieces that are given, such as those of another sweep over the same sizes."""
    return _pieces(sweep, splits, [splits] * len(sweep.x), np.zeros(len(sweep.x), dtype=bool))


def disturbed(sweep: Sweep) -> Booleans:
    """Sizes that took longer than `DISTURBED` times a larger size, in fewer than six launches.

    A message takes no longer than a larger one, so something else ran meanwhile. With six launches or more
    the median is not moved by that, and what it still shows is the machine. At least two thirds of the sizes
    are kept.
    """
    least_of_larger = np.minimum.accumulate(sweep.middle[::-1])[::-1]
    slower = sweep.middle > DISTURBED * least_of_larger
    few = sweep.whole_launches.shape[1] < MIN_SAMPLES
    return np.asarray(
        slower & few & (slower.sum() * 3 <= len(slower)) & (len(slower) - slower.sum() >= LEAST)
    )


def _pieces(sweep: Sweep, splits: Splits, without: Sequence[Splits], aside: Booleans) -> PiecewiseFit:
    """The lines on `splits`; `without` are the splits that were found without each size in turn."""
    fit = _not_below_zero(design_of(sweep.x, splits), sweep.times, ~aside)
    fitted = design_of(sweep.x, splits) @ fit.values
    residuals = (sweep.middle - fitted) / fitted
    errors = [
        _held_out(sweep.x, sweep.middle, place, of_others, aside) for place, of_others in enumerate(without)
    ]
    held_out, misses = np.array(errors).T
    return PiecewiseFit(sweep.x, sweep.middle, splits, fit, residuals, held_out, misses, aside)


def _held_out(x: Floats, middle: Floats, place: int, splits: Splits, aside: Booleans) -> tuple[float, float]:
    """`held_out` and `misses` of `PiecewiseFit` for one size by the lines on `splits`, found without it."""
    own = next(piece for piece, (_, last) in enumerate(splits) if place <= last)
    around = [own]
    if own and place == splits[own][0]:
        around.append(own - 1)
    if own + 1 < len(splits) and place == splits[own][1]:
        around.append(own + 1)
    times = []
    for first, last in (splits[piece] for piece in around):
        (shown,) = np.nonzero(~aside[first : last + 1] & (np.arange(first, last + 1) != place))
        times.append(_predicted(x[first + shown], middle[first + shown], float(x[place])))
    if not min(times) > 0:
        return math.inf, math.inf
    measured = float(middle[place])
    return math.log(measured / times[0]), math.log(measured / min(max(measured, min(times)), max(times)))


def _predicted(x: Floats, y: Floats, at: float) -> float:
    """The time at `at` by the line through the points; −∞ where there are fewer than two points."""
    if len(x) < 2:
        return -math.inf
    u, v = 1 / y, x / x[-1] / y
    alpha, beta, _ = _solve(u @ u, u @ v, v @ v, u.sum(), v.sum())
    return float(alpha + beta * at / x[-1])


def _solve(uu: Floats, uv: Floats, vv: Floats, u: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
    """α and β, not below zero, that minimise Σ (1 − αu − βv)², from its sums of products; and how far the
    minimum lies below Σ 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        determinant = uu * vv - uv * uv
        determinant = np.where(determinant > 0, determinant, np.nan)
        alpha, beta = (vv * u - uv * v) / determinant, (uu * v - uv * u) / determinant
        falling, through_zero = beta < 0, alpha < 0
        alpha = np.where(falling, u / uu, np.where(through_zero, 0.0, alpha))
        beta = np.where(falling, 0.0, np.where(through_zero, v / vv, beta))
    return alpha, beta, alpha * u + beta * v


def search(x: Floats, y: Floats, shown: Booleans, most: int = MOST_PIECES) -> Splits:
    """The best splits of (x, y), without looking at the sizes that are not `shown`.

    A size not shown belongs to the piece of the nearer of its neighbours (in ln x).
    """
    (places,) = np.nonzero(shown)
    n = len(places)
    cost = _costs(x[places], y[places])
    best, begins = [cost[0]], [np.zeros(n, dtype=int)]
    for _ in range(1, max(1, min(most, n // LEAST))):
        # best of K pieces ending at j: the least over the start i of the last piece
        candidates = np.concatenate([[np.inf], best[-1][:-1]])[:, None] + cost
        begins.append(candidates.argmin(axis=0))
        best.append(candidates.min(axis=0))
    number = np.arange(len(best))
    rss = np.maximum([costs[-1] for costs in best], n * _RESOLUTION**2)
    with np.errstate(divide="ignore"):
        criterion = n * np.log(rss / (n - 2 * (number + 1))) + PENALTY * number * np.log(n)
    edges: list[int] = []
    last = n - 1
    for pieces in range(int(criterion.argmin()), 0, -1):
        first = int(begins[pieces][last])
        last = first - 1
        left, right = places[last], places[first]
        middle = math.sqrt(max(x[left], 1) * x[right])
        edges.insert(0, int(left + (x[left + 1 : right] <= middle).sum()))
    return tuple(zip([0, *(edge + 1 for edge in edges)], [*edges, len(x) - 1], strict=True))


def _costs(x: Floats, y: Floats) -> Floats:
    """Least Σ ((y − α − βx)/y)² over the points i…j: cost[i, j]; infinite below `LEAST` points."""
    u, v = 1 / y, x / x[-1] / y  # the weighted columns of the design; the weighted y is 1 everywhere
    total = np.cumsum([u * u, u * v, v * v, u, v, np.ones_like(u)], axis=1)
    before = np.concatenate([np.zeros((len(total), 1)), total[:, :-1]], axis=1)
    *sums, count = total[:, None, :] - before[:, :, None]
    explained = _solve(*sums)[2]
    return np.where((count >= LEAST) & ~np.isnan(explained), np.maximum(count - explained, 0.0), np.inf)


def design_of(x: Floats, splits: Splits) -> Floats:
    """Columns 1 and x of each piece."""
    design = np.zeros((len(x), 2 * len(splits)))
    for piece, (first, last) in enumerate(splits):
        design[first : last + 1, 2 * piece] = 1
        design[first : last + 1, 2 * piece + 1] = x[first : last + 1]
    return design


def _not_below_zero(design: Floats, times: Floats, shown: Booleans) -> Linear:
    """`fit_times` without the coefficients that would be negative. Then one column of positive numbers is
    left of the piece, so its coefficient is positive."""
    free = fit_times(design, times, shown=shown)
    positive = free.values >= 0
    if positive.all():
        return free
    return fit_times(design[:, positive], times, shown=shown).placed(positive, free)


def fit_times(
    design: Floats,
    times: Floats,
    scale_of_errors: Floats | None = None,
    shown: Booleans | None = None,
) -> Linear:
    """`fit_linear` of times × launches (NaN: none), by the evidence that there is.

    With six launches or more that have every time, the medians are fitted, and each launch by itself. With
    fewer, all times of the sizes that are `shown`.
    """
    launches = times[:, ~np.isnan(times).any(axis=0)]
    if launches.shape[1] >= MIN_SAMPLES:
        return fit_linear(design, np.nanmedian(times, axis=1), launches, scale_of_errors)
    known = ~np.isnan(times)
    if shown is not None:
        known &= shown[:, None]
    row = known.nonzero()[0]
    scale = None if scale_of_errors is None else scale_of_errors[row]
    return fit_linear(design[row], times[known], None, scale)


def fit_linear(
    design: Floats, times: Floats, launches: Floats | None = None, scale_of_errors: Floats | None = None
) -> Linear:
    """θ of times ≈ design·θ; a column of `launches` is one launch's times.

    Errors are relative to the fitted times, or to `scale_of_errors` for times that are differences and so may
    be near or below zero.
    """
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
    of_launches = np.zeros((0, design.shape[1]))
    if launches is not None:
        of_launches = (inverse @ (weighted.T @ (launches / weight[:, None]))).T
    return Linear(theta, variance * inverse, float(dof), of_launches)


def reweighted_fit(design: Floats, times: Floats) -> tuple[Floats, Floats, Floats]:
    """(θ, fitted times, weight): errors relative to the fitted times."""
    weight = times
    theta, fitted = weighted_fit(design, times, weight)
    for _ in range(_ROUNDS):
        # a fitted time may come out at or below zero for data that are no line: then the measured one counts
        weight = np.where(fitted > 0.1 * times, fitted, times)
        theta, fitted = weighted_fit(design, times, weight)
    return theta, fitted, weight


def weighted_fit(design: Floats, times: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """(θ, fitted times) that minimise Σ ((t − design·θ)/weight)², with columns scaled alike."""
    columns = design / weight[:, None]
    scale = np.abs(columns).max(axis=0)
    scale[scale == 0] = 1
    theta = np.linalg.lstsq(columns / scale, times / weight, rcond=None)[0] / scale
    return theta, design @ theta
