"""Step detection: is a series worse than it used to be, tonight and in two nights of the last three?

Values are logarithms, turned so that worse is smaller. A night that was measured again counts with the mean
of its two draws, or with the better one if they contradict each other.

Nothing is assumed about the noise; it is learned from the quiet nights of the past year. Their
autocorrelation ρ (shrunk by as much as chance makes it differ from none; Schäfer and Strimmer, Stat. Appl.
Genet. Mol. Biol. 4, 2005) says what the two weeks before, x, let expect of the last three nights, y, and how
their errors e go together. The step is the least-squares estimate from these (the matched filter; Kay,
Fundamentals of Statistical Signal Processing II, 1998, section 4.4), R being the matrix of ρ:

    e = y - Rᵧₓ Rₓₓ⁻¹ x,     S = Rᵧᵧ - Rᵧₓ Rₓₓ⁻¹ Rₓᵧ,     δ = 1ᵀS⁻¹e / 1ᵀS⁻¹1

No night counts for more than a few σ, unless another of the three is as low. δ is judged by the root mean
square of the δ of all quiet nights, each made with what was known then: waves, levels and drifts are in it by
themselves. The score is Student's t of δ over that, as a standard normal.

An alarm begins with a score above the threshold and lasts until the mean of a week is the usual again, or
until somebody accepts the new level. Its nights are not quiet: neither a fault nor a repair becomes normal by
waiting, however small its nights' scores are.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from npc.statistics.arrays import Booleans, Floats, Integers
from npc.statistics.distributions import normal_score
from npc.statistics.mixture import MIN_NOISE

#: Quiet nights that are remembered, and how many there must be before anything is judged.
WINDOW: Final = 365
MIN_NIGHTS: Final = 8
#: Nights that the evidence comes from: two of them must be low, tonight among them.
EVIDENCE: Final = 3
#: Nights before these that tell what to expect of them: two weeks, for what repeats weekly.
BEFORE: Final = 14
#: This share of quiet nights is measured again: those that are lower than all others.
AGAIN: Final = 0.05
#: The most (σ) that a night counts as: where normal noise ends, or as much as another one of the three.
CAP: Final = 3.5
#: Of two draws of a night that are further apart (σ) the better one counts, of others their mean.
CONTRADICTION: Final = 2.0
#: Nights whose mean ends an alarm: a week, so that what repeats weekly is in it once.
HEALING: Final = 7
#: Standard errors that the mean of a healed week may be off.
HEALED: Final = 2.0
#: Logarithms that are no further apart are of one value.
NO_STEP: Final = 1e-9
#: Nobody is called for less: log(1.02).
MIN_EFFECT: Final = math.log(1.02)
#: The noise is learned anew when its nights have grown by a twentieth.
RELEARN: Final = 20

#: What is remembered of a night: value, first draw, step, and 1 if it is part of an alarm.
_VALUE, _FIRST, _STEP, _ODD = range(4)


class JudgedNight(NamedTuple):
    """One night; each field is by series."""

    #: Median of the quiet nights before (log units); NaN where they are too few.
    location: Floats
    #: Standard deviation of a night (log units).
    sigma: Floats
    #: How many quiet nights there are.
    known: Integers
    #: Standard normal score of the evidence that it is worse; 0 if it is not low in two of three nights.
    score: Floats
    #: The same of tonight alone.
    tonight: Floats
    #: Of the two low nights the less low one, against `location` (log units).
    effect: Floats
    #: What the last night counts with (log units).
    value: Floats
    #: Mean of the nights of an alarm that lasts, against `location` (log units); 0 for no alarm.
    alarm: Floats


class StepDetection:
    """Step detection in S series at once; feed it the nights one by one, the oldest first.

    limit: the value, in log units, below which tonight is to be measured again; NaN without a past.
    """

    def __init__(self, series: int, threshold: float) -> None:
        """threshold: from which score on a series is not quiet."""
        self._threshold = threshold
        self._nights = np.full((4, series, WINDOW + EVIDENCE), np.nan)  # the quiet ones, then the evidence
        self._grown, self._alarm_nights = np.zeros((2, series), dtype=np.intp)
        self._alarm, self._week = np.zeros(series), np.full((series, HEALING), np.nan)
        self.limit, self._location, self._sigma, self._spread, self._dof = np.full((5, series), np.nan)
        self._expect, self._weights = (
            np.full((series, *n), np.nan) for n in ((BEFORE, EVIDENCE), (EVIDENCE, 1))
        )

    def restart(self, which: Booleans) -> None:
        """Forget everything about some series: somebody accepted that a new time has begun for them."""
        self._nights[:, which] = self._location[which] = self.limit[which] = np.nan
        self._alarm[which] = 0.0

    def night(self, first: Floats, again: Floats) -> JudgedNight:
        """Judge a night by its draws (S values each, NaN where there is none), and remember it."""
        nights, measured = self._nights, ~np.isnan(first)
        known = self._remember(measured, first, again)
        off = nights[_VALUE, :, -BEFORE - EVIDENCE :] - self._location[:, None]
        off[~measured] = np.nan
        steps, last = estimated(off, self._sigma[:, None], self._expect, self._weights)
        step, last = steps[:, 0], last[:, 0]
        nights[_STEP, measured, -1] = step[measured]
        evidence = normal_score(-step / self._spread, self._dof)
        sense = np.sign(step)[:, None]
        low = sense * last >= np.maximum(sense * last.mean(axis=1, keepdims=True) / 2, MIN_EFFECT)
        lasting = (low.sum(axis=1) >= 2) & low[:, -1]
        evident = lasting & (np.abs(evidence) >= self._threshold)
        self._follow_alarms(measured, off, np.where(evident, sense[:, 0], 0.0))
        return JudgedNight(
            self._location, self._sigma, known,
            score=np.where(lasting, evidence, 0.0).clip(0.0),
            tonight=np.nan_to_num(normal_score(-off[:, -1] / self._sigma, self._dof)).clip(0.0),
            effect=np.where(lasting, np.median(last, axis=1), np.nan_to_num(off[:, -1])),
            value=nights[_VALUE, :, -1],
            alarm=self._alarm.copy(),
        )  # fmt: skip

    def _follow_alarms(self, measured: Booleans, off: Floats, evident: Floats) -> None:
        """Begin, go on with and end alarms.

        off: the last nights, against the usual. evident: sense of the step that tonight's score tells; 0 for
        none.
        """
        begins = (evident != 0) & (evident * self._alarm <= 0)
        goes_on = measured & (self._alarm != 0) & ~begins
        middle = evident * np.median(off[:, -EVIDENCE:], axis=1)
        self._alarm[begins] = (evident * middle.clip(MIN_EFFECT))[begins]
        self._alarm_nights[begins], self._week[begins] = EVIDENCE, np.nan
        self._nights[_ODD, begins, WINDOW:] = self._nights[_ODD, goes_on, -1] = 1

        sense, sigma, rows = np.sign(self._alarm[goes_on]), self._sigma[goes_on], np.flatnonzero(goes_on)
        level, tonight = sense * self._alarm[rows], sense * off[rows, -1]  # positive for both senses
        self._alarm_nights[rows] += 1
        self._alarm[rows] += sense * (tonight.clip(0.0) - level) / self._alarm_nights[rows]
        self._week[rows, :-1] = self._week[rows, 1:]
        # A night counts as the alarm's level at most: one outlier does not put off the end by more.
        self._week[rows, -1] = np.clip(tonight, -CAP * sigma, level)
        error = HEALED * sigma / math.sqrt(HEALING)
        as_usual = self._week[rows].mean(axis=1) <= np.maximum(MIN_EFFECT / 2, error)
        self._alarm[rows[as_usual & (evident[rows] == 0)]] = 0.0

    def _remember(self, measured: Booleans, first: Floats, again: Floats) -> Integers:
        """Append tonight; the night that leaves the evidence becomes one of the past, if it was quiet."""
        agree = np.abs(first - again) < CONTRADICTION * self._sigma
        value = np.where(agree, (first + again) / 2, np.fmax(first, again))
        quiet = measured & (self._nights[_ODD, :, WINDOW] != 1)
        for rows, begin in ((quiet, 0), (measured & ~quiet, WINDOW)):
            self._nights[:, rows, begin:-1] = self._nights[:, rows, begin + 1 :]
        self._nights[:, measured, -1] = np.nan
        self._nights[:_STEP, measured, -1] = np.array((value, first))[:, measured]
        self._grown += quiet
        known: Integers = (~np.isnan(self._nights[_VALUE, :, :WINDOW])).sum(axis=1)
        due = (known >= MIN_NIGHTS) & (self._grown * RELEARN >= known)
        for count in np.unique(known[due]).tolist():
            self._learn(np.flatnonzero(due & (known == count)), count)
        return known

    def _learn(self, rows: Integers, known: int) -> None:
        """Learn the noise of series with as many quiet nights."""
        values, firsts, steps, _ = self._nights[:, rows, WINDOW - known : WINDOW]
        location, floor = np.median(values, axis=1, keepdims=True), resolution(values)
        off = values - location
        middle = np.maximum(1.4826 * np.median(np.abs(off), axis=1, keepdims=True), floor)
        capped = off.clip(-CAP * middle, CAP * middle)
        sigma = np.maximum(middle, np.sqrt(np.mean(capped**2, axis=1, keepdims=True)))
        self._expect[rows], self._weights[rows] = filters(capped)
        # of the first nights there was no estimate when they were judged
        padded = np.pad(off, ((0, 0), (BEFORE + EVIDENCE - 1, 0)), constant_values=np.nan)
        made, _ = estimated(padded, sigma, self._expect[rows], self._weights[rows])
        self._nights[_STEP, rows, WINDOW - known : WINDOW] = steps = np.where(np.isnan(steps), made, steps)
        self._spread[rows], self._dof[rows] = spread(steps, floor[:, 0] / math.sqrt(EVIDENCE))
        self._location[rows], self._sigma[rows] = location[:, 0], sigma[:, 0]
        self._grown[rows], self.limit[rows] = 0, np.quantile(firsts, AGAIN, axis=1)


def first_low(from_usual: Floats, effect: float) -> int:
    """The night that tonight's low nights begin with, of T deviations from the usual (NaN: not measured).

    Low is a night by half the effect at least; of the evidence one night need not be.
    """
    measured = np.flatnonzero(~np.isnan(from_usual))[::-1]
    low = from_usual[measured] / effect > 0.5 if effect else np.zeros(len(measured), dtype=bool)
    low[1:2] |= low[2:3].any()
    healthy = np.flatnonzero(~low[1:])
    return int(measured[healthy[0] if len(healthy) else -1])


def resolution(values: Floats) -> Floats:
    """S × 1: the least noise. A tool that rounds has its rounding's, though most nights may be equal."""
    apart = np.diff(np.sort(values, axis=1), axis=1)
    least = apart.min(axis=1, keepdims=True, where=apart > NO_STEP, initial=math.inf) / math.sqrt(12)
    floor: Floats = np.maximum(np.where(least < math.inf, least, 0.0), MIN_NOISE)
    return floor


