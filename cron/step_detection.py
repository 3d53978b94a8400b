"""The gate: is a series worse than it used to be, tonight and in two nights of the last three?

Values are logarithms, turned so that worse is smaller. A healthy night's draw is normal about the reference,
with a few outliers, nearly all of them to the worse side, since what disturbs a measurement slows it:

    f(r) = (1-ε)·N(r; 0, σ²) + ε·w(r)/W,      w = (1 - exp(-r²/(2·`OUTLIERS_FROM`²·σ²))) · (1 below 0,
                                              `OUTLIERS_ABOVE` above)

Reference and noise (location, σ, ε) are those of up to `WINDOW` earlier nights, by EM (Dempster, Laird and
Rubin, 1977); only quiet nights enter, so that neither a fault nor a recovery becomes the new normal by
itself. The evidence is the draws of the last two and of the last three nights, the re-measured ones among
them: a shift by δ, the same for all, against none, by the likelihood ratio with the δ that fits best. An
outlier thus weighs little, and one that is gone when measured again nearly nothing. The score is the lesser
of Student's t (a short reference knows little about its noise) and the root of the log-likelihood ratio
(outliers may coincide), as a standard normal.

A night is *hit*, and asks to be measured again, if it is lower than `HIT` σ, or lower than usual
at all in the two nights after a hit. docs/acceptance.md shows what follows from these constants.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npc.statistics.distributions import normal_score
from npc.statistics.mixture import MIN_NOISE, OUTLIER_WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Booleans = NDArray[np.bool_]
    Integers = NDArray[np.intp]

#: Earlier nights that make the reference, at most, and how many there must be before anything is judged.
WINDOW: Final = 365
MIN_NIGHTS: Final = 8
#: Nights that the evidence comes from.
EVIDENCE: Final = 3
#: Lower by so many σ a night is measured again; so many after a night that was.
HIT: Final = 0.5
HIT_AGAIN: Final = 0.0
#: Nights that must be low of the last three, tonight among them.
LOW_NIGHTS: Final = 2
#: A night is low if all its draws together are lower by so many σ.
LOW: Final = 0.5
#: Nights whose σ add up to less give no score worth computing.
MUCH: Final = 2.5
#: Two nights alone must score more than three by this: else each night had two chances of a false alarm.
FEWER_NIGHTS: Final = 0.4
#: Nobody is called for less: log(1.02).
MIN_EFFECT: Final = math.log(1.02)

#: Height of the outliers' uniform density above the location, relative to below.
OUTLIERS_ABOVE: Final = 0.005
#: Outliers lie where noise does not reach: within so many σ of the location their density falls to 0. A
#: power of √2, so that one exponential squared so often makes both densities.
_SQUARINGS: Final = 4
OUTLIERS_FROM: Final = 2.0 ** (_SQUARINGS / 2)
#: One outlier in twenty nights, as if that had been seen in twenty nights.
PRIOR_OUTLIERS: Final = 0.05
PRIOR_NIGHTS: Final = 20.0
#: Two draws of one night that differ by more σ contradict each other.
DISAGREE: Final = 4.0
#: Nights above the location beyond so many σ count as that; kurtosis from which on, and up to which, scores
#: lose something because of long tails, and how much at most.
TAIL_CLIP: Final = 5.0
TAIL_FROM: Final = 3.0
TAIL_TO: Final = 7.0
TAIL_LOSS: Final = 0.5
#: Steps of EM, from nothing, and from an earlier fit to more than so many nights.
STEPS: Final = 12
STEPS_FROM_BEFORE: Final = 3
STEADY: Final = 30
#: The reference is fitted anew when it has grown by a twentieth.
REFIT: Final = 20

_SQRT_2PI: Final = math.sqrt(2 * math.pi)


class Noise(NamedTuple):
    """By series: location, σ, outlier fraction ε of the reference, its effective number of nights, and
    `tail`: what a score loses because the noise has longer tails than a normal distribution."""

    location: Floats
    sigma: Floats
    outliers: Floats
    nights: Floats
    tail: Floats


class Judged(NamedTuple):
    """One night by series.

    noise: the reference. known: its nights. score: of the evidence that it is worse, as a standard normal; 0
    if it is not low in two of three nights, or hardly. better: likewise that it is better. tonight: of
    tonight's draws alone that it is worse. effect: δ in log units of the strongest of these.
    """

    noise: Noise
    known: Integers
    score: Floats
    better: Floats
    tonight: Floats
    effect: Floats


class Gate:
    """The gate of S series at once; feed it the nights one by one, the oldest first."""

    def __init__(self, series: int, threshold: float) -> None:
        """threshold: from which score on a series is not quiet, so that its nights are no reference."""
        self._threshold = threshold
        self._reference = np.full((series, WINDOW), np.nan)
        self._filled = np.zeros(series, dtype=np.intp)
        self._next_fit = np.full(series, MIN_NIGHTS, dtype=np.intp)
        self._draws = np.full((series, EVIDENCE, 2), np.nan)
        self._hit = np.zeros((series, EVIDENCE), dtype=bool)
        self._z = np.zeros((series, EVIDENCE))
        self._odd = np.zeros((series, EVIDENCE), dtype=bool)
        self.noise = Noise(*(np.full(series, np.nan) for _ in Noise._fields))

    def restart(self, which: Booleans) -> None:
        """Forget everything about some series: somebody accepted that a new time has begun for them."""
        self._reference[which] = np.nan
        self._filled[which] = 0
        self._next_fit[which] = MIN_NIGHTS
        self._draws[which] = np.nan
        self._hit[which] = self._odd[which] = False
        self._z[which] = 0.0
        self.noise.location[which] = np.nan

    def limits(self) -> Floats:
        """The value, in log units, below which tonight is a hit; NaN where there is no reference yet."""
        recently = self._hit[:, 1:].any(axis=1)
        return self.noise.location - np.where(recently, HIT_AGAIN, HIT) * self.noise.sigma

    def night(self, first: Floats, again: Floats) -> Judged:
        """Judge a night by its draws (S values each, NaN where there is none), and remember it."""
        measured = ~np.isnan(first)
        hit = measured & (first < self.limits())
        self._remember(measured, first, again, hit)
        judged = self._judge(measured)
        alarm = (judged.score >= self._threshold) | (judged.better >= self._threshold)
        self._odd[alarm] = True
        return judged

    def _remember(self, measured: Booleans, first: Floats, again: Floats, hit: Booleans) -> None:
        """Shift tonight in; what leaves the evidence becomes reference, if it was quiet."""
        leaving = self._draws[:, 0, 0]
        self._learn(measured & ~np.isnan(leaving) & ~self._odd[:, 0], leaving)
        for array in (self._draws, self._hit, self._odd, self._z):
            array[measured, :-1] = array[measured, 1:]
        self._draws[measured, -1, 0] = first[measured]
        self._draws[measured, -1, 1] = again[measured]
        self._hit[measured, -1] = hit[measured]
        self._odd[measured, -1] = False

    def _learn(self, which: Booleans, values: Floats) -> None:
        rows = np.flatnonzero(which)
        self._reference[rows, self._filled[rows] % WINDOW] = values[rows]
        self._filled[rows] += 1
        due = rows[self._filled[rows] >= self._next_fit[rows]]
        if len(due):
            known = min(int(self._filled[due].max()), WINDOW)
            fitted = fit_noise(self._reference[due, :known], _of(self.noise, due))
            for field, news in zip(self.noise, fitted, strict=True):
                field[due] = news
            self._next_fit[due] = self._filled[due] + np.maximum(
                np.minimum(self._filled[due], WINDOW) // REFIT, 1
            )

    def _judge(self, measured: Booleans) -> Judged:
        series = len(measured)
        score, better, effect, tonight = (np.zeros(series) for _ in range(4))
        rows = np.flatnonzero(measured & ~np.isnan(self.noise.location))
        if len(rows):
            noise = _of(self.noise, rows)
            residuals = self._draws[rows] - noise.location[:, None, None]
            typical = _typical(residuals[:, -1], noise)
            self._z[rows, -1] = typical / noise.sigma
            effect[rows] = typical
            low = np.flatnonzero(typical < -MIN_EFFECT)
            if len(low):
                tonight[rows[low]] = evidence(residuals[low, -1], _of(noise, low)).score
            for sense, scores in ((-1, score), (1, better)):
                z = sense * self._z[rows]
                odd = z > LOW
                much = np.where(odd, z, 0.0).sum(axis=1) > MUCH
                chosen = np.flatnonzero((odd.sum(axis=1) >= LOW_NIGHTS) & odd[:, -1] & much)
                if len(chosen):
                    self._nights_together(rows[chosen], residuals[chosen], sense, scores, effect)
        noise = Noise(*(field.copy() for field in self.noise))
        return Judged(noise, np.minimum(self._filled, WINDOW), score, better, tonight, effect)

    def _nights_together(
        self, rows: Integers, residuals: Floats, sense: int, scores: Floats, effect: Floats
    ) -> None:
        """Fill in the scores, and the effects, of those series that are low (or high) in enough nights."""
        three = residuals.reshape(len(rows), -1)
        two = three.copy()
        two[:, : residuals.shape[2]] = np.nan
        # at once, since for few series most of the time is that of the calls
        found = evidence(np.concatenate((three, two)), _of(self.noise, np.concatenate((rows, rows))))
        value = np.where(sense * found.delta >= MIN_EFFECT, found.score, 0.0).reshape(2, -1)
        value[1] -= FEWER_NIGHTS
        for nights, delta in zip(value, found.delta.reshape(2, -1), strict=True):
            more = nights > scores[rows]
            scores[rows[more]], effect[rows[more]] = nights[more], delta[more]


def _of(noise: Noise, rows: Integers) -> Noise:
    return Noise(*(field[rows] for field in noise))


def _typical(draws: Floats, noise: Noise) -> Floats:
    """What a night's two draws say together: their mean, or the one nearer to the usual if they disagree."""
    first, again = draws[:, 0], draws[:, 1]
    nearer = np.where(np.abs(first) < np.abs(again), first, again)
    both = np.where(np.abs(first - again) > DISAGREE * noise.sigma, nearer, (first + again) / 2)
    return np.where(np.isnan(again), first, both)


