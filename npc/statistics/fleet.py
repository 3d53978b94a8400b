"""Nodes of one fleet, night by night: which became worse than it was, and which is unlike the others.

Identical nodes differ for good, by ten times what a measurement repeats to. So the level of a member of the
fleet (a node, or one device of it) is a random effect: before anything is known of it, it is normal about the
fleet's centre with the standard deviation τ, by which the members of this fleet differ; its own past readings
sharpen it (best linear unbiased prediction; Robinson, Statistical Science 6, 1991). A step is what its last
readings are below that level, divided by the error of both. A reading is a logarithm, less is worse.

The noise may have any tail. If all members are well, any of their readings might be anybody's (they are
exchangeable), so the chance that of a member's last m readings so many are so low is that of drawing them
from the readings of all members in all nights. A step counts where this chance, too, is small.

Readings are given night by night, and nothing is ever computed twice: a year of a thousand nodes is linear
in nights. All arrays have a row a case (what is measured) and a column a member.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from npc.statistics.arrays import Booleans, Floats, Integers
from npc.statistics.distributions import normal_quantile, normal_score
from npc.statistics.spread import KnownSpread, centres_and_deviations, medians

#: How many last readings are compared with those before.
LENGTHS: Final = (2, 3, 5, 8, 14)
#: So often, in a night, healthy fleets may have anybody called worse, as the sum of all tests.
FALSE_NIGHT: Final = 0.003
#: The least step, in log units; a step below `LARGE` must also lead below what is usual in the fleet.
LEAST: Final = 0.02
LARGE: Final = 0.04
#: τ as it was measured of other fleets: GEMM on the GPUs of Frontier and Perlmutter, 1.7 and 1.1 %.
USUAL_SPREAD: Final = KnownSpread(0.015, 4)
#: A night's common part is known from so many members at least.
MIN_NIGHT: Final = 3
#: The least σ: no benchmark repeats better. And what it is taken for before any reading was repeated.
MIN_NOISE: Final = 0.0005
UNKNOWN_NOISE: Final = 0.01
#: Whose newest reading is nearer to its level has not just become worse.
NEAR: Final = LEAST / 4
#: Readings by which those that are worse are followed.
FOLLOWED: Final = 5
#: The score that a member's own past alone must give a step.
OWN_SCORE: Final = 3.0
#: Where all cases together are worse, the score from which on one of them is.
AMONG_OTHERS: Final = 2.0
#: Readings further off count as if they were so many σ off.
CAP: Final = 3.5
#: Readings after which a member's level is known well enough to be unlike the fleet's, and to fall from.
KNOWN: Final = 3
LEAST_KNOWN: Final = 2
#: Chance that a healthy fleet has anybody called unlike it.
FALSE_UNLIKE: Final = 0.01
#: Exponential memory of the noise, in readings of every member.
MEMORY: Final = 60.0
#: A reading further off is not counted among the healthy ones before so many more have shown that it was one.
#: Where more members than these, and than this share of all, have one that waits, it is the noise: all count.
WAITING: Final = 5
MOST_WAITING: Final = 3
MOST_WAITING_SHARE: Final = 0.15
#: So many normal readings are believed before any: they say how rare is what nobody has seen yet.
PRIOR_READINGS: Final = 100
_BIN: Final = 0.1
_BINS: Final = 400


class FleetNight(NamedTuple):
    """What is known after a night; all arrays are cases × members, in log units."""

    #: Whether it is worse than it was, tonight or since it was last measured.
    worse: Booleans
    #: By how much it is below its own level, where it is worse.
    step: Floats
    #: Standard error of the step.
    error: Floats
    #: Standard normal score of the step.
    score: Floats
    #: The night from which on it is worse; -1 where it is not.
    since: Integers
    #: How far its level is above the fleet's centre; NaN before it was measured.
    level: Floats
    #: Number of the readings that its level rests on.
    known: Integers
    #: Whether its level is further down than the fleet's spread explains.
    unlike: Booleans
    #: τ, by case.
    spread: Floats
    #: σ of a reading, by case.
    sigma: Floats
    #: The middle of the members' levels, by case.
    centre: Floats
    #: What the night was for all, by case.
    common: Floats


class LowTail:
    """How often readings of a case are how far below what was expected, whoever's they are: by case."""

    def __init__(self, cases: int) -> None:
        self._counts: Integers = np.zeros((cases, _BINS + 1), dtype=np.intp)
        #: The sums of counts at or above the lower end of each bin; None after some were added.
        self._beyond: Integers | None = None

    def add(self, low: Floats, chosen: Booleans) -> None:
        """low: by case and reading how far it is below, in σ. chosen: which of them."""
        case, *_ = places = np.nonzero(chosen)
        bins = np.clip(low[places] / _BIN, 0, _BINS).astype(np.intp)
        flat = np.bincount(case * (_BINS + 1) + bins, minlength=self._counts.size)
        self._counts += flat.reshape(self._counts.shape)
        self._beyond = None

    def share(self, case: Integers, low: Floats, own: Integers) -> Floats:
        """The share of other readings of a case that are as low. own: how many too many were counted."""
        if self._beyond is None:
            self._beyond = self._counts[:, ::-1].cumsum(axis=1)[:, ::-1]
        beyond = self._beyond
        bins = np.clip(low / _BIN, 0, _BINS).astype(np.intp)
        as_low = np.maximum(beyond[case, bins] - own, 0)
        # What nobody has seen yet is as rare as all cases together say.
        unseen = 0.5 / (beyond[:, 0].sum() + PRIOR_READINGS)
        share: Floats = np.maximum(as_low / (beyond[case, 0] + PRIOR_READINGS) + unseen, _normal_tail(low))
        return share


