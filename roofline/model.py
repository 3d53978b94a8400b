"""The roofline: no kernel is faster than its peak, nor than any path its bytes must take.

P(I) = min(P_peak, I·b) for one bandwidth ceiling (Williams, Waterman, Patterson, Roofline, CACM 52(4),
2009), and extended by the network P = min(P_peak, I_mem·b_mem, I_net·b_net) (Bartelheimer, Zhu,
Neuwirth, Automated Network Performance Characterization for HPC Systems, 2023). The two intensities are
two numbers of one program: FLOP per byte of memory traffic, and FLOP per byte on the network.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence


def attainable(peak: float, paths: Iterable[tuple[float, float]] = ()) -> float:
    """FLOP/s that a kernel can reach: min(peak, I₁·b₁, I₂·b₂, …).

    peak: FLOP/s. paths: (operational intensity in FLOP/byte, bandwidth in B/s) for memory, network, …;
    an infinite intensity is a kernel that moves nothing there.
    """
    return min([peak, *(intensity * bandwidth for intensity, bandwidth in paths)])


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