def filters(off: Floats) -> tuple[Floats, Floats]:
    """Expectation and weights (`estimated`) from S × n deviations, the oldest first."""
    lags = np.arange(BEFORE + EVIDENCE)
    correlation = autocorrelation(off, len(lags))
    chance = (len(lags) - 1) / off.shape[1]
    share = 1 - chance / np.maximum((correlation[:, 1:] ** 2).sum(axis=1), chance)
    correlation[:, 1:] *= share[:, None]  # by so much more than by chance
    matrix = correlation[:, np.abs(np.subtract.outer(lags, lags))] + 1e-6 * np.eye(len(lags))
    expect = np.linalg.inv(matrix[:, :BEFORE, :BEFORE]) @ matrix[:, :BEFORE, BEFORE:]
    errors = matrix[:, BEFORE:, BEFORE:] - matrix[:, BEFORE:, :BEFORE] @ expect
    weights = np.linalg.inv(errors).sum(axis=2, keepdims=True)
    return expect, weights / weights.sum(axis=1, keepdims=True)


def estimated(off: Floats, sigma: Floats, expect: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """S × n steps, and the last nights of each, S × n × `EVIDENCE`, less what was to be expected of them.

    off: S × (n + `BEFORE` + `EVIDENCE` - 1) deviations; where one of the last three is NaN the step is.
    """
    before = np.nan_to_num(off[:, :-EVIDENCE]).clip(-CAP * sigma, CAP * sigma)
    recent = sliding_window_view(off[:, BEFORE:], EVIDENCE, axis=1)
    recent = recent - sliding_window_view(before, BEFORE, axis=1) @ expect
    counted = np.maximum(recent, np.minimum(np.median(recent, axis=2), -CAP * sigma)[..., None])
    return (counted @ weights)[..., 0], recent


def spread(off: Floats, floor: Floats | float) -> tuple[Floats, Floats]:
    """Root mean square of S × n deviations (NaN: none), of those to the worse if that is more, or the floor;
    and how many independent ones it is worth."""
    known, off = (~np.isnan(off)).sum(axis=1), np.nan_to_num(off)
    worse = (off.clip(None, 0.0) ** 2).sum(axis=1) / np.maximum((off < 0).sum(axis=1), 1)
    square = np.maximum((off**2).sum(axis=1) / known, worse)
    memory = autocorrelation(off, 2 * (BEFORE + EVIDENCE))[:, 1:].clip(0.0)
    return np.maximum(np.sqrt(square), floor), known / (1 + 2 * (memory**2).sum(axis=1))


def autocorrelation(off: Floats, lags: int) -> Floats:
    """S × `lags` autocorrelations of S × n deviations, by the power spectrum; 1 for lag 0."""
    off = off - off.mean(axis=1, keepdims=True)
    length = off.shape[1] + lags  # no lag reaches around
    power = np.abs(np.fft.rfft(off, length, axis=1)) ** 2
    products = np.fft.irfft(power, length, axis=1)[:, :lags]
    floats: Floats = products / np.maximum(products[:, :1], 1e-30)
    return floats