class _Fleet(NamedTuple):
    """What is known of all members together; all arrays are by case."""

    #: σ of a reading, in log units.
    sigma: Floats
    #: Correlation of readings of a member that follow each other.
    phi: Floats
    #: τ, in log units.
    spread: Floats
    #: The middle of the members' levels, in log units.
    centre: Floats
    #: Degrees of freedom of σ.
    freedom: Floats

    def of(self, case: Integers) -> _Fleet:
        """The same by other things, each of a case."""
        return _Fleet(*(of_case[case] for of_case in self))

    @property
    def wide(self) -> _Fleet:
        """The same as columns, to go with arrays of cases × members."""
        return _Fleet(*(of_case[:, None] for of_case in self))


class _LastReadings(NamedTuple):
    """Some last readings of members beside what those before let expect; all arrays are by case and member
    chosen."""

    #: Number of the case.
    case: Integers
    #: Number of the member.
    member: Integers
    #: The readings, the newest first (first axis), in log units.
    readings: Floats
    #: How many readings are before them.
    past: Floats
    #: The sum of those, in log units.
    total: Floats
    #: The level that they let expect, in log units.
    level: Floats
    #: How uncertain that is: its variance, in log units squared.
    variance: Floats
    #: How far each of the last readings is off what was expected, in log units.
    off: Floats

    def take(self, rows: Integers | Booleans) -> _LastReadings:
        """Some of them."""
        return _LastReadings._make(of_chosen[..., rows] for of_chosen in self)

    def where_most(self, far: Booleans) -> _LastReadings:
        """Those of whose last readings half or more are far off. far: by reading."""
        return self.take(2 * np.count_nonzero(far, axis=0) >= len(far))


class _Test(NamedTuple):
    """What such readings say; all arrays are by case and member chosen."""

    #: By how much the last ones are lower, in log units.
    step: Floats
    #: Its standard error, in log units.
    error: Floats
    #: Its standard normal score.
    score: Floats
    #: Below what a reading is low, in log units.
    floor: Floats
    #: Whether they are lower in every way but for chance.
    low: Booleans


