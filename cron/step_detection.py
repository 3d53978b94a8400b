"""Step detection: is a series worse than it used to be, tonight and in two nights of the last three?

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
from npc.statistics.mixture import MIN_NOISE, OUTLIER_WIDTH, Outliers, SeriesNoise, improved, shifts

if TYPE_CHECKING:
    from npc.statistics.arrays import Booleans, Floats, Integers

#: Earlier nights that make the reference, at most, and how many there must be before anything is judged.
WINDOW: Final = 365
MIN_NIGHTS: Final = 8
#: Nights that the evidence comes from.
EVIDENCE: Final = 3
#: A night is measured again if it is lower than usual by more than `HIT` σ; by `HIT_AGAIN` σ after a
#: night that was.
HIT: Final = 0.5
HIT_AGAIN: Final = 0.0
#: Nights that must be low of the last three, tonight among them.
LOW_NIGHTS: Final = 2
#: A night is low if all its draws together are lower by more than this (σ).
LOW: Final = 0.5
#: The low nights of the last three are lower by this at least (σ, added up): less has no score worth knowing.
MUCH: Final = 2.5
#: Two nights alone must score more than three by this: else each night had two chances of a false alarm.
FEWER_NIGHTS: Final = 0.4
#: Nobody is called for less: log(1.02).
MIN_EFFECT: Final = math.log(1.02)

#: Height of the outliers' uniform density above the location, relative to below.
OUTLIERS_ABOVE: Final = 0.005
#: Outliers lie where noise does not reach: within four σ of the location their density falls to 0.
OUTLIERS_FROM: Final = 4.0
#: One outlier in twenty nights, as if that had been seen in twenty nights.
PRIOR_OUTLIERS: Final = 0.05
PRIOR_NIGHTS: Final = 20.0
#: Two draws of one night that differ by more than this (σ) contradict each other.
DISAGREE: Final = 4.0
#: Long tails cost a score something: nights above the location count as at most 5 σ, and a kurtosis from 3
#: to 7 takes away up to half a standard deviation.
TAIL_CLIP: Final = 5.0
TAIL_FROM: Final = 3.0
TAIL_TO: Final = 7.0
TAIL_LOSS: Final = 0.5
#: Steps of EM from nothing, and from an earlier fit to more than thirty nights.
STEPS: Final = 12
STEPS_FROM_BEFORE: Final = 3
STEADY: Final = 30
#: The reference is fitted anew when it has grown by a twentieth.
REFIT: Final = 20


class Judged(NamedTuple):
    """One night by series.

    noise: the reference; its readings are nights. known: how many nights. score: of the evidence that it is
    worse, as a standard normal; 0 if it is not low in two of three nights, or hardly. better: likewise that
    it is better. tonight: of tonight's draws alone that it is worse. effect: δ in log units of the strongest.
    """

    noise: SeriesNoise
    known: Integers
    score: Floats
    better: Floats
    tonight: Floats
    effect: Floats


class StepDetection:
    """Step detection in S series at once; feed it the nights one by one, the oldest first."""

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
        self._tail = np.zeros(series)
        self.noise = SeriesNoise(*(np.full(series, np.nan) for _ in SeriesNoise._fields))

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
            values = self._reference[due, :known]
            fitted = fit_noise(values, self.noise.of(due))
            for field, news in zip(self.noise, fitted, strict=True):
                field[due] = news
            self._tail[due] = tail(values, fitted)
            self._next_fit[due] = self._filled[due] + np.maximum(
                np.minimum(self._filled[due], WINDOW) // REFIT, 1
            )

    def _judge(self, measured: Booleans) -> Judged:
        series = len(measured)
        score, better, effect, tonight = (np.zeros(series) for _ in range(4))
        rows = np.flatnonzero(measured & ~np.isnan(self.noise.location))
        if len(rows):
            noise = self.noise.of(rows)
            residuals = self._draws[rows] - noise.location[:, None, None]
            typical = _typical(residuals[:, -1], noise)
            self._z[rows, -1] = typical / noise.sigma
            effect[rows] = typical
            low = np.flatnonzero(typical < -MIN_EFFECT)
            if len(low):
                found = evidence(residuals[low, -1], noise.of(low), self._tail[rows[low]])
                tonight[rows[low]] = found.score
            for sense, scores in ((-1, score), (1, better)):
                z = sense * self._z[rows]
                odd = z > LOW
                much = np.where(odd, z, 0.0).sum(axis=1) > MUCH
                chosen = np.flatnonzero((odd.sum(axis=1) >= LOW_NIGHTS) & odd[:, -1] & much)
                if len(chosen):
                    self._nights_together(rows[chosen], residuals[chosen], sense, scores, effect)
        noise = SeriesNoise(*(field.copy() for field in self.noise))
        return Judged(noise, np.minimum(self._filled, WINDOW), score, better, tonight, effect)

    def _nights_together(
        self, rows: Integers, residuals: Floats, sense: int, scores: Floats, effect: Floats
    ) -> None:
        """Fill in the scores, and the effects, of those series that are low (or high) in enough nights."""
        three = residuals.reshape(len(rows), -1)
        two = three.copy()
        two[:, : residuals.shape[2]] = np.nan
        for draws, less in ((three, 0.0), (two, FEWER_NIGHTS)):
            found = evidence(draws, self.noise.of(rows), self._tail[rows])
            value = np.where(sense * found.delta >= MIN_EFFECT, found.score, 0.0) - less
            more = value > scores[rows]
            scores[rows[more]], effect[rows[more]] = value[more], found.delta[more]


def _typical(draws: Floats, noise: SeriesNoise) -> Floats:
    """What a night's two draws say together: their mean, or the one nearer to the usual if they disagree."""
    first, again = draws[:, 0], draws[:, 1]
    nearer = np.where(np.abs(first) < np.abs(again), first, again)
    both = np.where(np.abs(first - again) > DISAGREE * noise.sigma, nearer, (first + again) / 2)
    return np.where(np.isnan(again), first, both)


