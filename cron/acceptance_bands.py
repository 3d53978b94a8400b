"""The acceptance bands of ``platform.toml``, which no night may leave.

::

    [bands]
    "qperf rc_bw" = { low = 6.03e9 }                     # B/s; of the bandwidth at every size
    "qperf rc_bw bandwidth 64K" = { low = 6.0e9 }
    "osu osu_latency latency 8" = { high = 2.5e-6 }      # s

A key is a pattern of series (`cron.series.matches`); values are in SI base units. Where it does not name the
metric, ``low`` is for bandwidth, rates and FLOP/s, whichever the test has first in this order, ``high`` for
latency and time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cron.series import matches
from npc.machine.platform import InvalidPlatform, Platform
from npc.records.series import Series

#: What a band without a metric's name is for.
_HEADLINES: Final = {
    "low": ("bandwidth", "flops", "message_rate", "update_rate"),
    "high": ("latency", "time"),
}


class Band(NamedTuple):
    """A band: values below `low`, or above `high`, fail; None is no limit. name: its key in the file."""

    name: str
    low: float | None
    high: float | None

    def broken_by(self, value: float) -> bool:
        """Whether a value lies outside."""
        return (self.low is not None and value < self.low) or (self.high is not None and value > self.high)


def bands_of(platform: Platform | None) -> tuple[Band, ...]:
    """The bands of a platform. Raises `npc.machine.platform.InvalidPlatform`, naming key and mend."""
    found = []
    for name, band in (platform.bands if platform else {}).items():
        if not isinstance(band, dict) or not band or not set(band) <= {"low", "high"}:
            raise InvalidPlatform(
                f"bands.{name!r}: {band!r} is no band: write {{ low = 6.0e9 }}, high, or both"
            )
        for limit in band.values():
            if isinstance(limit, bool) or not isinstance(limit, int | float) or limit != limit:
                raise InvalidPlatform(f"bands.{name!r}: {limit!r} is no number in SI base units")
        found.append(Band(name, band.get("low"), band.get("high")))
    return tuple(found)


def band_of(key: Series, bands: Sequence[Band], keys: Iterable[Series]) -> Band | None:
    """The band that holds for a series: the last one in the file that names it. keys: all series."""
    named = (_limited(band, key, keys) for band in reversed(bands) if matches(band.name, key))
    return next((band for band in named if (band.low, band.high) != (None, None)), None)


def _limited(band: Band, key: Series, keys: Iterable[Series]) -> Band:
    """What of a band is meant for a series: all where it names a metric, the third word."""
    if len([word for word in band.name.split() if "=" not in word]) > 2:
        return band
    have = {other.metric for other in keys if (other.benchmark, other.case) == (key.benchmark, key.case)}
    meant = {
        side: next((metric for metric in metrics if metric in have), None) == key.metric
        for side, metrics in _HEADLINES.items()
    }
    return Band(band.name, band.low if meant["low"] else None, band.high if meant["high"] else None)