def fit_noise(values: Floats, before: Noise | None = None) -> Noise:
    """The noise of S × n nights (NaN where there is none), by EM; from an earlier fit, where there is one."""
    known = ~np.isnan(values)
    count = known.sum(axis=1)
    if before is not None and (before.nights > STEADY).all() and not np.isnan(before.location).any():
        location, sigma, outliers = before.location, before.sigma, before.outliers
        steps = STEPS_FROM_BEFORE
    else:
        location = _median(values)
        sigma = np.maximum(1.4826 * _median(np.abs(values - location[:, None])), MIN_NOISE)
        outliers = np.full(len(values), PRIOR_OUTLIERS)
        steps = STEPS
    filled = np.where(known, values, location[:, None])
    total = count.astype(float)
    for _ in range(steps):
        weight = np.where(known, _healthy(filled - location[:, None], sigma, outliers), 0.0)
        total = np.maximum(weight.sum(axis=1), 1.5)
        location = np.einsum("ij,ij->i", weight, filled) / total
        square = np.einsum("ij,ij->i", weight, (filled - location[:, None]) ** 2)
        sigma = np.maximum(np.sqrt(square / (total - 1)), MIN_NOISE)
        outliers = (count - total + PRIOR_OUTLIERS * PRIOR_NIGHTS) / (count + PRIOR_NIGHTS)
        outliers = np.clip(outliers, 0.005, 0.25)
    return Noise(location, sigma, outliers, total, _tail((values - location[:, None]) / sigma[:, None]))


