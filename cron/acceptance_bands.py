"""The acceptance bands of ``platform.toml``, which no night may leave.

::

    [bands]
    "qperf rc_bw 4 MiB" = { low = 6.03e9 }               # B/s; of messages of 4 MiB and of no others
    "qperf tcp_bw 1MiB.." = { low = 1.1e9 }              # of 1 MiB and more; "..64KiB", "1MiB..16MiB" as well
    "stream triad *" = { low = 80e9 }                    # of every size, and of tests without one
    "osu osu_latency latency 8" = { high = 2.5e-6 }      # s

A key is benchmark, case, metric if need be, and the size, then perhaps ``NAME=VALUE``: words as in
`npc.cron.series.matches`, but the size is always named, because a limit holds where it was measured. Values
are in SI base units. Where the key does not name the metric, ``low`` is for bandwidth, rates and FLOP/s,
whichever the test has first in this order, ``high`` for latency and time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from npc.cron.series import matches, pattern_words
from npc.machine.platform import InvalidPlatform, Platform
from npc.records.series import Series
from npc.records.units import parse_size

#: What a band without a metric's name is for.
_HEADLINES: Final = {
    "low": ("bandwidth", "flops", "message_rate", "operation_rate", "update_rate"),
    "high": ("latency", "time"),
}


class Band(NamedTuple):
    """A band that values must not leave, in SI base units."""

    #: Its key in the file.
    name: str
    #: Of its series, without the size.
    pattern: str
    #: Least and most bytes; None: every size, and series without a size.
    sizes: tuple[float, float] | None
    #: Lower values fail; None: no limit.
    low: float | None
    #: Higher values fail; None: no limit.
    high: float | None

    def holds_for(self, key: Series) -> bool:
        """Whether it is meant for a series."""
        return matches(self.pattern, key) and (
            self.sizes is None or (key.size is not None and self.sizes[0] <= key.size <= self.sizes[1])
        )

    def broken_by(self, value: float) -> bool:
        """Whether a value lies outside."""
        return (self.low is not None and value < self.low) or (self.high is not None and value > self.high)


def bands_of(platform: Platform | None) -> tuple[Band, ...]:
    """The bands of a platform. Raises `npc.machine.platform.InvalidPlatform`, naming key and mend."""
    bands = []
    for name, band in (platform.bands if platform else {}).items():
        if not isinstance(band, dict) or not band or not set(band) <= {"low", "high"}:
            raise InvalidPlatform(
                f"bands.{name!r}: {band!r} is no band: write {{ low = 6.0e9 }}, high, or both"
            )
        for limit in band.values():
            if isinstance(limit, bool) or not isinstance(limit, int | float) or limit != limit:
                raise InvalidPlatform(f"bands.{name!r}: {limit!r} is no number in SI base units")
        bands.append(Band(name, *_pattern_and_sizes(name), band.get("low"), band.get("high")))
    return tuple(bands)


def _pattern_and_sizes(name: str) -> tuple[str, tuple[float, float] | None]:
    """What a key names. Raises `InvalidPlatform` where it names no size."""
    words, named = pattern_words(name)
    try:
        if len(words) not in (3, 4):
            raise ValueError
        sizes = None if words[-1] == "*" else _range(words[-1])
    except ValueError:
        test = " ".join(words[:2]) if len(words) > 1 else f"{name} TEST"
        raise InvalidPlatform(
            f"bands.{name!r} names no size, and a limit holds only where it was measured: write "
            f'"{test} 4 MiB" for one size, "{test} 1MiB..16MiB", "{test} 1MiB.." or "{test} ..64KiB" for '
            "several, "
            f'"{test} *" for every size and for tests that have none'
        ) from None
    return " ".join((*words[:-1], *map("=".join, named.items()))), sizes


def _range(word: str) -> tuple[float, float]:
    """The least and the most bytes of a size, or of several with dots between. Raises ValueError."""
    low, dots, high = word.partition("..")
    if not dots:
        low = high = word
    least, most = parse_size(low) if low else 0, parse_size(high) if high else math.inf
    if least > most or not (low or high):
        raise ValueError
    return least, most


def band_of(key: Series, bands: Sequence[Band], keys: Iterable[Series]) -> Band | None:
    """The band that holds for a series: the last one in the file that names it. keys: all series."""
    named = (_limited(band, key, keys) for band in reversed(bands) if band.holds_for(key))
    return next((band for band in named if (band.low, band.high) != (None, None)), None)


def _limited(band: Band, key: Series, keys: Iterable[Series]) -> Band:
    """What of a band is meant for a series: all where it names a metric, the third word."""
    if len(pattern_words(band.pattern)[0]) > 2:
        return band
    have = {other.metric for other in keys if (other.benchmark, other.case) == (key.benchmark, key.case)}
    meant = {
        side: next((metric for metric in metrics if metric in have), None) == key.metric
        for side, metrics in _HEADLINES.items()
    }
    return band._replace(low=band.low if meant["low"] else None, high=band.high if meant["high"] else None)
