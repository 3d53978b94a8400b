"""Axes of charts: from where to where they go, and their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from typing import Final, NamedTuple

from npc.records.units import format_quantity, format_size

#: Labels along an axis at most.
_MOST_TICKS: Final = 9
#: Plain numbers over a wider range than this are labelled as powers of ten.
_POWERS: Final = 1e5
_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_DAY_S: Final = 86400
#: From tick to tick of a time axis, and in months where these are too many.
_TIME_STEPS_S: Final = (60, 300, 900, 3600, 7200, *(days * _DAY_S for days in (1, 2, 7, 14)))
_MONTHS: Final = (1, 2, 3, 6, 12, 24, 60, 120)


class Tick(NamedTuple):
    """A labelled place on an axis."""

    #: Where it is, in the axis's unit.
    value: float
    #: The text there.
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear or logarithmic axis."""

    #: What it shows; the screen has room for the first line only.
    title: str
    #: Where it begins, in the unit of its values.
    low: float
    #: Where it ends, in the unit of its values.
    high: float
    #: Whether it is logarithmic.
    log: bool
    #: Its labelled places.
    ticks: tuple[Tick, ...]
    #: Base of the logarithmic scale; of no meaning on a linear one.
    base: float = 10

    def share(self, value: float) -> float:
        """Where `value` lies: 0 at `low`, 1 at `high`; values outside lie outside."""
        if self.log:
            if value <= 0:
                return -1.0
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def quantity_axis(
    title: str, values: Iterable[float], unit: str, *, log: bool = True, most: int = _MOST_TICKS
) -> Axis:
    """An axis of a quantity in its SI unit, from below the least to above the largest of `values`.

    most: labels that a linear one has room for.
    """
    known = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    if log:
        low, high = (low / 1.25, high * 1.25) if high > low else (low / 2, high * 2)
        ticks = log_ticks(low, high)
    else:
        room = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
        low, high = (max(0.0, low - room) if low >= 0 else low - room), high + room
        ticks = linear_ticks(low, high, most)
    digits = _digits(ticks)
    return Axis(
        title, low, high, log, tuple(Tick(value, format_quantity(value, unit, digits)) for value in ticks)
    )


def decade_axis(title: str, low: float, high: float, unit: str = "") -> Axis:
    """A logarithmic axis from `low` to `high`, labelled at powers of ten where these are many."""
    ticks = log_ticks(low, high)
    ticks = [tick for tick in ticks if f"{tick:e}".startswith("1")] if len(ticks) > _MOST_TICKS else ticks
    powers = all(f"{tick:e}".startswith("1.0") for tick in ticks) and high / low > _POWERS
    labels = [
        format_quantity(tick, unit, 3) if unit else _power(tick) if powers else f"{tick:g}" for tick in ticks
    ]
    return Axis(title, low, high, True, tuple(map(Tick, ticks, labels)))


def _power(value: float) -> str:
    """``10⁻³``."""
    exponent = f"{round(math.log10(value))}".translate(_SUPERSCRIPTS)
    return f"10{exponent}"


def size_axis(title: str, sizes: Iterable[float]) -> Axis:
    """A logarithmic axis of sizes in bytes, labelled at powers of two. No bytes at all stand at one half."""
    known = [max(size, 0.5) for size in sizes] or [1.0]
    low, high = min(known) / 1.3, max(known) * 1.3
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, math.ceil((last - first) / (_MOST_TICKS - 1)))
    powers = range(math.ceil(first / step) * step, last + 1, step)
    ticks = [Tick(2.0**power, format_size(2**power)) for power in powers if power >= 0]
    if low < 0.5:
        ticks = [Tick(0.5, "0"), *(tick for tick in ticks if tick.value > 1)]
    return Axis(title, low, high, True, tuple(ticks), base=2)


def time_axis(title: str, moments: Iterable[float], most: int = _MOST_TICKS) -> Axis:
    """An axis of moments (seconds since 1970), labelled by days (UTC), or by times if half a day has all.

    most: labels that there is room for.
    """
    known = list(moments) or [0.0]
    low, high = min(known), max(known)
    within_a_day = 0 < high - low < _DAY_S / 2
    room = max(0.02 * (high - low), 60 if within_a_day else _DAY_S / 2)
    low, high = low - room, high + room
    steps = [step for step in _TIME_STEPS_S if within_a_day or step >= _DAY_S]
    step = next((step for step in steps if (high - low) / step <= most), 0)
    if not step:
        return Axis(title, low, high, False, _month_ticks(low, high, most))
    base, form = (step, "%m-%d %H:%M") if step < _DAY_S else (_DAY_S, "%Y-%m-%d")
    ticks = tuple(
        Tick(float(at), datetime.fromtimestamp(at, timezone.utc).strftime(form))
        for at in range(math.ceil(low / base) * base, math.floor(high) + 1, step)
    )
    return Axis(title, low, high, False, ticks)


def _month_ticks(low: float, high: float, most: int) -> tuple[Tick, ...]:
    """The first days of months between two moments, `most` of them at most."""
    years = range(
        datetime.fromtimestamp(low, timezone.utc).year, datetime.fromtimestamp(high, timezone.utc).year + 1
    )
    months = [datetime(year, month, 1, tzinfo=timezone.utc) for year in years for month in range(1, 13)]
    ticks: list[Tick] = []
    for step in _MONTHS:
        every = (month for month in months if (12 * month.year + month.month - 1) % step == 0)
        ticks = [Tick(month.timestamp(), f"{month:%Y-%m}") for month in every]
        ticks = [tick for tick in ticks if low <= tick.value <= high]
        if len(ticks) <= most:
            break
    return tuple(ticks)


def log_ticks(low: float, high: float) -> list[float]:
    """Round values between two positive ones: powers of ten, with 2 and 5 between where there is room."""
    decades = math.log10(high / low)
    steps: tuple[float, ...] = (1.0,)
    if decades < 1:
        return [value for value in linear_ticks(low, high) if value > 0]
    if decades < 3:
        steps = (1.0, 2.0, 5.0)
    every = max(1, math.ceil(decades / _MOST_TICKS))
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [
        step * 10.0**power
        for power in powers
        if power % every == 0
        for step in steps
        if low <= step * 10.0**power <= high
    ]


def linear_ticks(low: float, high: float, most: int = _MOST_TICKS) -> list[float]:
    """Up to `most` multiples of 1, 2 or 5 times a power of ten between two values."""
    raw = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def _digits(ticks: Sequence[float]) -> int:
    """Significant digits with which neighbouring labels differ."""
    for digits in range(1, 7):
        if all(f"{a:.{digits}g}" != f"{b:.{digits}g}" for a, b in pairwise(ticks)) and all(
            math.isclose(float(f"{tick:.{digits}g}"), tick, rel_tol=1e-9) for tick in ticks
        ):
            return max(digits, 3) if any(tick >= 100 for tick in ticks) else digits
    return 6