def _tail(z: Floats) -> Floats:
    """How much longer than normal the tails are, as what scores lose.

    By the fourth moment of the nights above the location, where there are no outliers: 3 for a normal
    distribution. The two limits and the loss were chosen by simulation with Student's t of 4 degrees of
    freedom.
    """
    square = np.where(z > 0, np.minimum(z, TAIL_CLIP), 0.0) ** 2
    nights = np.maximum((z > 0).sum(axis=1), 1)
    kurtosis = np.einsum("ij,ij->i", square, square) / nights
    loss: Floats = TAIL_LOSS * np.clip((kurtosis - TAIL_FROM) / (TAIL_TO - TAIL_FROM), 0.0, 1.0)
    return loss


class Evidence(NamedTuple):
    """By series: the shift δ that explains its draws best, and the score of δ against 0."""

    delta: Floats
    score: Floats


def evidence(residuals: Floats, noise: Noise, steps: int = 4) -> Evidence:
    """The evidence of S × m draws less their location (NaN where there is none, but one at least)."""
    known = ~np.isnan(residuals)
    filled = np.where(known, residuals, 0.0)
    delta = _median(residuals)
    total = np.ones(len(residuals))
    for _ in range(steps):
        weight = np.where(known, _healthy(filled - delta[:, None], noise.sigma, noise.outliers), 0.0)
        total = weight.sum(axis=1)
        moment = np.einsum("ij,ij->i", weight, filled)
        delta = np.where(total > 0.5, moment / np.maximum(total, 0.5), delta)
    shifted = _density(filled - delta[:, None], noise.sigma, noise.outliers)
    usual = _density(filled, noise.sigma, noise.outliers)
    ratio = np.where(known, np.log(shifted / usual), 0.0).sum(axis=1)
    error = noise.sigma * np.sqrt(1 / np.maximum(total, 0.5) + 1 / np.maximum(noise.nights, 1.0))
    student = normal_score(np.abs(delta) / error, noise.nights - 1)
    score = np.minimum(student, np.sqrt(np.maximum(2 * ratio, 0.0)))
    return Evidence(delta, np.maximum(score - noise.tail, 0.0))


