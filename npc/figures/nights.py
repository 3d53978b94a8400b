"""Series over their nights: medians as steps, the range of their samples, where levels began, and verdicts.

As in figures 6 to 8 of Bartelheimer, Zhu, Neuwirth (2023), with time for the number of the measurement, so
that nights without one are gaps. Who draws says what a night was called; here nothing is judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from npc.catalogue import on_any_nodes
from npc.figures.axes import Axis, quantity_axis
from npc.figures.chart import CYCLE, Chart, Mark, Place, Trace
from npc.records.series import Series
from npc.records.units import METRICS, format_quantity, format_size, plural

#: Verdict → shape and whether it is hollow; those that say that a number is missing stand at the foot.
_VERDICTS: Final = {
    "WATCH": (0, True),
    "CHANGED": (3, True),
    "MISSING": (4, True),
    "INVALID": (6, True),
    "DEGRADED": (1, True),
    "FAIL": (1, False),
}
#: From this number of nights on marks are small.
_CROWDED: Final = 60
#: Series whose values differ by a larger factor stand over a logarithmic axis.
_LINEAR: Final = 10.0
#: An axis shows this share about the usual value at least.
_ABOUT: Final = 0.04
#: What stands at the foot stands so far above it, as a share of the height.
_FOOT: Final = 0.04
#: Nights that follow each other at up to this many times the usual distance have none missing between them.
_NEXT: Final = 1.5
_DAY_S: Final = 86400.0


class NightPoint(NamedTuple):
    """A night of a series."""

    #: Seconds since 1970.
    time: float
    #: Median of its usable samples, in the metric's unit; NaN where there is none.
    median: float
    #: The lowest of these samples, in the metric's unit; NaN where there is none.
    low: float
    #: The highest of these samples, in the metric's unit; NaN where there is none.
    high: float
    #: Median of its second measurement, in the metric's unit; NaN without one.
    again: float = math.nan
    #: What was said of the night: ``DEGRADED``, …; empty where that is PASS or not known.
    verdict: str = ""
    #: Lines of text for who points at its mark.
    tip: str = ""
    #: The id of its row in the page; empty where it has none.
    record: str = ""


class Course(NamedTuple):
    """A series over its nights, the oldest first."""

    #: What the legend calls it; empty until that is decided.
    name: str
    #: What was measured, night by night.
    nights: Sequence[NightPoint]
    #: When another level began (seconds since 1970), and what to call that.
    changes: Sequence[tuple[float, str]] = ()


class Level(NamedTuple):
    """A horizontal line that a series was judged by."""

    #: Where it is, in the metric's unit.
    value: float
    #: What the legend calls it; its value is added there.
    name: str
    #: A key of `npc.figures.chart.COLOURS`.
    colour: str
    #: Lengths of its dashes and gaps in points, in turn.
    dashes: tuple[float, ...]
    #: How to read it, in words.
    reading: str


def panels(keys: Iterable[Series]) -> dict[Series, list[Series]]:
    """Series that are drawn over each other, by what they have in common: one test at all its numbers of
    nodes. Tests stand in the order in which they first appear."""
    tests: dict[Series, list[Series]] = {}
    for key in keys:
        tests.setdefault(on_any_nodes(key), []).append(key)
    for same in tests.values():
        same.sort(key=lambda key: (key.nodes, key.size or 0, key.params))
    return tests


def chart(
    courses: Sequence[Course],
    metric: str,
    x: Axis,
    *,
    y_title: str = "",
    levels: Sequence[Level] = (),
    most: int = 9,
    marked: int = 0,
) -> tuple[Chart, str]:
    """A chart of some series with one metric, without id, title and text, and how to read it.

    most: labels that the y axis has room for; marked: as of `traces`.
    """
    unit = METRICS[metric].unit
    y = value_axis(y_title, courses, unit, [level.value for level in levels], most)
    shown = list(traces(courses, y, marked=marked))
    for level in levels:
        name = f"{level.name}: {format_quantity(level.value, unit)}"
        line = ((x.low, level.value), (x.high, level.value))
        shown.append((Trace(name, level.colour, lines=(line,), dashes=level.dashes), level.reading))
    reading = "; ".join(dict.fromkeys(words for _, words in shown))
    return Chart("", "", "", x, y, tuple(trace for trace, _ in shown)), f"{reading}."


def course_names(keys: Sequence[Series]) -> list[str]:
    """What tells the series of one test apart: ``2 nodes``, ``2 nodes, 8 ranks``, or its size as well."""
    names = [plural(key.nodes, "node") for key in keys]
    if len(set(names)) < len(names):
        params = [key.by_name for key in keys]
        ranks = [by_name.get("ranks") or by_name.get("processes") for by_name in params]
        names = [
            f"{name}, {count} ranks" if count else name for name, count in zip(names, ranks, strict=True)
        ]
    if len(set(names)) < len(names):
        names = [
            name if key.size is None else f"{name}, {format_size(key.size)}"
            for name, key in zip(names, keys, strict=True)
        ]
    return names


def value_axis(
    title: str, courses: Sequence[Course], unit: str, also: Iterable[float] = (), most: int = 9
) -> Axis:
    """The axis of what was measured: all medians, `also`, and a little about the usual ones, so that small
    noise looks small. Single samples may lie outside.

    Logarithmic where series differ by a large factor. most: labels that there is room for.
    """
    held = [*also]
    for course in courses:
        medians = [night.median for night in course.nights if not math.isnan(night.median)]
        held += medians
        held += [night.again for night in course.nights if not math.isnan(night.again)]
        held += [median(medians) * share for share in (1 - _ABOUT, 1 + _ABOUT) if medians]
    log = len(courses) > 1 and max(held, default=0.0) > _LINEAR * min(held, default=0.0) > 0
    return quantity_axis(title, held, unit, log=log, most=most)


def traces(courses: Sequence[Course], y: Axis, *, marked: int = 0) -> Iterator[tuple[Trace, str]]:
    """What a chart of some series shows, each with how to read it.

    marked: the last nights have marks that can be pointed at, where it is not 0.
    """
    crowded = max((len(course.nights) for course in courses), default=0) >= _CROWDED
    for number, course in enumerate(courses):
        colour = CYCLE[number % len(CYCLE)]
        pieces = list(_pieces(course.nights))
        some = course.nights[-marked:] if marked else ()
        points = _marks([night for night in some if not math.isnan(night.median)], y)
        yield (
            Trace(
                course.name, colour, width=1.3, marks=points,
                lines=tuple(tuple(_steps(piece, "median")) for piece in pieces),
                bands=tuple(
                    (*_steps(piece, "low"), *reversed(list(_steps(piece, "high"))))
                    for piece in pieces
                    if any(step.night.low < step.night.high for step in piece)
                ),
                small=crowded, hover=True,
            ),
            "a step is the median of a night, the shade the range of its samples, a gap a night without",
        )  # fmt: skip
    for number, course in enumerate(courses):
        colour = CYCLE[number % len(CYCLE)] if len(courses) > 1 else "ink"
        left = {step.night.time: step.left for piece in _pieces(course.nights) for step in piece}
        for time, words in course.changes:
            begin = left.get(time, time)
            yield (
                Trace(
                    words, colour, lines=(((begin, y.low), (begin, y.high)),), dashes=(4.0, 3.0), width=1.0
                ),
                "a vertical line is where another level began",
            )
    again = [night for course in courses for night in course.nights if not math.isnan(night.again)]
    if again:
        marks = tuple(Mark(night.time, night.again, night.tip, night.record) for night in again)
        yield (
            Trace("measured again", "orange", marks=marks, shape=2, hollow=True, small=crowded),
            "a triangle is the median of a night's second measurement",
        )
    for verdict, (shape, hollow) in _VERDICTS.items():
        of_verdict = [night for course in courses for night in course.nights if night.verdict == verdict]
        if of_verdict:
            yield (
                Trace(verdict, "bad", marks=_marks(of_verdict, y), shape=shape, hollow=hollow, small=crowded),
                "red marks are nights whose verdict was not PASS, at the foot those without a usable number",
            )
    lost = [
        night
        for course in courses
        for night in course.nights
        if math.isnan(night.median) and not night.verdict
    ]
    if lost:
        yield (
            Trace("nights without a usable number", "bad", marks=_marks(lost, y), shape=4, hollow=True),
            "crosses at the foot are nights without a usable number",
        )


def _marks(nights: Sequence[NightPoint], y: Axis) -> tuple[Mark, ...]:
    foot = y.low * (y.high / y.low) ** _FOOT if y.log else y.low + _FOOT * (y.high - y.low)
    return tuple(
        Mark(night.time, foot if math.isnan(night.median) else night.median, night.tip, night.record)
        for night in nights
    )


class _Step(NamedTuple):
    """A night with a value, from where to where it is drawn."""

    #: Where its line begins, in seconds since 1970.
    left: float
    #: Where its line ends, in seconds since 1970.
    right: float
    #: What was measured in it; it has a value.
    night: NightPoint


def _pieces(nights: Sequence[NightPoint]) -> Iterator[list[_Step]]:
    """Nights that follow each other without a gap: each reaches half-way to its neighbours."""
    known = [night for night in nights if not math.isnan(night.median)]
    gaps = [after.time - before.time for before, after in pairwise(known)]
    usual = median(gaps) if gaps else _DAY_S
    piece: list[_Step] = []
    for number, night in enumerate(known):
        before = gaps[number - 1] if number else math.inf
        after = gaps[number] if number < len(gaps) else math.inf
        left, right = ((gap if gap <= _NEXT * usual else usual) / 2 for gap in (before, after))
        if before > _NEXT * usual and piece:
            yield piece
            piece = []
        piece.append(_Step(night.time - left, night.time + right, night))
    if piece:
        yield piece


def _steps(piece: Sequence[_Step], which: str) -> Iterator[Place]:
    for step in piece:
        value = getattr(step.night, which)
        yield step.left, value
        yield step.right, value
