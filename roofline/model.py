"""The roofline: no kernel is faster than its peak, nor than any path its bytes must take.

P(I) = min(P_peak, I·b) for one bandwidth ceiling (Williams, Waterman, Patterson, Roofline, CACM 52(4),
2009), and extended by the network P = min(P_peak, I_mem·b_mem, I_net·b_net) (Bartelheimer, Zhu,
Neuwirth, Automated Network Performance Characterization for HPC Systems, 2023). The two intensities are
two numbers of one program: FLOP per byte of memory traffic, and FLOP per byte on the network.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence


def attainable(peak: float, paths: Iterable[tuple[float, float]] = ()) -> float:
    """FLOP/s that a kernel can reach: min(peak, I₁·b₁, I₂·b₂, …).

    peak: FLOP/s. paths: (operational intensity in FLOP/byte, bandwidth in B/s) for memory, network, …;
    an infinite intensity is a kernel that moves nothing there. Raises ValueError for a peak or bandwidth
    that is not positive and finite, and for a negative intensity.
    """
    _positive("peak", peak)
    return min([peak, *(path_limit(intensity, bandwidth) for intensity, bandwidth in paths)])


def path_limit(intensity: float, bandwidth: float) -> float:
    """FLOP/s that a path of `bandwidth` B/s allows at `intensity` FLOP/byte: I·b.

    Raises ValueError for a bandwidth that is not positive and finite, and for a negative intensity.
    """
    _positive("bandwidth", bandwidth)
    if not intensity >= 0:
        raise ValueError(f"operational intensity: {intensity} FLOP/byte")
    return intensity * bandwidth


def ridge_point(peak: float, bandwidth: float) -> float:
    """The operational intensity P/b in FLOP/byte from which on the peak limits and not the bandwidth.

    Raises ValueError for values that are not positive and finite.
    """
    _positive("peak", peak)
    _positive("bandwidth", bandwidth)
    return peak / bandwidth


def message_seconds(times: Sequence[tuple[float, float]], size: float) -> float:
    """Seconds of one message of `size` bytes, on straight lines between (size, seconds) measured, ascending.

    Below the smallest size it is that of the smallest, above the largest it grows with the bytes.
    """
    place = bisect_left(times, (size, 0.0))
    if place == 0:
        return times[0][1]
    before, seconds = times[place - 1]
    if place == len(times):
        return size / before * seconds
    after, longer = times[place]
    part = (size - before) / (after - before)
    return (1 - part) * seconds + part * longer


def _positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name}: {value} is not positive and finite")
