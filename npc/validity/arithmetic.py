"""Rate × time against the bytes that were moved: two numbers of one line that must agree."""

from __future__ import annotations

from typing import Final

from npc.records.units import format_quantity

#: The smallest slip that is to be found is that of units, 2.4 %; tools print three digits or more.
TOLERANCE: Final = 0.01


def contradiction(
    rate: float, moved_bytes: float, seconds: float, rate_step: float = 0.0, time_step: float = 0.0
) -> str:
    """What is wrong with a rate (B/s) of `moved_bytes` in `seconds`; empty if they agree.

    rate_step, time_step: one step of the last printed digit (B/s, s); half of it is rounding.
    """
    if seconds <= 0:
        return f"a time of 0 s is printed beside {format_quantity(rate, 'B/s')}"
    least = moved_bytes / (seconds + time_step / 2) - rate_step / 2
    shortest = seconds - time_step / 2
    most = moved_bytes / shortest + rate_step / 2 if shortest > 0 else float("inf")
    if least * (1 - TOLERANCE) <= rate <= most * (1 + TOLERANCE):
        return ""
    return (
        f"{format_quantity(rate, 'B/s')} is printed, but {format_quantity(moved_bytes, 'B')} in "
        f"{format_quantity(seconds, 's')} are {format_quantity(moved_bytes / seconds, 'B/s')}"
    )
