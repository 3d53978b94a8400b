"""Rounds of launches: each case once, in shuffled order, until every one is known as well as was asked for.

A case that is known, or has had its share, is left out of the next round. So drift hits all cases alike, and
launches go where numbers are uncertain. `npc records sample` and ``npb`` measure by it.
"""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, NamedTuple

from npc import catalogue
from npc.records.launch import LeastKnownMedian
from npc.records.reading import OK, Reading
from npc.records.series import identity
from npc.records.units import METRICS, format_size
from npc.statistics.medians import MIN_SAMPLES
from npc.statistics.precision import Goal, half_width

#: Hears how many launches there will be in all, and what those of a further round are for.
Expect = Callable[[int, "LeastKnownMedian | None"], None]
#: Case, metric, settings and qualifiers as JSON: what readings of several sizes share.
_Test = tuple[str, str, str]
#: Readings beside a tool's headline number.
_BESIDE: Final = ("statistic", "part", "core")


class _Number(NamedTuple):
    """A number that has to be known as precisely as was asked for."""

    #: Name of the case, with the message size where it has several.
    what: str
    #: A value from each launch that worked, in the SI unit of its metric.
    values: Sequence[float]


@dataclass(slots=True)
class _CaseProgress:
    """What the launches of a case have told."""

    #: How many launches there will be; None: until its numbers are known.
    runs: int | None
    #: How many launches have ended, well or not.
    launches: int = 0
    #: How long these took together, in s.
    seconds: float = 0.0
    #: Test → message size (None if it has none) → a value from each launch that worked, in SI units.
    values: dict[_Test, dict[int | None, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )


class Rounds:
    """The launches of some cases, in rounds; what each has told has to be said before the next is asked for.

    runs: a number a case, None for one that is launched until it is known. benchmark: in whose rows of the
    catalogue it stands which numbers matter. An interval is wanted of those that a ceiling or a model is made
    of (of several message sizes of the one where it is best, else of the largest), of all headline numbers
    where the catalogue names none, or of the launches' times where nothing could be read.
    """

    def __init__(self, runs: Sequence[int | None], goal: Goal, benchmark: str) -> None:
        self._cases = [_CaseProgress(number) for number in runs]
        self._goal = goal
        self._benchmark = benchmark
        self._place = 0
        self.planned = sum(MIN_SAMPLES if number is None else number for number in runs)

    def turns(self, expect: Expect, seed: int | None) -> Iterator[tuple[int, int]]:
        """(place of the case, sample) of every launch, each round shuffled by `seed` or in order; `expect`
        hears of each round beyond those that were planned."""
        lot = random.Random(seed)
        sample = 0
        while going := [place for place, case in enumerate(self._cases) if self._goes_on(case, sample)]:
            if sample >= MIN_SAMPLES:
                self._expect([self._cases[place] for place in going], sample, expect)
            if seed is not None:
                lot.shuffle(going)
            for self._place in going:
                yield self._place, sample
            sample += 1
        if sample > MIN_SAMPLES:
            expect(self.planned, None)

    def tell(self, seconds: float, readings: Sequence[Reading] | None) -> None:
        """How long the launch that was asked for last took, and what was read of it; None: it failed."""
        case = self._cases[self._place]
        case.launches += 1
        case.seconds += seconds
        if readings is None:
            return
        values_of: dict[tuple[_Test, int | None], list[float]] = defaultdict(list)
        for reading in self._that_matter(readings) or [Reading("launch", "time", seconds)]:
            params = json.dumps(identity(reading.params), sort_keys=True)
            values_of[(reading.case, reading.metric, params), reading.size].append(reading.value or 0.0)
        for (test, size), values in values_of.items():
            case.values[test][size].append(median(values))

    def _goes_on(self, case: _CaseProgress, sample: int) -> bool:
        if case.runs is not None:
            return sample < case.runs
        if case.launches >= MIN_SAMPLES and not case.values:  # nothing of it has worked
            return False
        samples = [number.values for number in self._to_know(case)]
        return not self._goal.enough(case.launches, case.seconds, samples)

    def _expect(self, going: Iterable[_CaseProgress], samples: int, expect: Expect) -> None:
        free = [case for case in going if case.runs is None]
        self.planned += len(free)
        numbers = [number for case in free for number in self._to_know(case)]
        widest, what = max(
            ((half_width(candidate.values), candidate.what) for candidate in numbers), default=(math.inf, "")
        )
        awaited = None
        if math.isfinite(widest):
            awaited = LeastKnownMedian(
                what=f"{self._benchmark} {what}", precision=widest, samples=samples, goal=self._goal.precision
            )
        expect(self.planned, awaited)

    def _that_matter(self, readings: Sequence[Reading]) -> list[Reading]:
        headlines = [
            reading
            for reading in readings
            if reading.status == OK
            and reading.value is not None
            and METRICS[reading.metric].better != "neither"
            and not any(name in reading.params for name in _BESIDE)
        ]
        named = [
            headline
            for headline in headlines
            if catalogue.find(self._benchmark, headline.case, headline.metric).quantity
            and headline.params.get("side") != "send"
        ]
        return named or headlines

    def _to_know(self, case: _CaseProgress) -> list[_Number]:
        return [self._number(test, sizes) for test, sizes in case.values.items()]

    def _number(self, test: _Test, sizes: Mapping[int | None, Sequence[float]]) -> _Number:
        case, metric, _ = test
        messages = catalogue.find(self._benchmark, case, metric).layer in catalogue.MESSAGES
        sign = 1 if METRICS[metric].better == "higher" else -1

        def rank(size: int | None) -> float:
            return sign * median(sizes[size]) if messages else size or 0

        size = max(sizes, key=rank)
        of = f" {format_size(size)}" if len(sizes) > 1 and size is not None else ""
        return _Number(f"{case}{of}", sizes[size])
