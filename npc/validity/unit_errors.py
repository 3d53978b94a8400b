"""Slips of units: what a value above its ceiling would be if a unit had been taken for another."""

from __future__ import annotations

from typing import Final

from npc.records.units import format_quantity

#: Factor → the mistake that multiplies by it; the commonest first, since several may fit.
_SLIPS: Final = {
    2**20 / 10**6: "MiB/s were taken for MB/s",
    2**30 / 10**9: "GiB/s were taken for GB/s",
    2**10 / 10**3: "KiB/s were taken for kB/s",
    8.0: "bits were taken for bytes",
    1e3: "a prefix is off by 1000",
    1e6: "a prefix is off by 10^6",
}
#: A measurement of at least this part of its ceiling makes a slip the likeliest explanation.
_PLAUSIBLE: Final = 0.5


def likely_slip(value: float, ceiling: float, unit: str) -> str:
    """The mistake that explains a value above its ceiling, as the end of a sentence; empty if none does.

    A factor fits if the value divided by it lies between half the ceiling and the ceiling.
    """
    for factor, mistake in _SLIPS.items():
        if _PLAUSIBLE * ceiling <= value / factor <= ceiling:
            return f"; divided by {factor:.7g} it is {format_quantity(value / factor, unit)}: {mistake}?"
    return ""