def fit_noise(values: Floats, before: SeriesNoise | None = None) -> SeriesNoise:
    """The noise of S × n nights (NaN where there is none), by EM; from an earlier fit, where there is one."""
    member, night = np.nonzero(~np.isnan(values))
    known = values[member, night]
    if before is not None and (before.readings > STEADY).all() and not np.isnan(before.location).any():
        noise, steps = before, STEPS_FROM_BEFORE
    else:
        location = _median(values)
        sigma = np.maximum(1.4826 * _median(np.abs(values - location[:, None])), MIN_NOISE)
        nights = np.bincount(member, minlength=len(values)).astype(float)
        noise, steps = SeriesNoise(location, sigma, np.full(len(values), SLOWING.prior), nights), STEPS
    for _ in range(steps):
        noise = improved(known, member, noise, SLOWING)
    return noise


def tail(values: Floats, noise: SeriesNoise) -> Floats:
    """How much longer than normal the tails of S × n nights are, as what scores lose.

    By the fourth moment of the nights above the location, where there are no outliers: 3 for a normal
    distribution. The two limits and the loss were chosen by simulation with Student's t of 4 degrees of
    freedom.
    """
    z = (values - noise.location[:, None]) / noise.sigma[:, None]
    square = np.where(z > 0, np.minimum(z, TAIL_CLIP), 0.0) ** 2
    nights = np.maximum((z > 0).sum(axis=1), 1)
    kurtosis = (square**2).sum(axis=1) / nights
    loss: Floats = TAIL_LOSS * np.clip((kurtosis - TAIL_FROM) / (TAIL_TO - TAIL_FROM), 0.0, 1.0)
    return loss


class Evidence(NamedTuple):
    """By series: the shift δ that explains its draws best, and the score of δ against 0."""

    delta: Floats
    score: Floats


def evidence(residuals: Floats, noise: SeriesNoise, tail: Floats, steps: int = 4) -> Evidence:
    """The evidence of S × m draws less their location (NaN where there is none, but one at least)."""
    member, draw = np.nonzero(~np.isnan(residuals))
    found = shifts(residuals[member, draw], member, -_median(residuals), noise, steps, SLOWING)
    error = noise.sigma * np.sqrt(1 / found.readings + 1 / np.maximum(noise.readings, 1.0))
    student = normal_score(np.abs(found.delta) / error, noise.readings - 1)
    score = np.minimum(student, np.sqrt(np.maximum(2 * found.ratio, 0.0)))
    return Evidence(-found.delta, np.maximum(score - tail, 0.0))


def _median(values: Floats) -> Floats:
    """The median of each row without its NaNs."""
    middle: Floats = np.nanmedian(values, axis=1)
    return middle


def _outliers(residuals: Floats, sigma: Floats) -> Floats:
    """w(r)/W."""
    density = -np.expm1(-0.5 * (residuals / (OUTLIERS_FROM * sigma)) ** 2) / OUTLIER_WIDTH
    return np.where(residuals < 0, density, OUTLIERS_ABOVE * density)


#: What disturbs a night slows it.
SLOWING: Final = Outliers(_outliers, PRIOR_OUTLIERS, PRIOR_NIGHTS, 0.005, 0.25)
