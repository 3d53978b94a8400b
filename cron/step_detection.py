"""Step detection: is a series worse than it used to be, tonight and in two nights of the last three?

Values are logarithms, turned so that worse is smaller. A night that was measured again counts with the mean
of its two draws, or with the better one if they contradict each other. No night counts for more than a few σ
below what the nights before it let expect, unless all of the last three are as low, or it was measured again
and another one is.

Nothing is assumed about the noise; it is learned from the quiet nights of the past year. Their
autocorrelation ρ (shrunk by as much as chance makes it differ from none; Schäfer and Strimmer, Stat. Appl.
Genet. Mol. Biol. 4, 2005) gives the weights of the least-squares estimate of a step in the last three nights
(the matched filter; Kay, Fundamentals of Statistical Signal Processing II, 1998, section 4.4):

    δ = wᵀr,     w = R⁻¹s / sᵀR⁻¹s,     R = (ρ of i - j),     s = 1 for the last three nights, 0 before

δ is judged by the spread of the δ of all quiet nights, each made with what was known then: waves, levels and
drifts are in it by themselves. The score is Student's t of δ over that spread, as a standard normal.
Nights that are part of an alarm are not quiet: neither a fault nor a repair becomes normal by waiting.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npc.statistics.distributions import normal_score
from npc.statistics.mixture import MIN_NOISE

if TYPE_CHECKING:
    from npc.statistics.arrays import Booleans, Floats, Integers

#: Quiet nights that are remembered, and how many there must be before anything is judged.
WINDOW: Final = 365
MIN_NIGHTS: Final = 8
#: Nights that the evidence comes from, and how many of them must be low, tonight among them.
EVIDENCE: Final = 3
LOW_NIGHTS: Final = 2
#: Nights that a step is estimated from: the evidence and two weeks before it, for what repeats weekly.
LAGS: Final = EVIDENCE + 14
#: This share of quiet nights is measured again: those that are lower than all others.
AGAIN: Final = 0.05
#: A night counts as at most so many σ: where normal noise ends; or as much as the last three all do.
#: It counts as more if it was measured again, for then it is no outlier; and as much as another one of them.
CAP: Final = 3.0
CAP_AGAIN: Final = 3.5
#: Of two draws of a night that are further apart (σ) the better one counts, of others their mean.
CONTRADICTION: Final = 2.0
#: Logarithms that are no further apart are of one value.
NO_STEP: Final = 1e-9
#: Nobody is called for less: log(1.02).
MIN_EFFECT: Final = math.log(1.02)
#: The noise is learned anew when its nights have grown by a twentieth.
RELEARN: Final = 20


class LearnedNoise(NamedTuple):
    """What is known of the noise of S series, in log units.

    location: median of the quiet nights. sigma: standard deviation of a night. weights: S × `LAGS`, tonight
    first. usual: mean of the estimated steps. worse, better: their spread to either side. dof: how many
    independent estimates the spread is worth.
    """

    location: Floats
    sigma: Floats
    weights: Floats
    usual: Floats
    worse: Floats
    better: Floats
    dof: Floats


class Judged(NamedTuple):
    """One night by series.

    noise: of the quiet nights before. known: how many. score: of the evidence that it is worse, as a
    standard normal; 0 if it is not low in two of three nights. better: likewise that it is better.
    tonight: of tonight alone that it is worse. effect: log units, the mean of the low (high) nights. value:
    what the night counts with, log units, NaN where nothing was measured.
    """

    noise: LearnedNoise
    known: Integers
    score: Floats
    better: Floats
    tonight: Floats
    effect: Floats
    value: Floats


class StepDetection:
    """Step detection in S series at once; feed it the nights one by one, the oldest first."""

    def __init__(self, series: int, threshold: float) -> None:
        """threshold: from which score on a series is not quiet."""
        self._threshold = threshold
        # values, first draws and steps; of the quiet nights, then of the evidence
        self._nights = np.full((3, series, WINDOW + EVIDENCE), np.nan)
        # by night of the evidence: whether it is part of an alarm, and whether it was measured again
        self._odd, self._again = np.zeros((2, series, EVIDENCE), dtype=bool)
        self._known, self._due = np.zeros(series, dtype=np.intp), np.full(series, MIN_NIGHTS)
        self._limit = np.full(series, np.nan)
        one, many = np.full(series, np.nan), np.full((series, LAGS), np.nan)
        self._noise = LearnedNoise(one, one.copy(), many, *(one.copy() for _ in range(4)))

    def restart(self, which: Booleans) -> None:
        """Forget everything about some series: somebody accepted that a new time has begun for them."""
        self._nights[:, which] = np.nan
        self._noise.location[which] = self._limit[which] = np.nan
        self._odd[which] = False
        self._known[which], self._due[which] = 0, MIN_NIGHTS

    def limits(self) -> Floats:
        """The value, in log units, below which tonight is to be measured again; NaN without a past."""
        limits: Floats = self._limit.copy()
        return limits

    def night(self, first: Floats, again: Floats) -> Judged:
        """Judge a night by its draws (S values each, NaN where there is none), and remember it."""
        measured = ~np.isnan(first)
        self._remember(measured, first, again)
        judged = self._judge(np.flatnonzero(measured & ~np.isnan(self._noise.location)))
        self._odd[(judged.score >= self._threshold) | (judged.better >= self._threshold)] = True
        return judged

    def _remember(self, measured: Booleans, first: Floats, again: Floats) -> None:
        """Append tonight; the night that leaves the evidence becomes one of the past, if it was quiet."""
        quiet, odd = measured & ~self._odd[:, 0], measured & self._odd[:, 0]
        self._known += quiet & ~np.isnan(self._nights[0, :, -EVIDENCE])
        self._nights[:, quiet, :-1] = self._nights[:, quiet, 1:]
        self._nights[:, odd, -EVIDENCE:-1] = self._nights[:, odd, 1 - EVIDENCE :]
        both = (first + again) / 2
        agree = np.abs(first - again) < CONTRADICTION * self._noise.sigma
        value = np.where(agree, both, np.fmax(first, again))
        self._nights[:, measured, -1] = np.array((value, first, np.full(len(value), np.nan)))[:, measured]
        for of_night, new in ((self._odd, np.zeros_like(measured)), (self._again, ~np.isnan(again))):
            of_night[measured] = np.column_stack([of_night[:, 1:], new])[measured]
        due = self._known >= self._due
        for known in np.unique(np.minimum(self._known[due], WINDOW)).tolist():
            self._learn(np.flatnonzero(due & (np.minimum(self._known, WINDOW) == known)), known)

    def _learn(self, rows: Integers, known: int) -> None:
        """Learn the noise of series with as many quiet nights."""
        values, firsts, steps = self._nights[:, rows, -EVIDENCE - known : -EVIDENCE]
        self._limit[rows] = np.quantile(firsts, AGAIN, axis=1)
        self._due[rows] = self._known[rows] + max(known // RELEARN, 1)
        location, sigma, weights, found = filters(values)
        new = np.isnan(steps).all(axis=1)
        steps[new, -found.shape[1] :] = found[new]
        self._nights[2, rows, -EVIDENCE - known : -EVIDENCE] = steps
        news = location, sigma, weights, *spreads(steps)
        for field, new_values in zip(self._noise, news, strict=True):
            field[rows] = new_values

    def _judge(self, rows: Integers) -> Judged:
        score, better, tonight, effect = (np.zeros(len(self._known)) for _ in range(4))
        noise = LearnedNoise(*(field[rows] for field in self._noise))
        from_usual = np.nan_to_num(self._nights[0, rows, : -LAGS - 1 : -1] - noise.location[:, None])
        limit, weights = CAP * noise.sigma[:, None], noise.weights
        older = from_usual[:, EVIDENCE:].clip(-limit, limit)
        expected = noise.usual - (weights[:, EVIDENCE:] * older).sum(axis=1)
        recent = from_usual[:, :EVIDENCE] - expected[:, None]
        # what all three are worse (better) than
        least, most = recent.max(axis=1)[:, None], recent.min(axis=1)[:, None]
        alike = recent.clip(np.minimum(-limit, least), np.maximum(limit, most))
        counted = np.where(self._again[rows, ::-1], recent, alike)
        second, limit = np.median(counted, axis=1)[:, None], CAP_AGAIN * noise.sigma[:, None]
        held = counted.clip(np.minimum(-limit, second), np.maximum(limit, second))
        nights = counted.clip(-limit, limit), held, recent
        capped, step, whole = ((weights[:, :EVIDENCE] * each).sum(axis=1) for each in nights)
        # what is remembered is capped: no fault is to make the noise seem wild
        self._nights[2, rows, -1] = noise.usual + capped
        effect[rows] = from_usual[:, 0]
        tonight[rows] = normal_score(-from_usual[:, 0] / noise.sigma, noise.dof)
        for sense, spread, scores in ((-1, noise.worse, score), (1, noise.better, better)):
            low = sense * recent > np.maximum(sense * whole, 0.0)[:, None] / 2
            size = (recent * low).sum(axis=1) / np.maximum(low.sum(axis=1), 1)
            found = (low.sum(axis=1) >= LOW_NIGHTS) & low[:, 0] & (sense * size >= MIN_EFFECT)
            scores[rows] = np.where(found, normal_score(sense * step / spread, noise.dof), 0.0).clip(0.0)
            effect[rows[found]] = size[found]
        every = LearnedNoise(*(field.copy() for field in self._noise))
        known, values = np.minimum(self._known, WINDOW), self._nights[0, :, -1].copy()
        return Judged(every, known, score, better, tonight.clip(0.0), effect, values)


def first_low(from_usual: Floats, effect: float) -> int:
    """The night that tonight's low nights begin with, of T deviations from the usual (NaN: not measured).

    Low is a night by half the effect at least; of the evidence one night need not be.
    """
    measured = np.flatnonzero(~np.isnan(from_usual))[::-1]
    low = from_usual[measured] / effect > 0.5 if effect else np.zeros(len(measured), dtype=bool)
    low[1 : 1 + (EVIDENCE - LOW_NIGHTS)] |= low[EVIDENCE - 1 : EVIDENCE].any()
    healthy = np.flatnonzero(~low[1:])
    return int(measured[healthy[0] if len(healthy) else -1])


def filters(values: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Location, σ and weights from S × n quiet nights, the oldest first, and the steps these find there."""
    series, nights = values.shape
    location = np.median(values, axis=1)
    from_usual = values - location[:, None]
    apart = np.diff(np.sort(values, axis=1), axis=1)
    # a tool that rounds: noise is at least its rounding, though most nights may be equal
    rounding = np.where(apart > NO_STEP, apart, np.inf).min(axis=1) / math.sqrt(12)
    floor = np.where(np.isfinite(rounding), np.maximum(rounding, MIN_NOISE), MIN_NOISE)
    sigma = np.maximum(1.4826 * np.median(np.abs(from_usual), axis=1), floor)
    capped = from_usual.clip(-CAP * sigma[:, None], CAP * sigma[:, None])
    lags = min(LAGS, nights // 2)
    correlation = shrunk(autocorrelation(capped, lags), nights)
    step = (np.arange(lags) < EVIDENCE).astype(float)
    matrix = correlation[:, np.abs(np.subtract.outer(np.arange(lags), np.arange(lags)))]
    weights = np.linalg.solve(matrix + 1e-6 * np.eye(lags), np.tile(step[:, None], (series, 1, 1)))[..., 0]
    weights /= (weights @ step)[:, None]
    windows = np.lib.stride_tricks.sliding_window_view(capped, lags, axis=1)[..., ::-1]
    steps = np.einsum("snl,sl->sn", windows, weights)
    return location, np.maximum(sigma, rms(capped)), np.pad(weights, ((0, 0), (0, LAGS - lags))), steps


def spreads(steps: Floats) -> tuple[Floats, ...]:
    """Mean of S × n steps (NaN before the first), their spread to the worse and to the better side, and how
    many independent ones it is worth."""
    there = ~np.isnan(steps)
    known = there.sum(axis=1)
    usual = np.nanmean(steps, axis=1)
    off = np.where(there, steps - usual[:, None], 0.0)
    both = rms(off, there).clip(MIN_NOISE / math.sqrt(EVIDENCE))
    worse, better = (np.maximum(both, rms(off, sense * off > 0)) for sense in (-1, 1))
    memory = autocorrelation(off, 2 * LAGS)[:, 1:].clip(0.0)
    dof = known / (1 + 2 * (memory**2).sum(axis=1))
    return usual, worse, better, dof


def shrunk(correlation: Floats, nights: int) -> Floats:
    """S × lags autocorrelations, nearer to none by the share of their squares that chance alone makes."""
    chance = (correlation.shape[1] - 1) / nights / np.maximum((correlation[:, 1:] ** 2).sum(axis=1), 1e-12)
    return np.hstack([correlation[:, :1], correlation[:, 1:] * np.maximum(1 - chance, 0.0)[:, None]])


def rms(values: Floats, of: Booleans | None = None) -> Floats:
    """Root of the mean square of each row, or of some of its values."""
    of = np.ones(values.shape, dtype=bool) if of is None else of
    found: Floats = np.sqrt((values**2 * of).sum(axis=1) / np.maximum(of.sum(axis=1), 1))
    return found


def autocorrelation(values: Floats, lags: int) -> Floats:
    """S × `lags` autocorrelations of S × n values, 1 for lag 0; of values that are all equal, none."""
    off = values - values.mean(axis=1, keepdims=True)
    nights = values.shape[1]
    products = [
        (off[:, lag:] * off[:, : nights - lag]).sum(axis=1) for lag in range(max(min(lags, nights), 1))
    ]
    found: Floats = np.stack(products, axis=1) / np.maximum(products[0], 1e-30)[:, None]
    found[:, 0] = 1.0
    return found
