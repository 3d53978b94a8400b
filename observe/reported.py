"""What a program says of itself: its rate of FLOP, and for how long it computed at that."""

from __future__ import annotations

import math
import re
from typing import Final

from npc.records.units import PREFIXES

_FLOPS: Final = re.compile(r"([kKMGTP]?)FLOP(?:/s|S)", re.IGNORECASE)


def flops_scale(unit: str) -> float:
    """FLOP/s of one `unit`. Raises ValueError."""
    match = _FLOPS.fullmatch(unit)
    if not match:
        raise ValueError(f"--flops-unit {unit}: expected FLOP/s, MFLOP/s, GFLOP/s, …")
    return PREFIXES[match[1]]


def pattern_of(option: str, text: str | None) -> re.Pattern[str] | None:
    """The pattern of an option, if it was given. Raises ValueError and re.error."""
    pattern = re.compile(text) if text else None
    if pattern is not None and pattern.groups < 1:
        raise ValueError(f"{option} {text!r}: it has no group; put parentheses around the number")
    return pattern


def reported_by(
    text: str,
    pattern: re.Pattern[str] | None,
    scale: float,
    duration: re.Pattern[str] | None,
    flop: float | None,
) -> dict[str, float]:
    """What the program says of itself by `pattern` and `duration`, and what the user knows."""
    reported = {}
    rate = _last_number(pattern, text)
    if rate is not None:
        reported["flops"] = rate * scale
        seconds = _last_number(duration, text)
        if seconds is not None:
            reported["flop"] = rate * scale * seconds
    if flop is not None:
        reported["flop"] = flop
    return reported


def _last_number(pattern: re.Pattern[str] | None, text: str) -> float | None:
    """The first group of the last match that is a number above zero."""
    values = None
    for match in pattern.finditer(text) if pattern is not None else ():
        try:
            number = float(match[1])
        except (TypeError, ValueError):
            continue
        if math.isfinite(number) and number > 0:
            values = number
    return values