class FleetWatch:
    """The members of a fleet, night by night."""

    def __init__(self, cases: int, members: int) -> None:
        shape, last = (cases, members), LENGTHS[-1] + 1
        #: Sum and number of the readings that make a member's past.
        self._sum, self._count = np.zeros((2, *shape))
        #: The last readings, the newest first (first axis); their nights; what of them went into the sum.
        self._recent = np.full((last, *shape), np.nan)
        self._nights = np.full((last, *shape), -1, dtype=np.intp)
        self._counted = np.zeros((last, *shape))
        #: The night from which on a member is worse; -1 where it is not.
        self._since = np.full(shape, -1, dtype=np.intp)
        self._step, self._error, self._score = np.zeros((3, *shape))
        #: Of the innovations by case: sums of squares, of products with the one before, and of weights.
        self._squares, self._products, self._weight = np.zeros((3, cases))
        self._before = np.full(shape, np.nan)
        #: The same of what nights are for all.
        self._night_squares, self._night_weight = np.zeros((2, cases))
        #: How far each of the last readings was below what was expected, in σ; by case, and of all together.
        self._low = np.full((last, cases + 1, members), np.nan)
        self._tail = LowTail(cases + 1)
        #: What is known after the last night; None where it has to be found anew.
        self._known: _Fleet | None = None
        #: The levels of all members and their variances, after the last night; None likewise.
        self._levels: tuple[Floats, Floats] | None = None

    def begin_anew(self, chosen: Booleans) -> None:
        """Forget the past of some cases and members, for somebody accepted their state.

        chosen: cases × members.
        """
        self._sum[chosen] = self._count[chosen] = 0
        self._since[chosen], self._before[chosen] = -1, np.nan
        self._forget_recent(chosen)
        self._known = self._levels = None

    def _forget_recent(self, chosen: Booleans) -> None:
        self._recent[:, chosen], self._nights[:, chosen], self._counted[:, chosen] = np.nan, -1, 0
        self._low[:, :-1][:, chosen] = np.nan

    def night(self, number: int, readings: Floats) -> FleetNight:
        """Judge a night. readings: cases × members, NaN for none."""
        here = ~np.isnan(readings)
        fleet = self._known or self._fleet()
        level, variance = self._levels or _levels(fleet.wide, self._sum, self._count)
        quiet = here & (self._since < 0)
        wide = variance + (fleet.sigma**2)[:, None]
        common = self._common(np.where(quiet, readings - level, np.nan), np.where(quiet, wide, np.nan))
        readings = readings - common[:, None]
        innovation = readings - level
        self._learn_noise(innovation, quiet, fleet.sigma)
        self._push(number, readings, here, level, CAP * np.sqrt(wide))
        self._push_low(innovation / fleet.sigma[:, None], quiet)
        self._known = fleet = self._fleet()
        self._follow(here, fleet)
        self._judge(quiet, innovation, fleet)
        return self._night(common, fleet)

    def _night(self, common: Floats, fleet: _Fleet) -> FleetNight:
        self._levels = _levels(fleet.wide, self._sum, self._count)
        level = self._levels[0] - fleet.centre[:, None]
        far = normal_quantile(FALSE_UNLIKE / max(int((self._count > 0).any(axis=0).sum()), 1))
        unlike = (level < -np.maximum(far * fleet.spread, LEAST)[:, None]) & (self._count >= KNOWN)
        return FleetNight(
            worse=self._since >= 0,
            step=self._step.copy(),
            error=self._error.copy(),
            score=self._score.copy(),
            since=self._since.copy(),
            level=np.where(self._count > 0, level, np.nan),
            known=self._count.astype(np.intp),
            unlike=unlike & (self._since < 0),
            spread=fleet.spread,
            sigma=fleet.sigma,
            centre=fleet.centre,
            common=common,
        )

    def _fleet(self) -> _Fleet:
        """What is known of all members together, by case; τ is less the noise of their means."""
        sigma = self._sigma()
        known = self._count > 0
        number = known.sum(axis=1)
        # A correlation about means of n readings is too small by (1 + 3φ)/n (Kendall, Biometrika 41, 1954).
        phi = self._products / np.maximum(self._squares, 1e-12)
        there = (self._weight >= 30) & (phi > 2 / np.sqrt(np.maximum(self._weight, 1)))
        phi = np.clip(phi + (1 + 3 * phi) * number / np.maximum(self._count.sum(axis=1), 1), 0.0, 0.95)
        phi = np.where(there, phi, 0.0)
        mean = np.where(known, self._sum / np.maximum(self._count, 1), np.nan)
        mean[number == 0] = 0.0
        centre, wide = centres_and_deviations(mean)
        noise = known * sigma[:, None] ** 2 / np.maximum(_worth(self._count, phi[:, None]), 1e-9)
        square = np.maximum(wide**2 - noise.sum(axis=1) / np.maximum(number, 1), 0.0)
        spread = USUAL_SPREAD.with_members(square, number)
        return _Fleet(sigma, phi, spread, centre, self._weight * (1 - phi) / (1 + phi))

    def _sigma(self) -> Floats:
        """σ of a reading by case, in log units."""
        sigma = np.maximum(np.sqrt(self._squares / np.maximum(self._weight, 1e-9)), MIN_NOISE)
        return np.where(self._weight > 0, sigma, UNKNOWN_NOISE)

    def _common(self, off: Floats, variance: Floats) -> Floats:
        """By case what the night is for all, by the middle of the members: a random effect as well.

        off, variance: of each quiet reading what it is off its level, and how uncertain that is.
        """
        number = (~np.isnan(off)).sum(axis=1)
        enough = number >= MIN_NIGHT
        middle = np.where(enough, medians(off), 0.0)
        # The variance of a median.
        by_noise = 1.57 * np.nansum(variance, axis=1) / np.maximum(number, 1) ** 2
        # What is far beyond a median's noise is this night's own, whatever the nights before were.
        clear = np.abs(middle) > 5 * np.sqrt(by_noise)
        self._night_squares += np.where(enough & ~clear, middle**2 - by_noise, 0.0)
        self._night_weight += enough
        varies = np.maximum(self._night_squares / np.maximum(self._night_weight, 1), 0.0)
        share = np.where(clear, 1.0, varies / np.maximum(varies + by_noise, 1e-12))
        return np.where(enough, share * middle, 0.0)

    def _learn_noise(self, innovation: Floats, chosen: Booleans, sigma: Floats) -> None:
        """σ and the memory of the noise by innovations, which the level's error makes wider than readings."""
        known = chosen & (self._count > 0)
        scaled = np.where(known, innovation / np.sqrt(1 + 1 / np.maximum(self._count, 1)), np.nan)
        number = known.sum(axis=1)
        if (new := self._weight <= 0).any():
            start = 1.4826 * np.nan_to_num(medians(np.abs(scaled)))
            sigma = np.where(new, np.maximum(start, MIN_NOISE), sigma)
        limit = CAP * sigma[:, None]
        scaled = np.clip(scaled, -limit, limit)
        fade = 1 - number / (MEMORY * np.maximum((self._count > 0).sum(axis=1), 1))
        self._squares = fade * self._squares + np.nansum(scaled**2, axis=1)
        self._products = fade * self._products + np.nansum(scaled * self._before, axis=1)
        self._weight = fade * self._weight + number
        self._before = np.where(known, scaled, self._before)

    def _push(self, number: int, readings: Floats, here: Booleans, level: Floats, cap: Floats) -> None:
        """Tonight's readings become the newest ones, and those of quiet members part of their past."""
        # The first readings are what they are: a member may be far off the others. One that is off the other
        # two does not stay.
        first = here & (self._since < 0) & (self._count == KNOWN)
        if first.any():
            three = self._recent[:KNOWN, first]
            middle, case = np.median(three, axis=0), np.nonzero(first)[0]
            near = CAP * self._sigma()[case]
            self._counted[:KNOWN, first] = three = np.clip(three, middle - near, middle + near)
            self._sum[first] = three.sum(axis=0)
            level = level.copy()  # with which the next reading is held, which the one far off has moved
            level[first] = middle
        near = np.where(self._count < KNOWN, readings, np.clip(readings, level - cap, level + cap))
        counted = np.where(here & (self._since < 0), near, 0.0)
        _shift(self._recent, readings, here)
        _shift(self._nights, np.full(here.shape, number), here)
        _shift(self._counted, counted, here)
        self._sum += counted
        self._count += here & (self._since < 0)

    def _push_low(self, innovation: Floats, quiet: Booleans) -> None:
        """Tonight's innovations (in σ), of all cases together in the last row; the healthy ones are counted.

        One that is far off is counted when it was no fault's, some readings later.
        """
        number = quiet.sum(axis=0)
        together = np.where(quiet, innovation, 0.0).sum(axis=0) / np.sqrt(np.maximum(number, 1))
        low = np.concatenate([-innovation, -together[None]])
        here = np.concatenate([quiet, (number > 1)[None]])
        _shift(self._low, low, here)
        was = self._low[WAITING]
        self._tail.add(low, here & (low < CAP))
        self._tail.add(was, here & (was >= CAP))

    def _follow(self, here: Booleans, fleet: _Fleet) -> None:
        """Those that were worse before tonight: how they are now, and who has healed."""
        was = here & (self._since >= 0)
        if not was.any():
            return
        level = _levels(fleet.wide, self._sum, self._count)[0]
        own = np.where(self._nights[:, was] >= self._since[was], self._recent[:, was], np.nan)
        good = level - np.maximum(LEAST / 2, self._step / 4)
        self._step[was] = level[was] - np.nanmedian(own[:FOLLOWED], axis=0)
        healed = was & (self._recent[:2] > good).all(axis=0)
        # What passed so soon was noise: it counts among the healthy readings.
        soon = healed.copy()
        soon[was] &= np.isnan(own[-1])
        for low in self._low[: WAITING + 1, :-1]:
            self._tail.add(low, soon & (low >= CAP))
        self._since[healed] = -1
        self._forget_recent(healed)

    def _judge(self, quiet: Booleans, innovation: Floats, fleet: _Fleet) -> None:
        """Who has become worse, by any number of last readings, in one case or in all together; who better.

        innovation: how far the newest reading is off its level. Who is near is not looked at.
        """
        members, cases = (max(int((self._count > 0).any(axis=axis).sum()), 1) for axis in (0, 1))
        chance = FALSE_NIGHT / (members * (cases + (cases > 1)) * len(LENGTHS))
        limit = normal_quantile(chance)
        waiting = self._waiting(members)
        self._rise(_places(quiet & (innovation > NEAR)), fleet, limit)
        chosen = _places(quiet & (innovation < -NEAR))
        best, floors = np.full((2, *quiet.shape), -np.inf)
        lengths = np.zeros(quiet.shape, dtype=np.intp)
        for length in LENGTHS:
            last = self._last_readings(chosen, fleet, length)
            last = last.where_most(last.off < -LEAST)
            if not len(last.case):
                continue
            test = self._test(last, fleet)
            last, test = last.take(test.low), _Test._make(of_last[test.low] for of_last in test)
            case, member = last.case, last.member
            if not len(case):
                continue
            depth = -last.off / fleet.sigma[case]
            named = (self._drawn(case, member, depth, waiting) < chance) & (test.score > limit)
            # In all cases of the member together.
            own = np.unique(member)
            every = self._last_readings(
                _places(quiet & (np.bincount(member, minlength=quiet.shape[1]) > 0)), fleet, length
            )
            score, known = np.zeros((2, quiet.shape[1]))
            np.add.at(score, every.member, self._test(every, fleet).score)
            np.add.at(known, every.member, 1)
            row = np.full(len(own), quiet.shape[0])
            together = self._drawn(row, own, self._low[:length, row, own], waiting) < chance
            together &= (score[own] > limit * np.sqrt(known[own])) & (known[own] > 1)
            named |= np.isin(member, own[together]) & (test.score > AMONG_OTHERS)
            better = named & (test.score > best[case, member])
            at = case[better], member[better]
            best[at], floors[at], lengths[at] = test.score[better], test.floor[better], length
            self._step[at], self._error[at], self._score[at] = test.step[better], test.error[better], best[at]
        worse = _places(lengths > 0)
        if len(worse[0]):
            self._freeze(worse, floors[worse], lengths[worse])

    def _rise(self, chosen: tuple[Integers, Integers], fleet: _Fleet, limit: float) -> None:
        """A better level that lasts is the member's new one: what gets lost of it is missed again."""
        last = self._last_readings(chosen, fleet, LENGTHS[-1])
        last = last.where_most(last.off > LEAST)
        if not len(last.case):
            return
        test = self._test(last, fleet)
        rose = (test.score < -limit) & (test.step < -LEAST)
        case, member = last.case[rose], last.member[rose]
        self._sum[case, member] = self._recent[: LENGTHS[-1], case, member].sum(axis=0)
        self._count[case, member] = LENGTHS[-1]
        self._counted[:, case, member] = self._recent[:, case, member]

    def _waiting(self, members: int) -> Integers:
        """By case and member, how many readings of others are not counted yet but are noise."""
        far = (self._low[:WAITING] >= CAP).sum(axis=0)
        noisy = (far > 0).sum(axis=1, keepdims=True) > max(MOST_WAITING, MOST_WAITING_SHARE * members)
        waiting: Integers = np.where(noisy, far.sum(axis=1, keepdims=True) - far, 0)
        return waiting

    def _last_readings(self, chosen: tuple[Integers, Integers], fleet: _Fleet, length: int) -> _LastReadings:
        """So many last readings of members held against those before, where there are enough of these.

        chosen: cases and members.
        """
        past = self._count[chosen] - length
        enough = (self._nights[length][chosen] >= 0) & (past >= LEAST_KNOWN)
        past, (case, member) = past[enough], (numbers[enough] for numbers in chosen)
        last = self._recent[:length, case, member]
        total = self._sum[case, member] - self._counted[:length, case, member].sum(axis=0)
        few = past <= min(KNOWN, LENGTHS[-1] + 1 - length)
        if few.any():
            first = self._recent[length : length + KNOWN, case[few], member[few]]
            total[few] = past[few] * _lower_middle(first)
        level, variance = _levels(fleet.of(case), total, past)
        # What a member's noise remembers of the reading before them.
        before = self._counted[length, case, member] - level
        off = last - level - before * _remembered(fleet.phi, length)[:, case]
        return _LastReadings(case, member, last, past, total, level, variance, off)

    def _test(self, last: _LastReadings, every: _Fleet) -> _Test:
        """Whether readings are lower than those before."""
        fleet, length = every.of(last.case), len(last.readings)
        share = _share_of_middle(every.phi, length)[last.case]
        middle = _middle(last.off)
        step = -middle
        error = np.sqrt(last.variance + fleet.sigma**2 * share)
        score = _by_freedom(step / error, fleet.freedom)
        floor = last.level - np.maximum(step, LEAST) / 2
        below = last.readings < floor
        low = below[0] & (below.sum(axis=0) >= 2) & (step > LEAST)
        low &= (step > LARGE) | (last.level + middle < fleet.centre - 1.645 * fleet.spread)
        # Who always was low did not fall: its own past alone must say so, too.
        own_step = last.total / last.past - last.level - middle
        own_error = fleet.sigma * np.sqrt(share + 1 / np.maximum(_worth(last.past, fleet.phi), 1e-9))
        low &= own_step > np.maximum(OWN_SCORE * own_error, LEAST)
        return _Test(step, error, score, floor, low)

    def _drawn(self, case: Integers, member: Integers, depth: Floats, waiting: Integers) -> Floats:
        """The chance that so many of a member's last readings, drawn from those of all, are so low: half of
        them, all but one or all, whichever is less likely.

        depth: readings × chosen, how far each is below what was expected (σ). waiting: by case and member,
        how many readings of others are not counted yet.
        """
        length = len(depth)
        lowest_first = np.sort(np.nan_to_num(depth), axis=0)[::-1]
        counted = self._low[WAITING:length, case, member]
        numbers = sorted({max(2, (length + 1) // 2), max(2, length - 1), length})
        chances = []
        for number in numbers:
            low = lowest_first[number - 1]
            own = (counted >= low).sum(axis=0) - waiting[case, member]
            chances.append(len(numbers) * _at_least(number, length, self._tail.share(case, low, own)))
        least: Floats = np.min(chances, axis=0)
        return least

    def _freeze(self, worse: tuple[Integers, Integers], floor: Floats, length: Integers) -> None:
        """The past of those that have become worse ends before the first of the last readings that is low.

        worse: cases and members; all arrays are by these. floor: what is low. length: how many readings are
        looked at.
        """
        case, member = worse
        below = self._recent[: LENGTHS[-1], case, member] < floor
        below &= np.arange(LENGTHS[-1])[:, None] < length
        length = LENGTHS[-1] - below[::-1].argmax(axis=0)
        since = np.arange(LENGTHS[-1] + 1)[:, None] < length
        self._sum[worse] -= np.where(since, self._counted[:, case, member], 0.0).sum(axis=0)
        self._count[worse] -= length
        self._since[worse] = self._nights[length - 1, case, member]


def _places(chosen: Booleans) -> tuple[Integers, Integers]:
    """Numbers of the cases and of the members that are chosen."""
    case, member = np.nonzero(chosen)
    return case, member


def _shift(array: Floats | Integers, newest: Floats | Integers, here: Booleans) -> None:
    """Put tonight's values before those that there are (first axis), of who has some."""
    for place in range(len(array) - 1, 0, -1):
        np.copyto(array[place], array[place - 1], where=here)
    np.copyto(array[0], newest, where=here)


def _levels(fleet: _Fleet, total: Floats, count: Floats) -> tuple[Floats, Floats]:
    """The level of each member as the fleet and its own past let expect it, and its variance."""
    own = _worth(count, fleet.phi) / fleet.sigma**2
    prior = 1 / fleet.spread**2
    off = total / np.maximum(count, 1) - fleet.centre
    return fleet.centre + np.where(count > 0, off, 0.0) * own / (own + prior), 1 / (own + prior)


def _worth(count: Floats, phi: Floats) -> Floats:
    """How many independent readings so many in a row are worth, by an AR(1) of correlation φ."""
    f, n = phi, np.maximum(count, 1.0)
    memory = 2 * f / (1 - f) * (1 - (1 - f**n) / (n * (1 - f)))
    return np.where(count > 0, n / (1 + np.maximum(memory, 0.0)), 0.0)


def _remembered(phi: Floats, length: int) -> Floats:
    """What of a deviation is left in each of the readings after it, by an AR(1) of correlation φ: the newest
    first, readings × cases."""
    remembered: Floats = phi ** np.arange(length, 0, -1)[:, None]
    return remembered


def _share_of_middle(phi: Floats, length: int) -> Floats:
    """By case the variance of the middle of so many readings beside σ², given the reading before them."""
    steps = np.arange(length, 0, -1)
    f = phi[:, None, None]
    covariance = f ** np.abs(np.subtract.outer(steps, steps)) - f ** np.add.outer(steps, steps)
    # The larger of two, and a median, scatter more than a mean does (normal, independent: π/2 of many).
    of_middle = 1.36 if length == 2 else 1.57 * length / (length + 0.57)
    share: Floats = of_middle * covariance.mean(axis=(1, 2))
    return share


def _middle(last: Floats) -> Floats:
    """Of two readings the better one, for one bad night decides nothing; else their median. First axis."""
    middle: Floats = last.max(axis=0) if len(last) == 2 else np.median(last, axis=0)
    return middle


def _lower_middle(first: Floats) -> Floats:
    """Of a member's first readings, first axis, the middle one, or of two the worse: one that was too good is
    no level to fall from."""
    known = (~np.isnan(first)).sum(axis=0)
    place = np.maximum((known - 1) // 2, 0)
    middle: Floats = np.take_along_axis(np.sort(first, axis=0), place[None], axis=0)[0]
    return middle


def _at_least(number: int, draws: int, share: Floats) -> Floats:
    """The chance that so many of the draws, or more, are of a share of all."""
    from scipy.special import bdtrc

    chance: Floats = bdtrc(number - 1, draws, share)
    return chance


def _normal_tail(low: Floats) -> Floats:
    from scipy.special import ndtr

    tail: Floats = ndtr(-low)
    return tail


def _by_freedom(score: Floats, freedom: Floats) -> Floats:
    """Scores by a σ that is known from so many readings, as normal ones; those that matter."""
    score, freedom = np.broadcast_arrays(score, np.maximum(freedom, 1.0))
    high = np.abs(score) > 2
    result = np.array(score)
    result[high] = np.sign(score[high]) * normal_score(np.abs(score[high]), freedom[high])
    return result
