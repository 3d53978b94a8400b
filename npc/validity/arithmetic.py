"""Rate × time against the bytes that were moved: numbers of one row that must agree within their digits."""

from __future__ import annotations

from typing import Final

from npc.records.units import format_quantity

#: A difference of this share is none: tools print three digits or more, and the smallest mistake of units is
#: 2.4 %.
TOLERANCE: Final = 0.01
#: By factor, the mistake that makes a rate too high by it, and the mistake that makes it too low.
_SLIPS: Final = {
    2**20 / 10**6: ("MB converted as MiB", "MiB printed as MB"),
    2**10 / 10**3: ("kB converted as KiB", "KiB printed as kB"),
    2**30 / 10**9: ("GB converted as GiB", "GiB printed as GB"),
    2.0: ("both directions, or half of the time", "one of two directions, or twice the time"),
    8.0: ("bits printed as bytes", "bytes printed as bits"),
    1e3: ("the prefix is off by 1000", "the prefix is off by 1000"),
}


def contradiction(
    rate: float, moved_bytes: float, seconds: float, rate_step: float = 0.0, time_step: float = 0.0
) -> str:
    """What is wrong with a rate (B/s) of `moved_bytes` in `seconds`, with the factor if it is a known one;
    empty if they agree.

    moved_bytes: as the tool counts them; some count a message several times. rate_step, time_step: one step
    of the last printed digit (B/s, s); half of it is rounding.
    """
    longest, shortest = seconds + time_step / 2, seconds - time_step / 2
    if longest <= 0:
        return f"a time of 0 s is printed beside {format_quantity(rate, 'B/s')}"
    least = (moved_bytes / longest - rate_step / 2) * (1 - TOLERANCE)
    most = (moved_bytes / shortest + rate_step / 2) * (1 + TOLERANCE) if shortest > 0 else float("inf")
    if least <= rate <= most:
        return ""
    if not seconds:
        return f"a time of 0 s is printed beside {format_quantity(rate, 'B/s')}"
    why = ""
    for factor, (too_high, too_low) in _SLIPS.items():
        for true, mistake in ((rate / factor, too_high), (rate * factor, too_low)):
            if least <= true <= most and not why:
                why = f": a factor of {factor:.5g}, {mistake}"
    return (
        f"{format_quantity(rate, 'B/s')} is printed, but {format_quantity(moved_bytes, 'B')} in "
        f"{format_quantity(seconds, 's')} are {format_quantity(moved_bytes / seconds, 'B/s')}{why}"
    )


def row_contradiction(rate: str, rate_unit: float, moved_bytes: float, time: str, time_unit: float) -> str:
    """`contradiction` of a row's numbers as they are printed. rate_unit, time_unit: B/s and s of a printed
    1."""
    return contradiction(
        float(rate) * rate_unit,
        moved_bytes,
        float(time) * time_unit,
        last_digit(rate) * rate_unit,
        last_digit(time) * time_unit,
    )


def message_contradiction(rate: str, rate_unit: float, size_bytes: float, messages: str) -> str:
    """`contradiction` of a row's rate with its messages a second, as both are printed."""
    a_second = float(messages)
    if not a_second:
        return ""
    step = last_digit(messages) / a_second  # of the time that these messages take
    return contradiction(
        float(rate) * rate_unit, size_bytes * a_second, 1.0, last_digit(rate) * rate_unit, step
    )


def last_digit(printed: str) -> float:
    """One step of the last digit of a printed number: 0.01 of ``3.81``, 1000 of ``1.2e+04``."""
    digits, _, exponent = printed.lower().partition("e")
    return float(f"1e{int(exponent or 0) - len(digits.partition('.')[2])}")