def _median(values: Floats) -> Floats:
    """The median of each row without its NaNs, of which sorting makes the last."""
    ordered = np.sort(values, axis=1)
    count = (~np.isnan(values)).sum(axis=1)
    row = np.arange(len(values))
    middle: Floats = (ordered[row, (count - 1) // 2] + ordered[row, count // 2]) / 2
    return middle


def _parts(residuals: Floats, sigma: Floats, outliers: Floats) -> tuple[Floats, Floats]:
    """The normal and the outliers' part of f(r)."""
    wide = residuals * residuals
    wide *= (-0.5 / (OUTLIERS_FROM * sigma) ** 2)[:, None]
    np.exp(wide, out=wide)
    normal = wide.copy()
    for _ in range(_SQUARINGS):
        normal *= normal
    normal *= ((1 - outliers) / (_SQRT_2PI * sigma))[:, None]
    below = (outliers / OUTLIER_WIDTH)[:, None]
    outlier = np.subtract(1.0, wide, out=wide)
    outlier *= np.where(residuals < 0, below, OUTLIERS_ABOVE * below)
    return normal, outlier


def _density(residuals: Floats, sigma: Floats, outliers: Floats) -> Floats:
    """f(r)."""
    normal, outlier = _parts(residuals, sigma, outliers)
    return normal + outlier


def _healthy(residuals: Floats, sigma: Floats, outliers: Floats) -> Floats:
    """The probability that a draw is none of the outliers."""
    normal, outlier = _parts(residuals, sigma, outliers)
    return normal / (normal + outlier)
