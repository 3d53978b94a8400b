"""Hotspots as lines for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from npc.columns import columns
from npc.observe.hotspots.loop_lines import loop_lines
from npc.observe.hotspots.records import Hotspot, Hotspots
from npc.records.units import plural, shortened

#: Functions that are shown; the file has more.
_MOST_SHOWN: Final = 8
_LONGEST_NAME: Final = 56
#: Where ranks' shares differ by more, Amdahl's law for the mean share says little.
_FAR_APART: Final = 0.2


def hotspots(recorded: Hotspots) -> Iterator[str]:
    """A line for each function, the hottest first: its share of the samples with the 95 % interval, the
    shares of the ranks with least and with most, the program's speedup at most if the function were twice
    as fast or took no time, and what bounds it."""
    if recorded.status != "ok":
        yield f"hotspots: {recorded.status}"
        return
    seconds = recorded.samples / recorded.rate if recorded.rate else 0.0
    yield (
        f"hotspots: {recorded.samples} samples of {plural(recorded.ranks, 'rank')} at "
        f"{recorded.rate:g} Hz, {seconds:.4g} s of CPU time ({recorded.source})"
    )
    shown = recorded.hotspots[:_MOST_SHOWN]
    if not shown:
        return
    rows = [("function", "share", "ranks", "2x", "inf", "bound")]
    for hotspot in shown:
        low, high = wilson(hotspot.share, recorded.samples)
        share = f"{hotspot.share:.1%} ±{(high - low) / 2:.1%}"
        ranks = f"{hotspot.least:.0%}-{hotspot.most:.0%}"
        twice, gone = f"{hotspot.speedup(2):.2f}x", _times(hotspot.speedup(math.inf))
        rows.append((_name(hotspot), share, ranks, twice, gone, _bound(hotspot)))
    yield from columns(rows, right=range(1, 5), indent="  ")
    yield from map("  {}".format, loop_lines(shown))
    for reason in dict.fromkeys(hotspot.evidence for hotspot in shown if _is_unknown(hotspot)):
        yield f"  bound unknown: {reason}"
    yield (
        "  2x, inf: the program's speedup at most, if the function is so much faster and all ranks are "
        "alike (Amdahl)"
    )
    if any(hotspot.most - hotspot.least > _FAR_APART for hotspot in shown):
        yield "  ranks differ: where the others wait for the rank with most, its share counts"
    if recorded.unresolved > 0:
        yield f"  {recorded.unresolved:.1%} of the samples have no symbol: the address is shown instead"
    for note in recorded.notes:
        yield f"  note: {note}"


def wilson(share: float, samples: int) -> tuple[float, float]:
    """The 95 % interval of a binomial share of n samples (Wilson, JASA 22, 1927)."""
    if not samples:
        return 0.0, 1.0
    z = 1.959964
    centre = share + z * z / (2 * samples)
    half = z * math.sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples))
    scale = 1 + z * z / samples
    return max((centre - half) / scale, 0.0), min((centre + half) / scale, 1.0)


def _name(hotspot: Hotspot) -> str:
    return shortened(f"{hotspot.function} ({hotspot.module})", _LONGEST_NAME)


def _is_unknown(hotspot: Hotspot) -> bool:
    return hotspot.bound == "unknown" and not hotspot.metrics


def _bound(hotspot: Hotspot) -> str:
    return "unknown" if _is_unknown(hotspot) else f"{hotspot.bound}: {hotspot.evidence}"


def _times(value: float) -> str:
    return f"{value:.2f}x" if value < 100 else ">99"
